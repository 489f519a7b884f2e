//! The one thread that writes: it takes what waits as a group, appends it to the journal, syncs once, applies it
//! to the index and only then acknowledges.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use aishd_log::audit::chain::ChainHead;
use aishd_platform::failpoint;
use tokio::sync::mpsc;

use super::change_batch::IndexCache;
use super::disk_reserve::DiskReserve;
use super::disk_room::DiskRoom;
use super::erasure::Erasures;
use super::index::guarded;
use super::journal::{AppendError, Journal, LineLocation, SEGMENT_BYTES};
use super::lock::StoreLock;
use super::recover::OpenedStore;
use super::requests::{WriteAck, WriteRequest, answer, apply, entries, in_order, seal};
use super::segment::ClosedSegment;
use super::shared::StoreShared;
use super::upkeep::{IndexAway, WriterEnd};
use super::{CommitError, MAILBOX, disk};

/// One write and one sync for so much: enough to be worth the sync, little enough to be quick.
const GROUP_BYTES: usize = 1024 * 1024;
/// The index is flushed when nothing happened for so long, so that the next start has little to replay.
const IDLE: Duration = Duration::from_millis(500);
/// Under load, so many segments are compacted while one is written: what is rewritten stays in proportion to what is new.
const COMPACTED_PER_SEGMENT: u64 = 4;
/// How often a full disk is looked at again.
const RECHECK: Duration = Duration::from_millis(500);
#[derive(Debug)]
pub(super) struct StoreWriter {
    pub(super) dir: PathBuf,
    pub(super) shared: Arc<StoreShared>,
    pub(super) mailbox: mpsc::Receiver<WriteRequest>,
    /// Held as long as the writer lives.
    _lock: StoreLock,
    pub(super) reserve: DiskReserve,
    pub(super) journal: Journal,
    pub(super) memory: IndexCache,
    /// The last record of the audit trail that is durable.
    trail: ChainHead,
    /// Why the index is away, when it is.
    pub(super) away: Option<IndexAway>,
    /// When the index is flushed, if it has anything to flush.
    pub(super) flush_at: Option<Instant>,
    pub(super) unflushed_bytes: u64,
    /// When trouble with the disk is looked at again.
    pub(super) recheck_at: Option<Instant>,
    /// Something was refused for lack of room, and there is none yet.
    pub(super) is_full: bool,
    /// Runs of closed segments that are to be written anew, the oldest last.
    pub(super) to_compact: Vec<Vec<ClosedSegment>>,
    /// A segment was closed since the plan was made. A plan is carried out to its end all the same: where many segments are
    /// written, one that begins anew with each would never come to the old ones.
    pub(super) plan_again: bool,
    /// Who waits until what was erased has left the files.
    pub(super) erasures: Erasures,
    bytes_since_compaction: u64,
    pub(super) no_rebuild_before: Option<Instant>,
    /// The journal's size at the last acknowledgement.
    pub(super) seen_bytes: u64,
}

/// What the writer does next.
#[derive(Debug)]
enum WriterStep {
    Request(WriteRequest),
    /// Somebody closes the store, or found the index damaged.
    Called,
    Due,
    NoHandles,
}

