//! What stood at a path, so that a change by somebody else is noticed later.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::node::{self, NodeKind, NodeMeta, Stamp};

/// Files up to this size are known by their content as well.
pub(crate) const HASHED_BYTES: u64 = 1024 * 1024;
/// A directory below this many others is not entered: each one that is open on the way costs a descriptor.
pub(crate) const MAX_DEPTH: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fingerprint {
    pub(crate) meta: NodeMeta,
    /// Of a small file's content, or of a link's target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hash: Option<String>,
    /// Of all that is in a directory that goes as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) inside: Option<Inside>,
}

/// All that is in a directory, by names and `lstat` alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Inside {
    pub(crate) entries: u64,
    pub(crate) stored: u64,
    pub(crate) hash: String,
    pub(crate) latest_change: Stamp,
}

/// Whether what is in a directory is part of its fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    Itself,
    AllInside,
    /// The same by what it looks like: a copy of it is the same.
    LooksInside,
}

impl Fingerprint {
    /// `None` where nothing is.
    pub(crate) fn take(dir: impl AsFd, name: &[u8], depth: Depth) -> io::Result<Option<Self>> {
        let dir = dir.as_fd();
        let Some(meta) = node::meta_at(dir, name)? else {
            return Ok(None);
        };
        let hash = match meta.kind {
            NodeKind::File if meta.size <= HASHED_BYTES => content_hash(dir, name).ok(),
            NodeKind::Symlink => Some(hex(&Sha256::digest(node::link_target(dir, name)?))),
            NodeKind::File
            | NodeKind::Directory
            | NodeKind::Fifo
            | NodeKind::Socket
            | NodeKind::Device => None,
        };
        let inside = match (meta.kind, depth) {
            (NodeKind::Directory, Depth::AllInside | Depth::LooksInside) => {
                Some(Inside::take(dir, name, depth)?)
            }
            _ => None,
        };
        Ok(Some(Self { meta, hash, inside }))
    }

    /// Nobody has changed it in between. A directory is compared by itself: others may have made files in it.
    pub(crate) fn is_unchanged(&self, now: &Self) -> bool {
        if self.meta.kind != now.meta.kind
            || !self.meta.same_access(&now.meta)
            || self.inside != now.inside
        {
            return false;
        }
        if self.meta.is(NodeKind::Directory) {
            return self.inside.is_none() || self.same_place(&now.meta);
        }
        let untouched = self.same_place(&now.meta)
            && self.meta.modified == now.meta.modified
            && self.meta.changed == now.meta.changed
            && self.meta.size == now.meta.size;
        // Written again with the same content, or linked once more: nobody loses anything.
        untouched || (self.hash.is_some() && self.hash == now.hash)
    }

    /// It is what a keep or an undo left, or what another of them put back in its place: that sets the time of change, and a copy is
    /// another file. Whoever sets the time of a large file back on purpose is not noticed.
    pub(crate) fn is_as_left(&self, now: &Self) -> bool {
        let is_same = self.meta.kind == now.meta.kind && self.meta.same_access(&now.meta);
        if self.meta.is(NodeKind::Directory) {
            return is_same
                && self.inside.as_ref().map(|it| &it.hash)
                    == now.inside.as_ref().map(|it| &it.hash);
        }
        if self.hash.is_some() {
            return self.is_unchanged(now);
        }
        is_same && self.meta.modified == now.meta.modified && self.meta.size == now.meta.size
    }

    /// It is what was looked at, renamed by us since: a rename alone sets the time of change.
    pub(crate) fn is_moved(&self, now: &NodeMeta) -> bool {
        self.same_place(now)
            && self.meta.kind == now.kind
            && (self.meta.is(NodeKind::Directory)
                || (self.meta.modified == now.modified && self.meta.size == now.size))
    }

    /// Something of it was made or changed at this time or later.
    pub(crate) fn is_later_than(&self, begun: Stamp) -> bool {
        let latest = match (&self.inside, self.meta.kind) {
            (Some(inside), _) => inside.latest_change.max(self.meta.changed),
            // Whatever is made in a directory changes its times.
            (None, NodeKind::Directory) => return false,
            (None, _) => self.meta.changed,
        };
        is_at_or_after(latest, begun)
    }

