//! Why a turn failed, as it stands at its end.

use serde::{Deserialize, Serialize};

/// What a script or a person does differently about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureClass {
    Unreachable,
    Unauthorized,
    RateLimited,
    Rejected,
    ContextOverflow,
    Cut,
    Config,
    Storage,
}

/// Why a turn failed, as it stands at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnError {
    pub class: FailureClass,
    pub message: String,
    /// The failure that this request was the second try after.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What helps, where something is known that does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
