//! Work that a turn asks for.

use std::time::Duration;

use super::StreamId;
use crate::core::reply::ToolCall;

#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Send the conversation to the model; ends in `ReplyFinished`, `ReplyFailed` or `ReplyAbandoned`.
    OpenStream(StreamId),
    /// Ends in `WaitElapsed`.
    Wait(StreamId, Duration),
    /// Ends in `ToolReturned`.
    CallTool(ToolCall),
    /// Drop whatever of this turn is under way.
    Abandon,
}
