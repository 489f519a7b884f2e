//! Which commands of a turn a person wrote in the place of those that the model proposed.

use aish_proto::id::ConfirmId;
use aishd_log::confirm::{Confirm, Resolution};

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct TranscriptEdits {
    /// The command that a person is asked about.
    asked: Option<(ConfirmId, String)>,
    /// Those that were changed, and have not ended.
    changed: Vec<String>,
}

impl TranscriptEdits {
    pub(super) fn on_confirm(&mut self, confirm: &Confirm) {
        if let Some(command) = confirm.command() {
            self.asked = Some((confirm.id, command.call.id.clone()));
        }
    }

    pub(super) fn resolved(&mut self, resolution: &Resolution) {
        let asked = self.asked.take_if(|(it, _)| *it == resolution.confirm);
        let changed = asked.filter(|_| resolution.edited.is_some());
        self.changed.extend(changed.map(|(_, call)| call));
    }

    /// Whether the command that ended was changed.
    pub(super) fn take(&mut self, call: &str) -> bool {
        let before = self.changed.len();
        self.changed.retain(|it| it != call);
        self.changed.len() < before
    }
}
