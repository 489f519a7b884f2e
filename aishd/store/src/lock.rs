//! One daemon has the store. The lock goes with the process, so a `kill -9` leaves nothing to clean up.

use std::fs::File;
use std::io;
use std::path::Path;

use aishd_platform::file_lock::{self, LockError};

use super::{OpenError, disk};

#[derive(Debug)]
pub(super) struct StoreLock {
    file: File,
}

impl StoreLock {
    pub(super) fn take(dir: &Path) -> Result<Self, OpenError> {
        let io_error = |source| OpenError::Io {
            path: dir.display().to_string(),
            source,
        };
        let mut file = disk::open_lock(&dir.join("lock")).map_err(io_error)?;
        match file_lock::take(&mut file) {
            Ok(()) => Ok(Self { file }),
            Err(LockError::Held(pid)) => Err(OpenError::Locked {
                path: dir.display().to_string(),
                pid,
            }),
            Err(LockError::Io(source)) => Err(io_error(source)),
        }
    }

    /// Not done while taking it, because a newer store must stay as it is.
    pub(super) fn write_pid(&mut self) -> io::Result<()> {
        file_lock::sign(&mut self.file)
    }
}

impl Drop for StoreLock {
    /// A child that is being started holds a copy of every descriptor until it runs its program, and closing
    /// ours would leave the lock with it.
    fn drop(&mut self) {
        if let Err(error) = self.file.unlock() {
            tracing::warn!(%error, "could not unlock the store");
        }
    }
}
