//! `context/*`: what the model is shown of a conversation, and what has left that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::SeqResult;
use crate::id::{ConversationId, Seq, TurnId};
use crate::method::methods;
use crate::turn::{Attachment, OnConfirm};

methods! {
    /// The request that would be sent, byte for byte, by the builder of the real one; nothing is sent and nothing leaves.
    Preview: "context/preview", Observer, Unordered, ContextPreviewParams => ContextPreviewResult;
    /// Exchanges that left the context, the newest first.
    Archive: "context/archive", Observer, Unordered, ArchiveParams => ArchiveResult;
    /// Puts an exchange that left back in its place, if there is room for it.
    Restore: "context/restore", Driver, Conversation, RestoreParams => SeqResult;
    /// Takes the summary of what left out of the context; what left stays where it is.
    Forget: "context/forget", Driver, Conversation, ForgetParams => SeqResult;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ContextPreviewParams {
    pub conversation: ConversationId,
    /// A question as if it were asked now; absent: with the conversation as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What would go along with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// A preset by name; absent: the one that would answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// As it would be asked with: where nobody could agree to a command, a request tells of none. Absent: a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_confirm: Option<OnConfirm>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextPreviewResult {
    /// The preset.
    pub model: String,
    /// The body of the request, as text; its middle is cut, visibly, where it is longer than a line can be. Empty where it
    /// could not be sent.
    pub body: String,
    /// The system message in it. Absent where there would be no request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    pub bytes: u64,
    pub tokens: TokenCount,
    /// Exchanges in it.
    pub turns: u64,
    /// `context.max_turns`.
    pub max_turns: u64,
    /// Exchanges that would leave the context for this request, the oldest first.
    pub evicts: Vec<ContextTurn>,
    /// Exchanges that would leave next, as far as can be said now.
    pub next: Vec<ContextTurn>,
    /// Results, and outputs of commands that go with the question, that are shown shortened, so that the last question fits.
    pub shortened: u64,
    /// Where not all tools are sent that could be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_tools: Option<ChosenTools>,
    /// Why there would be no request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_long: Option<String>,
    /// What a person should know of the conversation's directory, such as that its instructions are not trusted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// Of how many tools some are sent, and why not all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChosenTools {
    pub sent: u64,
    /// All that the preset could be sent.
    pub available: u64,
    /// For people.
    pub because: String,
}

/// Estimates, by what the preset's server has counted so far.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenCount {
    pub total: u64,
    /// The system message, without the two that follow.
    pub system: u64,
    /// What it tells of the conversation's directory.
    pub project: u64,
    pub summary: u64,
    /// What tools are offered.
    pub tools: u64,
    pub pinned: u64,
    /// Questions, answers and results.
    pub messages: u64,
    /// What the model takes in; null: nobody said.
    pub limit: Option<u64>,
    /// Of that, what is kept for the answer.
    pub reserve: u64,
    pub bytes_per_token: f64,
}

/// An exchange: a question and what followed on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContextTurn {
    /// The turn of its question; null: its question is not here.
    pub turn: Option<TurnId>,
    /// The beginning of its question.
    pub text: String,
    /// An estimate.
    pub tokens: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ArchiveParams {
    pub conversation: ConversationId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// At most 500; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchiveResult {
    pub exchanges: Vec<ArchivedTurn>,
    /// Exchanges that left and are not back, in all.
    pub total: u64,
    /// The summary of what left, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArchivedTurn {
    /// The turn of its question; `context/restore` takes it.
    pub turn: TurnId,
    /// Where the question stands in the log.
    pub seq: Seq,
    pub asked_at: String,
    /// The beginning of the question.
    pub text: String,
    /// An estimate.
    pub tokens: u64,
    /// Whether it is back.
    pub restored: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RestoreParams {
    pub conversation: ConversationId,
    /// A turn that is in it; this or `event`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// An event of it, as a search finds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<Seq>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ForgetParams {
    pub conversation: ConversationId,
}
