//! Makes ready what the steps of a keep move into place: new directories, copies where no rename reaches, and files
//! without what overlayfs left on them. Nothing real changes.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd as _;

use rustix::fs::{AtFlags, Mode};

use crate::copy::{copy_tree, sync_all};
use crate::journal::KeepJournal;
use crate::node::{self, NodeKind};
use crate::plan::Make;
use crate::rel_path::RelPath;
use crate::step::{KeepStep, Source, StepAct, StepSite, source_name};
use crate::tree::Tree;
use crate::xattr;

/// Up to so many files are synced one by one.
const FEW_FILES: usize = 4;

/// Files in the layer whose mode has to be another one for a moment, with the mode that they get back.
pub(crate) fn widened(
    steps: &[KeepStep],
    make: &BTreeMap<usize, Make>,
) -> Vec<(usize, RelPath, u32)> {
    let widened = make.iter().filter_map(|(number, make)| match make {
        Make::Strip { mode } if mode & 0o200 == 0 => {
            let step = &steps[*number];
            Some((step.layer, step.path.clone(), *mode))
        }
        _ => None,
    });
    widened.collect()
}

/// Makes all of it, tells each step the object that it moves, and has the data on the disk.
pub(crate) fn make_ready(
    journal: &mut KeepJournal,
    make: &BTreeMap<usize, Make>,
    sites: &[StepSite],
) -> io::Result<()> {
    let mut copied = BTreeSet::new();
    let mut moved = Vec::new();
    for (number, step) in journal.steps.iter_mut().enumerate() {
        let site = &sites[step.layer];
        let (from, new) = match &mut step.act {
            StepAct::Put { from, new } | StepAct::Exchange { from, new, .. } => (from, new),
            StepAct::Take { .. } | StepAct::Set { .. } => continue,
        };
        let name = source_name(from, number);
        let shop = (site.workshop.as_fd(), name.as_bytes());
        match make.get(&number) {
            Some(Make::Directory { xattrs }) => {
                rustix::fs::mkdirat(shop.0, shop.1, Mode::from_raw_mode(0o700))?;
                xattr::set_kept(shop.0, shop.1, xattrs)?;
                // An access list may have changed it.
                node::set_mode(shop.0, shop.1, 0o700)?;
            }
            Some(Make::Copy { mode }) => {
                let (dir, name) = in_layer(site, &step.path)?;
                copy_tree((dir.as_fd(), name), shop)?;
                let is_link =
                    node::meta_at(shop.0, shop.1)?.is_some_and(|meta| meta.is(NodeKind::Symlink));
                if !is_link {
                    node::set_mode(shop.0, shop.1, *mode)?;
                }
                copied.insert(step.layer);
            }
            Some(Make::LinkTo(first)) => {
                let first = source_name(from, *first);
                rustix::fs::linkat(shop.0, first, shop.0, shop.1, AtFlags::empty())?;
            }
            Some(Make::Strip { mode }) => {
                let (dir, name) = in_layer(site, &step.path)?;
                strip(dir.as_fd(), name, *mode)?;
                moved.push((step.layer, step.path.clone()));
            }
            None => moved.push((step.layer, step.path.clone())),
        }
        *new = Some(match from {
            Source::Layer => {
                let (dir, name) = in_layer(site, &step.path)?;
                let wanted = new.map_or(0, |meta| meta.mode);
                let is = node::meta_at(&*dir, name)?.ok_or(io::ErrorKind::NotFound)?;
                if is.is(NodeKind::File) && is.mode != wanted {
                    node::set_mode(&*dir, name, wanted)?;
                }
                node::meta_at(&*dir, name)?.ok_or(io::ErrorKind::NotFound)?
            }
            Source::Workshop | Source::TakenBack => {
                node::meta_at(shop.0, shop.1)?.ok_or(io::ErrorKind::NotFound)?
            }
        });
    }
    for layer in copied {
        sync_all(&sites[layer].workshop)?;
    }
    sync_moved(&moved, sites)
}

fn sync_moved(moved: &[(usize, RelPath)], sites: &[StepSite]) -> io::Result<()> {
    if moved.len() > FEW_FILES {
        let mut layers: Vec<_> = moved.iter().map(|(layer, _)| *layer).collect();
        layers.dedup();
        return layers
            .into_iter()
            .try_for_each(|layer| match &sites[layer].upper {
                Some(upper) => sync_all(upper.root()),
                None => Ok(()),
            });
    }
    for (layer, path) in moved {
        let (dir, name) = in_layer(&sites[*layer], path)?;
        let meta = node::meta_at(&*dir, name)?;
        if meta.is_some_and(|meta| meta.is(NodeKind::File)) {
            match node::open_file(&*dir, name) {
                Ok(file) => file.sync_all()?,
                // Its mode keeps us from it: then all together.
                Err(_unreadable) => sync_all(&*open_again(&dir)?)?,
            }
        }
    }
    Ok(())
}

fn open_again(dir: &std::os::fd::OwnedFd) -> io::Result<Box<std::os::fd::OwnedFd>> {
    node::open_dir(dir, b".").map(Box::new)
}

fn strip(dir: std::os::fd::BorrowedFd<'_>, name: &[u8], mode: u32) -> io::Result<()> {
    if mode & 0o600 != 0o600 {
        node::set_mode(dir, name, mode | 0o600)?;
    }
    xattr::strip_overlay(dir, name)?;
    if mode & 0o600 != 0o600 {
        node::set_mode(dir, name, mode)?;
    }
    Ok(())
}

/// Removes what was made ready in vain: modes of the layer are given back, workshops go with their directory.
pub(crate) fn unmake(journal: &KeepJournal, sites: &[StepSite]) -> io::Result<()> {
    for (layer, path, mode) in &journal.modes {
        if let Some(upper) = &sites[*layer].upper
            && let Some((dir, name)) = upper.place(path)?
            && node::meta_at(&*dir, name)?.is_some()
        {
            node::set_mode(&*dir, name, *mode)?;
        }
    }
    Ok(())
}

fn in_layer<'a>(
    site: &StepSite,
    path: &'a RelPath,
) -> io::Result<(std::rc::Rc<std::os::fd::OwnedFd>, &'a [u8])> {
    let gone = || io::Error::new(io::ErrorKind::NotFound, "the layer is not as it was");
    let upper: &Tree = site.upper.as_ref().ok_or_else(gone)?;
    upper.place(path)?.ok_or_else(gone)
}
