//! The layers of a run: every command of it sees what those before it changed. Between commands they are sealed, so that what
//! they hold can be looked at, and kept when the run is over.

use std::path::PathBuf;

use aish_proto::id::{ConversationId, TurnId};
use aishd_layers::{LayerSet, LayerSetError};
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use aishd_process::contained::Containment;
use aishd_rules::command_setting::CommandSetting;

use super::layer_watch::LayerWatch;
use super::layers_hold::LayersHold;
use super::{ChangeFailure, KeepReport, KeptAbout, TrialRoom, text};

/// One command in the layers of its run, over these directories of the conversation among others. While it is there nobody looks
/// at them.
#[derive(Debug)]
pub(crate) struct RunStep {
    pub(crate) containment: Containment,
    set: LayerSet,
    held: LayersHold,
}

impl LayersHold {
    /// Makes ready what holds a command of the run that the layers are of. It waits for a tick of the file system's clock.
    pub(crate) fn begin_step(
        self,
        setting: &CommandSetting,
        directories: &[PathBuf],
    ) -> Result<RunStep, String> {
        let room = &self.room;
        let set = match self.layers() {
            Ok(set) => set.reopen().map(|()| set).map_err(|it| it.to_string()),
            Err(LayerSetError::Missing(_)) => {
                let lowers = room.lowers(setting, directories).map_err(|it| text(&it))?;
                let made = room
                    .0
                    .layers
                    .create(&self.id.to_string(), &lowers, clock::now().0);
                made.map_err(|it| text(&it))
            }
            Err(error) => Err(text(&error)),
        }?;
        Ok(RunStep {
            containment: room.containment(setting, TrialRoom::write_layers(&set)),
            set,
            held: self,
        })
    }

    /// Makes what a run changed real, or these paths of it, unless a daemon before this one has done so. The layers stay.
    pub fn keep_of_run(
        &self,
        only: &[String],
        now: Timestamp,
        (conversation, number): (ConversationId, u32),
    ) -> Result<KeepReport, ChangeFailure> {
        if self.room.is_kept(self.id)? {
            let about = self.room.about(self.id);
            let paths = about.map(|it| it.paths).unwrap_or_default();
            return Ok(KeepReport {
                count: paths.len() as u64,
                paths,
                remark: String::new(),
            });
        }
        let paths = if only.is_empty() {
            let changed = self.changes().map_err(ChangeFailure::Other)?;
            let listed = changed.unwrap_or_default().listed;
            listed.into_iter().map(|it| it.path).collect()
        } else {
            only.to_vec()
        };
        let about = KeptAbout {
            conversation: Some(conversation),
            turn: Some(TurnId(self.id.0)),
            number: Some(number),
            paths,
        };
        self.room
            .keep_planned((self.id, self.id), only, now, &about)
    }
}

impl RunStep {
    /// Looks after the room that the layers take.
    pub(crate) fn watch(&self, most: u64) -> Result<LayerWatch, String> {
        let LayersHold { room, id } = &self.held;
        LayerWatch::begin(&room.0.weights, *id, &self.set, most)
    }

    /// To be called when nothing of the command runs any more.
    pub(crate) fn end(self) -> Result<(), String> {
        let sealed = self.set.seal_step();
        sealed
            .map(drop)
            .map_err(|it| format!("what it changed cannot be read: {it}"))
    }
}
