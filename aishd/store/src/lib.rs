//! Where conversations last: a journal that is written and synced first, and sled with the working state
//! and the indexes behind it. No other module knows sled.

mod audit_trail;
pub mod backup;
mod body;
mod change_batch;
pub mod check;
mod compact;
mod compaction_plan;
mod disk;
mod disk_reserve;
mod disk_room;
mod erasure;
mod index;
mod index_copy;
mod index_witness;
pub mod inspection;
mod journal;
mod journal_exchange;
mod line;
mod listing;
mod lock;
mod page_cache;
mod paging;
mod records;
mod recover;
mod relocation;
pub mod repair;
mod replacement;
mod requests;
mod resources;
pub mod restore;
mod scan;
mod scrub;
mod search;
mod segment;
mod segment_use;
mod shared;
mod size_limit;
mod spending;
pub mod stat;
mod upkeep;
mod values;
mod verify;
mod writer;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::{ConfirmId, ConversationId, Epoch, Seq, TurnId};
use aishd_log::audit::AuditDraft;
use aishd_log::event::Record;
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use sled::Db;
use tokio::sync::{mpsc, oneshot};

pub use self::audit_trail::TrailDirection;
use self::compaction_plan::CompactionGoal;
pub use self::disk_room::DiskClaim;
use self::disk_room::DiskRoom;
use self::index::IndexFault;
pub use self::listing::{ListFilter, ListPage, ListPosition, ListQuery};
pub use self::paging::{PAGE_BYTES, pages};
use self::recover::OpenedStore;
use self::requests::{
    AuditAdditions, ConversationDeletion, PreparedCommit, WriteAck, WriteRequest,
};
pub use self::scan::JournalDamage;
pub use self::scrub::ScrubPlace;
use self::shared::{StoreShared, WriterHandle};
use self::writer::StoreWriter;

/// As many requests as one group may have; who finds it full waits (commits) or is told (text).
const MAILBOX: usize = 512;

/// A handle; cheap to clone. Reads go to sled directly, writes to the one writer thread.
#[derive(Clone, Debug)]
pub struct Store {
    requests: mpsc::Sender<WriteRequest>,
    shared: Arc<StoreShared>,
    /// Ends the writer when the last handle goes.
    _handle: Arc<WriterHandle>,
}

/// What becomes durable together, or not at all.
#[derive(Clone, Debug)]
pub struct Commit {
    pub conversation: ConversationId,
    /// In the order of their seq, following on the last one stored.
    pub records: Vec<Record>,
    /// The state after the last of them.
    pub state: ConversationState,
    /// What the audit trail tells of them.
    pub audit: Vec<AuditDraft>,
    /// How much of the disk it may take.
    pub claim: DiskClaim,
}

impl Commit {
    pub fn new(
        conversation: ConversationId,
        records: Vec<Record>,
        state: ConversationState,
        audit: Vec<AuditDraft>,
    ) -> Self {
        Self {
            conversation,
            claim: DiskClaim::of(&records),
            records,
            state,
            audit,
        }
    }

    pub fn claiming(self, claim: DiskClaim) -> Self {
        Self { claim, ..self }
    }
}

/// Text of an item that is being written; kept without a sync, gone with the next commit of its turn.
#[derive(Clone, Debug)]
pub struct Partial {
    pub conversation: ConversationId,
    pub turn: TurnId,
    pub item: u32,
    /// Where `text` begins in the item, in bytes; it follows on what was kept before.
    pub offset: u64,
    pub text: String,
}

/// Something that is kept under a key beside the conversations, such as what a server was last found to offer.
#[derive(Clone, Debug)]
pub struct Note {
    pub key: String,
    pub text: String,
    /// What it replaces is to leave the journal: with the next [`Store::erase`], or start.
    pub forgets: bool,
}

/// A conversation as it was stored.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub state: ConversationState,
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

/// A confirm's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfirmPlace {
    pub conversation: ConversationId,
    pub requested: Seq,
    /// `None`: it is open.
    pub resolved: Option<Seq>,
}

