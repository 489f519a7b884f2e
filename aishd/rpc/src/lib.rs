//! The wire's server side: the socket, the lines, the methods, the subscriptions. Methods and params are
//! jsonrpsee's; lines, batches, limits and subscriptions are ours.

mod answerer;
mod attach;
mod attached_clients;
mod audit;
mod auto_approve;
mod blob;
mod changes;
mod config;
mod confirm;
mod connection;
mod context;
mod conversation;
mod daemon;
mod daemon_subscription;
mod doctor;
mod encoded_events;
mod event_conversion;
mod intent;
mod job;
mod lifecycle;
mod line_limit;
pub mod listen;
mod log;
mod log_owner;
mod mcp;
mod mcp_complete;
mod mcp_login;
mod mcp_prompt;
mod mcp_watch;
mod memory;
mod method_error;
mod metrics;
mod model;
mod model_catalog;
mod negotiate;
mod norris;
mod notices;
mod notification;
mod open_changes;
mod outbox;
mod permission;
mod picture;
mod pinned_resource;
mod process_descent;
mod provider_name;
mod registry;
mod request_line;
mod resource;
mod route;
mod saved_prompt;
mod shell;
pub mod socket_peer;
pub mod store;
mod stored_result;
mod tool_list;
mod tool_run;
mod transfer;
mod tried;
mod turn;
mod turn_end;
mod usage;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use aish_proto::id::{ConversationId, Epoch};
use aish_proto::limits::ProtocolLimits;
use aish_proto::method::{Method, MethodOrder};
use aishd_config::live::LiveConfig;
use aishd_config::manifest_store::ManifestStore;
use aishd_conversation::directory::ConversationDirectory;
use aishd_log::time::Timestamp;
use aishd_logging::{LogRing, Redactor};
use aishd_mcp::hub::Hub;
use jsonrpsee::types::Params;
use jsonrpsee::{Extensions, RpcModule};
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use self::attached_clients::AttachedClients;
use self::connection::{AfterReply, ClientConnection};
use self::method_error::MethodError;
use self::socket_peer::ProviderAmong;

/// What every method is given.
pub struct RpcServer {
    pub directory: ConversationDirectory,
    /// Who a client is that this daemon started.
    pub provider_among: ProviderAmong,
    pub hub: Hub,
    /// Manifests of tools.
    pub manifests: Arc<ManifestStore>,
    pub about: DaemonInfo,
    pub limits: ProtocolLimits,
    /// The last lines of the log.
    pub log: LogRing,
    /// What must not be shown of a call's arguments.
    pub redactor: Redactor,
    /// Begins the ordered stop, with the time that running turns get.
    pub stop: watch::Sender<Option<OrderedStop>>,
    /// Cancelled when no connection may live any longer.
    pub closing: CancellationToken,
    pub config: Arc<LiveConfig>,
    attached: AttachedClients,
    /// Subscriptions that have not been sent their last event.
    untold: watch::Sender<usize>,
    counters: RpcCounters,
    check: store::RunningCheck,
    /// Why a client was cut, by its process id, until it is told.
    cut: Mutex<HashMap<u32, String>>,
}

/// What does not change while the daemon runs.
#[derive(Clone, Debug)]
pub struct DaemonInfo {
    pub epoch: Epoch,
    pub started_at: Timestamp,
    pub socket: PathBuf,
    pub state_dir: PathBuf,
    pub repairs: Vec<String>,
}

/// The ordered stop, as asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderedStop {
    pub reason: String,
    pub deadline_ms: u64,
    pub deadline_at: Timestamp,
}

#[derive(Debug, Default)]
struct RpcCounters {
    connections: AtomicU64,
    connected: AtomicU64,
    calls: AtomicU64,
    events: AtomicU64,
    cut: AtomicU64,
}

/// The parts that a server is made of.
pub struct ServerParts {
    pub directory: ConversationDirectory,
    pub provider_among: ProviderAmong,
    pub hub: Hub,
    pub manifests: Arc<ManifestStore>,
    pub about: DaemonInfo,
    pub limits: ProtocolLimits,
    pub log: LogRing,
    pub redactor: Redactor,
    pub stop: watch::Sender<Option<OrderedStop>>,
    pub closing: CancellationToken,
    pub config: Arc<LiveConfig>,
}

impl std::fmt::Debug for ServerParts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerParts")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

/// Time for the last events of an ordered stop; who does not read is not waited for.
const FAREWELL: Duration = Duration::from_millis(500);

impl RpcServer {
    /// Time that running turns get at a stop when nobody says otherwise.
    pub fn grace(&self) -> Duration {
        self.config.watch_status().borrow().grace
    }

    /// Whether a client is attached to this conversation.
    pub fn is_attached(&self, conversation: ConversationId) -> bool {
        self.attached.count(conversation) > 0
    }

    /// Waits until every subscription has been sent all there is, the word of the stop included.
    pub async fn farewell(&self) {
        let mut untold = self.untold.subscribe();
        let all_told = untold.wait_for(|it| *it == 0);
        let _too_slow = tokio::time::timeout(FAREWELL, all_told).await;
    }

