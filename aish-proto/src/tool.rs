//! `tool/*`: calls of tools without a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::CreateParams;
use crate::id::ConversationId;
use crate::method::methods;
use crate::turn::{OnConfirm, SendMode, SendResult};

methods! {
    /// Runs a list of calls that depend on each other, as a turn that asks no model. Returns once the list is durable; the
    /// replies come as events.
    Run: "tool/run", Driver, Conversation, RunParams => SendResult;
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
