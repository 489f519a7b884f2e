//! Summing up what leaves the context: beside the conversation, by a preset of its own, within a time. It is made ahead, at the
//! end of the turn before, and what it is about leaves together with it. Where that was not foreseen, a request waits a little
//! for it. Nothing fails with it: the old summary stays until there is a better one in the log.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::{ConversationId, Seq};
use aishd_broker::Broker;
use aishd_log::confirm::AnsweringPerson;
use aishd_log::event::{Event, ProviderLevel, Record};
use aishd_log::rolling_summary::RollingSummary;
use aishd_log::spending::SpendingPurpose;
use aishd_model::context_budget::LoopMode;
use aishd_model::preset::Preset;
use aishd_turn::exchange::Exchange;
use aishd_turn::request::fit::leaves_soon;
use aishd_turn::summary::{
    SummaryInput, SummaryWorth, body, cut_summary, is_too_long, portions, worth,
};
use aishd_turn::transcript::Transcript;
use aishd_turn::turn::StreamId;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::budget::BudgetMeter;
use super::commit::{RETRY_LONGEST, UncommittedFact};
use super::extra_context::GatheredContext;
use super::model_choice::PresetChoice;
use super::request_context::{abandoned, old_turns};
use super::token_counts::TokenCounts;
use super::view::LiveChange;
use super::{ActiveTurn, Conversation, TaskOutcome, evicted_exchanges};
use crate::request_error::RequestError;

/// One request to the summarizer.
const WITHIN: Duration = Duration::from_secs(30);
/// So long after a summary was begun no request waits for it any more.
const PATIENCE: Duration = Duration::from_secs(10);
/// Exchanges that wait while another summary is being made; of more, the oldest are left out.
const MOST_WAITING: usize = 256;
/// The built-in responder, which needs no preset.
const DEMO: &str = "demo";

/// What is being summed up, and what waits for that.
#[derive(Debug, Default)]
pub(super) struct SummaryTask {
    running: Option<RunningSummary>,
    /// Cancelled when what runs is over.
    over: CancellationToken,
    /// The last one failed, or takes too long: no request waits for the next.
    gave_up: bool,
    waiting: Vec<Exchange>,
    /// Exchanges that left since people were told.
    untold: u64,
    /// Counts what was forgotten: nothing that was begun before is kept.
    number: u64,
}

/// A summary that is being made.
#[derive(Clone, Copy, Debug)]
struct RunningSummary {
    number: u64,
    since: Instant,
    /// The last record of what is still in the context, and leaves when it is made.
    ahead: Option<Seq>,
    /// Something of it has left.
    left: bool,
}

/// A summary that was made of what had not left.
#[derive(Clone, Copy, Debug)]
struct SummaryAhead {
    through: Seq,
    /// It leaves for the next question, summed up or not.
    certain: bool,
}

impl SummaryTask {
    /// Whether there is nothing that somebody waits for.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Whether what would leave is being summed up, and is all there.
    pub(super) fn is_ahead(&self) -> bool {
        let running = self.running.filter(|it| it.number == self.number);
        running.is_some_and(|it| it.ahead.is_some() && !it.left)
    }

    /// Whether something has left whose summary is being made.
    fn owes(&self) -> bool {
        let running = self.running.filter(|it| it.number == self.number);
        running.is_some_and(|it| it.left) || !self.waiting.is_empty()
    }

    fn begin(&mut self, ahead: Option<Seq>) {
        self.running = Some(RunningSummary {
            number: self.number,
            since: Instant::now(),
            ahead,
            left: ahead.is_none(),
        });
    }

    /// Until when a request waits for what runs.
    fn deadline(&self) -> Option<Instant> {
        self.running.map(|it| it.since + PATIENCE)
    }

    fn end(&mut self) {
        self.running = None;
        std::mem::take(&mut self.over).cancel();
    }
}

/// What became of it.
#[derive(Debug)]
pub(super) struct SummaryOutcome {
    number: u64,
    count: u64,
    by: String,
    /// With how many of the exchanges are in it.
    outcome: Result<(RollingSummary, usize), String>,
    /// What was paid for, and is in no log yet.
    owed: Vec<UncommittedFact>,
    ahead: Option<SummaryAhead>,
}

