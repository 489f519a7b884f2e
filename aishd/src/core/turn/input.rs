//! Everything that can happen to a turn.

use aish_proto::id::Seq;

use crate::core::event::Stop;
use crate::core::reply::{Broken, Reply};

/// One model request within a turn; input that bears an older one is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamId(pub u32);

#[derive(Debug)]
pub enum Input {
    ReplyFinished(StreamId, Reply),
    /// With the position up to which the context could be evicted, if there is anything to evict.
    ReplyFailed(StreamId, Box<Broken>, Option<Seq>),
    /// The stream was dropped on [`super::Effect::Abandon`]; this is what had arrived.
    ReplyAbandoned(StreamId, Reply),
    WaitElapsed(StreamId),
    ToolReturned {
        call: String,
        ok: bool,
        content: String,
    },
    /// A person cancelled, or the daemon is going: the turn ends for this reason.
    Stopped(Stop),
}
