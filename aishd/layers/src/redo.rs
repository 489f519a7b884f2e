//! Doing again what was undone: a keep like others, of what the undo took back.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use crate::copy::{Copier, sync_all};
use crate::journal::{self, KeepConflicts, KeepJournal, KeepPhase, LayerPlace, TakenRecord};
use crate::keep::{self, Applied, Cause, KeepError};
use crate::layer_set::LayerStore;
use crate::node;
use crate::plan::Conflict;
use crate::step::{Source, StepAct, StepSite, source_name};
use crate::undo::{self, UndoError};

impl LayerStore {
    /// Keeps once more what an undo took back, whole or not at all, and says how many paths that were. The keep has the new id,
    /// and can be undone; of the old one nothing is left.
    ///
    /// Nothing is touched where anything is not what the undo left there.
    pub fn redo(&self, undone: &str, id: &str, now_ms: i64) -> Result<u64, UndoError> {
        let _one_at_a_time = self.lock().map_err(UndoError::io("lock the layers"))?;
        let from = self.undo_dir(undone)?;
        match KeepPhase::of(&from) {
            Some(KeepPhase::Undone) if undo::is_settled(&from) => {}
            Some(KeepPhase::Undone | KeepPhase::Undoing | KeepPhase::UndoGoingBack) => {
                return Err(UndoError::Unfinished(undone.to_owned()));
            }
            None
            | Some(
                KeepPhase::Begun | KeepPhase::Applying | KeepPhase::GoingBack | KeepPhase::Kept,
            ) => return Err(UndoError::Missing(undone.to_owned())),
        }
        let (mut journal, numbers) =
            again(&from, undone, now_ms).map_err(UndoError::io("read what was taken back"))?;
        let conflicts = in_the_way(&from, &mut journal, &numbers)
            .map_err(UndoError::io("look at what the undo left"))?;
        if !conflicts.is_empty() {
            return Err(UndoError::Conflicts(conflicts));
        }
        let dir = self.undo_dir(id)?;
        let done = keep::begin_and_apply(&dir, &mut journal, |journal, sites| {
            fetch(&from, journal, &numbers, sites)
        });
        match done.map_err(failed)?.1 {
            Applied::Whole { .. } => Ok(undo::paths(&journal)),
            Applied::WentBack {
                cause: Cause::Failed(source),
                left,
            } => Err(UndoError::WentBack { left, source }),
            Applied::WentBack { left, .. } if !left.is_empty() => Err(UndoError::WentBack {
                left,
                source: io::Error::other("somebody else changed a path"),
            }),
            Applied::WentBack {
                cause: Cause::Conflict(number, why),
                ..
            } => {
                let step = &journal.steps[number];
                Err(UndoError::Conflicts(vec![Conflict {
                    layer: step.layer,
                    path: step.path.clone(),
                    why,
                    ours: None,
                    theirs: None,
                }]))
            }
        }
    }
}

fn failed(error: KeepError) -> UndoError {
    match error {
        KeepError::Io { action, source } => UndoError::Io { action, source },
        KeepError::WentBack { left, source } => UndoError::WentBack { left, source },
        other => UndoError::io("do it again")(io::Error::other(other)),
    }
}

/// The steps of the keep that was undone, and the number that each of them had.
fn again(from: &Path, undone: &str, now_ms: i64) -> io::Result<(KeepJournal, Vec<usize>)> {
    let before = KeepJournal::read(&from.join("undo.json"))?;
    let places = before.places.iter().map(LayerPlace::without_layer);
    let steps = before.steps.into_iter().enumerate();
    let (numbers, steps) = steps.filter(|(_, it)| !undo::is_nothing(it)).unzip();
    let mut journal = KeepJournal::new(places.collect(), steps, KeepConflicts::Refuse, now_ms);
    journal.undo_bytes = before.undo_bytes;
    journal.undo_cap_bytes = before.undo_cap_bytes;
    journal.redoes = Some(undone.to_owned());
    for step in &mut journal.steps {
        if let StepAct::Put { from, new } | StepAct::Exchange { from, new, .. } = &mut step.act {
            (*from, *new) = (Source::Workshop, None);
        }
    }
    Ok((journal, numbers))
}

/// What is not as the undo left it. What is, is what the steps go by.
fn in_the_way(
    from: &Path,
    journal: &mut KeepJournal,
    numbers: &[usize],
) -> io::Result<Vec<Conflict>> {
    let TakenRecord { left } = journal::read_json(&from.join("taken.json"))?;
    let lowers = journal.lowers()?;
    let mut conflicts = Vec::new();
    for (step, number) in journal.steps.iter_mut().zip(numbers) {
        let then = left.get(*number).ok_or(io::ErrorKind::InvalidData)?;
        let now = undo::stands_at(step, &lowers[step.layer], undo::depth_of(step))?;
        conflicts.extend(undo::conflict(step, then.as_ref(), now.as_ref()));
        if let (StepAct::Exchange { old, .. } | StepAct::Take { old }, Some(now)) =
            (&mut step.act, now)
        {
            *old = now;
        }
    }
    Ok(conflicts)
}

/// Copies of what was taken back come to where the steps move them from.
fn fetch(
    from: &Path,
    journal: &mut KeepJournal,
    numbers: &[usize],
    sites: &[StepSite],
) -> io::Result<()> {
    let mut copiers: BTreeMap<usize, Copier> = BTreeMap::new();
    for (number, (step, before)) in journal.steps.iter_mut().zip(numbers).enumerate() {
        let (StepAct::Put { new, .. } | StepAct::Exchange { new, .. }) = &mut step.act else {
            continue;
        };
        let stow = from.join(step.layer.to_string());
        let stow = node::open_dir(rustix::fs::CWD, stow.as_os_str().as_bytes())?;
        let taken = undo::taken_name(*before);
        let name = source_name(&Source::Workshop, number);
        let shop = (sites[step.layer].workshop.as_fd(), name.as_bytes());
        let copier = copiers.entry(step.layer).or_default();
        copier.copy((stow.as_fd(), taken.as_bytes()), shop)?;
        *new = Some(node::meta_at(shop.0, shop.1)?.ok_or(io::ErrorKind::NotFound)?);
    }
    copiers
        .keys()
        .try_for_each(|layer| sync_all(&sites[*layer].workshop))
}
