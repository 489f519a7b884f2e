//! Work that a turn asks for.

use std::time::Duration;

use super::StreamId;
use crate::core::gate::Go;
use crate::core::reply::ToolCall;
use crate::core::tool::Sha;

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send the conversation to the model; ends in `ReplyFinished`, `ReplyFailed` or `ReplyAbandoned`.
    OpenStream(StreamId),
    /// Send the same request to the preset that the turn falls back to; ends in the same ways.
    OpenFallback(StreamId),
    /// Ends in `WaitElapsed`.
    Wait(StreamId, Duration),
    /// Ask the gate about calls that have not begun; ends in `Judged`, at once and with as many judgements.
    Judge {
        calls: Vec<ToolCall>,
        /// What a person has just approved of the first one.
        approved: Option<Sha>,
    },
    /// The mark that it started is stored. Ends in `ToolReturned`.
    CallTool { call: String, go: Box<Go> },
    /// Drop whatever of this turn is under way.
    Abandon,
}
