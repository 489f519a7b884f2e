//! How a turn ended, as clients are told.

use aish_proto::turn;
use aishd_log::event::StopReason;
use aishd_log::turn_error::{FailureClass, TurnError};

/// The reason in one word.
pub(super) fn stop_reason(stop: StopReason) -> turn::StopReason {
    match stop {
        StopReason::End => turn::StopReason::End,
        StopReason::ToolDepth => turn::StopReason::ToolDepth,
        StopReason::MaxTokens => turn::StopReason::MaxTokens,
        StopReason::Refusal => turn::StopReason::Refusal,
        StopReason::Cancelled => turn::StopReason::Cancelled,
        StopReason::Upstream => turn::StopReason::Upstream,
        StopReason::Interrupted => turn::StopReason::Interrupted,
        StopReason::Denied => turn::StopReason::Denied,
        StopReason::Budget => turn::StopReason::Budget,
    }
}

/// What failed, where something did.
pub(super) fn turn_error(error: TurnError) -> turn::TurnError {
    let class = match error.class {
        FailureClass::Unreachable => turn::FailureClass::Unreachable,
        FailureClass::Unauthorized => turn::FailureClass::Unauthorized,
        FailureClass::RateLimited => turn::FailureClass::RateLimited,
        FailureClass::Rejected => turn::FailureClass::Rejected,
        FailureClass::ContextOverflow => turn::FailureClass::ContextOverflow,
        FailureClass::Cut => turn::FailureClass::Cut,
        FailureClass::Config => turn::FailureClass::Config,
        FailureClass::Storage => turn::FailureClass::Storage,
    };
    turn::TurnError {
        class,
        message: error.message,
        cause: error.cause,
        hint: error.hint,
    }
}
