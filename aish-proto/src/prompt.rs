//! `prompt/*`: prompts that people keep, texts with places for arguments. Those that servers keep are `mcp/prompts`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::conversation::ConversationCreateParams;
use crate::id::ConversationId;
use crate::method::{Empty, methods};
use crate::turn::{OnConfirm, SendMode, SendResult};

methods! {
    /// Keeps a text under a name. Returns once it is on disk.
    Save: "prompt/save", Driver, Unordered, SaveParams => FileResult;
    /// All that are kept, in the order of their names, and what of them cannot be read.
    List: "prompt/list", Observer, Unordered, Empty => PromptListResult;
    /// The text of one.
    Get: "prompt/get", Observer, Unordered, PromptNameParams => PromptGetResult;
    Remove: "prompt/remove", Driver, Unordered, PromptNameParams => FileResult;
    /// Asks what a prompt says, with its arguments in their places. As `turn/send`.
    Call: "prompt/call", Driver, Unordered, CallParams => SendResult;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SaveParams {
    /// 1 to 64 of `a`–`z`, `0`–`9`, `-` and `_`, with a letter or a digit first.
    pub name: String,
    /// `{{name}}` in it is a place for an argument.
    pub text: String,
    /// Whether one that is there goes; absent, it is an error.
    #[serde(default)]
    pub replace: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FileResult {
    pub file: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PromptNameParams {
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptListResult {
    pub prompts: Vec<SavedPrompt>,
    /// A line for each that cannot be read.
    pub errors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SavedPrompt {
    pub name: String,
    /// In the order in which they first stand in the text.
    pub arguments: Vec<String>,
    /// The first line of the text.
    pub begins: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptGetResult {
    pub text: String,
    pub arguments: Vec<String>,
}

/// As `turn/send`, with a prompt in place of the text. Every argument has to be given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallParams {
    pub conversation: ConversationId,
    pub name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<ConversationCreateParams>,
    pub idempotency_key: String,
    #[serde(default)]
    pub mode: SendMode,
    /// A preset by name, for this turn only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_confirm: Option<OnConfirm>,
    /// What its first request is expected to take was said, and is accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accept_cost: bool,
}
