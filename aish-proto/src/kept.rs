//! `result/read`: what the log keeps of a tool's result besides what the model is shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ConversationId, ResultId};
use crate::method::methods;

methods! {
    /// Reads a part of a tool's result that the log keeps whole, or of a block of it that is no text.
    ReadResult: "result/read", Observer, Unordered, ReadResultParams => ReadResultResult;
}

/// A result that the log keeps whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptResult {
    pub result: ResultId,
    pub bytes: u64,
}

/// A block of a result that is no text, for which the model is shown one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptBlock {
    /// Its name for `result/read`; the line that the model is shown has it too.
    pub result: ResultId,
    pub kind: BlockKind,
    /// As the server says, which may be wrong; `application/octet-stream` where it says nothing that is one.
    pub mime_type: String,
    pub bytes: u64,
    /// What the server calls the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BlockKind {
    Image,
    Audio,
    /// A resource in the result itself.
    Resource,
    /// The block that names a resource, as JSON; what it names was not read.
    Link,
    /// Of an unknown kind, or broken; as JSON.
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadResultParams {
    pub conversation: ConversationId,
    pub result: ResultId,
    /// Where to begin, in bytes.
    #[serde(default)]
    pub offset: u64,
    /// At most 1 MiB; that when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadResultResult {
    /// The part, as `encoding` says.
    pub text: String,
    /// Where the part begins: at `offset`, or in a text at the character that it falls into.
    pub offset: u64,
    /// Of the whole, however it is encoded.
    pub bytes: u64,
    /// Absent: `text` is the part itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<BlockEncoding>,
    /// Of a block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum BlockEncoding {
    /// The standard alphabet, with padding, on one line.
    Base64,
}
