//! The audit trail in the index: a value for each record, found by its number.

use aish_proto::id::{ConversationId, Seq};
use serde::Deserialize;
use serde_json::value::RawValue;
use sled::Db;

use super::index::Fault;
use super::{ReadError, Store, values};
use aishd_log::audit::chain::{Head, Sealed};
use aishd_log::tool::Sha;

/// A record as the index has it.
#[derive(Deserialize)]
struct Stored<'a> {
    hash: Sha,
    #[serde(borrow)]
    entry: &'a RawValue,
}

/// Which way a trail is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    OldestFirst,
    NewestFirst,
}

impl Store {
    /// The last record of the audit trail.
    pub fn trail_head(&self) -> Result<Head, ReadError> {
        self.read(head)
    }

    /// At most `limit` records of the audit trail, from number `from` on, that one included.
    pub fn trail(
        &self,
        from: u64,
        limit: usize,
        direction: Direction,
    ) -> Result<Vec<Sealed>, ReadError> {
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
pub(super) fn stored(hash: Sha, entry: &str) -> String {
    format!("{{\"hash\":\"{hash}\",\"entry\":{entry}}}")
}

/// The last record that there is or was: one that was taken away is missed for ever.
pub(super) fn head(db: &Db) -> Result<Head, Fault> {
    let said: Option<Head> = match db.get(values::AUDIT_HEAD)? {
        Some(bytes) => Some(serde_json::from_slice(&bytes)?),
        None => None,
    };
    let last = last(db)?.map(|it| it.head());
    // Of two with the same number the one that was said counts: the other can have been written anew.
    let newest = last.into_iter().chain(said).max_by_key(|it| it.n);
    Ok(newest.unwrap_or_default())
}

fn last(db: &Db) -> Result<Option<Sealed>, Fault> {
    let Some(entry) = db.scan_prefix(values::all_audit()).next_back() else {
        return Ok(None);
    };
    match values::audit_in(&entry?.0) {
        Some(n) => read(db, n),
        None => Err(Fault::garbled("a record of the audit trail has no number")),
    }
}

pub(super) fn read(db: &Db, n: u64) -> Result<Option<Sealed>, Fault> {
    let Some((bytes, _)) = values::get(db, &values::audit(n))? else {
        return Ok(None);
    };
    parse(n, &bytes).map(Some)
}

fn parse(n: u64, bytes: &[u8]) -> Result<Sealed, Fault> {
    let stored: Stored<'_> = serde_json::from_slice(bytes)?;
    Ok(Sealed {
        n,
        hash: stored.hash,
        text: stored.entry.get().to_owned(),
    })
}

fn page(db: &Db, from: u64, limit: usize, direction: Direction) -> Result<Vec<Sealed>, Fault> {
    let mut found = vec![];
    let numbers = match direction {
        Direction::OldestFirst => db.range(values::audit(from)..=values::audit(u64::MAX)),
        Direction::NewestFirst => db.range(values::audit(0)..values::audit(from.saturating_add(1))),
    };
    let mut numbers = numbers.keys();
    while found.len() < limit {
        let key = match direction {
            Direction::OldestFirst => numbers.next(),
            Direction::NewestFirst => numbers.next_back(),
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
