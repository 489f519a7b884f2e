//! A real directory as it is reached here: from a held root, name by name, through no link and into no other mount.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::node::{self, NodeMeta};
use crate::rel_path::RelPath;

#[derive(Debug)]
pub(crate) struct Tree {
    root: Rc<OwnedFd>,
    /// The directory that was reached last: what is kept comes directory by directory.
    last: RefCell<Option<(RelPath, Rc<OwnedFd>)>>,
}

impl Tree {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty())?;
        Ok(Self {
            root: Rc::new(root),
            last: RefCell::new(None),
        })
    }

    pub(crate) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    pub(crate) fn root_meta(&self) -> io::Result<NodeMeta> {
        node::meta_of(&*self.root)
    }

    /// The directory at `path`, to look names up in. Fails with `ELOOP` at a link and with `EXDEV` at a mount point.
    pub(crate) fn dir(&self, path: &RelPath) -> io::Result<Rc<OwnedFd>> {
        if path.is_root() {
            return Ok(Rc::clone(&self.root));
        }
        let mut last = self.last.borrow_mut();
        if let Some((_, dir)) = last.as_ref().filter(|(known, _)| known == path) {
            return Ok(Rc::clone(dir));
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH
            | ResolveFlags::NO_SYMLINKS
            | ResolveFlags::NO_MAGICLINKS
            | ResolveFlags::NO_XDEV;
        let opened =
            rustix::fs::openat2(&*self.root, path.as_path(), flags, Mode::empty(), resolve)?;
        let dir = Rc::new(opened);
        *last = Some((path.clone(), Rc::clone(&dir)));
        Ok(dir)
    }

    /// The directory of `path` and the name in it; `None` where the way to it is gone or is another one now.
    pub(crate) fn place<'a>(
        &self,
        path: &'a RelPath,
    ) -> io::Result<Option<(Rc<OwnedFd>, &'a [u8])>> {
        let Some((parent, _)) = path.split() else {
            return Ok(Some((Rc::clone(&self.root), b".")));
        };
        let name_at = path.as_bytes().len() - path.split().map_or(0, |(_, name)| name.len());
        match self.dir(&parent) {
            Ok(dir) => Ok(Some((dir, &path.as_bytes()[name_at..]))),
            Err(error) if is_no_way(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn meta(&self, path: &RelPath) -> io::Result<Option<NodeMeta>> {
        match self.place(path)? {
            Some((dir, name)) => node::meta_at(&*dir, name),
            None => Ok(None),
        }
    }
}

/// What we may not look at, because a command has shut a directory, counts as not there, both times that it is looked at.
pub(crate) fn if_allowed<T>(looked: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match looked {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        looked => looked,
    }
}

/// The way to a path is not what it was: gone, a file, a link, a mount point.
pub(crate) fn is_no_way(error: &io::Error) -> bool {
    let no_way = [
        Errno::NOENT,
        Errno::NOTDIR,
        Errno::LOOP,
        Errno::XDEV,
        Errno::NAMETOOLONG,
    ];
    Errno::from_io_error(error).is_some_and(|errno| no_way.contains(&errno))
}
