//! A conversation that is made: what it begins with, and its first records.

use aish_proto::id::TurnId;
use aishd_log::budget::BudgetLimits;
use aishd_log::constraints::Constraints;
use aishd_log::event::{Event, Record};
use aishd_log::state::ConversationState;
use aishd_platform::clock;

/// What a new conversation is made with.
#[derive(Clone, Debug)]
pub struct NewConversation {
    pub title: Option<String>,
    pub model: Option<String>,
    pub cwd: String,
    pub constraints: Constraints,
    pub budget: BudgetLimits,
    /// It goes when nothing is under way in it and nobody looks.
    pub temporary: bool,
}

impl NewConversation {
    pub(crate) fn created(self) -> Event {
        Event::Created {
            title: self.title,
            model: self.model,
            cwd: self.cwd,
            forked_from: None,
            constraints: self.constraints,
            importing: false,
            temporary: self.temporary,
            budget: self.budget,
        }
    }
}

/// The event in its place after `state`, which moves on.
pub(crate) fn place(state: &mut ConversationState, turn: Option<TurnId>, event: Event) -> Record {
    let record = Record {
        seq: state.last_seq.next(),
        at: clock::now(),
        turn,
        client: None,
        event,
    };
    state.apply(&record);
    record
}