    pub(crate) fn stored(&self) -> u64 {
        self.meta.stored + self.inside.as_ref().map_or(0, |inside| inside.stored)
    }

    fn same_place(&self, now: &NodeMeta) -> bool {
        (self.meta.dev, self.meta.ino) == (now.dev, now.ino)
    }
}

/// A file system that keeps whole seconds cannot say whether it was after a begin within that second: then it was.
fn is_at_or_after(stamp: Stamp, begun: Stamp) -> bool {
    if stamp.1 == 0 {
        return stamp.0 >= begun.0;
    }
    stamp >= begun
}

impl Inside {
    fn take(dir: impl AsFd, name: &[u8], how: Depth) -> io::Result<Self> {
        let mut hasher = Sha256::new();
        let mut inside = Self {
            entries: 0,
            stored: 0,
            hash: String::new(),
            latest_change: Stamp(i64::MIN, 0),
        };
        inside.add(dir, name, &mut hasher, (0, how))?;
        inside.hash = hex(&hasher.finalize());
        Ok(inside)
    }

    fn add(
        &mut self,
        dir: impl AsFd,
        name: &[u8],
        hasher: &mut Sha256,
        (depth, how): (usize, Depth),
    ) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "directories nested too deeply",
            ));
        }
        let opened = node::open_dir(dir, name)?;
        for name in node::names(&opened)? {
            let Some(meta) = node::meta_at(&opened, &name)? else {
                continue;
            };
            self.entries += 1;
            self.stored = self.stored.saturating_add(meta.stored);
            self.latest_change = self.latest_change.max(meta.changed);
            hasher.update([u8::try_from(depth).unwrap_or(u8::MAX)]);
            hasher.update(&name);
            hasher.update([0]);
            for number in [meta.mode, meta.uid, meta.gid] {
                hasher.update(number.to_le_bytes());
            }
            if how == Depth::LooksInside {
                look(&opened, &name, &meta, hasher)?;
            } else {
                for number in [meta.ino, meta.size] {
                    hasher.update(number.to_le_bytes());
                }
                add_time(meta.modified, hasher);
                add_time(meta.changed, hasher);
            }
            if meta.is(NodeKind::Directory) {
                self.add(&opened, &name, hasher, (depth + 1, how))?;
            }
        }
        Ok(())
    }
}

fn add_time(Stamp(seconds, nanos): Stamp, hasher: &mut Sha256) {
    hasher.update(seconds.to_le_bytes());
    hasher.update(nanos.to_le_bytes());
}

/// What a copy of it has too.
fn look(dir: impl AsFd, name: &[u8], meta: &NodeMeta, hasher: &mut Sha256) -> io::Result<()> {
    let dir = dir.as_fd();
    hasher.update(format!("{:?}", meta.kind));
    match meta.kind {
        NodeKind::File => {
            hasher.update(meta.size.to_le_bytes());
            let is_small = meta.size <= HASHED_BYTES;
            match is_small.then(|| content_hash(dir, name)) {
                Some(Ok(hash)) => hasher.update(hash),
                Some(Err(_)) | None => add_time(meta.modified, hasher),
            }
        }
        NodeKind::Symlink => hasher.update(node::link_target(dir, name)?),
        NodeKind::Fifo | NodeKind::Socket | NodeKind::Device => add_time(meta.modified, hasher),
        // What is in it comes behind it.
        NodeKind::Directory => {}
    }
    Ok(())
}

fn content_hash(dir: impl AsFd, name: &[u8]) -> io::Result<String> {
    let mut file = node::open_file(dir, name)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(&buffer[..read]),
        }
    }
}

/// Whether two files of one size have the same bytes.
pub(crate) fn same_content(mut one: File, mut other: File) -> io::Result<bool> {
    let mut left = vec![0; 64 * 1024];
    let mut right = vec![0; 64 * 1024];
    loop {
        let read = one.read(&mut left)?;
        if read == 0 {
            return Ok(other.read(&mut right)? == 0);
        }
        match other.read_exact(&mut right[..read]) {
            Ok(()) if left[..read] == right[..read] => {}
            Ok(()) => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
