//! From an address to a session: which era the server speaks, the handshake, the list of its tools.

use std::sync::Arc;
use std::time::Duration;

use aishd_log::invisible_characters::without_hidden;
use aishd_log::tool_name::Alias;
use aishd_mcp_messages::bounded_text::{cut, one_line};
use aishd_mcp_messages::chosen_tools::ServerToolChoice;
use aishd_mcp_messages::log_level::LogLevel;
use aishd_mcp_messages::remarks::RemarkList;
use aishd_mcp_messages::revision::Revision;
use aishd_mcp_messages::server::ServerIdentity;
use aishd_mcp_messages::settings::{self, SessionLimits};
use aishd_mcp_messages::tool::{self, HeaderMirroring, ListedTools};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::client_session::{PeerQuestion, PeerQuestionKind, ServerClient};
use super::era::{
    self, CAPABILITY_MISSING, ClientAbilities, Era, HEADER_MISMATCH, NEWEST_SESSION, STATELESS,
    VERSION_UNSUPPORTED,
};
use super::error::{ExchangeError, WireFailure};
use super::http::HttpTransport;
use super::inbox::Inbox;
use super::message::METHOD_NOT_FOUND;
use super::pagination::ListPages;
use super::secrets::ServerSecrets;
use super::shared::SharedCell;
use super::stderr_ring::StderrRing;
use super::transport::ServerTransport;
use super::{client, event_stream, listening, stdio};
use crate::call_clock::ReplyPatience;

/// How long the last words of a child are waited for.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// How long a server may think about whether it knows the newest revision, before it is asked the older way too.
const PROBE: Duration = Duration::from_secs(3);
/// How long a session waits for the stream beside its questions.
const BESIDE: Duration = Duration::from_secs(1);
/// A server need not hear that we leave.
const GOODBYE: Duration = Duration::from_secs(1);
const MAX_INSTRUCTIONS_CHARS: usize = 4000;
const MAX_NAME_CHARS: usize = 100;

/// A session that is up.
#[derive(Debug)]
pub(super) struct LiveSession {
    pub(super) peer: ServerClient,
    pub(super) about: ServerIdentity,
    pub(super) listed: ListedTools,
    pub(super) connect_ms: u64,
    /// What runs as long as the session does.
    pub(super) pumps: JoinSet<()>,
    /// Ends a child.
    pub(super) stop: CancellationToken,
}

/// What a session is made with.
#[derive(Clone, Copy)]
pub(super) struct SessionServices<'a> {
    pub(super) shared: &'a SharedCell,
    pub(super) alias: &'a Alias,
    /// What its definitions are bound to.
    pub(super) identity: &'a str,
    pub(super) inbox: &'a Arc<Inbox>,
    /// What it may ask.
    pub(super) abilities: ClientAbilities,
    /// What it spoke last time.
    pub(super) recalled: Option<Era>,
    /// What is spoken with it and nothing else, if somebody said so.
    pub(super) revision: Option<Revision>,
    pub(super) log_level: LogLevel,
    /// Which of its tools there are.
    pub(super) chosen: &'a ServerToolChoice,
    /// Where the last words of a child go.
    pub(super) log: &'a StderrRing,
    /// Values of variables that are named like secrets, and were put into what it is reached by.
    pub(super) used: &'a [String],
}

impl SessionServices<'_> {
    fn limits(&self) -> SessionLimits {
        self.shared.limits()
    }

    fn peer(&self, link: ServerTransport, era: Era) -> ServerClient {
        ServerClient {
            link: Arc::new(link),
            inbox: self.inbox.clone(),
            era,
            abilities: self.abilities,
            log_level: self.log_level,
        }
    }
}

impl LiveSession {
    /// Leaves in good order. Returns when nothing of a child is left.
    pub(super) async fn end(mut self) {
        let leaving = self.peer.link.leave();
        let _slow = tokio::time::timeout(GOODBYE, leaving).await;
        self.stop.cancel();
        if matches!(*self.peer.link, ServerTransport::Stdio(_)) {
            while self.pumps.join_next().await.is_some() {}
        } else {
            self.pumps.shutdown().await;
        }
    }
}

