//! Dropping a part of what layers hold while they stay in use: what lies below is seen again there. Nothing real is touched.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;

use aishd_platform::failpoint;

use crate::changes::classify;
use crate::chosen::Chosen;
use crate::layer_set::LayerSet;
use crate::node;
use crate::plan::KeepChoice;
use crate::rel_path::RelPath;
use crate::remove::remove_at;
use crate::tree::Tree;
use crate::upper;

/// What was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Paths that would have changed.
    pub paths: u64,
}

impl LayerSet {
    /// Drops what the layers hold at these paths, and seals them. It can be done again after a kill: what is dropped stays so.
    pub fn drop_part(&self, choice: &KeepChoice) -> io::Result<Dropped> {
        let chosen = Chosen::new(choice);
        let mut dropped = Dropped::default();
        for layer in 0..self.layers() {
            let mut tops: Vec<RelPath> = vec![];
            upper::walk(self, layer, &mut |found| {
                if !chosen.has(layer, found.path) {
                    return Ok(());
                }
                dropped.paths += u64::from(classify(found)?.is_some());
                if tops.last().is_none_or(|it| !found.path.is_at_or_below(it)) {
                    tops.push(found.path.clone());
                }
                Ok(())
            })?;
            let upper = Tree::open(&self.upper(layer))?;
            for top in tops {
                failpoint::pass("layers.step");
                if top.is_root() {
                    self.empty(layer, &upper)?;
                } else if let Some((dir, name)) = upper.place(&top)? {
                    remove_at(dir.as_fd(), name)?;
                }
            }
        }
        failpoint::pass("layers.step");
        self.seal()?;
        Ok(dropped)
    }

    /// As it was made.
    fn empty(&self, layer: usize, upper: &Tree) -> io::Result<()> {
        for name in node::names(upper.root())? {
            remove_at(upper.root(), &name)?;
        }
        let lower = Tree::open(&self.lower(layer))?.root_meta()?;
        let mode = Permissions::from_mode(lower.mode | 0o700);
        fs::set_permissions(self.upper(layer), mode)
    }
}
