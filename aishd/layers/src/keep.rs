//! Keeping: the steps of a plan, done one after the other, so that a kill at any moment leaves a journal from which it goes
//! on or back.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};

use aishd_platform::failpoint;
use rustix::fs::{AtFlags, FlockOperation};

use crate::copy::{Copier, sync_all};
use crate::fingerprint::{Depth, Fingerprint};
use crate::journal::{self, KeepConflicts, KeepJournal, KeptRecord, LayerPlace};
use crate::layer_set::{LayerSet, LayerSetError, LayerStore, make_dirs, sync_dir};
use crate::node::{self, NodeKind, Stamp};
use crate::plan::{Conflict, KeepPlan};
use crate::ready;
use crate::rel_path::RelPath;
use crate::remove::{hide, remove_at, remove_at_once, remove_tree};
use crate::step::{ConflictReason, Ended, KeepStep, Source, StepAct, StepSite, stash_name};
use crate::tree;
use crate::xattr;

/// Up to so many directories are synced one by one.
const FEW_DIRS: usize = 4;

/// How to keep.
#[derive(Clone, Debug)]
pub struct KeepOptions {
    /// By which it is undone; new for each keep.
    pub undo_id: String,
    pub conflicts: KeepConflicts,
    /// Bytes of the disk that what is replaced or removed may take.
    pub undo_cap_bytes: u64,
    pub beyond_cap: BeyondCap,
    pub kept_at_ms: i64,
}

/// What to do when being able to undo it costs more than the cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeyondCap {
    /// It is kept without: an undo refuses.
    GoWithoutUndo,
    /// The person wants it whatever it costs.
    PayForUndo,
}

/// What was kept.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    /// Steps that were done.
    pub done: usize,
    /// What was left out because somebody else changed it.
    pub conflicts: Vec<Conflict>,
    /// Sockets and devices, which were left behind.
    pub not_kept: Vec<(usize, RelPath)>,
    /// Bytes of the disk held for an undo; `None`: they were more than the cap, and it cannot be undone.
    pub undo_bytes: Option<u64>,
}