/// Connects to a server behind a URL.
pub(super) async fn http(
    server: &settings::HttpServerSettings,
    means: SessionServices<'_>,
) -> Result<LiveSession, WireFailure> {
    let started = Instant::now();
    let limits = means.limits();
    let (environment, learn) = (means.shared.environment(), means.shared.learn());
    let sign_in = &means.shared.parts.sign_in;
    let mut address = client::address(server, environment, learn, sign_in)?;
    for secret in means.used {
        address.secrets.add(secret, means.shared.learn());
    }
    let client = means.shared.client(&address.url)?;
    let peer = |era| {
        let http = HttpTransport::new(client.clone(), address.clone(), means.inbox.clone());
        means.peer(ServerTransport::Http(http), era)
    };
    let old = || event_stream(&client, &address, means);
    if let Some(revision) = means.revision {
        let opened = match revision {
            Revision::Of20260728 => set_newest(&peer(Era::Stateless), limits).await,
            Revision::Of20241105 => old().await,
            Revision::Of20250326 | Revision::Of20250618 | Revision::Of20251125 => {
                session_of(&peer(Era::Session), limits, revision.name()).await
            }
        };
        return finish(opened?, means, started).await;
    }
    // What was spoken last time is tried first, and found out again only where it does not work any more.
    let again = match means.recalled {
        Some(Era::Session) => Some(session(&peer(Era::Session), limits).await),
        Some(Era::EventStream) => Some(old().await),
        Some(Era::Stateless) | None => None,
    };
    let opened = match again {
        Some(Ok(opened)) => opened,
        Some(Err(failure)) if is_final(&failure) => return Err(failure),
        Some(Err(_)) | None => {
            let (stateless, older) = (peer(Era::Stateless), peer(Era::Session));
            match either(&stateless, &older, limits).await {
                Ok(opened) => opened,
                Err(
                    failure @ WireFailure::Http {
                        status: 400 | 404 | 405,
                        ..
                    },
                ) => old().await.map_err(|_neither| failure)?,
                Err(failure) => return Err(failure),
            }
        }
    };
    finish(opened, means, started).await
}

/// Starts a child and shakes hands with it. It may need long before it can say anything.
pub(super) async fn stdio(
    server: &settings::StdioServerSettings,
    means: SessionServices<'_>,
) -> Result<LiveSession, WireFailure> {
    let started = Instant::now();
    let limits = SessionLimits {
        connect: means.limits().start.max(means.limits().connect),
        ..means.limits()
    };
    let start = async {
        let stop = CancellationToken::new();
        let (profiles, log) = (means.shared.profiles(), means.log);
        let secrets = ServerSecrets::of_child(server, means.used, means.shared.learn());
        let starting = stdio::start(
            profiles,
            (means.alias, server),
            means.inbox,
            log,
            secrets,
            stop.clone(),
        );
        let (link, pumps) = starting.await?;
        Ok::<_, WireFailure>((ServerTransport::Stdio(link), pumps, stop))
    };
    let (link, pumps, stop) = start.await?;
    let stateless = means.peer(link, Era::Stateless);
    let session_peer = ServerClient {
        era: Era::Session,
        ..stateless.clone()
    };
    let opened = match (means.revision, means.recalled) {
        (Some(Revision::Of20260728), _) => set_newest(&stateless, limits).await,
        (Some(revision), _) => session_of(&session_peer, limits, revision.name()).await,
        (None, Some(Era::Session | Era::EventStream)) => {
            reopen(&stateless, &session_peer, limits).await
        }
        (None, Some(Era::Stateless) | None) => either(&stateless, &session_peer, limits).await,
    };
    let mut opened = match opened {
        Ok(opened) => opened,
        Err(failure) => {
            hear_out(pumps, &stop).await;
            return Err(failure);
        }
    };
    opened.pumps = pumps;
    opened.stop = stop;
    finish(opened, means, started).await
}

/// Asks a child as last time. It may have become a newer one since.
async fn reopen(
    stateless: &ServerClient,
    session_peer: &ServerClient,
    limits: SessionLimits,
) -> Result<OpenedSession, WireFailure> {
    match session(session_peer, limits).await {
        Err(failure) if !is_final(&failure) => {
            let probed = probe(stateless, PROBE).await?;
            probed.ok_or(failure)
        }
        other => other,
    }
}

