//! How much room the store takes, and how much of that lives.

use std::fs;
use std::path::Path;

use aish_proto::id::Epoch;
use aishd_log::time::Timestamp;

use super::{
    OpenError, ReadError, Store, disk, disk_reserve, index_copy, recover, segment, segment_use,
};

/// Sizes are in bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreStat {
    pub segments: u64,
    pub journal_bytes: u64,
    /// Of the journal, what the index speaks of; `None`: nobody has the index open.
    pub live_bytes: Option<u64>,
    pub index_bytes: u64,
    /// Kept for a full disk.
    pub reserve_bytes: u64,
    pub free_bytes: Option<u64>,
    /// When its oldest segment was begun.
    pub oldest: Option<Timestamp>,
    pub epoch: Option<Epoch>,
    /// The newest format of its segments.
    pub format: Option<u32>,
}

impl StoreStat {
    /// All of it, without what is kept for a full disk.
    pub fn bytes(&self) -> u64 {
        self.journal_bytes + self.index_bytes
    }
}

impl Store {
    pub fn stat(&self) -> Result<StoreStat, ReadError> {
        let found = stat(&self.shared.dir).map_err(|it| ReadError::Unavailable(it.to_string()))?;
        let live = self.read(|db| {
            let used = segment_use::all(db)?;
            Ok(used.values().map(|it| it.live_bytes).sum())
        })?;
        Ok(StoreStat {
            live_bytes: Some(live),
            ..found
        })
    }
}

/// Of a store as it lies there.
pub fn stat(dir: &Path) -> Result<StoreStat, OpenError> {
    let segments = segment::list(&dir.join("journal")).map_err(|source| OpenError::Io {
        path: dir.display().to_string(),
        source,
    })?;
    let headers = segments.iter().filter_map(|it| it.header.as_ref());
    Ok(StoreStat {
        segments: segments.len() as u64,
        journal_bytes: recover::total_bytes(&segments),
        live_bytes: None,
        index_bytes: index_copy::file_bytes(dir),
        reserve_bytes: fs::metadata(dir.join(disk_reserve::NAME)).map_or(0, |it| it.len()),
        free_bytes: disk::free_bytes(dir).ok(),
        oldest: headers.clone().map(|it| it.created).min(),
        epoch: headers.clone().next_back().map(|it| it.epoch),
        format: segments.iter().filter_map(|it| it.format).max(),
    })
}
