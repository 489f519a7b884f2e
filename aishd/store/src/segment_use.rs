//! What is known of each segment of the journal: how often it was written anew, and how many of its bytes are of lines that
//! the index speaks of.

use std::collections::BTreeMap;

use sled::{Batch, Db};

use super::body::BodyPlace;
use super::index::IndexFault;
use super::line::JournalPosition;
use super::values;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentUse {
    /// As its header says it. Where the header says another one, lines do not stand where the index has them.
    pub(super) generation: u64,
    pub(super) live_bytes: u64,
}

impl SegmentUse {
    pub(super) fn put(self, batch: &mut Batch, first: JournalPosition) {
        let value = [self.generation.to_be_bytes(), self.live_bytes.to_be_bytes()].concat();
        batch.insert(values::segment(first), value);
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, IndexFault> {
        let parts = bytes.split_first_chunk::<8>();
        let parts = parts.and_then(|(generation, live)| Some((generation, live.try_into().ok()?)));
        let (generation, live) = parts.ok_or_else(|| IndexFault::garbled("a segment's use"))?;
        Ok(Self {
            generation: u64::from_be_bytes(*generation),
            live_bytes: u64::from_be_bytes(live),
        })
    }
}

pub(super) fn of(db: &Db, first: JournalPosition) -> Result<SegmentUse, IndexFault> {
    match db.get(values::segment(first))? {
        Some(bytes) => SegmentUse::from_bytes(&bytes),
        None => Ok(SegmentUse::default()),
    }
}

/// All that are known.
pub(super) fn all(db: &Db) -> Result<BTreeMap<JournalPosition, SegmentUse>, IndexFault> {
    let mut found = BTreeMap::new();
    for entry in db.scan_prefix(values::all_segments()) {
        let (key, value) = entry?;
        let first = values::segment_in(&key);
        let first = first.ok_or_else(|| IndexFault::garbled("the key of a segment"))?;
        found.insert(first, SegmentUse::from_bytes(&value)?);
    }
    Ok(found)
}

/// Lines that a batch adds or gives up, in bytes by segment.
#[derive(Debug, Default)]
pub(super) struct LiveBytes(BTreeMap<JournalPosition, i64>);

impl LiveBytes {
    pub(super) fn add(&mut self, place: BodyPlace) {
        *self.0.entry(place.segment).or_default() += i64::from(place.length);
    }

    pub(super) fn give_up(&mut self, place: BodyPlace) {
        *self.0.entry(place.segment).or_default() -= i64::from(place.length);
    }

    pub(super) fn write(&mut self, db: &Db, batch: &mut Batch) -> Result<(), IndexFault> {
        for (first, change) in std::mem::take(&mut self.0) {
            let mut used = of(db, first)?;
            used.live_bytes = used.live_bytes.saturating_add_signed(change);
            used.put(batch, first);
        }
        Ok(())
    }
}
