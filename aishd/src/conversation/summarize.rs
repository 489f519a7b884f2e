//! Summing up what left the context (CTX-4 to CTX-6): beside the conversation, by a preset of its own, within a time. No
//! question waits for it, and nothing fails with it: the old summary stays until there is a better one in the log.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aish_proto::id::{ConversationId, Seq};
use futures_util::FutureExt as _;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::commit::{Fact, RETRY_LONGEST};
use super::context::old_turns;
use super::handle::RequestError;
use super::purse::Purse;
use super::tokens::Tokens;
use super::view::LiveChange;
use super::{Conversation, Done, archive};
use crate::broker::Broker;
use crate::core::budget::Mode;
use crate::core::confirm::Person;
use crate::core::event::{Event, Level, Record};
use crate::core::exchange::Exchange;
use crate::core::preset::Preset;
use crate::core::spending::Purpose;
use crate::core::summary::{Summary, Wanted, Worth, body, is_too_long, kept, portions, worth};
use crate::core::transcript::Transcript;

/// One request to the summarizer (CTX-4).
const WITHIN: Duration = Duration::from_secs(30);
/// Exchanges that wait while another summary is being made; of more, the oldest are left out.
const MOST_WAITING: usize = 256;
/// The built-in responder, which needs no preset.
const DEMO: &str = "demo";

/// What is being summed up, and what waits for that.
#[derive(Debug, Default)]
pub(super) struct Summing {
    running: bool,
    waiting: Vec<Exchange>,
    /// Exchanges that left since people were told.
    untold: u64,
    /// Counts what was forgotten: nothing that was begun before is kept.
    number: u64,
}

impl Summing {
    /// Whether there is something to wait for.
    pub(super) fn is_idle(&self) -> bool {
        !self.running
    }
}

/// What became of it.
#[derive(Debug)]
pub(super) struct Summed {
    number: u64,
    count: u64,
    by: String,
    /// With how many of the exchanges are in it.
    outcome: Result<(Summary, usize), String>,
    /// What was paid for, and is in no log yet.
    owed: Vec<Fact>,
}

/// What had left and is in no summary.
#[derive(Debug)]
pub(super) struct Left {
    number: u64,
    exchanges: Vec<Exchange>,
}

/// Conversations that have been looked at since this daemon began: whatever left and was not summed up, because the one
/// before it ended. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CaughtUp(Arc<Mutex<HashSet<ConversationId>>>);

impl CaughtUp {
    /// Whether it had not been looked at.
    fn is_first(&self, conversation: ConversationId) -> bool {
        self.lock().insert(conversation)
    }

