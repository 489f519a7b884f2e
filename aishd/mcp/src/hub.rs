//! All sessions: made from the settings or at run time, supervised, and asked through here.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::{Alias, ToolName};
use aishd_mcp_messages::outcome::ToolOutcome;
use aishd_mcp_messages::revision::Revision;
use aishd_mcp_messages::server::ServerSnapshot;
use aishd_mcp_messages::settings::{McpSettings, ServerEndpoint, ServerSettings};
use aishd_mcp_messages::task::TaskSupport;
use aishd_mcp_messages::tool_approval::ApprovedTool;
use aishd_mcp_messages::{content, mirrored_headers, task};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use reqwest::Url;
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::error::{ToolCallError, WireFailure};
use super::request_task::RequestedWork;
use super::resource_cache::ResourceCache;
use super::session::{McpSession, SessionCommand, SessionEnd, SessionView};
use super::shared::SharedCell;
use crate::call_clock::ReplyPatience;
use crate::call_listener::CallListener;
use crate::hub_parts::HubParts;

/// Commands that wait for a session's actor, which never works long on one.
const MAILBOX: usize = 32;

/// A handle; cheap to clone.
#[derive(Clone, Debug)]
pub struct Hub {
    inner: Arc<HubInner>,
}

#[derive(Debug)]
struct HubInner {
    shared: Arc<SharedCell>,
    sessions: Mutex<BTreeMap<Alias, SessionHandle>>,
    tasks: Arc<Mutex<JoinSet<()>>>,
    stop: CancellationToken,
    /// Held by the one change of the set of servers that is being made.
    change: tokio::sync::Mutex<()>,
    /// Whose servers these are, where they are one conversation's own sessions with them.
    origin: Option<Hub>,
}

/// Sessions end with the last handle to them.
impl Drop for HubInner {
    fn drop(&mut self) {
        self.stop.cancel();
        for handle in self.sessions.lock().values() {
            handle.ends.stop.cancel();
        }
    }
}

#[derive(Clone, Debug)]
struct SessionHandle {
    server: Arc<ServerSettings>,
    /// Connected to at run time, so that the configuration does not take it away.
    by_hand: bool,
    mailbox: mpsc::Sender<SessionCommand>,
    ends: SessionEnd,
    ended: CancellationToken,
    kept: SessionView,
}

/// The set of servers cannot be changed so.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ServerChangeError {
    #[error("there is an MCP server {0} already")]
    Taken(Alias),
    #[error(
        "rules of the configuration speak of {0}, and no other server than a configured one can be called so"
    )]
    Reserved(Alias),
    #[error("there is no MCP server {0}")]
    Unknown(Alias),
    #[error("MCP server {alias}: {failure}")]
    Failed { alias: Alias, failure: WireFailure },
    #[error("the daemon is stopping")]
    Stopping,
}

impl Hub {
    /// No session is begun before [`Hub::configure`].
    pub fn new(parts: HubParts) -> Self {
        let shared = Arc::new(SharedCell::new(parts));
        Self {
            inner: Arc::new(HubInner {
                shared,
                sessions: Mutex::default(),
                tasks: Arc::default(),
                stop: CancellationToken::new(),
                change: tokio::sync::Mutex::default(),
                origin: None,
            }),
        }
    }

    /// The same servers in sessions that nobody else uses, each begun when it is first wanted; they end with the last
    /// handle to them. A server that asks is told of these directories.
    pub fn with_own_roots(&self, roots: Vec<PathBuf>) -> Self {
        Self {
            inner: Arc::new(HubInner {
                shared: Arc::new(self.inner.shared.with_own_roots(roots)),
                sessions: Mutex::default(),
                tasks: self.inner.tasks.clone(),
                stop: self.inner.stop.child_token(),
                change: tokio::sync::Mutex::default(),
                origin: Some(self.clone()),
            }),
        }
    }

    /// How the servers do, now and whenever that changes.
    pub fn servers(&self) -> watch::Receiver<Arc<ServerSnapshot>> {
        self.inner.shared.servers.subscribe()
    }

