//! Files and directories as the store makes them: private, never through a link, and with their directory
//! entry synced, because a file whose name a power cut takes is gone.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, OFlags, RenameFlags};

/// Below this the disk counts as full: sled needs some of it to open and to compact.
pub(super) const SPARE_BYTES: u64 = 2 * 1024 * 1024;

pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => Ok(()),
    }
}

/// A file that was not there before.
pub(super) fn create_new(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .custom_flags(no_follow())
        .open(path)
}

/// A file that is locked and says by whom; made where it is not there.
pub(super) fn open_lock(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_follow())
        .open(path)
}

/// A file for reading, and for writing at its end by whoever keeps the offset.
pub(super) fn open_existing(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(no_follow())
        .open(path)
}

pub(super) fn no_follow() -> i32 {
    i32::try_from((OFlags::NOFOLLOW | OFlags::CLOEXEC).bits()).unwrap_or_default()
}

/// Opening something that is no file does not wait for another side.
pub(super) fn no_waiting() -> i32 {
    i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or_default()
}

pub(super) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

pub(super) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    fs::rename(from, to)?;
    to.parent().map_or(Ok(()), sync_dir)
}

/// Each of two neighbouring directories takes the place of the other, in one step where the file system can do that.
pub(super) fn exchange(one: &Path, other: &Path) -> io::Result<()> {
    if exchange_at_once(one, other).is_ok() {
        return Ok(());
    }
    let old = one.with_extension("old");
    remove_dir(&old)?;
    fs::rename(one, &old)?;
    fs::rename(other, one)?;
    rename(&old, other)
}

/// The same, and not at all where the file system cannot do it in one step.
pub(super) fn exchange_at_once(one: &Path, other: &Path) -> io::Result<()> {
    rustix::fs::renameat_with(CWD, other, CWD, one, RenameFlags::EXCHANGE)?;
    one.parent().map_or(Ok(()), sync_dir)
}

/// Takes a directory away with all that is in it, if it is there.
pub(super) fn remove_dir(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Ok(()) => path.parent().map_or(Ok(()), sync_dir),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Bytes that this user may still write.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    sizes(path).map(|(_, free)| free)
}

/// Whether the disk takes anything at all.
pub(super) fn try_write(dir: &Path) -> io::Result<()> {
    let path = dir.join("probe");
    let _left_over = fs::remove_file(&path);
    let written = create_new(&path).and_then(|file| {
        file.write_all_at(b"probe", 0)?;
        file.sync_all()
    });
    let _not_there = fs::remove_file(&path);
    written
}

/// Bytes of the whole disk, and those that this user may still write.
pub(super) fn sizes(path: &Path) -> io::Result<(u64, u64)> {
    let stat = rustix::fs::statvfs(path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    Ok((bytes(stat.f_blocks), bytes(stat.f_bavail)))
}

/// The disk, or the user's share of it, is used up.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Does `work` in a thread of its own and waits so long for it; `None` when it has not ended by then or
/// panicked. The thread is left to itself: sled can hang on damaged files, and nothing can end it.
pub(super) fn run_within<T: Send + 'static>(
    limit: Duration,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, outcome) = std::sync::mpsc::sync_channel(1);
    let spawned = std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let _nobody_waits = done.send(work());
        });
    spawned.ok()?;
    outcome.recv_timeout(limit).ok()
}
