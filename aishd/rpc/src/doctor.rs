//! `daemon/doctor`: the daemon looks itself over. Servers are asked all at the same moment, and none is waited for
//! long; no prompt is sent to anybody.

use std::fmt::Write as _;
use std::time::Duration;

use aish_proto::doctor::{CheckOutcome, Doctor, DoctorCheck, DoctorResult};
use aish_proto::method::Empty;
use aish_proto::network;
use aishd_config::environment_variables;
use aishd_config::manifest_store::ManifestStore;
use aishd_log::network::short;
use aishd_log::norris::launch::RunContain;
use aishd_log::profile::Profile;
use aishd_log::turn_error::FailureClass;
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::server::{ServerEntry, ServerPhase, ServerSnapshot};
use aishd_model::preset::{Backend, KeySource, ModelEndpoint, Preset};
use aishd_model::reply::RequestFailure;
use aishd_profile::WHAT_IT_TAKES;
use futures_util::future::join_all;
use jsonrpsee::RpcModule;
use tokio::time::Instant;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};

const PROBE_LIMIT: Duration = Duration::from_secs(2);
/// Of what is told of an MCP server.
const MAX_SAID_CHARS: usize = 300;
/// Somebody should know before the store has to refuse.
const LITTLE_ROOM_BYTES: u64 = 256 << 20;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Doctor, _, _>(module, doctor);
}

async fn doctor(call: MethodCall<Doctor>) -> Result<DoctorResult, MethodError> {
    let Empty {} = call.params;
    let server = &call.server;
    let mut checks = vec![config(server)];
    checks.extend(network(&environment_variables::of_network()));
    checks.extend(models(server).await);
    checks.extend(tools(server).await);
    let servers = server.hub.servers().borrow().clone();
    checks.extend(servers.list.iter().map(|it| mcp(it)));
    checks.extend(spending(server));
    checks.push(boundary(server).await);
    checks.push(trials(server).await);
    checks.push(profiles(server, &servers).await);
    checks.extend(refused_hosts(server, &servers));
    checks.push(store(server));
    Ok(DoctorResult { checks })
}

fn check(name: impl Into<String>, outcome: CheckOutcome, detail: impl Into<String>) -> DoctorCheck {
    DoctorCheck {
        check: name.into(),
        outcome,
        detail: detail.into(),
        fix: None,
    }
}

fn fix(check: DoctorCheck, fix: impl Into<String>) -> DoctorCheck {
    DoctorCheck {
        fix: Some(fix.into()),
        ..check
    }
}

fn config(server: &RpcServer) -> DoctorCheck {
    let place = match server.config.file().filter(|it| it.exists()) {
        Some(path) => path.display().to_string(),
        None => "there is none; everything has its default".to_owned(),
    };
    let standing = server.config.watch_status().borrow().clone();
    if let Some(error) = standing.errors.first() {
        let detail = format!("{error}; running the previous one");
        return fix(
            check("config", CheckOutcome::Fail, detail),
            "aishctl config check",
        );
    }
    if !standing.restart_needed.is_empty() {
        let keys = standing.restart_needed.join(", ");
        let detail = format!("{place}: {keys} wait for a restart");
        return fix(
            check("config", CheckOutcome::Warn, detail),
            "aishctl service restart",
        );
    }
    match standing.warnings.len() {
        0 => check("config", CheckOutcome::Ok, place),
        count => {
            let plural = if count == 1 { "" } else { "s" };
            let detail = format!("{place}: {count} warning{plural}");
            fix(
                check("config", CheckOutcome::Warn, detail),
                "aishctl config check",
            )
        }
    }
}

/// Through which proxy servers are reached and which certificates are trusted, where somebody has said so.
fn network(set: &[(&str, String)]) -> Option<DoctorCheck> {
    let said = set
        .iter()
        .map(|(name, value)| format!("{name}={}", network::displayed(value)));
    let said: Vec<String> = said.collect();
    (!said.is_empty()).then(|| check("network", CheckOutcome::Ok, said.join(" · ")))
}