/// What had left and is in no summary.
#[derive(Debug)]
pub(super) struct UnsummarizedExchanges {
    number: u64,
    exchanges: Vec<Exchange>,
}

/// Conversations that have been looked at since this daemon began: whatever left and was not summed up, because the one
/// before it ended. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CaughtUp(Arc<Mutex<HashSet<ConversationId>>>);

impl CaughtUp {
    fn is_unseen(&self, conversation: ConversationId) -> bool {
        !self.0.lock().contains(&conversation)
    }

    /// Whether it had not been looked at.
    fn is_first(&self, conversation: ConversationId) -> bool {
        self.0.lock().insert(conversation)
    }

    pub(super) fn forget(&self, conversation: ConversationId) {
        self.0.lock().remove(&conversation);
    }
}

/// One summary to make.
struct SummaryJob {
    broker: Broker,
    tokens: TokenCounts,
    purse: BudgetMeter,
    preset: Arc<Preset>,
    prior: Option<String>,
    evicted: Vec<Exchange>,
    through: Seq,
    max_chars: usize,
}

impl Conversation {
    /// Who leads the conversation now.
    fn mode(&self) -> LoopMode {
        let transcript = self.transcript.held.as_ref();
        transcript.map_or(LoopMode::Talk, Transcript::mode)
    }

    /// What leaves with these records, where somebody is to sum it up. Asked before they are applied.
    pub(super) fn leaving(&self, records: &[Record]) -> Vec<Exchange> {
        if self.rules().summarizer(self.mode()).is_none() {
            return vec![];
        }
        let through = records.iter().filter_map(|it| {
            if let Event::Evicted(eviction) = &it.event {
                Some(eviction.through)
            } else {
                None
            }
        });
        let (Some(through), Some(transcript)) = (through.max(), &self.transcript.held) else {
            return vec![];
        };
        let left = transcript.exchanges().filter(|it| it.last() <= through);
        left.cloned().collect()
    }

    /// Has what left summed up, after what is being summed up now.
    pub(super) fn sum_up(&mut self, mut leaving: Vec<Exchange>) {
        if let Some(running) = &mut self.summing.running
            && let Some(through) = running.ahead
        {
            let before = leaving.len();
            leaving.retain(|it| it.last() > through);
            running.left |= leaving.len() < before;
        }
        // What leaves in a run does so in silence.
        if leaving.is_empty() || self.rules().summarizer(self.mode()).is_none() {
            return;
        }
        self.summing.untold += leaving.len() as u64;
        self.summing.waiting.extend(leaving);
        let too_many = self.summing.waiting.len().saturating_sub(MOST_WAITING);
        self.summing.waiting.drain(..too_many);
        if self.summing.is_idle() {
            self.begin_summary();
        }
    }

    /// Sums up what the next question will have no room for, so that it leaves together with its summary.
    pub(super) fn look_ahead(&mut self, ended: Option<&ActiveTurn>) {
        let Some(transcript) = &self.transcript.held else {
            return;
        };
        let ends = self.services.draining.is_cancelled() || self.unstored.is_some();
        let nobody = self.rules().summarizer(transcript.mode()).is_none();
        if ends || nobody || !self.summing.is_idle() {
            return;
        }
        let preset = match self.choose_named(self.state.model.as_deref()) {
            PresetChoice::Ready(own, _) => Some(own),
            PresetChoice::Look | PresetChoice::Gone(_) | PresetChoice::List(..) => {
                ended.and_then(|it| it.preset.clone())
            }
        };
        let Some(preset) = preset else { return };
        let preset = self.services.broker.adapted(preset);
        let offer = self.offer_to(&preset);
        let held = ended.map_or(&[][..], |it| &it.held);
        let wanted = self.fit_input(&preset, transcript, &offer, held);
        let (count, certain) = leaves_soon(wanted);
        let leaving: Vec<Exchange> = transcript.exchanges().take(count).cloned().collect();
        if let Some(through) = leaving.iter().map(Exchange::last).max() {
            let ahead = SummaryAhead { through, certain };
            self.make_summary(leaving, count as u64, Some(ahead));
        }
    }

