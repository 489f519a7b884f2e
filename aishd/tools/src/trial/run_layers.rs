//! The layers of a run: every command of it sees what those before it changed. Between commands they are sealed, so that what
//! they hold can be looked at, and kept when the run is over.

use std::path::PathBuf;

use aish_proto::id::{ChangesId, ConversationId};
use aishd_layers::{LayerSet, LayerSetError, ReadBounds};
use aishd_log::time::Timestamp;
use aishd_log::tried::ChangeSummary;
use aishd_platform::clock;
use aishd_process::contained::Containment;
use aishd_rules::command_setting::CommandSetting;

use super::layer_watch::LayerWatch;
use super::told::summary;
use super::{ChangeFailure, KeepReport, KeptAbout, TrialRoom, text};

/// One command in the layers of its run, over these directories of the conversation among others. While it is there nobody looks
/// at them.
#[derive(Debug)]
pub(crate) struct RunStep {
    pub(crate) containment: Containment,
    room: TrialRoom,
    set: LayerSet,
    id: ChangesId,
}

impl TrialRoom {
    /// Makes ready what holds a command of the run that `id` is of. It waits for a tick of the file system's clock.
    pub(crate) fn begin_step(
        &self,
        id: ChangesId,
        setting: &CommandSetting,
        directories: &[PathBuf],
    ) -> Result<RunStep, String> {
        let name = id.to_string();
        let is_free = self.take(id);
        if !is_free {
            return Err("another command writes in the layers of the run".to_owned());
        }
        let opened = match self.0.layers.get(&name) {
            Ok(set) => set.reopen().map(|()| set).map_err(|it| it.to_string()),
            Err(LayerSetError::Missing(_)) => {
                let lowers = self.lowers(setting, directories);
                let made = self.0.layers.create(&name, &lowers, clock::now().0);
                made.map_err(|it| text(&it))
            }
            Err(error) => Err(text(&error)),
        };
        let set = opened.inspect_err(|_| {
            self.give_back(id);
        })?;
        Ok(RunStep {
            containment: self.containment(setting, Self::write_layers(&set)),
            room: self.clone(),
            set,
            id,
        })
    }

    /// Waits until no command writes in these layers, and what the last daemon began is settled.
    pub async fn until_free(&self, id: ChangesId) {
        let mut recovered = self.0.recovered.subscribe();
        drop(recovered.wait_for(|it| *it).await);
        let mut in_use = self.0.in_use.subscribe();
        drop(in_use.wait_for(|it| !it.contains(&id)).await);
    }

    pub(super) fn is_in_use(&self, id: ChangesId) -> bool {
        self.0.in_use.borrow().contains(&id)
    }

    fn take(&self, id: ChangesId) -> bool {
        self.0.in_use.send_if_modified(|it| it.insert(id))
    }

    fn give_back(&self, id: ChangesId) {
        self.0.in_use.send_modify(|it| {
            it.remove(&id);
        });
    }

    /// What a run has changed so far. `None`: it has no layers.
    pub fn run_changes(&self, id: ChangesId) -> Result<Option<ChangeSummary>, String> {
        if self.is_in_use(id) {
            return Err(IN_USE.to_owned());
        }
        let set = match self.0.layers.get(&id.to_string()) {
            Ok(set) => set,
            Err(LayerSetError::Missing(_)) => return Ok(None),
            Err(error) => return Err(text(&error)),
        };
        let read = || {
            // The daemon was killed under a command.
            let meanwhile = if set.is_sealed() {
                0
            } else {
                set.seal()?.changed_meanwhile
            };
            let changes = set.changes(&ReadBounds::default())?;
            std::io::Result::Ok(summary(&set, &changes, meanwhile))
        };
        read()
            .map(Some)
            .map_err(|it| format!("read what the run changed: {it}"))
    }

    /// Makes what a run changed real, or these paths of it, unless a daemon before this one has done so. The layers stay.
    pub fn keep_of_run(
        &self,
        id: ChangesId,
        only: &[String],
        now: Timestamp,
        (conversation, number): (ConversationId, u32),
    ) -> Result<KeepReport, ChangeFailure> {
        let kept = self.kept().unwrap_or_default();
        if let Some(kept) = kept.into_iter().find(|it| it.changes == id) {
            let paths = kept.about.map(|it| it.paths).unwrap_or_default();
            return Ok(KeepReport {
                count: paths.len() as u64,
                paths,
                remark: String::new(),
            });
        }
        let paths = if only.is_empty() {
            let changed = self.run_changes(id).map_err(ChangeFailure::Other)?;
            let listed = changed.unwrap_or_default().listed;
            listed.into_iter().map(|it| it.path).collect()
        } else {
            only.to_vec()
        };
        let about = KeptAbout {
            conversation: Some(conversation),
            number,
            paths,
        };
        self.keep_planned(id, only, now, &about)
    }
}

/// Why layers cannot be looked at.
pub(super) const IN_USE: &str =
    "a command of the run writes there now; ask again when it has ended";

impl RunStep {
    /// Looks after the room that the layers take.
    pub(crate) fn watch(&self, most: u64) -> Result<LayerWatch, String> {
        LayerWatch::begin(&self.room.0.weights, self.id, &self.set, most)
    }

    /// To be called when nothing of the command runs any more.
    pub(crate) fn end(self) -> Result<(), String> {
        let sealed = self.set.seal();
        sealed
            .map(drop)
            .map_err(|it| format!("what it changed cannot be read: {it}"))
    }
}

impl Drop for RunStep {
    fn drop(&mut self) {
        self.room.give_back(self.id);
    }
}
