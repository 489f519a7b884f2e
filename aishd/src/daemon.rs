//! The daemon: the only place that builds things. It starts in the order config, socket, store, broker,
//! directory, wire, and stops in three steps: ask, wait, force.

mod boundary;
mod configuration;
mod environments;
mod migrate_levels;
mod notify;
mod profiles;
mod registry;
mod rule_audit;
mod rules;
mod sessions;
mod stop;
mod store_chores;
mod store_commands;
mod store_look;
mod trials;
mod watch;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::limits::{
    BATCH_CALLS, INPUT_BYTES, LINE_TO_DAEMON_BYTES, ProtocolLimits, SUBSCRIPTIONS,
};
use aish_proto::network;
use aishd_broker::Broker;
use aishd_config::command::{self, ActionContext};
use aishd_config::live::LiveConfig;
use aishd_config::manifest_store::ManifestStore;
use aishd_config::paths::{self, PathError};
use aishd_config::{Settings, environment_variables};
use aishd_conversation::ActorServices;
use aishd_conversation::context::memory_book::MemoryBook;
use aishd_conversation::context::model_limits::NotTaken;
use aishd_conversation::context::summarize::CaughtUp;
use aishd_conversation::context::token_counts::TokenCounts;
use aishd_conversation::context::warm_transcripts::WarmTranscripts;
use aishd_conversation::directory::ConversationDirectory;
use aishd_conversation::questions::allowances::ClientAllowances;
use aishd_conversation::questions::pending_questions::PendingQuestions;
use aishd_conversation::spending::budget::Ledger;
use aishd_conversation::turns::routing_book::RoutingBook;
use aishd_conversation::turns::tool_definitions::ToolDefinitions;
use aishd_logging::{LogRing, Redactor, RunningLog};
use aishd_mcp::hub::Hub;
use aishd_platform::{clock, failpoint};
use aishd_process::{Children, trampoline};
use aishd_project::ProjectCache;
use aishd_rpc::{DaemonInfo, RpcServer, ServerParts, listen};
use aishd_store::{Alive, OpenError, Store};
use anyhow::Context as _;
use interprocess::local_socket::tokio::Listener;
use rustix::fs::Mode;
use rustix::process::{DumpableBehavior, set_dumpable_behavior, setsid, umask};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::configuration::{ConfigFault, StartConfiguration};
use self::rule_audit::StoreWitness;
use self::stop::{DaemonSignals, StopTokens};
use crate::args::{DaemonArgs, OfflineCommand};
use crate::service::{self, StorePulse};
use crate::socket::{self, ListeningSocket, SocketError, SocketFile};

/// Threads that serve. Conversations wait for networks and disks, not for processors, and with one thread nothing is
/// ever handed from one processor to another. Disks and name lookups that may hang have threads of their own; making a
/// request of a transcript, the digest of a question and reads of the index are done here, and others wait for them.
const WORKERS: usize = 1;
/// Time for what still blocks a thread when everything else has ended.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Exit codes.
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
pub fn main(args: &DaemonArgs) -> ExitCode {
    if let Some(OfflineCommand::Config { command }) = &args.command {
        let desk = ActionContext {
            place: &configuration::find(args, &environment_variables::read()),
            is_set: &environment_variables::is_set,
        };
        return command::run(command, desk);
    }
    if let Some(OfflineCommand::Store { command }) = &args.command {
        return store_commands::run(args, command);
    }
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
        exit::CONFIG => Some("aishctl config check shows the places; correct them and start again"),
        _ => None,
    }
}

fn start(args: &DaemonArgs) -> anyhow::Result<()> {
    umask(Mode::from_raw_mode(0o077));
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("forbid core dumps")?;
    trampoline::keep_descriptors();
    if args.detach {
        // Fails for the leader of a process group, as a shell's job is; aishctl starts us as none.
        let _leader = setsid();
    }
    let env = environment_variables::read();
    if let Some(text) = &env.aish_failpoint {
        failpoint::arm(text);
    }
    let configured = configuration::load(args, &env)?;
    let logging = RunningLog::start(&configured.log(), env.journal_stream.as_deref());
    let logging = logging.context("start the log")?;
    let _last_lines = logging.last_lines();
    configured.log_warnings();
    let socket_path = paths::socket(args.socket.as_deref(), &env)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .enable_all()
        .build()
        .context("start the runtime")?;
    let around = DaemonPaths {
        socket_path,
        state_dir: configured.state.clone(),
        is_managed: env.notify_socket.is_some(),
    };
    // On the worker, so that a new connection is not handed from one thread to another.
    let result = runtime.block_on(async {
        let mut daemon = JoinSet::new();
        daemon.spawn(run(configured, logging, around));
        let ended = daemon.join_next().await.context("the daemon runs once")?;
        ended.context("run the daemon")?
    });
    runtime.shutdown_timeout(LAST_WAIT);
    result
}

