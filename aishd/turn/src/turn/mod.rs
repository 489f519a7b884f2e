//! One turn: model requests and tool calls until the model answers in plain text.
//!
//! `handle` is the whole interface. It never waits and never looks at a clock: an input goes in, facts
//! and work come out, and the conversation's actor stores the facts and does the work. Text that streams
//! does not pass through here; what the machine needs to know of it comes with the end of the stream.

mod asked_before;
mod call_list_progress;
mod effect;
mod fall_back;
mod input;
mod norris_steps;
mod pending_actions;
mod replies;
mod retry;
mod round;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use aishd_log::confirm::Confirm;
use aishd_log::event::{Event, ProviderLevel, StopReason};
use aishd_log::eviction::Eviction;
use aishd_log::shell::{CommandProposal, OutputUse};
use aishd_log::tool_call::ToolCall;
use aishd_log::turn_error::TurnError;
use aishd_log::usage::Usage;
use aishd_model::fallback::{FallbackWay, SentSoFar};
use aishd_model::reply::{BrokenRequest, FinishReason, Reply};
pub use call_list_progress::CallListProgress;
pub use effect::Effect;
pub use input::{CallReturn, ConfirmEnd, StreamId, TurnInput};
pub use pending_actions::{OwedReplies, command_of, not_begun, unfinished_command};
pub use replies::{finish, refuse_calls, unknown_effect};

use self::asked_before::AskedBefore;
use self::call_list_progress::ReadyCall;
use self::replies::{refused, reply};
use self::retry::Retries;
use self::round::{Progress, Round};
use crate::run::RunState;

/// So often a server may stop in the middle of its own work, in one turn.
const MOST_PAUSES: u32 = 3;

/// What one input led to: facts to store first, then work to do.
#[derive(Debug, Default, PartialEq)]
pub struct Step {
    pub events: Vec<Event>,
    pub effects: Vec<Effect>,
}

impl Step {
    /// Adds what a later input led to.
    pub fn append(&mut self, later: Self) {
        self.events.extend(later.events);
        self.effects.extend(later.effects);
    }

    /// Whether the turn is over with this step.
    pub fn ends_turn(&self) -> bool {
        self.events
            .iter()
            .any(|it| matches!(it, Event::TurnFinished { .. }))
    }
}

#[derive(Debug, PartialEq)]
enum Phase {
    Streaming(StreamId),
    /// The server asked for a pause before anything was said.
    Waiting(StreamId),
    /// Calls of the last answer run, wait, or are asked about.
    Calling(Box<Round>),
    /// Stopped from outside; the stream still owes what had arrived.
    Stopping(StreamId, StopReason),
    Ended,
}

/// The machine.
#[derive(Debug)]
pub struct Turn {
    phase: Phase,
    /// Finished answers so far, which is the number of the next item.
    items: u32,
    /// Rounds of tool calls so far.
    depth: u32,
    max_depth: u32,
    retries: Retries,
    evicted: bool,
    /// Where a request goes whose server looks down.
    way: Option<FallbackWay>,
    /// What the request that is under way is the second try after.
    fell_back: Option<String>,
    usage: Option<Usage>,
    text: Arc<str>,
    asked_before: AskedBefore,
    /// The list whose calls it runs; then no model is asked.
    course: Option<Box<CallListProgress>>,
    /// It goes on by itself.
    run: Option<Box<RunState>>,
    /// What becomes of the outputs of its commands.
    given: OutputUse,
    /// What its first answer goes on from, where it does.
    before: String,
    /// The last answer called tools, so that the model is asked again.
    called: bool,
    /// How often its server has stopped in the middle of its own work.
    pauses: u32,
}

/// What a turn waits for that this daemon did not begin.
#[derive(Debug)]
pub enum PausedAt {
    /// A person is asked about the first call.
    Confirm(Box<Confirm>),
    /// Servers work on these calls by themselves.
    Calls(Vec<String>),
}

/// A turn that waits for a person or for servers, as a daemon finds it that was not there when it began.
#[derive(Debug)]
pub struct Paused {
    pub items: u32,
    /// Rounds of tool calls before this one.
    pub depth: u32,
    pub usage: Usage,
    pub text: Arc<str>,
    /// Calls and commands of the last answer that have no reply, in order; one that is asked about is the first.
    pub owing: Vec<OwedReplies>,
    /// The last answer called tools.
    pub called: bool,
    pub at: PausedAt,
    /// The list that it runs, as far as it has come.
    pub course: Option<Box<CallListProgress>>,
}

