//! What layers take of the disk while something still writes in them: looked at from outside, and nothing of them changed.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use rustix::io::Errno;

use crate::fingerprint::MAX_DEPTH;
use crate::layer_set::LayerSet;
use crate::node::{self, NodeKind, NodeMeta};
use crate::tree::Tree;

/// What was seen of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LayerWeight {
    /// Bytes of the disk.
    pub bytes: u64,
    /// Something could not be looked into: it is more.
    pub partly: bool,
}

/// A disk at a moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    pub size: u64,
    /// What an ordinary user may still write.
    pub free: u64,
}

impl LayerSet {
    /// What the layers take. Files that are removed while they are open take room and are not seen.
    pub fn weight(&self) -> LayerWeight {
        let mut scales = Scales::default();
        for layer in 0..self.layers() {
            match Tree::open(&self.upper(layer)) {
                Ok(upper) => scales.weigh(upper.root(), 0),
                Err(_) => scales.weight.partly = true,
            }
        }
        scales.weight
    }

    /// The disk that the layers are on.
    pub fn disk(&self) -> io::Result<DiskSpace> {
        let stat = rustix::fs::statvfs(&self.dir)?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Ok(DiskSpace {
            size: bytes(stat.f_blocks),
            free: bytes(stat.f_bavail),
        })
    }
}

#[derive(Default)]
struct Scales {
    weight: LayerWeight,
    /// Files with several names that were weighed.
    linked: HashSet<(u64, u64)>,
}

impl Scales {
    fn weigh(&mut self, dir: BorrowedFd<'_>, depth: usize) {
        let Ok(entries) = rustix::fs::Dir::read_from(dir) else {
            self.weight.partly = true;
            return;
        };
        for entry in entries {
            let Ok(entry) = entry else {
                self.weight.partly = true;
                return;
            };
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            match node::meta_at(dir, name) {
                Ok(Some(meta)) => self.entry(dir, name, &meta, depth),
                // It was removed just now.
                Ok(None) => {}
                Err(_) => self.weight.partly = true,
            }
        }
    }

    fn entry(&mut self, dir: BorrowedFd<'_>, name: &[u8], meta: &NodeMeta, depth: usize) {
        let is_directory = meta.is(NodeKind::Directory);
        if is_directory || meta.links < 2 || self.linked.insert((meta.dev, meta.ino)) {
            self.weight.bytes = self.weight.bytes.saturating_add(meta.stored);
        }
        if !is_directory {
            return;
        }
        if depth + 1 >= MAX_DEPTH {
            self.weight.partly = true;
            return;
        }
        match node::open_dir(dir, name) {
            Ok(inner) => self.weigh(inner.as_fd(), depth + 1),
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NOENT) => {}
            Err(_) => self.weight.partly = true,
        }
    }
}
