//! `daemon/doctor`: what the daemon finds when it looks itself over.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::method::{Empty, methods};

methods! {
    /// Looks over the configuration, models' and MCP servers, and the store. Models' servers have two seconds to answer.
    Doctor: "daemon/doctor", Observer, Unordered, Empty => DoctorResult;
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CheckOutcome {
    Ok,
    /// It works, and somebody should know.
    Warn,
    Fail,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorCheck {
    /// What was looked at: `config`, `store`, `model fast`.
    pub check: String,
    pub outcome: CheckOutcome,
    pub detail: String,
    /// What to do about it; null when there is nothing to do.
    pub fix: Option<String>,
}

impl DoctorCheck {
    pub fn new(check: &str, outcome: CheckOutcome, detail: String, fix: Option<&str>) -> Self {
        Self {
            check: check.to_owned(),
            outcome,
            detail,
            fix: fix.map(str::to_owned),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DoctorResult {
    pub checks: Vec<DoctorCheck>,
}