    /// Whether the first request of a turn has to wait, once this has left.
    pub(super) fn holds_back(&self, transcript: &Transcript, leaving: &[Exchange]) -> bool {
        let somebody = self.rules().summarizer(transcript.mode()).is_some();
        let owes = self.summing.owes() || !leaving.is_empty() || self.owes_from_before(transcript);
        somebody && owes && !self.summing.gave_up
    }

    /// Whether a request has to wait for the summary of what has left.
    pub(super) fn must_wait(&mut self) -> bool {
        let nobody = self.rules().summarizer(self.mode()).is_none();
        if nobody || self.summing.gave_up || !self.summing.owes() {
            return false;
        }
        let late = self
            .summing
            .deadline()
            .is_none_or(|it| it <= Instant::now());
        self.summing.gave_up = late;
        !late
    }

    /// Has a request of the turn that runs made when there is a summary, or it takes too long.
    pub(super) fn wait_for_summary(&mut self, stream: StreamId) {
        let Some(active) = &self.turn else { return };
        let (turn, token, held) = (active.id, active.token.clone(), active.held.clone());
        let over = self.summing.over.clone();
        let deadline = self.summing.deadline().unwrap_or_else(Instant::now);
        self.io.spawn(async move {
            let waited = async {
                tokio::select! {
                    () = over.cancelled() => {}
                    () = sleep_until(deadline) => {}
                }
            };
            match token.run_until_cancelled(waited).await {
                Some(()) => {
                    let looked = None;
                    TaskOutcome::Gathered(turn, stream, GatheredContext { held, looked })
                }
                None => abandoned(turn, stream),
            }
        });
    }

    /// Whether something left while another daemon ran, and was never summed up.
    fn owes_from_before(&self, transcript: &Transcript) -> bool {
        self.state.evicted_through > transcript.summed_through()
            && self.services.caught_up.is_unseen(self.id)
    }

