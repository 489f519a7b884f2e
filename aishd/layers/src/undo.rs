//! Taking back what was kept: every byte, mode, link and time, unless somebody changed it since.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use aishd_platform::failpoint;

use crate::copy::{Copier, set_modified};
use crate::fingerprint::{Depth, Fingerprint};
use crate::journal::{self, KeepJournal, KeepPhase, KeptRecord, LayerPlace, TakenRecord};
use crate::keep;
use crate::layer_set::{LayerSetError, LayerStore, ids_in};
use crate::node::{self, Stamp};
use crate::plan::Conflict;
use crate::rel_path::RelPath;
use crate::remove::{hide, remove_at_once, remove_hidden};
use crate::step::{
    ConflictReason, Ended, KeepStep, Source, StepAct, StepSite, source_name, stash_name,
};
use crate::tree::{self, Tree};

/// A keep that may be undone, or that was and may be done again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UndoEntry {
    pub id: String,
    pub kept_at_ms: i64,
    /// Bytes of the disk that it costs.
    pub undo_bytes: u64,
    /// What was there is gone: it was more than the cap.
    pub dropped: bool,
    /// What was taken back waits for a redo.
    pub undone_at_ms: Option<i64>,
}

#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    #[error("no keep {0}")]
    Missing(String),
    #[error("what was there before took {bytes} bytes, more than the cap, and was not held")]
    Dropped { bytes: u64 },
    #[error("somebody else changed {} of the paths since", .0.len())]
    Conflicts(Vec<Conflict>),
    #[error("keep {0} was not finished; recover first")]
    Unfinished(String),
    #[error(transparent)]
    Set(#[from] LayerSetError),
    /// All is as it was before the wish, but for these paths, which somebody changed while it went back.
    #[error("nothing is changed, but for {} paths that somebody else changed meanwhile", .left.len())]
    WentBack {
        left: Vec<RelPath>,
        #[source]
        source: io::Error,
    },
    /// Where it had begun, recovery goes on.
    #[error("{action}")]
    Io {
        action: &'static str,
        #[source]
        source: io::Error,
    },
}

impl UndoError {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

/// An undo that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Undone {
    pub paths: u64,
    pub redo: Redoable,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redoable {
    Yes,
    /// What was taken back was more than the cap, or could not be held.
    No,
}

/// How an undo ended.
#[derive(Debug)]
pub(crate) enum TakenBack {
    /// Whether it can be done again.
    Whole(Redoable),
    /// All is as it was kept.
    Refused(Vec<Conflict>),
}

impl LayerStore {
    /// Takes a keep back, whole or not at all, and says how many paths that were. What was taken back waits for a redo, unless
    /// it is more than the cap that the keep had; then it leaves the disk with the next [`LayerStore::sweep`].
    pub fn undo(&self, undo_id: &str) -> Result<Undone, UndoError> {
        let _one_at_a_time = self.lock().map_err(UndoError::io("lock the layers"))?;
        let dir = self.undo_dir(undo_id)?;
        match KeepPhase::of(&dir) {
            Some(KeepPhase::Kept) => {}
            None | Some(KeepPhase::Undone) => return Err(UndoError::Missing(undo_id.to_owned())),
            Some(
                KeepPhase::Begun
                | KeepPhase::Applying
                | KeepPhase::GoingBack
                | KeepPhase::Undoing
                | KeepPhase::UndoGoingBack,
            ) => {
                return Err(UndoError::Unfinished(undo_id.to_owned()));
            }
        }
        let read = UndoError::io("read what was kept");
        let (mut journal, kept) = read_kept(&dir).map_err(read)?;
        if kept.undo_dropped {
            return Err(UndoError::Dropped {
                bytes: journal.undo_bytes,
            });
        }
        let sites = journal
            .sites(&dir)
            .map_err(UndoError::io("reach the real directories"))?;
        let conflicts = changed_since(&mut journal, &kept, &sites)
            .map_err(UndoError::io("look at what was kept"))?;
        if !conflicts.is_empty() {
            journal
                .remove_workshops(&dir)
                .map_err(UndoError::io("tidy up"))?;
            return Err(UndoError::Conflicts(conflicts));
        }
        let mut work = || -> io::Result<TakenBack> {
            prepare(&dir, &mut journal, &kept, &sites)?;
            take_back(&dir, &journal, &kept, &sites)
        };
        match work().map_err(UndoError::io("take back what was kept"))? {
            TakenBack::Whole(redo) => Ok(Undone {
                paths: paths(&journal),
                redo,
            }),
            TakenBack::Refused(conflicts) => Err(UndoError::Conflicts(conflicts)),
        }
    }

