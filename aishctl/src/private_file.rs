//! Files of lines that windows keep in the state directory: of this user alone, appended to under a lock by any number of
//! programs.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::Path;

/// The file, if it is ours and for us alone; it is made where it is missing.
pub fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
    }
    let no_follow = i32::try_from(rustix::fs::OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .custom_flags(no_follow)
        .open(path)?;
    let about = file.metadata()?;
    if !about.is_file() || about.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::from(io::ErrorKind::PermissionDenied));
    }
    if about.permissions().mode() & 0o077 != 0 {
        file.set_permissions(Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

/// Adds a line and returns the size of the file. Whoever calls holds the lock.
pub fn append(file: &mut File, line: &str) -> io::Result<u64> {
    let mut record = format!("{line}\n");
    let size = file.seek(SeekFrom::End(0))?;
    if size > 0 && !ends_in_line_feed(file)? {
        // Somebody was killed while writing; his line is lost, ours is not.
        record.insert(0, '\n');
    }
    file.write_all(record.as_bytes())?;
    Ok(size + record.len() as u64)
}

/// The end of the file, so many bytes of it at most.
pub fn tail(file: &mut File, bytes: u64) -> io::Result<String> {
    let size = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(size.saturating_sub(bytes)))?;
    let mut tail = Vec::new();
    file.take(bytes).read_to_end(&mut tail)?;
    Ok(String::from_utf8_lossy(&tail).into_owned())
}

fn ends_in_line_feed(file: &mut File) -> io::Result<bool> {
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}
