//! Layers that somebody has for himself for a while: a command that writes there, or who looks at them, keeps or drops.

use std::io;

use aish_proto::id::ChangesId;
use aishd_layers::{LayerSet, LayerSetError, ReadBounds};
use aishd_log::tried::ChangeSummary;

use super::told::summary;
use super::{ChangeFailure, Difference, TrialRoom, choice, text};

/// Nobody else reads or writes these layers while it is there.
#[derive(Debug)]
pub struct LayersHold {
    pub(super) room: TrialRoom,
    pub(super) id: ChangesId,
}

/// What a person is shown of layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedAt {
    pub changed: ChangeSummary,
    /// Names what was looked at: who keeps it says so.
    pub seen: String,
}

impl TrialRoom {
    /// Waits until nobody has these layers, and what the last daemon began is settled.
    pub async fn hold_layers(&self, id: ChangesId) -> LayersHold {
        self.recovered().await;
        let mut in_use = self.0.in_use.subscribe();
        loop {
            if let Some(hold) = self.try_hold_layers(id) {
                return hold;
            }
            drop(in_use.wait_for(|it| !it.contains(&id)).await);
        }
    }

    /// Waits until what the last daemon began is settled.
    pub async fn recovered(&self) {
        let mut recovered = self.0.recovered.subscribe();
        drop(recovered.wait_for(|it| *it).await);
    }

    /// `None`: somebody has them.
    pub fn try_hold_layers(&self, id: ChangesId) -> Option<LayersHold> {
        let is_ours = self.0.in_use.send_if_modified(|it| it.insert(id));
        is_ours.then(|| LayersHold {
            room: self.clone(),
            id,
        })
    }
}

impl LayersHold {
    pub(super) fn layers(&self) -> Result<LayerSet, LayerSetError> {
        self.room.0.layers.get(&self.id.to_string())
    }

    /// The layers as they can be looked at. `None`: there are none.
    pub(super) fn sealed(&self) -> Result<Option<(LayerSet, u64)>, String> {
        let set = match self.layers() {
            Ok(set) => set,
            Err(LayerSetError::Missing(_)) => return Ok(None),
            Err(error) => return Err(text(&error)),
        };
        // The daemon was killed under a command.
        let meanwhile = if set.is_sealed() {
            0
        } else {
            let sealed = set.seal().map_err(|it| unread(&it))?;
            sealed.changed_meanwhile
        };
        Ok(Some((set, meanwhile)))
    }

    /// What was changed when the run is over, with a seal that is on the disk. `None`: there are no layers.
    pub fn settled(&self) -> Result<Option<ChangeSummary>, String> {
        if let Some((set, _)) = self.sealed()? {
            set.sync_seal().map_err(|it| unread(&it))?;
        }
        self.changes()
    }

    /// What was changed so far. `None`: there are no layers.
    pub fn changes(&self) -> Result<Option<ChangeSummary>, String> {
        let Some((set, meanwhile)) = self.sealed()? else {
            return Ok(None);
        };
        let changes = set.changes(&ReadBounds::default());
        let changes = changes.map_err(|it| unread(&it))?;
        Ok(Some(summary(&set, &changes, meanwhile)))
    }

    /// The same of these paths, or of all, with its name.
    pub fn look(&self, only: &[String]) -> Result<LookedAt, ChangeFailure> {
        let (set, meanwhile) = self.found()?;
        let choice = choice(&set, only)?;
        let read = || -> io::Result<LookedAt> {
            let changes = set.changes(&ReadBounds::default())?.within(&choice);
            Ok(LookedAt {
                changed: summary(&set, &changes, meanwhile),
                seen: set.seen(&choice)?,
            })
        };
        read().map_err(|it| ChangeFailure::Other(unread(&it)))
    }

    /// The difference that these paths would make, or all, as far as there is room for it.
    pub fn difference(&self, only: &[String]) -> Result<Difference, ChangeFailure> {
        let (set, _) = self.found()?;
        let choice = choice(&set, only)?;
        let bounds = ReadBounds::default();
        let changes = set.changes(&bounds);
        let changes = changes.map_err(|it| ChangeFailure::Other(unread(&it)))?;
        Ok(Difference::of(&set, &changes.within(&choice), &bounds))
    }

    pub(super) fn found(&self) -> Result<(LayerSet, u64), ChangeFailure> {
        let none = || ChangeFailure::Other(format!("no layers {}", self.id));
        self.sealed()
            .map_err(ChangeFailure::Other)?
            .ok_or_else(none)
    }
}

impl Drop for LayersHold {
    fn drop(&mut self) {
        self.room.0.in_use.send_modify(|it| {
            it.remove(&self.id);
        });
    }
}

pub(super) fn unread(error: &io::Error) -> String {
    format!("read what was changed: {error}")
}
