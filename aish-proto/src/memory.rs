//! `memory/*`: facts that people keep for all conversations. What a model proposes is a confirm.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::ErasureResult;
use crate::id::ConversationId;
use crate::method::{Empty, methods};

methods! {
    /// Keeps a fact; models are told it from the next request on. One that is there already is that one. Returns once it is
    /// durable.
    Add: "memory/add", Driver, Unordered, AddParams => AddResult;
    /// All that is kept, the oldest first. What is proposed is in `confirm/list`.
    List: "memory/list", Observer, Unordered, Empty => MemoryListResult;
    /// Forgets a fact. Models are not told it any more, and returns once no list of facts in a file of the store has it. What
    /// conversations say of it stays with them.
    Remove: "memory/remove", Driver, Unordered, MemoryNameParams => ErasureResult;
    /// Pins a fact, so that models are told it before others, or takes that back.
    Pin: "memory/pin", Driver, Unordered, MemoryPinParams => MemoryFact;
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
    pub memory: MemoryFact,
    /// Whether anything is different now.
    pub changed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryNameParams {
    /// As in `m3`.
    pub id: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MemoryPinParams {
    /// As in `m3`.
    pub id: String,
    pub pinned: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryListResult {
    pub memories: Vec<MemoryFact>,
    /// The block of the system message as it would be sent now; absent: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub background: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryFact {
    pub id: String,
    pub kind: String,
    pub text: String,
    pub pinned: bool,
    /// When it came; RFC 3339.
    pub at: String,
    /// The conversation that it was proposed of, and by which preset, where a person has allowed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<MemoryOrigin>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MemoryOrigin {
    pub conversation: ConversationId,
    pub model: String,
}

/// A fact that a model proposes: what a yes keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedMemory {
    pub kind: String,
    /// One line of visible characters, at most 1,000.
    pub text: String,
    /// The preset whose idea it is.
    pub model: String,
}
