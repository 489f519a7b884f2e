//! What files and directories were when they were read, so that it can be seen in a moment whether they are the same.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use aishd_platform::clock;

/// A file system may give two changes the same time when no more than this lies between them.
const COARSE_SECONDS: i64 = 2;

/// All that a reading depends on.
#[derive(Debug, Default)]
pub(super) struct StampSet {
    all: Vec<(PathBuf, Option<FileStamp>)>,
    begun: i64,
    /// Something had changed so shortly before that another change might not show.
    young: bool,
}

/// Device, file, size, and when it was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileStamp {
    file: (u64, u64, u64),
    changed: (i64, i64),
    touched: (i64, i64),
}

impl StampSet {
    pub(super) fn begin() -> Self {
        Self {
            begun: clock::now().0 / 1000,
            ..Self::default()
        }
    }

    /// To be called before it is read: a change meanwhile is seen later.
    pub(super) fn note(&mut self, path: &Path) {
        self.all.push((path.to_path_buf(), stamp(path)));
    }

    pub(super) fn end(&mut self) {
        let newest = self.all.iter().filter_map(|(_, it)| *it);
        let newest = newest.map(|it| it.changed.0.max(it.touched.0)).max();
        self.young = newest.is_some_and(|it| it + COARSE_SECONDS >= self.begun);
    }

    /// Whether all of it is as it was.
    pub(super) fn hold(&self) -> bool {
        !self.young && self.all.iter().all(|(path, it)| stamp(path) == *it)
    }
}

/// Of what a link leads to; `None`: there is nothing.
fn stamp(path: &Path) -> Option<FileStamp> {
    let about: Metadata = fs::metadata(path).ok()?;
    Some(FileStamp {
        file: (about.dev(), about.ino(), about.size()),
        changed: (about.mtime(), about.mtime_nsec()),
        touched: (about.ctime(), about.ctime_nsec()),
    })
}
