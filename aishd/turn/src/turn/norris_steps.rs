//! A turn that goes on by itself. Nothing new begins while it is paused: what would have begun is kept, and
//! begins when a person resumes it. When its daemon ends, it pauses instead of ending.

use aishd_log::event::{Event, ProviderLevel, StopReason};
use aishd_log::norris::{NorrisEvent, RunOutcome, RunPause, RunSpending};
use aishd_log::shell::OutputUse;
use aishd_log::usage::Usage;
use aishd_model::reply::Reply;

use super::replies::refuse_all;
use super::{Effect, OwedReplies, Phase, Step, StreamId, Turn, TurnInput, status};
use crate::run::{IdleOutcome, RunContinuation, RunState};
use crate::run_report::{AnswerContent, answer_content};

impl Turn {
    /// Takes one input in. Input for a stream or call that the turn has left behind changes nothing.
    pub fn handle(&mut self, input: TurnInput) -> Step {
        let mut step = match input {
            TurnInput::Paused => self.pause(),
            TurnInput::Resumed => self.resume_run(),
            TurnInput::TimeIsOver => self.end_in_time(),
            TurnInput::Stopped(stop) => self.stopped(stop),
            other @ (TurnInput::ReplyFinished(..)
            | TurnInput::ReplyFailed(..)
            | TurnInput::ReplyAbandoned(..)
            | TurnInput::WaitElapsed(_)
            | TurnInput::Judged(_)
            | TurnInput::Answered(_)
            | TurnInput::ToolReturned { .. }
            | TurnInput::SignInAsked { .. }
            | TurnInput::CommandEnded { .. }
            | TurnInput::Freed) => self.advance(other),
        };
        self.hold_back(&mut step);
        step
    }

    /// Makes it a run. Whatever is configured, what its commands print goes to the model with its next step.
    pub fn with_run(mut self, run: RunState) -> Self {
        self.give(OutputUse::AtOnce);
        self.run = Some(Box::new(run));
        self
    }

    /// One whose daemon ended, with so many answers. It stands still, and what is to be told of that comes with it.
    pub fn take_up(mut run: RunState, items: u32, usage: Usage) -> (Self, Option<NorrisEvent>) {
        let (mut turn, _opens) = Self::start(u32::MAX);
        turn.items = items;
        turn.usage = Some(usage);
        let paused = run.stand_still(StreamId(0));
        (turn.with_run(run), paused)
    }

    pub fn is_run(&self) -> bool {
        self.run.is_some()
    }

    pub fn is_paused(&self) -> bool {
        self.run.as_ref().is_some_and(|it| it.is_paused())
    }

    /// Nothing works on it that could say how it ended: it is paused and everything that was under way has ended.
    pub fn stands_still(&self) -> bool {
        self.run.as_ref().is_some_and(|it| it.holds())
    }

    /// Whether the time that passes is that of its work.
    pub fn works(&self) -> bool {
        !self.stands_still() && !self.is_at_rest()
    }

    /// What a run has used up so far.
    pub fn note_spent(&mut self, spent: RunSpending) {
        if let Some(run) = &mut self.run {
            run.note_spent(spent);
        }
    }

    /// A run is about to end because of this budget.
    pub fn note_budget(&mut self, why: String) {
        if let Some(run) = &mut self.run {
            run.ends(RunOutcome::Limit, why);
        }
    }

    /// Milliseconds that a run has left, while it asks a model: nothing else is cut short when they are over.
    pub fn time_left(&self) -> Option<u64> {
        let run = self.run.as_ref().filter(|_| self.is_cut_in_time())?;
        run.time_left()
    }

    /// Keeps work of a paused run until it is resumed; false: it may begin.
    pub fn keep_for_later(&mut self, effect: Effect) -> bool {
        match &mut self.run {
            Some(run) if run.is_paused() => {
                run.hold(effect);
                true
            }
            Some(_) | None => false,
        }
    }

    /// An answer in a run: it ends it, acts, or does nothing. What stands beside a last word never begins.
    pub(super) fn replied_alone(
        &mut self,
        stop: StopReason,
        owing: Vec<OwedReplies>,
        step: &mut Step,
    ) {
        let said = answer_content(&self.text);
        let Some(run) = &mut self.run else { return };
        match said {
            AnswerContent::Done(what) => run.ends(RunOutcome::Done, what),
            AnswerContent::Halts(why) => run.ends(RunOutcome::Halted, why),
            AnswerContent::GoesOn if !owing.is_empty() => {
                run.acted();
                return self.act(owing, step);
            }
            AnswerContent::GoesOn if stop == StopReason::Refusal => {
                return self.end(stop, None, step);
            }
            AnswerContent::GoesOn => match run.did_nothing() {
                IdleOutcome::Nudge(nudge) => {
                    step.events.push(Event::Norris(nudge));
                    return self.ask_again(step);
                }
                IdleOutcome::GivesUp => {
                    run.ends(
                        RunOutcome::Halted,
                        "it does nothing and says nothing".to_owned(),
                    );
                }
            },
        }
        refuse_all(&owing, StopReason::End, step);
        self.end(StopReason::End, None, step);
    }

