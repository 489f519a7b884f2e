//! What the data of several events is made of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::id::{ClientId, TurnId};
use crate::method::ClientRole;
use crate::permission::AutoApproves;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachedText {
    pub name: String,
    /// Empty where it is a picture or a PDF.
    pub text: String,
    /// What it is, where it is no text. An export has the bytes as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<AttachedPicture>,
}

/// A picture or a PDF that goes along with a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AttachedPicture {
    pub media_type: String,
    /// In pixels; a PDF has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    pub bytes: u64,
    /// The bytes, in `conversation/export` alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base64: Option<String>,
}

/// The value of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Structured {
    /// The text of the result, which is its JSON; of a result that is kept, the whole of it.
    Text,
    /// This, beside the text.
    Value(Value),
}

/// A call as the model wrote it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CalledTool {
    pub id: String,
    pub name: String,
    /// One JSON object as text; `{}` when what the model sent was none.
    pub arguments: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum StatusLevel {
    Debug,
    Info,
    Warning,
}

/// The turn that runs, and the newest part of what it is writing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningTurn {
    pub turn: TurnId,
    pub item: u32,
    /// Offset of `text` in the item, in UTF-8 bytes.
    pub offset: u64,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PresentClient {
    pub client_id: ClientId,
    pub name: String,
    pub tty: Option<String>,
    /// From the socket.
    pub pid: Option<u32>,
    pub role: ClientRole,
    /// What it lets run unasked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_approves: Option<AutoApproves>,
}
