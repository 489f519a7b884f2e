//! Copies of files, links and directories, for where a rename does not reach: holes, modes, times, owners as far as it is
//! allowed, and hard links within what is copied.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;

use crate::fingerprint::MAX_DEPTH;
use crate::node::{self, NodeKind, NodeMeta, Stamp};
use crate::xattr;

/// Where something stands: a directory, and the name in it.
pub(crate) type At<'a> = (std::os::fd::BorrowedFd<'a>, &'a [u8]);

/// Copies what stands at `from` to `to`, where nothing is yet. The data is not synced.
pub(crate) fn copy_tree(from: At<'_>, to: At<'_>) -> io::Result<()> {
    Copier::default().copy(from, to)
}

/// Copies several, and what are names of one file stay that.
#[derive(Default)]
pub(crate) struct Copier {
    /// Files with several names, by where they were: an open descriptor would be one too many for each.
    linked: HashMap<(u64, u64), (std::os::fd::OwnedFd, Vec<u8>)>,
}

impl Copier {
    /// As [`copy_tree`].
    pub(crate) fn copy(&mut self, from: At<'_>, to: At<'_>) -> io::Result<()> {
        self.copy_at(from, to, 0)
    }

    fn copy_at(&mut self, from: At<'_>, to: At<'_>, depth: usize) -> io::Result<()> {
        let meta = node::meta_at(from.0, from.1)?.ok_or(io::ErrorKind::NotFound)?;
        if meta.is(NodeKind::File)
            && meta.links > 1
            && let Some((dir, name)) = self.linked.get(&(meta.dev, meta.ino))
        {
            return Ok(rustix::fs::linkat(
                dir,
                &name[..],
                to.0,
                to.1,
                AtFlags::empty(),
            )?);
        }
        match meta.kind {
            NodeKind::File => copy_file(from, to, &meta)?,
            NodeKind::Symlink => {
                rustix::fs::symlinkat(node::link_target(from.0, from.1)?, to.0, to.1)?;
            }
            NodeKind::Fifo => rustix::fs::mkfifoat(to.0, to.1, Mode::from_raw_mode(0o600))?,
            NodeKind::Directory => self.copy_directory(from, to, depth)?,
            // Nobody misses a socket without its program, and a device is not ours to make.
            NodeKind::Socket | NodeKind::Device => return Ok(()),
        }
        if meta.is(NodeKind::File) && meta.links > 1 && self.linked.len() < 256 {
            let dir = to.0.try_clone_to_owned()?;
            self.linked
                .insert((meta.dev, meta.ino), (dir, to.1.to_vec()));
        }
        set_attributes(from, to, &meta)
    }

    fn copy_directory(&mut self, from: At<'_>, to: At<'_>, depth: usize) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "directories nested too deeply",
            ));
        }
        rustix::fs::mkdirat(to.0, to.1, Mode::from_raw_mode(0o700))?;
        let (source, target) = (node::open_dir(from.0, from.1)?, node::open_dir(to.0, to.1)?);
        for name in node::names(&source)? {
            self.copy_at((source.as_fd(), &name), (target.as_fd(), &name), depth + 1)?;
        }
        Ok(())
    }
}

fn copy_file(from: At<'_>, to: At<'_>, meta: &NodeMeta) -> io::Result<()> {
    let source = node::open_file(from.0, from.1)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let target = rustix::fs::openat(to.0, to.1, flags, Mode::from_raw_mode(0o600))?;
    let target = File::from(target);
    if rustix::fs::ioctl_ficlone(&target, &source).is_ok() {
        return Ok(());
    }
    copy_data(source, target, meta.size)
}

/// Copies what is data; holes stay holes.
fn copy_data(mut source: File, mut target: File, size: u64) -> io::Result<()> {
    let mut at = 0;
    while at < size {
        let data = match rustix::fs::seek(&source, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(Errno::NXIO) => break,
            Err(_no_holes_known) => at,
        };
        let hole = rustix::fs::seek(&source, rustix::fs::SeekFrom::Hole(data)).unwrap_or(size);
        source.seek(SeekFrom::Start(data))?;
        target.seek(SeekFrom::Start(data))?;
        let mut part = (&mut source).take(hole.saturating_sub(data));
        let mut buffer = vec![0; 128 * 1024];
        loop {
            match part.read(&mut buffer)? {
                0 => break,
                read => target.write_all(&buffer[..read])?,
            }
        }
        at = hole.max(data + 1);
    }
    target.set_len(size)
}

fn set_attributes(from: At<'_>, to: At<'_>, meta: &NodeMeta) -> io::Result<()> {
    set_owner(to, meta.uid, meta.gid)?;
    if !meta.is(NodeKind::Symlink) {
        xattr::set_kept(to.0, to.1, &xattr::kept_at(from.0, from.1)?)?;
        node::set_mode(to.0, to.1, meta.mode)?;
    }
    set_modified(to, meta.modified)
}

/// Where the owner is another one already and may not be set, it stays.
pub(crate) fn set_owner((dir, name): At<'_>, uid: u32, gid: u32) -> io::Result<()> {
    let is = node::meta_at(dir, name)?.ok_or(io::ErrorKind::NotFound)?;
    if (is.uid, is.gid) == (uid, gid) {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
    match rustix::fs::chownat(dir, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::PERM) => Ok(()),
        done => Ok(done?),
    }
}

pub(crate) fn set_modified((dir, name): At<'_>, Stamp(seconds, nanos): Stamp) -> io::Result<()> {
    let times = Timestamps {
        last_access: Timespec {
            tv_sec: 0,
            tv_nsec: rustix::fs::UTIME_OMIT,
        },
        last_modification: Timespec {
            tv_sec: seconds,
            tv_nsec: nanos.into(),
        },
    };
    Ok(rustix::fs::utimensat(
        dir,
        name,
        &times,
        AtFlags::SYMLINK_NOFOLLOW,
    )?)
}

/// All that was written to this file system is on the disk. Once for many files: each `fsync` of its own would wait for
/// the disk.
pub(crate) fn sync_all(dir: impl AsFd) -> io::Result<()> {
    Ok(rustix::fs::syncfs(dir)?)
}
