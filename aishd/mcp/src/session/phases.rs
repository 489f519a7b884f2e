//! How a session comes up and goes down.

use std::cell::RefCell;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::super::era::Era;
use super::super::error::{Broken, Failure};
use super::super::inbox::{Inbound, Inbox};
use super::super::lifecycle::{self, Live, Means};
use super::super::shared::Shared;
use super::{Done, INBOUND, Session};
use aishd_mcp_messages::expand::UnsetIn;
use aishd_mcp_messages::secret_name;
use aishd_mcp_messages::server::State;
use aishd_mcp_messages::settings::Endpoint;
use aishd_platform::clock;

/// Whether there is a session.
pub(super) enum Phase {
    /// Not wanted, or failed; by itself it is tried again then.
    Down {
        retry_at: Option<Instant>,
    },
    Connecting(AbortHandle),
    Up(Box<Up>),
}

/// A session that is there.
pub(super) struct Up {
    pub(super) live: Live,
    pub(super) inbound: mpsc::Receiver<Inbound>,
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
fn expanded(endpoint: &Endpoint, shared: &Shared) -> (Result<Endpoint, UnsetIn>, Vec<String>) {
    let used = RefCell::new(vec![]);
    let endpoint = endpoint.expanded(&|name| {
        let value = (shared.environment())(name);
        let secret = value.iter().filter(|_| secret_name::tells(name));
        used.borrow_mut().extend(secret.cloned());
        value
    });
    (endpoint, used.into_inner())
}

impl Session {
    pub(super) fn connect(&mut self) {
        if self.status.state != State::Connecting {
            self.status.state = State::Connecting;
            self.status.since = clock::now();
            self.publish();
        }
        self.backoff.tried();
        let (to_actor, inbound) = mpsc::channel(INBOUND);
        let (changed, changes) = watch::channel(0);
        let inbox = Inbox::new(self.next_id, to_actor, changed, self.fresh.clone());
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
            let means = Means {
                shared: &shared,
                alias: &alias,
                identity: &identity,
                inbox: &inbox,
                abilities: shared.abilities(&server),
                recalled,
                log: &log,
                used: &used,
            };
            let live = match endpoint {
                Ok(Endpoint::Http(http)) => lifecycle::http(&http, means).await,
                Ok(Endpoint::Stdio(stdio)) => lifecycle::stdio(&stdio, means).await,
                Err(unset) => Err(Failure::NotConnected(unset.to_string())),
            };
            let (in_flight, landed) = mpsc::channel(1);
            Done::Connected(Box::new(live.map(|live| Up {
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
        self.phase = Phase::Connecting(connecting);
    }

    pub(super) fn came_up(&mut self, mut up: Up) {
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
        self.status.state = State::Ready;
        self.status.since = clock::now();
        self.reported = None;
        self.pace.answered(Instant::now());
        self.phase = Phase::Up(Box::new(up));
        self.take(listed);
        self.publish();
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
    pub(super) async fn fell(&mut self, failure: Failure) {
        match (&self.phase, &failure) {
            (Phase::Up(up), _) => self.backoff.lived(up.since.elapsed()),
            (Phase::Connecting(_), Failure::Ended(_)) => {
                self.guess = match self.guess {
                    None => Some(Era::Session),
                    Some(_) => None,
                };
            }
            (Phase::Connecting(_) | Phase::Down { .. }, _) => {}
        }
        self.down(&failure).await;
        let why = failure.to_string();
        if self.reported.as_ref() != Some(&why) {
            tracing::warn!(mcp = %self.alias, why, "not connected");
            self.reported = Some(why.clone());
        }
        self.status.state = State::Failed {
            why,
            hint: failure.hint(&self.alias),
        };
        self.status.since = clock::now();
        self.status.tools = Arc::default();
        self.holds.begin(None);
        self.phase = Phase::Down {
            retry_at: Some(Instant::now() + self.backoff.next()),
        };
        for live in std::mem::take(&mut self.leaving) {
            self.tasks.spawn(async move {
                live.end().await;
                Done::Told
            });
        }
        self.publish();
    }

    /// Its server does not know the session any more, and another one is begun. What else is in flight on it hears of
    /// that itself: a question that was refused is sent again, and one that is being worked on is waited for.
    pub(super) fn was_forgotten(&mut self) {
        self.fresh.forget();
        let phase = std::mem::replace(&mut self.phase, Phase::Down { retry_at: None });
        let up = match phase {
            Phase::Up(up) => up,
            other @ (Phase::Connecting(_) | Phase::Down { .. }) => {
                self.phase = other;
                return;
            }
        };
        let Up {
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
            let cut = Failure::Cut("its session was forgotten".to_owned());
            live.peer.inbox.close(cut).await;
            live.end().await;
            Done::Told
        });
    }

    /// Ends the session that there is. Calls in flight fail with a transport error.
    pub(super) async fn down(&mut self, failure: &Failure) {
        self.drop_session(failure).await;
        for work in std::mem::take(&mut self.waiting) {
            work.answer(&self.alias, Err(Broken::Failure(failure.clone())));
        }
        for asker in std::mem::take(&mut self.refreshing) {
            let _gone = asker.send(Err(failure.clone()));
        }
    }

    pub(super) async fn drop_session(&mut self, failure: &Failure) {
        self.fresh.forget();
        std::mem::take(&mut self.forgotten).cancel();
        let phase = std::mem::replace(&mut self.phase, Phase::Down { retry_at: None });
        match phase {
            Phase::Up(up) => {
                let Up { live, inbound, .. } = *up;
                // Whoever wants to tell us something more must not wait for us.
                drop(inbound);
                live.peer.inbox.close(failure.in_flight()).await;
                self.leaving.push(live);
            }
            // What it has made is dropped with it, a child included.
            Phase::Connecting(task) => task.abort(),
            Phase::Down { .. } => {}
        }
    }
}
