//! How a turn ended, as clients are told.

use aish_proto::turn;

use aishd_log::event::Stop;
use aishd_log::turn_error::{FailureClass, TurnError};

/// The reason in one word.
pub(super) fn stop_reason(stop: Stop) -> turn::StopReason {
    match stop {
        Stop::End => turn::StopReason::End,
        Stop::ToolDepth => turn::StopReason::ToolDepth,
        Stop::MaxTokens => turn::StopReason::MaxTokens,
        Stop::Refusal => turn::StopReason::Refusal,
        Stop::Cancelled => turn::StopReason::Cancelled,
        Stop::Upstream => turn::StopReason::Upstream,
        Stop::Interrupted => turn::StopReason::Interrupted,
        Stop::Denied => turn::StopReason::Denied,
        Stop::Budget => turn::StopReason::Budget,
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
