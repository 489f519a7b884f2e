//! A second index that takes the place of the first. sled's file never shrinks and keeps what was taken out of it, so that
//! from time to time what it holds is carried over into a new one, beside the work of the writer.

use std::fs::{self, File};
use std::io;
use std::ops::Bound;
use std::path::{Path, PathBuf};

use aishd_platform::failpoint;
use sled::{Batch, Db};

use super::index::{self, IndexFault};
use super::page_cache::CachePassing;
use super::shared::StoreShared;
use super::{disk, values};

/// What is carried over in one step, in bytes: a few milliseconds.
const STEP_BYTES: usize = 256 * 1024;
/// A smaller file is not worth it.
const LEAST_BYTES: u64 = 24 * 1024 * 1024;
/// How often larger than right after it was made the file may become.
const MOST_GROWTH: u64 = 3;

const DAMAGED: &str = "db.damaged-";

/// Where an index is made that is to take the place of `db`.
pub(super) fn draft(dir: &Path) -> PathBuf {
    dir.join("db.new")
}

/// Where a copy of the index is looked at.
pub(super) fn looked_at(dir: &Path) -> PathBuf {
    dir.join("db.check")
}

#[derive(Debug)]
pub(super) struct IndexCopy {
    /// Always there until it is dropped, which sled can hang in.
    db: Option<Db>,
    /// What is carried over goes up to here.
    through: Vec<u8>,
    /// Why it is of no use any more.
    fault: Option<IndexFault>,
}

impl IndexCopy {
    pub(super) fn begin(dir: &Path) -> Result<Self, IndexFault> {
        let path = draft(dir);
        disk::remove_dir(&path).map_err(IndexFault::disk)?;
        Ok(Self {
            db: Some(index::open(&path)?),
            through: vec![],
            fault: None,
        })
    }

    /// The first one has changed.
    pub(super) fn follow(&mut self, batch: Batch) {
        if self.fault.is_none()
            && let Err(fault) = index::guarded(|| self.apply(batch))
        {
            self.fault = Some(fault);
        }
    }

    /// Carries the next part over. Returns whether that was the last one.
    pub(super) fn step(&mut self, from: &Db) -> Result<bool, IndexFault> {
        if let Some(fault) = self.fault.take() {
            return Err(fault);
        }
        let mut batch = Batch::default();
        let mut bytes = 0;
        // All of the one passes through its cache, and all of the other.
        let mut read = CachePassing::through(from);
        let mut written = vec![];
        let rest = (Bound::Excluded(self.through.clone()), Bound::Unbounded);
        for entry in from.range::<Vec<u8>, _>(rest) {
            let (key, value) = entry?;
            let length = key.len() + value.len();
            bytes += length;
            self.through = key.to_vec();
            read.value(&key, length);
            written.push((key.clone(), length));
            batch.insert(key, value);
            if bytes >= STEP_BYTES {
                break;
            }
        }
        self.apply(batch)?;
        if let Some(db) = &self.db {
            let mut passing = CachePassing::through(db);
            for (key, length) in written {
                passing.value(&key, length);
            }
        }
        Ok(bytes < STEP_BYTES)
    }

    fn apply(&self, batch: Batch) -> Result<(), IndexFault> {
        match &self.db {
            Some(db) => Ok(db.apply_batch(batch)?),
            None => Ok(()),
        }
    }

    /// Writes it down whole.
    pub(super) fn finish(self, dir: &Path) -> Result<(), IndexFault> {
        if let Some(db) = &self.db {
            index::flush(db)?;
        }
        drop(self);
        let draft = draft(dir);
        let synced = sync_files(&draft).and_then(|()| disk::sync_dir(dir));
        failpoint::pass("index.copied");
        synced.map_err(IndexFault::disk)
    }
}

impl Drop for IndexCopy {
    fn drop(&mut self) {
        if let Some(db) = self.db.take() {
            index::close(db);
        }
    }
}

/// Puts the draft where the index is, in one step, and takes the old one away.
pub(super) fn exchange(dir: &Path) -> io::Result<()> {
    disk::exchange(&dir.join("db"), &draft(dir))?;
    failpoint::pass("index.exchanged");
    Ok(())
}

/// What was left half made, or was taken out.
pub(super) fn remove_left_overs(dir: &Path) -> io::Result<()> {
    disk::remove_dir(&draft(dir))?;
    disk::remove_dir(&looked_at(dir))?;
    disk::remove_dir(&dir.join("db.old"))
}

/// Takes away what programs of before kept of damaged indexes.
pub(super) fn remove_damaged(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry
            .file_name()
            .to_str()
            .is_some_and(|it| it.starts_with(DAMAGED))
        {
            disk::remove_dir(&entry.path())?;
        }
    }
    Ok(())
}

/// Bytes of the index on the disk.
pub(super) fn file_bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir.join("db"));
    let lengths = entries.into_iter().flatten().filter_map(|it| {
        let found = it.ok()?.metadata().ok()?;
        found.is_file().then_some(found.len())
    });
    lengths.sum()
}

/// Whether the index is several times what it was when it was made.
pub(super) fn is_due(db: &Db, dir: &Path) -> bool {
    let made = db.get(values::MADE_BYTES).ok().flatten();
    let made = made.and_then(|it| <[u8; 8]>::try_from(&*it).ok());
    let made = made.map_or(0, u64::from_be_bytes);
    file_bytes(dir) > LEAST_BYTES.max(made.saturating_mul(MOST_GROWTH))
}

/// Notes how large its files are now that it is new.
pub(super) fn note_size(shared: &StoreShared, dir: &Path) {
    let Some(db) = shared.db() else {
        return;
    };
    let bytes = file_bytes(dir).to_be_bytes();
    if let Err(error) = db.insert(values::MADE_BYTES, &bytes) {
        tracing::debug!(%error, "the size of the index was not noted");
    }
}

fn sync_files(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        if path.is_file() {
            File::open(path)?.sync_all()?;
        }
    }
    disk::sync_dir(path)
}
