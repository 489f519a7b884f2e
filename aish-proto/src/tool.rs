//! `tool/*`: calls of tools without a model, and tools that somebody wrote down.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::CreateParams;
use crate::id::ConversationId;
use crate::method::{Empty, methods};
use crate::turn::{OnConfirm, SendMode, SendResult};

methods! {
    /// Runs a list of calls that depend on each other, as a turn that asks no model. Returns once the list is durable; the
    /// replies come as events.
    Run: "tool/run", Driver, Conversation, RunParams => SendResult;
    /// Puts the manifest of a tool into the directory of tools, in place of the one of the same name. It counts when this
    /// returns.
    Register: "tool/register", Driver, Unordered, RegisterParams => RegisterResult;
    /// Takes the manifest of a tool out of the directory of tools.
    Unregister: "tool/unregister", Driver, Unordered, UnregisterParams => RegisterResult;
    /// Reads all manifests again. It is for where changes of files are not noticed.
    Reload: "tool/reload", Driver, Unordered, Empty => ReloadResult;
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
pub struct ReloadResult {
    /// Manifests that were read.
    pub read: u32,
    /// A line for each tool that came, went or changed.
    pub changes: Vec<String>,
    /// What is wrong with manifests, with file and line. One that was right before counts as it was then.
    pub errors: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RunParams {
    pub conversation: ConversationId,
    /// JSON-RPC requests, `tools/call` or `resources/read`, at most 128 and 512 KiB of them. Each has an `id`; an argument
    /// `{"$result": id}` is the text of that call's result, with `"pointer"` (RFC 6901) a part of it, and `after` names
    /// calls that come first.
    pub calls: Vec<Value>,
    /// As in `turn/send`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<CreateParams>,
    /// As in `turn/send`: the same key with the same calls is the same turn.
    pub idempotency_key: String,
    /// `queue` or `reject`.
    #[serde(default)]
    pub mode: SendMode,
    /// What is done where a person would have to be asked; absent: a person is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_confirm: Option<OnConfirm>,
}
