//! Start-up: find out what the last life left, repair it where nothing acknowledged is lost by that, and say
//! so; refuse otherwise. Also the rebuilding of the index from the journal, which a running store can need.

use std::fs;
use std::path::Path;

use aish_proto::id::Epoch;
use aishd_log::audit::chain::ChainHead;
use aishd_platform::{clock, failpoint};
use sled::Db;

use super::body::JournalFiles;
use super::change_batch::{IndexCache, IndexReplay};
use super::disk_reserve::DiskReserve;
use super::index::{self, IndexFault, guarded};
use super::journal::{Journal, JournalResume, LineLocation};
use super::line::{FORMAT, JournalPosition};
use super::lock::StoreLock;
use super::scan::{self, JournalDamage, JournalEnd, ScanError};
use super::segment::{self, JournalSegment};
use super::{
    Alive, OpenError, audit_trail, disk, index_copy, journal_exchange, relocation, restore, values,
};

/// Everything that the writer works with.
#[derive(Debug)]
pub(super) struct OpenedStore {
    pub(super) lock: StoreLock,
    pub(super) reserve: DiskReserve,
    pub(super) journal: Journal,
    pub(super) db: Db,
    pub(super) memory: IndexCache,
    /// The last record of the audit trail.
    pub(super) trail: ChainHead,
    pub(super) epoch: Epoch,
    pub(super) repairs: Vec<String>,
}

/// An index that has everything the journal has.
#[derive(Debug)]
pub(super) struct CurrentIndex {
    pub(super) db: Db,
    memory: IndexCache,
    /// What it had before.
    pub(super) applied: Option<LineLocation>,
    ended: JournalEnd,
    lines: usize,
}

/// Why the index could not be brought up to the journal.
#[derive(Debug, thiserror::Error)]
pub(super) enum BuildError {
    #[error(transparent)]
    Journal(#[from] ScanError),
    #[error("{0}")]
    Index(#[from] IndexFault),
}

pub(super) fn open(dir: &Path, alive: &Alive) -> Result<OpenedStore, OpenError> {
    let io_error = |source| OpenError::Io {
        path: dir.display().to_string(),
        source,
    };
    restore::fill_place(dir)?;
    disk::make_dir(dir).map_err(io_error)?;
    let mut lock = StoreLock::take(dir)?;
    let broken_restore = restore::settle(dir).map_err(io_error)?;
    let broken_exchange = journal_exchange::settle(dir).map_err(io_error)?;
    let journal = dir.join("journal");
    let segments = segment::list(&journal).map_err(io_error)?;
    refuse_newer(dir, &segments)?;
    lock.write_pid().map_err(io_error)?;
    let mut reserve = DiskReserve::find(dir);
    reserve.drop_if_short();
    disk::make_dir(&journal).map_err(io_error)?;
    segment::remove_drafts(&journal).map_err(io_error)?;
    index_copy::remove_left_overs(dir).map_err(io_error)?;

    let mut start = RecoveryStart {
        dir,
        alive,
        repairs: broken_restore.into_iter().chain(broken_exchange).collect(),
    };
    let (journal, current) = start.store(&journal, &segments)?;
    segment::remove_held(journal.dir()).map_err(io_error)?;
    reserve.make_if_plenty();
    let trail = audit_trail::head(&current.db).map_err(|it| start.io(it))?;
    for repair in &start.repairs {
        tracing::warn!(dir = %dir.display(), repair, "the store was repaired");
    }
    Ok(OpenedStore {
        lock,
        reserve,
        epoch: journal.epoch(),
        journal,
        db: current.db,
        memory: current.memory,
        trail,
        repairs: start.repairs,
    })
}

/// A newer program's store stays as it is.
pub(super) fn refuse_newer(dir: &Path, segments: &[JournalSegment]) -> Result<(), OpenError> {
    match segments.iter().filter_map(|it| it.format).max() {
        Some(found) if found > FORMAT => Err(OpenError::Newer {
            path: dir.display().to_string(),
            found,
            known: FORMAT,
        }),
        Some(_) | None => Ok(()),
    }
}

#[derive(Debug)]
struct RecoveryStart<'a> {
    dir: &'a Path,
    alive: &'a Alive,
    repairs: Vec<String>,
}

impl RecoveryStart<'_> {
    fn store(
        &mut self,
        journal: &Path,
        segments: &[JournalSegment],
    ) -> Result<(Journal, CurrentIndex), OpenError> {
        let db = self.dir.join("db");
        if segments.is_empty() && !db.exists() {
            return self.fresh(journal);
        }
        if segments.is_empty() {
            return Err(
                self.damaged("its journal is gone, and only its index is there; restore a backup")
            );
        }
        let found = if db.exists() {
            bring_up(&db, journal, segments, 0, self.alive)
        } else {
            Err(IndexFault::garbled("the index is missing").into())
        };
        let current = match found {
            Ok(current) => current,
            Err(BuildError::Journal(error)) => return Err(self.refused(error)),
            Err(BuildError::Index(fault)) if fault.is_disk() => return Err(self.io(fault)),
            Err(BuildError::Index(fault)) => self.rebuild(&fault, journal, segments)?,
        };
        for damage in &current.ended.damage {
            self.repairs.push(format!(
                "{damage}; whose records these were says so when it is read, and everything else is there"
            ));
        }
        let journal = self.resume(journal, segments, &current)?;
        Ok((journal, current))
    }