/// Where we live.
#[derive(Clone, Debug)]
struct DaemonPaths {
    socket_path: PathBuf,
    state_dir: PathBuf,
    /// A service manager started us, and listens to what we say.
    is_managed: bool,
}

/// Serves from the first to the last moment.
#[expect(
    clippy::too_many_lines,
    reason = "the parts, in the order in which they need each other"
)]
async fn run(
    configured: StartConfiguration,
    logging: RunningLog,
    around: DaemonPaths,
) -> anyhow::Result<()> {
    let watchdog = service::watchdog();
    let pulse = Arc::new(StorePulse::new(watchdog));
    // A stop may be asked for before there is anything to stop.
    let mut signals = DaemonSignals::listen().context("listen to signals")?;
    let Some(Opened {
        listener,
        place,
        store,
    }) = open(&around, pulse.clone(), &mut signals).await?
    else {
        tracing::info!("stopped before the store was open");
        return Ok(());
    };
    let stops = StopTokens::default();
    let children = Children::new(environment_variables::of_children());
    let keeper = children.keeper().context("become the keeper of children")?;
    let broker = broker(&logging, &store, children.clone());
    let ground = Arc::new(boundary::ground(&children, &configured, &around).await);
    let settings = configured.settings.clone();
    let (ring, redactor) = (logging.ring(), logging.redactor());
    let (profiles, started) = profiles::ground(&children, &ground, trials::directory(&around)?);
    let sign_ins = around.state_dir.join("oauth");
    let (not_renewed, failed) = mpsc::channel(sessions::UNRECORDED);
    let hub = sessions::hub(
        &store,
        profiles.clone(),
        logging.redactor(),
        (sign_ins, not_renewed),
    );
    let tools = registry::tools(&hub, &profiles, &around.state_dir, &redactor);
    let witness = StoreWitness::start(&store, &settings).await;
    migrate_levels::hand_out(&store, &settings.policy).await;
    let live = configured.live(logging, witness.clone());
    let manifests = registry::manifests(live.clone(), &tools).await;
    let server = build(
        daemon_info(&store, &around),
        (hub.clone(), manifests.clone(), children.clone()),
        live.clone(),
        &settings,
        (ring, redactor),
        ActorServices {
            store: store.clone(),
            broker,
            models: live.models(),
            policy: live.policy(),
            tools,
            pending: PendingQuestions::new(),
            allowances: ClientAllowances::default(),
            definitions: ToolDefinitions::new(&store),
            routes: RoutingBook::new(&store),
            ledger: Ledger::new(&store),
            book: MemoryBook::new(&store),
            folders: ProjectCache::default(),
            trials: trials::open(&around, profiles.clone()).await?,
            environments: environments::open(&around, &store).await?,
            ground,
            tokens: TokenCounts::new(&store),
            caught_up: CaughtUp::default(),
            warm: WarmTranscripts::default(),
            max_queue: settings.max_queue,
            draining: stops.draining.clone(),
            stopping: stops.stopping.clone(),
        },
        stops.closing.clone(),
    );
    begin(&server, &pulse);
    let mut chores = chores(&server.directory, &store, &children, watchdog, &around);
    let notifier = notify::Notifier::new(server.directory.clone(), live.clone(), profiles);
    chores.spawn(notifier.run());
    let renewals = sessions::record_renewals(hub.clone(), server.directory.clone(), failed);
    chores.spawn(renewals);
    chores.spawn(profiles::record(server.directory.clone(), started));
    follow(
        &mut chores,
        live,
        witness,
        (&server.directory, hub, manifests),
    );
    store_chores::begin(&mut chores, &server, &store);
    let serving = listen::listen(server.clone(), listener);
    let working = async {
        let ((), until) = tokio::join!(serving, stop::in_order(&server, &stops, signals));
        wait_for(&children, until).await;
    };
    tokio::select! {
        () = working => {}
        () = keeper.run() => {}
    }
    chores.shutdown().await;
    leave(place);
    close(store).await;
    Ok(())
}

fn daemon_info(store: &Store, around: &DaemonPaths) -> DaemonInfo {
    DaemonInfo {
        epoch: store.epoch(),
        started_at: clock::now(),
        socket: around.socket_path.clone(),
        state_dir: around.state_dir.clone(),
        repairs: store.repairs(),
    }
}

/// Goes on with what was unfinished, and says that it is there.
fn begin(server: &RpcServer, pulse: &StorePulse) {
    let resumed = server.directory.resume().unwrap_or_else(|error| {
        tracing::error!(%error, "look for unfinished turns");
        0
    });
    tracing::info!(resumed, pid = std::process::id(), "ready");
    pulse.set_ready();
    say_ready();
}

