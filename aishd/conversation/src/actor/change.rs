//! What is changed in a conversation beside its turns: its name and rules, what waits, and whether it is there at all.

use aish_proto::id::{Seq, TurnId};
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::audit::{AuditDraft, AuditFact};
use aishd_log::budget::BudgetChanged;
use aishd_log::event::{Event, StopReason};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use aishd_tools::entered_directory;

use crate::actor::{Conversation, finished};
use crate::pending_commit::UncommittedFact;
use crate::request_error::RequestError;
use crate::requests::{ConversationChange, QueueChange};
use crate::view::{LiveChange, LoadingStage};

impl Conversation {
    pub(crate) async fn change(
        &mut self,
        change: ConversationChange,
        by: AnsweringPerson,
    ) -> Result<Seq, RequestError> {
        let mut moved = None;
        let event = match change {
            ConversationChange::Title(title) => Event::Renamed { title },
            ConversationChange::Model(model) => {
                if let Some(name) = &model {
                    self.check_model(name)?;
                }
                Event::ModelChanged { model }
            }
            ConversationChange::Archived(archived) => {
                self.own = None;
                Event::ArchivedChanged { archived }
            }
            ConversationChange::ResourcePinned(pinned) => Event::ResourcePinned(pinned),
            ConversationChange::ResourceUnpinned(pinned) => Event::ResourceUnpinned(pinned),
            ConversationChange::Level(provider, change) => {
                self.level_changed(provider, change, by.clone())?
            }
            ConversationChange::Constraints(constraints) => {
                self.own = None;
                let by = Some(by.clone());
                Event::ConstraintsChanged { constraints, by }
            }
            ConversationChange::Undo(mut undo) => {
                // Commands may run in a directory that is there no longer.
                if undo.may_reach(&self.state.cwd) {
                    undo.directory = entered_directory::left_above(&self.state.cwd).await;
                }
                moved.clone_from(&undo.directory);
                Event::ChangesUndo(undo)
            }
            ConversationChange::Budget(budget) => {
                let by = Some(by.clone());
                Event::BudgetChanged(Box::new(BudgetChanged { budget, by }))
            }
        };
        let put_away = matches!(event, Event::ArchivedChanged { archived: true });
        let moved = moved.map(|cwd| Event::CwdChanged {
            cwd,
            from: self.state.cwd.clone(),
        });
        let facts: Vec<UncommittedFact> = [Some(event), moved]
            .into_iter()
            .flatten()
            .map(|event| UncommittedFact {
                turn: None,
                by: Some(by.clone()),
                event,
            })
            .collect();
        // Ends of questions that it settles may come after it.
        let seq = self.state.last_seq.next();
        self.commit(&facts, LiveChange::Keep).await?;
        if put_away {
            self.propose_memories().await;
        }
        Ok(seq)
    }

    pub(crate) async fn change_queue(
        &mut self,
        change: QueueChange,
        by: AnsweringPerson,
    ) -> Result<(), RequestError> {
        match change {
            QueueChange::Remove(turn) => self.remove_queued(turn, by).await,
            QueueChange::Move(turn, position) => {
                let queued = self.state.queue.iter().find(|it| it.turn == turn);
                let steer = queued.ok_or(RequestError::UnknownTurn(turn))?.steer;
                let last = u32::try_from(self.state.queue.len()).unwrap_or(u32::MAX);
                let position = position.clamp(1, last);
                let fact = UncommittedFact {
                    turn: Some(turn),
                    by: Some(by),
                    event: Event::TurnQueued { position, steer },
                };
                self.commit(&[fact], LiveChange::Keep).await?;
                Ok(())
            }
            QueueChange::Resume => {
                self.start_first().await;
                Ok(())
            }
        }
    }

    pub(crate) async fn remove_queued(
        &mut self,
        turn: TurnId,
        by: AnsweringPerson,
    ) -> Result<(), RequestError> {
        if !self.state.queue.iter().any(|it| it.turn == turn) {
            return Err(RequestError::UnknownTurn(turn));
        }
        let fact = UncommittedFact {
            turn: Some(turn),
            by: Some(by),
            event: finished(StopReason::Cancelled),
        };
        self.commit(&[fact], LiveChange::Keep).await?;
        if self.resolving == Some(turn) {
            self.resolving = None;
            self.start_next().await;
        }
        Ok(())
    }

    /// Removes the conversation if nobody has used it since then, and nothing in it runs or waits.
    pub(crate) async fn delete_unused(&mut self, since: Timestamp) -> Result<bool, RequestError> {
        let is_used = self.state.updated_at >= since || self.state.is_unsettled();
        if is_used || self.turn.is_some() {
            return Ok(false);
        }
        self.delete(None).await?;
        Ok(true)
    }

    /// Removes a conversation that is kept for no longer than its work takes. False: it stays, for now or as others do.
    pub(crate) async fn goes_now(&mut self) -> bool {
        let is_stored = self.unborn.is_none();
        if !self.state.temporary || !is_stored || self.state.has_work() || !self.may_close() {
            return false;
        }
        if let Err(error) = self.delete(None).await {
            tracing::warn!(conversation = %self.id, %error, "it stays until the next start");
            return false;
        }
        if let Err(why) = self.services.store.erase().await {
            tracing::warn!(why, "what was deleted has not left every file yet");
        }
        true
    }

    /// Removes the conversation, and then whatever runs in it. `by`: nobody, where it was kept for long enough.
    pub(crate) async fn delete(&mut self, by: Option<AnsweringPerson>) -> Result<(), RequestError> {
        let draft = AuditDraft {
            conversation: Some(self.id),
            by,
            ..AuditDraft::outside_conversation(clock::now(), AuditFact::ConversationDeleted)
        };
        self.services.store.delete(self.id, vec![draft]).await?;
        self.abandon().await;
        // What the running turn wrote meanwhile goes too.
        if let Err(error) = self.services.store.delete(self.id, vec![]).await {
            tracing::warn!(%error, "clear up after a deleted conversation");
        }
        self.forget_trials();
        self.forget_environment();
        self.services.pending.remove_all_of(self.id);
        self.registration.remove();
        self.publisher
            .loaded(LoadingStage::Missing, &ConversationState::default());
        Ok(())
    }
}
