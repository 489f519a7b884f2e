//! A directory of one call: an empty one to work in, and beside it the copy of the script that runs. It goes with the call.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::clock;
use crate::core::registry::Script;

/// Where such directories are made.
#[derive(Clone, Debug)]
pub(super) struct Rooms(PathBuf);

/// One of them; dropped, it is removed.
#[derive(Debug)]
pub(super) struct Room {
    top: PathBuf,
}

impl Rooms {
    /// Below a directory that nobody else uses.
    pub(super) fn below(folder: &Path) -> Self {
        Self(folder.join("calls"))
    }

    /// Removes what a daemon that was killed has left.
    pub(super) fn clear(&self) {
        let _usually_none = fs::remove_dir_all(&self.0);
    }

    pub(super) fn open(&self) -> io::Result<Room> {
        let top = self.0.join(clock::ulid().to_string());
        let room = Room { top };
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true);
        private.create(room.work())?;
        private.create(room.top.join("script"))?;
        Ok(room)
    }
}

impl Room {
    pub(super) fn work(&self) -> PathBuf {
        self.top.join("work")
    }

    /// Puts the text that was approved there, under the script's own name.
    pub(super) fn copy(&self, script: &Script) -> io::Result<PathBuf> {
        let name = script.file.file_name();
        let path = self
            .top
            .join("script")
            .join(name.unwrap_or("script".as_ref()));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&path)?;
        file.write_all(script.text.as_bytes())?;
        Ok(path)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.top) {
            tracing::debug!(%error, "the directory of a call stays until the next start");
        }
    }
}