/// Until the children are gone, but not for ever.
async fn wait_for(children: &Children, until: Instant) {
    let gone = tokio::time::timeout_at(until, children.all_ended()).await;
    if gone.is_err() {
        tracing::warn!("children are still ending; their keepers go on without us");
    }
}

/// What only one daemon can have.
struct Opened {
    listener: Listener,
    place: Option<SocketFile>,
    store: Store,
}

/// Takes the socket, then the store; nothing when the word to stop came first.
async fn open(
    around: &DaemonPaths,
    pulse: Arc<StorePulse>,
    signals: &mut DaemonSignals,
) -> anyhow::Result<Option<Opened>> {
    let ListeningSocket { listener, place } = match socket::adopt()? {
        Some(adopted) => adopted,
        None => {
            let path = &around.socket_path;
            paths::private_dir(path.parent().unwrap_or(Path::new("/")))?;
            socket::bind(path)?
        }
    };
    let opened = tokio::select! {
        opened = open_store(&around.state_dir, pulse) => opened.map(Some),
        // What is being read is as safe as it is from a kill.
        () = signals.ending() => Ok(None),
    };
    match opened {
        Ok(Some(store)) => {
            for repair in &store.repairs() {
                tracing::warn!("{repair}");
            }
            Ok(Some(Opened {
                listener,
                place,
                store,
            }))
        }
        Ok(None) => {
            leave(place);
            Ok(None)
        }
        Err(error) => {
            leave(place);
            Err(error)
        }
    }
}

/// Gives up a socket that is ours.
fn leave(place: Option<SocketFile>) {
    if let Some(place) = place {
        place.remove();
    }
}

async fn close(store: Store) {
    let _panicked = tokio::task::spawn_blocking(move || store.close()).await;
    tracing::info!("stopped");
}

/// The broker, whose secrets the log learns before they are used.
fn broker(logging: &RunningLog, store: &Store, children: Children) -> Broker {
    let redactor = logging.redactor();
    for (_, value) in environment_variables::of_network() {
        network::password(&value)
            .into_iter()
            .for_each(|it| redactor.learn(it));
    }
    let broker = Broker::telling(environment_variables::key, children, move |secret| {
        redactor.learn(secret);
    });
    broker.remember(NotTaken::new(store));
    broker
}

/// Puts the parts together.
fn build(
    about: DaemonInfo,
    (hub, manifests, children): (Hub, Arc<ManifestStore>, Children),
    config: Arc<LiveConfig>,
    settings: &Settings,
    (log, redactor): (LogRing, Redactor),
    services: ActorServices,
    closing: CancellationToken,
) -> Arc<RpcServer> {
    Arc::new(RpcServer::new(ServerParts {
        directory: ConversationDirectory::new(services, settings.max_conversations_in_memory),
        provider_among: Box::new(move |line| children.provider_among(line)?.parse().ok()),
        hub,
        manifests,
        about,
        limits: limits(settings),
        log,
        redactor,
        stop: tokio::sync::watch::channel(None).0,
        closing,
        config,
    }))
}

async fn open_store(state_dir: &Path, pulse: Arc<StorePulse>) -> anyhow::Result<Store> {
    paths::private_dir(state_dir)?;
    let dir = state_dir.join("store");
    let alive = Alive::new(move || pulse.beat());
    let opened = tokio::task::spawn_blocking(move || Store::open_telling(&dir, alive)).await;
    Ok(opened.context("open the store")??)
}

/// What goes on beside the serving, for whoever watches over us. It ends with the set.
fn chores(
    directory: &ConversationDirectory,
    store: &Store,
    children: &Children,
    watchdog: Option<Duration>,
    around: &DaemonPaths,
) -> JoinSet<()> {
    let mut chores = JoinSet::new();
    let scratch = directory.ground().scratch.clone();
    chores.spawn(boundary::clear(children.clone(), scratch));
    chores.spawn(trials::recover(directory.clone()));
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

/// Goes after the configuration as it changes.
fn follow(
    chores: &mut JoinSet<()>,
    live: Arc<LiveConfig>,
    witness: StoreWitness,
    (directory, hub, manifests): (&ConversationDirectory, Hub, Arc<ManifestStore>),
) {
    chores.spawn(registry::follow(manifests, live.clone()));
    chores.spawn(witness.make_up_for(live.clone()));
    let definitions = directory.definitions().clone();
    chores.spawn(rules::follow(
        directory.tools().clone(),
        live.policy(),
        definitions,
    ));
    chores.spawn(sessions::follow(hub, live.mcp()));
    chores.spawn(watch::follow(live));
}

fn limits(settings: &Settings) -> ProtocolLimits {
    ProtocolLimits {
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