impl StoreWriter {
    pub(super) fn start(
        dir: &Path,
        opened: OpenedStore,
        mailbox: mpsc::Receiver<WriteRequest>,
        shared: Arc<StoreShared>,
    ) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        let mut writer = Self {
            dir: dir.to_owned(),
            shared: Arc::clone(&shared),
            mailbox,
            _lock: opened.lock,
            reserve: opened.reserve,
            journal: opened.journal,
            memory: opened.memory,
            trail: opened.trail,
            away: None,
            flush_at: Some(Instant::now() + IDLE),
            unflushed_bytes: 0,
            recheck_at: None,
            is_full: false,
            to_compact: vec![],
            plan_again: false,
            erasures: Erasures::default(),
            bytes_since_compaction: 0,
            no_rebuild_before: None,
            seen_bytes: 0,
        };
        drop(opened.db);
        let ends = WriterEnd { shared };
        std::thread::Builder::new()
            .name("store".to_owned())
            .spawn(move || {
                writer.plan_compaction();
                runtime.block_on(writer.run());
                drop(writer);
                drop(ends);
            })?;
        Ok(())
    }

    async fn run(&mut self) {
        loop {
            match self.select().await {
                WriterStep::Request(first) => {
                    let group = self.group(first);
                    self.write(group);
                    self.work_under_load();
                }
                WriterStep::Called => self.see_to_damage(),
                WriterStep::Due => self.due(),
                WriterStep::NoHandles => break,
            }
            // Behind the work, so that work which hangs is noticed.
            self.shared.beat();
            if self.shared.status().closing {
                break;
            }
        }
        self.finish();
    }

    /// May be dropped: it takes nothing that it could lose.
    async fn select(&mut self) -> WriterStep {
        let due = self.next_due();
        let sleep = async {
            match due {
                Some(due) => tokio::time::sleep_until(due.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.shared.call.notified() => WriterStep::Called,
            request = self.mailbox.recv() => request.map_or(WriterStep::NoHandles, WriterStep::Request),
            () = sleep => WriterStep::Due,
        }
    }

    fn next_due(&self) -> Option<Instant> {
        if self.away.is_none() && self.has_upkeep() {
            return Some(Instant::now());
        }
        let retry_at = self.away.as_ref().map(|it| it.retry_at);
        let flush_at = self.flush_at.filter(|_| self.away.is_none());
        [retry_at, flush_at, self.recheck_at]
            .into_iter()
            .flatten()
            .min()
    }

    fn due(&mut self) {
        let now = Instant::now();
        if self.away.as_ref().is_some_and(|it| it.retry_at <= now) {
            self.restore();
        }
        if self.recheck_at.is_some_and(|it| it <= now) {
            self.recheck();
        }
        if self.away.is_none() && self.flush_at.is_some_and(|it| it <= now) {
            self.flush();
            self.reserve.make_if_plenty();
        }
        self.upkeep_step();
    }

    fn has_upkeep(&self) -> bool {
        self.plan_again
            || !self.to_compact.is_empty()
            || self.memory.copy.is_some()
            || self.erasures.are_wanted()
    }

    /// Somebody who writes all the time must not keep deleted text in the journal for ever.
    fn work_under_load(&mut self) {
        let due = self.journal.segment_bytes / COMPACTED_PER_SEGMENT;
        let is_wanted = self.erasures.are_wanted() || self.memory.copy.is_some();
        if is_wanted || self.bytes_since_compaction >= due {
            self.bytes_since_compaction = 0;
            self.upkeep_step();
        }
    }

    /// One thing of those that nobody waits for, or one step of it.
    fn upkeep_step(&mut self) {
        if self.away.is_some() {
            return;
        }
        if let Some(run) = self.to_compact.pop() {
            self.compact(&run);
        } else if self.plan_again {
            self.plan_compaction();
        } else if self.memory.copy.is_some() {
            self.copy_index();
        } else {
            self.erase_next();
        }
    }

    /// The first request and what else waits, up to a group's size.
    pub(super) fn group(&mut self, first: WriteRequest) -> Vec<WriteRequest> {
        let mut bytes = first.bytes();
        let mut group = vec![first];
        while group.len() < MAILBOX && bytes < GROUP_BYTES {
            let Ok(request) = self.mailbox.try_recv() else {
                break;
            };
            bytes += request.bytes();
            group.push(request);
        }
        group
    }

    pub(super) fn write(&mut self, group: Vec<WriteRequest>) {
        let group = self.admit(group);
        if group.is_empty() {
            return;
        }
        let db = self.shared.db().filter(|_| self.away.is_none());
        let Some(db) = db else {
            let problem = self.shared.status().problem.clone();
            let why = problem.unwrap_or_else(|| "the index is being restored".to_owned());
            let error = CommitError::Io(why);
            return refuse(group, &error);
        };
        let ordered = guarded(|| Ok(in_order(&db, &mut self.memory, group)));
        let mut group = match ordered {
            Ok(Ok(group)) => group,
            Ok(Err((group, fault))) => {
                drop(db);
                refuse(group, &CommitError::Io(fault.to_string()));
                return self.lose_index(&fault);
            }
            // The group went with the panic, and with it its acknowledgements.
            Err(fault) => {
                drop(db);
                return self.lose_index(&fault);
            }
        };
        if group.is_empty() {
            return;
        }
        let trail = match seal(&mut group, self.trail) {
            Ok(trail) => trail,
            Err(error) => return refuse(group, &error),
        };
        let locations = match self.make_durable(&group) {
            Ok(locations) => locations,
            Err(error) => {
                self.report(&error);
                return refuse(group, &error);
            }
        };
        self.trail = trail;
        failpoint::pass("store.after_sync");
        // It is durable, and what the index has to do with it is nobody's business but a reader's, who waits.
        self.shared.begin_to_apply();
        self.acknowledge(
            group
                .iter_mut()
                .filter_map(WriteRequest::take_ack)
                .collect(),
        );
        let applied = guarded(|| apply(&db, &mut self.memory, &group, &locations));
        drop(db);
        let asked = group.iter_mut().filter_map(WriteRequest::take_erasure);
        self.erasures.waiting.extend(asked);
        match applied {
            Ok(()) => failpoint::pass("store.after_apply"),
            Err(fault) => self.lose_index(&fault),
        }
        self.shared.has_applied();
        if self.unflushed_bytes >= SEGMENT_BYTES {
            self.flush();
        }
    }

    /// Those for which there is room; the others are refused.
    fn admit(&mut self, group: Vec<WriteRequest>) -> Vec<WriteRequest> {
        let mut room = match self.disk_room() {
            Ok(room) => room,
            Err(error) => {
                let error = CommitError::Io(error.to_string());
                self.report(&error);
                refuse(group, &error);
                return vec![];
            }
        };
        if room.lack().is_none() {
            self.is_full = false;
        }
        let mut admitted = Vec::with_capacity(group.len());
        for request in group {
            let bytes = request.bytes() as u64;
            if let Some(error) = room.refusal(request.claim(), bytes) {
                self.is_full = true;
                self.report(&error);
                request.refuse(&error);
                continue;
            }
            if room.needs_reserve(bytes) {
                self.reserve.drop_now();
                room.free = room.free.saturating_add(room.held);
                room.held = 0;
            }
            room.take(bytes);
            admitted.push(request);
        }
        admitted
    }

    pub(super) fn disk_room(&self) -> io::Result<DiskRoom> {
        let below_limit = self.shared.limit.left(self.journal.bytes());
        DiskRoom::on(&self.dir, below_limit)
    }

    /// Writes the group to the journal. Text alone is not synced. After an error none of it is stored.
    fn make_durable(&mut self, group: &[WriteRequest]) -> Result<Vec<LineLocation>, CommitError> {
        let written = self.append_and_sync(group);
        if let Err(error) = &written {
            self.journal.give_up();
            if matches!(error, CommitError::Full) {
                self.reserve.drop_now();
            }
        }
        written
    }

    fn append_and_sync(
        &mut self,
        group: &[WriteRequest],
    ) -> Result<Vec<LineLocation>, CommitError> {
        let segment = self.journal.current_first();
        let locations = self
            .journal
            .append(&entries(group))
            .map_err(|error| match error {
                AppendError::Io(error) => commit_error(&error),
                AppendError::Encode(error) => CommitError::Io(error.to_string()),
            })?;
        failpoint::pass("store.after_write");
        let text_alone = group
            .iter()
            .all(|it| matches!(it, WriteRequest::Partial(_)));
        if !text_alone {
            self.journal.sync().map_err(|it| commit_error(&it))?;
            self.shared.update(|it| it.synced_at = Some(Instant::now()));
        }
        if segment != self.journal.current_first() {
            self.plan_again = true;
            if self.to_compact.is_empty() {
                self.plan_compaction();
            }
        }
        Ok(locations)
    }

    pub(super) fn acknowledge(&mut self, acks: Vec<WriteAck>) {
        self.flush_at = Some(Instant::now() + IDLE);
        let bytes = self.journal.bytes();
        let written = bytes.saturating_sub(self.seen_bytes);
        self.unflushed_bytes += written;
        self.bytes_since_compaction += written;
        self.seen_bytes = bytes;
        // That an end was taken shows that the disk works, and not that it has room again.
        let well = !acks.is_empty() && !self.is_full;
        if well {
            self.recheck_at = None;
        }
        self.shared.update(|it| {
            it.journal_bytes = bytes;
            if well {
                it.problem = None;
            }
        });
        for ack in acks {
            answer(ack, Ok(()));
        }
    }

    /// Says in `health` why a commit was refused, until one is not or the disk has room again.
    fn report(&mut self, error: &CommitError) {
        self.recheck_at = Some(Instant::now() + RECHECK);
        self.shared
            .update(|it| it.problem = Some(error.to_string()));
    }
}

fn refuse(group: Vec<WriteRequest>, error: &CommitError) {
    group.into_iter().for_each(|it| it.refuse(error));
}

fn commit_error(error: &io::Error) -> CommitError {
    if disk::is_full(error) {
        CommitError::Full
    } else {
        CommitError::Io(error.to_string())
    }
}