/// What was asked with an idempotency key before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    pub turn: TurnId,
    pub message_seq: Seq,
    pub body: String,
    pub at: Timestamp,
}

/// Whether commits are taken, for `daemon/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Health {
    /// Why not, when they are not.
    pub problem: Option<String>,
    pub journal_bytes: u64,
    /// Since the last sync; `None` when there was none in this life.
    pub synced_ago: Option<Duration>,
    /// What may still be written to the disk.
    pub free_bytes: Option<u64>,
    /// What was found damaged and repaired.
    pub repairs: Vec<String>,
    /// Old parts of the journal that cannot be read any more, in words.
    pub damage: Vec<String>,
    /// What a person should know before it becomes a problem.
    pub warning: Option<String>,
}

/// Told that the store gets on: by its writer when that is asked, and while a journal is read. It must be quick.
#[derive(Clone)]
pub struct Alive(Arc<dyn Fn() + Send + Sync>);

impl Alive {
    pub fn new(told: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(told))
    }

    fn tell(&self) {
        (self.0)();
    }
}

/// Nobody is told.
impl Default for Alive {
    fn default() -> Self {
        Self::new(|| {})
    }
}

impl fmt::Debug for Alive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Alive").finish_non_exhaustive()
    }
}

/// The commit is not in the store and never will be; the same one may be tried again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    #[error("no room on the disk of the store")]
    Full,
    #[error(
        "the store is as large as it may become (store.max_bytes): nothing begins until conversations are deleted or the limit is raised"
    )]
    Limit,
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
    pub fn open(dir: &Path) -> Result<Self, OpenError> {
        Self::open_telling(dir, Alive::default())
    }

    /// As [`Store::open`]; `alive` is told that it gets on, then and later.
    pub fn open_telling(dir: &Path, alive: Alive) -> Result<Self, OpenError> {
        let opened = recover::open(dir, &alive)?;
        Self::of(dir, opened, alive)
    }

    /// As [`Store::open`], with segments of another size.
    #[cfg(test)]
    fn open_with_segments_of(dir: &Path, bytes: u64) -> Result<Self, OpenError> {
        let alive = Alive::default();
        let mut opened = recover::open(dir, &alive)?;
        opened.journal.segment_bytes = bytes;
        Self::of(dir, opened, alive)
    }

    fn of(dir: &Path, opened: OpenedStore, alive: Alive) -> Result<Self, OpenError> {
        let (requests, mailbox) = mpsc::channel(MAILBOX);
        let shared = Arc::new(StoreShared::new(dir, &opened, alive));
        let thread = StoreWriter::start(dir, opened, mailbox, Arc::clone(&shared));
        thread.map_err(|source| OpenError::Io {
            path: dir.display().to_string(),
            source,
        })?;
        let handle = WriterHandle::new(Arc::clone(&shared));
        Ok(Self {
            requests,
            shared,
            _handle: Arc::new(handle),
        })
    }

    pub fn epoch(&self) -> Epoch {
        self.shared.epoch
    }

    /// What was found damaged and repaired, at start-up and since, in words.
    pub fn repairs(&self) -> Vec<String> {
        self.shared.status().repairs.clone()
    }

    pub fn health(&self) -> Health {
        let journal_bytes = self.shared.status().journal_bytes;
        let limit = &self.shared.limit;
        // The disk is asked while nobody waits for the status.
        let room = DiskRoom::on(&self.shared.dir, limit.left(journal_bytes));
        let free_bytes = room.as_ref().ok().map(|it| it.free);
        let lack = room.ok().and_then(|it| it.lack());
        let status = self.shared.status();
        Health {
            problem: lack.or_else(|| status.problem.clone()),
            journal_bytes,
            synced_ago: status.synced_at.map(|it| it.elapsed()),
            free_bytes,
            repairs: status.repairs.clone(),
            damage: status.damage.iter().map(ToString::to_string).collect(),
            warning: limit.warning(journal_bytes),
        }
    }

    /// Lets it become no larger than this, in bytes; nothing begins beyond that. Counts at once.
    pub fn set_limit(&self, bytes: Option<u64>) {
        self.shared.limit.set(bytes);
    }

    /// Asks the writer for a sign of life, and returns once it has given one.
    pub async fn beat(&self) {
        let (answer, answered) = oneshot::channel();
        self.shared.ask_for_beat(answer);
        let _writer_ended = answered.await;
    }

    /// Returns once the records would survive a power cut.
    pub async fn commit(&self, commit: Commit) -> Result<(), CommitError> {
        self.commit_with(commit, None).await
    }

    /// The same together with a note: both or neither.
    pub async fn commit_with(&self, commit: Commit, note: Option<Note>) -> Result<(), CommitError> {
        let prepared = PreparedCommit::new(commit, note)?;
        self.request(|ack| WriteRequest::Commit(Box::new(prepared), Some(ack)))
            .await
    }

    /// Never waits; a piece that the writer has no room for is dropped, and the next one repeats it
    /// because the caller only moves on from what was taken. Returns whether it was taken.
    pub fn keep_partial(&self, partial: Partial) -> bool {
        self.requests
            .try_send(WriteRequest::Partial(partial))
            .is_ok()
    }

    /// Never waits; the newest note of a key counts. Returns whether the writer took it: it is durable soon, and lost
    /// only if the disk is full or the daemon is killed before.
    pub fn keep_note(&self, note: Note) -> bool {
        let request = WriteRequest::Note(note, AuditAdditions::default(), None);
        self.requests.try_send(request).is_ok()
    }

    /// The same for one that somebody counts on, together with what the audit trail tells of it: both or neither. Returns
    /// once they are durable.
    pub async fn keep(&self, note: Note, audit: Vec<AuditDraft>) -> Result<(), CommitError> {
        self.request(|ack| WriteRequest::Note(note, AuditAdditions::new(audit), Some(ack)))
            .await
    }

    /// The newest note of a key.
    pub fn note(&self, key: &str) -> Result<Option<String>, ReadError> {
        self.read(|db| index::note(db, &self.shared.files, key))
    }

    /// Removes a conversation from what can be read at once. [`Store::erase`] says when it has left the files.
    pub async fn delete(
        &self,
        conversation: ConversationId,
        audit: Vec<AuditDraft>,
    ) -> Result<(), CommitError> {
        let deletion = Box::new(ConversationDeletion::new(conversation, audit));
        self.request(|ack| WriteRequest::Delete(deletion, Some(ack)))
            .await
    }

    /// As [`Store::delete`] for what nobody knows of; never waits. Returns whether the writer took it.
    pub fn discard(&self, conversation: ConversationId) -> bool {
        let deletion = Box::new(ConversationDeletion::new(conversation, vec![]));
        self.requests
            .try_send(WriteRequest::Delete(deletion, None))
            .is_ok()
    }

    /// Takes what was deleted and forgotten before out of every file: the journal's segments that hold it are written anew, and
    /// so is the index. Returns once no file of the store has a byte of it.
    ///
    /// # Errors
    /// Why it is still there, in words; it goes with the next compaction that succeeds.
    pub async fn erase(&self) -> Result<(), String> {
        self.write_anew(CompactionGoal::Erased).await
    }

    /// Writes anew whatever takes more room than it needs, also where a compaction by itself would find that not worth it.
    ///
    /// # Errors
    /// Why it was not done, in words.
    pub async fn compact(&self) -> Result<(), String> {
        self.write_anew(CompactionGoal::Everything).await
    }

    async fn write_anew(&self, goal: CompactionGoal) -> Result<(), String> {
        let (ack, outcome) = oneshot::channel();
        let request = WriteRequest::Erase(goal, Some(ack));
        let closed = || CommitError::Closed.to_string();
        let sent = self.requests.send(request).await;
        sent.map_err(|_closed| closed())?;
        outcome.await.unwrap_or_else(|_closed| Err(closed()))
    }

    /// Adds to the audit trail what concerns no conversation's log. Returns once it is durable.
    pub async fn record_audit(&self, audit: Vec<AuditDraft>) -> Result<(), CommitError> {
        self.request(|ack| WriteRequest::Audit(AuditAdditions::new(audit), Some(ack)))
            .await
    }

    async fn request(
        &self,
        request: impl FnOnce(WriteAck) -> WriteRequest,
    ) -> Result<(), CommitError> {
        let (ack, outcome) = oneshot::channel();
        let sent = self.requests.send(request(ack)).await;
        sent.map_err(|_closed| CommitError::Closed)?;
        outcome.await.unwrap_or(Err(CommitError::Closed))
    }

    pub fn load(&self, conversation: ConversationId) -> Result<Option<Loaded>, ReadError> {
        self.read(|db| index::load(db, &self.shared.files, conversation))
    }

    /// Records with seq > `after`, oldest first: as many as fit in about `max_bytes` of stored form, at least one if any.
    pub fn records_after(
        &self,
        conversation: ConversationId,
        after: Seq,
        max_bytes: usize,
    ) -> Result<Vec<Record>, ReadError> {
        self.read(|db| {
            records::records_after(db, &self.shared.files, conversation, after, max_bytes)
        })
    }

    /// The last records with seq < `before`, oldest first: at most `limit`, as many as fit in about `max_bytes`.
    pub fn records_before(
        &self,
        conversation: ConversationId,
        before: Seq,
        limit: usize,
        max_bytes: usize,
    ) -> Result<Vec<Record>, ReadError> {
        self.read(|db| {
            records::records_before(
                db,
                &self.shared.files,
                conversation,
                before,
                limit,
                max_bytes,
            )
        })
    }

    /// The record with exactly this seq.
    pub fn record(
        &self,
        conversation: ConversationId,
        seq: Seq,
    ) -> Result<Option<Record>, ReadError> {
        self.read(|db| records::record(db, &self.shared.files, conversation, seq))
    }

    /// The bytes of an event as they are stored, if it is there.
    pub fn stored_event(
        &self,
        conversation: ConversationId,
        seq: Seq,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        self.read(|db| records::stored_event(db, &self.shared.files, conversation, seq))
    }

    /// What was asked with this key in the last 24 hours.
    pub fn find_key(
        &self,
        conversation: ConversationId,
        key: &str,
    ) -> Result<Option<KeyUse>, ReadError> {
        self.read(|db| index::find_key(db, conversation, key))
    }

    /// Whether there was such a conversation, and it was deleted.
    pub fn is_deleted(&self, conversation: ConversationId) -> Result<bool, ReadError> {
        self.read(|db| index::is_deleted(db, conversation))
    }

    pub fn find_turn(&self, turn: TurnId) -> Result<Option<TurnPlace>, ReadError> {
        self.read(|db| index::find_turn(db, turn))
    }

    pub fn find_confirm(&self, confirm: ConfirmId) -> Result<Option<ConfirmPlace>, ReadError> {
        self.read(|db| index::find_confirm(db, confirm))
    }

    /// Conversations whose state is unsettled (a running or waiting turn), without reading the others.
    pub fn unsettled(&self) -> Result<Vec<ConversationId>, ReadError> {
        self.read(index::unsettled)
    }

    /// Writes down everything, closes sled and ends the writer. Blocks.
    pub fn close(&self) {
        self.shared.end_writer();
    }

    /// Reads, and where the index turns out to be damaged waits for the writer to build it anew and reads again.
    fn read<T>(&self, work: impl Fn(&Db) -> Result<T, IndexFault>) -> Result<T, ReadError> {
        let (first, _) = self.shared.try_read(&work)?;
        if let Ok(value) = first {
            return Ok(value);
        }
        // A conversation that is deleted while it is read looks like a damaged one, once.
        let (second, generation) = self.shared.try_read(&work)?;
        let fault = match second {
            Ok(value) => return Ok(value),
            Err(fault) => fault,
        };
        if matches!(fault, IndexFault::Journal(_)) {
            return Err(fault.into());
        }
        tracing::warn!(%fault, "the index cannot be read: asking for a new one");
        self.shared.wait_for_rebuild(generation, &fault);
        let (third, _) = self.shared.try_read(&work)?;
        Ok(third?)
    }
}