/// What a child that is no use has said on its standard error is what a person looks for: it is read before the child is
/// let go of.
async fn hear_out(mut pumps: JoinSet<()>, stop: &CancellationToken) {
    stop.cancel();
    let all = async { while pumps.join_next().await.is_some() {} };
    let _it_goes_on = tokio::time::timeout(LAST_WORDS, all).await;
}

/// Asks a server both ways. It may need long to say its first word (a child that installs itself, a machine with much to
/// do), so that silence says nothing about its era; and one that knows the newest revision refuses `initialize`.
async fn either(
    stateless: &ServerClient,
    older: &ServerClient,
    limits: SessionLimits,
) -> Result<OpenedSession, WireFailure> {
    let probing = probe(stateless, limits.connect);
    tokio::pin!(probing);
    tokio::select! {
        probed = &mut probing => {
            return match probed? {
                Some(opened) => Ok(opened),
                None => session(older, limits).await,
            };
        }
        () = tokio::time::sleep(PROBE) => {}
    }
    let opening = session(older, limits);
    tokio::pin!(opening);
    tokio::select! {
        biased;
        probed = &mut probing => match probed? {
            Some(opened) => Ok(opened),
            None => opening.await,
        },
        opened = &mut opening => match opened {
            Ok(opened) => Ok(opened),
            Err(failure) => probing.await?.ok_or(failure),
        },
    }
}

/// Nothing else that could be tried would end otherwise.
fn is_final(failure: &WireFailure) -> bool {
    matches!(
        failure,
        WireFailure::NotConnected(_)
            | WireFailure::NotHeld { .. }
            | WireFailure::Unreachable(_)
            | WireFailure::Auth { .. }
            | WireFailure::SignIn(_)
            | WireFailure::Ended(_)
    )
}

/// A handshake that succeeded.
#[derive(Debug)]
struct OpenedSession {
    peer: ServerClient,
    about: ServerIdentity,
    remarks: RemarkList,
    pumps: JoinSet<()>,
    stop: CancellationToken,
}

async fn event_stream(
    client: &reqwest::Client,
    address: &client::ServerAddress,
    means: SessionServices<'_>,
) -> Result<OpenedSession, WireFailure> {
    let opening = event_stream::open(client.clone(), address.clone());
    let opened = tokio::time::timeout(means.limits().connect, opening).await;
    let (stream, answers) =
        opened.map_err(|_elapsed| WireFailure::Silent("with an address".to_owned()))??;
    let mut pumps = JoinSet::new();
    pumps.spawn(answers.pump(means.inbox.clone()));
    let peer = means.peer(ServerTransport::EventStream(stream), Era::EventStream);
    let sent = means.revision.map_or(NEWEST_SESSION, Revision::name);
    let mut opened = session_of(&peer, means.limits(), sent).await?;
    opened.pumps = pumps;
    Ok(opened)
}

fn upkeep(method: &str, params: Map<String, Value>, patience: ReplyPatience) -> PeerQuestion<'_> {
    PeerQuestion {
        method,
        params,
        about: None,
        mirrored: &[],
        patience,
        kind: PeerQuestionKind::Upkeep,
    }
}

/// The newest revision, because somebody said that it is this one.
async fn set_newest(
    peer: &ServerClient,
    limits: SessionLimits,
) -> Result<OpenedSession, WireFailure> {
    let opened = probe(peer, limits.connect).await?;
    opened.ok_or_else(|| {
        WireFailure::Unreadable(format!(
            "it does not speak {STATELESS}, which `revision` sets"
        ))
    })
}