    /// Removes what is no longer needed. It may take seconds, and nobody has to wait for it: no lock is held.
    pub fn sweep(&self) -> Result<(), UndoError> {
        for dir in ["layers", "undo"] {
            remove_hidden(&self.root.join(dir)).map_err(UndoError::io("remove what was undone"))?;
        }
        Ok(())
    }

    /// All keeps and undos that are finished, sorted by id.
    pub fn undo_entries(&self) -> Result<Vec<UndoEntry>, UndoError> {
        let list = || -> io::Result<Vec<UndoEntry>> {
            let mut entries = Vec::new();
            for id in ids_in(&self.root.join("undo"))? {
                let dir = self.root.join("undo").join(&id);
                let undone_at_ms = match KeepPhase::of(&dir) {
                    Some(KeepPhase::Kept) => None,
                    Some(KeepPhase::Undone) if is_settled(&dir) => Some(undone_at(&dir)),
                    _ => continue,
                };
                let (journal, kept) = match read_kept(&dir) {
                    Ok(read) => read,
                    // Somebody removes it meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                };
                entries.push(UndoEntry {
                    id,
                    kept_at_ms: journal.kept_at_ms,
                    undo_bytes: journal.undo_bytes,
                    dropped: kept.undo_dropped,
                    undone_at_ms,
                });
            }
            Ok(entries)
        };
        list().map_err(UndoError::io("list what was kept"))
    }

    /// The real directories that a keep changed, in the order in which conflicts number them; none where it cannot be read.
    pub fn lowers_of(&self, undo_id: &str) -> Vec<PathBuf> {
        let journal = self.undo_dir(undo_id).ok().and_then(|dir| {
            let journals = ["undo.json", "steps.json"];
            journals
                .iter()
                .find_map(|it| KeepJournal::read(&dir.join(it)).ok())
        });
        let places = journal.map(|it| it.places).unwrap_or_default();
        places.iter().map(LayerPlace::lower).collect()
    }

    /// What an undo took back is not wanted any more.
    pub fn forget_undone(&self, id: &str) -> Result<(), UndoError> {
        let _one_at_a_time = self.lock().map_err(UndoError::io("lock the layers"))?;
        let dir = self.undo_dir(id)?;
        if KeepPhase::of(&dir) != Some(KeepPhase::Undone) {
            return Err(UndoError::Missing(id.to_owned()));
        }
        let hidden = hide(&dir).map(drop);
        hidden.map_err(UndoError::io("remove what was taken back"))
    }

    /// Forgets keeps from before this time, and says which. What is not finished stays.
    pub fn expire(&self, older_than_ms: i64) -> Result<Vec<String>, UndoError> {
        let _one_at_a_time = self.lock().map_err(UndoError::io("lock the layers"))?;
        let mut expired = Vec::new();
        for entry in self.undo_entries()? {
            if entry.kept_at_ms < older_than_ms {
                let dir = self.undo_dir(&entry.id)?;
                remove_at_once(&dir).map_err(UndoError::io("remove what was kept for an undo"))?;
                expired.push(entry.id);
            }
        }
        Ok(expired)
    }
}

/// Those that the undo touches, each once.
pub(crate) fn paths(journal: &KeepJournal) -> u64 {
    let steps = journal.steps.iter().filter(|it| !is_nothing(it));
    let paths: BTreeSet<_> = steps.map(|it| (it.layer, &it.path)).collect();
    paths.len() as u64
}

/// The mark is written once.
fn undone_at(dir: &Path) -> i64 {
    let modified = fs::metadata(dir.join("undone")).and_then(|it| it.modified());
    let modified = modified.unwrap_or(UNIX_EPOCH);
    let since = modified.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn is_settled(dir: &Path) -> bool {
    dir.join("settled").exists()
}

fn read_kept(dir: &Path) -> io::Result<(KeepJournal, KeptRecord)> {
    Ok((
        KeepJournal::read(&dir.join("steps.json"))?,
        journal::read_json(&dir.join("kept.json"))?,
    ))
}

/// Compared before anything is touched: in most cases this is the only look that finds something. What is there as it was kept
/// is what the steps go by from now on: an undo of a later keep may have put back a copy of it.
fn changed_since(
    journal: &mut KeepJournal,
    kept: &KeptRecord,
    sites: &[StepSite],
) -> io::Result<Vec<Conflict>> {
    let mut conflicts = Vec::new();
    for (number, step) in journal.steps.iter_mut().enumerate() {
        if kept.left_out.binary_search(&number).is_ok() {
            continue;
        }
        let now = stands_at(step, &sites[step.layer].lower, Depth::Itself)?;
        conflicts.extend(conflict(step, kept.after[number].as_ref(), now.as_ref()));
        if let (StepAct::Put { new, .. } | StepAct::Exchange { new, .. }, Some(now)) =
            (&mut step.act, now)
        {
            *new = Some(now.meta);
        }
    }
    Ok(conflicts)
}

pub(crate) fn stands_at(
    step: &KeepStep,
    lower: &Tree,
    depth: Depth,
) -> io::Result<Option<Fingerprint>> {
    match tree::if_allowed(lower.place(&step.path))? {
        Some((dir, name)) => tree::if_allowed(Fingerprint::take(&*dir, name, depth)),
        None => Ok(None),
    }
}

/// Whether somebody else was at the path of a step.
pub(crate) fn conflict(
    step: &KeepStep,
    then: Option<&Fingerprint>,
    now: Option<&Fingerprint>,
) -> Option<Conflict> {
    let why = match (then, now) {
        (None, None) => return None,
        (Some(then), Some(now)) if then.is_as_left(now) => return None,
        (Some(_), Some(_)) => ConflictReason::ChangedSince,
        (Some(_), None) => ConflictReason::Vanished,
        (None, Some(_)) => ConflictReason::Appeared,
    };
    Some(Conflict {
        layer: step.layer,
        path: step.path.clone(),
        why,
        ours: then.map(|then| then.meta),
        theirs: now.map(|now| now.meta),
    })
}

/// The steps as an undo sees them: what was new goes to the workshop, and what was there waits in it.
fn prepare(
    dir: &Path,
    journal: &mut KeepJournal,
    kept: &KeptRecord,
    sites: &[StepSite],
) -> io::Result<()> {
    // Those that were left out are no steps of the undo. Numbers are names, so they stay.
    for number in &kept.left_out {
        let step = &mut journal.steps[*number];
        let nothing = crate::step::Attributes::nothing();
        step.act = StepAct::Set {
            before: nothing.clone(),
            after: nothing,
        };
    }
    // What are names of one file in the state stay that.
    let mut copiers: BTreeMap<usize, Copier> = BTreeMap::new();
    for (number, step) in journal.steps.iter_mut().enumerate() {
        let same_mount = journal.places[step.layer].same_mount;
        let copier = copiers.entry(step.layer).or_default();
        match &mut step.act {
            StepAct::Put { from, .. } => *from = Source::TakenBack,
            StepAct::Exchange { from, old, .. } => {
                *from = Source::TakenBack;
                if !same_mount {
                    old.meta = bring(dir, number, &sites[step.layer], step.layer, copier)?;
                }
            }
            StepAct::Take { old } if !same_mount => {
                old.meta = bring(dir, number, &sites[step.layer], step.layer, copier)?;
            }
            StepAct::Take { .. } | StepAct::Set { .. } => {}
        }
    }
    for (layer, place) in journal.places.iter().enumerate() {
        if !place.same_mount {
            crate::copy::sync_all(&sites[layer].workshop)?;
        }
    }
    journal::write_json(&dir.join("undo.json"), journal)?;
    failpoint::pass("layers.step");
    Ok(())
}

/// From the state to where a rename reaches the real directory.
fn bring(
    dir: &Path,
    number: usize,
    site: &StepSite,
    layer: usize,
    copier: &mut Copier,
) -> io::Result<node::NodeMeta> {
    use std::os::unix::ffi::OsStrExt as _;
    let name = stash_name(number);
    let stow = dir.join(layer.to_string());
    let stow = node::open_dir(rustix::fs::CWD, stow.as_os_str().as_bytes())?;
    let shop = (site.workshop.as_fd(), name.as_bytes());
    crate::remove::remove_at(shop.0, shop.1)?;
    copier.copy((stow.as_fd(), name.as_bytes()), shop)?;
    Ok(node::meta_at(shop.0, shop.1)?.ok_or(io::ErrorKind::NotFound)?)
}

/// Does the undo, from wherever it stands.
pub(crate) fn take_back(
    dir: &Path,
    journal: &KeepJournal,
    kept: &KeptRecord,
    sites: &[StepSite],
) -> io::Result<TakenBack> {
    // Times of directories, before any of them changes by what is done here.
    let mut times = Vec::new();
    for ((layer, path, before), after) in journal.parents.iter().zip(&kept.parents) {
        let now = tree::if_allowed(sites[*layer].lower.meta(path))?.map(|meta| meta.modified);
        let resumed = dir.join("undo-times").exists();
        // A workshop in a root has changed its time.
        let ours = path.is_root() && !journal.places[*layer].same_mount;
        if resumed || ours || (now.is_some() && now == *after) {
            times.push((*layer, path, *before));
        }
    }
    fs::File::create(dir.join("undo-times"))?;
    for (number, step) in journal.steps.iter().enumerate().rev() {
        if is_nothing(step) {
            continue;
        }
        if let Ended::Conflict(why) = sites[step.layer].unapply(number, step)? {
            journal::mark(&dir.join("undo-back"))?;
            let conflict = Conflict {
                layer: step.layer,
                path: step.path.clone(),
                why,
                ours: kept.after[number].as_ref().map(|then| then.meta),
                theirs: sites[step.layer].lower.meta(&step.path)?,
            };
            keep_again(dir, journal, sites)?;
            return Ok(TakenBack::Refused(vec![conflict]));
        }
    }
    let lowers = journal.lowers()?;
    set_times(&times, &lowers)?;
    sites
        .iter()
        .try_for_each(|site| crate::copy::sync_all(site.lower.root()))?;
    failpoint::pass("layers.step");
    let left = journal.steps.iter();
    let left = left.map(|step| stands_at(step, &lowers[step.layer], depth_of(step)));
    let left = left.collect::<io::Result<_>>()?;
    journal::write_json(&dir.join("taken.json"), &TakenRecord { left })?;
    failpoint::pass("layers.step");
    journal::mark(&dir.join("undone"))?;
    failpoint::pass("layers.step");
    let redo = settle(dir, journal)?;
    // Where a workshop went from.
    times.retain(|(_, path, _)| path.is_root());
    set_times(&times, &lowers)?;
    Ok(TakenBack::Whole(redo))
}

/// A directory that a redo would take as a whole is looked at as a whole.
pub(crate) fn depth_of(step: &KeepStep) -> Depth {
    match &step.act {
        StepAct::Exchange { old, .. } | StepAct::Take { old } if old.inside.is_some() => {
            Depth::LooksInside
        }
        StepAct::Put { .. }
        | StepAct::Exchange { .. }
        | StepAct::Take { .. }
        | StepAct::Set { .. } => Depth::Itself,
    }
}

pub(crate) fn taken_name(step: usize) -> String {
    source_name(&Source::TakenBack, step)
}

/// What was taken back waits in the state, and nothing of it stays in the real directories. Can be done again after a kill. The
/// undo itself is done, so what cannot be held is let go.
pub(crate) fn settle(dir: &Path, journal: &KeepJournal) -> io::Result<Redoable> {
    let new = journal.steps.iter().filter_map(|step| match &step.act {
        StepAct::Put { new, .. } | StepAct::Exchange { new, .. } => new.as_ref(),
        StepAct::Take { .. } | StepAct::Set { .. } => None,
    });
    let bytes: u64 = new.map(|it| it.stored).sum();
    let is_dear = journal.undo_cap_bytes.is_some_and(|cap| bytes > cap);
    // What an earlier version undid has no record of what it left.
    if is_dear || !dir.join("taken.json").exists() || stow_taken(dir, journal).is_err() {
        journal.remove_workshops(dir)?;
        hide(dir)?;
        return Ok(Redoable::No);
    }
    failpoint::pass("layers.step");
    journal.remove_workshops(dir)?;
    failpoint::pass("layers.step");
    fs::File::create(dir.join("settled"))?;
    Ok(Redoable::Yes)
}

fn stow_taken(dir: &Path, journal: &KeepJournal) -> io::Result<()> {
    let stowed = dir.join("stowed");
    if stowed.exists() {
        return Ok(());
    }
    keep::stow(dir, journal, &journal.sites(dir)?, taken_name)?;
    journal::mark(&stowed)
}

fn set_times(times: &[(usize, &RelPath, Stamp)], lowers: &[Tree]) -> io::Result<()> {
    for (layer, path, before) in times {
        if let Some((place, name)) = lowers[*layer].place(path)?
            && node::meta_at(&*place, name)?.is_some()
        {
            set_modified((place.as_fd(), name), *before)?;
        }
    }
    Ok(())
}

/// An undo that somebody came in the way of: all is kept as it was.
pub(crate) fn keep_again(dir: &Path, journal: &KeepJournal, sites: &[StepSite]) -> io::Result<()> {
    for (number, step) in journal.steps.iter().enumerate() {
        if !is_nothing(step) {
            let _theirs_stays = sites[step.layer].apply(number, step)?;
        }
    }
    sites
        .iter()
        .try_for_each(|site| crate::copy::sync_all(site.lower.root()))?;
    journal::unmark(&dir.join("undo-times"))?;
    journal::unmark(&dir.join("undo.json"))?;
    journal.remove_workshops(dir)?;
    journal::unmark(&dir.join("undo-back"))
}

pub(crate) fn is_nothing(step: &KeepStep) -> bool {
    matches!(&step.act, StepAct::Set { before, .. } if *before == crate::step::Attributes::nothing())
}
