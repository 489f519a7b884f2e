//! A file of settings on disk. What others could have written is not read: it names programs to run and servers to talk
//! to.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use super::fault::Fault;
use super::source::{ConfigOrigin, FileExposure, SourceText};

/// A larger file was not written by hand.
pub const MOST_BYTES: u64 = 1 << 20;

/// Whether a file has to be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileNeed {
    /// Named by hand.
    Required,
    /// None there is an empty one.
    Optional,
}

/// The file's bytes with what they are, or why they are not taken.
pub fn read(
    origin: ConfigOrigin,
    path: &Path,
    need: FileNeed,
) -> Result<Option<Arc<SourceText>>, Fault> {
    let nothing = SourceText::new(origin.clone(), FileExposure::Private, String::new());
    let refuse = |message: String| Fault::of(&nothing, message);
    let unreadable = |error: io::Error| refuse(format!("cannot read it: {error}"));
    let shown = nothing.name();
    // Who may write is asked of the file that is then read, not of its name. A pipe must not make us wait.
    let opened = match open(path) {
        Ok(opened) => opened,
        Err(error) if is_absent(&error) && need == FileNeed::Optional => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    };
    let about = opened.metadata().map_err(unreadable)?;
    if !about.is_file() {
        return Err(refuse("it is no ordinary file".to_owned()));
    }
    let (owner, mode) = (about.uid(), about.mode() & 0o7777);
    if owner != 0 && owner != rustix::process::geteuid().as_raw() {
        return Err(refuse(format!(
            "it belongs to the user {owner}; it is read only when it is yours"
        )));
    }
    if mode & 0o022 != 0 {
        return Err(refuse(format!(
            "it can be written by others (mode {mode:04o}): chmod 600 {shown}"
        )));
    }
    if let Some(open) = open_directory(path) {
        return Err(refuse(open));
    }
    let mut bytes = vec![];
    let mut limited = opened.take(MOST_BYTES + 1);
    limited.read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(refuse(format!("it is larger than {MOST_BYTES} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..at).unwrap_or_default();
        let line = before.iter().filter(|it| **it == b'\n').count() + 1;
        refuse(format!("line {line} is no UTF-8"))
    })?;
    let access = if mode & 0o077 == 0 {
        FileExposure::Private
    } else {
        FileExposure::Readable(mode)
    };
    Ok(Some(SourceText::new(origin, access, text)))
}

/// Who may write in the file's directory may put another file in its place. A directory as `/tmp` lets others make files,
/// but replace none of ours. Where the name is a link, both directories count.
fn open_directory(path: &Path) -> Option<String> {
    const STICKY: u32 = 0o1000;
    let meant = fs::canonicalize(path).ok();
    let directories = [Some(path), meant.as_deref()].into_iter().flatten();
    let mut directories = directories.filter_map(|it| match it.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Some(Path::new(".")),
        parent => parent,
    });
    directories.find_map(|directory| {
        let about = fs::metadata(directory).ok()?;
        let (owner, mode) = (about.uid(), about.mode() & 0o7777);
        let shown = directory.display();
        if owner != 0 && owner != rustix::process::geteuid().as_raw() {
            return Some(format!(
                "its directory {shown} belongs to the user {owner}; it is read only when that is yours"
            ));
        }
        (mode & 0o022 != 0 && mode & STICKY == 0).then(|| {
            format!(
                "its directory {shown} can be written by others (mode {mode:04o}): chmod go-w {shown}"
            )
        })
    })
}

/// A pipe must not make us wait.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags).unwrap_or_default())
        .open(path)
}

/// Nothing is there, also because what should be a directory is none.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Whether something is there that a reader would have to judge.
pub fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}
