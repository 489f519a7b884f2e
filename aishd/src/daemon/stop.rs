//! The end of the daemon: what asks for it, and the three steps in which it comes: ask, wait, force.

use std::time::Duration;

use aishd_config::live::OnErrors;
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use aishd_rpc::{OrderedStop, RpcServer};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::sessions;
use crate::service;

/// Until when children may take to end, from the word to stop. A stop is over within six seconds, whatever runs: what is
/// left of them then is the store's.
const CHILDREN_UNTIL: Duration = Duration::from_millis(5500);

/// The tokens of an ordered stop, in the order in which they are cancelled.
#[derive(Clone, Debug, Default)]
pub(super) struct StopTokens {
    /// No new turns.
    pub(super) draining: CancellationToken,
    /// Turns end.
    pub(super) stopping: CancellationToken,
    /// Connections end.
    pub(super) closing: CancellationToken,
}

/// Waits for the word to stop, then lets turns end, then ends them, then the connections. Returns until when children may
/// take to end.
pub(super) async fn in_order(
    server: &RpcServer,
    stops: &StopTokens,
    signals: DaemonSignals,
) -> Instant {
    let asked = wait_for_stop(server, signals).await;
    let children_until = Instant::now() + CHILDREN_UNTIL;
    tracing::info!(reason = asked.reason, "stopping");
    service::stopping();
    stops.draining.cancel();
    let grace = Duration::from_millis(asked.deadline_ms);
    let settled = tokio::time::timeout(grace, server.directory.settled()).await;
    if settled.is_err() {
        tracing::warn!("turns were still running; they end as interrupted");
    }
    stops.stopping.cancel();
    tokio::join!(server.directory.closed(), sessions::stop(&server.hub));
    server.farewell().await;
    stops.closing.cancel();
    children_until
}

/// The signals that mean something to the daemon.
pub(super) struct DaemonSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl DaemonSignals {
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal to end. One to reload is nothing before there is anything loaded.
    pub(super) async fn ending(&mut self) {
        loop {
            tokio::select! {
                Some(()) = self.terminate.recv() => return,
                Some(()) = self.interrupt.recv() => return,
                Some(()) = self.hangup.recv() => {}
            }
        }
    }
}

async fn wait_for_stop(server: &RpcServer, signals: DaemonSignals) -> OrderedStop {
    let mut asked = server.stop.subscribe();
    let DaemonSignals {
        mut terminate,
        mut interrupt,
        mut hangup,
    } = signals;
    loop {
        let by_client = async {
            let asked = asked.wait_for(Option::is_some).await;
            asked.ok().and_then(|it| it.clone())
        };
        let reason = tokio::select! {
            Some(()) = terminate.recv() => "SIGTERM",
            Some(()) = interrupt.recv() => "SIGINT",
            Some(()) = hangup.recv() => {
                let live = server.config.clone();
                let read = move || service::reloading(|| live.reload(OnErrors::Tell));
                let _told_by_itself = tokio::task::spawn_blocking(read).await;
                continue;
            }
            asked = by_client => {
                return asked.unwrap_or_else(|| stopping("the server is gone", server.grace()));
            }
        };
        let stopping = stopping(reason, server.grace());
        server.stop.send_replace(Some(stopping.clone()));
        return stopping;
    }
}

fn stopping(reason: &str, grace: Duration) -> OrderedStop {
    let now = clock::now();
    let deadline_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
    OrderedStop {
        reason: reason.to_owned(),
        deadline_ms,
        deadline_at: Timestamp(now.0 + i64::try_from(deadline_ms).unwrap_or_default()),
    }
}
