//! After a kill: each keep and each undo goes on to its end, or back.

use std::io;
use std::path::Path;

use crate::journal::{self, KeepJournal, KeepPhase, KeptRecord};
use crate::keep::{self, Applied};
use crate::layer_set::{LayerSetError, LayerStore, ids_in};
use crate::rel_path::RelPath;
use crate::remove::remove_at_once;
use crate::undo::{self, TakenBack};

/// What became of a keep that was not finished, by its id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// It went on to its end.
    Kept(String),
    /// All is as before the keep, but for these paths, which somebody changed meanwhile. Where there are any, what was
    /// stashed of them stays in `undo/ID/`.
    WentBack(String, Vec<RelPath>),
    /// The undo went on to its end.
    Undone(String),
    /// The undo met a change by somebody else: all is as it was kept.
    StillKept(String),
}

#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    #[error(transparent)]
    Set(#[from] LayerSetError),
    #[error("recover keep {id}")]
    Io {
        id: String,
        #[source]
        source: io::Error,
    },
}

impl LayerStore {
    /// To be called at start, before anything else is kept. What was finished is not mentioned. One that cannot be
    /// recovered does not keep the others from it.
    pub fn recover(&self) -> Result<Vec<Result<Recovered, RecoverError>>, LayerSetError> {
        let _one_at_a_time = self.lock().map_err(LayerSetError::io("lock the layers"))?;
        let undo = self.root.join("undo");
        let ids = ids_in(&undo).map_err(LayerSetError::io("list what was kept"))?;
        let recovered = ids.into_iter().filter_map(|id| {
            let done = recover_one(&undo.join(&id), &id);
            let done = done.map_err(|source| RecoverError::Io { id, source });
            done.transpose()
        });
        Ok(recovered.collect())
    }
}

fn recover_one(dir: &Path, id: &str) -> io::Result<Option<Recovered>> {
    let id = id.to_owned();
    let steps = || KeepJournal::read(&dir.join("steps.json"));
    Ok(match KeepPhase::of(dir) {
        None => {
            remove_at_once(dir)?;
            Some(Recovered::WentBack(id, Vec::new()))
        }
        Some(KeepPhase::Begun) => {
            keep::abandon(dir, &KeepJournal::read(&dir.join("begun.json"))?)?;
            Some(Recovered::WentBack(id, Vec::new()))
        }
        Some(KeepPhase::Applying) => {
            let journal = steps()?;
            Some(match keep::apply(dir, &journal, &journal.sites(dir)?)? {
                Applied::Whole { .. } => Recovered::Kept(id),
                Applied::WentBack { left, .. } => Recovered::WentBack(id, left),
            })
        }
        Some(KeepPhase::GoingBack) => {
            let journal = steps()?;
            let left = keep::go_back(dir, &journal, &journal.sites(dir)?)?;
            Some(Recovered::WentBack(id, left))
        }
        Some(KeepPhase::Kept) if dir.join("tidied").exists() => None,
        Some(KeepPhase::Kept) => {
            let (journal, kept) = (steps()?, kept(dir)?);
            keep::tidy(dir, &journal, &journal.sites(dir)?, &kept)?;
            Some(Recovered::Kept(id))
        }
        Some(KeepPhase::Undoing) => {
            let journal = KeepJournal::read(&dir.join("undo.json"))?;
            let taken = undo::take_back(dir, &journal, &kept(dir)?, &journal.sites(dir)?)?;
            Some(match taken {
                TakenBack::Whole(_) => Recovered::Undone(id),
                TakenBack::Refused(_) => Recovered::StillKept(id),
            })
        }
        Some(KeepPhase::UndoGoingBack) => {
            let path = dir.join("undo.json");
            if path.exists() {
                let journal = KeepJournal::read(&path)?;
                undo::keep_again(dir, &journal, &journal.sites(dir)?)?;
            } else {
                steps()?.remove_workshops(dir)?;
                journal::unmark(&dir.join("undo-back"))?;
            }
            Some(Recovered::StillKept(id))
        }
        Some(KeepPhase::Undone) if undo::is_settled(dir) => None,
        Some(KeepPhase::Undone) => {
            undo::settle(dir, &KeepJournal::read(&dir.join("undo.json"))?)?;
            Some(Recovered::Undone(id))
        }
    })
}

fn kept(dir: &Path) -> io::Result<KeptRecord> {
    journal::read_json(&dir.join("kept.json"))
}
