//! Everything that can happen to a turn.

use aish_proto::id::ResultId;
use aishd_log::access::Access;
use aishd_log::block::KeptParts;
use aishd_log::command_result::CommandResult;
use aishd_log::confirm::{Confirm, Resolution};
use aishd_log::event::{Event, StopReason};
use aishd_log::eviction::Eviction;
use aishd_log::resource::{ResourceChange, ResourceChanged};
use aishd_log::structured::StructuredResult;
use aishd_log::todo::Todo;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::ToolName;
use aishd_model::reply::{BrokenRequest, Reply};
use aishd_rules::gate::CallJudgement;
use aishd_rules::sign_in::RefusedSignIn;

/// One model request within a turn; input that bears an older one is late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamId(pub u32);

#[derive(Debug)]
pub enum TurnInput {
    ReplyFinished(StreamId, Reply),
    /// With what could leave the context, if anything can.
    ReplyFailed(StreamId, Box<BrokenRequest>, Option<Box<Eviction>>),
    /// The stream was dropped on [`super::Effect::Abandon`]; this is what had arrived.
    ReplyAbandoned(StreamId, Reply),
    WaitElapsed(StreamId),
    /// What the gate says of what has not begun, in its order.
    Judged(Vec<CallJudgement>),
    /// The open confirm was answered, or its time is over.
    Answered(Box<ConfirmEnd>),
    ToolReturned {
        call: String,
        returned: Box<CallReturn>,
    },
    /// A call did not run, for a person has to sign in first, and is asked that.
    SignInAsked {
        call: String,
        confirm: Box<Confirm>,
    },
    CommandEnded {
        call: String,
        ended: Box<CommandResult>,
    },
    /// A person wants nothing new to begin in a run.
    Paused,
    /// A person lets a paused run go on.
    Resumed,
    /// A run may have worked for as long as it may.
    TimeIsOver,
    /// No command of the conversation runs any more: the next one can.
    Freed,
    /// A person cancelled, or the daemon is going: the turn ends for this reason.
    Stopped(StopReason),
}

/// The end of a confirm, and what comes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct ConfirmEnd {
    pub resolution: Resolution,
    /// The level that the provider gets by it.
    pub raised: Option<Event>,
    /// What an approval is of: the confirm's own digest, or that of the edited arguments.
    pub digest: ContentDigest,
}

/// What a call came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallReturn {
    pub ok: bool,
    /// What the model is shown.
    pub content: String,
    pub ms: u64,
    /// What people are told besides, where the call failed on the way.
    pub notice: Option<String>,
    /// What people are told of what it holds.
    pub remark: Option<&'static str>,
    /// Blocks of it that are no text, each in parts.
    pub blocks: Vec<KeptParts>,
    /// The whole of it, in parts, where `content` is less.
    pub kept: Option<(ResultId, Vec<String>)>,
    /// Its value, where it has one that fits its output schema.
    pub structured: Option<StructuredResult>,
    /// The level that it needed when it was let through.
    pub needs: Access,
    /// What the call wants changed in the shared context, until that was checked.
    pub changes: Vec<ResourceChange>,
    /// What it changed.
    pub changed: Vec<ResourceChanged>,
    /// The tasks of the conversation from now on, where it wrote them.
    pub todos: Option<Vec<Todo>>,
    /// Tools that it found, which are sent from now on.
    pub found: Vec<ToolName>,
    /// Its server refused it, because a person has to sign in: nothing ran.
    pub refused_sign_in: Option<Box<RefusedSignIn>>,
}
