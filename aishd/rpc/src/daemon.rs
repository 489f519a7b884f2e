//! `daemon/*`: the handshake, and the daemon itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use aish_proto::conversation::Activity;
use aish_proto::daemon::{
    DaemonReloadResult, Hello, HelloResult, Metrics, MetricsResult, Ping, Reload, RoutingStatus,
    Schema, ServerInfo, Shutdown, ShutdownResult, Status, StatusResult, StoreStatus,
};
use aish_proto::error::ErrorKind;
use aish_proto::method::{ClientRole, Empty};
use aish_proto::shell::USUAL_ENVIRONMENT;
use aish_proto::version::{EVENT_SCHEMA, PROGRAM, ProtocolRange};
use aishd_config::live::{OnErrors, ReloadOutcome};
use aishd_config::settings::GRACE_MOST_MS;
use aishd_log::environment::MAX_ENVIRONMENT_BYTES;
use aishd_log::routed::RoutedSide;
use aishd_log::time::Timestamp;
use aishd_model::preset::{Backend, KeySource, Preset};
use aishd_platform::clock;
use jsonrpsee::RpcModule;

use super::connection::GivenEnvironment;
use super::method_error::{AS_DRIVER, MethodError};
use super::{MethodCall, OrderedStop, RpcServer, config, event_conversion, metrics, register};

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Hello, _, _>(module, hello);
    register::<Ping, _, _>(module, |_call: MethodCall<Ping>| async { Ok(Empty {}) });
    register::<Status, _, _>(module, status);
    register::<Shutdown, _, _>(module, shutdown);
    register::<Reload, _, _>(module, reload);
    register::<Schema, _, _>(module, |_call: MethodCall<Schema>| async {
        Ok(aish_proto::schema::document())
    });
    register::<Metrics, _, _>(module, metrics_text);
}

/// Waits for nothing: calls that follow in the same write begin when this has got as far as it can, and a client that
/// sends its question behind a tentative hello relies on it.
async fn hello(call: MethodCall<Hello>) -> Result<HelloResult, MethodError> {
    let params = call.params;
    let ours = ProtocolRange::OURS;
    let Some(protocol) = ours.common(params.protocol) else {
        let message = format!(
            "aishd {PROGRAM} speaks {ours}, and {} {} speaks {}",
            params.client.name, params.client.version, params.protocol
        );
        let hint = if params.protocol.min > ours.max {
            "the daemon is older: aishctl service restart, or: aishctl rpc daemon/shutdown"
        } else {
            "the client is older: install the aishctl that came with this aishd"
        };
        return Err(MethodError::new(ErrorKind::VersionMismatch, message).hint(hint));
    };
    let of_ours = call.connection.is_of_ours();
    let may_lend = params.role == ClientRole::Driver && !of_ours;
    if !params.secrets.is_empty() && !may_lend {
        let message = "only a driver may lend secrets";
        return Err(MethodError::new(ErrorKind::ForbiddenRole, message).hint(AS_DRIVER));
    }
    let broker = call.server.directory.broker();
    let models = call.server.directory.models();
    let named: BTreeSet<&str> = models
        .presets
        .values()
        .filter_map(|it| key_env(it))
        .collect();
    let mut secrets = params.secrets;
    secrets.retain(|name, _| named.contains(name.as_str()));
    broker.lend(secrets);
    let mut wanted = BTreeSet::new();
    for preset in models.presets.values().filter(|_| may_lend) {
        // Keys of another kind are not looked for: no handshake waits for a file.
        if let Some(name) = key_env(preset)
            && broker.has_key(preset).await == Some(false)
        {
            wanted.insert(name);
        }
    }
    let more = more_environment(&call.server, &params.environment);
    check_size(&params.environment)?;
    if (wanted.is_empty() && more.is_empty()) || !params.tentative {
        let mut given = GivenEnvironment {
            variables: params.environment,
            umask: params.umask,
        };
        let mut info = params.client;
        if let Some(provider) = call.connection.provider() {
            // It does not pass for a person, and what a person allows would run with another PATH than it seems to.
            info.name = provider.to_string();
            info.tty = None;
            given = GivenEnvironment::default();
        }
        call.connection.greet(info, params.role, given);
        // Whoever says hello again as somebody who may not allow anything has allowed nothing.
        if params.role < ClientRole::Driver {
            let allowances = call.server.directory.allowances();
            allowances.forget(call.connection.client);
        }
    }
    Ok(HelloResult {
        protocol,
        event_schema: EVENT_SCHEMA,
        server: server_info(&call.server),
        client_id: call.connection.client,
        epoch: call.server.about.epoch,
        features: vec![
            "conversation".to_owned(),
            "queue".to_owned(),
            "steer".to_owned(),
        ],
        limits: call.server.limits.clone(),
        wanted_secrets: wanted.into_iter().map(str::to_owned).collect(),
        wanted_environment: more,
        ui: config::ui(&call.server.config.watch_status().borrow()),
    })
}

fn check_size(given: &BTreeMap<String, String>) -> Result<(), MethodError> {
    let bytes: usize = given.iter().map(|(a, b)| a.len() + b.len()).sum();
    if bytes <= MAX_ENVIRONMENT_BYTES {
        return Ok(());
    }
    let message =
        format!("environment is {bytes} bytes; at most {MAX_ENVIRONMENT_BYTES} are taken");
    Err(MethodError::new(ErrorKind::TooLarge, message)
        .hint("aishctl config explain shell.env_from_client: what is named there is sent"))
}

