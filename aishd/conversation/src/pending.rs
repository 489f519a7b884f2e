//! All questions that wait for a person, of all conversations: one value that changes as a whole, so that a
//! watcher misses nothing and is sent nothing twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use aish_proto::id::{ConfirmId, ConversationId, Seq, TurnId};
use tokio::sync::watch;

use aishd_log::confirm::Confirm;
use aishd_log::event::{Event, Record};
use aishd_log::level_request::Raise;
use aishd_log::memory::question::Proposal;
use aishd_log::time::At;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pending {
    open: watch::Sender<Open>,
    /// Whether those that the last daemon left have been read.
    complete: watch::Sender<bool>,
}

/// The questions by their ids, oldest first.
pub type Open = Arc<BTreeMap<ConfirmId, Arc<Question>>>;

/// One question in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    pub conversation: ConversationId,
    pub turn: Option<TurnId>,
    pub seq: Seq,
    pub requested_at: At,
    pub asked: Asked,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Asked {
    /// Something that a turn waits for.
    InTurn(Box<Confirm>),
    /// A level, by nobody's turn.
    Raise(Box<Raise>),
    /// Whether a fact that a model proposes is kept.
    Memory(Box<Proposal>),
}

impl Question {
    /// `None`: the event asks nothing.
    pub fn of(conversation: ConversationId, record: &Record) -> Option<Self> {
        Some(Self {
            conversation,
            turn: record.turn,
            seq: record.seq,
            requested_at: record.at,
            asked: Asked::by(&record.event)?,
        })
    }

    /// The event that asks.
    pub fn record(&self) -> Record {
        Record {
            seq: self.seq,
            at: self.requested_at,
            turn: self.turn,
            client: None,
            event: match self.asked.clone() {
                Asked::InTurn(confirm) => Event::ConfirmRequested(confirm),
                Asked::Raise(raise) => Event::RaiseRequested(raise),
                Asked::Memory(proposal) => Event::MemoryProposed(proposal),
            },
        }
    }
}

impl Asked {
    fn by(event: &Event) -> Option<Self> {
        if let Event::ConfirmRequested(confirm) = event {
            return Some(Self::InTurn(confirm.clone()));
        }
        if let Event::RaiseRequested(raise) = event {
            return Some(Self::Raise(raise.clone()));
        }
        if let Event::MemoryProposed(proposal) = event {
            return Some(Self::Memory(proposal.clone()));
        }
        None
    }

    pub fn id(&self) -> ConfirmId {
        match self {
            Self::InTurn(confirm) => confirm.id,
            Self::Raise(raise) => raise.id,
            Self::Memory(proposal) => proposal.id,
        }
    }

    /// What people call it: `c7`.
    pub fn number(&self) -> u32 {
        match self {
            Self::InTurn(confirm) => confirm.number,
            Self::Raise(raise) => raise.number,
            Self::Memory(proposal) => proposal.number,
        }
    }

    pub fn expires_at(&self) -> Option<At> {
        match self {
            Self::InTurn(confirm) => confirm.expires_at,
            Self::Raise(raise) => raise.expires_at,
            Self::Memory(_) => None,
        }
    }
}

impl Pending {
    pub fn new() -> Self {
        Self {
            open: watch::Sender::new(Open::default()),
            complete: watch::Sender::new(false),
        }
    }

    /// What is known to be open.
    pub fn known(&self) -> Open {
        self.open.borrow().clone()
    }

    /// What is open, once the questions of the last daemon have been read.
    pub async fn watch(&self) -> watch::Receiver<Open> {
        let mut complete = self.complete.subscribe();
        let _never_closed = complete.wait_for(|it| *it).await;
        self.open.subscribe()
    }

    /// The questions of the last daemon have been read.
    pub(super) fn complete(&self) {
        self.complete.send_replace(true);
    }

    pub(super) fn add(&self, question: Question) {
        self.open.send_modify(|open| {
            Arc::make_mut(open).insert(question.asked.id(), Arc::new(question));
        });
    }

    pub(super) fn remove(&self, confirm: ConfirmId) {
        self.open
            .send_if_modified(|open| Arc::make_mut(open).remove(&confirm).is_some());
    }

    pub(super) fn remove_all_of(&self, conversation: ConversationId) {
        self.open.send_if_modified(|open| {
            let before = open.len();
            Arc::make_mut(open).retain(|_, it| it.conversation != conversation);
            open.len() != before
        });
    }
}

impl Default for Pending {
    fn default() -> Self {
        Self::new()
    }
}
