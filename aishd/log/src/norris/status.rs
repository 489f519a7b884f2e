//! How a run stands: the fold of its facts, the same function live and on load.

use aish_proto::id::TurnId;
use serde::{Deserialize, Serialize};

use super::{NorrisEvent, RunPause, RunSpending};
use crate::norris::launch::RunLaunch;

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunStatus {
    /// The turn that it is.
    pub turn: TurnId,
    pub launch: RunLaunch,
    /// The step that is under way, from 1.
    pub step: u32,
    /// Used up before this step.
    #[serde(default)]
    pub spent: RunSpending,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<RunPause>,
}

impl RunStatus {
    /// As it begins.
    pub fn launched(turn: TurnId, launch: RunLaunch) -> Self {
        Self {
            turn,
            launch,
            step: 1,
            spent: RunSpending::default(),
            paused: None,
        }
    }
}

/// Takes the next fact of a conversation's run in.
pub fn apply(standing: &mut Option<Box<RunStatus>>, turn: Option<TurnId>, event: &NorrisEvent) {
    if let (NorrisEvent::Launched(launch), Some(turn)) = (event, turn) {
        *standing = Some(Box::new(RunStatus::launched(
            turn,
            RunLaunch::clone(launch),
        )));
        return;
    }
    let Some(run) = standing else { return };
    match event {
        NorrisEvent::StepBegun { step, spent } => {
            (run.step, run.spent) = (*step, *spent);
        }
        NorrisEvent::Paused { pause, spent } => {
            (run.paused, run.spent) = (Some(*pause), *spent);
        }
        NorrisEvent::Resumed => run.paused = None,
        NorrisEvent::Ended { .. } => *standing = None,
        NorrisEvent::Launched(_) | NorrisEvent::Nudged { .. } => {}
    }
}
