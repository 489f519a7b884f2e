//! Norris, the autonomous mode: a turn in which the model plans, acts and looks until it says that it is done, a limit is
//! met, or a person stops it. All of it is pure; the turn machine runs the loop and the gate asks here
//! what may be done unasked.

pub mod launch;
pub mod status;

use serde::{Deserialize, Serialize};

use crate::norris::launch::RunLaunch;
use crate::spending::NanoUsd;

/// A fact of a run. The serde attributes spell the stored form out, as in [`crate::event`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NorrisEvent {
    /// A person has launched it; its question stands before it. The first step begins with the turn.
    Launched(Box<RunLaunch>),
    StepBegun {
        /// From 1.
        step: u32,
        spent: RunSpending,
    },
    /// The model neither acted nor said that it was done, and is told so.
    Nudged {
        text: String,
    },
    /// Nothing new begins until a person resumes it.
    Paused {
        pause: RunPause,
        spent: RunSpending,
    },
    Resumed,
    /// Stands before the end of its turn.
    Ended {
        outcome: RunOutcome,
        /// What the model said, or which limit it was.
        reason: String,
        step: u32,
        spent: RunSpending,
    },
}

/// What a run has used up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSpending {
    /// Milliseconds in which it worked; waiting for a person is none.
    pub ms: u64,
    /// In and out, those of second opinions among them.
    pub tokens: u64,
    /// Of requests whose price is known.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub cost: NanoUsd,
}

fn is_nothing(cost: &NanoUsd) -> bool {
    *cost == NanoUsd(0)
}

/// Why a run stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunPause {
    Person,
    /// The daemon ended under it. What had begun is of unknown effect, and nothing is done again by itself.
    Interrupted,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The model says that the goal is reached.
    Done,
    /// The model gave up.
    Halted,
    /// One of its limits was met, or a budget is used up.
    Limit,
    /// A person stopped it.
    Stopped,
    /// The model's server failed, or it refused.
    Failed,
}
