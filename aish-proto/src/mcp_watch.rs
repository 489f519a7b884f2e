//! `mcp/watch`: hearing what MCP servers tell of their resources and prompts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::SubscriptionId;
use crate::mcp::PinnedResource;
use crate::method::methods;

methods! {
    /// A subscription to what servers tell: `mcpChanged` where there are other resources or prompts, and where one of these
    /// resources is another now. It ends with `conversation/detach`; who wants to hear of others watches anew before that.
    Watch: "mcp/watch", Driver, Unordered, McpWatchParams => McpWatchResult;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpWatchParams {
    /// At most 256. Each is asked for once of its server, however many watch it, and again when the server is back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<PinnedResource>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpWatchResult {
    pub subscription: SubscriptionId,
    /// Those of which nobody will be told. A server that is not there just now is asked when it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<RefusedResource>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusedResource {
    pub alias: String,
    pub uri: String,
    pub why: String,
}

/// What is another now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpChange {
    /// The list of its resources; also when the server came or went.
    Resources,
    /// The list of its prompts; also when the server came or went.
    Prompts,
    /// What the resource holds, or what it may have held while nobody told.
    Resource,
}