/// What the daemon would take besides, of what clients do not give by themselves.
fn more_environment(server: &RpcServer, given: &BTreeMap<String, String>) -> Vec<String> {
    let names = server.directory.policy().shell.env_from_client.clone();
    let usual = |it: &String| USUAL_ENVIRONMENT.contains(&it.as_str());
    let unknown = names.into_iter().filter(|it| !usual(it));
    unknown.filter(|it| !given.contains_key(it)).collect()
}

/// The variable that holds the preset's key.
fn key_env(preset: &Preset) -> Option<&str> {
    match &preset.backend {
        Backend::Http(endpoint) => match &endpoint.key {
            KeySource::Env(name) => Some(name),
            KeySource::None
            | KeySource::File(_)
            | KeySource::Command(_)
            | KeySource::Literal(_) => None,
        },
        Backend::Demo => None,
    }
}

fn server_info(server: &RpcServer) -> ServerInfo {
    ServerInfo {
        version: PROGRAM.to_owned(),
        pid: std::process::id(),
        started_at: clock::rfc3339(server.about.started_at),
    }
}

/// How much goes on.
#[derive(Clone, Copy, Debug, Default)]
struct DaemonLoad {
    running: u64,
    /// Conversations in which no turn runs, but a person's own command.
    commands: u64,
    queued: u64,
    conversations: u64,
}

async fn load(server: &RpcServer) -> Result<DaemonLoad, MethodError> {
    let mut load = DaemonLoad {
        conversations: server.directory.count().await?,
        ..DaemonLoad::default()
    };
    // What runs and what waits is unsettled.
    for state in &server.directory.unsettled().await? {
        let runs = event_conversion::activity(state) == Activity::Running;
        if runs && state.running.is_some() {
            load.running += 1;
        } else if runs {
            load.commands += 1;
        }
        load.queued += state.queue.len() as u64;
    }
    Ok(load)
}

async fn status(call: MethodCall<Status>) -> Result<StatusResult, MethodError> {
    let server = call.server;
    let health = server.directory.health();
    // A store that cannot be read is exactly what this call is there to show.
    let load = load(&server).await.unwrap_or_default();
    let models = server.directory.models();
    let routes = server.directory.routes();
    let (switches, counted) = (routes.switches(), routes.counts());
    let standing = server.config.watch_status().borrow().clone();
    let file = server.config.file().filter(|it| it.exists());
    Ok(StatusResult {
        server: server_info(&server),
        socket: server.about.socket.display().to_string(),
        config: file.map(|it| it.display().to_string()),
        config_errors: standing.errors.clone(),
        restart_needed: standing.restart_needed.clone(),
        default_model: models
            .default
            .clone()
            .unwrap_or_else(|| "(found at the next question)".to_owned()),
        conversations: load.conversations,
        running_turns: load.running,
        running_commands: load.commands,
        pending_confirms: server.directory.pending().snapshot().len() as u64,
        queued_turns: load.queued,
        clients: server.counters.connected.load(Ordering::Relaxed),
        store: StoreStatus {
            path: server.about.state_dir.display().to_string(),
            epoch: server.about.epoch,
            writable: health.problem.is_none(),
            problem: health.problem,
            repairs: server.about.repairs.clone(),
            journal_bytes: health.journal_bytes,
        },
        routing: RoutingStatus {
            auto: switches.is_on(RoutedSide::Route, &models.routing),
            fallback: switches.is_on(RoutedSide::Fallback, &models.routing),
            routed: counted.routed,
            fallbacks: counted.fallbacks,
            fallbacks_failed: counted.fallbacks_failed,
        },
        draining: server.stop.borrow().is_some(),
    })
}

async fn shutdown(call: MethodCall<Shutdown>) -> Result<ShutdownResult, MethodError> {
    let server = call.server;
    if call.params.if_idle {
        let DaemonLoad {
            running,
            commands,
            queued,
            ..
        } = load(&server).await?;
        if running + commands + queued > 0 {
            let mut message = format!("{running} turns run and {queued} wait");
            if commands > 0 {
                message.push_str(&format!(", and {commands} commands run"));
            }
            return Err(MethodError::new(ErrorKind::Busy, message).hint("aishctl status"));
        }
    }
    let grace_ms = u64::try_from(server.grace().as_millis()).unwrap_or(u64::MAX);
    let deadline_ms = call.params.deadline_ms.unwrap_or(grace_ms);
    let deadline_ms = deadline_ms.min(GRACE_MOST_MS);
    let now = clock::now();
    let deadline_at = Timestamp(now.0 + i64::try_from(deadline_ms).unwrap_or_default());
    let stopping = OrderedStop {
        reason: "asked by a client".to_owned(),
        deadline_ms,
        deadline_at,
    };
    // The reply has to be out before the connection goes.
    call.after_reply.start(async move {
        server.stop.send_if_modified(|stop| {
            let first = stop.is_none();
            stop.get_or_insert(stopping);
            first
        });
    });
    Ok(ShutdownResult {
        deadline_at: clock::rfc3339(deadline_at),
    })
}

async fn reload(call: MethodCall<Reload>) -> Result<DaemonReloadResult, MethodError> {
    let ReloadOutcome::Told(done) =
        config::read(&call.server, |it| it.reload(OnErrors::Tell)).await?
    else {
        return Err(MethodError::internal("nobody held it"));
    };
    Ok(DaemonReloadResult {
        changed: done.changed.keys.clone(),
        errors: done.errors.clone(),
        warnings: done.warnings.clone(),
        restart_needed: done.restart_needed.clone(),
    })
}

async fn metrics_text(call: MethodCall<Metrics>) -> Result<MetricsResult, MethodError> {
    let load = load(&call.server).await.unwrap_or_default();
    let text = metrics::text(&call.server, load.running, load.queued, load.conversations);
    Ok(MetricsResult { text })
}
