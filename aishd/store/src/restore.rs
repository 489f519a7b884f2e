//! Making a store of a backup. Nothing of it is in its place before all of it was compared with what was written.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use aish_proto::id::Epoch;
use aishd_platform::{clock, failpoint};

use super::backup::{
    BackupError, BackupManifest, SEGMENTS, StoreBackup, at_path, copy, is_ours, open_part,
    read_manifest, refuse_link,
};
use super::journal::{Journal, JournalResume};
use super::lock::StoreLock;
use super::replacement::{BrokenReplacement, Replacement};
use super::{OpenError, Store, disk, journal_exchange, scan, segment};

/// Makes a store in `dir` of a backup; there must be none. It begins a new epoch, because what came after the backup never was.
/// Blocks.
pub fn restore(
    backup: &Path,
    dir: &Path,
    progress: &dyn Fn(u64, u64),
) -> Result<StoreBackup, BackupError> {
    refuse_link(backup)?;
    let manifest = read_manifest(backup)?;
    refuse_link(&backup.join(SEGMENTS))?;
    disk::make_dir(dir).map_err(at_path(dir))?;
    let mut lock = StoreLock::take(dir)?;
    lock.write_pid().map_err(at_path(dir))?;
    let _said_in_the_log = journal_exchange::settle(dir).map_err(at_path(dir))?;
    if has_store(dir) {
        return Err(BackupError::HasStore(dir.display().to_string()));
    }
    let draft = journal_exchange::draft(dir);
    let written = write_journal(backup, &manifest, &draft, progress);
    written.inspect_err(|_| drop(disk::remove_dir(&draft)))?;
    let journal = dir.join("journal");
    disk::rename(&draft, &journal).map_err(at_path(&journal))?;
    drop(lock);
    // Makes the index, and shows that it can be read.
    Store::open(dir)?.close();
    let bytes = manifest.bytes();
    Ok(StoreBackup {
        at: manifest.at,
        files: manifest.segments.len() as u64,
        bytes,
        copied_bytes: bytes,
    })
}

fn has_store(dir: &Path) -> bool {
    let names = ["journal", "journal.old", "db"];
    names.iter().any(|it| dir.join(it).exists())
}

/// The journal of a backup, in a new epoch.
fn write_journal(
    backup: &Path,
    manifest: &BackupManifest,
    draft: &Path,
    progress: &dyn Fn(u64, u64),
) -> Result<(), BackupError> {
    disk::make_dir(draft).map_err(at_path(draft))?;
    let total = manifest.bytes();
    let mut done = 0;
    for listed in &manifest.segments {
        let damaged = |what: &str| BackupError::Damaged {
            path: backup.display().to_string(),
            what: format!("{}: {what}", listed.file),
        };
        // Names come from a file that anybody may have written.
        if !is_ours(&listed.file) || !is_segment(&listed.name) {
            return Err(BackupError::Damaged {
                path: backup.display().to_string(),
                what: "it lists a file that no backup has".to_owned(),
            });
        }
        let source = backup.join(SEGMENTS).join(&listed.file);
        let file = open_part(&source)?.ok_or_else(|| damaged("it is missing"))?;
        let target = draft.join(&listed.name);
        let found = match copy(&file, &target, listed.bytes) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(damaged("it is shorter than what was written"));
            }
            Err(error) => return Err(at_path(&target)(error)),
        };
        if found != listed.sha256 {
            return Err(damaged("it is not what was written"));
        }
        done += listed.bytes;
        progress(done, total);
        failpoint::pass("restore.mid");
    }
    begin_epoch(draft)?;
    disk::sync_dir(draft).map_err(at_path(draft))
}

/// Places that were told of after the backup must not be taken for those of what comes now.
fn begin_epoch(journal: &Path) -> Result<(), BackupError> {
    let segments = segment::list(journal).map_err(at_path(journal))?;
    let ended = scan::read(&segments, None, &mut |_| Ok(()));
    let ended = ended.map_err(|it| at_path(journal)(io::Error::other(it)))?;
    let resume = JournalResume {
        newest: segments.last().map(|it| it.first),
        next_pos: ended.pos + 1,
        durable: ended.pos,
        committed: ended.committed,
        ..JournalResume::NEW
    };
    let begun = Journal::resume(journal, Epoch(clock::ulid()), resume).and_then(|mut it| it.roll());
    begun.map_err(at_path(journal))
}

/// As [`restore`], for a store that may be there: with `replace` it is put aside, and returned where it is then. Nothing of it is
/// changed before the other one is whole.
pub fn restore_in_place(
    backup: &Path,
    dir: &Path,
    replace: bool,
    progress: &dyn Fn(u64, u64),
) -> Result<(StoreBackup, Option<PathBuf>), BackupError> {
    fill_place(dir)?;
    if !has_store(dir) || !replace {
        return Ok((restore(backup, dir, progress)?, None));
    }
    // Nobody opens it meanwhile.
    let mut lock = StoreLock::take(dir)?;
    lock.write_pid().map_err(at_path(dir))?;
    let _said_in_the_log = settle(dir).map_err(at_path(dir))?;
    let replacement = replacement(dir);
    let draft = replacement.draft();
    let restored = restore(backup, draft, progress);
    let restored = restored.inspect_err(|_| drop(disk::remove_dir(draft)))?;
    // Nor the one that is to come, before the other one is where it is said to be.
    let _lock_of_the_new = StoreLock::take(draft)?;
    let aside = dir.with_file_name(beside(dir, &format!("before-{}", clock::ulid())));
    let replaced = replacement.put_in_place(&aside);
    replaced.map_err(at_path(dir))?;
    Ok((restored, Some(aside)))
}

/// A name of something that belongs to the store in `dir` and is not in it.
fn beside(dir: &Path, what: &str) -> OsString {
    let mut name = dir.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{what}"));
    name
}

fn replacement(dir: &Path) -> Replacement {
    Replacement::of(dir, beside(dir, "restoring"))
}

/// There is a store in `dir`, where a restore that ended in the middle has put the old one aside already.
pub(super) fn fill_place(dir: &Path) -> Result<(), OpenError> {
    let replacement = replacement(dir);
    if !replacement.is_on_its_way() {
        return Ok(());
    }
    let _nobody_is_at_it = StoreLock::take(replacement.draft())?;
    replacement.fill_place().map_err(|source| OpenError::Io {
        path: dir.display().to_string(),
        source,
    })
}

/// Takes away what a restore left that ended in the middle. Returns which store is there now, in words. Whoever calls has its lock.
pub(super) fn settle(dir: &Path) -> io::Result<Option<String>> {
    let which = match replacement(dir).settle()? {
        None => return Ok(None),
        Some(BrokenReplacement::Undone) => "the store is the one of before".to_owned(),
        Some(BrokenReplacement::Done { aside }) => format!(
            "the store is the one of the backup, and the one of before is in {}",
            aside.display()
        ),
    };
    let what = format!("a backup was being restored, and that ended in the middle: {which}");
    tracing::warn!(dir = %dir.display(), what, "what ended in the middle was seen to");
    Ok(Some(what))
}

/// Whether a segment is called like this.
fn is_segment(name: &str) -> bool {
    let number = name.strip_suffix(".jsonl").unwrap_or_default();
    number.len() == 20 && number.bytes().all(|it| it.is_ascii_digit())
}
