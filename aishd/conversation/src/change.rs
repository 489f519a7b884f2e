//! What is changed in a conversation beside its turns: its name and rules, what waits, and whether it is there at all.

use aish_proto::id::{Seq, TurnId};

use super::commit::Fact;
use super::handle::{Change, QueueChange, RequestError};
use super::view::{LiveChange, Loading};
use super::{Conversation, finished};
use aishd_log::audit::{Draft, Told};
use aishd_log::confirm::Person;
use aishd_log::event::{Event, Stop};
use aishd_log::purse::BudgetChanged;
use aishd_log::state::State;
use aishd_platform::clock;

impl Conversation {
    pub(super) async fn change(&mut self, change: Change, by: Person) -> Result<Seq, RequestError> {
        let event = match change {
            Change::Title(title) => Event::Renamed { title },
            Change::Model(model) => {
                if let Some(name) = &model {
                    self.check_model(name)?;
                }
                Event::ModelChanged { model }
            }
            Change::Archived(archived) => {
                self.own = None;
                Event::ArchivedChanged { archived }
            }
            Change::Pinned(pinned) => Event::ResourcePinned(pinned),
            Change::Unpinned(pinned) => Event::ResourceUnpinned(pinned),
            Change::Level(provider, change) => self.level_changed(provider, change, by.clone())?,
            Change::Constraints(constraints) => {
                self.own = None;
                let by = Some(by.clone());
                Event::ConstraintsChanged { constraints, by }
            }
            Change::Budget(budget) => {
                let by = Some(by.clone());
                Event::BudgetChanged(Box::new(BudgetChanged { budget, by }))
            }
        };
        let put_away = matches!(event, Event::ArchivedChanged { archived: true });
        let fact = Fact {
            turn: None,
            by: Some(by),
            event,
        };
        // Ends of questions that it settles may come after it.
        let seq = self.state.last_seq.next();
        self.commit(&[fact], LiveChange::Keep).await?;
        if put_away {
            self.propose_memories().await;
        }
        Ok(seq)
    }

    pub(super) async fn change_queue(
        &mut self,
        change: QueueChange,
        by: Person,
    ) -> Result<(), RequestError> {
        match change {
            QueueChange::Remove(turn) => self.remove_queued(turn, by).await,
            QueueChange::Move(turn, position) => {
                let queued = self.state.queue.iter().find(|it| it.turn == turn);
                let steer = queued.ok_or(RequestError::UnknownTurn(turn))?.steer;
                let last = u32::try_from(self.state.queue.len()).unwrap_or(u32::MAX);
                let position = position.clamp(1, last);
                let fact = Fact {
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

    pub(super) async fn remove_queued(
        &mut self,
        turn: TurnId,
        by: Person,
    ) -> Result<(), RequestError> {
        if !self.state.queue.iter().any(|it| it.turn == turn) {
            return Err(RequestError::UnknownTurn(turn));
        }
        let fact = Fact {
            turn: Some(turn),
            by: Some(by),
            event: finished(Stop::Cancelled),
        };
        self.commit(&[fact], LiveChange::Keep).await?;
        if self.resolving == Some(turn) {
            self.resolving = None;
            self.start_next().await;
        }
        Ok(())
    }

    /// Removes the conversation, and then whatever runs in it.
    pub(super) async fn delete(&mut self, by: Person) -> Result<(), RequestError> {
        let draft = Draft {
            conversation: Some(self.id),
            by: Some(by),
            ..Draft::beside(clock::now(), Told::ConversationDeleted)
        };
        self.around.store.delete(self.id, vec![draft]).await?;
        self.abandon().await;
        // What the running turn wrote meanwhile goes too.
        if let Err(error) = self.around.store.delete(self.id, vec![]).await {
            tracing::warn!(%error, "clear up after a deleted conversation");
        }
        self.around.pending.remove_all_of(self.id);
        self.registration.remove();
        self.publisher.loaded(Loading::Missing, &State::default());
        Ok(())
    }
}