    fn fresh(&self, journal: &Path) -> Result<(Journal, CurrentIndex), OpenError> {
        let epoch = Epoch(clock::ulid());
        let mut made =
            Journal::resume(journal, epoch, JournalResume::NEW).map_err(|it| self.io(it))?;
        // First, so that an index without a journal is never merely young.
        made.roll().map_err(|it| self.io(it))?;
        match bring_up(&self.dir.join("db"), journal, &[], 0, self.alive) {
            Ok(current) => Ok((made, current)),
            Err(BuildError::Journal(error)) => Err(self.refused(error)),
            Err(BuildError::Index(fault)) => Err(self.io(fault)),
        }
    }

    fn rebuild(
        &mut self,
        fault: &IndexFault,
        journal: &Path,
        segments: &[JournalSegment],
    ) -> Result<CurrentIndex, OpenError> {
        let failed = |error| match error {
            BuildError::Journal(error) => self.refused(error),
            BuildError::Index(fault) => self.io(fault),
        };
        // Who has seen more of the journal than there is now says that its end was lost.
        let seen = match fault {
            IndexFault::OtherFormat { applied } => *applied,
            _ => None,
        };
        let known = seen.map_or(0, |it| it.committed);
        let damage = rebuild(self.dir, segments, known, self.alive, || {}).map_err(failed)?;
        let mut current =
            bring_up(&self.dir.join("db"), journal, segments, known, self.alive).map_err(failed)?;
        current.lines = 0;
        current.ended.damage = damage;
        current.applied = seen
            .filter(|_| known > current.ended.pos)
            .or(current.applied);
        if matches!(fault, IndexFault::OtherFormat { .. }) {
            tracing::info!(dir = %self.dir.display(), "the index of an older program was made anew");
        } else {
            self.repairs.push(format!(
                "the index could not be used ({fault}) and was built again from the journal"
            ));
        }
        Ok(current)
    }

    /// Decides where the journal goes on.
    fn resume(
        &mut self,
        journal: &Path,
        segments: &[JournalSegment],
        current: &CurrentIndex,
    ) -> Result<Journal, OpenError> {
        let ended = &current.ended;
        let applied = current.applied;
        let ahead = applied.filter(|it| it.pos > ended.pos);
        let lost = ahead.is_some_and(|it| it.committed > ended.pos);
        let pos = ended.pos.max(applied.map_or(0, |it| it.pos));
        let newest = segments.last();
        if lost {
            self.repairs.push(format!(
                "the journal ends before position {pos}, up to which the index knows of it: what stood behind its end is lost; \
                 conversations that lack records say so, and cursors of before do not hold"
            ));
        } else if ended.torn > 0 {
            self.repairs.push(format!(
                "the last write to the journal was not finished: {} bytes were cut off",
                ended.torn
            ));
        }
        if current.lines > 0 {
            tracing::info!(
                lines = current.lines,
                "took lines of the journal over into the index"
            );
            if applied.is_none() {
                self.repairs
                    .push("the index was empty and was built from the journal".to_owned());
            }
        }
        let epoch = newest.and_then(|it| it.header.as_ref()).map(|it| it.epoch);
        let epoch = epoch.filter(|_| !lost);
        // An older program may not read what this one writes: it gets a segment of its own.
        let older = newest.is_some_and(|it| it.format.is_some_and(|it| it < FORMAT));
        let resume = JournalResume {
            // An index without a journal: the missing segment is named, so that nobody takes the next for all.
            newest: newest.map(|it| it.first).or(applied.map(|it| it.segment)),
            at: (!lost && ahead.is_none() && !older).then_some(ended.size),
            next_pos: pos + 1,
            // What was lost counts as durable, so that a later rebuild notices; what never was synced does not.
            durable: if lost { pos } else { ended.pos },
            committed: ended.committed,
            bytes: total_bytes(segments),
        };
        let epoch = epoch.unwrap_or_else(|| Epoch(clock::ulid()));
        let mut journal = Journal::resume(journal, epoch, resume).map_err(|it| self.io(it))?;
        let erased = index::erased(&current.db).map_err(|it| self.io(it))?;
        let still_open = |pos: u64| newest.is_some_and(|it| it.first <= pos);
        let open_erasures = erased.into_iter().any(|(_, pos)| still_open(pos));
        if resume.at.is_none() {
            sync_segment(newest).map_err(|it| self.io(it))?;
            journal.roll().map_err(|it| self.io(it))?;
        } else if open_erasures {
            // Only closed segments are compacted. On a full disk that waits.
            let _full = journal.roll();
        }
        Ok(journal)
    }

    fn damaged(&self, detail: &str) -> OpenError {
        OpenError::Damaged {
            path: self.dir.display().to_string(),
            detail: detail.to_owned(),
        }
    }

