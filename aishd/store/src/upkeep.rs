//! What the writer does between groups: an index that failed is opened or built again, flushed when there is
//! time, the journal compacted, and in the end everything written down.

use std::collections::HashSet;
use std::error::Error as _;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sled::{Batch, Db};

use super::compact::CompactionError;
use super::compaction_plan::{CompactionGoal, SegmentFacts};
use super::index::{self, IndexFault, guarded};
use super::line::JournalPosition;
use super::recover::{self, BuildError};
use super::segment::{self, ClosedSegment};
use super::shared::StoreShared;
use super::writer::StoreWriter;
use super::{compact, compaction_plan, disk, index_copy, scan, segment_use};

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LAST_RETRY: Duration = Duration::from_secs(2);
/// A journal that does not allow a rebuild is not read again for every read that fails.
const REBUILD_PAUSE: Duration = Duration::from_secs(30);
/// How often a full disk is looked at again.
const RECHECK: Duration = Duration::from_millis(500);

/// The index is closed, and is opened again after a pause that grows.
#[derive(Debug)]
pub(super) struct IndexAway {
    pub(super) retry_at: Instant,
    pause: Duration,
    remedy: IndexRemedy,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum IndexRemedy {
    Reopen,
    Rebuild,
}

/// Says that the writer is gone, also when it panicked.
#[derive(Debug)]
pub(super) struct WriterEnd {
    pub(super) shared: Arc<StoreShared>,
}

impl Drop for WriterEnd {
    fn drop(&mut self) {
        // Nobody reads without an index, and whoever closes the store finds nothing of it open then.
        self.shared.files.forget(|_| true);
        self.shared.update(|it| {
            it.ended = true;
            it.problem = Some("the store is closed".to_owned());
        });
    }
}

impl StoreWriter {
    /// After a fault of the index that lacks what was acknowledged. What is in the journal stays true; it can be read again
    /// when the index is back.
    pub(super) fn lose_index(&mut self, fault: &IndexFault) {
        self.let_go();
        self.index_failed(fault);
    }

    /// After a fault of the index that has everything, and is read until another one can be opened.
    fn index_failed(&mut self, fault: &IndexFault) {
        tracing::warn!(%fault, "the index failed; it is opened again");
        if fault.is_full() {
            self.reserve.drop_now();
        }
        self.away = Some(IndexAway {
            retry_at: Instant::now(),
            pause: FIRST_RETRY,
            remedy: IndexRemedy::Reopen,
        });
        self.restore();
    }

    /// One attempt to get the index back.
    pub(super) fn restore(&mut self) {
        let Some(mut away) = self.away.take() else {
            return;
        };
        // A disk that takes no writes opens no index either, and what can be read of the old one is read for so long.
        if let Err(error) = disk::try_write(&self.dir) {
            let problem = format!("the disk of the store takes no writes: {error}");
            return self.restore_later(away, problem);
        }
        self.let_go();
        let restored = match away.remedy {
            IndexRemedy::Reopen => self.reopen(),
            IndexRemedy::Rebuild => self.rebuild(),
        };
        match restored {
            Ok(()) => {
                self.shared.update(|it| it.problem = None);
                self.acknowledge(vec![]);
            }
            Err(error) => {
                if matches!(&error, BuildError::Index(fault) if !fault.is_disk()) {
                    away.remedy = IndexRemedy::Rebuild;
                }
                self.restore_later(away, format!("open the index: {error}"));
            }
        }
    }

    fn restore_later(&mut self, mut away: IndexAway, problem: String) {
        tracing::warn!(problem, "the index is not back yet");
        self.shared.update(|it| it.problem = Some(problem));
        away.retry_at = Instant::now() + away.pause;
        away.pause = (away.pause * 2).min(LAST_RETRY);
        self.away = Some(away);
    }

    fn let_go(&mut self) {
        self.memory.copy = None;
        // Who waits for what it was to take in is told that there is no index now.
        self.shared.has_applied();
        if let Some(db) = self.shared.take_index() {
            index::close(db);
        }
    }

    fn reopen(&mut self) -> Result<(), BuildError> {
        self.leave_given_up_segment()?;
        let (db, memory) = recover::reopen(&self.dir, &self.shared.alive)?;
        self.memory = memory;
        self.shared.give_index(db);
        Ok(())
    }

    /// What a given-up segment still holds counts only until the next one begins.
    fn leave_given_up_segment(&mut self) -> Result<(), BuildError> {
        if self.journal.current_first().is_none() {
            self.journal.roll().map_err(scan::ScanError::Io)?;
        }
        Ok(())
    }

