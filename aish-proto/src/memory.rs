//! `memory/*`: facts that people keep for all conversations (MEM-1), and what models propose of them (MEM-2).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::ConversationId;
use crate::method::{Empty, methods};

methods! {
    /// Keeps a fact; models are told it from the next request on. One that is there already is that one. Returns once it is
    /// durable.
    Add: "memory/add", Driver, Unordered, AddParams => AddResult;
    /// All that is kept or proposed, the oldest first.
    List: "memory/list", Observer, Unordered, Empty => ListResult;
    /// Forgets a fact, or declines a proposal. Models are not told it any more; the journal's old lines of it go when it is
    /// compacted.
    Remove: "memory/remove", Driver, Unordered, NameParams => Empty;
    /// Makes a proposal a fact.
    Keep: "memory/keep", Driver, Unordered, NameParams => Memory;
    /// Pins a fact, so that models are told it before others, or takes that back.
    Pin: "memory/pin", Driver, Unordered, PinParams => Memory;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AddParams {
    /// At most 1,000 characters. Lines become one, and what cannot be seen is left out.
    pub text: String,
    /// A word of 1 to 16 letters `a`–`z` and `-`; absent: `fact`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    #[serde(default)]
    pub pinned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AddResult {
    pub memory: Memory,
    /// Whether anything is different now.
    pub changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NameParams {
    /// As in `m3`.
    pub id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PinParams {
    /// As in `m3`.
    pub id: String,
    pub pinned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ListResult {
    pub memories: Vec<Memory>,
    /// The block of the system message as it would be sent now; absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Memory {
    pub id: String,
    pub kind: String,
    pub text: String,
    pub pinned: bool,
    /// A model's proposal: no model is told it until a person keeps it.
    pub proposed: bool,
    /// When it came; RFC 3339.
    pub at: String,
    /// The conversation that it was proposed of, and by which preset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<MemoryOrigin>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryOrigin {
    pub conversation: ConversationId,
    pub model: String,
}