    /// Sees to what left and was never summed up, once in the life of a daemon: when a summary is lost, so is who would
    /// have told of it. What leaves from now on waits for it.
    pub(super) fn catch_up(&mut self, transcript: &Transcript) {
        let nobody = self.rules().summarizer(transcript.mode()).is_none();
        if nobody || !self.summing.is_idle() || !self.services.caught_up.is_first(self.id) {
            return;
        }
        let after = transcript.summed_through();
        if self.state.evicted_through <= after {
            return;
        }
        self.summing.begin(None);
        let (store, id, state) = (self.services.store.clone(), self.id, self.state.clone());
        let number = self.summing.number;
        self.io.spawn(async move {
            let read =
                move || evicted_exchanges::left_after(&store, id, &state, after, MOST_WAITING);
            let exchanges = match tokio::task::spawn_blocking(read).await {
                Ok(Ok(exchanges)) => exchanges,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "what left before cannot be read, nor summed up");
                    vec![]
                }
                Err(_panic) => vec![],
            };
            TaskOutcome::Left(Box::new(UnsummarizedExchanges { number, exchanges }))
        });
    }

    /// Sums up what had left, and then what has left meanwhile.
    pub(super) fn begin_with(&mut self, left: UnsummarizedExchanges) {
        let UnsummarizedExchanges { number, exchanges } = left;
        self.summing.end();
        if number == self.summing.number {
            self.summing.untold += exchanges.len() as u64;
            self.summing.waiting.splice(0..0, exchanges);
            let too_many = self.summing.waiting.len().saturating_sub(MOST_WAITING);
            self.summing.waiting.drain(..too_many);
        }
        if !self.summing.waiting.is_empty() {
            self.begin_summary();
        }
    }

    /// Takes the summary out of the context, and what would have come into it.
    pub(super) async fn forget(&mut self, by: AnsweringPerson) -> Result<Seq, RequestError> {
        self.load_transcript()
            .await
            .map_err(RequestError::Storage)?;
        let known = self
            .transcript
            .held
            .as_ref()
            .is_some_and(|it| it.summary().is_some());
        if !known && self.summing.is_idle() {
            return Err(RequestError::NoSummary);
        }
        let nothing = RollingSummary {
            through: self.state.evicted_through,
            ..RollingSummary::default()
        };
        let fact = UncommittedFact {
            turn: None,
            by: Some(by),
            event: Event::SummaryUpdated(Box::new(nothing)),
        };
        let seq = self.commit(&[fact], LiveChange::Keep).await?;
        self.summing.number += 1;
        self.summing.untold = 0;
        self.summing.waiting.clear();
        Ok(seq)
    }

    fn begin_summary(&mut self) {
        let evicted = std::mem::take(&mut self.summing.waiting);
        let count = std::mem::take(&mut self.summing.untold);
        self.make_summary(evicted, count, None);
    }

    fn make_summary(&mut self, evicted: Vec<Exchange>, count: u64, ahead: Option<SummaryAhead>) {
        let through = evicted.iter().map(Exchange::last).max();
        let models = self.models();
        // What waits had left while people talked, whatever goes on now.
        let name = models.context.summarizer(LoopMode::Talk);
        let (Some(through), Some(name)) = (through, name) else {
            return;
        };
        let (number, by) = (self.summing.number, name.to_owned());
        let preset = models.presets.get(name).cloned();
        let preset = preset.or_else(|| (name == DEMO).then(|| Arc::new(Preset::demo())));
        let prior = self.transcript.held.as_ref().and_then(|it| it.summary());
        let job = preset.map(|preset| SummaryJob {
            broker: self.services.broker.clone(),
            tokens: self.services.tokens.clone(),
            purse: self.purse.clone(),
            preset: self.services.broker.adapted(preset),
            prior: prior.map(|it| it.text.clone()),
            evicted,
            through,
            max_chars: models.context.max_summary_chars,
        });
        self.summing.begin(ahead.map(|it| it.through));
        let work = async move {
            let outcome = match job {
                None => Err("there is no such preset".to_owned()),
                Some(job) => {
                    let made = AssertUnwindSafe(summarize(job)).catch_unwind().await;
                    made.unwrap_or_else(|_panic| Err("internal error".to_owned()))
                }
            };
            TaskOutcome::Summed(Box::new(SummaryOutcome {
                number,
                count,
                by,
                outcome,
                owed: vec![],
                ahead,
            }))
        };
        self.io
            .spawn(Box::pin(work.instrument(tracing::info_span!("summary"))));
    }

    /// Writes a summary down, or says that there is none; what left meanwhile is next.
    pub(super) async fn summed(&mut self, mut summed: SummaryOutcome) {
        if summed.number == self.summing.number {
            // What was paid for it meanwhile is kept with it until the store takes both.
            summed.owed.extend(self.pending_facts(None));
            let mut told = summed.owed.clone();
            told.extend(self.facts_of(&summed));
            if let Err(error) = self.commit(&told, LiveChange::Keep).await {
                tracing::warn!(%error, "a summary waits for the store; the one before it stays");
                self.io.spawn(async move {
                    tokio::time::sleep(RETRY_LONGEST).await;
                    TaskOutcome::Summed(Box::new(summed))
                });
                return;
            }
        }
        self.summing.gave_up = summed.outcome.is_err();
        self.summing.end();
        if !self.summing.waiting.is_empty() {
            self.begin_summary();
        } else if self.turn.is_none() && summed.ahead.is_none() && summed.outcome.is_ok() {
            self.look_ahead(None);
        }
    }

    /// What is written down of a summary, with the leaving of what has not left yet.
    fn facts_of(&self, summed: &SummaryOutcome) -> Vec<UncommittedFact> {
        let Some(ahead) = summed.ahead else {
            return facts(summed);
        };
        let left = self.summing.running.is_some_and(|it| it.left);
        // A run goes on with all that it has, and what is likely to leave may stay where nobody can sum it up.
        let (Some(transcript), LoopMode::Talk) = (&self.transcript.held, self.mode()) else {
            return if left { facts(summed) } else { vec![] };
        };
        if let Err(error) = &summed.outcome
            && !left
            && !ahead.certain
        {
            tracing::warn!(
                error,
                by = summed.by,
                "what leaves next is not summed up yet"
            );
            return vec![];
        }
        let leave = transcript.exchanges();
        let leave = leave.take_while(|it| it.last() <= ahead.through).count();
        let eviction = transcript.eviction(leave, &self.state);
        if eviction.is_none() && !left {
            return vec![];
        }
        let evicted = eviction.map(|it| UncommittedFact {
            turn: self.turn.as_ref().map(|it| it.id),
            by: None,
            event: Event::Evicted(Box::new(it)),
        });
        evicted.into_iter().chain(facts(summed)).collect()
    }
}

