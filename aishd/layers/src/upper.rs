//! The walk over what a layer holds, beside what lies below each path. Only the layer is walked.

use std::collections::HashMap;
use std::fs::{self, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::fingerprint::MAX_DEPTH;
use crate::layer_set::LayerSet;
use crate::node::{self, NodeKind, NodeMeta};
use crate::rel_path::RelPath;
use crate::tree::{self, Tree};
use crate::xattr;

/// One entry of a layer.
#[derive(Debug)]
pub(crate) struct UpperEntry<'a> {
    pub(crate) path: &'a RelPath,
    pub(crate) name: &'a [u8],
    /// With the mode that the command gave it.
    pub(crate) meta: NodeMeta,
    /// What lies below at the same path, also where the layer hides it.
    pub(crate) lower: Option<NodeMeta>,
    /// A directory that hides what is below.
    pub(crate) opaque: bool,
    /// A directory around it does.
    pub(crate) is_within_opaque: bool,
    pub(crate) upper_dir: BorrowedFd<'a>,
    pub(crate) lower_dir: Option<BorrowedFd<'a>>,
}

/// How a walk ended.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walked {
    /// Directories that were not entered, because they are nested too deeply.
    pub(crate) too_deep: u64,
}

type Visit<'v> = dyn FnMut(&UpperEntry<'_>) -> io::Result<()> + 'v;

/// Visits each entry, parents first and sorted, the root of the layer before all.
pub(crate) fn walk(set: &LayerSet, layer: usize, visit: &mut Visit<'_>) -> io::Result<Walked> {
    let upper = Tree::open(&set.upper(layer))?;
    let lower = Tree::open(&set.lower(layer))?;
    let mut walk = Walk {
        modes: Modes::read(modes_path(set, layer))?,
        walked: Walked::default(),
    };
    let root = RelPath::default();
    visit(&UpperEntry {
        path: &root,
        name: b".",
        meta: upper.root_meta()?,
        lower: Some(lower.root_meta()?),
        opaque: false,
        is_within_opaque: false,
        upper_dir: upper.root(),
        lower_dir: Some(lower.root()),
    })?;
    walk.directory((&root, false), upper.root(), Some(lower.root()), visit)?;
    Ok(walk.walked)
}

/// Gives all modes back that were widened to read the layer, so that it can be mounted again.
pub(crate) fn restore_modes(set: &LayerSet, layer: usize) -> io::Result<()> {
    let path = modes_path(set, layer);
    let upper = Tree::open(&set.upper(layer))?;
    let mut modes: Vec<_> = Modes::read(path.clone())?.given.into_iter().collect();
    // What is inside first: afterwards nobody reaches it.
    modes.sort_by(|(one, _), (other, _)| other.cmp(one));
    for (inside, mode) in modes {
        if let Some((dir, name)) = upper.place(&inside)?
            && node::meta_at(&*dir, name)?.is_some()
        {
            node::set_mode(&*dir, name, mode)?;
        }
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

struct Walk {
    modes: Modes,
    walked: Walked,
}

impl Walk {
    fn directory(
        &mut self,
        (path, is_within_opaque): (&RelPath, bool),
        upper_dir: BorrowedFd<'_>,
        lower_dir: Option<BorrowedFd<'_>>,
        visit: &mut Visit<'_>,
    ) -> io::Result<()> {
        let depth = path.depth();
        for name in node::names(upper_dir)? {
            let Some(mut meta) = node::meta_at(upper_dir, &name)? else {
                continue;
            };
            let path = path.join(&name);
            self.modes.open_up(upper_dir, &path, &name, &mut meta)?;
            let is_dir = meta.is(NodeKind::Directory);
            let lower = match lower_dir {
                Some(dir) => node::meta_at(dir, &name)?,
                None => None,
            };
            let opaque = is_dir && xattr::is_opaque(upper_dir, &name)?;
            visit(&UpperEntry {
                path: &path,
                name: &name,
                meta,
                lower,
                opaque,
                is_within_opaque,
                upper_dir,
                lower_dir,
            })?;
            if !is_dir {
                continue;
            }
            if depth + 1 >= MAX_DEPTH {
                self.walked.too_deep += 1;
                continue;
            }
            let inner = node::open_dir(upper_dir, &name)?;
            let below = match (lower_dir, lower) {
                (Some(dir), Some(meta)) if meta.is(NodeKind::Directory) => open_below(dir, &name)?,
                _ => None,
            };
            let inside = (&path, is_within_opaque || opaque);
            let below = below.as_ref().map(AsFd::as_fd);
            self.directory(inside, inner.as_fd(), below, visit)?;
        }
        Ok(())
    }
}

/// A mount inside a real directory is not part of the overlay, so what is on it does not lie below the layer.
fn open_below(dir: BorrowedFd<'_>, name: &[u8]) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    match rustix::fs::openat2(dir, name, flags, Mode::empty(), resolve) {
        Ok(opened) => Ok(Some(opened)),
        Err(errno) if tree::is_no_way(&errno.into()) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn modes_path(set: &LayerSet, layer: usize) -> PathBuf {
    set.dir.join(layer.to_string()).join("modes")
}

/// Modes that a command gave and that keep us from reading: they are written down, then widened.
struct Modes {
    path: PathBuf,
    given: HashMap<RelPath, u32>,
}

impl Modes {
    fn read(path: PathBuf) -> io::Result<Self> {
        let mut given = HashMap::new();
        match fs::File::open(&path) {
            Ok(file) => {
                for line in BufReader::new(file).lines() {
                    // The last line is not whole after a kill; nothing was widened for it yet.
                    if let Ok((path, mode)) = serde_json::from_str::<(RelPath, u32)>(&line?) {
                        given.entry(path).or_insert(mode);
                    }
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self { path, given })
    }

    fn open_up(
        &mut self,
        dir: BorrowedFd<'_>,
        path: &RelPath,
        name: &[u8],
        meta: &mut NodeMeta,
    ) -> io::Result<()> {
        if let Some(mode) = self.given.get(path) {
            meta.mode = *mode;
            return Ok(());
        }
        let needed = match meta.kind {
            NodeKind::Directory => 0o700,
            NodeKind::File => 0o400,
            NodeKind::Symlink | NodeKind::Fifo | NodeKind::Socket | NodeKind::Device => {
                return Ok(());
            }
        };
        if meta.mode & needed == needed {
            return Ok(());
        }
        let line = serde_json::to_string(&(path, meta.mode))?;
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(&self.path)?;
        file.write_all(format!("\n{line}\n").as_bytes())?;
        file.sync_data()?;
        match node::set_mode(dir, name, meta.mode | needed) {
            // Somebody else's file, which a daemon of another user may not open up.
            Err(error) if Errno::from_io_error(&error) == Some(Errno::PERM) => {}
            done => done?,
        }
        self.given.insert(path.clone(), meta.mode);
        Ok(())
    }
}