/// Whether the server speaks 2026-07-28; `None` says that it does not.
async fn probe(peer: &ServerClient, limit: Duration) -> Result<Option<OpenedSession>, WireFailure> {
    if let ServerTransport::Http(http) = &*peer.link {
        http.speak(Some(STATELESS));
    }
    let patience = ReplyPatience::once(limit);
    for _ in 0..2 {
        let asked = peer
            .ask(upkeep("server/discover", Map::new(), patience))
            .await;
        let broken = match asked {
            Ok(result) => return Ok(discovered(peer, &result)),
            Err(unanswered) => unanswered.broken,
        };
        match broken {
            ExchangeError::Rpc(error) if error.code == VERSION_UNSUPPORTED => {
                let supported = error.data.get("supported").and_then(Value::as_array);
                let ours = supported.is_some_and(|it| it.iter().any(|it| it == STATELESS));
                if !ours {
                    return Ok(None);
                }
            }
            ExchangeError::Rpc(error)
                if matches!(error.code, HEADER_MISMATCH | CAPABILITY_MISSING) =>
            {
                // A modern server that wants something else: it says what, and `initialize` would not help.
                return Err(WireFailure::Unreadable(format!(
                    "server/discover: {}",
                    error.message
                )));
            }
            ExchangeError::Failure(failure) if is_final(&failure) => return Err(failure),
            ExchangeError::Rpc(_)
            | ExchangeError::Failure(_)
            | ExchangeError::TimedOut
            | ExchangeError::Cancelled => {
                return Ok(None);
            }
        }
    }
    Ok(None)
}

/// What `server/discover` gave; a server that answers everything with `{}` has not understood it.
fn discovered(peer: &ServerClient, result: &Value) -> Option<OpenedSession> {
    let versions = result.get("supportedVersions")?.as_array()?;
    if !versions.iter().any(|it| it == STATELESS) {
        return None;
    }
    let meta = result.get("_meta");
    let named = meta.and_then(|it| it.get("io.modelcontextprotocol/serverInfo"));
    let named = named.or(result.get("serverInfo"));
    Some(OpenedSession {
        peer: peer.clone(),
        about: server_identity(named, result, STATELESS.to_owned()),
        remarks: RemarkList::default(),
        pumps: JoinSet::new(),
        stop: CancellationToken::new(),
    })
}

fn server_identity(named: Option<&Value>, result: &Value, protocol: String) -> ServerIdentity {
    let said = |name| {
        let text = named.and_then(|it| it.get(name)).and_then(Value::as_str);
        one_line(text.unwrap_or_default(), MAX_NAME_CHARS)
    };
    let instructions = result.get("instructions").and_then(Value::as_str);
    ServerIdentity {
        name: said("name"),
        version: said("version"),
        protocol,
        instructions: instructions.map(|it| cut(&without_hidden(it).0, MAX_INSTRUCTIONS_CHARS)),
        offers: era::offers(result.get("capabilities").unwrap_or(&Value::Null)),
    }
}

/// `initialize`, with whatever revision the server answers.
async fn session(peer: &ServerClient, limits: SessionLimits) -> Result<OpenedSession, WireFailure> {
    session_of(peer, limits, NEWEST_SESSION).await
}

/// The same, where another revision is asked for.
async fn session_of(
    peer: &ServerClient,
    limits: SessionLimits,
    sent: &str,
) -> Result<OpenedSession, WireFailure> {
    let params = json!({
        "protocolVersion": sent,
        "capabilities": peer.abilities.announced(),
        "clientInfo": era::client_info(),
    });
    let Value::Object(params) = params else {
        return Err(WireFailure::Unreadable("our own params".to_owned()));
    };
    let patience = ReplyPatience::once(limits.connect);
    let asked = peer.ask(upkeep("initialize", params, patience)).await;
    let result = asked.map_err(|it| failure("initialize", it.broken, limits.connect))?;
    let mut remarks = RemarkList::default();
    let version = result.get("protocolVersion").and_then(Value::as_str);
    let version = one_line(version.unwrap_or(sent), 40);
    if is_mismatch(sent, &version) {
        remarks.push(format!(
            "protocol version mismatch (sent {sent}, got {version}); proceeding"
        ));
    }
    if let ServerTransport::Http(http) = &*peer.link {
        http.speak(Some(&version));
    }
    peer.notify("notifications/initialized", Value::Null).await;
    Ok(OpenedSession {
        peer: peer.clone(),
        about: server_identity(result.get("serverInfo"), &result, version),
        remarks,
        pumps: JoinSet::new(),
        stop: CancellationToken::new(),
    })
}

