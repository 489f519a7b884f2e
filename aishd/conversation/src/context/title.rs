//! The title of a conversation, by a preset that is configured for that: beside the conversation, within a time, and
//! nothing fails with it.

use std::sync::Arc;
use std::time::Duration;

use aishd_broker::Broker;
use aishd_log::spending::SpendingPurpose;
use aishd_model::preset::Preset;
use aishd_turn::exchange::Exchange;
use aishd_turn::summary::{portions, worth};
use aishd_turn::title::{body, title_in};
use tokio::time::timeout;

use crate::context::token_counts::TokenCounts;
use crate::pending_commit::UncommittedFact;
use crate::spending::budget::BudgetMeter;

const WITHIN: Duration = Duration::from_secs(30);

pub(crate) struct TitleJob {
    pub(crate) broker: Broker,
    pub(crate) tokens: TokenCounts,
    pub(crate) budget: BudgetMeter,
    pub(crate) preset: Arc<Preset>,
    pub(crate) first: Exchange,
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct TitleOutcome {
    /// The title, or why there is none.
    pub(crate) made: Result<String, String>,
    /// What was paid for, and is in no log yet.
    pub(crate) owed: Vec<UncommittedFact>,
}

pub(crate) async fn title(job: TitleJob) -> Result<String, String> {
    let shown = portions(std::slice::from_ref(&job.first), &job.preset).texts;
    // The newest of it that the model can take in.
    let body = body(&job.preset, shown.last().map_or("", String::as_str));
    let bytes = body.len();
    let (budget, preset) = (&job.budget, &job.preset);
    let admitted = budget.admit_aside(preset, bytes as u64, SpendingPurpose::Title);
    let ticket = admitted.map_err(|reached| reached.to_string())?;
    ticket.meter().sends(bytes);
    let answer = job.broker.stream(&job.preset, body, |_delta| {});
    let reply = match timeout(WITHIN, answer).await {
        Ok(Ok(reply)) => {
            ticket.charge_aside(Some(&reply), None);
            reply
        }
        Ok(Err(broken)) => {
            ticket.charge_aside(Some(&broken.partial), Some(&broken.failure));
            return Err(broken.failure.to_string());
        }
        Err(_elapsed) => return Err(format!("no answer within {} s", WITHIN.as_secs())),
    };
    let counted = reply.usage.and_then(|it| it.input);
    job.tokens.learn(&job.preset, bytes, counted);
    title_in(&worth(&reply)?.text)
}
