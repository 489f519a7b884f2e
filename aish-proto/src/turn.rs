//! `turn/*` and `queue/*`: asking, waiting, stopping.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::ConversationCreateParams;
use crate::id::{BlobId, ConversationId, Seq, TurnId};
use crate::method::methods;
use crate::route::RoutedTurn;
use crate::usage::Usage;

methods! {
    /// Asks. Returns once the question is durable; the answer comes as events.
    Send: "turn/send", Driver, Conversation, SendParams => SendResult;
    /// Stops a turn, queued or running; what has been written of the answer is kept. Idempotent.
    Cancel: "turn/cancel", Driver, Conversation, TurnParams => TurnCancelResult;
    /// The record of a turn once it is finished; `timeout` when it is not by then.
    Wait: "turn/wait", Observer, Unordered, WaitParams => TurnRecord;
    /// The record of a turn as it is now.
    Get: "turn/get", Observer, Unordered, TurnParams => TurnRecord;
    /// Asks the same again in a new turn; the old answer leaves the context.
    Retry: "turn/retry", Driver, Conversation, AgainParams => SendResult;
    /// Goes on from what an interrupted or failed turn has written, in a new turn.
    Continue: "turn/continue", Driver, Conversation, AgainParams => SendResult;
    QueueList: "queue/list", Observer, Unordered, QueueParams => QueueListResult;
    /// Takes a waiting turn out; it ends as `cancelled`.
    QueueRemove: "queue/remove", Driver, Conversation, QueueTurnParams => QueueListResult;
    /// Moves a waiting turn to a position, 1 being the next to run.
    QueueMove: "queue/move", Driver, Conversation, QueueMoveParams => QueueListResult;
    /// Starts the next waiting turn after an interruption held the queue.
    QueueResume: "queue/resume", Driver, Conversation, QueueParams => QueueListResult;
}

/// What to do with a question while another turn runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SendMode {
    /// Wait behind it.
    #[default]
    Queue,
    /// Fail with `busy`.
    Reject,
    /// Join the running turn before its next model request; if there is none, wait behind it.
    Steer,
}

/// Context that goes along with a question: a file, a picture, or what came on stdin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Attachment {
    /// A file's name, or `stdin`.
    pub name: String,
    /// The content. Exactly one of `text` and `blob` is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The content, put before by `blob/put`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobId>,
    /// The content is the base64 of bytes: a PNG, JPEG, GIF or WebP picture of at most 3.75 MB, or a PDF of at most 5 MB. All of a
    /// question together have 5 MB, and there are at most 20.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub base64: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SendParams {
    pub conversation: ConversationId,
    pub text: String,
    /// Makes the conversation with its first question, as one fact, if there is none of this id. The id is a ULID of
    /// the client's own, so that the same call again finds what the first one made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<ConversationCreateParams>,
    /// The same key again is the same turn, for 24 hours, also after a restart.
    pub idempotency_key: String,
    #[serde(default)]
    pub mode: SendMode,
    /// Only if this turn is the one that runs; else `staleTurn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_turn: Option<TurnId>,
    /// A preset by name, for this turn only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// What is done where a person would have to be asked; absent: a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_confirm: Option<OnConfirm>,
    /// Rounds of tool calls, at most as many as the configuration allows; the turn then ends as `toolDepth`. A
    /// question that joins a running turn has the limit of that turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_depth: Option<NonZeroU32>,
    /// What its first request is expected to take was said, and is accepted: without it a question that is dear, or fills half
    /// of what its model takes in, is refused as `costly`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_cost: bool,
}

/// What is done in one turn where a person would have to be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OnConfirm {
    #[serde(default)]
    pub then: UnattendedAction,
    /// Tools that run unasked in this turn: exact names, or `alias__*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// How long a confirm of this turn waits; absent: as long as somebody is attached, and a day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UnattendedAction {
    #[default]
    Ask,
    /// Ask if a person is attached to the conversation, anywhere; else deny.
    AskAttended,
    Deny,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SendResult {
    pub turn: TurnId,
    /// Where the question stands in the log.
    pub seq: Seq,
    /// 0: it runs; n: it waits as the nth.
    pub position: u32,
    /// The key was known: nothing new was asked.
    pub duplicate: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TurnParams {
    pub turn: TurnId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnCancelResult {
    /// False: it was finished already.
    pub cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitParams {
    pub turn: TurnId,
    /// Absent: as long as it takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AgainParams {
    pub conversation: ConversationId,
    /// The turn meant; absent: the last one that finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    pub idempotency_key: String,
    /// A preset by name, for this turn only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// What its first request is expected to take was said, and is accepted: without it a question that is dear, or fills half
    /// of what its model takes in, is refused as `costly`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_cost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueParams {
    pub conversation: ConversationId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueTurnParams {
    pub conversation: ConversationId,
    pub turn: TurnId,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueMoveParams {
    pub conversation: ConversationId,
    pub turn: TurnId,
    pub position: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueListResult {
    pub queue: Vec<QueuedTurn>,
    /// The queue waits for `turn/continue` or `queue/resume`.
    pub held: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueuedTurn {
    pub turn: TurnId,
    pub position: u32,
    /// The beginning of the question.
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TurnStatus {
    Queued,
    Running,
    Finished,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StopReason {
    End,
    ToolDepth,
    MaxTokens,
    Refusal,
    Cancelled,
    Denied,
    Budget,
    /// The model's server failed, or its stream was cut.
    Upstream,
    NoApprover,
    /// The daemon ended while the turn ran.
    Interrupted,
}

/// What went wrong in a turn, for programs by class and for people in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnError {
    pub class: FailureClass,
    /// Begins with `transport:`, `api:` or `broker:` when a model's server was asked.
    pub message: String,
    /// Why the turn's own preset failed, where this is the failure of the one that it fell back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// What helps, for people; absent: the same may go better another time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// The classes that a script may branch on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FailureClass {
    /// Nobody answered: refused, unresolved, timed out, reset, 5xx.
    Unreachable,
    /// 401, or a 403 that speaks of it: the key is missing or refused.
    Unauthorized,
    /// 429.
    RateLimited,
    /// The server refused the request or reported an error.
    Rejected,
    /// The request is larger than the model's context.
    ContextOverflow,
    /// The stream ended without saying so.
    Cut,
    /// The preset cannot be used.
    Config,
    /// The store could not take the result.
    Storage,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TurnRecord {
    pub turn: TurnId,
    pub conversation: ConversationId,
    pub status: TurnStatus,
    /// Where the question stands in the log.
    pub seq: Seq,
    pub stop_reason: Option<StopReason>,
    /// The answer's text; while the turn runs, what its finished items say.
    pub text: String,
    /// The preset by name.
    pub model: Option<String>,
    /// How it came to that preset, where questions are routed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routed: Option<RoutedTurn>,
    /// The preset that a request of it fell back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fell_back_to: Option<String>,
    pub usage: Option<Usage>,
    pub error: Option<TurnError>,
    /// The turn that took this question in (`steer`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged_into: Option<TurnId>,
    pub finished_at: Option<String>,
    /// Calls that did not run because somebody or something said no, or nobody could say yes.
    #[serde(default)]
    pub denied: u32,
}
