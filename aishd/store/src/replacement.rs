//! A directory in the place of one that is there: a journal that was written anew, a store that was restored. The new one is
//! whole before, and says in a file of its own where the other one goes. So whoever starts after an end in the middle knows
//! which is which, and can bring it to its end.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use aishd_platform::failpoint;

use super::disk;

/// In the new one, from when it is whole until the other one is out of the way: the name that the other one gets.
const MARK: &str = "replaces";

#[derive(Debug)]
pub(super) struct Replacement {
    place: PathBuf,
    /// Beside it, where the new one is made.
    draft: PathBuf,
}

/// What somebody left who ended in the middle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BrokenReplacement {
    /// What was there before is there; nothing is left of the other one.
    Undone,
    /// The new one is there. What was there before is kept under this path, if it still is anywhere.
    Done { aside: PathBuf },
}

impl Replacement {
    /// `draft`: what the new one is called while it is made; nobody else may call anything so.
    pub(super) fn of(place: &Path, draft: OsString) -> Self {
        Self {
            place: place.to_owned(),
            draft: place.with_file_name(draft),
        }
    }

    pub(super) fn draft(&self) -> &Path {
        &self.draft
    }

    /// Puts the draft, which is whole, in its place, and what is there aside under another name. At no moment there is none, where
    /// the file system can exchange two directories.
    pub(super) fn put_in_place(&self, aside: &Path) -> io::Result<()> {
        let name = aside.file_name().unwrap_or_default();
        write_mark(&self.draft, name.as_encoded_bytes())?;
        failpoint::pass("replacement.marked");
        if disk::exchange_at_once(&self.place, &self.draft).is_ok() {
            failpoint::pass("replacement.exchanged");
            disk::rename(&self.draft, aside)?;
        } else {
            disk::rename(&self.place, aside)?;
            disk::rename(&self.draft, &self.place)?;
        }
        failpoint::pass("replacement.aside");
        remove_mark(&self.place)
    }

    /// Where nothing is in the place because what was there has been put aside already, the new one goes there.
    pub(super) fn fill_place(&self) -> io::Result<()> {
        if self.place.exists() {
            return Ok(());
        }
        match self.aside(&self.draft)? {
            Some(aside) if aside.exists() => disk::rename(&self.draft, &self.place),
            Some(_) | None => Ok(()),
        }
    }

    /// Whether [`Replacement::fill_place`] would do something.
    pub(super) fn is_on_its_way(&self) -> bool {
        let aside = self.aside(&self.draft).ok().flatten();
        !self.place.exists() && aside.is_some_and(|it| it.exists())
    }

    /// Brings to its end, or undoes, what somebody began. `None`: nobody left anything.
    pub(super) fn settle(&self) -> io::Result<Option<BrokenReplacement>> {
        self.fill_place()?;
        if let Some(aside) = self.aside(&self.place)? {
            if self.draft.exists() {
                disk::rename(&self.draft, &aside)?;
            }
            remove_mark(&self.place)?;
            return Ok(Some(BrokenReplacement::Done { aside }));
        }
        if self.draft.exists() {
            disk::remove_dir(&self.draft)?;
            return Ok(Some(BrokenReplacement::Undone));
        }
        Ok(None)
    }

    /// Where the other one goes, as the one that is in `directory` says. `None`: it is no new one, or not whole.
    fn aside(&self, directory: &Path) -> io::Result<Option<PathBuf>> {
        let name = match fs::read_to_string(directory.join(MARK)) {
            Ok(name) => name,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Nothing goes to another directory.
        let is_name = Path::new(&name).file_name().is_some_and(|it| *it == *name);
        let broken = || io::Error::other(format!("{MARK} names no directory: {name}"));
        is_name
            .then(|| self.place.with_file_name(&name))
            .ok_or_else(broken)
            .map(Some)
    }
}

fn write_mark(directory: &Path, name: &[u8]) -> io::Result<()> {
    let mut file = disk::create_new(&directory.join(MARK))?;
    file.write_all(name)?;
    file.sync_all()?;
    disk::sync_dir(directory)
}

fn remove_mark(directory: &Path) -> io::Result<()> {
    fs::remove_file(directory.join(MARK))?;
    disk::sync_dir(directory)
}
