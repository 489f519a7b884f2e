//! The audit trail in the index: the place of each record in the journal, found by its number.

use aishd_log::audit::chain::{ChainHead, SealedRecord};
use sled::Db;

use super::body::{BodyPlace, JournalFiles};
use super::index::IndexFault;
use super::line::JournalRecord;
use super::{ReadError, Store, values};

/// Which way a trail is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrailDirection {
    OldestFirst,
    NewestFirst,
}

impl Store {
    /// The last record of the audit trail.
    pub fn trail_head(&self) -> Result<ChainHead, ReadError> {
        self.read(head)
    }

    /// At most `limit` records of the audit trail, from number `from` on, that one included.
    pub fn trail(
        &self,
        from: u64,
        limit: usize,
        direction: TrailDirection,
    ) -> Result<Vec<SealedRecord>, ReadError> {
        self.read(|db| page(db, &self.shared.files, from, limit, direction))
    }
}

/// The last record that there is or was: one that was taken away is missed for ever.
pub(super) fn head(db: &Db) -> Result<ChainHead, IndexFault> {
    match db.get(values::AUDIT_HEAD)? {
        Some(bytes) => Ok(serde_json::from_slice(&bytes)?),
        None => Ok(ChainHead::default()),
    }
}

fn page(
    db: &Db,
    files: &JournalFiles,
    from: u64,
    limit: usize,
    direction: TrailDirection,
) -> Result<Vec<SealedRecord>, IndexFault> {
    let mut found = vec![];
    let mut entries = match direction {
        TrailDirection::OldestFirst => db.range(values::audit(from)..=values::audit(u64::MAX)),
        TrailDirection::NewestFirst => {
            db.range(values::audit(0)..values::audit(from.saturating_add(1)))
        }
    };
    let mut reader = files.reader();
    while found.len() < limit {
        let entry = match direction {
            TrailDirection::OldestFirst => entries.next(),
            TrailDirection::NewestFirst => entries.next_back(),
        };
        let Some(entry) = entry else { break };
        let (key, place) = entry?;
        match reader.read(BodyPlace::from_bytes(&place)?)? {
            JournalRecord::Audit(rec) if values::audit_in(&key) == Some(rec.n) => {
                found.push(SealedRecord {
                    n: rec.n,
                    hash: rec.hash,
                    text: rec.entry.get().to_owned(),
                });
            }
            _ => {
                return Err(IndexFault::garbled(
                    "a record of the audit trail is another",
                ));
            }
        }
    }
    Ok(found)
}
