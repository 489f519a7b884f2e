//! Making a store of a backup. Nothing of it is in its place before all of it was compared with what was written.

use std::io;
use std::path::{Path, PathBuf};

use aish_proto::id::Epoch;
use aishd_platform::clock;

use super::backup::{
    BackupError, SEGMENTS, StoreBackup, at_path, copy, is_ours, open_part, read_manifest,
    refuse_link,
};
use super::journal::{Journal, JournalResume};
use super::lock::StoreLock;
use super::{Store, disk, journal_exchange, scan, segment};

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
    journal_exchange::remove_left_overs(dir).map_err(at_path(dir))?;
    if has_store(dir) {
        return Err(BackupError::HasStore(dir.display().to_string()));
    }
    let draft = journal_exchange::draft(dir);
    disk::remove_dir(&draft).map_err(at_path(&draft))?;
    disk::make_dir(&draft).map_err(at_path(&draft))?;
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
    }
    begin_epoch(&draft)?;
    disk::sync_dir(&draft).map_err(at_path(&draft))?;
    let journal = dir.join("journal");
    disk::rename(&draft, &journal).map_err(at_path(&journal))?;
    drop(lock);
    // Makes the index, and shows that it can be read.
    Store::open(dir)?.close();
    Ok(StoreBackup {
        at: manifest.at,
        files: manifest.segments.len() as u64,
        bytes: total,
        copied_bytes: total,
    })
}

fn has_store(dir: &Path) -> bool {
    let names = ["journal", "journal.old", "db"];
    names.iter().any(|it| dir.join(it).exists())
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
    if !has_store(dir) || !replace {
        return Ok((restore(backup, dir, progress)?, None));
    }
    // Nobody opens it meanwhile.
    let mut lock = StoreLock::take(dir)?;
    lock.write_pid().map_err(at_path(dir))?;
    let beside = |what: &str| {
        let name = dir.file_name().unwrap_or_default().display().to_string();
        dir.with_file_name(format!("{name}.{what}"))
    };
    let draft = beside("new");
    disk::remove_dir(&draft).map_err(at_path(&draft))?;
    let restored = restore(backup, &draft, progress);
    let restored = restored.inspect_err(|_| drop(disk::remove_dir(&draft)))?;
    let aside = beside(&format!("before-{}", clock::ulid()));
    // At no moment there is none.
    disk::exchange(dir, &draft).map_err(at_path(dir))?;
    disk::rename(&draft, &aside).map_err(at_path(&aside))?;
    Ok((restored, Some(aside)))
}

/// Whether a segment is called like this.
fn is_segment(name: &str) -> bool {
    let number = name.strip_suffix(".jsonl").unwrap_or_default();
    number.len() == 20 && number.bytes().all(|it| it.is_ascii_digit())
}
