//! The layers of runs, from the launch of a run until a person has kept or dropped what it changed.

use aish_proto::id::TurnId;

use super::ConversationState;
use super::confirms::AsideSubject;
use crate::confirm::{Confirm, ConfirmSubject, Decision, Resolution};
use crate::norris::NorrisEvent;
use crate::norris::launch::RunHold;
use crate::run_changes::{ChangesOrder, ChangesPart, PartStage, RunChanges, RunChangesStage};

/// So much of a goal is shown beside the changes; the log has all of it.
const SHOWN_BYTES: usize = 256;

impl ConversationState {
    pub fn changes_of(&self, turn: TurnId) -> Option<&RunChanges> {
        self.run_changes.iter().find(|it| it.turn == turn)
    }

    /// Changes of runs that are over are asked about, or kept, without anybody having to say so.
    pub fn has_changes_to_settle(&self) -> bool {
        self.run_changes.iter().any(|it| match it.stage {
            RunChangesStage::Ended | RunChangesStage::Ordered(_) => true,
            RunChangesStage::InWork | RunChangesStage::Asked(_) => it.part.is_some(),
        })
    }

    pub(super) fn run_changed(&mut self, turn: Option<TurnId>, event: &NorrisEvent) {
        if let (NorrisEvent::Launched(launch), Some(turn)) = (event, turn)
            && launch.hold() == RunHold::Layers
        {
            self.run_changes.push(RunChanges {
                turn,
                goal: launch.goal[..launch.goal.floor_char_boundary(SHOWN_BYTES)].to_owned(),
                stage: RunChangesStage::InWork,
                part: None,
            });
        }
    }

    pub(super) fn run_is_over(&mut self, turn: Option<TurnId>) {
        if let Some(turn) = turn {
            self.advance_changes(turn, RunChangesStage::Ended);
        }
    }

    pub(super) fn changes_asked(&mut self, confirm: &Confirm) {
        if let ConfirmSubject::Changes(subject) = &confirm.subject {
            self.advance_changes(subject.turn, RunChangesStage::Asked(confirm.number));
        }
    }

    /// A no is followed by the end of the changes in the same commit.
    pub(super) fn changes_answered(&mut self, resolution: &Resolution) {
        let asked = self.open_confirm(resolution.confirm);
        let Some(AsideSubject::Changes(turn)) = asked.and_then(|it| it.aside.clone()) else {
            return;
        };
        let stage = self.changes_of(turn).map(|it| &it.stage);
        if let (Some(Decision::Keep), Some(RunChangesStage::Asked(number))) =
            (resolution.decision, stage)
        {
            let order = ChangesOrder {
                confirm: resolution.confirm,
                number: *number,
                only: resolution.only.clone(),
                by: resolution.by.clone(),
            };
            self.advance_changes(turn, RunChangesStage::Ordered(order));
        }
    }

    pub(super) fn changes_in_part(&mut self, part: &ChangesPart) {
        let mut changes = self.run_changes.iter_mut();
        if let Some(changes) = changes.find(|it| it.turn == part.turn) {
            changes.part = match part.stage {
                PartStage::Ordered => Some(Box::new(part.clone())),
                PartStage::Done | PartStage::Failed => None,
            };
        }
    }

    fn advance_changes(&mut self, turn: TurnId, stage: RunChangesStage) {
        let mut changes = self.run_changes.iter_mut();
        if let Some(changes) = changes.find(|it| it.turn == turn) {
            changes.stage = stage;
        }
    }
}
