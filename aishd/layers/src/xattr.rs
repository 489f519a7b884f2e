//! Extended attributes: those that are kept, those by which overlayfs keeps its books, and those that are left behind.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use crate::node::path_of;
use crate::rel_path::Escaped;

/// The largest value that Linux takes.
const VALUE_BYTES: usize = 64 * 1024;
const OVERLAY: &[u8] = b"user.overlay.";

/// Names and values of what is kept: users' own, and access lists.
pub(crate) type Xattrs = BTreeMap<Escaped, Escaped>;

pub(crate) fn kept_at(dir: impl AsFd, name: &[u8]) -> io::Result<Xattrs> {
    let node = reach(dir, name)?;
    let mut kept = Xattrs::new();
    for xattr in list(&node)? {
        if is_kept(&xattr)
            && let Some(value) = value(&node, &xattr)?
        {
            kept.insert(Escaped(xattr), Escaped(value));
        }
    }
    Ok(kept)
}

/// The directory replaced another one, which is not to be seen through it.
pub(crate) fn is_opaque(dir: impl AsFd, name: &[u8]) -> io::Result<bool> {
    let node = reach(dir, name)?;
    Ok(value(&node, b"user.overlay.opaque")?.is_some_and(|value| value == b"y"))
}

/// What stands there has attributes that must not come along: capabilities, which only a copy leaves behind.
pub(crate) fn has_forbidden(dir: impl AsFd, name: &[u8]) -> io::Result<bool> {
    let node = reach(dir, name)?;
    let forbidden =
        |xattr: &Vec<u8>| xattr.starts_with(b"security.cap") || xattr.starts_with(b"trusted.");
    Ok(list(&node)?.iter().any(forbidden))
}

/// Overlayfs has left its books on it.
pub(crate) fn has_overlay(dir: impl AsFd, name: &[u8]) -> io::Result<bool> {
    let node = reach(dir, name)?;
    Ok(list(&node)?.iter().any(|xattr| xattr.starts_with(OVERLAY)))
}

/// Takes away what overlayfs has left. The file must be writable by its mode.
pub(crate) fn strip_overlay(dir: impl AsFd, name: &[u8]) -> io::Result<()> {
    let node = reach(dir, name)?;
    for xattr in list(&node)?
        .iter()
        .filter(|xattr| xattr.starts_with(OVERLAY))
    {
        rustix::fs::removexattr(path_of(node.as_fd()), &xattr[..])?;
    }
    Ok(())
}

/// Makes the kept attributes these. An access list that this file system does not have is left out.
pub(crate) fn set_kept(dir: impl AsFd, name: &[u8], wanted: &Xattrs) -> io::Result<()> {
    let node = reach(dir, name)?;
    let path = path_of(node.as_fd());
    for xattr in list(&node)? {
        if is_kept(&xattr) && !wanted.contains_key(&Escaped(xattr.clone())) {
            rustix::fs::removexattr(&path, &xattr[..])?;
        }
    }
    for (xattr, value) in wanted {
        match rustix::fs::setxattr(&path, &xattr.0[..], &value.0, XattrFlags::empty()) {
            Err(Errno::OPNOTSUPP | Errno::PERM) if xattr.0.starts_with(b"system.") => {}
            done => done?,
        }
    }
    Ok(())
}

fn is_kept(xattr: &[u8]) -> bool {
    let users_own = xattr.starts_with(b"user.") && !xattr.starts_with(OVERLAY);
    users_own || xattr.starts_with(b"system.posix_acl_")
}

fn reach(dir: impl AsFd, name: &[u8]) -> io::Result<std::os::fd::OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

fn list(node: &std::os::fd::OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let path = path_of(node.as_fd());
    let mut buffer = Vec::with_capacity(1024);
    loop {
        match rustix::fs::listxattr(&path, rustix::buffer::spare_capacity(&mut buffer)) {
            Ok(_length) => break,
            Err(Errno::RANGE) if buffer.capacity() <= VALUE_BYTES => {
                buffer = Vec::with_capacity(buffer.capacity() * 4);
            }
            // A link has none, and some file systems have none at all.
            Err(Errno::OPNOTSUPP | Errno::LOOP | Errno::PERM | Errno::NOENT) => {
                return Ok(Vec::new());
            }
            Err(error) => return Err(error.into()),
        }
    }
    let names = buffer
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

fn value(node: &std::os::fd::OwnedFd, xattr: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let path = path_of(node.as_fd());
    let mut capacity = 256;
    loop {
        let mut buffer = Vec::with_capacity(capacity);
        match rustix::fs::getxattr(&path, xattr, rustix::buffer::spare_capacity(&mut buffer)) {
            Ok(_length) => return Ok(Some(buffer)),
            Err(Errno::RANGE) if capacity < VALUE_BYTES => capacity = VALUE_BYTES,
            Err(Errno::NODATA | Errno::OPNOTSUPP) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
}