    /// Begins, replaces and ends sessions so that they are those of the settings. Only what differs is touched; calls
    /// in flight finish on the session that they began on. It waits for no server.
    pub async fn configure(&self, settings: McpSettings) {
        let _alone = self.inner.change.lock().await;
        let servers = settings.servers.clone();
        *self.inner.shared.settings() = settings;
        let gone: Vec<Alias> = {
            let sessions = self.inner.sessions.lock();
            let gone = sessions.iter().filter(|(alias, it)| {
                let wanted = servers.get(*alias);
                wanted.is_none_or(|wanted| **wanted != *it.server) && !it.by_hand
            });
            gone.map(|(alias, _)| alias.clone()).collect()
        };
        for alias in gone {
            if let Some(handle) = self.inner.sessions.lock().remove(&alias) {
                handle.ends.retire.cancel();
            }
            if !servers.contains_key(&alias) {
                self.inner.shared.forget(&alias);
            }
        }
        for (alias, server) in servers {
            let mut sessions = self.inner.sessions.lock();
            if !sessions.contains_key(&alias) {
                let ends = self.ends();
                self.begin(&mut sessions, alias, server, ends, /*by_hand*/ false);
            }
        }
    }

    /// A new server, until it is disconnected or the daemon ends. Returns when it is there, or why it is not; it is
    /// listed either way, and tried again. It is not called what is `reserved`: rules go by aliases.
    pub async fn connect(
        &self,
        alias: Option<Alias>,
        (endpoint, revision): (ServerEndpoint, Option<Revision>),
        reserved: &(dyn Fn(&Alias) -> bool + Sync),
    ) -> Result<Alias, ServerChangeError> {
        let told = {
            let _alone = self.inner.change.lock().await;
            let alias = self.free(alias, &endpoint, reserved)?;
            let server = ServerSettings {
                revision,
                ..ServerSettings::of(endpoint)
            };
            let mut sessions = self.inner.sessions.lock();
            let (named, ends) = (alias.clone(), self.ends());
            self.begin(
                &mut sessions,
                named,
                Arc::new(server),
                ends,
                /*by_hand*/ true,
            );
            alias
        };
        self.refresh(&told).await?;
        Ok(told)
    }

    fn free(
        &self,
        alias: Option<Alias>,
        endpoint: &ServerEndpoint,
        reserved: &(dyn Fn(&Alias) -> bool + Sync),
    ) -> Result<Alias, ServerChangeError> {
        if self.inner.stop.is_cancelled() {
            return Err(ServerChangeError::Stopping);
        }
        let sessions = self.inner.sessions.lock();
        let taken = |it: &Alias| sessions.contains_key(it) || reserved(it);
        match alias {
            Some(alias) if sessions.contains_key(&alias) => Err(ServerChangeError::Taken(alias)),
            Some(alias) if reserved(&alias) => Err(ServerChangeError::Reserved(alias)),
            Some(alias) => Ok(alias),
            None => Ok(match endpoint {
                ServerEndpoint::Http(http) => {
                    let url = Url::parse(&http.url).ok();
                    let host = url.as_ref().and_then(Url::host_str).unwrap_or_default();
                    Alias::for_host(host, taken)
                }
                ServerEndpoint::Stdio(stdio) => {
                    let name = Path::new(&stdio.command).file_stem();
                    let name = name.unwrap_or_default().to_string_lossy();
                    Alias::near(&name, taken)
                }
            }),
        }
    }

    /// Ends a session for good, its calls in flight with it. A configured server comes back with the next start.
    pub async fn disconnect(&self, alias: &Alias) -> Result<(), ServerChangeError> {
        let _alone = self.inner.change.lock().await;
        let handle = self.inner.sessions.lock().remove(alias);
        let handle = handle.ok_or_else(|| ServerChangeError::Unknown(alias.clone()))?;
        handle.ends.stop.cancel();
        handle.ended.cancelled().await;
        self.inner.shared.forget(alias);
        Ok(())
    }

    /// Ends the session and begins another; returns when that is there.
    pub async fn restart(&self, alias: &Alias) -> Result<(), ServerChangeError> {
        self.command(alias, SessionCommand::Restart).await
    }

