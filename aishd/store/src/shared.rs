//! What the handles and the writer share: the open index, and what each tells the other.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aish_proto::id::Epoch;
use parking_lot::{Condvar, Mutex, MutexGuard, RwLock, RwLockWriteGuard};
use sled::Db;
use tokio::runtime::{self, RuntimeFlavor};
use tokio::sync::{Notify, oneshot};

use super::body::JournalFiles;
use super::index::{IndexFault, guarded};
use super::recover::OpenedStore;
use super::size_limit::SizeLimit;
use super::{Alive, JournalDamage, ReadError, index_copy};

/// How long a read waits for a damaged index to be built anew.
const REBUILD_LIMIT: Duration = Duration::from_secs(10);
/// How long a read waits for the index to take in what is stored already.
const APPLY_LIMIT: Duration = Duration::from_secs(5);
/// It takes a millisecond as a rule; for so long a worker of the daemon may stand still.
const SHORTLY: Duration = Duration::from_millis(10);
/// How long the end of the writer is waited for; a hung disk must not hold a shutdown for ever.
const END_LIMIT: Duration = Duration::from_secs(8);

#[derive(Debug)]
pub(super) struct StoreShared {
    pub(super) epoch: Epoch,
    /// Empty while the index is opened again. Readers hold the lock while they read, so that no handle of a
    /// faulty sled is left when it is taken out.
    index: RwLock<Option<Db>>,
    status: Mutex<StoreState>,
    changed: Condvar,
    /// Wakes the writer for what does not come through its mailbox.
    pub(super) call: Notify,
    pub(super) dir: PathBuf,
    /// The journal for reading. Who has the index's lock finds every line where the index says that it stands.
    pub(super) files: JournalFiles,
    pub(super) alive: Alive,
    pub(super) limit: SizeLimit,
    /// Who waits for a sign of life of the writer.
    beat: Mutex<Option<oneshot::Sender<()>>>,
}

#[derive(Debug, Default)]
pub(super) struct StoreState {
    pub(super) closing: bool,
    /// How often the index began to take in what was acknowledged. A reader waits for what had begun when it came and
    /// not for what begins later, which under load has no end.
    begun: u64,
    /// How often it was done.
    applied: u64,
    pub(super) ended: bool,
    /// A reader found the index of this generation damaged, and why.
    pub(super) damaged: Option<String>,
    /// Counts what was done about damage, successfully or not.
    pub(super) generation: u64,
    pub(super) problem: Option<String>,
    pub(super) journal_bytes: u64,
    pub(super) synced_at: Option<Instant>,
    pub(super) repairs: Vec<String>,
    /// What was found since.
    pub(super) damage: Vec<JournalDamage>,
}

impl StoreShared {
    pub(super) fn new(dir: &Path, opened: &OpenedStore, alive: Alive) -> Self {
        let shared = Self {
            epoch: opened.epoch,
            index: RwLock::new(Some(opened.db.clone())),
            status: Mutex::new(StoreState {
                journal_bytes: opened.journal.bytes(),
                repairs: opened.repairs.clone(),
                ..StoreState::default()
            }),
            changed: Condvar::new(),
            call: Notify::new(),
            dir: dir.to_owned(),
            files: JournalFiles::new(&dir.join("journal")),
            alive,
            limit: SizeLimit::default(),
            beat: Mutex::default(),
        };
        shared.count_index();
        shared
    }

    /// Asks the writer for a sign of life; one question at a time.
    pub(super) fn ask_for_beat(&self, answer: oneshot::Sender<()>) {
        *self.beat.lock() = Some(answer);
        self.call.notify_one();
    }

    /// Gives the sign of life, if it was asked for.
    pub(super) fn beat(&self) {
        let asked = self.beat.lock().take();
        if let Some(answer) = asked {
            self.alive.tell();
            let _gone = answer.send(());
        }
    }

