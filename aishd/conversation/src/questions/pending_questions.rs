//! All questions that wait for a person, of all conversations: one value that changes as a whole, so that a
//! watcher misses nothing and is sent nothing twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use aish_proto::id::{ConfirmId, ConversationId, Seq, TurnId};
use aishd_log::confirm::memory::MemorySubject;
use aishd_log::confirm::{Confirm, ConfirmSubject};
use aishd_log::event::{Event, Record};
use aishd_log::time::Timestamp;
use aishd_log::tried::TriedCommand;
use aishd_store::{ReadError, Store};
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
    pub confirm: Box<Confirm>,
    /// The newest trial of what it is about, and its place in the log.
    pub tried: Option<Arc<TriedCommand>>,
    tried_at: Option<(Seq, Timestamp)>,
}

impl PendingQuestion {
    /// `None`: the event asks nothing.
    pub fn of(conversation: ConversationId, record: &Record) -> Option<Self> {
        let Event::ConfirmRequested(confirm) = &record.event else {
            return None;
        };
        Some(Self {
            conversation,
            turn: record.turn,
            seq: record.seq,
            requested_at: record.at,
            confirm: confirm.clone(),
            tried: None,
            tried_at: None,
        })
    }

    /// The same with the newest trial of its command, as an open question has it.
    pub(crate) fn with_trial(mut self, store: &Store) -> Result<Self, ReadError> {
        let state = store.state(self.conversation)?;
        let seq = state.and_then(|it| it.open_confirm(self.confirm.id)?.tried);
        let Some(seq) = seq else { return Ok(self) };
        let record = store.record(self.conversation, seq)?;
        if let Some(record) = record
            && let Event::CommandTried(tried) = record.event
        {
            self.tried = Some(Arc::new(*tried));
            self.tried_at = Some((record.seq, record.at));
        }
        Ok(self)
    }

    /// The event that asks.
    pub fn record(&self) -> Record {
        Record {
            seq: self.seq,
            at: self.requested_at,
            turn: self.turn,
            client: None,
            event: Event::ConfirmRequested(self.confirm.clone()),
        }
    }

    /// The event that tells of its newest trial.
    pub fn trial_record(&self) -> Option<Record> {
        let ((seq, at), tried) = self.tried_at.zip(self.tried.as_deref())?;
        Some(Record {
            seq,
            at,
            turn: self.turn,
            client: None,
            event: Event::CommandTried(Box::new(tried.clone())),
        })
    }

    /// The proposed fact that it is about.
    pub fn memory(&self) -> Option<&MemorySubject> {
        match &self.confirm.subject {
            ConfirmSubject::Memory(subject) => Some(subject),
            _ => None,
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
    pub(crate) fn complete(&self) {
        self.complete.send_replace(true);
    }

    pub(crate) fn add(&self, question: PendingQuestion) {
        self.open.send_modify(|open| {
            Arc::make_mut(open).insert(question.confirm.id, Arc::new(question));
        });
    }

    /// The newest trial of an open question.
    pub(crate) fn tried_of(&self, confirm: ConfirmId) -> Option<Arc<TriedCommand>> {
        self.open.borrow().get(&confirm)?.tried.clone()
    }

    /// Another trial than before counts; the one before.
    pub(crate) fn tried(
        &self,
        tried: &TriedCommand,
        at: (Seq, Timestamp),
    ) -> Option<Arc<TriedCommand>> {
        let mut before = None;
        self.open.send_if_modified(|open| {
            let question = Arc::make_mut(open).get_mut(&tried.confirm);
            let Some(question) = question else {
                return false;
            };
            let question = Arc::make_mut(question);
            before = question.tried.replace(Arc::new(tried.clone()));
            question.tried_at = Some(at);
            true
        });
        before
    }

    pub(crate) fn remove(&self, confirm: ConfirmId) {
        self.open
            .send_if_modified(|open| Arc::make_mut(open).remove(&confirm).is_some());
    }

    pub(crate) fn remove_all_of(&self, conversation: ConversationId) {
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