    /// Asks for the tools again; connects where there is no session.
    pub async fn refresh(&self, alias: &Alias) -> Result<(), ServerChangeError> {
        self.command(alias, SessionCommand::Refresh).await
    }

    /// Has the lists of tools asked for again whose time is over. It waits for nobody.
    pub fn freshen(&self) {
        for handle in self.inner.sessions.lock().values() {
            if handle.kept.listed.is_over() {
                let (told, _nobody_waits) = oneshot::channel();
                // One that is so busy is asked the next time.
                let _busy = handle.mailbox.try_send(SessionCommand::Refresh(told));
            }
        }
    }

    async fn command(
        &self,
        alias: &Alias,
        command: impl FnOnce(oneshot::Sender<Result<(), WireFailure>>) -> SessionCommand,
    ) -> Result<(), ServerChangeError> {
        let handle = self.handle(alias);
        let handle = handle.ok_or_else(|| ServerChangeError::Unknown(alias.clone()))?;
        let (told, answer) = oneshot::channel();
        let sent = handle.mailbox.send(command(told)).await;
        let ended = || WireFailure::NotConnected("it was disconnected".to_owned());
        let result = match sent {
            Ok(()) => answer.await.unwrap_or_else(|_gone| Err(ended())),
            Err(_gone) => Err(ended()),
        };
        result.map_err(|failure| ServerChangeError::Failed {
            alias: alias.clone(),
            failure,
        })
    }

    /// The last words of a server, without secrets, and how many bytes before them are gone.
    pub fn log(&self, alias: &Alias) -> Option<(String, u64)> {
        let (text, mut lost) = self.handle(alias)?.kept.log.text();
        let mut text = text.as_str();
        // The first of its lines has lost its beginning, and may be the rest of a secret.
        if let Some((torn, whole)) = text.split_once('\n').filter(|_| lost > 0) {
            lost += torn.len() as u64 + 1;
            text = whole;
        }
        let lines = text.split_inclusive('\n');
        let lines = lines.map(|it| (self.inner.shared.parts.redact)(it));
        Some((lines.collect(), lost))
    }

    /// Calls a tool while it is the one that was approved; `ears` hear what it says and wants to know meanwhile.
    pub async fn call(
        &self,
        approved: ApprovedTool,
        arguments: Map<String, Value>,
        ears: CallListener,
        cancel: &CancellationToken,
    ) -> Result<ToolOutcome, ToolCallError> {
        let name = &approved.name.clone();
        let servers = self.inner.offers().borrow().clone();
        let known = servers.get(name.alias()).is_some();
        let tool = match servers.tool(name) {
            Some(tool) => tool.clone(),
            // A server that is down has no tools, and that is what has to be said.
            None if known => return Err(self.no_tool(name, &servers)),
            None => return Err(ToolCallError::UnknownTool(name.clone())),
        };
        let headers = tool.mirrored.iter();
        let mirrored = headers
            .filter_map(|it| Some((it.name.clone(), mirrored_headers::value(it, &arguments)?)))
            .collect();
        let params = json!({"name": tool.name, "arguments": arguments});
        let asked = SessionQuestion {
            mirrored,
            ears: ears.clone(),
            approved: Some(approved),
            task_support: tool.task_support,
            ..SessionQuestion::new("tools/call", params, &tool.name)
        };
        let result = self.ask(name.alias(), asked, cancel).await?;
        let identity = servers.get(name.alias()).map(|it| it.identity.as_str());
        match task::begun(&result, identity.unwrap_or_default()) {
            Some(Ok((task, said))) => self.went_on(name.alias(), task, said, ears, cancel).await,
            Some(Err(why)) => Err(ToolCallError::Transport {
                alias: name.alias().clone(),
                failure: WireFailure::Unreadable(why),
            }),
            None => Ok(content::flatten(&result)),
        }
    }

