//! How a run stands: the fold of its facts, the same function live and on load.

use aish_proto::id::TurnId;
use serde::{Deserialize, Serialize};

use super::{NorrisEvent, Pause, Spent};
use crate::norris::launch::Launch;

/// A run that has not ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// The turn that it is.
    pub turn: TurnId,
    pub launch: Launch,
    /// The step that is under way, from 1.
    pub step: u32,
    /// Used up before this step.
    #[serde(default)]
    pub spent: Spent,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

impl Standing {
    /// As it begins.
    pub fn launched(turn: TurnId, launch: Launch) -> Self {
        Self {
            turn,
            launch,
            step: 1,
            spent: Spent::default(),
            paused: None,
        }
    }
}

/// Takes the next fact of a conversation's run in.
pub fn apply(standing: &mut Option<Box<Standing>>, turn: Option<TurnId>, event: &NorrisEvent) {
    if let (NorrisEvent::Launched(launch), Some(turn)) = (event, turn) {
        *standing = Some(Box::new(Standing::launched(turn, Launch::clone(launch))));
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