async fn models(server: &RpcServer) -> Vec<DoctorCheck> {
    let models = server.directory.models();
    let presets: Vec<_> = models
        .presets
        .values()
        .filter_map(|preset| match &preset.backend {
            Backend::Http(endpoint) => Some((preset, endpoint)),
            Backend::Demo => None,
        })
        .collect();
    if presets.is_empty() {
        return vec![found(server).await];
    }
    let asked = presets
        .into_iter()
        .map(|(preset, endpoint)| model(server, preset, endpoint));
    join_all(asked).await
}

async fn model(server: &RpcServer, preset: &Preset, endpoint: &ModelEndpoint) -> DoctorCheck {
    let name = format!("model {}", preset.name);
    let place = endpoint.base();
    let broker = server.directory.broker();
    if broker.has_key(preset).await == Some(false) {
        return no_key(name, endpoint);
    }
    let began = Instant::now();
    let listed = broker.models_of(endpoint, PROBE_LIMIT).await;
    let ms = began.elapsed().as_millis();
    match listed {
        Ok(models) if models.contains(&preset.model) => {
            let detail = format!("{place} · {} is there · {ms} ms", preset.model);
            check(name, CheckOutcome::Ok, detail)
        }
        Ok(_) => {
            let detail = format!("{place} answers, and does not list {}", preset.model);
            let command = format!(
                "aishctl model probe shows what it has; models.{}.model names one",
                preset.name
            );
            fix(check(name, CheckOutcome::Warn, detail), command)
        }
        Err(failure) => {
            let what = match failure.class() {
                FailureClass::Unreachable => "start that server, or correct the preset's endpoint",
                FailureClass::Unauthorized => {
                    "the server wants another key: correct the preset's key"
                }
                FailureClass::Rejected => {
                    "not every server lists its models; a question shows whether it answers"
                }
                FailureClass::RateLimited => "try again later",
                FailureClass::ContextOverflow
                | FailureClass::Cut
                | FailureClass::Config
                | FailureClass::Storage => "look at the server's own log",
            };
            let outcome = match failure.class() {
                FailureClass::Rejected | FailureClass::RateLimited => CheckOutcome::Warn,
                FailureClass::Unreachable
                | FailureClass::Unauthorized
                | FailureClass::ContextOverflow
                | FailureClass::Cut
                | FailureClass::Config
                | FailureClass::Storage => CheckOutcome::Fail,
            };
            let detail = format!("{place}: {}", what_happened(&failure));
            fix(check(name, outcome, detail), what)
        }
    }
}

/// Without the name of the layer, which is for those who look at the code.
fn what_happened(failure: &RequestFailure) -> String {
    let text = failure.to_string();
    match text.split_once(": ") {
        Some((_layer, rest)) => rest.to_owned(),
        None => text,
    }
}

fn no_key(name: String, endpoint: &ModelEndpoint) -> DoctorCheck {
    let (detail, what) = match &endpoint.key {
        KeySource::Env(variable) => (
            format!("{variable} is not set in aishd, and nobody has lent it"),
            format!(
                "export {variable} in the shell that asks, or put it into ~/.config/aish/env (0600) and restart aishd"
            ),
        ),
        KeySource::File(path) => (
            format!("the key file {} cannot be used", path.display()),
            format!("put the key there, and: chmod 600 {}", path.display()),
        ),
        KeySource::Command(_) | KeySource::Literal(_) | KeySource::None => (
            "its key is empty".to_owned(),
            "correct the preset's key".to_owned(),
        ),
    };
    fix(check(name, CheckOutcome::Fail, detail), what)
}

