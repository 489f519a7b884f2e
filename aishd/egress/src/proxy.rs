//! The served listener: its tasks, its rules, its report.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::admission::Admission;
use crate::dial::Dialer;
use crate::gate::Gate;
use crate::limits::EgressLimits;
use crate::names::NameLookup;
use crate::questions::{QuestionSettings, Questions};
use crate::report::{EgressReport, TrafficLog};
use crate::rules::HostRules;
use crate::stream::BufferedStream;
use crate::upstream::Upstream;
use crate::{http, socks};

/// Until accepting is tried again, when the daemon is out of descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What a listener is served with.
#[derive(Clone, Debug, Default)]
pub struct EgressSettings {
    pub rules: HostRules,
    /// `None`: what no rule is about is refused.
    pub questions: Option<QuestionSettings>,
    pub upstream: Upstream,
    /// Clones share the bound of their lookups: a daemon has one.
    pub names: NameLookup,
    pub limits: EgressLimits,
}

/// What goes through one listener, also when that is not there any more; cheap to clone.
#[derive(Clone, Debug)]
pub struct EgressReporter(Arc<TrafficLog>);

impl EgressReporter {
    /// What went through until now.
    pub fn report(&self) -> EgressReport {
        self.0.report()
    }
}

/// A proxy that serves one listener. Dropped, it ends all connections.
#[derive(Debug)]
pub struct EgressProxy {
    rules: watch::Sender<HostRules>,
    traffic: Arc<TrafficLog>,
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    tasks: JoinSet<()>,
}

impl EgressProxy {
    /// Begins to serve, within a runtime of tokio.
    pub fn serve(listener: TcpListener, settings: EgressSettings) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let limits = settings.limits;
        let (rules, followed) = watch::channel(settings.rules);
        let traffic = Arc::new(TrafficLog::new(limits.hosts_reported));
        let gate = Gate {
            admission: Admission::new(
                followed,
                settings
                    .questions
                    .map(|it| Questions::new(it, rules.clone())),
            ),
            dialer: Dialer {
                upstream: settings.upstream,
                names: settings.names,
                head_bytes: limits.head_bytes,
            },
            limits,
            traffic: Arc::clone(&traffic),
        };
        let (stop, stopped) = oneshot::channel();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::new(gate), stopped));
        Ok(Self {
            rules,
            traffic,
            address,
            stop,
            tasks,
        })
    }

    /// Where it listens, within the child's network.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the rules for what is asked from now on, and for what waits. Connections that were made stay.
    pub fn change_rules(&self, change: impl FnOnce(&mut HostRules)) {
        self.rules.send_modify(change);
    }

    pub fn reporter(&self) -> EgressReporter {
        EgressReporter(Arc::clone(&self.traffic))
    }

    /// What went through until now.
    pub fn report(&self) -> EgressReport {
        self.traffic.report()
    }

    /// Ends all connections and waits until they have ended. The report is complete then.
    pub async fn shutdown(mut self) -> EgressReport {
        drop(self.stop);
        while self.tasks.join_next().await.is_some() {}
        self.traffic.report()
    }
}

async fn accept(
    listener: tokio::net::TcpListener,
    gate: Arc<Gate>,
    mut stopped: oneshot::Receiver<()>,
) {
    let mut connections = JoinSet::new();
    loop {
        let has_room = connections.len() < gate.limits.connections;
        tokio::select! {
            _ = &mut stopped => break,
            Some(ended) = connections.join_next() => {
                if let Err(error) = ended && error.is_panic() {
                    tracing::error!("a connection of a child panicked");
                }
            }
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    connections.spawn(serve_connection(stream, Arc::clone(&gate)));
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection of a child is not accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

/// The first byte says which protocol it is: methods of HTTP are in capitals.
async fn serve_connection(stream: TcpStream, gate: Arc<Gate>) {
    let mut child = BufferedStream::new(stream, gate.limits.head_bytes);
    let begun = tokio::time::timeout(gate.limits.handshake, child.reader.fill()).await;
    let first = begun
        .is_ok_and(|it| it.is_ok())
        .then(|| child.reader.unused().first().copied());
    match first.flatten() {
        Some(socks::VERSION) => socks::serve(child, &gate).await,
        Some(b'A'..=b'Z') => http::serve(child, &gate).await,
        Some(_) | None => gate.traffic.add_malformed(),
    }
}
