//! Why a turn failed, as it stands at its end.

use serde::{Deserialize, Serialize};

/// What a script or a person does differently about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailureClass {
    #[serde(rename = "unreachable")]
    Unreachable,
    #[serde(rename = "unauthorized")]
    Unauthorized,
    #[serde(rename = "rate_limited")]
    RateLimited,
    #[serde(rename = "rejected")]
    Rejected,
    #[serde(rename = "context_overflow")]
    ContextOverflow,
    #[serde(rename = "cut")]
    Cut,
    #[serde(rename = "config")]
    Config,
    #[serde(rename = "storage")]
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