/// The limit of a day, if there is one, and what it cannot count.
fn spending(server: &RpcServer) -> Option<DoctorCheck> {
    let models = server.directory.models();
    let limit = models.daily_usd?;
    let (_, spent, _) = server.directory.ledger().today();
    let detail = format!("{spent} of {limit} today (UTC)");
    let uncounted = models.presets.values().filter(|it| it.price.is_none());
    let uncounted: Vec<&str> = uncounted.map(|it| it.name.as_str()).collect();
    if spent >= limit {
        let warned = check("spending", CheckOutcome::Warn, format!("{detail}: used up"));
        return Some(fix(warned, "limits.daily_spend_usd raises it"));
    }
    if uncounted.is_empty() {
        return Some(check("spending", CheckOutcome::Ok, detail));
    }
    let names = uncounted.join(", ");
    let detail = format!("{detail}; what {names} cost cannot be counted");
    Some(fix(
        check("spending", CheckOutcome::Warn, detail),
        "models.NAME.price says what a preset costs; 0 for what costs nothing",
    ))
}

/// Tools that are written down, if there are any.
async fn tools(server: &RpcServer) -> Option<DoctorCheck> {
    let count = server.directory.tools().registry().providers.len();
    let report = super::registry::ask(server, ManifestStore::report).await;
    let faults = report.map(|it| it.faults).unwrap_or_default();
    let Some(first) = faults.first() else {
        let plural = if count == 1 { "" } else { "s" };
        let detail = format!("{count} manifest{plural}");
        return (count > 0).then(|| check("tools", CheckOutcome::Ok, detail));
    };
    let more = match faults.len() - 1 {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Some(fix(
        check("tools", CheckOutcome::Warn, format!("{first}{more}")),
        "correct it; aishctl tools reload shows all of them",
    ))
}

/// One MCP server. It is not asked: how it does is known.
fn mcp(server: &ServerEntry) -> DoctorCheck {
    let alias = &server.alias;
    let name = format!("mcp {alias}");
    match &server.state {
        ServerPhase::Ready => {
            let count = server.tools.len();
            let plural = if count == 1 { "" } else { "s" };
            let mut detail = format!("{count} tool{plural}, protocol {}", server.about.protocol);
            if let Some(ms) = server.connect_ms {
                let _infallible = write!(detail, ", there after {ms} ms");
            }
            if !server.left_out.is_empty() {
                let _infallible = write!(detail, ", {} left out", server.left_out.len());
            }
            let remarks = server.remarks.len();
            if remarks > 0 {
                let plural = if remarks == 1 { "" } else { "s" };
                let _infallible = write!(detail, "; {remarks} remark{plural}: aishctl mcp list");
            }
            check(name, CheckOutcome::Ok, detail)
        }
        ServerPhase::Off(why) => check(name, CheckOutcome::Ok, format!("off: {why}")),
        ServerPhase::NeedsSignIn { why, hint } => {
            let needed = check(name, CheckOutcome::Warn, one_line(why, MAX_SAID_CHARS));
            fix(needed, one_line(hint, MAX_SAID_CHARS))
        }
        ServerPhase::Connecting => fix(
            check(name, CheckOutcome::Warn, "it is still connecting"),
            format!("aishctl mcp logs {alias}, if it stays so"),
        ),
        ServerPhase::Failed { why, hint } => {
            let usual = format!("aishctl mcp logs {alias} says why; aishctl mcp restart {alias}");
            let hint = hint.as_deref().map(|it| one_line(it, MAX_SAID_CHARS));
            let failed = check(name, CheckOutcome::Fail, one_line(why, MAX_SAID_CHARS));
            fix(failed, hint.unwrap_or(usual))
        }
    }
}

/// What is there when nothing is configured.
async fn found(server: &RpcServer) -> DoctorCheck {
    let asked = tokio::time::timeout(PROBE_LIMIT, server.directory.probe_models(None)).await;
    let servers = asked.unwrap_or_default();
    let answering = servers.iter().find(|it| it.models.is_ok());
    match answering {
        Some(it) => {
            let detail = format!(
                "none is configured; {} answers on this machine",
                it.endpoint
            );
            check("models", CheckOutcome::Ok, detail)
        }
        None => {
            let detail = "none is configured and none was found on this machine: the demo answers";
            let what = "start a local server such as Ollama, or add one: aishctl model add";
            fix(check("models", CheckOutcome::Warn, detail), what)
        }
    }
}

/// Whether the kernel holds what runs do unasked, in the way that is configured.
async fn boundary(server: &RpcServer) -> DoctorCheck {
    if server.directory.models().norris.contain == RunContain::Try {
        let tools = server.directory.tools();
        let missing = tools.misses_for_trials(server.directory.trials()).await;
        return match missing {
            None => check(
                "runs",
                CheckOutcome::Ok,
                "their commands work in a copy of the files, which you keep or drop",
            ),
            Some(why) => fix(
                check(
                    "runs",
                    CheckOutcome::Warn,
                    format!("nothing holds their commands, so each is asked about: {why}"),
                ),
                match server.directory.ground().missing {
                    None => format!(
                        "{WHAT_IT_TAKES}, of 5.11 or later; or norris.contain = \"workspace\", which this kernel holds"
                    ),
                    Some(_) => format!("{WHAT_IT_TAKES}, of 5.11 or later"),
                },
            ),
        };
    }
    match &server.directory.ground().missing {
        None => check(
            "runs",
            CheckOutcome::Ok,
            "the kernel holds their commands to the conversation's directories",
        ),
        Some(why) => fix(
            check(
                "runs",
                CheckOutcome::Warn,
                format!("nothing holds their commands, so each is asked about: {why}"),
            ),
            "a kernel of 6.12 or later with landlock among its lsm= has what it takes",
        ),
    }
}

/// Whether a command can be tried before it is real.
async fn trials(server: &RpcServer) -> DoctorCheck {
    let tools = server.directory.tools();
    match tools.misses_for_trials(server.directory.trials()).await {
        None => check(
            "trials",
            CheckOutcome::Ok,
            "a command can be tried in layers over the files first (t at its question)",
        ),
        Some(why) => fix(
            check(
                "trials",
                CheckOutcome::Warn,
                format!("no command can be tried here: {why}"),
            ),
            format!("{WHAT_IT_TAKES}, of 5.11 or later"),
        ),
    }
}

/// Which programs are held to a profile, and whether the kernel can do that.
async fn profiles(server: &RpcServer, servers: &ServerSnapshot) -> DoctorCheck {
    let tools = server.directory.tools();
    let registry = tools.registry();
    let held = |profile: Profile| {
        let of_servers = servers
            .list
            .iter()
            .filter(|it| it.contain.profile == profile);
        let of_servers = of_servers.map(|it| format!("mcp {}", it.alias));
        let of_tools = registry.providers.values().filter(|it| {
            let mut capabilities = it.capabilities.iter();
            capabilities.any(|capability| it.profile(capability) == profile)
        });
        let all = of_servers.chain(of_tools.map(|it| it.name.to_string()));
        let names: Vec<String> = all.collect();
        (!names.is_empty()).then(|| format!("{profile}: {}", names.join(", ")))
    };
    let in_use: Vec<String> = [Profile::Read, Profile::Workspace]
        .into_iter()
        .filter_map(held)
        .collect();
    let missing = tools.profiles().missing().await;
    match (missing, in_use.is_empty()) {
        (None, true) => check(
            "profiles",
            CheckOutcome::Ok,
            "the kernel can hold programs to one; none has any",
        ),
        (None, false) => {
            let detail = format!(
                "the kernel holds programs to theirs · {}",
                in_use.join(" · ")
            );
            check("profiles", CheckOutcome::Ok, detail)
        }
        (Some(why), true) => {
            let detail = format!("the kernel can hold no program to one, and none has any: {why}");
            fix(check("profiles", CheckOutcome::Warn, detail), WHAT_IT_TAKES)
        }
        (Some(why), false) => {
            let detail = format!(
                "nothing of these is started, since nothing holds it: {} ({why})",
                in_use.join(" · ")
            );
            let fixed = format!("{WHAT_IT_TAKES}; or `contain = \"open\"` in what configures them");
            fix(check("profiles", CheckOutcome::Fail, detail), fixed)
        }
    }
}

/// Programs under a profile that wanted hosts which nothing names, with the line that allows them.
fn refused_hosts(server: &RpcServer, servers: &ServerSnapshot) -> Vec<DoctorCheck> {
    let profiles = server.directory.tools().profiles();
    let each = profiles.networked().into_iter().filter_map(|alias| {
        let refused = profiles.network_of(&alias).only_refused();
        let line = refused.line()?;
        let named: Vec<&str> = refused.refused.iter().map(|it| short(&it.host)).collect();
        let place = match servers.get(&alias) {
            _ if alias.is_own() => "[contain]".to_owned(),
            Some(_) => format!("[mcp.servers.{alias}]"),
            None => format!("the manifest of {alias}"),
        };
        let allows = format!("hosts = {named:?} in {place} allows them");
        let check = check(format!("hosts of {alias}"), CheckOutcome::Warn, line);
        Some(fix(check, allows))
    });
    each.collect()
}

fn store(server: &RpcServer) -> DoctorCheck {
    let health = server.directory.health();
    let mut detail = format!(
        "{} · journal {}",
        server.about.state_dir.display(),
        size(health.journal_bytes)
    );
    if let Some(ago) = health.synced_ago {
        let _infallible = write!(detail, " · last synced {:.1} s ago", ago.as_secs_f64());
    }
    if let Some(free) = health.free_bytes {
        let _infallible = write!(detail, " · {} free", size(free));
    }
    if let Some(problem) = health.problem {
        let failed = check("store", CheckOutcome::Fail, format!("{detail} · {problem}"));
        return fix(
            failed,
            "aishd goes on by itself once the disk takes data again",
        );
    }
    if let Some(first) = health.damage.first() {
        let damage = format!("{detail} · {first}");
        return fix(
            check("store", CheckOutcome::Fail, damage),
            "aishctl store check says all of it; a backup may still have what is lost",
        );
    }
    if let Some(warning) = health.warning {
        let warned = check("store", CheckOutcome::Warn, format!("{detail} · {warning}"));
        return fix(
            warned,
            "aishctl store compact, delete conversations, or raise store.max_bytes",
        );
    }
    let repairs = health.repairs.join("; ");
    if !repairs.is_empty() {
        let warned = check("store", CheckOutcome::Warn, format!("{detail} · {repairs}"));
        return fix(
            warned,
            "nothing to do; look after the disk if it happens again",
        );
    }
    match health.free_bytes {
        Some(free) if free < LITTLE_ROOM_BYTES => fix(
            check("store", CheckOutcome::Warn, detail),
            "make room on that disk; without any, questions are refused",
        ),
        Some(_) | None => check("store", CheckOutcome::Ok, detail),
    }
}

fn size(bytes: u64) -> String {
    let (unit, shift) = match bytes {
        0..0x10_0000 => ("KiB", 10),
        0x10_0000..0x4000_0000 => ("MiB", 20),
        0x4000_0000.. => ("GiB", 30),
    };
    let tenths = (u128::from(bytes) * 10) >> shift;
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_told_without_its_password() {
        let set = [
            ("HTTPS_PROXY", "http://me:s3cret@proxy:3128".to_owned()),
            ("SSL_CERT_FILE", "/etc/corp.pem".to_owned()),
        ];
        assert_eq!(
            Some("HTTPS_PROXY=http://***@proxy:3128 · SSL_CERT_FILE=/etc/corp.pem"),
            network(&set).as_ref().map(|it| it.detail.as_str())
        );
        assert_eq!(None, network(&[]));
    }

    #[test]
    fn sizes_are_for_people() {
        assert_eq!("0.0 KiB", size(0));
        assert_eq!("1.5 KiB", size(1536));
        assert_eq!("1.0 MiB", size(1 << 20));
        assert_eq!("12.2 GiB", size(13_100_000_000));
    }
}
