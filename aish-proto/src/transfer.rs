//! `conversation/export` and `conversation/import`: what was said leaves the daemon and comes into it, page by page, so
//! that the length of a conversation is in nobody's memory.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::envelope::Envelope;
use crate::id::{ConversationId, Seq, TurnId};
use crate::method::methods;

methods! {
    /// A page of what was said in a conversation, as of the moment in which its first page was asked for.
    Export: "conversation/export", Observer, Unordered, ConversationExportParams => ConversationExportResult;
    /// A piece of a text of messages. With the last piece they become a conversation, whole or not at all.
    Import: "conversation/import", Driver, Conversation, ConversationImportParams => ConversationImportResult;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationExportParams {
    pub id: ConversationId,
    pub format: ExportFormat,
    /// Only exchanges that left the context, those that are back too.
    #[serde(default)]
    pub archive: bool,
    /// `nextCursor` of the page before; absent: from the beginning, up to what is stored now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ExportFormat {
    /// The stored events, oldest first; a `resultKept` has its text.
    Events,
    /// The messages in the form of OpenAI, in the order in which they were said.
    Messages,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationExportResult {
    /// The last event that the export is about.
    pub through: Seq,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<Envelope>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<ExportedMessage>,
    /// Absent: that was all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A message, and the exchange that it belongs to: a question and all that followed on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExportedMessage {
    /// The turn of the exchange's question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exchange: Option<TurnId>,
    /// It is the first of its exchange.
    pub begins: bool,
    pub message: ChatMessage,
}

/// A message as OpenAI's chat completions have it; the names of its fields are theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChatMessage {
    pub role: ChatRole,
    /// Null: an answer that only calls tools.
    pub content: Option<ChatContent>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ChatCall>,
    /// Of a result: the call that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
}

/// What a message says: a text, or a text and what goes along with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ChatContent {
    Text(String),
    Parts(Vec<ChatPart>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum ChatPart {
    Text { text: String },
    ImageUrl { image_url: ChatImage },
    File { file: ChatFile },
}

/// A picture, as an address that holds it: `data:image/png;base64,...`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChatImage {
    pub url: String,
}

/// A PDF, as an address that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChatFile {
    pub filename: String,
    pub file_data: String,
}

impl ChatContent {
    /// About the bytes that it takes.
    pub fn bytes(&self) -> usize {
        let part = |it: &ChatPart| match it {
            ChatPart::Text { text } => text.len(),
            ChatPart::ImageUrl { image_url } => image_url.url.len(),
            ChatPart::File { file } => file.file_data.len(),
        };
        match self {
            Self::Text(text) => text.len(),
            Self::Parts(parts) => parts.iter().map(part).sum(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChatRole {
    User,
    Assistant,
    Tool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChatCall {
    pub id: String,
    #[serde(rename = "type")]
    pub kind: ChatCallKind,
    pub function: ChatFunction,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChatCallKind {
    Function,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ChatFunction {
    /// At most 64 letters, digits, `_` and `-`, as requests to models have it.
    pub name: String,
    /// One JSON object as text.
    pub arguments: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConversationImportParams {
    /// The id of the conversation to be, made by the client for this import alone. The last piece said again with it,
    /// because its reply was lost, is answered as the first time.
    pub id: ConversationId,
    /// Bytes of the text that were sent before; an import is the matter of one connection.
    pub offset: u64,
    /// The next piece of JSON lines: each one message, or each `{"messages": [...]}`.
    pub text: String,
    /// Nothing follows.
    pub end: bool,
    /// With the first piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<ImportedAs>,
}

/// What the conversation is made with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ImportedAs {
    /// Absent: taken from the first question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// A preset by name; absent: the default of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    pub cwd: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConversationImportResult {
    /// Bytes of the text that have been taken.
    pub taken: u64,
    /// With the last piece: what has come of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<ImportDone>,
}

/// A conversation that was imported and is durable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportDone {
    pub conversation: ConversationId,
    pub seq: Seq,
    /// Questions, each with what followed on it.
    pub exchanges: u64,
    pub messages: u64,
    /// System messages, which are left out: the daemon has its own.
    pub left_out: u64,
    /// Calls without a result; each was given one that says so.
    pub unanswered: u64,
    /// It was there already.
    pub duplicate: bool,
}
