//! The daemon: the only place that builds things. It starts in the order config, socket, store, broker,
//! directory, wire, and stops in three steps: ask, wait, force.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aish_proto::limits::{BATCH_CALLS, INPUT_BYTES, LINE_TO_DAEMON_BYTES, Limits, SUBSCRIPTIONS};
use anyhow::Context as _;
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid, umask};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::args::Args;
use crate::broker::Broker;
use crate::child::Children;
use crate::child::trampoline;
use crate::config::env::{self, Env};
use crate::config::paths::{self, PathError};
use crate::config::{Settings, file};
use crate::conversation::Surroundings;
use crate::conversation::directory::Directory;
use crate::conversation::pending::Pending;
use crate::core::event::At;
use crate::core::mcp::settings::Mcp;
use crate::core::policy::Policy;
use crate::core::preset::Models;
use crate::logging::{LogSettings, Logging};
use crate::mcp::hub::{self, Hub};
use crate::rpc::{About, GRACE_MS, Parts, Reloaded, Server, Stopping, listen};
use crate::service::{self, Pulse};
use crate::socket::{self, Socket, SocketError};
use crate::store::{Alive, OpenError, Store};
use crate::tools::Tools;
use crate::{clock, failpoint};

/// Threads that serve; conversations wait for networks and disks, not for processors.
const WORKERS: usize = 2;
/// Time for what still blocks a thread when everything else has ended.
const LAST_WAIT: Duration = Duration::from_secs(2);
/// Time for children that do not want to end: two seconds until they are killed, and what a busy machine adds.
const CHILDREN_WAIT: Duration = Duration::from_millis(3500);

/// Time for MCP servers to end by themselves once their input is closed.
const SESSIONS_WAIT: Duration = Duration::from_secs(1);

/// Exit codes (spec 00, Processes).
mod exit {
    /// The store is newer than this program.
    pub(super) const STORE_NEWER: u8 = 65;
    /// The store is damaged beyond repair, or cannot be used at all.
    pub(super) const STORE: u8 = 74;
    /// Another daemon has the store or the socket.
    pub(super) const TAKEN: u8 = 75;
    /// The configuration cannot be used.
    pub(super) const CONFIG: u8 = 78;
}

/// Runs the daemon to its end.
#[must_use]
pub fn main(args: &Args) -> ExitCode {
    match start(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let mut stderr = std::io::stderr().lock();
            let _nobody_reads = writeln!(stderr, "aishd: {error:#}");
            if let Some(hint) = hint(&error) {
                let _nobody_reads = writeln!(stderr, "hint: {hint}");
            }
            ExitCode::from(exit_code(&error))
        }
    }
}

fn exit_code(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<OpenError>() {
        return match error {
            OpenError::Locked { .. } => exit::TAKEN,
            OpenError::Newer { .. } => exit::STORE_NEWER,
            OpenError::Damaged { .. } | OpenError::Io { .. } => exit::STORE,
        };
    }
    match error.downcast_ref::<SocketError>() {
        Some(SocketError::Taken { .. }) => exit::TAKEN,
        Some(SocketError::NoSocket { .. } | SocketError::Io { .. } | SocketError::Adopt(_)) => 1,
        None if error.is::<ConfigFault>() || error.is::<PathError>() => exit::CONFIG,
        None => 1,
    }
}

fn hint(error: &anyhow::Error) -> Option<&'static str> {
    match exit_code(error) {
        exit::TAKEN => Some("use it with aishctl, or stop it first: aishctl rpc daemon/shutdown"),
        exit::STORE_NEWER => Some("install the aishd that wrote it; this one has changed nothing"),
        exit::STORE => Some(
            "the files are as they were; make them readable or restore a copy, or name another --state",
        ),
        exit::CONFIG => Some("correct it and start again"),
        _ => None,
    }
}

/// The configuration has these faults.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("\n  "))]
struct ConfigFault(Vec<String>);

