//! When a model is asked what is worth remembering.

use std::panic::AssertUnwindSafe;

use aishd_log::event::{Event, ProviderLevel};
use aishd_turn::exchange::Exchange;
use futures_util::FutureExt as _;
use tracing::Instrument as _;

use crate::actor::{Conversation, TaskOutcome};
use crate::context::memory_proposals::{MemoryProposals, ProposalJob, propose};
use crate::pending_commit::{PendingCommit, UncommittedFact};

impl Conversation {
    /// Has a model look through what was said, where that is switched on.
    pub(crate) async fn propose_memories(&mut self) {
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
            model: self.aside_model(preset),
            exchanges,
        };
        self.proposing = true;
        let work = async move {
            let by = job.model.preset.name.clone();
            let outcome = AssertUnwindSafe(propose(job)).catch_unwind().await;
            let outcome = outcome.unwrap_or_else(|_panic| Err("internal error".to_owned()));
            TaskOutcome::Proposed(by, outcome)
        };
        self.io
            .spawn(Box::pin(work.instrument(tracing::info_span!("memory"))));
    }

    /// Asks people, who alone can keep something of it.
    pub(crate) async fn proposed(&mut self, by: &str, outcome: MemoryProposals) {
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