/// Whether an answer is odd. We begin with the newest, so that an older one that we speak is agreed upon; one that somebody
/// set is expected.
fn is_mismatch(sent: &str, version: &str) -> bool {
    let is_agreed = || {
        let known = Revision::named(version);
        sent == NEWEST_SESSION && known.is_some_and(|it| it.name() < sent)
    };
    version != sent && !is_agreed()
}

/// A step of the handshake that went wrong.
fn failure(step: &str, broken: ExchangeError, limit: Duration) -> WireFailure {
    match broken {
        ExchangeError::Failure(failure) => failure,
        ExchangeError::Rpc(error) => WireFailure::Unreadable(format!("{step}: {}", error.message)),
        ExchangeError::TimedOut | ExchangeError::Cancelled => {
            WireFailure::Silent(format!("{step} within {} s", limit.as_secs_f32()))
        }
    }
}

async fn finish(
    opened: OpenedSession,
    means: SessionServices<'_>,
    started: Instant,
) -> Result<LiveSession, WireFailure> {
    let OpenedSession {
        peer,
        about,
        mut remarks,
        mut pumps,
        stop,
    } = opened;
    // Before the tools are listed, so that no change of them goes unheard.
    match peer.era {
        Era::Session => {
            let (tell, open) = oneshot::channel();
            pumps.spawn(listening::listen_beside(peer.link.clone(), tell));
            // What a server says during the first call arrives only where the stream is open by then. One that does
            // not even refuse it is not waited for.
            let _in_time = tokio::time::timeout(BESIDE, open).await;
        }
        Era::Stateless => {
            pumps.spawn(listening::subscribed(peer.clone(), about.offers));
        }
        Era::EventStream => {}
    }
    if peer.era != Era::Stateless && about.offers.logging {
        set_log_level(&peer).await;
    }
    let mut listed = ListedTools::default();
    if about.offers.tools {
        listed = tools(&peer, (means.identity, means.chosen), means.limits()).await?;
    }
    remarks.append(std::mem::take(&mut listed.remarks));
    listed.remarks = remarks;
    let connect_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(LiveSession {
        peer,
        about,
        listed,
        connect_ms,
        pumps,
        stop,
    })
}

/// Says how much the server is to say. It is a courtesy, and one that does not answer says what it likes.
async fn set_log_level(peer: &ServerClient) {
    let mut params = Map::new();
    params.insert("level".to_owned(), json!(peer.log_level.name()));
    let patience = ReplyPatience::once(BESIDE);
    let asked = peer.ask(upkeep("logging/setLevel", params, patience)).await;
    if let Err(unanswered) = asked {
        tracing::debug!(?unanswered, "a server took no level for its log");
    }
}

/// All tools of a server that are not left out.
pub(super) async fn tools(
    peer: &ServerClient,
    (identity, chosen): (&str, &ServerToolChoice),
    limits: SessionLimits,
) -> Result<ListedTools, WireFailure> {
    let patience = ReplyPatience::once(limits.connect);
    let mut pages = ListPages::new("tools/list", "tools");
    while let Some(params) = pages.next() {
        let asked = peer.ask(upkeep("tools/list", params, patience)).await;
        match asked.map_err(|it| it.broken) {
            Ok(page) => pages.take(page),
            // It is there, and lists none: nothing else is wrong with it.
            Err(ExchangeError::Rpc(error)) => {
                let mut listed = ListedTools::default();
                if error.code != METHOD_NOT_FOUND {
                    let remark = format!("tools/list: {}", error.message);
                    listed.remarks.push(remark);
                }
                return Ok(listed);
            }
            Err(broken) => return Err(failure("tools/list", broken, limits.connect)),
        }
    }
    let list = pages.list();
    let mirroring = match (peer.era, &*peer.link) {
        (Era::Stateless, ServerTransport::Http(_)) => HeaderMirroring::Headers,
        (Era::Stateless | Era::Session | Era::EventStream, _) => HeaderMirroring::None,
    };
    let sifted = chosen.sift(list.entries);
    let mut listed = tool::read(&sifted.entries, identity, mirroring);
    listed.left_out = sifted.left_out;
    for unmet in sifted.unmet {
        listed.remarks.push(unmet);
    }
    let of_tools = std::mem::replace(&mut listed.remarks, list.remarks);
    listed.remarks.append(of_tools);
    listed.holds = list.holds;
    Ok(listed)
}
