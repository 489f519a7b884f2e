//! What was deleted and forgotten leaves every file: first the segments that hold it are written anew, then the index is.

use std::fs;
use std::path::Path;

use super::compaction_plan::CompactionGoal;
use super::index::IndexFault;
use super::index_copy::IndexCopy;
use super::line::JournalPosition;
use super::requests::ErasureAck;
use super::writer::StoreWriter;
use super::{index, index_copy, recover, segment, segment_use};

/// No header of a segment is longer.
const HEADER_BYTES: u64 = 512;

/// Who waits for it.
#[derive(Debug, Default)]
pub(super) struct Erasures {
    pub(super) waiting: Vec<(CompactionGoal, ErasureAck)>,
    /// For these the segments are being written anew that hold what was erased up to this position.
    in_journal: Vec<ErasureAck>,
    erased_to: JournalPosition,
    /// For these the index is being copied.
    in_index: Vec<ErasureAck>,
    /// Why nobody can say that it has left the journal.
    doubt: Option<String>,
}

impl Erasures {
    pub(super) fn are_wanted(&self) -> bool {
        !(self.waiting.is_empty() && self.in_journal.is_empty() && self.in_index.is_empty())
    }

    /// A file has damaged bytes that may be of what was erased.
    pub(super) fn doubt(&mut self, file: &Path) {
        if !self.in_journal.is_empty() {
            self.doubt = Some(format!(
                "{} has damaged bytes that may be of it: aishctl store repair takes them out",
                file.display()
            ));
        }
    }

    /// Those for whom something was done that did not succeed are told why.
    pub(super) fn fail(&mut self, reason: &str) {
        for ack in self.in_journal.drain(..).chain(self.in_index.drain(..)) {
            let _gone = ack.send(Err(reason.to_owned()));
        }
    }
}

impl StoreWriter {
    /// The next step for those who wait, when nothing else is to be done.
    pub(super) fn erase_next(&mut self) {
        if !self.erasures.in_journal.is_empty() {
            let doubt = self.erasures.doubt.take();
            let left = doubt.map_or(Ok(()), Err).and_then(|()| self.what_is_left());
            if let Err(reason) = left {
                return self.erasures.fail(&reason);
            }
            let done = std::mem::take(&mut self.erasures.in_journal);
            self.erasures.in_index.extend(done);
        }
        if !self.erasures.in_index.is_empty() {
            return self.begin_copy();
        }
        if self.erasures.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.erasures.waiting);
        let goals = waiting.iter().map(|(goal, _)| *goal);
        let goal = goals.max().unwrap_or(CompactionGoal::Erased);
        let waiting = waiting.into_iter().map(|(_, ack)| ack);
        self.erasures.in_journal = waiting.collect();
        self.erasures.erased_to = self.journal.last_pos();
        // Only closed segments are written anew.
        let is_due = match goal {
            CompactionGoal::Erased => self.current_holds_erased(),
            CompactionGoal::Everything => self
                .current_holds_erased()
                .and_then(|it| Ok(it || self.current_has_dead_bytes()?)),
        };
        match is_due {
            Ok(false) => {}
            Ok(true) => {
                if let Err(error) = self.journal.roll() {
                    let reason = format!("begin another segment of the journal: {error}");
                    return self.erasures.fail(&reason);
                }
            }
            Err(fault) => {
                self.erasures.fail(&fault.to_string());
                return self.lose_index(&fault);
            }
        }
        self.plan_compaction_for(goal);
    }

    /// Fails where a file of the journal may still hold what was erased.
    fn what_is_left(&self) -> Result<(), String> {
        segment::remove_held(self.journal.dir()).map_err(|it| it.to_string())?;
        let Some(db) = self.shared.db() else {
            return Err("the index is being restored".to_owned());
        };
        let is_left = index::guarded(|| {
            for (owner, pos) in index::erased(&db)? {
                let is_meant = pos <= self.erasures.erased_to;
                if is_meant && !index::homes_before(&db, &owner, pos)?.is_empty() {
                    return Ok(true);
                }
            }
            Ok(false)
        });
        match is_left {
            Ok(false) => Ok(()),
            Ok(true) => {
                Err("a segment of the journal that holds it cannot be written anew".to_owned())
            }
            Err(fault) => Err(fault.to_string()),
        }
    }

    fn current_holds_erased(&self) -> Result<bool, IndexFault> {
        let (Some(db), Some(current)) = (self.shared.db(), self.journal.current_first()) else {
            return Ok(false);
        };
        index::guarded(|| {
            for (owner, pos) in index::erased(&db)? {
                if index::homes_before(&db, &owner, pos)?.contains(&current) {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    }

    fn current_has_dead_bytes(&self) -> Result<bool, IndexFault> {
        let (Some(db), Some(current)) = (self.shared.db(), self.journal.current_first()) else {
            return Ok(false);
        };
        let used = index::guarded(|| segment_use::of(&db, current))?;
        let file = segment::path(self.journal.dir(), current);
        let bytes = fs::metadata(file).map_or(0, |it| it.len());
        Ok(bytes > used.live_bytes + HEADER_BYTES)
    }

    pub(super) fn begin_copy(&mut self) {
        match index::guarded(|| IndexCopy::begin(&self.dir)) {
            Ok(copy) => self.memory.copy = Some(copy),
            Err(fault) => self.copy_failed(&fault),
        }
    }

    /// The next part of it; after the last one the copy takes the place of the index.
    pub(super) fn copy_index(&mut self) {
        let (Some(db), Some(copy)) = (self.shared.db(), &mut self.memory.copy) else {
            return;
        };
        let stepped = index::guarded(|| copy.step(&db));
        drop(db);
        match stepped {
            Ok(false) => {}
            Ok(true) => self.exchange_index(),
            Err(fault) => self.copy_failed(&fault),
        }
    }

    fn exchange_index(&mut self) {
        let Some(copy) = self.memory.copy.take() else {
            return;
        };
        if let Err(fault) = index::guarded(|| copy.finish(&self.dir)) {
            return self.copy_failed(&fault);
        }
        let mut index = self.shared.without_readers();
        if let Some(db) = index.take() {
            index::close(db);
        }
        let exchanged = index_copy::exchange(&self.dir).map_err(IndexFault::disk);
        let opened = recover::reopen(&self.dir, &self.shared.alive);
        match opened {
            Ok((db, memory)) => {
                self.memory = memory;
                *index = Some(db);
                self.shared.count_index();
            }
            Err(error) => {
                drop(index);
                let fault = IndexFault::Garbled(error.to_string());
                self.erasures.fail(&fault.to_string());
                return self.lose_index(&fault);
            }
        }
        drop(index);
        let remove = || {
            index_copy::remove_left_overs(&self.dir)?;
            index_copy::remove_damaged(&self.dir)
        };
        let removed = exchanged.and_then(|()| remove().map_err(IndexFault::disk));
        match removed {
            Ok(()) => {
                index_copy::note_size(&self.shared, &self.dir);
                for ack in self.erasures.in_index.drain(..) {
                    let _gone = ack.send(Ok(()));
                }
            }
            Err(fault) => self.copy_failed(&fault),
        }
    }

    /// The old index goes on; what was to leave it stays for now.
    fn copy_failed(&mut self, fault: &IndexFault) {
        tracing::warn!(%fault, "the index could not be copied");
        self.memory.copy = None;
        let _left_for_the_next_start = index_copy::remove_left_overs(&self.dir);
        self.erasures
            .fail(&format!("write the index anew: {fault}"));
    }
}
