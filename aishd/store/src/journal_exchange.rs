//! Another journal in the place of the one that is there, and what becomes of both where that ended in the middle.

use std::io;
use std::path::{Path, PathBuf};

use super::disk;
use super::replacement::{BrokenReplacement, Replacement};

/// Where a journal is written anew.
pub(super) fn draft(dir: &Path) -> PathBuf {
    dir.join("journal.new")
}

/// Where the one of before is until it goes.
fn old(dir: &Path) -> PathBuf {
    dir.join("journal.old")
}

fn replacement(dir: &Path) -> Replacement {
    Replacement::of(&dir.join("journal"), "journal.new".into())
}

/// Puts the draft in the place of the journal, which goes. The index of before must be gone: it looks for lines where they were.
pub(super) fn put_in_place(dir: &Path) -> io::Result<()> {
    replacement(dir).put_in_place(&old(dir))?;
    disk::remove_dir(&old(dir))
}

/// There is a journal, where somebody who ended in the middle left one under another name.
pub(super) fn fill_place(dir: &Path) -> io::Result<()> {
    let (replacement, journal, old) = (replacement(dir), dir.join("journal"), old(dir));
    // A program of before put the old one aside first and did not say what for.
    if old.exists() && !journal.exists() && !replacement.is_on_its_way() {
        return disk::rename(&old, &journal);
    }
    replacement.fill_place()
}

/// Takes away what somebody left who ended in the middle. Returns which journal is there now, in words.
pub(super) fn settle(dir: &Path) -> io::Result<Option<String>> {
    fill_place(dir)?;
    let is_old_there = old(dir).exists();
    let broken = replacement(dir).settle()?;
    disk::remove_dir(&old(dir))?;
    let what = match broken {
        Some(BrokenReplacement::Undone) if !dir.join("journal").exists() => {
            "a backup was being restored, and that ended in the middle: nothing of it is here"
        }
        Some(BrokenReplacement::Undone) => {
            "the journal was being written anew, and that ended in the middle: it is the one of before"
        }
        None if !is_old_there => return Ok(None),
        Some(BrokenReplacement::Done { .. }) | None => {
            "the journal was being written anew, and that ended in the middle: it is the new one, which is whole"
        }
    };
    tracing::warn!(dir = %dir.display(), what, "what ended in the middle was seen to");
    Ok(Some(what.to_owned()))
}
