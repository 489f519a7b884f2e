//! When a conversation is put away a model may propose what is worth remembering of it. Each fact that it names is a
//! question to a person (`actor/memory_questions`); nothing waits for the model, and nothing fails with it.

use std::sync::Arc;
use std::time::Duration;

use aishd_broker::Broker;
use aishd_log::spending::SpendingPurpose;
use aishd_model::preset::Preset;
use aishd_turn::exchange::Exchange;
use aishd_turn::memory_proposal::{ProposedFact, body, proposed};
use aishd_turn::summary::{portions, worth};
use tokio::time::timeout;

use crate::context::token_counts::TokenCounts;
use crate::spending::budget::BudgetMeter;

pub(crate) const WITHIN: Duration = Duration::from_secs(30);

/// What the model proposes, or why it is nothing.
pub(crate) type MemoryProposals = Result<Vec<ProposedFact>, String>;

pub(crate) struct ProposalJob {
    pub(crate) broker: Broker,
    pub(crate) tokens: TokenCounts,
    pub(crate) budget: BudgetMeter,
    pub(crate) preset: Arc<Preset>,
    pub(crate) exchanges: Vec<Exchange>,
}

pub(crate) async fn propose(job: ProposalJob) -> MemoryProposals {
    // The newest of it that the model can take in.
    let newest = portions(&job.exchanges, &job.preset).texts.pop();
    let body = body(&job.preset, &newest.unwrap_or_default());
    let bytes = body.len();
    let (budget, preset) = (&job.budget, &job.preset);
    let admitted = budget.admit_aside(preset, bytes as u64, SpendingPurpose::Memory);
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
    Ok(proposed(&worth(&reply)?.text))
}