#[warn(clippy::wildcard_enum_match_arm)]
impl Turn {
    /// Begins with the first model request.
    pub fn start(max_depth: u32) -> (Self, Step) {
        let stream = StreamId(0);
        let turn = Self {
            phase: Phase::Streaming(stream),
            items: 0,
            depth: 0,
            max_depth,
            retries: Retries::at_most(0),
            evicted: false,
            way: None,
            fell_back: None,
            usage: None,
            text: Arc::default(),
            asked_before: AskedBefore::default(),
            course: None,
            run: None,
            given: OutputUse::default(),
            before: String::new(),
            called: false,
            pauses: 0,
        };
        let step = Step {
            events: vec![],
            effects: vec![Effect::OpenStream(stream)],
        };
        (turn, step)
    }

    /// Begins with the first calls of a list. No model is asked, so there is no limit of depth: the list is the limit.
    pub fn run(course: CallListProgress) -> (Self, Step) {
        let mut turn = Self {
            phase: Phase::Ended,
            items: 0,
            depth: 0,
            max_depth: 0,
            retries: Retries::at_most(0),
            evicted: false,
            way: None,
            fell_back: None,
            usage: None,
            text: Arc::default(),
            asked_before: AskedBefore::default(),
            course: Some(Box::new(course)),
            run: None,
            given: OutputUse::default(),
            before: String::new(),
            called: true,
            pauses: 0,
        };
        let mut step = Step::default();
        turn.next_wave(&mut step);
        (turn, step)
    }

    /// Goes on with a turn whose only open work is a confirm, or is done by others.
    pub fn resume(paused: Paused, max_depth: u32) -> Self {
        Self {
            phase: Phase::Calling(Box::new(Round::resume(paused.owing, paused.at))),
            items: paused.items,
            depth: paused.depth,
            max_depth,
            retries: Retries::at_most(0),
            evicted: false,
            way: None,
            fell_back: None,
            usage: Some(paused.usage),
            text: paused.text,
            asked_before: AskedBefore::default(),
            course: paused.course,
            run: None,
            given: OutputUse::default(),
            before: String::new(),
            called: paused.called,
            pauses: 0,
        }
    }

    /// Whether it runs a list of calls instead of asking a model.
    pub fn runs_list(&self) -> bool {
        self.course.is_some()
    }

    /// Its first answer goes on where this text broke off.
    pub fn goes_on_from(&mut self, before: String) {
        self.before = before;
    }

    /// Outputs of its commands go to the model at once, or with the next question.
    pub fn set_feed_back(&mut self, feeds_back: bool) {
        self.give(if feeds_back {
            OutputUse::AtOnce
        } else {
            OutputUse::WithNextQuestion
        });
    }

    fn give(&mut self, given: OutputUse) {
        self.given = given;
        if let Phase::Calling(round) = &mut self.phase {
            round.give(given);
        }
    }

    /// The confirm that this turn waits for.
    pub fn asking(&self) -> Option<&Confirm> {
        match &self.phase {
            Phase::Calling(round) => round.asking(),
            Phase::Streaming(_) | Phase::Waiting(_) | Phase::Stopping(..) | Phase::Ended => None,
        }
    }

    /// Whether it waits for a person or for a command that is not its own: nothing that works would say that it has to end.
    pub fn is_at_rest(&self) -> bool {
        match &self.phase {
            Phase::Calling(round) => round.asking().is_some() || round.is_held(),
            Phase::Streaming(_) | Phase::Waiting(_) | Phase::Stopping(..) | Phase::Ended => false,
        }
    }

    /// The number of the item that is being written or comes next.
    pub fn item(&self) -> u32 {
        self.items
    }