    fn no_tool(&self, name: &ToolName, servers: &ServerSnapshot) -> ToolCallError {
        use aishd_mcp_messages::server::ServerPhase;
        if let Some(it) = servers.left_out(name) {
            return ToolCallError::LeftOut(name.clone(), it.key);
        }
        let server = servers.get(name.alias());
        let why = match server.map(|it| &it.state) {
            Some(ServerPhase::Failed { why, .. } | ServerPhase::Off(why)) => why.clone(),
            Some(ServerPhase::NeedsSignIn { why, hint }) => format!("it {why}: {hint}"),
            Some(ServerPhase::Connecting) => "it is still connecting".to_owned(),
            Some(ServerPhase::Ready) | None => return ToolCallError::UnknownTool(name.clone()),
        };
        ToolCallError::Transport {
            alias: name.alias().clone(),
            failure: WireFailure::NotConnected(why),
        }
    }

    /// One request; the session may have to be made first.
    pub(super) async fn ask(
        &self,
        alias: &Alias,
        asked: SessionQuestion,
        cancel: &CancellationToken,
    ) -> Result<Value, ToolCallError> {
        let handle = self.handle(alias);
        let handle = handle.ok_or_else(|| ToolCallError::UnknownServer(alias.clone()))?;
        let limits = self.inner.shared.limits();
        let Value::Object(params) = asked.params else {
            return Err(ToolCallError::UnknownServer(alias.clone()));
        };
        let (reply, answer) = oneshot::channel();
        let work = RequestedWork {
            method: asked.method,
            params,
            about: asked.about,
            mirrored: asked.mirrored,
            patience: asked.patience.map_or(
                ReplyPatience {
                    quiet: limits.call,
                    longest: limits.longest_call.max(limits.call),
                },
                ReplyPatience::once,
            ),
            ears: asked.ears,
            approved: asked.approved.map(Box::new),
            server: asked.server,
            task_support: asked.task_support,
            cancel: cancel.clone(),
            reply,
            wait_until: Instant::now() + limits.connect,
            repeated: false,
        };
        let failed = |failure| ToolCallError::Transport {
            alias: alias.clone(),
            failure,
        };
        let gone = WireFailure::NotConnected("it was disconnected".to_owned());
        let asking = async {
            let sent = handle
                .mailbox
                .send(SessionCommand::Ask(Box::new(work)))
                .await;
            sent.map_err(|_ended| failed(gone.clone()))?;
            // The session that had it has gone without a word of how far it was.
            answer
                .await
                .unwrap_or_else(|_ended| Err(failed(gone.in_flight())))
        };
        tokio::select! {
            biased;
            () = cancel.cancelled() => Err(ToolCallError::Cancelled),
            answer = asking => answer,
        }
    }

    /// Ends every session and waits until no child is left.
    pub async fn stop(&self) {
        self.inner.stop.cancel();
        let _alone = self.inner.change.lock().await;
        self.inner.sessions.lock().clear();
        let mut tasks = std::mem::take(&mut *self.inner.tasks.lock());
        while tasks.join_next().await.is_some() {}
    }

    /// Does it beside everything else; a hub that is stopping waits for it.
    pub(super) fn do_later(&self, work: impl Future<Output = ()> + Send + 'static) {
        // Where the program ends there is nobody left to do it.
        if !self.inner.stop.is_cancelled() && tokio::runtime::Handle::try_current().is_ok() {
            let mut tasks = self.inner.tasks.lock();
            while tasks.try_join_next().is_some() {}
            tasks.spawn(work);
        }
    }

    /// What is known of a server's resources.
    pub(super) fn fresh(&self, alias: &Alias) -> Option<ResourceCache> {
        Some(self.handle(alias)?.kept.fresh)
    }

    /// All servers with how they are reached.
    pub(super) fn endpoints(&self) -> Vec<(Alias, Arc<ServerSettings>)> {
        let sessions = self.inner.sessions.lock();
        let each = sessions.iter();
        each.map(|(alias, it)| (alias.clone(), it.server.clone()))
            .collect()
    }

    pub(super) fn shared(&self) -> &SharedCell {
        &self.inner.shared
    }

    /// Something short that is done though nobody waits for it; it ends with the hub.
    pub(super) fn aside(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stop = self.inner.stop.clone();
        let mut tasks = self.inner.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(async move {
            let _ended = stop.run_until_cancelled(work).await;
        });
    }

