//! Start-up: find out what the last life left, repair it where nothing acknowledged is lost by that, and say
//! so; refuse otherwise. Also the rebuilding of the index from the journal, which a running store can need.

use std::fs;
use std::path::{Path, PathBuf};

use aish_proto::id::Epoch;
use aishd_log::audit::chain::ChainHead;
use aishd_platform::{clock, failpoint};
use sled::Db;

use super::change_batch::{IndexCache, IndexReplay};
use super::disk_reserve::DiskReserve;
use super::index::{self, IndexFault, guarded};
use super::journal::{Journal, JournalResume, LineLocation};
use super::line::FORMAT;
use super::lock::StoreLock;
use super::scan::{self, JournalEnd, ScanError};
use super::segment::{self, JournalSegment};
use super::{Alive, OpenError, audit_trail, disk};

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
struct CurrentIndex {
    db: Db,
    memory: IndexCache,
    /// What it had before.
    applied: Option<LineLocation>,
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
    disk::make_dir(dir).map_err(io_error)?;
    let mut lock = StoreLock::take(dir)?;
    let journal = dir.join("journal");
    let segments = segment::list(&journal).map_err(io_error)?;
    refuse_newer(dir, &segments)?;
    lock.write_pid().map_err(io_error)?;
    let mut reserve = DiskReserve::find(dir);
    reserve.drop_if_short();
    disk::make_dir(&journal).map_err(io_error)?;
    segment::remove_drafts(&journal).map_err(io_error)?;

    let mut start = RecoveryStart {
        dir,
        alive,
        repairs: vec![],
    };
    let (journal, current) = start.store(&journal, &segments)?;
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
fn refuse_newer(dir: &Path, segments: &[JournalSegment]) -> Result<(), OpenError> {
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
        let found = if db.exists() {
            bring_up(&db, segments, self.alive)
        } else {
            Err(IndexFault::garbled("the index is missing").into())
        };
        let current = match found {
            Ok(current) => current,
            // Whoever has the journal's end damaged keeps an index that lacks it: nobody may decide that alone.
            Err(BuildError::Journal(error)) => return Err(self.refused(error)),
            Err(BuildError::Index(fault)) if fault.is_disk() => return Err(self.io(fault)),
            Err(BuildError::Index(fault)) => self.rebuild(&fault, segments)?,
        };
        let journal = self.resume(journal, segments, &current)?;
        Ok((journal, current))
    }

    fn fresh(&self, journal: &Path) -> Result<(Journal, CurrentIndex), OpenError> {
        let nothing = JournalResume {
            newest: None,
            at: None,
            next_pos: 1,
            durable: 0,
            committed: 0,
            bytes: 0,
        };
        let epoch = Epoch(clock::ulid());
        let mut made = Journal::resume(journal, epoch, nothing).map_err(|it| self.io(it))?;
        // First, so that an index without a journal is never merely young.
        made.roll().map_err(|it| self.io(it))?;
        match bring_up(&self.dir.join("db"), &[], self.alive) {
            Ok(current) => Ok((made, current)),
            Err(BuildError::Journal(error)) => Err(self.refused(error)),
            Err(BuildError::Index(fault)) => Err(self.io(fault)),
        }
    }

    fn rebuild(
        &mut self,
        fault: &IndexFault,
        segments: &[JournalSegment],
    ) -> Result<CurrentIndex, OpenError> {
        if segments.is_empty() {
            return Err(self.damaged(&format!(
                "its index cannot be read ({fault}) and its journal is gone; restore a backup"
            )));
        }
        let aside = rebuild(self.dir, segments, self.alive).map_err(|error| match error {
            BuildError::Journal(error) => self.refused(error),
            BuildError::Index(fault) => self.io(fault),
        })?;
        let kept = aside.map_or_else(String::new, |it| {
            format!("; it is kept as {}", it.display())
        });
        self.repairs.push(format!(
            "the index could not be used ({fault}) and was built again from the journal{kept}"
        ));
        match bring_up(&self.dir.join("db"), segments, self.alive) {
            Ok(mut current) => {
                current.lines = 0;
                Ok(current)
            }
            Err(BuildError::Journal(error)) => Err(self.refused(error)),
            Err(BuildError::Index(fault)) => Err(self.io(fault)),
        }
    }