    /// Builds the index anew; the old one goes on answering what it can until the new one is whole.
    fn rebuild(&mut self) -> Result<(), BuildError> {
        self.leave_given_up_segment()?;
        let segments = segment::list(self.journal.dir()).map_err(scan::ScanError::Io)?;
        let shared = Arc::clone(&self.shared);
        // What the writer has acknowledged it knows.
        let known = self.journal.committed();
        let damage = recover::rebuild(&self.dir, &segments, known, &self.shared.alive, || {
            if let Some(db) = shared.take_index() {
                index::close(db);
            }
        })?;
        self.shared.files.forget(|_| true);
        let (db, memory) = recover::reopen(&self.dir, &self.shared.alive)?;
        self.memory = memory;
        self.shared.give_index(db);
        let repair = "the index was damaged and was built again from the journal".to_owned();
        tracing::warn!(dir = %self.dir.display(), repair, "the store was repaired");
        let damage = damage.into_iter().map(|it| it.to_string());
        self.shared.update(|it| {
            it.repairs.push(repair);
            it.repairs.extend(damage);
        });
        Ok(())
    }

    /// A reader could not read the index.
    pub(super) fn see_to_damage(&mut self) {
        let Some(damage) = self.shared.status().damaged.clone() else {
            return;
        };
        let now = Instant::now();
        let pausing = self.no_rebuild_before.is_some_and(|it| it > now);
        if self.away.is_none() && !pausing {
            tracing::warn!(damage, "the index is damaged: building it again");
            if let Err(error) = self.rebuild() {
                tracing::error!(%error, "the index cannot be built again");
                self.no_rebuild_before = Some(now + REBUILD_PAUSE);
                self.shared
                    .update(|it| it.problem = Some(format!("the index is damaged: {error}")));
                if self.shared.db().is_none() {
                    self.away = Some(IndexAway {
                        retry_at: now + FIRST_RETRY,
                        pause: FIRST_RETRY,
                        remedy: IndexRemedy::Reopen,
                    });
                }
            }
        }
        self.shared.update(|it| {
            it.damaged = None;
            it.generation += 1;
        });
    }

    pub(super) fn recheck(&mut self) {
        let room = self.disk_room().is_ok_and(|it| it.lack().is_none());
        // Whether a segment can be begun shows whether the disk works again.
        let works = room && self.journal.roll_if_due().is_ok();
        if works {
            self.recheck_at = None;
            self.is_full = false;
            self.reserve.make_if_plenty();
            self.shared.update(|it| it.problem = None);
        } else {
            self.recheck_at = Some(Instant::now() + RECHECK);
        }
    }

    /// So that the next start has little to replay; nothing acknowledged depends on it.
    pub(super) fn flush(&mut self) {
        self.flush_at = None;
        self.unflushed_bytes = 0;
        let Some(db) = self.shared.db() else {
            return;
        };
        let flushed = index::flush(&db);
        self.shared.count_index();
        let is_large = self.memory.copy.is_none() && index_copy::is_due(&db, &self.dir);
        drop(db);
        match flushed {
            Ok(()) if is_large => self.begin_copy(),
            Ok(()) => {}
            Err(fault) => self.index_failed(&fault),
        }
    }

    /// Looks which closed segments are worth to be written anew.
    pub(super) fn plan_compaction(&mut self) {
        self.plan_compaction_for(CompactionGoal::Erased);
    }

    pub(super) fn plan_compaction_for(&mut self, goal: CompactionGoal) {
        self.plan_again = false;
        self.to_compact.clear();
        let (Some(db), Some(current)) = (self.shared.db(), self.journal.current_first()) else {
            return;
        };
        match guarded(|| self.compaction_runs(&db, current, goal)) {
            Ok(runs) => self.to_compact = runs,
            Err(fault) => tracing::warn!(%fault, "could not plan a compaction of the journal"),
        }
        drop(db);
        if self.to_compact.is_empty() {
            self.forget_erased();
        }
    }

    fn compaction_runs(
        &self,
        db: &Db,
        current: JournalPosition,
        goal: CompactionGoal,
    ) -> Result<Vec<Vec<ClosedSegment>>, IndexFault> {
        let mut holds_erased = HashSet::new();
        for (owner, pos) in index::erased(db)? {
            holds_erased.extend(index::homes_before(db, &owner, pos)?);
        }
        let used = segment_use::all(db)?;
        let mut segments = segment::closed(self.journal.dir(), current);
        let facts = |it: &ClosedSegment| SegmentFacts {
            bytes: fs::metadata(&it.segment.path).map_or(0, |it| it.len()),
            live_bytes: used.get(&it.segment.first).map_or(0, |it| it.live_bytes),
            holds_erased: holds_erased.contains(&it.segment.first),
        };
        let facts: Vec<_> = segments.iter().map(facts).collect();
        let runs = compaction_plan::runs(&facts, self.journal.segment_bytes, goal);
        // From behind, as they are in order.
        let run_of = |run: std::ops::Range<usize>| {
            segments.truncate(run.end);
            segments.split_off(run.start)
        };
        Ok(runs.into_iter().map(run_of).collect())
    }

