//! Errors of the wire. Codes stay clear of the ranges that JSON-RPC, jsonrpsee, LSP
//! and ACP use. `data.kind` is for programs, `message` for people.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a call failed, where JSON-RPC has no code of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ErrorKind {
    /// Anything but `daemon/hello` and `daemon/ping` came first.
    NotInitialized,
    /// The two sides have no protocol in common.
    VersionMismatch,
    /// No such conversation, turn, subscription, preset or blob.
    NotFound,
    /// The conversation has a running turn and the call may not wait.
    Busy,
    /// The turn named is not the one that runs.
    StaleTurn,
    /// The client's role does not allow the call.
    ForbiddenRole,
    /// A queue or table is full; try again later.
    Overloaded,
    /// The daemon is shutting down.
    Draining,
    /// A budget is used up.
    BudgetExceeded,
    /// The model's server failed.
    UpstreamFailed,
    /// Policy or a person refused.
    Denied,
    /// The call's own time is over; what it waited for goes on.
    Timeout,
    /// A line, text or attachment is over its limit.
    TooLarge,
    /// The configuration cannot be used.
    InvalidConfig,
    /// The store cannot take or give data now; nothing was kept of this call.
    Storage,
    /// An MCP server failed.
    McpFailed,
    /// The question is dear, or fills half of what its model takes in, and nobody has accepted that.
    Costly,
}

impl ErrorKind {
    pub const ALL: [Self; 17] = [
        Self::NotInitialized,
        Self::VersionMismatch,
        Self::NotFound,
        Self::Busy,
        Self::StaleTurn,
        Self::ForbiddenRole,
        Self::Overloaded,
        Self::Draining,
        Self::BudgetExceeded,
        Self::UpstreamFailed,
        Self::Denied,
        Self::Timeout,
        Self::TooLarge,
        Self::InvalidConfig,
        Self::Storage,
        Self::McpFailed,
        Self::Costly,
    ];

    /// The JSON-RPC error code: -31000 for the first kind, one less for each that follows.
    pub fn code(self) -> i32 {
        -31000 - self as i32
    }
}

/// The `data` of an error that is ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ErrorData {
    pub kind: ErrorKind,
    /// The same call may succeed later.
    pub retryable: bool,
    /// Something may have happened before the failure.
    pub side_effect_possible: bool,
    /// What to do next, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_below_minus_31000() {
        let codes: Vec<i32> = ErrorKind::ALL.iter().map(|it| it.code()).collect();
        assert_eq!((0..17).map(|it| -31000 - it).collect::<Vec<_>>(), codes);
    }
}
