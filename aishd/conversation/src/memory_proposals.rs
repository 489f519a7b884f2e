//! When a conversation is put away a model may propose what is worth remembering of it. Each fact that it names is a
//! question to a person (`keep`); nothing waits for the model, and nothing fails with it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use aishd_broker::Broker;
use aishd_log::event::{Event, ProviderLevel};
use aishd_log::spending::SpendingPurpose;
use aishd_model::preset::Preset;
use aishd_turn::exchange::Exchange;
use aishd_turn::memory_proposal::{ProposedFact, body, proposed};
use aishd_turn::summary::{portions, worth};
use futures_util::FutureExt as _;
use tokio::time::timeout;
use tracing::Instrument as _;

use super::budget::BudgetMeter;
use super::commit::{PendingCommit, UncommittedFact};
use super::token_counts::TokenCounts;
use super::{Conversation, TaskOutcome};

const WITHIN: Duration = Duration::from_secs(30);

/// What the model proposes, or why it is nothing.
pub(super) type MemoryProposals = Result<Vec<ProposedFact>, String>;

struct ProposalJob {
    broker: Broker,
    tokens: TokenCounts,
    purse: BudgetMeter,
    preset: Arc<Preset>,
    exchanges: Vec<Exchange>,
}

impl Conversation {
    /// Has a model look through what was said, where that is switched on.
    pub(super) async fn propose_memories(&mut self) {
        let models = self.models();
        let Some(preset) = models.memory.proposer.as_deref() else {
            return;
        };
        let Some(preset) = models.by_name(preset).filter(|_| !self.proposing) else {
            return;
        };
        if let Err(error) = self.load_transcript().await {
            tracing::warn!(%error, "nothing is proposed of a conversation that cannot be read");
            return;
        }
        let exchanges = self.transcript.held.iter().flat_map(|it| it.exchanges());
        let exchanges: Vec<Exchange> = exchanges.cloned().collect();
        if exchanges.is_empty() {
            return;
        }
        let job = ProposalJob {
            broker: self.services.broker.clone(),
            tokens: self.services.tokens.clone(),
            purse: self.purse.clone(),
            preset: self.services.broker.adapted(preset),
            exchanges,
        };
        self.proposing = true;
        let work = async move {
            let by = job.preset.name.clone();
            let outcome = AssertUnwindSafe(propose(job)).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|_panic| Err("internal error".to_owned()));
            TaskOutcome::Proposed(by, outcome)
        };
        self.io
            .spawn(Box::pin(work.instrument(tracing::info_span!("memory"))));
    }

    /// Asks people, who alone can keep something of it.
    pub(super) async fn proposed(&mut self, by: &str, outcome: MemoryProposals) {
        self.proposing = false;
        let mut facts = self.pending_facts(None);
        match outcome {
            Ok(proposed) => facts.extend(self.questions_of(proposed, by)),
            Err(why) => facts.push(UncommittedFact {
                turn: None,
                by: None,
                event: Event::Status {
                    level: ProviderLevel::Warning,
                    text: format!("nothing is proposed to be remembered ({by}: {why})"),
                },
            }),
        }
        // An actor with a question stays in memory, and the text is not needed for an answer.
        if self.turn.is_none() && self.resolving.is_none() && self.summing.is_idle() {
            self.transcript.held = None;
        }
        self.settle(PendingCommit::facts(facts)).await;
    }
}

async fn propose(job: ProposalJob) -> MemoryProposals {
    // The newest of it that the model can take in.
    let newest = portions(&job.exchanges, &job.preset).texts.pop();
    let body = body(&job.preset, &newest.unwrap_or_default());
    let bytes = body.len();
    let (purse, preset) = (&job.purse, &job.preset);
    let admitted = purse.admit_aside(preset, bytes as u64, SpendingPurpose::Memory);
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
