//! `tool/*`: the tools there are, those that somebody wrote down, and calls without a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::ConversationCreateParams;
use crate::id::{ConversationId, SubscriptionId};
use crate::mcp::Profile;
use crate::method::{Empty, methods};
use crate::turn::{OnConfirm, SendMode, SendResult};

methods! {
    /// Every tool there is, of every provider, as it stands to a conversation; as many as a page holds.
    List: "tool/list", Observer, Unordered, ToolListParams => ToolListResult;
    /// One of them.
    Describe: "tool/describe", Observer, Unordered, DescribeParams => ToolDescription;
    /// A subscription to the set of tools: `toolsChanged` when it has changed, and `configReloaded` when rules may have. It
    /// ends with `conversation/detach`.
    Watch: "tool/watch", Observer, Unordered, Empty => ToolWatchResult;
    /// Runs a list of calls that depend on each other, as a turn that asks no model. Returns once the list is durable; the
    /// replies come as events.
    Run: "tool/run", Driver, Conversation, ToolRunParams => SendResult;
    /// Puts the manifest of a tool into the directory of tools, in place of the one of the same name. It counts when this
    /// returns.
    Register: "tool/register", Driver, Unordered, RegisterParams => RegisterResult;
    /// Takes the manifest of a tool out of the directory of tools.
    Unregister: "tool/unregister", Driver, Unordered, UnregisterParams => RegisterResult;
    /// Reads all manifests again. It is for where changes of files are not noticed.
    Reload: "tool/reload", Driver, Unordered, Empty => ToolReloadResult;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RegisterParams {
    /// In TOML, at most 256 KiB.
    pub manifest: String,
    /// The directory in which relative paths of the manifest are meant; absent: the directory of tools.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UnregisterParams {
    /// The name in the manifest.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegisterResult {
    /// The file that was written or removed.
    pub file: String,
    /// A line for each tool that came, went or changed.
    pub changes: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolReloadResult {
    /// Manifests that were read.
    pub read: u32,
    /// A line for each tool that came, went or changed.
    pub changes: Vec<String>,
    /// What is wrong with manifests, with file and line. One that was right before counts as it was then.
    pub errors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolRunParams {
    pub conversation: ConversationId,
    /// JSON-RPC requests, `tools/call` or `resources/read`, at most 128 and 512 KiB of them. Each has an `id`; an argument
    /// `{"$result": id}` is the text of that call's result, with `"pointer"` (RFC 6901) a part of it, and `after` names
    /// calls that come first. With `"literal": true` the arguments of a call are taken as they are.
    pub calls: Vec<Value>,
    /// As in `turn/send`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<ConversationCreateParams>,
    /// As in `turn/send`: the same key with the same calls is the same turn.
    pub idempotency_key: String,
    /// `queue` or `reject`.
    #[serde(default)]
    pub mode: SendMode,
    /// What is done where a person would have to be asked; absent: a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_confirm: Option<OnConfirm>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolListParams {
    /// Whose levels and limits count; absent: those that a new conversation begins with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// Where the page before this one ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolListResult {
    /// Grows whenever a tool came, went or changed; pages of two versions are not of one list.
    pub toolset: u64,
    /// By name.
    pub tools: Vec<ToolDescription>,
    /// Absent: this was the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DescribeParams {
    /// `<alias>__<tool>`.
    pub name: String,
    /// As in `tool/list`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
}

/// A tool, as its provider defines it and as it stands to a conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolDescription {
    /// `<alias>__<tool>`.
    pub name: String,
    /// The name that models and MCP clients are told, where they would not take the other one: at most 64 letters, digits,
    /// `-` and `_`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub short_name: Option<String>,
    /// The alias of whoever offers it; `aish` is the daemon itself.
    pub provider: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    pub input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// As its provider says; nothing is believed for them.
    pub annotations: Value,
    /// SHA-256 over the definition and whose it is.
    pub digest: String,
    /// Levels are 1 read, 2 write, 3 execute.
    pub level_required: u8,
    /// What its provider has in the conversation.
    pub level: u8,
    /// What the kernel holds its program to; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contain: Option<Profile>,
    /// Whether models are told of it there, as far as the configuration says it.
    pub offered: bool,
    /// Whether MCP clients of the daemon are told of it (`aishctl mcp serve`).
    pub served: bool,
    /// Whether a person is asked about a call of it there, as far as that is known before its arguments are.
    pub asks: bool,
    /// The rule that denies every call of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolWatchResult {
    pub subscription: SubscriptionId,
    /// As of which changes are told.
    pub toolset: u64,
}