    /// One input of a turn that is not paused.
    #[expect(
        clippy::too_many_lines,
        reason = "one arm for each input in each phase, and nothing else"
    )]
    fn advance(&mut self, input: TurnInput) -> Step {
        let mut step = Step::default();
        match (std::mem::replace(&mut self.phase, Phase::Ended), input) {
            (Phase::Streaming(stream), TurnInput::ReplyFinished(from, reply)) if stream == from => {
                self.replied(reply, &mut step);
            }
            (Phase::Streaming(stream), TurnInput::ReplyFailed(from, broken, evictable))
                if stream == from =>
            {
                self.failed(stream, *broken, evictable, &mut step);
            }
            (Phase::Streaming(stream), TurnInput::Stopped(stop)) => {
                step.effects.push(Effect::Abandon);
                self.phase = Phase::Stopping(stream, stop);
            }
            (Phase::Stopping(stream, stop), TurnInput::ReplyAbandoned(from, partial))
                if stream == from =>
            {
                self.keep(partial, vec![], /*complete*/ false, &mut step);
                self.end(stop, None, &mut step);
            }
            (Phase::Stopping(stream, stop), TurnInput::ReplyFinished(from, reply))
                if stream == from =>
            {
                let calls = self.keep(reply, vec![], /*complete*/ true, &mut step);
                refuse_calls(&calls, stop, &mut step);
                self.end(stop, None, &mut step);
            }
            (Phase::Stopping(stream, stop), TurnInput::ReplyFailed(from, broken, _))
                if stream == from =>
            {
                self.keep(broken.partial, vec![], /*complete*/ false, &mut step);
                self.end(stop, None, &mut step);
            }
            (Phase::Waiting(stream), TurnInput::WaitElapsed(from)) if stream == from => {
                self.open(stream, &mut step);
            }
            (Phase::Waiting(_), TurnInput::Stopped(stop)) => {
                step.effects.push(Effect::Abandon);
                self.end(stop, None, &mut step);
            }
            (Phase::Calling(mut round), TurnInput::Judged(judged))
                if round.awaits(judged.len()) =>
            {
                let progress = round.judged(judged, &mut self.asked_before, &mut step);
                self.go_on(round, progress, &mut step);
            }
            (Phase::Calling(mut round), TurnInput::Answered(answer))
                if round.asks(answer.resolution.confirm) =>
            {
                let progress = round.on_confirm_end(*answer, &mut self.asked_before, &mut step);
                self.go_on(round, progress, &mut step);
            }
            (Phase::Calling(mut round), TurnInput::ToolReturned { call, returned })
                if round.runs(&call) =>
            {
                let progress = round.returned(&call, *returned, &mut self.asked_before, &mut step);
                self.go_on(round, progress, &mut step);
            }
            (Phase::Calling(mut round), TurnInput::SignInAsked { call, confirm })
                if round.runs(&call) =>
            {
                round.waits_for_sign_in(&call, confirm, &mut step);
                self.phase = Phase::Calling(round);
            }
            (Phase::Calling(mut round), TurnInput::CommandEnded { call, ended })
                if round.runs(&call) =>
            {
                let progress = round.ended(&call, *ended, &mut self.asked_before, &mut step);
                self.go_on(round, progress, &mut step);
            }
            (Phase::Calling(mut round), TurnInput::Freed) => {
                round.freed(&mut step);
                self.phase = Phase::Calling(round);
            }
            (Phase::Calling(round), TurnInput::Stopped(stop)) => {
                step.effects.push(Effect::Abandon);
                round.stop(stop, &mut step);
                self.end(stop, None, &mut step);
            }
            // Late: it answers a stream or call that this turn has already left behind, or stops what has stopped.
            (
                phase @ (Phase::Streaming(_)
                | Phase::Waiting(_)
                | Phase::Calling(_)
                | Phase::Stopping(..)
                | Phase::Ended),
                TurnInput::ReplyFinished(..)
                | TurnInput::ReplyFailed(..)
                | TurnInput::ReplyAbandoned(..)
                | TurnInput::WaitElapsed(_)
                | TurnInput::Judged(_)
                | TurnInput::Answered(_)
                | TurnInput::ToolReturned { .. }
                | TurnInput::SignInAsked { .. }
                | TurnInput::CommandEnded { .. }
                | TurnInput::Paused
                | TurnInput::Resumed
                | TurnInput::TimeIsOver
                | TurnInput::Freed
                | TurnInput::Stopped(_),
            ) => self.phase = phase,
        }
        step
    }

    fn replied(&mut self, reply: Reply, step: &mut Step) {
        self.retries.over();
        let stop = match reply.finish {
            Some(FinishReason::Length) => StopReason::MaxTokens,
            Some(FinishReason::ContentFilter) => StopReason::Refusal,
            Some(_) | None if reply.refused => StopReason::Refusal,
            Some(
                FinishReason::Stop
                | FinishReason::ToolCalls
                | FinishReason::Paused
                | FinishReason::Other,
            )
            | None => StopReason::End,
        };
        let goes_on = reply.finish == Some(FinishReason::Paused) && self.pauses < MOST_PAUSES;
        let remark = pending_actions::remark_of_end(&reply, goes_on);
        let before = std::mem::take(&mut self.before);
        let (lines, left_out) = pending_actions::proposed(&before, &reply, stop, self.items);
        let called = reply.calls.iter().filter_map(CommandProposal::of_call);
        let commands: Vec<CommandProposal> = called.chain(lines).collect();
        let calls = self.keep(reply, commands.clone(), /*complete*/ true, step);
        if left_out > 0 {
            let text = format!(
                "{left_out} more lines propose commands; they are too many or too long, and are not run"
            );
            step.events.push(status(ProviderLevel::Warning, text));
        }
        let remark = remark.map(|it| status(ProviderLevel::Warning, it.to_owned()));
        step.events.extend(remark);
        self.called = !calls.is_empty();
        let owing = OwedReplies::of_answer(calls, commands);
        if self.is_run() {
            self.replied_alone(stop, owing, step);
        } else if owing.is_empty() && goes_on {
            // It goes on when it is sent back as it is.
            self.pauses += 1;
            self.ask_again(step);
        } else if owing.is_empty() {
            self.end(stop, None, step);
        } else {
            self.act(owing, step);
        }
    }

    /// Begins what an answer wants done.
    fn act(&mut self, owing: Vec<OwedReplies>, step: &mut Step) {
        let mut round = Round::start(owing, self.given, step);
        if self.is_run() {
            round.goes_on_at_no();
        }
        self.phase = Phase::Calling(Box::new(round));
    }

    fn go_on(&mut self, round: Box<Round>, progress: Progress, step: &mut Step) {
        if let Some(course) = &mut self.course {
            step.events.iter().for_each(|it| course.note(it));
        }
        let in_circles = progress == Progress::Done && self.asked_before.goes_in_circles();
        match progress {
            Progress::Waits => self.phase = Phase::Calling(round),
            Progress::Done if self.runs_list() => self.next_wave(step),
            // What there is to hear waits for the next question.
            Progress::Done if !self.called && !round.is_heard() => {
                self.end(StopReason::End, None, step);
            }
            Progress::Done if in_circles && !self.is_run() => {
                let text = "the model goes round in a circle; the turn is over".to_owned();
                step.events.push(status(ProviderLevel::Warning, text));
                self.end(StopReason::ToolDepth, None, step);
            }
            Progress::Done => self.ask_again(step),
            Progress::Aborted => self.end(StopReason::Denied, None, step),
        }
    }

    /// The model hears what its calls came to, unless it has called often enough.
    fn ask_again(&mut self, step: &mut Step) {
        self.depth += 1;
        if self.is_run() {
            return self.next_step(step);
        }
        if self.depth >= self.max_depth {
            let text = format!("tool-call depth limit reached ({})", self.max_depth);
            step.events.push(status(ProviderLevel::Warning, text));
            self.end(StopReason::ToolDepth, None, step);
            return;
        }
        self.open(StreamId(self.depth * 16), step);
    }

    /// The calls of the list that can run now, or its end.
    fn next_wave(&mut self, step: &mut Step) {
        while let Some(course) = &self.course {
            let wave = course.next_wave();
            if wave.is_empty() {
                break;
            }
            let announced = wave.iter().map(|it| it.call().clone()).collect();
            self.announce(announced, step);
            let mut run = vec![];
            for ready in wave {
                match ready {
                    ReadyCall::Runs(call) => run.push(call),
                    ReadyCall::Barred(call, why) => {
                        let never_began = refused(None, "a call that it needs did not succeed");
                        self.emit(reply(&call, None, why, Some(never_began)), step);
                    }
                }
            }
            if !run.is_empty() {
                let run = run.into_iter().map(OwedReplies::Call).collect();
                self.phase = Phase::Calling(Box::new(Round::start(run, self.given, step)));
                return;
            }
        }
        self.end(StopReason::End, None, step);
    }

    /// Calls of the list, in the form in which a model would have made them.
    fn announce(&mut self, calls: Vec<ToolCall>, step: &mut Step) {
        let message = answer_with_calls(self.items, calls);
        self.items += 1;
        self.emit(message, step);
    }

    fn emit(&mut self, event: Event, step: &mut Step) {
        if let Some(course) = &mut self.course {
            course.note(&event);
        }
        step.events.push(event);
    }

    /// Every call of the list gets its reply, also where nothing will run any more.
    fn end_list(&mut self, stop: StopReason, step: &mut Step) {
        let Some(course) = &self.course else { return };
        self.text = course.summary().into();
        let rest = course.rest();
        if !rest.is_empty() {
            self.announce(rest.clone(), step);
            refuse_calls(&rest, stop, step);
        }
    }

    fn failed(
        &mut self,
        stream: StreamId,
        broken: BrokenRequest,
        evictable: Option<Box<Eviction>>,
        step: &mut Step,
    ) {
        let BrokenRequest {
            failure,
            mut partial,
            hint,
        } = broken;
        tell_cured(&mut partial, step);
        let next = StreamId(stream.0 + 1);
        let sent = SentSoFar {
            silent: partial.is_silent(),
            again: self.fell_back.is_some(),
        };
        // The second try is the last: nothing is waited for or left out for it.
        if sent.silent && !sent.again {
            if let Some(pause) = self.retries.pause(&failure, self.goes_elsewhere(&failure)) {
                let text = format!("{failure}; trying again in {} s", pause.as_secs().max(1));
                step.events.push(status(ProviderLevel::Warning, text));
                step.effects.push(Effect::Wait(next, pause));
                self.phase = Phase::Waiting(next);
                return;
            }
            if let (aishd_log::turn_error::FailureClass::ContextOverflow, Some(eviction), false) =
                (failure.class(), evictable, self.evicted)
            {
                self.evicted = true;
                let text = "the context is full; the older half of the conversation left it and stays in the log";
                step.events.push(Event::Evicted(eviction));
                step.events
                    .push(status(ProviderLevel::Warning, text.to_owned()));
                self.open(next, step);
                return;
            }
        }
        if self.fall_back(next, &failure, sent, step) {
            return;
        }
        self.keep(partial, vec![], /*complete*/ false, step);
        let error = TurnError {
            class: failure.class(),
            message: failure.to_string(),
            cause: self.fell_back.take(),
            hint,
        };
        self.end(StopReason::Upstream, Some(error), step);
    }

    fn open(&mut self, stream: StreamId, step: &mut Step) {
        // Each request begins with the turn's own preset.
        self.fell_back = None;
        self.phase = Phase::Streaming(stream);
        step.effects.push(Effect::OpenStream(stream));
    }

    /// Puts what the model said into the log, and returns the calls it made. What is not complete calls nothing.
    fn keep(
        &mut self,
        mut reply: Reply,
        commands: Vec<CommandProposal>,
        complete: bool,
        step: &mut Step,
    ) -> Vec<ToolCall> {
        tell_cured(&mut reply, step);
        if !complete && reply.is_silent() {
            return vec![];
        }
        for note in &reply.notes {
            step.events.push(status(ProviderLevel::Debug, note.clone()));
        }
        if let Some(model) = &reply.served_by {
            let text = format!("the server answered with the model {model}");
            step.events.push(status(ProviderLevel::Info, text));
        }
        if let Some(usage) = reply.usage {
            self.usage = Some(self.usage.unwrap_or_default().plus(usage));
        }
        let calls = if complete { reply.calls } else { vec![] };
        self.text = reply.text.into();
        let item = self.items;
        step.events.push(Event::AssistantMessage {
            item,
            text: Arc::clone(&self.text),
            reasoning: reply.reasoning,
            calls: calls.clone(),
            commands,
            extra: reply.extra,
            // Half an answer is sealed by nobody.
            sealed: reply.sealed.filter(|_| complete),
            complete,
            served_by: reply.served_by,
            usage: reply.usage,
            payee: None,
        });
        step.events
            .extend(replies::made_pictures(item, reply.pictures));
        self.items += 1;
        calls
    }

    fn end(&mut self, stop: StopReason, error: Option<TurnError>, step: &mut Step) {
        self.end_list(stop, step);
        self.phase = Phase::Ended;
        if self.end_run(stop, step) {
            return;
        }
        step.events.push(Event::TurnFinished {
            stop,
            text: std::mem::take(&mut self.text),
            usage: self.usage,
            error,
            merged_into: None,
        });
    }
}

/// A message that only calls.
pub fn answer_with_calls(item: u32, calls: Vec<ToolCall>) -> Event {
    Event::AssistantMessage {
        item,
        text: Arc::default(),
        reasoning: String::new(),
        calls,
        commands: vec![],
        extra: serde_json::Map::new(),
        sealed: None,
        complete: true,
        served_by: None,
        usage: None,
        payee: None,
    }
}

/// People are told once what its server did not want.
fn tell_cured(reply: &mut Reply, step: &mut Step) {
    let told = std::mem::take(&mut reply.cured.told);
    let told = told
        .into_iter()
        .map(|text| status(ProviderLevel::Info, text));
    step.events.extend(told);
}

fn status(level: ProviderLevel, text: String) -> Event {
    Event::Status { level, text }
}