    /// How a server is reached, while it is one of them.
    pub(super) fn server(&self, alias: &Alias) -> Option<Arc<ServerSettings>> {
        Some(self.handle(alias)?.server)
    }

    fn handle(&self, alias: &Alias) -> Option<SessionHandle> {
        let Some(origin) = &self.inner.origin else {
            return self.inner.sessions.lock().get(alias).cloned();
        };
        let wanted = origin.handle(alias)?;
        let mut sessions = self.inner.sessions.lock();
        if let Some(begun) = sessions.get(alias) {
            if begun.server == wanted.server && !begun.ended.is_cancelled() {
                return Some(begun.clone());
            }
            begun.ends.retire.cancel();
        }
        // What ends a session there ends this one.
        let ends = SessionEnd {
            stop: wanted.ends.stop.child_token(),
            retire: wanted.ends.retire.child_token(),
        };
        let (alias, server) = (alias.clone(), wanted.server);
        self.begin(&mut sessions, alias, server, ends, /*by_hand*/ false)
    }

    fn ends(&self) -> SessionEnd {
        SessionEnd {
            stop: self.inner.stop.child_token(),
            retire: CancellationToken::new(),
        }
    }

    fn begin(
        &self,
        sessions: &mut BTreeMap<Alias, SessionHandle>,
        alias: Alias,
        server: Arc<ServerSettings>,
        ends: SessionEnd,
        by_hand: bool,
    ) -> Option<SessionHandle> {
        if self.inner.stop.is_cancelled() {
            return None;
        }
        let (mailbox, commands) = mpsc::channel(MAILBOX);
        let handle = SessionHandle {
            server: server.clone(),
            by_hand,
            mailbox,
            ends,
            ended: CancellationToken::new(),
            kept: SessionView::default(),
        };
        let session = McpSession::new(
            alias.clone(),
            server,
            self.inner.shared.clone(),
            commands,
            handle.ends.clone(),
            handle.kept.clone(),
        );
        // Who asks next sees it, whether its actor has run or not.
        session.publish();
        let ended = handle.ended.clone();
        let mut tasks = self.inner.tasks.lock();
        while tasks.try_join_next().is_some() {}
        tasks.spawn(supervise(session, ended));
        sessions.insert(alias, handle.clone());
        Some(handle)
    }
}

impl HubInner {
    /// What is offered, and known of the servers that offer it.
    fn offers(&self) -> &watch::Sender<Arc<ServerSnapshot>> {
        match &self.origin {
            Some(origin) => origin.inner.offers(),
            None => &self.shared.servers,
        }
    }
}

/// A question on its way to a session.
#[derive(Debug)]
pub(super) struct SessionQuestion {
    pub(super) method: &'static str,
    /// An object.
    pub(super) params: Value,
    pub(super) about: Option<String>,
    pub(super) mirrored: Vec<(String, String)>,
    pub(super) ears: CallListener,
    /// `None`: it is no call of a tool.
    pub(super) approved: Option<ApprovedTool>,
    pub(super) task_support: TaskSupport,
    /// The only server that it is for; `None`: whichever is called so.
    pub(super) server: Option<ContentDigest>,
    /// How long its answer may take, where that is not what a call may.
    pub(super) patience: Option<Duration>,
}

impl SessionQuestion {
    /// Something that is `about` a tool, a prompt, a URI or a task.
    pub(super) fn new(method: &'static str, params: Value, about: &str) -> Self {
        Self {
            method,
            params,
            about: Some(about.to_owned()),
            mirrored: vec![],
            ears: CallListener::default(),
            approved: None,
            task_support: TaskSupport::Forbidden,
            server: None,
            patience: None,
        }
    }
}

/// A panic costs the session that it happened in, and that begins anew.
async fn supervise(mut session: McpSession, ended: CancellationToken) {
    while AssertUnwindSafe(session.run())
        .catch_unwind()
        .await
        .is_err()
    {
        tracing::error!("a session of MCP panicked; it begins anew");
        session.broke().await;
    }
    ended.cancel();
}
