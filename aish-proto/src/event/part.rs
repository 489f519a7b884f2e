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
    pub text: String,
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
