//! Work that a turn asks for.

use std::time::Duration;

use aish_proto::id::ConfirmId;
use aishd_log::tool::ContentDigest;
use aishd_rules::gate::{AdmittedCall, AdmittedCommand};

use super::{OwedReplies, StreamId};

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send the conversation to the model; ends in `ReplyFinished`, `ReplyFailed` or `ReplyAbandoned`.
    OpenStream(StreamId),
    /// Send the same request to the preset that the turn falls back to; ends in the same ways.
    OpenFallback(StreamId),
    /// Ends in `WaitElapsed`.
    Wait(StreamId, Duration),
    /// Ask the gate about what has not begun; ends in `Judged`, at once and with as many judgements.
    Judge {
        owing: Vec<OwedReplies>,
        /// What a person has just approved of the first one.
        approved: Option<ContentDigest>,
    },
    /// The mark that it started is stored. Ends in `ToolReturned`.
    CallTool {
        call: String,
        go: Box<AdmittedCall>,
        /// What was tried at this confirm becomes real, and nothing is called.
        keeps: Option<ConfirmId>,
    },
    /// The mark that it started is stored. Ends in `CommandEnded`.
    RunCommand {
        call: String,
        run: Box<AdmittedCommand>,
        /// What was tried at this confirm becomes real, and nothing runs.
        keeps: Option<ConfirmId>,
    },
    /// Drop whatever of this turn is under way.
    Abandon,
}
