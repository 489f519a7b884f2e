//! From facts to everybody's view: number them, make them durable, let them be seen, then do what they lead
//! to. What the store will not take waits here, and nothing else changes until it does.

use std::time::Duration;

use aish_proto::id::{ClientId, Seq, TurnId};
use tokio::time::Instant;

use super::Conversation;
use super::view::LiveChange;
use crate::clock;
use crate::core::event::{Event, Record};
use crate::core::state::State;
use crate::core::turn::{Effect, Step};
use crate::failpoint;
use crate::store::{Commit, CommitError};

/// How long a commit that the store refused waits before it is tried again: first, and at most.
const RETRY_FIRST: Duration = Duration::from_millis(200);
pub(super) const RETRY_LONGEST: Duration = Duration::from_secs(2);

/// A fact before it has its place in the log.
#[derive(Clone, Debug)]
pub(super) struct Fact {
    pub(super) turn: Option<TurnId>,
    pub(super) client: Option<ClientId>,
    pub(super) event: Event,
}

/// Facts, and what is to be done once they are durable.
#[derive(Debug, Default)]
pub(super) struct Pending {
    facts: Vec<Fact>,
    effects: Vec<Effect>,
    /// The running turn is over with them.
    ends: bool,
}

/// What the store would not take.
#[derive(Debug)]
pub(super) struct Unstored {
    pending: Pending,
    pause: Duration,
    pub(super) retry_at: Instant,
}

impl Pending {
    pub(super) fn facts(facts: Vec<Fact>) -> Self {
        Self {
            facts,
            effects: vec![],
            ends: false,
        }
    }

    /// The end of a turn that nobody works on any more.
    pub(super) fn leftovers(facts: Vec<Fact>) -> Self {
        Self {
            facts,
            effects: vec![],
            ends: true,
        }
    }

    fn live(&self) -> LiveChange {
        let says = |it: &Fact| matches!(it.event, Event::AssistantMessage { .. });
        if self.ends || self.facts.iter().any(says) {
            LiveChange::End
        } else {
            LiveChange::Keep
        }
    }
}

impl Conversation {
    /// Stores what a step of the running turn says, lets everybody see it, then does what it asks for.
    pub(super) async fn take_step(&mut self, step: Step) {
        let Some(active) = &self.turn else { return };
        let (turn, ends) = (active.id, step.ends_turn());
        let stopped_by = active.stopped_by;
        let opens = |it: &Effect| matches!(it, Effect::OpenStream(_));
        let asks_again = step.effects.iter().any(opens);
        let events = self.with_ends_of_forms(step.events);
        let mut facts: Vec<Fact> = events
            .into_iter()
            .map(|event| Fact {
                turn: Some(turn),
                client: client_of(&event, stopped_by),
                event,
            })
            .collect();
        if asks_again {
            facts.extend(self.steering(turn));
        }
        let effects = step.effects;
        self.settle(Pending {
            facts,
            effects,
            ends,
        })
        .await;
    }

    /// Makes it durable and does what follows; what the store will not take is tried again later.
    pub(super) async fn settle(&mut self, pending: Pending) {
        if !pending.facts.is_empty() {
            if pending.ends {
                failpoint::pass("turn.before_commit");
            }
            if let Err(error) = self.commit(&pending.facts, pending.live()).await {
                self.wait_for_store(pending, &error);
                return;
            }
            if pending.ends {
                failpoint::pass("turn.after_commit");
            }
        }
        self.unstored = None;
        for effect in pending.effects {
            Box::pin(self.perform(effect)).await;
        }
        if pending.ends {
            self.turn = None;
            self.stopper.set(None);
            Box::pin(self.start_next()).await;
        }
    }

    pub(super) fn wait_for_store(&mut self, pending: Pending, error: &CommitError) {
        let pause = match self.unstored.take() {
            Some(before) => (before.pause * 2).min(RETRY_LONGEST),
            None => RETRY_FIRST,
        };
        tracing::error!(%error, "what happened waits for the store");
        self.publisher.stuck(error.to_string());
        self.unstored = Some(Unstored {
            pending,
            pause,
            retry_at: Instant::now() + pause,
        });
    }

    /// Tries what the store would not take once more.
    pub(super) async fn retry_commit(&mut self) {
        if let Some(unstored) = &mut self.unstored {
            let pending = std::mem::take(&mut unstored.pending);
            self.settle(pending).await;
        }
    }

    /// Makes facts durable, then visible. On an error nothing has changed.
    pub(super) async fn commit(
        &mut self,
        facts: &[Fact],
        live: LiveChange,
    ) -> Result<Seq, CommitError> {
        let (records, state) = self.number(facts);
        pass_before(facts);
        self.around
            .store
            .commit(Commit {
                conversation: self.id,
                records: records.clone(),
                state: state.clone(),
            })
            .await?;
        pass_after(facts);
        self.publish(records, state, live);
        Ok(self.state.last_seq)
    }

    /// Gives facts their places after the last one stored.
    pub(super) fn number(&self, facts: &[Fact]) -> (Vec<Record>, State) {
        let at = clock::now();
        let mut state = self.state.clone();
        let mut records: Vec<Record> = self.unborn.iter().cloned().collect();
        for fact in facts {
            let record = Record {
                seq: state.last_seq.next(),
                at,
                turn: fact.turn,
                client: fact.client,
                event: fact.event.clone(),
            };
            state.apply(&record);
            records.push(record);
        }
        (records, state)
    }

    pub(super) fn publish(&mut self, records: Vec<Record>, state: State, live: LiveChange) {
        if let Some(transcript) = &mut self.transcript {
            for record in &records {
                transcript.apply(record);
            }
        }
        self.unborn = None;
        self.state = state;
        self.note_confirms(&records);
        self.publisher.advance(records, &self.state, live);
    }
}

/// The places where a crash has to leave things whole (G6, G7).
fn pass_before(facts: &[Fact]) {
    for fact in facts {
        if let Event::ConfirmRequested(_) = fact.event {
            failpoint::pass("confirm.before_store");
        }
        if let Event::ToolStarted { .. } = fact.event {
            failpoint::pass("tool.before_start_mark");
        }
    }
}

fn pass_after(facts: &[Fact]) {
    for fact in facts {
        if let Event::ConfirmRequested(_) = fact.event {
            failpoint::pass("confirm.after_store");
        }
        if let Event::ConfirmResolved(_) = fact.event {
            failpoint::pass("confirm.after_answer_store");
        }
        if let Event::ToolStarted { .. } = fact.event {
            failpoint::pass("tool.after_start_mark");
        }
        if let Event::ToolResult { .. } = fact.event {
            failpoint::pass("tool.after_result");
        }
    }
}

/// The client that a fact of a turn is put down to.
fn client_of(event: &Event, stopped_by: Option<ClientId>) -> Option<ClientId> {
    if let Event::ConfirmResolved(resolution) = event {
        return resolution.by.as_ref().map(|it| it.client);
    }
    if let Event::PermissionChanged { by, .. } = event {
        return by.as_ref().map(|it| it.client);
    }
    stopped_by.filter(|_| matches!(event, Event::TurnFinished { .. }))
}