    pub(super) fn compact(&mut self, run: &[ClosedSegment]) {
        match self.write_anew(run) {
            Ok(shorter) => {
                let bytes = self.journal.bytes().saturating_sub(shorter);
                self.journal.set_bytes(bytes);
                self.seen_bytes = self.seen_bytes.min(bytes);
                self.shared.update(|it| it.journal_bytes = bytes);
            }
            Err(CompactionError::Index(fault)) => {
                self.to_compact.clear();
                self.erasures.fail(&fault.to_string());
                return self.lose_index(&fault);
            }
            Err(error) => {
                // The next roll or start tries again.
                let reason = match error.source() {
                    Some(cause) => format!("{error}: {cause}"),
                    None => error.to_string(),
                };
                tracing::warn!(reason, "could not compact a segment of the journal");
                self.to_compact.clear();
                self.erasures.fail(&reason);
            }
        }
        if self.to_compact.is_empty() {
            self.forget_erased();
        }
    }

    /// Returns how many bytes fewer the journal has.
    fn write_anew(&mut self, run: &[ClosedSegment]) -> Result<u64, CompactionError> {
        let Some(db) = self.shared.db() else {
            return Ok(0);
        };
        let erased_through = self.journal.last_pos();
        let mut outcome = None;
        guarded(|| {
            outcome = Some(compact::rewrite(
                run,
                &db,
                erased_through,
                &self.shared.alive,
            ));
            Ok(())
        })?;
        let Some(mut rewritten) = outcome.transpose()?.flatten() else {
            return Ok(0);
        };
        if let Some(file) = &rewritten.nobody_knows {
            self.erasures.doubt(file);
        }
        let batch = std::mem::take(&mut rewritten.batch);
        // Who reads finds each line either where it was or where it is.
        let mut index = self.shared.without_readers();
        let is_of_run = |first| run.iter().any(|it| it.segment.first == first);
        self.shared.files.forget(is_of_run);
        let known = match rewritten.replace() {
            Ok(()) => guarded(|| self.memory.apply(&db, batch)),
            Err(error) => Err(IndexFault::disk(error)),
        };
        drop(db);
        if let Err(fault) = known {
            // The file may be the new one already: no index is better than one that looks for lines where they were.
            if let Some(db) = index.take() {
                index::close(db);
            }
            return Err(fault.into());
        }
        drop(index);
        rewritten.remove_others()?;
        Ok(rewritten.shorter)
    }

    /// Of whom nothing is left in the journal.
    fn forget_erased(&mut self) {
        let Some(db) = self.shared.db() else {
            return;
        };
        let memory = &mut self.memory;
        let segments = segment::list(self.journal.dir());
        let forgotten = guarded(|| {
            let mut batch = Batch::default();
            let segments = segments.map_err(IndexFault::disk)?;
            let is_there = |first: &JournalPosition| segments.iter().any(|it| it.first == *first);
            for (owner, pos) in index::erased(&db)? {
                let homes = index::homes_before(&db, &owner, pos)?;
                let (left, gone): (Vec<_>, Vec<_>) = homes.into_iter().partition(is_there);
                for first in gone {
                    batch.remove(owner.home(first));
                }
                if left.is_empty() {
                    batch.remove(owner.erased());
                }
            }
            memory.apply(&db, batch)
        });
        drop(db);
        if let Err(fault) = forgotten {
            self.lose_index(&fault);
        }
    }

    /// Takes what is still in the mailbox, and writes everything down.
    pub(super) fn finish(&mut self) {
        self.mailbox.close();
        while let Ok(first) = self.mailbox.try_recv() {
            let group = self.group(first);
            self.write(group);
        }
        // What the index lacks is in the journal; the next start reads it from there.
        self.away = None;
        if let Err(error) = self.journal.sync() {
            tracing::warn!(%error, "could not sync the last text of the journal");
        }
        if let Some(db) = self.shared.take_index() {
            if let Err(fault) = index::flush(&db) {
                tracing::warn!(%fault, "could not flush the index");
            }
            index::close(db);
        }
    }
}
