//! Summing up what leaves the context: beside the conversation, by a preset of its own, within a time. It is made ahead, at the
//! end of the turn before, and what it is about leaves together with it. Where that was not foreseen, a request waits a little
//! for it. Nothing fails with it: the old summary stays until there is a better one in the log.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::{ConversationId, Seq};
use aishd_log::event::{Event, ProviderLevel};
use aishd_log::rolling_summary::RollingSummary;
use aishd_log::spending::SpendingPurpose;
use aishd_turn::exchange::Exchange;
use aishd_turn::summary::{SummaryInput, SummaryWorth, body, cut_summary, is_too_long, portions};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::context::aside_model::AsideModel;
use crate::context::preview::old_turns;
use crate::pending_commit::UncommittedFact;

/// One request to the summarizer.
/// So long after a summary was begun no request waits for it any more.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Exchanges that wait while another summary is being made; of more, the oldest are left out.
pub(crate) const MOST_WAITING: usize = 256;
/// The built-in responder, which needs no preset.
pub(crate) const DEMO: &str = "demo";

/// What is being summed up, and what waits for that.
#[derive(Debug, Default)]
pub(crate) struct SummaryTask {
    pub(crate) running: Option<RunningSummary>,
    /// Cancelled when what runs is over.
    pub(crate) over: CancellationToken,
    /// The last one failed, or takes too long: no request waits for the next.
    pub(crate) gave_up: bool,
    pub(crate) waiting: Vec<Exchange>,
    /// Exchanges that left since people were told.
    pub(crate) untold: u64,
    /// Counts what was forgotten: nothing that was begun before is kept.
    pub(crate) number: u64,
}

/// A summary that is being made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunningSummary {
    pub(crate) number: u64,
    pub(crate) since: Instant,
    /// The last record of what is still in the context, and leaves when it is made.
    pub(crate) ahead: Option<Seq>,
    /// Something of it has left.
    pub(crate) left: bool,
}

/// A summary that was made of what had not left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SummaryAhead {
    pub(crate) through: Seq,
    /// It leaves for the next question, summed up or not.
    pub(crate) certain: bool,
}

impl SummaryTask {
    /// Whether there is nothing that somebody waits for.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Whether what would leave is being summed up, and is all there.
    pub(crate) fn is_ahead(&self) -> bool {
        let running = self.running.filter(|it| it.number == self.number);
        running.is_some_and(|it| it.ahead.is_some() && !it.left)
    }

    /// Whether something has left whose summary is being made.
    pub(crate) fn owes(&self) -> bool {
        let running = self.running.filter(|it| it.number == self.number);
        running.is_some_and(|it| it.left) || !self.waiting.is_empty()
    }

    pub(crate) fn begin(&mut self, ahead: Option<Seq>) {
        self.running = Some(RunningSummary {
            number: self.number,
            since: Instant::now(),
            ahead,
            left: ahead.is_none(),
        });
    }

    /// Until when a request waits for what runs.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.running.map(|it| it.since + PATIENCE)
    }

    pub(crate) fn end(&mut self) {
        self.running = None;
        std::mem::take(&mut self.over).cancel();
    }
}

/// What became of it.
#[derive(Debug)]
pub(crate) struct SummaryOutcome {
    pub(crate) number: u64,
    pub(crate) count: u64,
    pub(crate) by: String,
    /// With how many of the exchanges are in it.
    pub(crate) outcome: Result<(RollingSummary, usize), String>,
    /// What was paid for, and is in no log yet.
    pub(crate) owed: Vec<UncommittedFact>,
    pub(crate) ahead: Option<SummaryAhead>,
}

/// What had left and is in no summary.
#[derive(Debug)]
pub(crate) struct UnsummarizedExchanges {
    pub(crate) number: u64,
    pub(crate) exchanges: Vec<Exchange>,
}

/// Conversations that have been looked at since this daemon began: whatever left and was not summed up, because the one
/// before it ended. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct CaughtUp(Arc<Mutex<HashSet<ConversationId>>>);

impl CaughtUp {
    pub(crate) fn is_unseen(&self, conversation: ConversationId) -> bool {
        !self.0.lock().contains(&conversation)
    }

    /// Whether it had not been looked at.
    pub(crate) fn is_first(&self, conversation: ConversationId) -> bool {
        self.0.lock().insert(conversation)
    }

    pub(crate) fn forget(&self, conversation: ConversationId) {
        self.0.lock().remove(&conversation);
    }
}

/// One summary to make.
pub(crate) struct SummaryJob {
    pub(crate) model: AsideModel,
    pub(crate) prior: Option<String>,
    pub(crate) evicted: Vec<Exchange>,
    pub(crate) through: Seq,
    pub(crate) max_chars: usize,
}

pub(crate) fn facts(summed: &SummaryOutcome) -> Vec<UncommittedFact> {
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

pub(crate) async fn summarize(job: SummaryJob) -> Result<(RollingSummary, usize), String> {
    let portions = portions(&job.evicted, &job.model.preset);
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
        by: job.model.preset.name.clone(),
        cut,
    };
    Ok((summary, portions.whole))
}

pub(crate) async fn ask(
    job: &SummaryJob,
    wanted: SummaryInput<'_>,
) -> Result<SummaryWorth, String> {
    let body = body(&job.model.preset, wanted);
    job.model.ask(body, SpendingPurpose::Summary).await
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
