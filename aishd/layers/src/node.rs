//! What stands at a path, without following it: its kind, its attributes, its identity.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NodeKind {
    File,
    Directory,
    Symlink,
    Fifo,
    Socket,
    Device,
}

/// A time as file systems keep it: seconds and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp(pub i64, pub u32);

/// What `lstat` says, as far as it is used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeMeta {
    pub kind: NodeKind,
    pub dev: u64,
    pub ino: u64,
    pub links: u64,
    pub size: u64,
    /// Of the disk, in bytes.
    pub stored: u64,
    /// The permission bits, with set-user-id, set-group-id and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub modified: Stamp,
    pub changed: Stamp,
    /// Of a device: its number.
    pub device: u64,
}

impl NodeMeta {
    /// How an overlay says that something is removed.
    pub(crate) fn is_whiteout(&self) -> bool {
        self.kind == NodeKind::Device && self.device == 0
    }

    pub(crate) fn is(&self, kind: NodeKind) -> bool {
        self.kind == kind
    }

    pub(crate) fn same_access(&self, other: &Self) -> bool {
        (self.mode, self.uid, self.gid) == (other.mode, other.uid, other.gid)
    }
}

impl From<Stat> for NodeMeta {
    #[expect(
        clippy::cast_sign_loss,
        clippy::unnecessary_cast,
        clippy::cast_possible_truncation,
        reason = "the types of stat differ from machine to machine; its values fit"
    )]
    fn from(stat: Stat) -> Self {
        let file_type = FileType::from_raw_mode(stat.st_mode);
        let kind = match file_type {
            FileType::RegularFile => NodeKind::File,
            FileType::Directory => NodeKind::Directory,
            FileType::Symlink => NodeKind::Symlink,
            FileType::Fifo => NodeKind::Fifo,
            FileType::Socket => NodeKind::Socket,
            FileType::CharacterDevice | FileType::BlockDevice | FileType::Unknown => {
                NodeKind::Device
            }
        };
        // A block device 0:0 is none of overlayfs.
        let device = match file_type {
            FileType::CharacterDevice => stat.st_rdev as u64,
            _ => u64::MAX,
        };
        Self {
            kind,
            dev: stat.st_dev as u64,
            ino: stat.st_ino as u64,
            links: stat.st_nlink as u64,
            size: stat.st_size as u64,
            stored: (stat.st_blocks as u64).saturating_mul(512),
            mode: stat.st_mode & 0o7777,
            uid: stat.st_uid,
            gid: stat.st_gid,
            modified: Stamp(stat.st_mtime as i64, stat.st_mtime_nsec as u32),
            changed: Stamp(stat.st_ctime as i64, stat.st_ctime_nsec as u32),
            device,
        }
    }
}

/// `None` where nothing is.
pub(crate) fn meta_at(dir: impl AsFd, name: &[u8]) -> io::Result<Option<NodeMeta>> {
    match rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat.into())),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn meta_of(file: impl AsFd) -> io::Result<NodeMeta> {
    Ok(rustix::fs::fstat(file)?.into())
}

/// A file for reading. What is no file does not make us wait, and a link is not followed.
pub(crate) fn open_file(dir: impl AsFd, name: &[u8]) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    Ok(File::from(rustix::fs::openat(
        dir,
        name,
        flags,
        Mode::empty(),
    )?))
}

/// A directory for listing and for going on from.
pub(crate) fn open_dir(dir: impl AsFd, name: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::DIRECTORY;
    Ok(rustix::fs::openat(dir, name, flags, Mode::empty())?)
}

pub(crate) fn link_target(dir: impl AsFd, name: &[u8]) -> io::Result<Vec<u8>> {
    Ok(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes())
}

/// All names in a directory, sorted. Of a directory with a million names this is some 50 MB, for as long as it is read.
pub(crate) fn names(dir: impl AsFd) -> io::Result<Vec<Box<[u8]>>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(Box::from(name));
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// The name by which calls that know only paths reach what is open, whatever its path is by now.
pub(crate) fn path_of(file: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Sets the permission bits of what stands at `name`, which must not be a link.
pub(crate) fn set_mode(dir: impl AsFd, name: &[u8], mode: u32) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let node = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    if meta_of(&node)?.is(NodeKind::Symlink) {
        return Err(Errno::LOOP.into());
    }
    rustix::fs::chmod(path_of(node.as_fd()), Mode::from_raw_mode(mode))?;
    Ok(())
}