    pub(super) fn status(&self) -> MutexGuard<'_, StoreState> {
        self.status.lock()
    }

    /// Changes the status and wakes those who wait for that.
    pub(super) fn update(&self, change: impl FnOnce(&mut StoreState)) {
        change(&mut self.status());
        self.changed.notify_all();
    }

    /// The outcome with the generation of the index that it was read from.
    pub(super) fn try_read<T>(
        &self,
        work: &impl Fn(&Db) -> Result<T, IndexFault>,
    ) -> Result<(Result<T, IndexFault>, u64), ReadError> {
        self.wait_until_applied()?;
        let index = self.index.try_read_for(SHORTLY);
        let index = index.unwrap_or_else(|| aside(|| self.index.read()));
        let generation = self.status().generation;
        let Some(db) = &*index else {
            let status = self.status();
            let why = if status.closing {
                "the store is closed".to_owned()
            } else {
                let problem = status.problem.clone();
                problem.unwrap_or_else(|| "its index is opened again".to_owned())
            };
            return Err(ReadError::Unavailable(why));
        };
        Ok((guarded(|| work(db)), generation))
    }

    pub(super) fn begin_to_apply(&self) {
        self.status().begun += 1;
    }

    pub(super) fn has_applied(&self) {
        self.update(|it| it.applied = it.begun);
    }

    /// Whoever was told that something is stored finds it in what he reads next, or is told that nothing can be read.
    fn wait_until_applied(&self) -> Result<(), ReadError> {
        let wanted = self.status().begun;
        let is_applied = |limit| {
            let lags = |it: &mut StoreState| it.applied < wanted;
            let mut status = self.status();
            self.changed.wait_while_for(&mut status, lags, limit);
            status.applied >= wanted
        };
        if is_applied(SHORTLY) || aside(|| is_applied(APPLY_LIMIT)) {
            return Ok(());
        }
        let why = "its index does not take in what was stored".to_owned();
        Err(ReadError::Unavailable(why))
    }

    /// Asks the writer to see to an index that could not be read, and waits until it has tried.
    pub(super) fn wait_for_rebuild(&self, generation: u64, fault: &IndexFault) {
        let mut status = self.status();
        if status.generation == generation && status.damaged.is_none() {
            status.damaged = Some(fault.to_string());
        }
        self.call.notify_one();
        drop(status);
        let wait = || {
            let unchanged = |it: &mut StoreState| it.generation == generation && !it.ended;
            self.changed
                .wait_while_for(&mut self.status(), unchanged, REBUILD_LIMIT);
        };
        aside(wait);
    }

    pub(super) fn db(&self) -> Option<Db> {
        let index = self.index.read();
        index.clone()
    }

    /// Takes the index away from the readers.
    pub(super) fn take_index(&self) -> Option<Db> {
        let mut index = self.index.write();
        index.take()
    }

    pub(super) fn give_index(&self, db: Db) {
        let mut index = self.index.write();
        *index = Some(db);
        self.count_index();
    }

    /// Its files count below a person's limit as they are now.
    pub(super) fn count_index(&self) {
        self.limit.note_index(index_copy::file_bytes(&self.dir));
    }

    /// Nobody reads as long as this is there.
    pub(super) fn without_readers(&self) -> RwLockWriteGuard<'_, Option<Db>> {
        self.index.write()
    }

    /// Ends the writer after what it has been sent, and waits until it is gone.
    pub(super) fn end_writer(&self) {
        self.update(|it| it.closing = true);
        self.call.notify_one();
        let started = Instant::now();
        self.changed
            .wait_while_for(&mut self.status(), |it| !it.ended, END_LIMIT);
        if started.elapsed() >= END_LIMIT {
            tracing::error!("the store's writer did not end in time");
        }
    }
}

/// Waits. A worker of the daemon hands its other tasks on first: nobody else waits for this reader's index.
fn aside<T>(wait: impl FnOnce() -> T) -> T {
    let on_worker = runtime::Handle::try_current()
        .is_ok_and(|it| it.runtime_flavor() == RuntimeFlavor::MultiThread);
    if on_worker {
        tokio::task::block_in_place(wait)
    } else {
        wait()
    }
}

/// The last of its clones ends the writer.
#[derive(Debug)]
pub(super) struct WriterHandle {
    shared: Arc<StoreShared>,
}

impl WriterHandle {
    pub(super) fn new(shared: Arc<StoreShared>) -> Self {
        Self { shared }
    }
}

impl Drop for WriterHandle {
    fn drop(&mut self) {
        self.shared.end_writer();
    }
}
