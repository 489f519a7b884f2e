//! Removing what a command left behind: directories that nobody may enter, and nested as deep as it liked.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::Errno;

use crate::fingerprint::MAX_DEPTH;
use crate::node::{self, NodeKind};
use crate::tree::Tree;

/// What is not there is removed. Its directory entry is not synced: what comes back after a power cut is removed again.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    match Tree::open(parent) {
        Ok(parent) => remove_at(parent.root(), name.as_bytes()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Out of sight first: half of it must not look like the whole. What a kill leaves is removed by [`remove_hidden`].
pub(crate) fn remove_at_once(dir: &Path) -> io::Result<()> {
    match hide(dir)? {
        Some(aside) => remove_tree(&aside),
        None => Ok(()),
    }
}

/// Takes a directory out of sight, for [`remove_hidden`]; `None`: it was not there.
pub(crate) fn hide(dir: &Path) -> io::Result<Option<PathBuf>> {
    let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let aside = parent.join(format!(".{}", name.to_string_lossy()));
    remove_tree(&aside)?;
    match std::fs::rename(dir, &aside) {
        Ok(()) => Ok(Some(aside)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// What was being removed.
pub(crate) fn remove_hidden(dir: &Path) -> io::Result<()> {
    remove_named(dir, '.')
}

/// What has a name that begins so: all that can be removed, and the last error of what could not.
pub(crate) fn remove_named(dir: &Path, first: char) -> io::Result<()> {
    let mut removed = Ok(());
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(first) {
            removed = remove_tree(&entry.path()).and(removed);
        }
    }
    removed
}

pub(crate) fn remove_at(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, OsStr::from_bytes(name), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error.into()),
    }
    loop {
        let Some(top) = enter(parent, name)? else {
            return Ok(());
        };
        let mut moved_up = 0;
        clear(top.as_fd(), top.as_fd(), 0, &mut moved_up)?;
        if moved_up == 0 {
            break;
        }
    }
    unlink(parent, name, AtFlags::REMOVEDIR)
}

/// Two may remove the same at once: what is gone is removed.
fn unlink(parent: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> io::Result<()> {
    match rustix::fs::unlinkat(parent, OsStr::from_bytes(name), flags) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Empties a directory. What is nested too deeply is moved up to the top, for the next time.
fn clear(
    dir: BorrowedFd<'_>,
    top: BorrowedFd<'_>,
    depth: usize,
    moved_up: &mut u64,
) -> io::Result<()> {
    let names = match node::names(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    for name in names {
        let is_dir = node::meta_at(dir, &name)?.is_some_and(|meta| meta.is(NodeKind::Directory));
        if !is_dir {
            unlink(dir, &name, AtFlags::empty())?;
            continue;
        }
        if depth >= MAX_DEPTH {
            // Renaming a directory needs the right to write in it.
            let _entered = enter(dir, &name)?;
            loop {
                let aside = format!(".deep-{moved_up}");
                *moved_up += 1;
                match rustix::fs::renameat_with(dir, &name[..], top, aside, RenameFlags::NOREPLACE)
                {
                    Err(Errno::EXIST) => {}
                    Err(Errno::NOENT) => break,
                    done => break done?,
                }
            }
            continue;
        }
        if let Some(inner) = enter(dir, &name)? {
            clear(inner.as_fd(), top, depth + 1, moved_up)?;
            unlink(dir, &name, AtFlags::REMOVEDIR)?;
        }
    }
    Ok(())
}

/// `None`: it is gone.
fn enter(parent: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<OwnedFd>> {
    let opened = node::meta_at(parent, name).and_then(|meta| {
        let meta = meta.ok_or(io::ErrorKind::NotFound)?;
        if meta.is(NodeKind::Directory) && meta.mode & 0o700 != 0o700 {
            node::set_mode(parent, name, meta.mode | 0o700)?;
        }
        node::open_dir(parent, name)
    });
    match opened {
        Ok(dir) => Ok(Some(dir)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Barrier;

    use super::*;

    /// As the sweeps of two changes do that are forgotten one right after the other.
    #[test]
    fn many_remove_the_same_at_once_and_each_says_that_it_is_removed() {
        let scratch = tempfile::tempdir().unwrap();
        for round in 0..20 {
            for hidden in 0..4 {
                for nested in 0..20 {
                    let dir = scratch
                        .path()
                        .join(format!(".{round}-{hidden}/{nested}/in"));
                    fs::create_dir_all(&dir).unwrap();
                    fs::write(dir.join("file"), "").unwrap();
                }
            }
            let begin = Barrier::new(4);
            std::thread::scope(|threads| {
                let removing = [(); 4].map(|()| {
                    threads.spawn(|| {
                        begin.wait();
                        remove_hidden(scratch.path())
                    })
                });
                for it in removing {
                    it.join().unwrap().unwrap();
                }
            });
            assert_eq!(0, fs::read_dir(scratch.path()).unwrap().count());
        }
    }
}
