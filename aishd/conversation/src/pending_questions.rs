//! All questions that wait for a person, of all conversations: one value that changes as a whole, so that a
//! watcher misses nothing and is sent nothing twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use aish_proto::id::{ConfirmId, ConversationId, Seq, TurnId};
use aishd_log::confirm::Confirm;
use aishd_log::event::{Event, Record};
use aishd_log::level_request::LevelRequest;
use aishd_log::memory::question::MemoryProposal;
use aishd_log::time::Timestamp;
use tokio::sync::watch;

/// Cheap to clone.
#[derive(Clone, Debug)]
pub struct PendingQuestions {
    open: watch::Sender<PendingById>,
    /// Whether those that the last daemon left have been read.
    complete: watch::Sender<bool>,
}

/// The questions by their ids, oldest first.
pub type PendingById = Arc<BTreeMap<ConfirmId, Arc<PendingQuestion>>>;

/// One question in its place.
#[derive(Clone, Debug, PartialEq)]
pub struct PendingQuestion {
    pub conversation: ConversationId,
    pub turn: Option<TurnId>,
    pub seq: Seq,
    pub requested_at: Timestamp,
    pub asked: QuestionSubject,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq)]
pub enum QuestionSubject {
    /// Something that a turn waits for.
    InTurn(Box<Confirm>),
    /// A level, by nobody's turn.
    Raise(Box<LevelRequest>),
    /// Whether a fact that a model proposes is kept.
    Memory(Box<MemoryProposal>),
}

impl PendingQuestion {
    /// `None`: the event asks nothing.
    pub fn of(conversation: ConversationId, record: &Record) -> Option<Self> {
        Some(Self {
            conversation,
            turn: record.turn,
            seq: record.seq,
            requested_at: record.at,
            asked: QuestionSubject::by(&record.event)?,
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
                QuestionSubject::InTurn(confirm) => Event::ConfirmRequested(confirm),
                QuestionSubject::Raise(raise) => Event::RaiseRequested(raise),
                QuestionSubject::Memory(proposal) => Event::MemoryProposed(proposal),
            },
        }
    }
}

impl QuestionSubject {
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

    pub fn expires_at(&self) -> Option<Timestamp> {
        match self {
            Self::InTurn(confirm) => confirm.expires_at,
            Self::Raise(raise) => raise.expires_at,
            Self::Memory(_) => None,
        }
    }
}

impl PendingQuestions {
    pub fn new() -> Self {
        Self {
            open: watch::Sender::new(PendingById::default()),
            complete: watch::Sender::new(false),
        }
    }

    /// What is known to be open.
    pub fn snapshot(&self) -> PendingById {
        self.open.borrow().clone()
    }

    /// What is open, once the questions of the last daemon have been read.
    pub async fn watch(&self) -> watch::Receiver<PendingById> {
        let mut complete = self.complete.subscribe();
        let _never_closed = complete.wait_for(|it| *it).await;
        self.open.subscribe()
    }

    /// The questions of the last daemon have been read.
    pub(super) fn complete(&self) {
        self.complete.send_replace(true);
    }

    pub(super) fn add(&self, question: PendingQuestion) {
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

impl Default for PendingQuestions {
    fn default() -> Self {
        Self::new()
    }
}
