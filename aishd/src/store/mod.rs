//! Where conversations last: a journal that is written and synced first, and sled with the working state
//! and the indexes behind it (spec 00, Store). No other module knows sled.

use std::path::Path;

use aish_proto::id::{ConversationId, Epoch, Seq, TurnId};

use crate::core::event::{At, Record};
use crate::core::state::State;

/// A handle; cheap to clone. Reads go to sled directly, writes to the one writer thread.
#[derive(Clone, Debug)]
pub struct Store {}

/// What becomes durable together, or not at all.
#[derive(Clone, Debug)]
pub struct Commit {
    pub conversation: ConversationId,
    /// In the order of their seq, following on the last one stored.
    pub records: Vec<Record>,
    /// The state after the last of them.
    pub state: State,
}

/// Text of an item that is being written (LOOP-3); kept without a sync, gone with the next commit of its turn.
#[derive(Clone, Debug)]
pub struct Partial {
    pub conversation: ConversationId,
    pub turn: TurnId,
    pub item: u32,
    /// Where `text` begins in the item, in bytes; it follows on what was kept before.
    pub offset: u64,
    pub text: String,
}

/// A conversation as it was stored.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub state: State,
    /// Text that was being written when the daemon ended.
    pub partial: Option<Partial>,
}

/// A turn's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnPlace {
    pub conversation: ConversationId,
    /// Its question.
    pub message_seq: Seq,
}

/// What was asked with an idempotency key before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    pub turn: TurnId,
    pub message_seq: Seq,
    pub body: String,
    pub at: At,
}

/// Whether commits are taken, for `daemon/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why not, when they are not.
    pub problem: Option<String>,
    pub journal_bytes: u64,
}

/// The commit is not in the store and never will be; the same one may be tried again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    #[error("no room on the disk of the store")]
    Full,
    #[error("write the journal: {0}")]
    Io(String),
    #[error("the store is closed")]
    Closed,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    /// The index is being rebuilt or cannot be opened now.
    #[error("the store cannot be read now: {0}")]
    Unavailable(String),
    #[error("a stored record cannot be understood: {0}")]
    Damaged(String),
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("another daemon{} has the store {path}", pid.map(|it| format!(" (pid {it})")).unwrap_or_default())]
    Locked { path: String, pid: Option<u32> },
    #[error("the store {path} has format {found}, and this program knows formats up to {known}")]
    Newer {
        path: String,
        found: u32,
        known: u32,
    },
    #[error("the store {path} is damaged: {detail}")]
    Damaged { path: String, detail: String },
    #[error("open the store {path}")]
    Io {
        path: String,
        #[source]
        source: std::io::Error,
    },
}

impl Store {
    /// Opens the store in `dir`, which is made if it is not there. Blocks.
    pub fn open(_dir: &Path) -> Result<Self, OpenError> {
        todo!()
    }

    #[must_use]
    pub fn epoch(&self) -> Epoch {
        todo!()
    }

    /// What start-up found and repaired, in words.
    #[must_use]
    pub fn repairs(&self) -> Vec<String> {
        todo!()
    }

    #[must_use]
    pub fn health(&self) -> Health {
        todo!()
    }

    /// Returns once the records would survive a power cut.
    pub async fn commit(&self, _commit: Commit) -> Result<(), CommitError> {
        todo!()
    }

    /// Never waits; a piece that the writer has no room for is dropped, and the next one repeats it
    /// because the caller only moves on from what was taken. Returns whether it was taken.
    pub fn keep_partial(&self, _partial: Partial) -> bool {
        todo!()
    }

    /// Removes a conversation from sled at once and from the journal at the next compaction.
    pub async fn delete(&self, _conversation: ConversationId) -> Result<(), CommitError> {
        todo!()
    }

    pub fn load(&self, _conversation: ConversationId) -> Result<Option<Loaded>, ReadError> {
        todo!()
    }

    /// Records with seq > `after`, oldest first: as many as fit in about `max_bytes` of stored form, at least one if any.
    pub fn records_after(
        &self,
        _conversation: ConversationId,
        _after: Seq,
        _max_bytes: usize,
    ) -> Result<Vec<Record>, ReadError> {
        todo!()
    }

    /// The last records with seq < `before`, oldest first: at most `limit`, as many as fit in about `max_bytes`.
    pub fn records_before(
        &self,
        _conversation: ConversationId,
        _before: Seq,
        _limit: usize,
        _max_bytes: usize,
    ) -> Result<Vec<Record>, ReadError> {
        todo!()
    }

    /// The record with exactly this seq.
    pub fn record(
        &self,
        _conversation: ConversationId,
        _seq: Seq,
    ) -> Result<Option<Record>, ReadError> {
        todo!()
    }

    pub fn find_key(
        &self,
        _conversation: ConversationId,
        _key: &str,
    ) -> Result<Option<KeyUse>, ReadError> {
        todo!()
    }

    pub fn find_turn(&self, _turn: TurnId) -> Result<Option<TurnPlace>, ReadError> {
        todo!()
    }

    /// Every conversation with its state, in the order of their ids.
    pub fn states(&self) -> Result<Vec<(ConversationId, State)>, ReadError> {
        todo!()
    }

    /// Conversations whose state is unsettled (a running or waiting turn), without reading the others.
    pub fn unsettled(&self) -> Result<Vec<ConversationId>, ReadError> {
        todo!()
    }

    /// Writes down everything, closes sled and ends the writer. Blocks.
    pub fn close(&self) {
        todo!()
    }
}
