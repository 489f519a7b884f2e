//! `mcp/*`: the servers whose tools, resources and prompts the daemon holds.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::conversation::ConversationCreateParams;
use crate::hosts::NetworkUse;
use crate::id::ConversationId;
use crate::mcp_login::SignInStatus;
use crate::method::{Empty, methods};
use crate::turn::{OnConfirm, SendMode, SendResult};

methods! {
    /// The servers as they are now.
    List: "mcp/list", Observer, Unordered, Empty => McpListResult;
    /// The tools that can be called, without their schemas.
    Tools: "mcp/tools", Observer, Unordered, ToolsParams => ToolsResult;
    /// One tool's whole definition.
    Tool: "mcp/tool", Observer, Unordered, ToolParams => ToolResult;
    /// Connects to a server until it is disconnected or the daemon ends; returns when its tools are there.
    Connect: "mcp/connect", Driver, Unordered, ConnectParams => ConnectResult;
    /// Ends a session and its calls in flight; a configured server comes back when the daemon is started again.
    Disconnect: "mcp/disconnect", Driver, Unordered, ServerParams => Empty;
    /// Ends a session and begins another; returns when that is there.
    Restart: "mcp/restart", Driver, Unordered, ServerParams => Empty;
    /// Lists the tools again, of one server or of all; returns when they are listed.
    Refresh: "mcp/refresh", Driver, Unordered, RefreshParams => RefreshResult;
    /// The newest 64 KiB that a server wrote to its standard error or said in log messages.
    Logs: "mcp/logs", Observer, Unordered, ServerParams => LogsResult;
    /// What the servers in another program's file would be here. Nothing is changed.
    Import: "mcp/import", Driver, Unordered, McpImportParams => McpImportResult;
    /// What a server can be asked to read.
    Resources: "mcp/resources", Driver, Unordered, ServerParams => ResourcesResult;
    /// Reads one resource.
    ReadResource: "mcp/readResource", Driver, Unordered, ReadResourceParams => ReadResourceResult;
    /// The prompts that a server keeps ready.
    Prompts: "mcp/prompts", Driver, Unordered, ServerParams => PromptsResult;
    /// One prompt, filled in.
    GetPrompt: "mcp/getPrompt", Driver, Unordered, GetPromptParams => GetPromptResult;
    /// Keeps a resource in the context: each request has what it holds then.
    Pin: "mcp/pin", Driver, Unordered, ResourcePinParams => PinnedResult;
    Unpin: "mcp/unpin", Driver, Unordered, ResourcePinParams => PinnedResult;
    /// The resources that a conversation has pinned.
    Pinned: "mcp/pinned", Observer, Unordered, McpConversationParams => PinnedResult;
    /// Asks the model what a prompt says. Returns once the question is durable; the answer comes as events, and
    /// `turn/wait` has it with model and usage.
    CallPrompt: "mcp/callPrompt", Driver, Unordered, CallPromptParams => SendResult;
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpListResult {
    /// Grows whenever a tool came, went or changed.
    pub toolset: u64,
    pub servers: Vec<McpServerStatus>,
    /// Files of other programs whose servers could be taken over (`mcp.import`); absent: the usual ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub import: Option<Vec<String>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpServerStatus {
    pub alias: String,
    pub transport: McpTransport,
    /// The URL, or the command with its arguments.
    pub endpoint: String,
    /// What the kernel holds its program to; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contain: Option<Profile>,
    pub state: ServerState,
    /// Why it is off or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What a person can do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    pub since: String,
    /// Who it says it is.
    pub name: String,
    pub version: String,
    /// The protocol revision in use; empty before the first session.
    pub protocol: String,
    /// The one that is spoken because somebody said so; absent: it is found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    pub tools: u32,
    /// Tools that it has besides, and that `tools` or `without_tools` of the configuration leaves out.
    #[serde(default, skip_serializing_if = "is_none")]
    pub left_out: u32,
    pub resources: bool,
    pub prompts: bool,
    /// It says what arguments may become (`mcp/complete`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub completions: bool,
    /// It takes a level for what it says in log messages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub logging: bool,
    /// Calls of its tools can be asked to go on by themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tasks: bool,
    /// How long the last handshake took.
    pub connect_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// In `mcp/list`: the hosts that its program reached and that it was refused, since the daemon began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUse>,
    /// In `mcp/list`: the sign-in, where there is one or was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in: Option<SignInStatus>,
    /// What was odd: tools that were left out, revisions that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands it so")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum McpTransport {
    Http,
    Stdio,
}

/// What the kernel holds a program to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Profile {
    /// It reads all but keys, writes in a `/tmp` of its own, and reaches the hosts that it is given by name.
    Read,
    /// The same, and it writes in the directories that it works in.
    Workspace,
    /// Whatever its user can do.
    Open,
}