    fn refused(&self, error: ScanError) -> OpenError {
        match error {
            ScanError::Io(source) => self.io(source),
            ScanError::Refused(_) => self.damaged(&error.to_string()),
        }
    }

    fn io(&self, error: impl IntoIo) -> OpenError {
        OpenError::Io {
            path: self.dir.display().to_string(),
            source: error.into_io(),
        }
    }
}

trait IntoIo {
    fn into_io(self) -> std::io::Error;
}

impl IntoIo for std::io::Error {
    fn into_io(self) -> std::io::Error {
        self
    }
}

impl IntoIo for IndexFault {
    fn into_io(self) -> std::io::Error {
        std::io::Error::other(self)
    }
}

fn sync_segment(segment: Option<&JournalSegment>) -> std::io::Result<()> {
    match segment {
        Some(it) => disk::open_existing(&it.path)?.sync_all(),
        None => Ok(()),
    }
}

pub(super) fn total_bytes(segments: &[JournalSegment]) -> u64 {
    segments
        .iter()
        .filter_map(|it| fs::metadata(&it.path).ok())
        .map(|it| it.len())
        .sum()
}

/// Opens the index and gives it what the journal has and it has not. `known`: up to there the journal was committed, as another
/// index remembers.
pub(super) fn bring_up(
    path: &Path,
    journal: &Path,
    segments: &[JournalSegment],
    known: JournalPosition,
    alive: &Alive,
) -> Result<CurrentIndex, BuildError> {
    let db = index::open(path)?;
    match take_over(&db, journal, segments, known, alive) {
        Ok((memory, applied, ended, lines)) => Ok(CurrentIndex {
            db,
            memory,
            applied,
            ended,
            lines,
        }),
        Err(error) => {
            index::close(db);
            Err(error)
        }
    }
}

type TakenOver = (IndexCache, Option<LineLocation>, JournalEnd, usize);

fn take_over(
    db: &Db,
    journal: &Path,
    segments: &[JournalSegment],
    known: JournalPosition,
    alive: &Alive,
) -> Result<TakenOver, BuildError> {
    let applied = index::applied(db)?;
    guarded(|| match applied {
        Some(_) => relocation::catch_up(db, segments),
        None => relocation::begin(db, segments),
    })?;
    let files = JournalFiles::new(journal);
    let mut memory = guarded(|| IndexCache::read(db, &files))?;
    failpoint::pass("recover.mid");
    let mut replay = IndexReplay::new(db, &mut memory, segments, applied);
    let mut fault = None;
    let mut take = |commit: scan::CommitLines<'_>| {
        alive.tell();
        guarded(|| replay.commit(commit)).map_err(|it| {
            let text = it.to_string();
            fault = Some(it);
            text
        })
    };
    let ended = match &applied {
        Some(applied) => scan::read(segments, Some(applied), &mut take),
        None => scan::read_all(segments, known, &mut take),
    };
    let lines = replay.lines;
    if let Some(fault) = fault {
        return Err(fault.into());
    }
    let ended = ended?;
    guarded(|| {
        replay.finish()?;
        note_damage(db, &ended.damage)
    })?;
    Ok((memory, applied, ended, lines))
}

/// Conversations whose records cannot be read are not to be taken for whole.
fn note_damage(db: &Db, damage: &[JournalDamage]) -> Result<(), IndexFault> {
    for damage in damage {
        for conversation in &damage.conversations {
            if !index::is_deleted(db, *conversation)? {
                db.insert(
                    values::damaged(*conversation),
                    damage.to_string().as_bytes(),
                )?;
            }
        }
    }
    Ok(())
}

/// Opens the index again in a running store.
pub(super) fn reopen(dir: &Path, alive: &Alive) -> Result<(Db, IndexCache), BuildError> {
    let journal = dir.join("journal");
    let segments = segment::list(&journal).map_err(ScanError::Io)?;
    let current = bring_up(&dir.join("db"), &journal, &segments, 0, alive)?;
    Ok((current.db, current.memory))
}

/// Builds the index anew beside the old one, and puts it in its place only when it is whole. The old one must not be open
/// at the end of this: `close_old` sees to it. It is not kept: it has nothing that the journal has not, and may still have
/// what was deleted. Returns what of the journal is damaged.
pub(super) fn rebuild(
    dir: &Path,
    segments: &[JournalSegment],
    known: JournalPosition,
    alive: &Alive,
    close_old: impl FnOnce(),
) -> Result<Vec<JournalDamage>, BuildError> {
    let io_fault = |it: std::io::Error| IndexFault::Sled(it.into());
    index_copy::remove_left_overs(dir).map_err(io_fault)?;
    let draft = index_copy::draft(dir);
    let built = bring_up(&draft, &dir.join("journal"), segments, known, alive)?;
    let flushed = index::flush(&built.db);
    index::close(built.db);
    flushed?;
    close_old();
    let db = dir.join("db");
    let placed = if db.exists() {
        index_copy::exchange(dir).and_then(|()| index_copy::remove_left_overs(dir))
    } else {
        disk::rename(&draft, &db)
    };
    placed.map_err(io_fault)?;
    Ok(built.ended.damage)
}