    pub(super) fn forget(&self, conversation: ConversationId) {
        self.lock().remove(&conversation);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashSet<ConversationId>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One summary to make.
struct Job {
    broker: Broker,
    tokens: Tokens,
    purse: Purse,
    preset: Arc<Preset>,
    prior: Option<String>,
    evicted: Vec<Exchange>,
    through: Seq,
    max_chars: usize,
}

impl Conversation {
    /// Who leads the conversation now.
    fn mode(&self) -> Mode {
        let transcript = self.transcript.as_ref();
        transcript.map_or(Mode::Talk, Transcript::mode)
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
        let (Some(through), Some(transcript)) = (through.max(), &self.transcript) else {
            return vec![];
        };
        let left = transcript.exchanges().filter(|it| it.last() <= through);
        left.cloned().collect()
    }

    /// Has what left summed up, after what is being summed up now.
    pub(super) fn sum_up(&mut self, leaving: Vec<Exchange>) {
        // What leaves in a run does so in silence (CTX-7).
        if leaving.is_empty() || self.rules().summarizer(self.mode()).is_none() {
            return;
        }
        self.summing.untold += leaving.len() as u64;
        self.summing.waiting.extend(leaving);
        let too_many = self.summing.waiting.len().saturating_sub(MOST_WAITING);
        self.summing.waiting.drain(..too_many);
        if !self.summing.running {
            self.begin_summary();
        }
    }

    /// Sees to what left and was never summed up, once in the life of a daemon: when a summary is lost, so is who would
    /// have told of it. What leaves from now on waits for it.
    pub(super) fn catch_up(&mut self, transcript: &Transcript) {
        let nobody = self.rules().summarizer(transcript.mode()).is_none();
        if nobody || self.summing.running || !self.around.caught_up.is_first(self.id) {
            return;
        }
        let after = transcript.summed_through();
        if self.state.evicted_through <= after {
            return;
        }
        self.summing.running = true;
        let (store, id, state) = (self.around.store.clone(), self.id, self.state.clone());
        let number = self.summing.number;
        self.io.spawn(async move {
            let read = move || archive::left_after(&store, id, &state, after, MOST_WAITING);
            let exchanges = match tokio::task::spawn_blocking(read).await {
                Ok(Ok(exchanges)) => exchanges,
                Ok(Err(error)) => {
                    tracing::warn!(%error, "what left before cannot be read, nor summed up");
                    vec![]
                }
                Err(_panic) => vec![],
            };
            Done::Left(Box::new(Left { number, exchanges }))
        });
    }

    /// Sums up what had left, and then what has left meanwhile.
    pub(super) fn begin_with(&mut self, left: Left) {
        let Left { number, exchanges } = left;
        self.summing.running = false;
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
    pub(super) async fn forget(&mut self, by: Person) -> Result<Seq, RequestError> {
        self.load_transcript()
            .await
            .map_err(RequestError::Storage)?;
        let known = self
            .transcript
            .as_ref()
            .is_some_and(|it| it.summary().is_some());
        if !known && self.summing.is_idle() {
            return Err(RequestError::NoSummary);
        }
        let nothing = Summary {
            through: self.state.evicted_through,
            ..Summary::default()
        };
        let fact = Fact {
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
        let through = evicted.iter().map(Exchange::last).max();
        let models = self.models();
        // What waits had left while people talked, whatever goes on now.
        let name = models.context.summarizer(Mode::Talk);
        let (Some(through), Some(name)) = (through, name) else {
            return;
        };
        let (number, by) = (self.summing.number, name.to_owned());
        let preset = models.presets.get(name).cloned();
        let preset = preset.or_else(|| (name == DEMO).then(|| Arc::new(Preset::demo())));
        let prior = self.transcript.as_ref().and_then(|it| it.summary());
        let job = preset.map(|preset| Job {
            broker: self.around.broker.clone(),
            tokens: self.around.tokens.clone(),
            purse: self.purse.clone(),
            preset: self.around.broker.adapted(preset),
            prior: prior.map(|it| it.text.clone()),
            evicted,
            through,
            max_chars: models.context.max_summary_chars,
        });
        self.summing.running = true;
        let work = async move {
            let outcome = match job {
                None => Err("there is no such preset".to_owned()),
                Some(job) => {
                    let made = AssertUnwindSafe(summarize(job)).catch_unwind().await;
                    made.unwrap_or_else(|_panic| Err("internal error".to_owned()))
                }
            };
            Done::Summed(Box::new(Summed {
                number,
                count,
                by,
                outcome,
                owed: vec![],
            }))
        };
        self.io
            .spawn(Box::pin(work.instrument(tracing::info_span!("summary"))));
    }

    /// Writes a summary down, or says that there is none; what left meanwhile is next.
    pub(super) async fn summed(&mut self, mut summed: Summed) {
        if summed.number == self.summing.number {
            // What was paid for it meanwhile is kept with it until the store takes both.
            summed.owed.extend(self.owed(None));
            let mut told = summed.owed.clone();
            told.extend(facts(&summed));
            if let Err(error) = self.commit(&told, LiveChange::Keep).await {
                tracing::warn!(%error, "a summary waits for the store; the one before it stays");
                self.io.spawn(async move {
                    tokio::time::sleep(RETRY_LONGEST).await;
                    Done::Summed(Box::new(summed))
                });
                return;
            }
        }
        self.summing.running = false;
        if !self.summing.waiting.is_empty() {
            self.begin_summary();
        }
    }
}

fn facts(summed: &Summed) -> Vec<Fact> {
    let Summed {
        number: _,
        count,
        by,
        outcome,
        owed: _,
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
            (Some(updated), Level::Info, text)
        }
        Err(why) => {
            let text = format!("{turns} left the context without a summary ({by}: {why}); {end}");
            (None, Level::Warning, text)
        }
    };
    let status = Event::Status { level, text };
    let events = updated.into_iter().chain([status]);
    let fact = |event| Fact {
        turn: None,
        by: None,
        event,
    };
    events.map(fact).collect()
}

async fn summarize(job: Job) -> Result<(Summary, usize), String> {
    let portions = portions(&job.evicted, &job.preset);
    let mut prior = job.prior.clone();
    let mut made = None;
    for evicted in &portions.texts {
        let wanted = match &prior {
            Some(prior) => Wanted::Additive { prior, evicted },
            None => Wanted::First { evicted },
        };
        let said = ask(&job, wanted).await?;
        prior = Some(said.text.clone());
        made = Some(said);
    }
    let mut said = made.ok_or_else(|| "there was nothing to sum up".to_owned())?;
    if is_too_long(&said.text, job.max_chars) {
        let wanted = Wanted::Compress {
            prior: &said.text,
            max_chars: job.max_chars,
        };
        // Once; then it is cut (CTX-5).
        if let Ok(shorter) = ask(&job, wanted).await {
            said = shorter;
        }
    }
    let (text, cut) = kept(said, job.max_chars);
    let summary = Summary {
        text,
        through: job.through,
        by: job.preset.name.clone(),
        cut,
    };
    Ok((summary, portions.whole))
}

async fn ask(job: &Job, wanted: Wanted<'_>) -> Result<Worth, String> {
    let body = body(&job.preset, wanted);
    let bytes = body.len();
    let (purse, preset) = (&job.purse, &job.preset);
    let admitted = purse.admit_aside(preset, bytes as u64, Purpose::Summary);
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
        let summed = Summed {
            number: 0,
            count,
            by: "fast".to_owned(),
            outcome: Ok((Summary::default(), whole)),
            owed: vec![],
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
