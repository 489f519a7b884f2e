//! Ballast: room that is given back when the disk is full, so that sled can open and the journal be compacted.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use super::disk;

pub(super) const NAME: &str = "reserve";
const MAX_BYTES: u64 = 8 * 1024 * 1024;

/// How large it is on a disk of that size.
pub(super) fn bytes_on(disk_bytes: u64) -> u64 {
    MAX_BYTES.min(disk_bytes / 8)
}

#[derive(Debug)]
pub(super) struct DiskReserve {
    dir: PathBuf,
    held: bool,
}

impl DiskReserve {
    pub(super) fn find(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            held: dir.join(NAME).exists(),
        }
    }

    /// Gives the ballast back to the disk if it is short of room.
    pub(super) fn drop_if_short(&mut self) {
        let short = disk::free_bytes(&self.dir).is_ok_and(|free| free < 2 * disk::SPARE_BYTES);
        if short {
            self.drop_now();
        }
    }

    pub(super) fn drop_now(&mut self) {
        if self.held && fs::remove_file(self.dir.join(NAME)).is_ok() {
            self.held = false;
            tracing::warn!(dir = %self.dir.display(), "the disk is full: gave the reserve back");
        }
    }

    /// Makes it if it is missing and there is plenty of room: what dropping it frees must not be plenty, or
    /// it would come and go.
    pub(super) fn make_if_plenty(&mut self) {
        if self.held {
            return;
        }
        let Ok((disk_bytes, free_bytes)) = disk::sizes(&self.dir) else {
            return;
        };
        let bytes = bytes_on(disk_bytes);
        if free_bytes < 2 * bytes + 2 * disk::SPARE_BYTES {
            return;
        }
        match self.make(bytes) {
            Ok(()) => self.held = true,
            Err(error) => {
                tracing::debug!(%error, "no reserve could be made");
                let _not_there = fs::remove_file(self.dir.join(NAME));
            }
        }
    }

    fn make(&self, bytes: u64) -> io::Result<()> {
        let path = self.dir.join(NAME);
        let _left_over = fs::remove_file(&path);
        let mut file = disk::create_new(&path)?;
        if fallocate(&file, FallocateFlags::empty(), 0, bytes).is_err() {
            // Not every file system can; written bytes are as good.
            let block = vec![0x5a_u8; 64 * 1024];
            for _ in 0..bytes / (64 * 1024) {
                file.write_all(&block)?;
            }
        }
        file.sync_all()?;
        disk::sync_dir(&self.dir)
    }
}
