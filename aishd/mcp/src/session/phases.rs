//! How a session comes up and goes down.

use std::cell::RefCell;
use std::sync::Arc;

use aishd_mcp_messages::secret_name;
use aishd_mcp_messages::server::ServerPhase;
use aishd_mcp_messages::settings::ServerEndpoint;
use aishd_mcp_messages::variable_expansion::UnsetIn;
use aishd_platform::clock;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::era::Era;
use super::super::error::{ExchangeError, WireFailure};
use super::super::inbox::{InboundMessage, Inbox};
use super::super::lifecycle::{self, LiveSession, SessionServices};
use super::super::shared::SharedCell;
use super::{INBOUND, McpSession, SessionDone};

/// Whether there is a session.
pub(super) enum SessionPhase {
    /// Not wanted, or failed; by itself it is tried again then.
    Down {
        retry_at: Option<Instant>,
    },
    Connecting(AbortHandle),
    Up(Box<UpSession>),
}

/// A session that is there.
pub(super) struct UpSession {
    pub(super) live: LiveSession,
    pub(super) inbound: mpsc::Receiver<InboundMessage>,
    pub(super) changes: watch::Receiver<u64>,
    pub(super) since: Instant,
    pub(super) listing: bool,
    pub(super) list_again_at: Option<Instant>,
    /// They changed while they were being listed.
    pub(super) changed_since: bool,
    /// Held by each call that was sent.
    pub(super) in_flight: mpsc::Sender<()>,
    landed: mpsc::Receiver<()>,
}

/// With the values of its variables, and those of them that are secrets, as far as their names tell.
fn expanded(
    endpoint: &ServerEndpoint,
    shared: &SharedCell,
) -> (Result<ServerEndpoint, UnsetIn>, Vec<String>) {
    let used = RefCell::new(vec![]);
    let endpoint = endpoint.expanded(&|name| {
        let value = (shared.environment())(name);
        let secret = value.iter().filter(|_| secret_name::is_secret_name(name));
        used.borrow_mut().extend(secret.cloned());
        value
    });
    (endpoint, used.into_inner())
}

impl McpSession {
    pub(super) fn connect(&mut self) {
        if self.status.state != ServerPhase::Connecting {
            self.status.state = ServerPhase::Connecting;
            self.status.since = clock::now();
            self.publish();
        }
        self.backoff.tried();
        let (to_actor, inbound) = mpsc::channel(INBOUND);
        let (changed, changes) = watch::channel(0);
        let kept = (self.fresh.clone(), self.log.clone());
        let inbox = Inbox::new(self.next_id, to_actor, changed, kept);
        let (shared, server) = (self.shared.clone(), self.server.clone());
        // The program that a name means may be another one by now.
        self.status.identity = self.shared.identity(&self.server.endpoint);
        let (identity, recalled) = (
            self.status.identity.clone(),
            self.keeping.era().or(self.guess),
        );
        let (log, alias) = (self.log.clone(), self.alias.clone());
        // Ids go on, with room for what the handshake asks.
        self.next_id += 1 << 20;
        let leaving = std::mem::take(&mut self.leaving);
        let connecting = self.tasks.spawn(async move {
            // Two of one child could get into each other's way.
            for live in leaving {
                live.end().await;
            }
            let (endpoint, used) = expanded(&server.endpoint, &shared);
            let means = SessionServices {
                shared: &shared,
                alias: &alias,
                identity: &identity,
                inbox: &inbox,
                abilities: shared.abilities(&server),
                recalled,
                revision: server.revision,
                log_level: server.log_level,
                chosen: &server.tools,
                log: &log,
                used: &used,
            };
            let live = match endpoint {
                Ok(ServerEndpoint::Http(http)) => lifecycle::http(&http, means).await,
                Ok(ServerEndpoint::Stdio(stdio)) => lifecycle::stdio(&stdio, means).await,
                Err(unset) => Err(WireFailure::NotConnected(unset.to_string())),
            };
            let (in_flight, landed) = mpsc::channel(1);
            SessionDone::Connected(Box::new(live.map(|live| UpSession {
                live,
                inbound,
                changes,
                since: Instant::now(),
                listing: false,
                list_again_at: None,
                changed_since: false,
                in_flight,
                landed,
            })))
        });
        self.phase = SessionPhase::Connecting(connecting);
    }