    /// The next step, unless a limit is met.
    pub(super) fn next_step(&mut self, step: &mut Step) {
        let Some(run) = &mut self.run else { return };
        match run.next_step() {
            Ok(begun) => {
                step.events.push(Event::Norris(begun));
                self.open(StreamId(self.depth * 16), step);
            }
            Err(limit) => {
                run.ends(RunOutcome::Limit, limit);
                self.end(StopReason::Budget, None, step);
            }
        }
    }

    /// What a run says at its end. True: it does not end, but waits for a person.
    pub(super) fn end_run(&mut self, stop: StopReason, step: &mut Step) -> bool {
        let Some(mut run) = self.run.take() else {
            return false;
        };
        if stop == StopReason::Interrupted {
            self.depth += 1;
            let stream = StreamId(self.depth * 16);
            step.events
                .extend(run.stand_still(stream).map(Event::Norris));
            self.phase = Phase::Streaming(stream);
            self.run = Some(run);
            return true;
        }
        // A budget that is used up has told of itself.
        if let Some(limit) = run.limit().filter(|_| stop == StopReason::Budget) {
            let text = format!("the run met its limit of {limit}");
            step.events.push(status(ProviderLevel::Warning, text));
        }
        let ended = run.ended(outcome(stop));
        step.events.push(Event::Norris(ended));
        false
    }

    fn pause(&mut self) -> Step {
        let paused = match (&self.phase, &mut self.run) {
            (Phase::Ended | Phase::Stopping(..), _) | (_, None) => None,
            (Phase::Streaming(_) | Phase::Waiting(_) | Phase::Calling(_), Some(run)) => {
                run.pause(RunPause::Person)
            }
        };
        Step {
            events: paused.map(Event::Norris).into_iter().collect(),
            effects: vec![],
        }
    }

    fn resume_run(&mut self) -> Step {
        let mut step = Step::default();
        let resumed = self.run.as_mut().and_then(|it| it.resume());
        let Some(onward) = resumed else {
            return step;
        };
        step.events.push(Event::Norris(NorrisEvent::Resumed));
        match onward {
            RunContinuation::With(held) => step.effects.extend(held),
            RunContinuation::Afresh => self.ask_again(&mut step),
        }
        step
    }

    /// Ends at once where nothing is under way that would say how it ended.
    fn stopped(&mut self, stop: StopReason) -> Step {
        let held = self.run.as_ref().is_some_and(|it| it.holds_stream());
        let asked = match self.phase {
            Phase::Streaming(stream) if held => Some(stream),
            _ => None,
        };
        if asked.is_some() && stop == StopReason::Interrupted {
            // It stands still already, and the log says so.
            return Step::default();
        }
        let mut step = self.advance(TurnInput::Stopped(stop));
        if let Some(stream) = asked {
            step.append(self.advance(TurnInput::ReplyAbandoned(stream, Reply::default())));
        }
        step
    }

    /// Only a model is cut short; what a tool has begun comes to its end, and the next step does not begin.
    fn end_in_time(&mut self) -> Step {
        let is_cut = self.is_cut_in_time();
        let limit = self.run.as_ref().and_then(|it| it.time_is_over());
        match (limit, &mut self.run) {
            (Some(limit), Some(run)) if is_cut => {
                run.ends(RunOutcome::Limit, limit);
                self.advance(TurnInput::Stopped(StopReason::Budget))
            }
            (Some(_) | None, Some(_) | None) => Step::default(),
        }
    }

    fn is_cut_in_time(&self) -> bool {
        let asks = matches!(self.phase, Phase::Streaming(_) | Phase::Waiting(_));
        asks && !self.stands_still()
    }

    fn hold_back(&mut self, step: &mut Step) {
        if !self.is_paused() {
            return;
        }
        for effect in std::mem::take(&mut step.effects) {
            let is_new = match effect {
                Effect::OpenStream(_) | Effect::OpenFallback(_) | Effect::Judge { .. } => true,
                Effect::Wait(..)
                | Effect::CallTool { .. }
                | Effect::RunCommand { .. }
                | Effect::Abandon => false,
            };
            if !is_new || !self.keep_for_later(effect.clone()) {
                step.effects.push(effect);
            }
        }
    }
}

/// What the end of the turn says of a run that did not say it itself.
fn outcome(stop: StopReason) -> (RunOutcome, &'static str) {
    match stop {
        StopReason::Cancelled => (RunOutcome::Stopped, "a person stopped it"),
        StopReason::Denied => (RunOutcome::Stopped, "a person denied a call and ended it"),
        StopReason::Refusal => (RunOutcome::Failed, "the model refused"),
        StopReason::Upstream => (RunOutcome::Failed, "the model's server failed"),
        StopReason::Budget => (RunOutcome::Limit, "a limit was met"),
        StopReason::End
        | StopReason::ToolDepth
        | StopReason::MaxTokens
        | StopReason::Interrupted => (RunOutcome::Halted, "the turn ended"),
    }
}