impl Profile {
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Workspace => "workspace",
            Self::Open => "open",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ServerState {
    Off,
    Connecting,
    Ready,
    /// Nothing goes on before a person signs in (`mcp/login`); its tools stay offered, and a call says so.
    NeedsSignIn,
    Failed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolsParams {
    /// Of this server only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolsResult {
    pub toolset: u64,
    pub tools: Vec<ToolSummary>,
    /// Tools that a server has besides, and that its table of the configuration leaves out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<ToolLeftOut>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolLeftOut {
    /// As it would be called.
    pub name: String,
    /// The key of `[mcp.servers.ALIAS]` that leaves it out: `tools` or `without_tools`.
    pub key: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolSummary {
    /// `<alias>__<tool>`.
    pub name: String,
    /// One line of what the server says of it.
    pub description: String,
    /// As the server says; nothing is believed for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<bool>,
    /// The level that a call of it needs, by the rules: 1 reads, 2 writes, 3 executes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub level: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolParams {
    /// `<alias>__<tool>`.
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    pub input_schema: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    pub annotations: Value,
    /// SHA-256 over the definition and the server's identity.
    pub digest: String,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConnectParams {
    /// Absent: made from the host or the program.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// This, or `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The variable of the daemon that holds the token for `url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth_env: Option<String>,
    /// The program and its arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// What the kernel is to hold the program to; absent: `open`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contain: Option<Profile>,
    /// Absolute paths that it may write besides `cwd`, with `contain: "workspace"`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// Hosts that it may reach, with `contain: "read"` or `"workspace"`: `example.org`, `*.example.org`, `example.org:8443`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// The revision of MCP that is spoken with it, such as `2025-06-18`; absent: it is found out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// Values of the environment may be secrets.
impl std::fmt::Debug for ConnectParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConnectParams")
            .field("alias", &self.alias)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectResult {
    pub server: McpServerStatus,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerParams {
    pub alias: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct RefreshParams {
    /// Absent: every server that is not off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefreshResult {
    pub toolset: u64,
    /// What could not be asked, by alias.
    pub failed: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogsResult {
    pub text: String,
    /// Bytes before `text` that are gone.
    pub lost: u64,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpImportParams {
    /// Where the text is from: its ending tells TOML and YAML from JSON, its folder is the workspace.
    pub path: String,
    pub text: String,
    /// Whose file it is; absent: what it looks like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ImportProgram>,
    /// What stands in the file beside it where that program keeps its rules: the permission.yaml of Goose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<String>,
    /// The tables are for people: secrets in them are covered by `[key]`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub covered: bool,
    /// What the kernel is to hold the programs among them to; absent: nothing is written about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contain: Option<Profile>,
    /// Hosts that they may reach then, as in `mcp/connect`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
}

/// The text may hold tokens.
impl std::fmt::Debug for McpImportParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpImportParams")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpImportResult {
    pub servers: Vec<ImportedServer>,
    /// Tables with the rules about their tools: what runs unasked there does so here, what is denied there is denied here.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub rules: String,
    /// What of the rules, or of the file as a whole, was left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

/// A program whose file has a form of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ImportProgram {
    OpenCode,
    Zed,
    Crush,
    Goose,
    Continue,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedServer {
    pub alias: String,
    /// Its name in the file.
    pub name: String,
    pub endpoint: String,
    /// Why it would be switched off, if it would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off: Option<String>,
    /// Its table for the configuration file; empty where there is nothing to connect to.
    pub toml: String,
    /// What was changed or left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourcesResult {
    pub resources: Vec<McpResource>,
    /// Their URIs have names in braces that have to be filled in.
    pub templates: Vec<McpResource>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpResource {
    pub uri: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mime_type: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadResourceParams {
    pub alias: String,
    pub uri: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReadResourceResult {
    /// As the server sent them: `uri`, `mimeType`, and `text`, or `blob` in base64.
    pub contents: Vec<Value>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptsResult {
    pub prompts: Vec<McpPrompt>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct McpPrompt {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromptArgument {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    pub required: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GetPromptParams {
    pub alias: String,
    pub name: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub arguments: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourcePinParams {
    pub conversation: ConversationId,
    pub alias: String,
    pub uri: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct McpConversationParams {
    pub conversation: ConversationId,
}

/// All that are pinned now, in the order in which they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedResult {
    pub pinned: Vec<PinnedResource>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PinnedResource {
    pub alias: String,
    pub uri: String,
}

/// As `turn/send`, with a prompt in place of the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallPromptParams {
    pub conversation: ConversationId,
    pub alias: String,
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

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GetPromptResult {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// As the server sent them: `role` and `content`.
    pub messages: Vec<Value>,
}