    pub(super) fn came_up(&mut self, mut up: UpSession) {
        let listed = std::mem::take(&mut up.live.listed);
        tracing::info!(
            mcp = %self.alias,
            protocol = up.live.about.protocol,
            tools = listed.tools.len(),
            ms = up.live.connect_ms,
            "connected"
        );
        self.status.about = up.live.about.clone();
        self.status.connect_ms = Some(up.live.connect_ms);
        self.need = None;
        self.status.state = ServerPhase::Ready;
        self.status.since = clock::now();
        self.reported = None;
        self.pace.on_answer(Instant::now());
        self.phase = SessionPhase::Up(Box::new(up));
        self.take(listed);
        self.publish();
        self.watch_again();
        for asker in std::mem::take(&mut self.refreshing) {
            let _gone = asker.send(Ok(()));
        }
        for work in std::mem::take(&mut self.waiting) {
            if !work.is_unwanted() {
                self.ask(work);
            }
        }
    }

    /// The session could not be made, or broke.
    pub(super) async fn fell(&mut self, failure: WireFailure) {
        match (&self.phase, &failure) {
            (SessionPhase::Up(up), _) => self.backoff.lived(up.since.elapsed()),
            (SessionPhase::Connecting(_), WireFailure::Ended(_)) => {
                self.guess = match self.guess {
                    None => Some(Era::Session),
                    Some(_) => None,
                };
            }
            (SessionPhase::Connecting(_) | SessionPhase::Down { .. }, _) => {}
        }
        self.down(&failure).await;
        let why = failure.to_string();
        if self.reported.as_ref() != Some(&why) {
            tracing::warn!(mcp = %self.alias, why, "not connected");
            self.reported = Some(why.clone());
        }
        let retry_at = self.is_down(&failure, why);
        self.status.since = clock::now();
        self.holds.begin(None);
        self.phase = SessionPhase::Down { retry_at };
        for live in std::mem::take(&mut self.leaving) {
            self.tasks.spawn(async move {
                live.end().await;
                SessionDone::Told
            });
        }
        self.publish();
    }

    /// Says how it does, and when it is tried again by itself.
    fn is_down(&mut self, failure: &WireFailure, why: String) -> Option<Instant> {
        if let WireFailure::SignIn(need) = failure {
            let bearer = self.shared.bearer(&self.server.endpoint);
            let sign_ins = bearer.map_or(0, |it| it.sign_ins());
            self.status.state = ServerPhase::NeedsSignIn {
                why,
                hint: need.hint(self.alias.as_str()),
            };
            // The tools of the last session stay offered: what models are shown does not change, and a call says what
            // is to be done.
            self.need = Some((need.clone(), sign_ins));
            return None;
        }
        self.need = None;
        self.status.state = ServerPhase::Failed {
            why,
            hint: failure.hint(&self.alias),
        };
        self.status.tools = Arc::default();
        self.status.left_out = Arc::default();
        Some(Instant::now() + self.backoff.next())
    }

    /// Its server does not know the session any more, and another one is begun. What else is in flight on it hears of
    /// that itself: a question that was refused is sent again, and one that is being worked on is waited for.
    pub(super) fn was_forgotten(&mut self) {
        self.fresh.forget();
        let phase = std::mem::replace(&mut self.phase, SessionPhase::Down { retry_at: None });
        let up = match phase {
            SessionPhase::Up(up) => up,
            other @ (SessionPhase::Connecting(_) | SessionPhase::Down { .. }) => {
                self.phase = other;
                return;
            }
        };
        let UpSession {
            live,
            inbound,
            in_flight,
            mut landed,
            ..
        } = *up;
        drop((inbound, in_flight));
        let forgotten = self.forgotten.clone();
        self.tasks.spawn(async move {
            tokio::select! {
                _none_is_left = landed.recv() => {}
                () = forgotten.cancelled() => {}
            }
            let cut = WireFailure::Cut("its session was forgotten".to_owned());
            live.peer.inbox.close(cut).await;
            live.end().await;
            SessionDone::Told
        });
    }

    /// Ends the session that there is. Calls in flight fail with a transport error.
    pub(super) async fn down(&mut self, failure: &WireFailure) {
        self.drop_session(failure).await;
        for work in std::mem::take(&mut self.waiting) {
            work.answer(&self.alias, Err(ExchangeError::Failure(failure.clone())));
        }
        for asker in std::mem::take(&mut self.refreshing) {
            let _gone = asker.send(Err(failure.clone()));
        }
    }

    pub(super) async fn drop_session(&mut self, failure: &WireFailure) {
        self.fresh.forget();
        std::mem::take(&mut self.forgotten).cancel();
        let phase = std::mem::replace(&mut self.phase, SessionPhase::Down { retry_at: None });
        match phase {
            SessionPhase::Up(up) => {
                let UpSession { live, inbound, .. } = *up;
                // Whoever wants to tell us something more must not wait for us.
                drop(inbound);
                live.peer.inbox.close(failure.in_flight()).await;
                self.leaving.push(live);
            }
            // What it has made is dropped with it, a child included.
            SessionPhase::Connecting(task) => task.abort(),
            SessionPhase::Down { .. } => {}
        }
    }
}
