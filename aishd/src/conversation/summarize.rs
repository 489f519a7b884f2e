//! Summing up what left the context (CTX-4 to CTX-6): beside the conversation, by a preset of its own, within a time. No
//! question waits for it, and nothing fails with it: the old summary stays until there is a better one in the log.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::Seq;
use futures_util::FutureExt as _;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::commit::Fact;
use super::context::old_turns;
use super::tokens::Tokens;
use super::view::LiveChange;
use super::{Conversation, Done};
use crate::broker::Broker;
use crate::core::budget::Mode;
use crate::core::event::{Event, Level, Record};
use crate::core::exchange::Exchange;
use crate::core::preset::Preset;
use crate::core::summary::{Summary, Wanted, body, cleaned, cut, is_too_long, rendered};
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
    count: u64,
    by: String,
    outcome: Result<Summary, String>,
}

/// One summary to make.
struct Job {
    broker: Broker,
    tokens: Tokens,
    preset: Arc<Preset>,
    prior: Option<String>,
    evicted: Vec<Exchange>,
    through: Seq,
    max_chars: usize,
}

impl Conversation {
    /// Who sums up what leaves now: nobody in a run (CTX-7).
    fn summarizer(&self) -> Option<String> {
        let mode = self
            .transcript
            .as_ref()
            .map_or(Mode::Talk, Transcript::mode);
        let models = self.models();
        models.context.summarizer(mode).map(str::to_owned)
    }

    /// What leaves with these records, where somebody is to sum it up. Asked before they are applied.
    pub(super) fn leaving(&self, records: &[Record]) -> Vec<Exchange> {
        if self.summarizer().is_none() {
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
        if leaving.is_empty() || self.summarizer().is_none() {
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

    fn begin_summary(&mut self) {
        let evicted = std::mem::take(&mut self.summing.waiting);
        let through = evicted.iter().map(Exchange::last).max();
        let models = self.models();
        let (Some(through), Some(name)) = (through, self.summarizer()) else {
            return;
        };
        let (count, by) = (std::mem::take(&mut self.summing.untold), name.clone());
        let preset = models.presets.get(&name).cloned();
        let preset = preset.or_else(|| (name == DEMO).then(|| Arc::new(Preset::demo())));
        let prior = self.transcript.as_ref().and_then(|it| it.summary());
        let job = preset.map(|preset| Job {
            broker: self.around.broker.clone(),
            tokens: self.around.tokens.clone(),
            preset,
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
            Done::Summed(Box::new(Summed { count, by, outcome }))
        };
        self.io
            .spawn(Box::pin(work.instrument(tracing::info_span!("summary"))));
    }

    /// Writes a summary down, or says that there is none; what left meanwhile is next.
    pub(super) async fn summed(&mut self, summed: Summed) {
        let Summed { count, by, outcome } = summed;
        let turns = old_turns(count);
        let (events, level, text) = match outcome {
            Ok(summary) => {
                let chars = summary.text.chars().count();
                let end = if summary.cut { ", cut" } else { "" };
                let text = format!(
                    "{turns} summarised by {by} ({chars} chars{end}); originals archived — :context archive"
                );
                let updated = Event::SummaryUpdated(Box::new(summary));
                (vec![updated], Level::Info, text)
            }
            Err(why) => {
                let text = format!(
                    "{turns} left the context without a summary ({by}: {why}); originals archived — :context archive"
                );
                (vec![], Level::Warning, text)
            }
        };
        let status = Event::Status { level, text };
        let facts: Vec<Fact> = events
            .into_iter()
            .chain([status])
            .map(|event| Fact {
                turn: None,
                by: None,
                event,
            })
            .collect();
        if let Err(error) = self.commit(&facts, LiveChange::Keep).await {
            tracing::warn!(%error, "a summary could not be stored; the one before it stays");
        }
        self.summing.running = false;
        if !self.summing.waiting.is_empty() {
            self.begin_summary();
        }
    }
}

async fn summarize(job: Job) -> Result<Summary, String> {
    let evicted = rendered(&job.evicted, &job.preset);
    let wanted = match &job.prior {
        Some(prior) => Wanted::Additive {
            prior,
            evicted: &evicted,
        },
        None => Wanted::First { evicted: &evicted },
    };
    let mut text = ask(&job, wanted).await?;
    let mut is_cut = false;
    if is_too_long(&text, job.max_chars) {
        let wanted = Wanted::Compress {
            prior: &text,
            max_chars: job.max_chars,
        };
        // Once; then it is cut (CTX-5).
        if let Ok(shorter) = ask(&job, wanted).await {
            text = shorter;
        }
        if is_too_long(&text, job.max_chars) {
            text = cut(&text, job.max_chars);
            is_cut = true;
        }
    }
    Ok(Summary {
        text,
        through: job.through,
        by: job.preset.name.clone(),
        cut: is_cut,
    })
}

async fn ask(job: &Job, wanted: Wanted<'_>) -> Result<String, String> {
    let body = body(&job.preset, wanted);
    let bytes = body.len();
    let answer = job.broker.stream(&job.preset, body, |_delta| {});
    match timeout(WITHIN, answer).await {
        Ok(Ok(reply)) => {
            let counted = reply.usage.and_then(|it| it.input);
            job.tokens.learn(&job.preset, bytes, counted);
            cleaned(&reply.text).ok_or_else(|| "it said nothing".to_owned())
        }
        Ok(Err(broken)) => Err(broken.failure.to_string()),
        Err(_elapsed) => Err(format!("no answer within {} s", WITHIN.as_secs())),
    }
}