#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error("the layers are not sealed")]
    NotSealed,
    #[error("more than {0} paths")]
    TooMany(usize),
    #[error("{} is another directory now", .0.display())]
    LowerGone(PathBuf),
    #[error("somebody else changed {} of the paths", .0.len())]
    Conflicts(Vec<Conflict>),
    #[error("a keep {0} exists already")]
    Exists(String),
    /// All is as before, but for these paths, which somebody changed while it went back.
    #[error("keep the changes; all is as it was before")]
    WentBack {
        left: Vec<RelPath>,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Set(#[from] LayerSetError),
    /// Where steps were begun, recovery goes on.
    #[error("{action}")]
    Io {
        action: &'static str,
        #[source]
        source: io::Error,
    },
}

impl KeepError {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

/// How doing the steps ended.
#[derive(Debug)]
pub(crate) enum Applied {
    Whole {
        left_out: Vec<(usize, ConflictReason)>,
    },
    WentBack {
        left: Vec<RelPath>,
        cause: Cause,
    },
}

#[derive(Debug)]
pub(crate) enum Cause {
    Conflict(usize, ConflictReason),
    Failed(io::Error),
}

impl LayerStore {
    /// Does what was planned. Returns once it is on the disk.
    pub fn keep(
        &self,
        set: &LayerSet,
        plan: &KeepPlan,
        options: &KeepOptions,
    ) -> Result<Kept, KeepError> {
        let _one_at_a_time = self.lock().map_err(KeepError::io("lock the layers"))?;
        if options.conflicts == KeepConflicts::Refuse && !plan.conflicts.is_empty() {
            return Err(KeepError::Conflicts(plan.conflicts.clone()));
        }
        let dir = self.undo_dir(&options.undo_id)?;
        if dir.exists() {
            return Err(KeepError::Exists(options.undo_id.clone()));
        }
        let places = set.manifest.layers.iter().enumerate();
        let places = places.map(|(number, layer)| LayerPlace::new(set, number, layer));
        let places = places
            .collect::<io::Result<Vec<_>>>()
            .map_err(KeepError::io("look at the layers"))?;
        let mut journal = KeepJournal::new(
            places,
            plan.steps.clone(),
            options.conflicts,
            options.kept_at_ms,
        );
        journal.undo_bytes = plan.undo_bytes;
        journal.undo_cap_bytes = match options.beyond_cap {
            BeyondCap::GoWithoutUndo => Some(options.undo_cap_bytes),
            BeyondCap::PayForUndo => None,
        };
        journal.modes = ready::widened(&plan.steps, &plan.make);
        let (sites, applied) = begin_and_apply(&dir, &mut journal, |journal, sites| {
            ready::make_ready(journal, &plan.make, sites)
        })?;
        report(plan, &journal, &sites, applied)
    }

    /// Two keeps at once would each take the other for somebody else.
    pub(crate) fn lock(&self) -> io::Result<fs::File> {
        let file = fs::File::open(self.root.join("undo"))?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        Ok(file)
    }
}

fn report(
    plan: &KeepPlan,
    journal: &KeepJournal,
    sites: &[StepSite],
    applied: Applied,
) -> Result<Kept, KeepError> {
    let conflict = |number: usize, why| {
        let step: &KeepStep = &journal.steps[number];
        let ours = match &step.act {
            StepAct::Put { new, .. } | StepAct::Exchange { new, .. } => *new,
            StepAct::Take { .. } | StepAct::Set { .. } => None,
        };
        Conflict {
            layer: step.layer,
            path: step.path.clone(),
            why,
            ours,
            theirs: sites[step.layer].lower.meta(&step.path).ok().flatten(),
        }
    };
    match applied {
        Applied::Whole { left_out } => {
            let mut conflicts = plan.conflicts.clone();
            conflicts.extend(left_out.iter().map(|(number, why)| conflict(*number, *why)));
            let affordable = journal
                .undo_cap_bytes
                .is_none_or(|cap| journal.undo_bytes <= cap);
            Ok(Kept {
                done: journal.steps.len() - left_out.len(),
                conflicts,
                not_kept: plan.not_kept.clone(),
                undo_bytes: affordable.then_some(journal.undo_bytes),
            })
        }
        Applied::WentBack {
            cause: Cause::Conflict(number, why),
            left,
        } if left.is_empty() => Err(KeepError::Conflicts(vec![conflict(number, why)])),
        Applied::WentBack { cause, left } => {
            let source = match cause {
                Cause::Failed(source) => source,
                Cause::Conflict(..) => io::Error::other("somebody else changed a path"),
            };
            Err(KeepError::WentBack { left, source })
        }
    }
}

/// Does the steps once what they move is made ready; where that fails, nothing was begun.
pub(crate) fn begin_and_apply(
    dir: &Path,
    journal: &mut KeepJournal,
    make_ready: impl FnOnce(&mut KeepJournal, &[StepSite]) -> io::Result<()>,
) -> Result<(Vec<StepSite>, Applied), KeepError> {
    match begin(dir, journal, make_ready) {
        Ok(sites) => {
            let applied = apply(dir, journal, &sites).map_err(KeepError::io("keep the changes"))?;
            Ok((sites, applied))
        }
        Err(source) => {
            abandon(dir, journal).map_err(KeepError::io("remove what was made ready"))?;
            Err(KeepError::WentBack {
                left: Vec::new(),
                source,
            })
        }
    }
}

fn begin(
    dir: &Path,
    journal: &mut KeepJournal,
    make_ready: impl FnOnce(&mut KeepJournal, &[StepSite]) -> io::Result<()>,
) -> io::Result<Vec<StepSite>> {
    make_dirs(dir)?;
    failpoint::pass("layers.step");
    let leaves_traces =
        !journal.modes.is_empty() || journal.places.iter().any(|place| !place.same_mount);
    if leaves_traces {
        journal::write_json(&dir.join("begun.json"), journal)?;
    }
    // Before a workshop changes the time of a root.
    journal.parents = parents(journal)?;
    let sites = journal.sites(dir)?;
    failpoint::pass("layers.step");
    make_ready(journal, &sites)?;
    failpoint::pass("layers.step");
    journal::write_json(&dir.join("steps.json"), journal)?;
    sync_dir(dir.parent().unwrap_or(dir))?;
    failpoint::pass("layers.step");
    Ok(sites)
}

/// Existing directories in which something changes, with their times.
fn parents(journal: &KeepJournal) -> io::Result<Vec<(usize, RelPath, Stamp)>> {
    let mut known = HashSet::new();
    let mut parents = Vec::new();
    for (layer, place) in journal.places.iter().enumerate() {
        let lower = place.open()?;
        let own = journal.steps.iter().filter(|step| step.layer == layer);
        let is_idle = own.clone().next().is_none();
        let mut paths: Vec<_> = own
            .filter_map(|step| step.path.split())
            .map(|(parent, _)| parent)
            .collect();
        if !place.same_mount && !is_idle {
            paths.push(RelPath::default());
        }
        for path in paths {
            if known.insert((layer, path.clone()))
                && let Some(meta) = lower.meta(&path)?
            {
                parents.push((layer, path, meta.modified));
            }
        }
    }
    Ok(parents)
}

/// Nothing real was changed yet.
pub(crate) fn abandon(dir: &Path, journal: &KeepJournal) -> io::Result<()> {
    ready::unmake(journal, &journal.sites(dir)?)?;
    journal.remove_workshops(dir)?;
    remove_at_once(dir)
}

/// Does all steps, and finishes: whole, or as before.
pub(crate) fn apply(dir: &Path, journal: &KeepJournal, sites: &[StepSite]) -> io::Result<Applied> {
    let mut left_out: Vec<(usize, ConflictReason)> = Vec::new();
    for (number, step) in journal.steps.iter().enumerate() {
        let blocked = left_out.iter().find(|(other, _)| {
            let other = &journal.steps[*other];
            other.layer == step.layer && step.path.is_at_or_below(&other.path)
        });
        if let Some((_, why)) = blocked {
            left_out.push((number, *why));
            continue;
        }
        let cause = match sites[step.layer].apply(number, step) {
            Ok(Ended::Done) => continue,
            Ok(Ended::Conflict(why)) if journal.conflicts == KeepConflicts::KeepTheRest => {
                left_out.push((number, why));
                continue;
            }
            Ok(Ended::Conflict(why)) => Cause::Conflict(number, why),
            Err(error) => Cause::Failed(error),
        };
        journal::mark(&dir.join("back"))?;
        let left = go_back(dir, journal, sites)?;
        return Ok(Applied::WentBack { left, cause });
    }
    sync_parents(journal, sites)?;
    failpoint::pass("layers.step");
    finish(dir, journal, sites, &left_out)?;
    Ok(Applied::Whole { left_out })
}

/// Takes all steps back. Paths that somebody changed meanwhile are left as they are, and so is what was stashed of them.
pub(crate) fn go_back(
    dir: &Path,
    journal: &KeepJournal,
    sites: &[StepSite],
) -> io::Result<Vec<RelPath>> {
    failpoint::pass("layers.step");
    let mut left = Vec::new();
    for (number, step) in journal.steps.iter().enumerate().rev() {
        match sites[step.layer].unapply(number, step)? {
            Ended::Done => {}
            // Nobody knows whether these attributes were set by us at all.
            Ended::Conflict(_) if matches!(step.act, StepAct::Set { .. }) => {}
            Ended::Conflict(_) => left.push(step.path.clone()),
        }
    }
    ready::unmake(journal, sites)?;
    sync_parents(journal, sites)?;
    failpoint::pass("layers.step");
    if left.is_empty() {
        journal.remove_workshops(dir)?;
        remove_at_once(dir)?;
    }
    Ok(left)
}

fn finish(
    dir: &Path,
    journal: &KeepJournal,
    sites: &[StepSite],
    left_out: &[(usize, ConflictReason)],
) -> io::Result<()> {
    let left_out: Vec<_> = left_out.iter().map(|(number, _)| *number).collect();
    let undo_dropped = journal
        .undo_cap_bytes
        .is_some_and(|cap| journal.undo_bytes > cap);
    if !undo_dropped {
        stow(dir, journal, sites, stash_name)?;
    }
    let mut record = KeptRecord {
        after: Vec::with_capacity(journal.steps.len()),
        left_out,
        parents: Vec::with_capacity(journal.parents.len()),
        undo_dropped,
    };
    for (number, step) in journal.steps.iter().enumerate() {
        let is_out = record.left_out.binary_search(&number).is_ok();
        let after = match tree::if_allowed(sites[step.layer].lower.place(&step.path))? {
            Some((dir, name)) if !is_out => {
                tree::if_allowed(Fingerprint::take(&*dir, name, Depth::Itself))?
            }
            _ => None,
        };
        record.after.push(after);
    }
    for (layer, path, _) in &journal.parents {
        let meta = tree::if_allowed(sites[*layer].lower.meta(path))?;
        record.parents.push(meta.map(|meta| meta.modified));
    }
    journal::write_json(&dir.join("kept.json"), &record)?;
    failpoint::pass("layers.step");
    tidy(dir, journal, sites, &record)
}

/// What is kept leaves the layer, so that it can be read or mounted again, or the undo that it redoes. Can be done again after
/// a kill.
pub(crate) fn tidy(
    dir: &Path,
    journal: &KeepJournal,
    sites: &[StepSite],
    record: &KeptRecord,
) -> io::Result<()> {
    for (number, step) in journal.steps.iter().enumerate().rev() {
        if record.left_out.binary_search(&number).is_err()
            && let Some(upper) = &sites[step.layer].upper
            && let Some((dir, name)) = upper.place(&step.path)?
        {
            tidy_step(step, dir.as_fd(), name)?;
        }
    }
    if record.undo_dropped {
        for (number, step) in journal.steps.iter().enumerate() {
            remove_at(
                sites[step.layer].workshop.as_fd(),
                stash_name(number).as_bytes(),
            )?;
        }
    }
    journal.remove_workshops(dir)?;
    if let Some(undone) = &journal.redoes {
        hide(&dir.with_file_name(undone))?;
    }
    fs::File::create(dir.join("tidied")).map(drop)
}

fn tidy_step(step: &KeepStep, dir: std::os::fd::BorrowedFd<'_>, name: &[u8]) -> io::Result<()> {
    let Some(meta) = node::meta_at(dir, name)? else {
        return Ok(());
    };
    let is_dir = meta.is(NodeKind::Directory);
    match &step.act {
        StepAct::Take { .. } if !meta.is_whiteout() => Ok(()),
        StepAct::Put {
            from: Source::Layer,
            ..
        }
        | StepAct::Exchange {
            from: Source::Layer,
            ..
        } => Ok(()),
        StepAct::Set { .. } if is_dir => Ok(()),
        StepAct::Put { .. } | StepAct::Exchange { .. } if is_dir => {
            match rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR) {
                // Something in it was not kept: from now on it lies over the real directory.
                Err(rustix::io::Errno::NOTEMPTY) => xattr::strip_overlay(dir, name),
                done => Ok(done?),
            }
        }
        StepAct::Put { .. }
        | StepAct::Exchange { .. }
        | StepAct::Take { .. }
        | StepAct::Set { .. } => Ok(rustix::fs::unlinkat(dir, name, AtFlags::empty())?),
    }
}

/// From a workshop in a real directory, what a step left there under this name is copied to the state.
pub(crate) fn stow(
    dir: &Path,
    journal: &KeepJournal,
    sites: &[StepSite],
    name_of: impl Fn(usize) -> String,
) -> io::Result<()> {
    for (layer, place) in journal.places.iter().enumerate() {
        if place.same_mount {
            continue;
        }
        let stow = dir.join(layer.to_string());
        remove_tree(&stow)?;
        make_dirs(&stow)?;
        let stow = node::open_dir(
            rustix::fs::CWD,
            std::os::unix::ffi::OsStrExt::as_bytes(stow.as_os_str()),
        )?;
        let mut copier = Copier::default();
        for number in
            (0..journal.steps.len()).filter(|number| journal.steps[*number].layer == layer)
        {
            let name = name_of(number);
            let shop = (sites[layer].workshop.as_fd(), name.as_bytes());
            if node::meta_at(shop.0, shop.1)?.is_some() {
                copier.copy(shop, (stow.as_fd(), name.as_bytes()))?;
            }
        }
        sync_all(&stow)?;
    }
    Ok(())
}

fn sync_parents(journal: &KeepJournal, sites: &[StepSite]) -> io::Result<()> {
    if journal.parents.len() > FEW_DIRS {
        return sites
            .iter()
            .try_for_each(|site| sync_all(site.lower.root()));
    }
    for (layer, path, _) in &journal.parents {
        match sites[*layer].lower.dir(path) {
            Ok(dir) => match node::open_dir(&*dir, b".") {
                Ok(dir) => rustix::fs::fsync(dir)?,
                Err(_shut) => sync_all(sites[*layer].lower.root())?,
            },
            Err(error) if tree::is_no_way(&error) => {}
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                sync_all(sites[*layer].lower.root())?;
            }
            Err(error) => return Err(error),
        }
    }
    sites
        .iter()
        .try_for_each(|site| Ok(rustix::fs::fsync(&site.workshop)?))
}
