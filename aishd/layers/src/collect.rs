//! Reads what a plan is made of: the chosen paths of the layers, what they are now, and what lies below.

use std::io;

use crate::change_kind::ChangeKind;
use crate::changes::classify;
use crate::chosen::Chosen;
use crate::journal::LayerPlace;
use crate::keep::KeepError;
use crate::layer_set::{LayerSet, LayerStore};
use crate::node::{self, NodeKind};
use crate::plan::{self, KeepChoice, KeepPlan, PlanInput};
use crate::seal::{Sealed, print_below};
use crate::upper::{self, UpperEntry};
use crate::xattr;

/// A plan is held in memory, some hundred bytes for each path.
const MOST_PATHS: usize = 200_000;

impl LayerStore {
    /// What keeping these paths would do. Looks only; the layers must be sealed.
    pub fn plan(&self, set: &LayerSet, choice: &KeepChoice) -> Result<KeepPlan, KeepError> {
        let sealed = set.sealed().map_err(KeepError::io("read what lay below"))?;
        let sealed = sealed.ok_or(KeepError::NotSealed)?;
        let chosen = Chosen::new(choice);
        let mut inputs = Vec::new();
        for (number, layer) in set.manifest.layers.iter().enumerate() {
            let place =
                LayerPlace::new(set, number, layer).map_err(KeepError::io("look at a layer"))?;
            if place.open().is_err() {
                return Err(KeepError::LowerGone(layer.lower()));
            }
            let mut collect = |found: &UpperEntry<'_>| -> io::Result<()> {
                if inputs.len() <= MOST_PATHS
                    && let Some(kind) = kind_of(&chosen, number, found)?
                {
                    inputs.push(input(number, kind, found, &sealed, place.same_mount)?);
                }
                Ok(())
            };
            upper::walk(set, number, &mut collect).map_err(KeepError::io("read a layer"))?;
        }
        if inputs.len() > MOST_PATHS {
            return Err(KeepError::TooMany(MOST_PATHS));
        }
        Ok(plan::plan(inputs))
    }
}

/// `None`: nothing is to be done for it.
fn kind_of(
    chosen: &Chosen,
    layer: usize,
    found: &UpperEntry<'_>,
) -> io::Result<Option<ChangeKind>> {
    if chosen.has(layer, found.path) {
        // In a directory that took the place of another nothing is left of before: what is as before is made, too.
        let as_before = found.is_within_opaque.then_some(ChangeKind::Touched);
        return Ok(classify(found)?.or(as_before));
    }
    let is_way = found.meta.is(NodeKind::Directory) && chosen.is_above(layer, found.path);
    let is_there = found
        .lower
        .is_some_and(|lower| lower.is(NodeKind::Directory));
    if !is_way || is_there {
        return Ok(None);
    }
    classify(found)
}

fn input(
    layer: usize,
    kind: ChangeKind,
    found: &UpperEntry<'_>,
    sealed: &Sealed,
    same_mount: bool,
) -> io::Result<PlanInput> {
    let (dir, name) = (found.upper_dir, found.name);
    let is_dir = found.meta.is(NodeKind::Directory);
    let is_file = found.meta.is(NodeKind::File);
    let xattrs_now = match (is_dir, found.lower_dir, found.lower) {
        (true, Some(dir), Some(lower)) if lower.is(NodeKind::Directory) => {
            Some(xattr::kept_at(dir, name)?)
        }
        _ => None,
    };
    Ok(PlanInput {
        layer,
        path: found.path.clone(),
        kind,
        upper: found.meta,
        sealed: sealed.get(&(layer, found.path.clone())).cloned(),
        now: print_below(found)?,
        xattrs: if is_dir {
            Some(xattr::kept_at(dir, name)?)
        } else {
            None
        },
        xattrs_now,
        can_rename: same_mount && !(is_file && xattr::has_forbidden(dir, name)?),
        has_overlay_xattrs: is_file && xattr::has_overlay(dir, name)?,
        locked_parent: locked_parent(found)?,
    })
}

fn locked_parent(found: &UpperEntry<'_>) -> io::Result<Option<node::NodeMeta>> {
    let Some(dir) = found.lower_dir.filter(|_| !found.path.is_root()) else {
        return Ok(None);
    };
    let us = rustix::process::geteuid();
    let meta = node::meta_of(dir)?;
    let is_locked = meta.mode & 0o300 != 0o300 && meta.uid == us.as_raw() && !us.is_root();
    Ok(is_locked.then_some(meta))
}
