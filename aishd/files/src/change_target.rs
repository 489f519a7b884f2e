//! A file that is to be changed: that it may be, that it can be and stay the same file, and that it is what the conversation
//! has read.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use rustix::fs::{Access, AtFlags, CWD, accessat};

use crate::content_kind::ContentKind;
use crate::failure::{FailureKind, FileFailure};
use crate::fingerprint::FileFingerprint;
use crate::open::OpenedFile;
use crate::place::NamedPlace;
use crate::request::FileRequest;
use crate::shown::{path_text, size};
use crate::text::DecodedText;

/// The largest file that is changed, before and after.
pub(crate) const MOST_BYTES: u64 = 32 << 20;

#[derive(Debug)]
pub(crate) struct ChangeTarget {
    pub(crate) place: NamedPlace,
    /// No link is on the way.
    pub(crate) real: PathBuf,
    pub(crate) opened: OpenedFile,
    pub(crate) content: Vec<u8>,
}

impl ChangeTarget {
    /// # Errors
    /// Why it is not changed; what to do about it is said.
    pub(crate) fn open(request: &FileRequest, place: &NamedPlace) -> Result<Self, FileFailure> {
        let opened = OpenedFile::open(place)?;
        let real = place.real()?;
        let shown = &place.shown;
        if opened.meta.len() > MOST_BYTES {
            return Err(too_large(place, opened.meta.len()));
        }
        let content = opened.read(place, MOST_BYTES)?;
        if !content.is_whole {
            return Err(too_large(place, MOST_BYTES + 1));
        }
        let target = Self {
            real,
            opened,
            content: content.bytes,
            place: place.clone(),
        };
        match request.seen(&path_text(&target.real)) {
            None => Err(FileFailure::new(
                FailureKind::NotRead,
                format!("{shown} has not been read in this conversation: read it first"),
            )),
            Some(seen) if seen != FileFingerprint::of(&target.content) => Err(stale(place)),
            Some(_same) => Ok(()),
        }?;
        target.check_can_be_replaced()?;
        Ok(target)
    }

    /// Its text, where it can be written back as it was.
    pub(crate) fn text(&self) -> Result<DecodedText<'_>, FileFailure> {
        let decoded = DecodedText::of(&self.content);
        let why = match ContentKind::of(&self.content) {
            ContentKind::Picture(media_type) => format!("is a picture ({media_type})"),
            ContentKind::Binary(name) => format!("is {name}"),
            ContentKind::Text if decoded.encoding.is_utf16() => "is UTF-16".to_owned(),
            ContentKind::Text if decoded.invalid > 0 => "is not UTF-8".to_owned(),
            ContentKind::Text => return Ok(decoded),
        };
        Err(FileFailure::new(
            FailureKind::NotText,
            format!(
                "{} {why}, and only UTF-8 text is edited: change it with a command",
                self.place.shown
            ),
        ))
    }

    fn check_can_be_replaced(&self) -> Result<(), FileFailure> {
        let meta = &self.opened.meta;
        let shown = &self.place.shown;
        if meta.mode() & 0o222 == 0 {
            return Err(FileFailure::new(
                FailureKind::NotAllowed,
                format!(
                    "{shown} is read-only (mode {:04o}): whoever made it so wants it to stay; `chmod u+w` makes it writable",
                    meta.mode() & 0o7777
                ),
            ));
        }
        accessat(CWD, &self.real, Access::WRITE_OK, AtFlags::EACCESS)
            .map_err(|error| FileFailure::system(&format!("write {shown}"), &error.into()))?;
        if meta.nlink() > 1 {
            return Err(FileFailure::new(
                FailureKind::CannotKeep,
                format!(
                    "{shown} has {} names (hard links), and would be another file than the others then: change it with a command, or make a copy of its own",
                    meta.nlink()
                ),
            ));
        }
        Ok(())
    }

    /// Whether what is there is still what was opened. Looked at right before it is replaced.
    pub(crate) fn check_unchanged(&self) -> Result<(), FileFailure> {
        let now = fs::symlink_metadata(&self.real).map_err(|error| self.failed(&error))?;
        let stamp = |it: &Metadata| {
            (
                (it.dev(), it.ino(), it.size()),
                (it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec()),
            )
        };
        match stamp(&now) == stamp(&self.opened.meta) {
            true => Ok(()),
            false => Err(stale(&self.place)),
        }
    }

    pub(crate) fn failed(&self, error: &io::Error) -> FileFailure {
        FileFailure::system(&format!("write {}", self.place.shown), error)
    }
}

pub(crate) fn too_large(place: &NamedPlace, bytes: u64) -> FileFailure {
    FileFailure::new(
        FailureKind::TooLarge,
        format!(
            "{} has {}, and {} are the most that is edited or written: use a command",
            place.shown,
            size(bytes),
            size(MOST_BYTES)
        ),
    )
}

fn stale(place: &NamedPlace) -> FileFailure {
    FileFailure::new(
        FailureKind::Stale,
        format!(
            "{} has changed since it was read: read it again, then make the change on what is there now",
            place.shown
        ),
    )
}