fn facts(summed: &SummaryOutcome) -> Vec<UncommittedFact> {
    let SummaryOutcome {
        number: _,
        count,
        by,
        outcome,
        owed: _,
        ahead: _,
    } = summed;
    let (count, turns) = (*count, old_turns(*count));
    let end = "originals archived — :context archive";
    let (updated, level, text) = match outcome {
        Ok((summary, whole)) => {
            let chars = summary.text.chars().count();
            let cut = if summary.cut { ", cut" } else { "" };
            let turns = match *whole as u64 {
                whole if whole < count => format!("the newest {whole} of {turns}"),
                _ => turns,
            };
            let text = format!("{turns} summarised by {by} ({chars} chars{cut}); {end}");
            let updated = Event::SummaryUpdated(Box::new(summary.clone()));
            (Some(updated), ProviderLevel::Info, text)
        }
        Err(why) => {
            let text = format!("{turns} left the context without a summary ({by}: {why}); {end}");
            (None, ProviderLevel::Warning, text)
        }
    };
    let status = Event::Status { level, text };
    let events = updated.into_iter().chain([status]);
    let fact = |event| UncommittedFact {
        turn: None,
        by: None,
        event,
    };
    events.map(fact).collect()
}

async fn summarize(job: SummaryJob) -> Result<(RollingSummary, usize), String> {
    let portions = portions(&job.evicted, &job.preset);
    let mut prior = job.prior.clone();
    let mut made = None;
    for evicted in &portions.texts {
        let wanted = match &prior {
            Some(prior) => SummaryInput::Additive { prior, evicted },
            None => SummaryInput::First { evicted },
        };
        let said = ask(&job, wanted).await?;
        prior = Some(said.text.clone());
        made = Some(said);
    }
    let mut said = made.ok_or_else(|| "there was nothing to sum up".to_owned())?;
    if is_too_long(&said.text, job.max_chars) {
        let wanted = SummaryInput::Compress {
            prior: &said.text,
            max_chars: job.max_chars,
        };
        // Once; then it is cut.
        if let Ok(shorter) = ask(&job, wanted).await {
            said = shorter;
        }
    }
    let (text, cut) = cut_summary(said, job.max_chars);
    let summary = RollingSummary {
        text,
        through: job.through,
        by: job.preset.name.clone(),
        cut,
    };
    Ok((summary, portions.whole))
}

async fn ask(job: &SummaryJob, wanted: SummaryInput<'_>) -> Result<SummaryWorth, String> {
    let body = body(&job.preset, wanted);
    let bytes = body.len();
    let (purse, preset) = (&job.purse, &job.preset);
    let admitted = purse.admit_aside(preset, bytes as u64, SpendingPurpose::Summary);
    let ticket = admitted.map_err(|reached| reached.to_string())?;
    ticket.meter().sends(bytes);
    let answer = job.broker.stream(&job.preset, body, |_delta| {});
    match timeout(WITHIN, answer).await {
        Ok(Ok(reply)) => {
            ticket.charge_aside(Some(&reply), None);
            let counted = reply.usage.and_then(|it| it.input);
            job.tokens.learn(&job.preset, bytes, counted);
            worth(&reply)
        }
        Ok(Err(broken)) => {
            ticket.charge_aside(Some(&broken.partial), Some(&broken.failure));
            Err(broken.failure.to_string())
        }
        Err(_elapsed) => Err(format!("no answer within {} s", WITHIN.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(count: u64, whole: usize, expected: &str) {
        let summed = SummaryOutcome {
            number: 0,
            count,
            by: "fast".to_owned(),
            outcome: Ok((RollingSummary::default(), whole)),
            owed: vec![],
            ahead: None,
        };
        let mut events = facts(&summed).into_iter().map(|it| it.event);
        let Some(Event::Status { text: told, .. }) = events.next_back() else {
            panic!("nobody is told");
        };
        assert!(
            told.starts_with(&format!("{expected} summarised by fast")),
            "{told}"
        );
    }

    /// Nobody is told that all was summed up where only the newest of it was shown.
    #[test]
    fn what_was_not_shown_is_not_called_summed_up() {
        check(1, 1, "1 old turn");
        check(20, 20, "20 old turns");
        check(20, 5, "the newest 5 of 20 old turns");
    }
}