    fn untold(self: &Arc<Self>) -> UnsentGuard {
        self.untold.send_modify(|it| *it += 1);
        UnsentGuard(self.clone())
    }
}

/// A subscription that an ordered stop has to wait for; dropped, it has been sent everything, or is gone.
struct UnsentGuard(Arc<RpcServer>);

impl Drop for UnsentGuard {
    fn drop(&mut self) {
        self.0.untold.send_modify(|it| *it -= 1);
    }
}

impl std::fmt::Debug for RpcServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RpcServer")
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

impl RpcServer {
    pub fn new(parts: ServerParts) -> Self {
        Self {
            directory: parts.directory,
            provider_among: parts.provider_among,
            hub: parts.hub,
            manifests: parts.manifests,
            about: parts.about,
            limits: parts.limits,
            log: parts.log,
            redactor: parts.redactor,
            stop: parts.stop,
            closing: parts.closing,
            config: parts.config,
            attached: AttachedClients::default(),
            untold: watch::channel(0).0,
            counters: RpcCounters::default(),
            check: store::RunningCheck::default(),
            cut: Mutex::default(),
        }
    }
}

/// One call of a method: its params are parsed, and its client is allowed to make it.
struct MethodCall<M: Method> {
    server: Arc<RpcServer>,
    connection: Arc<ClientConnection>,
    after_reply: AfterReply,
    params: M::Params,
}

/// All methods of this build; what is not here is an unknown method.
fn methods(server: Arc<RpcServer>) -> RpcModule<RpcServer> {
    let mut module = RpcModule::from_arc(server);
    daemon::register_all(&mut module);
    doctor::register_all(&mut module);
    store::register_all(&mut module);
    log::register_all(&mut module);
    conversation::register_all(&mut module);
    transfer::register_all(&mut module);
    attach::register_all(&mut module);
    turn::register_all(&mut module);
    shell::register_all(&mut module);
    job::register_all(&mut module);
    context::register_all(&mut module);
    memory::register_all(&mut module);
    stored_result::register_all(&mut module);
    tool_run::register_all(&mut module);
    tool_list::register_all(&mut module);
    registry::register_all(&mut module);
    intent::register_all(&mut module);
    negotiate::register_all(&mut module);
    confirm::register_all(&mut module);
    permission::register_all(&mut module);
    auto_approve::register_all(&mut module);
    audit::register_all(&mut module);
    model::register_all(&mut module);
    model_catalog::register_all(&mut module);
    norris::register_all(&mut module);
    route::register_all(&mut module);
    usage::register_all(&mut module);
    mcp::register_all(&mut module);
    mcp_complete::register_all(&mut module);
    mcp_login::register_all(&mut module);
    mcp_prompt::register_all(&mut module);
    mcp_watch::register_all(&mut module);
    saved_prompt::register_all(&mut module);
    pinned_resource::register_all(&mut module);
    blob::register_all(&mut module);
    changes::register_all(&mut module);
    resource::register_all(&mut module);
    config::register_all(&mut module);
    module
}

/// Adds one method: role, params and errors are handled here, once.
fn register<M, H, F>(module: &mut RpcModule<RpcServer>, handler: H)
where
    M: Method,
    H: Fn(MethodCall<M>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Result<M::Result, MethodError>> + Send,
    M::Result: Clone,
{
    let added = module.register_async_method(M::NAME, move |params, server, extensions| {
        let handler = handler.clone();
        async move {
            let call = prepare::<M>(&params, server, &extensions)?;
            let connection = call.connection.clone();
            let _alone = match M::ORDER {
                MethodOrder::Conversation => Some(connection.change.lock().await),
                MethodOrder::Unordered => None,
            };
            let stop = call.server.stop.subscribe();
            handler(call).await.map_err(|refusal| {
                let stopping = stop.borrow().is_some();
                let refusal = if stopping {
                    refusal.while_stopping()
                } else {
                    refusal
                };
                let error = refusal.into_error();
                tracing::debug!(code = error.code(), "refused: {}", error.message());
                error
            })
        }
    });
    debug_assert!(added.is_ok(), "{} is registered twice", M::NAME);
}

fn prepare<M: Method>(
    params: &Params<'_>,
    server: Arc<RpcServer>,
    extensions: &Extensions,
) -> Result<MethodCall<M>, jsonrpsee::types::ErrorObjectOwned> {
    let connection = extensions
        .get::<Arc<ClientConnection>>()
        .cloned()
        .ok_or_else(|| MethodError::internal("the call has no connection").into_error())?;
    connection
        .may_call(M::NAME, M::ROLE, &server.directory.policy())
        .map_err(MethodError::into_error)?;
    let text = params.as_str().unwrap_or("{}").trim_start();
    if text.starts_with('[') {
        return Err(
            MethodError::params("positional params are refused; send an object").into_error(),
        );
    }
    let params = serde_json::from_str(text)
        .map_err(|error| MethodError::params(&error.to_string()).into_error())?;
    Ok(MethodCall {
        server,
        connection,
        after_reply: extensions.get::<AfterReply>().cloned().unwrap_or_default(),
        params,
    })
}
