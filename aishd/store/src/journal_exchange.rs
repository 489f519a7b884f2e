//! Another journal in the place of the one that is there: in one step where the file system can exchange two directories, and
//! otherwise so that the next start puts back what was on its way.

use std::io;
use std::path::{Path, PathBuf};

use super::disk;

/// Where a journal is written anew.
pub(super) fn draft(dir: &Path) -> PathBuf {
    dir.join("journal.new")
}

/// Puts the draft in the place of the journal, which goes. The index of before must be gone: it looks for lines where they were.
pub(super) fn put_in_place(dir: &Path) -> io::Result<()> {
    let draft = draft(dir);
    disk::exchange(&dir.join("journal"), &draft)?;
    disk::remove_dir(&draft)
}

/// What somebody left half made who ended in the middle. A journal that was on its way is put back.
pub(super) fn remove_left_overs(dir: &Path) -> io::Result<()> {
    let (journal, old) = (dir.join("journal"), dir.join("journal.old"));
    if old.exists() && !journal.exists() {
        disk::rename(&old, &journal)?;
    }
    disk::remove_dir(&old)?;
    disk::remove_dir(&draft(dir))
}