fn start(args: &Args) -> anyhow::Result<()> {
    umask(Mode::from_raw_mode(0o077));
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("forbid core dumps")?;
    trampoline::keep_descriptors();
    if args.detach {
        // Fails for the leader of a process group, as a shell's job is; aishctl starts us as none.
        let _leader = setsid();
    }
    let env = env::read();
    if let Some(text) = &env.aish_failpoint {
        failpoint::arm(text);
    }
    let source = Source::find(args, &env);
    let settings = source.load()?;
    let logging = Logging::start(
        &log_settings(&settings),
        env.aish_log.as_deref(),
        env.journal_stream.as_deref(),
    );
    let socket_path = paths::socket(args.socket.as_deref(), &env)?;
    let state_dir = paths::state(args.state.as_deref())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let around = Around {
        socket_path,
        state_dir,
        is_managed: env.notify_socket.is_some(),
    };
    let result = runtime.block_on(run(source, settings, logging, around));
    runtime.shutdown_timeout(LAST_WAIT);
    result
}

/// Where the configuration comes from.
#[derive(Clone, Debug)]
struct Source {
    path: Option<PathBuf>,
    /// Named by hand, so that it has to be there.
    named: bool,
}

impl Source {
    fn find(args: &Args, env: &Env) -> Self {
        Self {
            path: paths::config(args.config.as_deref(), env),
            named: args.config.is_some() || env.aish_config.is_some(),
        }
    }

    fn load(&self) -> Result<Settings, ConfigFault> {
        let Some(path) = &self.path else {
            return Ok(Settings::default());
        };
        let read =
            file::read(path, self.named).map_err(|error| ConfigFault(vec![describe(&error)]))?;
        let Some(found) = read else {
            return Ok(Settings::default());
        };
        let shown = path.display();
        Settings::from_file(&found.file, found.private).map_err(|faults| {
            ConfigFault(faults.iter().map(|it| format!("{shown}: {it}")).collect())
        })
    }

    /// The file, if one is there.
    fn file(&self) -> Option<PathBuf> {
        self.path.clone().filter(|it| it.exists())
    }
}

