//! The audit trail in the index: a value for each record, found by its number.

use aish_proto::id::{ConversationId, Seq};
use aishd_log::audit::chain::{ChainHead, SealedRecord};
use aishd_log::tool::ContentDigest;
use serde::Deserialize;
use serde_json::value::RawValue;
use sled::Db;

use super::index::IndexFault;
use super::{ReadError, Store, values};

/// A record as the index has it.
#[derive(Deserialize)]
struct StoredRecord<'a> {
    hash: ContentDigest,
    #[serde(borrow)]
    entry: &'a RawValue,
}

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
        self.read(|db| page(db, from, limit, direction))
    }

    /// The bytes of an event as they stand in the index, if it is there.
    pub fn stored_event(
        &self,
        conversation: ConversationId,
        seq: Seq,
    ) -> Result<Option<Vec<u8>>, ReadError> {
        self.read(|db| {
            let value = values::get(db, &values::event(conversation, seq))?;
            Ok(value.map(|(bytes, _)| bytes))
        })
    }
}

/// A value of the index.
pub(super) fn stored(hash: ContentDigest, entry: &str) -> String {
    format!("{{\"hash\":\"{hash}\",\"entry\":{entry}}}")
}

/// The last record that there is or was: one that was taken away is missed for ever.
pub(super) fn head(db: &Db) -> Result<ChainHead, IndexFault> {
    let said: Option<ChainHead> = match db.get(values::AUDIT_HEAD)? {
        Some(bytes) => Some(serde_json::from_slice(&bytes)?),
        None => None,
    };
    let last = last(db)?.map(|it| it.head());
    // Of two with the same number the one that was said counts: the other can have been written anew.
    let newest = last.into_iter().chain(said).max_by_key(|it| it.n);
    Ok(newest.unwrap_or_default())
}

fn last(db: &Db) -> Result<Option<SealedRecord>, IndexFault> {
    let Some(entry) = db.scan_prefix(values::all_audit()).next_back() else {
        return Ok(None);
    };
    match values::audit_in(&entry?.0) {
        Some(n) => read(db, n),
        None => Err(IndexFault::garbled(
            "a record of the audit trail has no number",
        )),
    }
}

pub(super) fn read(db: &Db, n: u64) -> Result<Option<SealedRecord>, IndexFault> {
    let Some((bytes, _)) = values::get(db, &values::audit(n))? else {
        return Ok(None);
    };
    parse(n, &bytes).map(Some)
}

fn parse(n: u64, bytes: &[u8]) -> Result<SealedRecord, IndexFault> {
    let stored: StoredRecord<'_> = serde_json::from_slice(bytes)?;
    Ok(SealedRecord {
        n,
        hash: stored.hash,
        text: stored.entry.get().to_owned(),
    })
}

fn page(
    db: &Db,
    from: u64,
    limit: usize,
    direction: TrailDirection,
) -> Result<Vec<SealedRecord>, IndexFault> {
    let mut found = vec![];
    let numbers = match direction {
        TrailDirection::OldestFirst => db.range(values::audit(from)..=values::audit(u64::MAX)),
        TrailDirection::NewestFirst => {
            db.range(values::audit(0)..values::audit(from.saturating_add(1)))
        }
    };
    let mut numbers = numbers.keys();
    while found.len() < limit {
        let key = match direction {
            TrailDirection::OldestFirst => numbers.next(),
            TrailDirection::NewestFirst => numbers.next_back(),
        };
        let Some(key) = key else { break };
        let key = key?;
        if values::part_in(&key) != Some(0) {
            continue;
        }
        if let Some(n) = values::audit_in(&key)
            && let Some(sealed) = read(db, n)?
        {
            found.push(sealed);
        }
    }
    Ok(found)
}
