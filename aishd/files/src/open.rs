//! Opening a file so that nothing waits and nothing is set off: what is no file is said by its kind, and not opened.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;

use crate::failure::{FailureKind, FileFailure};
use crate::place::NamedPlace;

/// A file that is open for reading.
#[derive(Debug)]
pub(crate) struct OpenedFile {
    pub(crate) file: File,
    pub(crate) meta: Metadata,
}

/// What was read of a file.
#[derive(Debug)]
pub(crate) struct ReadContent {
    pub(crate) bytes: Vec<u8>,
    /// Whether that is all of it.
    pub(crate) is_whole: bool,
}

impl OpenedFile {
    /// # Errors
    /// Where it is no file, or is not to be read.
    pub(crate) fn open(place: &NamedPlace) -> Result<Self, FileFailure> {
        let meta = fs::metadata(&place.path).map_err(|error| place.unreachable(&error))?;
        check_kind(place, &meta)?;
        let opened = open(&place.path).map_err(|error| cannot_read(place, &error))?;
        // It may be another one by now.
        let meta = opened
            .metadata()
            .map_err(|error| cannot_read(place, &error))?;
        check_kind(place, &meta)?;
        let real = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let real = fs::read_link(real).map_err(|error| cannot_read(place, &error))?;
        place.check_stays(&real)?;
        Ok(Self { file: opened, meta })
    }

    /// All of it, or its beginning where it is longer than `most`.
    pub(crate) fn read(&self, place: &NamedPlace, most: u64) -> Result<ReadContent, FileFailure> {
        read_at_most(&self.file, most).map_err(|error| cannot_read(place, &error))
    }
}

/// Without waiting for a far side, without becoming anybody's terminal.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    File::options()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or_default())
        .open(path)
}

pub(crate) fn read_at_most(file: &File, most: u64) -> io::Result<ReadContent> {
    let mut bytes = Vec::new();
    match file.take(most.saturating_add(1)).read_to_end(&mut bytes) {
        Ok(_read) => {}
        // A file of the kernel that would have us wait.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => return Err(error),
    }
    let is_whole = bytes.len() as u64 <= most;
    if !is_whole {
        bytes.pop();
    }
    Ok(ReadContent { bytes, is_whole })
}

fn check_kind(place: &NamedPlace, meta: &Metadata) -> Result<(), FileFailure> {
    let kind = meta.file_type();
    let shown = &place.shown;
    let why = if kind.is_file() {
        return Ok(());
    } else if kind.is_dir() {
        format!("{shown} is a directory: `list` shows what is in it")
    } else if kind.is_fifo() {
        format!("{shown} is a pipe, not a file")
    } else if kind.is_socket() {
        format!("{shown} is a socket, not a file")
    } else {
        format!("{shown} is a device, not a file")
    };
    Err(FileFailure::new(FailureKind::WrongKind, why))
}

fn cannot_read(place: &NamedPlace, error: &io::Error) -> FileFailure {
    FileFailure::system(&format!("read {}", place.shown), error)
}
