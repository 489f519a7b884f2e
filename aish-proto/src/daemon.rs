//! `daemon/*`: the handshake, and the daemon itself.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::UiConfig;
use crate::id::{BlobId, ClientId, Epoch};
use crate::limits::ProtocolLimits;
use crate::method::{ClientRole, Empty, methods};
use crate::version::ProtocolRange;

methods! {
    /// Must be the first call but for `daemon/ping`; makes the client known.
    Hello: "daemon/hello", Observer, Unordered, HelloParams => HelloResult;
    /// Answers at once; works before hello.
    Ping: "daemon/ping", Observer, Unordered, Empty => Empty;
    /// One screen about the daemon.
    Status: "daemon/status", Observer, Unordered, Empty => StatusResult;
    /// Begins the ordered stop; the reply comes before the daemon is gone.
    Shutdown: "daemon/shutdown", Driver, Unordered, ShutdownParams => ShutdownResult;
    /// Reads the configuration again; a bad file keeps the old one.
    Reload: "daemon/reload", Driver, Unordered, Empty => DaemonReloadResult;
    /// The JSON schema of every method and event.
    Schema: "daemon/schema", Observer, Unordered, Empty => serde_json::Value;
    /// Counters in the Prometheus text format.
    Metrics: "daemon/metrics", Observer, Unordered, Empty => MetricsResult;
    /// Sends input that is too large for one line ahead of `turn/send`, in pieces, kept for this connection.
    BlobPut: "blob/put", Driver, Unordered, BlobPutParams => BlobPutResult;
}

/// What kind of program attaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ClientKind {
    Line,
    Ctl,
    Script,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ClientInfo {
    pub name: String,
    pub version: String,
    pub kind: ClientKind,
    /// The terminal it sits on, e.g. `pts/3`. For show: who somebody is comes from the socket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
}

#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HelloParams {
    pub protocol: ProtocolRange,
    pub client: ClientInfo,
    pub role: ClientRole,
    /// Values of environment variables that presets name as `key_env`; kept in memory only and never shown.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, String>,
    /// What commands of this client's conversations run with; the daemon takes of it what `shell.env_from_client` names, and
    /// SHELL.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environment: BTreeMap<String, String>,
    /// The same for files that they make; absent: 077.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub umask: Option<u32>,
    /// It counts only if the daemon wants nothing more, and is else to be said again. So a client may send its first calls
    /// right behind it, and none of them begins without a key that it could have lent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tentative: bool,
}

impl std::fmt::Debug for HelloParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HelloParams")
            .field("protocol", &self.protocol)
            .field("client", &self.client)
            .field("role", &self.role)
            .field("secrets", &self.secrets.keys())
            .field("environment", &self.environment.keys())
            .field("umask", &self.umask)
            .field("tentative", &self.tentative)
            .finish()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerInfo {
    pub version: String,
    pub pid: u32,
    pub started_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HelloResult {
    /// The protocol both will speak.
    pub protocol: u32,
    pub event_schema: u32,
    pub server: ServerInfo,
    pub client_id: ClientId,
    pub epoch: Epoch,
    pub features: Vec<String>,
    pub limits: ProtocolLimits,
    /// Environment variables that presets name as `key_env` and that nobody has given yet.
    pub wanted_secrets: Vec<String>,
    /// Further environment variables that the daemon would take of this client for its commands. As with secrets, a
    /// tentative hello is to be said again where there are any.
    #[serde(default)]
    pub wanted_environment: Vec<String>,
    /// How clients look, as configured.
    #[serde(default)]
    pub ui: UiConfig,
}

/// How the store is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StoreStatus {
    pub path: String,
    pub epoch: Epoch,
    /// Whether commits are taken now.
    pub writable: bool,
    /// Why not, when they are not.
    pub problem: Option<String>,
    /// What start-up found and repaired, if anything.
    pub repairs: Vec<String>,
    pub journal_bytes: u64,
}

/// Routing and fallback, and what came of both since the daemon began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RoutingStatus {
    /// Whether questions are routed.
    pub auto: bool,
    /// Whether requests fall back.
    pub fallback: bool,
    /// Turns that another preset answered than would have without routing.
    pub routed: u64,
    /// Requests that went to another preset.
    pub fallbacks: u64,
    /// Those of them that failed there too.
    pub fallbacks_failed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusResult {
    pub server: ServerInfo,
    pub socket: String,
    /// The configuration file that was read; null when none was there.
    pub config: Option<String>,
    /// Why the files as they are now are not in force, if they are not.
    #[serde(default)]
    pub config_errors: Vec<String>,
    /// Keys whose new value waits for a restart.
    #[serde(default)]
    pub restart_needed: Vec<String>,
    pub default_model: String,
    pub conversations: u64,
    pub running_turns: u64,
    /// Conversations in which no turn runs, but a person's own command.
    #[serde(default)]
    pub running_commands: u64,
    /// Confirms that wait for a person.
    #[serde(default)]
    pub pending_confirms: u64,
    pub queued_turns: u64,
    pub clients: u64,
    pub store: StoreStatus,
    #[serde(default)]
    pub routing: RoutingStatus,
    pub draining: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShutdownParams {
    /// Only when no turn runs or waits; otherwise the answer is `busy`.
    #[serde(default)]
    pub if_idle: bool,
    /// Time that running turns get; at most 3 000, `shutdown.grace` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShutdownResult {
    pub deadline_at: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DaemonReloadResult {
    /// Dotted names of what is different now.
    pub changed: Vec<String>,
    /// Why the old configuration stays, if it does.
    pub errors: Vec<String>,
    /// What is odd and was taken over anyway.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Keys whose new value waits for a restart.
    #[serde(default)]
    pub restart_needed: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricsResult {
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct BlobPutParams {
    /// The blob to append to; absent for the first piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<BlobId>,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BlobPutResult {
    pub blob: BlobId,
    /// What has been put so far.
    pub bytes: usize,
}
