//! When a conversation is put away a model may propose what is worth remembering of it. Each fact that it names is a
//! question to a person (`actor/memory_questions`); nothing waits for the model, and nothing fails with it.

use aishd_log::spending::SpendingPurpose;
use aishd_turn::exchange::Exchange;
use aishd_turn::memory_proposal::{ProposedFact, body, proposed};
use aishd_turn::summary::portions;

use crate::context::aside_model::AsideModel;

/// What the model proposes, or why it is nothing.
pub(crate) type MemoryProposals = Result<Vec<ProposedFact>, String>;

pub(crate) struct ProposalJob {
    pub(crate) model: AsideModel,
    pub(crate) exchanges: Vec<Exchange>,
}

pub(crate) async fn propose(job: ProposalJob) -> MemoryProposals {
    let preset = &job.model.preset;
    // The newest of it that the model can take in.
    let newest = portions(&job.exchanges, preset).texts.pop();
    let body = body(preset, &newest.unwrap_or_default());
    let said = job.model.ask(body, SpendingPurpose::Memory).await?;
    Ok(proposed(&said.text))
}
