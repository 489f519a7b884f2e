//! Telling the index where lines stand after a segment was written anew: by who wrote it, or at the next start.

use std::collections::BTreeSet;
use std::fs;
use std::ops::RangeInclusive;

use aish_proto::id::Seq;
use serde::Deserialize;
use sled::{Batch, Db};

use super::body::BodyPlace;
use super::index::IndexFault;
use super::line::{self, JournalPosition, JournalRecord};
use super::segment::JournalSegment;
use super::segment_use::{self, SegmentUse};
use super::values::{self, LineOwner};

/// Of a record, what its key is made of.
#[derive(Deserialize)]
pub(super) struct RecordSeq {
    pub(super) seq: Seq,
}

/// Under which key the index has a line, if it has any.
pub(super) fn key_of(rec: &JournalRecord<'_>) -> Result<Option<Vec<u8>>, IndexFault> {
    Ok(match rec {
        JournalRecord::Event(it) => {
            let RecordSeq { seq } = serde_json::from_str(it.record.get())?;
            Some(values::event(it.conversation, seq))
        }
        JournalRecord::Partial(it) => Some(values::partial(it.conversation, it.place.pos)),
        JournalRecord::Note(it) => Some(values::note(&it.key)),
        JournalRecord::Audit(it) => Some(values::audit(it.n)),
        JournalRecord::Delete(_) | JournalRecord::Header(_) => None,
    })
}

/// Of whom a line is.
pub(super) fn owner_of(rec: &JournalRecord<'_>) -> Option<LineOwner> {
    match rec {
        JournalRecord::Event(it) => Some(LineOwner::conversation(it.conversation)),
        JournalRecord::Partial(it) => Some(LineOwner::conversation(it.conversation)),
        JournalRecord::Note(it) => Some(LineOwner::note(&it.key)),
        JournalRecord::Audit(_) | JournalRecord::Delete(_) | JournalRecord::Header(_) => None,
    }
}

pub(super) fn place_under(db: &Db, key: &[u8]) -> Result<Option<BodyPlace>, IndexFault> {
    match db.get(key)? {
        Some(place) => Ok(Some(BodyPlace::from_bytes(&place)?)),
        None => Ok(None),
    }
}

/// What the index is told of one segment.
#[derive(Debug)]
pub(super) struct Relocation<'a> {
    db: &'a Db,
    /// Where the lines stood before.
    before: RangeInclusive<JournalPosition>,
    /// No line that was erased up to here is in the segment.
    erased_through: JournalPosition,
    batch: Batch,
    live_bytes: u64,
    owners: BTreeSet<LineOwner>,
}

impl<'a> Relocation<'a> {
    pub(super) fn new(
        db: &'a Db,
        before: RangeInclusive<JournalPosition>,
        erased_through: JournalPosition,
    ) -> Self {
        Self {
            db,
            before,
            erased_through,
            batch: Batch::default(),
            live_bytes: 0,
            owners: BTreeSet::new(),
        }
    }

    /// A line stands there now.
    pub(super) fn line(
        &mut self,
        rec: &JournalRecord<'_>,
        now: BodyPlace,
    ) -> Result<(), IndexFault> {
        self.owners.extend(owner_of(rec));
        if let Some(key) = key_of(rec)? {
            let known = place_under(self.db, &key)?;
            if known.is_some_and(|it| self.before.contains(&it.segment)) {
                self.batch.insert(key, &now.to_bytes());
            }
        }
        // What stays counts, so that it is not written anew again and again.
        self.live_bytes += u64::from(now.length);
        Ok(())
    }

    /// It holds something of this one that cannot be read.
    pub(super) fn holds(&mut self, owner: LineOwner) {
        self.owners.insert(owner);
    }

    /// The changes, with what else is known of the segments. `owners` are those who may have had lines in them.
    pub(super) fn finish(
        mut self,
        generation: u64,
        owners: impl IntoIterator<Item = (LineOwner, JournalPosition)>,
    ) -> Batch {
        let first = *self.before.start();
        for (owner, segment) in owners {
            self.batch.remove(owner.home(segment));
        }
        for owner in &self.owners {
            let home = owner.home(first);
            self.batch.insert(home, &self.erased_through.to_be_bytes());
        }
        let used = SegmentUse {
            generation,
            live_bytes: self.live_bytes,
        };
        used.put(&mut self.batch, first);
        self.batch
    }
}

/// What a new index knows of segments before it takes their lines over.
pub(super) fn begin(db: &Db, segments: &[JournalSegment]) -> Result<(), IndexFault> {
    let mut batch = Batch::default();
    for segment in segments {
        let generation = segment.header.as_ref().map_or(0, |it| it.generation);
        if generation > 0 {
            let used = SegmentUse {
                generation,
                live_bytes: 0,
            };
            used.put(&mut batch, segment.first);
        }
    }
    db.apply_batch(batch)?;
    Ok(())
}

/// Whoever wrote segments anew may have ended before the index knew, or the index is one of before.
pub(super) fn catch_up(db: &Db, segments: &[JournalSegment]) -> Result<(), IndexFault> {
    let used = segment_use::all(db)?;
    for segment in segments {
        let Some(header) = &segment.header else {
            continue;
        };
        let known = used.get(&segment.first).copied().unwrap_or_default();
        if known.generation == header.generation {
            continue;
        }
        let before = segment.first..=segment.through();
        let bytes = fs::read(&segment.path).map_err(IndexFault::disk)?;
        let mut relocation = Relocation::new(db, before.clone(), 0);
        let mut at = usize::try_from(segment.body_at).unwrap_or(usize::MAX);
        while at < bytes.len() {
            let Some((rec, length)) = line::check(&bytes[at..]) else {
                at = line::next_readable(&bytes, at);
                continue;
            };
            let rec = line::parse(rec)?;
            relocation.line(&rec, BodyPlace::new(segment.first, at as u64, length))?;
            at += length;
        }
        let mut batch = relocation.finish(header.generation, homes_in(db, &before)?);
        for first in used.keys().filter(|it| **it > segment.first) {
            if before.contains(first) {
                batch.remove(values::segment(*first));
            }
        }
        db.apply_batch(batch)?;
    }
    Ok(())
}

/// All homes in these segments.
fn homes_in(
    db: &Db,
    segments: &RangeInclusive<JournalPosition>,
) -> Result<Vec<(LineOwner, JournalPosition)>, IndexFault> {
    let mut found = vec![];
    for prefix in values::all_homes() {
        for key in db.scan_prefix(prefix).keys() {
            if let Some((owner, segment)) = LineOwner::of_home(&key?)
                && segments.contains(&segment)
            {
                found.push((owner, segment));
            }
        }
    }
    Ok(found)
}