    /// Decides where the journal goes on.
    fn resume(
        &mut self,
        journal: &Path,
        segments: &[JournalSegment],
        current: &CurrentIndex,
    ) -> Result<Journal, OpenError> {
        let ended = current.ended;
        let applied = current.applied;
        let ahead = applied.filter(|it| it.pos > ended.pos);
        let lost = ended.old_damage || ahead.is_some_and(|it| it.committed > ended.pos);
        let pos = ended.pos.max(applied.map_or(0, |it| it.pos));
        let newest = segments.last();
        if lost {
            self.repairs.push(format!(
                "the journal ends or is damaged before position {pos}, which the index has: going on with what the index has; \
                 anything after it is lost, and cursors of before do not hold"
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
        let deleted = index::deleted(&current.db).map_err(|it| self.io(it))?;
        let forgotten = index::forgotten(&current.db).map_err(|it| self.io(it))?;
        let gone = deleted.iter().map(|(_, pos)| *pos).chain(forgotten);
        let still_open = |pos: u64| newest.is_some_and(|it| it.first <= pos);
        let open_deletions = gone.into_iter().any(still_open);
        if resume.at.is_none() {
            sync_segment(newest).map_err(|it| self.io(it))?;
            journal.roll().map_err(|it| self.io(it))?;
        } else if open_deletions {
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
            ScanError::Damaged { .. } | ScanError::Refused(_) => self.damaged(&format!(
                "{error}; nothing was changed: restore a backup, or keep a copy of the directory and repair that line"
            )),
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

/// Opens the index and gives it what the journal has and it has not.
fn bring_up(
    path: &Path,
    segments: &[JournalSegment],
    alive: &Alive,
) -> Result<CurrentIndex, BuildError> {
    let db = index::open(path)?;
    let applied = index::applied(&db)?;
    let mut memory = guarded(|| IndexCache::read(&db))?;
    failpoint::pass("recover.mid");
    let mut lines = 0;
    let outcome = {
        let mut replay = IndexReplay::new(&db, &mut memory, segments, applied);
        let mut fault = None;
        let ended = scan::read(segments, applied.as_ref(), &mut |commit| {
            alive.log_state();
            guarded(|| replay.commit(commit)).map_err(|it| {
                let text = it.to_string();
                fault = Some(it);
                text
            })
        });
        lines += replay.lines;
        match (ended, fault) {
            (_, Some(fault)) => Err(fault.into()),
            (Err(error), None) => Err(BuildError::Journal(error)),
            (Ok(ended), None) => guarded(|| replay.finish())
                .map(|()| ended)
                .map_err(BuildError::Index),
        }
    };
    match outcome {
        Ok(ended) => Ok(CurrentIndex {
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

/// Opens the index again in a running store.
pub(super) fn reopen(dir: &Path, alive: &Alive) -> Result<(Db, IndexCache), BuildError> {
    let segments = segment::list(&dir.join("journal")).map_err(ScanError::Io)?;
    let current = bring_up(&dir.join("db"), &segments, alive)?;
    Ok((current.db, current.memory))
}

/// Builds the index anew beside the old one, and puts it in its place only when it is whole. Returns where
/// the old one is kept. The old one must not be open at the end of this: `close_old` sees to it.
pub(super) fn rebuild_then(
    dir: &Path,
    segments: &[JournalSegment],
    alive: &Alive,
    close_old: impl FnOnce(),
) -> Result<Option<PathBuf>, BuildError> {
    let draft = dir.join("db.new");
    remove_dir(&draft)?;
    let built = bring_up(&draft, segments, alive)?;
    let flushed = index::flush(&built.db);
    index::close(built.db);
    flushed?;
    close_old();
    let db = dir.join("db");
    let aside = dir.join(format!("db.damaged-{}", clock::now().0));
    let io_fault = |it: std::io::Error| IndexFault::Sled(it.into());
    let had_one = db.exists();
    if had_one {
        disk::rename(&db, &aside).map_err(io_fault)?;
    }
    disk::rename(&draft, &db).map_err(io_fault)?;
    Ok(had_one.then_some(aside))
}

fn rebuild(
    dir: &Path,
    segments: &[JournalSegment],
    alive: &Alive,
) -> Result<Option<PathBuf>, BuildError> {
    rebuild_then(dir, segments, alive, || {})
}

fn remove_dir(path: &Path) -> Result<(), BuildError> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(IndexFault::Sled(error.into()).into()),
    }
}