fn describe(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// What the configuration says of the log.
fn log_settings(settings: &Settings) -> LogSettings {
    LogSettings {
        level: settings.log.clone(),
        ..LogSettings::default()
    }
}

/// The tokens of an ordered stop, in the order in which they are cancelled.
#[derive(Clone, Debug, Default)]
struct Stops {
    /// No new turns.
    draining: CancellationToken,
    /// Turns end.
    stopping: CancellationToken,
    /// Connections end.
    closing: CancellationToken,
}

/// Where we live.
#[derive(Clone, Debug)]
struct Around {
    socket_path: PathBuf,
    state_dir: PathBuf,
    /// A service manager started us, and listens to what we say.
    is_managed: bool,
}

/// Serves from the first to the last moment.
async fn run(
    source: Source,
    settings: Settings,
    logging: Logging,
    around: Around,
) -> anyhow::Result<()> {
    let Socket { listener, place } = match socket::adopt()? {
        Some(adopted) => adopted,
        None => {
            let path = &around.socket_path;
            paths::private_dir(path.parent().unwrap_or(Path::new("/")))?;
            socket::bind(path)?
        }
    };
    let watchdog = service::watchdog();
    let pulse = Arc::new(Pulse::new(watchdog));
    // A stop may be asked for before there is anything to stop.
    let mut signals = Signals::listen().context("listen to signals")?;
    let opened = tokio::select! {
        opened = open_store(&around.state_dir, pulse.clone()) => opened.map(Some),
        // What is being read is as safe as it is from a kill.
        () = signals.ending() => Ok(None),
    };
    let store = match opened {
        Ok(Some(store)) => store,
        Ok(None) => {
            if let Some(place) = place {
                place.remove();
            }
            tracing::info!("stopped before the store was open");
            return Ok(());
        }
        Err(error) => {
            if let Some(place) = place {
                place.remove();
            }
            return Err(error);
        }
    };
    let about = about(&store, &around, &source);
    let stops = Stops::default();
    let children = Children::new(env::of_children());
    let keeper = children.keeper().context("become the keeper of children")?;
    let rooms = Rooms {
        store: store.clone(),
        broker: broker(&logging, children.clone()),
        hub: hub(children.clone()),
    };
    let (server, mcp) = build(about, source, settings, logging, rooms, &stops);
    let resumed = server.directory.resume().unwrap_or_else(|error| {
        tracing::error!(%error, "look for unfinished turns");
        0
    });
    tracing::info!(resumed, pid = std::process::id(), "ready");
    pulse.set_ready();
    say_ready();
    let _chores = chores(&server.directory, &store, watchdog, &around);
    let serving = listen::listen(server.clone(), listener);
    let working = async {
        let ((), ()) = tokio::join!(serving, stop_in_order(&server, &stops, signals));
        let gone = tokio::time::timeout(CHILDREN_WAIT, children.gone()).await;
        if gone.is_err() {
            tracing::warn!("children are still ending; their keepers go on without us");
        }
    };
    tokio::select! {
        () = working => {}
        () = keeper.run() => {}
        () = follow_mcp(&server.hub, mcp) => {}
    }
    if let Some(place) = place {
        place.remove();
    }
    let _panicked = tokio::task::spawn_blocking(move || store.close()).await;
    tracing::info!("stopped");
    Ok(())
}

/// What does not change from here on.
fn about(store: &Store, around: &Around, source: &Source) -> About {
    let repairs = store.repairs();
    for repair in &repairs {
        tracing::warn!("{repair}");
    }
    About {
        epoch: store.epoch(),
        started_at: clock::now(),
        socket: around.socket_path.clone(),
        state_dir: around.state_dir.clone(),
        config: source.file(),
        repairs,
    }
}

/// The broker, whose secrets the log learns before they are used.
fn broker(logging: &Logging, children: Children) -> Broker {
    let redactor = logging.redactor();
    Broker::telling(env::key, children, move |secret| redactor.learn(secret))
}

/// The sessions with MCP servers; none is begun yet.
fn hub(children: Children) -> Hub {
    Hub::new(hub::Parts {
        children,
        environment: Box::new(env::key),
        recall: Box::new(|_key| None),
        keep: Box::new(|_key, _text| {}),
        roots: Box::new(Vec::new),
        elicitations: None,
    })
}

/// What conversations work with.
struct Rooms {
    store: Store,
    broker: Broker,
    hub: Hub,
}

/// Puts the parts together.
fn build(
    about: About,
    source: Source,
    settings: Settings,
    logging: Logging,
    rooms: Rooms,
    stops: &Stops,
) -> (Arc<Server>, watch::Receiver<Mcp>) {
    let (models, models_seen) = watch::channel(settings.models.clone());
    let (policy, policy_seen) = watch::channel(settings.policy.clone());
    let (mcp, mcp_seen) = watch::channel(settings.mcp.clone());
    let Rooms { store, broker, hub } = rooms;
    let directory = Directory::new(
        Surroundings {
            store,
            broker,
            models: models_seen,
            policy: policy_seen,
            tools: Tools::new(hub.clone()),
            pending: Pending::new(),
            max_queue: settings.max_queue,
            draining: stops.draining.clone(),
            stopping: stops.stopping.clone(),
        },
        settings.max_conversations_in_memory,
    );
    let log = logging.ring();
    let limits = limits(&settings);
    let told = Told {
        models,
        policy,
        mcp,
    };
    let reload = reloader(source, settings, logging, told);
    let server = Server::new(Parts {
        directory,
        hub,
        about,
        limits,
        log,
        stop: watch::channel(None).0,
        closing: stops.closing.clone(),
        reload: Box::new(move || service::reloading(&reload)),
    });
    (Arc::new(server), mcp_seen)
}

async fn open_store(state_dir: &Path, pulse: Arc<Pulse>) -> anyhow::Result<Store> {
    paths::private_dir(state_dir)?;
    let dir = state_dir.join("store");
    let alive = Alive::new(move || pulse.beat());
    let opened = tokio::task::spawn_blocking(move || Store::open_telling(&dir, alive)).await;
    Ok(opened.context("open the store")??)
}

/// What goes on beside the serving, for whoever watches over us. It ends with the set.
fn chores(
    directory: &Directory,
    store: &Store,
    watchdog: Option<Duration>,
    around: &Around,
) -> JoinSet<()> {
    let mut chores = JoinSet::new();
    if let Some(every) = watchdog {
        let store = store.clone();
        chores.spawn(service::feed(every, move || {
            let store = store.clone();
            async move { store.beat().await }
        }));
    }
    if around.is_managed {
        let (directory, again) = (directory.clone(), directory.clone());
        let changed = move || {
            let directory = again.clone();
            async move { directory.changed().await }
        };
        chores.spawn(service::report(move || directory.load(), changed));
    }
    chores
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        line_bytes: LINE_TO_DAEMON_BYTES,
        input_bytes: INPUT_BYTES,
        batch_calls: BATCH_CALLS,
        subscriptions: SUBSCRIPTIONS,
        clients: settings.max_clients,
        queue: settings.max_queue,
        client_stall_ms: u64::try_from(settings.client_stall.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Tells whoever started us: the service manager, and the one that reads our standard output.
fn say_ready() {
    service::ready();
    let mut stdout = std::io::stdout().lock();
    let _nobody_reads = writeln!(stdout, "ready").and_then(|()| stdout.flush());
}

/// Who hears of a new configuration.
struct Told {
    models: watch::Sender<Arc<Models>>,
    policy: watch::Sender<Arc<Policy>>,
    mcp: watch::Sender<Mcp>,
}

/// Reads the configuration again; a bad one keeps the old (CFG-2). What needs a restart waits for it.
fn reloader(
    source: Source,
    settings: Settings,
    logging: Logging,
    told: Told,
) -> impl Fn() -> Reloaded + Send + Sync {
    let current = Mutex::new(settings);
    move || match source.load() {
        Err(ConfigFault(errors)) => {
            for error in &errors {
                tracing::error!("{error}; the configuration before stays");
            }
            Reloaded {
                changed: vec![],
                errors,
            }
        }
        Ok(settings) => {
            let mut current = current.lock().unwrap_or_else(PoisonError::into_inner);
            let changed = settings.changes_from(&current);
            told.models.send_replace(settings.models.clone());
            told.policy.send_replace(settings.policy.clone());
            told.mcp.send_if_modified(|now| {
                let differs = *now != settings.mcp;
                now.clone_from(&settings.mcp);
                differs
            });
            logging.follow(&log_settings(&settings));
            tracing::info!(?changed, "configuration read again");
            *current = settings;
            Reloaded {
                changed,
                errors: vec![],
            }
        }
    }
}

/// Keeps the sessions of MCP those of the configuration. It waits for no server.
async fn follow_mcp(hub: &Hub, mut settings: watch::Receiver<Mcp>) {
    loop {
        let now = settings.borrow_and_update().clone();
        hub.configure(now).await;
        if settings.changed().await.is_err() {
            // Nobody can change them any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Waits for the word to stop, then lets turns end, then ends them, then the connections.
async fn stop_in_order(server: &Server, stops: &Stops, signals: Signals) {
    let asked = wait_for_stop(server, signals).await;
    tracing::info!(reason = asked.reason, "stopping");
    service::stopping();
    stops.draining.cancel();
    let grace = Duration::from_millis(asked.deadline_ms);
    let settled = tokio::time::timeout(grace, server.directory.settled()).await;
    if settled.is_err() {
        tracing::warn!("turns were still running; they end as interrupted");
    }
    stops.stopping.cancel();
    // Sessions that do not end in time are dropped, and their children's keepers do the rest.
    let ending = tokio::time::timeout(SESSIONS_WAIT, server.hub.stop());
    let ((), _in_time) = tokio::join!(server.directory.closed(), ending);
    server.farewell().await;
    stops.closing.cancel();
}

/// The signals that mean something to the daemon.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal to end. One to reload is nothing before there is anything loaded.
    async fn ending(&mut self) {
        loop {
            tokio::select! {
                Some(()) = self.terminate.recv() => return,
                Some(()) = self.interrupt.recv() => return,
                Some(()) = self.hangup.recv() => {}
            }
        }
    }
}

async fn wait_for_stop(server: &Server, signals: Signals) -> Stopping {
    let mut asked = server.stop.subscribe();
    let Signals {
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
                let _reported_in_the_log = (server.reload)();
                continue;
            }
            asked = by_client => {
                return asked.unwrap_or_else(|| stopping("the server is gone"));
            }
        };
        let stopping = stopping(reason);
        server.stop.send_replace(Some(stopping.clone()));
        return stopping;
    }
}

fn stopping(reason: &str) -> Stopping {
    let now = clock::now();
    Stopping {
        reason: reason.to_owned(),
        deadline_ms: GRACE_MS,
        deadline_at: At(now.0 + i64::try_from(GRACE_MS).unwrap_or_default()),
    }
}
