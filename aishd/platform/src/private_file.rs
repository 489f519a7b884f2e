//! Files that only their owner may read, and that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::{clock, failpoint};

/// How the name of one ends that was not finished. Whoever owns the directory may take it away.
pub const UNFINISHED: &str = "new";

/// Puts a file in the place of what is there. It is on disk when this returns; after a crash there is the old one or the new
/// one.
///
/// # Errors
///
/// It cannot be written; what was there is as it was.
pub fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let new = directory.join(format!(".{name}.{}.{UNFINISHED}", clock::ulid()));
    let written = write_new(&new, content).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _was_not_made = fs::remove_file(&new);
        return written;
    }
    File::open(directory)?.sync_all()
}

fn write_new(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .write(true)
        // No link is followed.
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(content)?;
    file.sync_all()?;
    failpoint::pass("private_file.before_rename");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_cannot_be_replaced_stays_and_nothing_is_left_beside_it() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("kept");
        replace(&path, b"one").unwrap();
        replace(&path, b"two").unwrap();
        assert_eq!("two", fs::read_to_string(&path).unwrap());
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(0o600, mode & 0o777);
        let folder = place.path().join("folder");
        fs::create_dir_all(folder.join("full")).unwrap();
        replace(&folder, b"three").unwrap_err();
        assert_eq!(2, fs::read_dir(place.path()).unwrap().count());
    }
}
