//! Putting new content at a path in one step: at every moment there is the old file or the new one, whole and on the disk,
//! whatever ends us. The new one is made without a name where the file system can do that, so that nothing is left of one that
//! was not finished.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::Path;

use aishd_platform::{clock, failpoint};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, openat, renameat_with, unlinkat,
};
use rustix::io::Errno;

use crate::attributes;
use crate::change_target::ChangeTarget;
use crate::failure::{FailureKind, FileFailure};
use crate::place::NamedPlace;

/// Written at once.
const PIECE_BYTES: usize = 1 << 20;
/// A test can end us at each of these.
const STEP: &str = "files.step";

/// Replaces the content of a file; what else it is stays.
pub(crate) fn replace(target: &ChangeTarget, content: &[u8]) -> Result<(), FileFailure> {
    let (directory, name) = site(&target.real).map_err(|error| target.failed(&error))?;
    let fill = |file: &File| -> Result<(), FileFailure> {
        fill(file, content).map_err(|error| target.failed(&error))?;
        attributes::keep(&target.opened.file, &target.opened.meta, file).map_err(|what| {
            FileFailure::new(
                FailureKind::CannotKeep,
                format!(
                    "{} of {} cannot be kept, so it was not changed: use a command that changes it in place",
                    what, target.place.shown
                ),
            )
        })?;
        failpoint::pass(STEP);
        file.sync_all().map_err(|error| target.failed(&error))
    };
    let mode = Mode::from_raw_mode(0o600);
    let staged = StagedFile::named(&directory, mode, &fill, |error| target.failed(error))?;
    failpoint::pass(STEP);
    target.check_unchanged()?;
    staged
        .rename(name, RenameFlags::empty())
        .map_err(|error| target.failed(&error))?;
    failpoint::pass(STEP);
    sync(&directory).map_err(|error| target.failed(&error))
}

/// Makes a file where nothing is.
pub(crate) fn create(place: &NamedPlace, real: &Path, content: &[u8]) -> Result<(), FileFailure> {
    let failed = |error: &io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => FileFailure::new(
            FailureKind::Stale,
            format!(
                "{} was made by somebody else meanwhile: read it first",
                place.shown
            ),
        ),
        _ => FileFailure::system(&format!("make {}", place.shown), error),
    };
    let (directory, name) = site(real).map_err(|error| failed(&error))?;
    let fill = |file: &File| -> Result<(), FileFailure> {
        fill(file, content)
            .and_then(|()| file.sync_all())
            .map_err(|error| failed(&error))
    };
    let mode = Mode::from_raw_mode(0o666);
    let linked = match nameless(&directory, mode).map_err(|error| failed(&error))? {
        Some(file) => {
            fill(&file)?;
            failpoint::pass(STEP);
            give_name(&file, &directory, name).map_err(|error| failed(&error))?
        }
        None => GivenName::Impossible,
    };
    if linked == GivenName::Impossible {
        let staged = StagedFile::with_name(&directory, mode, &fill, failed)?;
        failpoint::pass(STEP);
        staged
            .rename(name, RenameFlags::NOREPLACE)
            .map_err(|error| failed(&error))?;
    }
    failpoint::pass(STEP);
    sync(&directory).map_err(|error| failed(&error))
}

fn site(real: &Path) -> io::Result<(OwnedFd, &OsStr)> {
    let (Some(directory), Some(name)) = (real.parent(), real.file_name()) else {
        return Err(io::ErrorKind::IsADirectory.into());
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok((openat(CWD, directory, flags, Mode::empty())?, name))
}

fn fill(mut file: &File, content: &[u8]) -> io::Result<()> {
    failpoint::pass(STEP);
    for piece in content.chunks(PIECE_BYTES) {
        file.write_all(piece)?;
        failpoint::pass(STEP);
    }
    Ok(())
}

fn sync(directory: &OwnedFd) -> io::Result<()> {
    match rustix::fs::fsync(directory) {
        // Not every file system has an answer for directories.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A file that has no name yet; none where this file system has no such files.
fn nameless(directory: &OwnedFd, mode: Mode) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    match openat(directory, ".", flags, mode) {
        Ok(file) => Ok(Some(file.into())),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GivenName {
    Given,
    /// Not in these surroundings.
    Impossible,
}

fn give_name(file: &File, directory: &OwnedFd, name: &OsStr) -> io::Result<GivenName> {
    let ours = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    match linkat(CWD, ours, directory, name, AtFlags::SYMLINK_FOLLOW) {
        Ok(()) => Ok(GivenName::Given),
        Err(Errno::EXIST) => Err(Errno::EXIST.into()),
        // Without /proc, or where links are not made.
        Err(_) => Ok(GivenName::Impossible),
    }
}

/// A whole file beside its place. It goes again unless it is renamed to there.
struct StagedFile<'a> {
    directory: &'a OwnedFd,
    name: String,
}

type Fill<'f> = dyn Fn(&File) -> Result<(), FileFailure> + 'f;

impl<'a> StagedFile<'a> {
    /// It gets its name when it is whole, if that can be.
    fn named(
        directory: &'a OwnedFd,
        mode: Mode,
        fill: &Fill<'_>,
        failed: impl Fn(&io::Error) -> FileFailure,
    ) -> Result<Self, FileFailure> {
        if let Some(file) = nameless(directory, mode).map_err(|error| failed(&error))? {
            fill(&file)?;
            failpoint::pass(STEP);
            let name = beside();
            let given = give_name(&file, directory, OsStr::new(&name));
            if given.map_err(|error| failed(&error))? == GivenName::Given {
                return Ok(Self { directory, name });
            }
        }
        Self::with_name(directory, mode, fill, failed)
    }

    fn with_name(
        directory: &'a OwnedFd,
        mode: Mode,
        fill: &Fill<'_>,
        failed: impl Fn(&io::Error) -> FileFailure,
    ) -> Result<Self, FileFailure> {
        let name = beside();
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, &name, flags, mode).map_err(|error| failed(&error.into()))?;
        let staged = Self { directory, name };
        fill(&file.into())?;
        Ok(staged)
    }

    fn rename(self, to: &OsStr, flags: RenameFlags) -> io::Result<()> {
        renameat_with(self.directory, &self.name, self.directory, to, flags)?;
        // There is nothing at this name any more.
        Ok(())
    }
}

impl Drop for StagedFile<'_> {
    fn drop(&mut self) {
        let _renamed_already = unlinkat(self.directory, &self.name, AtFlags::empty());
    }
}

/// Short, so that it is no longer than a file system takes whatever the file is called.
fn beside() -> String {
    format!(".aish-{}.tmp", clock::ulid())
}
