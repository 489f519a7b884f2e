//! `doctor`: is everything as it should be, and what to do where it is not. A daemon that hangs must
//! not hang this: every question has a deadline.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use aish_proto::daemon::{ClientKind, Status, StatusResult};
use aish_proto::doctor::{CheckOutcome, Doctor, DoctorCheck};
use aish_proto::method::{ClientRole, Empty};
use aish_proto::version::{PROGRAM, PROTOCOL};
use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::client::daemon_link::{DaemonLink, DaemonReach, DaemonStart, DaemonWait};
use crate::client::{service, spawn};
use crate::command_output::{CommandOutput, PrintResult, print};
use crate::exit::Exit;
use crate::global_args::GlobalArgs;

/// A daemon that lives says hello at once.
const HELLO_WITHIN: Duration = Duration::from_secs(3);
/// It asks servers, for two seconds at most.
const LOOK_WITHIN: Duration = Duration::from_secs(6);
/// Of the end of a log.
const LAST_WORDS_BYTES: u64 = 8 << 10;
const PROGRAM_WITHIN: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Serialize)]
struct DoctorReport {
    v: u32,
    version: &'static str,
    protocol: u32,
    system: String,
    checks: Vec<DoctorCheck>,
}

pub async fn run(reach: &DaemonReach, global: &GlobalArgs) -> PrintResult {
    let reach = DaemonReach {
        start: DaemonStart::Forbidden,
        kind: ClientKind::Ctl,
        role: ClientRole::Driver,
        deadline: HELLO_WITHIN,
        ..reach.clone()
    };
    let (mut checks, link) = daemon(&reach).await;
    match link {
        Some(link) => checks.extend(from_daemon(&link).await),
        None => {
            checks.extend(configuration(&reach).await);
            checks.extend(store(&reach).await);
        }
    }
    checks.extend(keys_for_the_service(&reach));
    checks.push(service::check(&reach.around).await);
    checks.push(terminal(&reach).await);
    let report = DoctorReport {
        v: 1,
        version: PROGRAM,
        protocol: PROTOCOL,
        system: system(),
        checks,
    };
    let failed = report
        .checks
        .iter()
        .any(|it| it.outcome == CheckOutcome::Fail);
    let printed = print(global, &report, || text(&report))?;
    let exit = if failed { Exit::FAILED } else { Exit::DONE };
    Ok(CommandOutput { exit, ..printed })
}

/// Whether the daemon answers, and the connection to it.
async fn daemon(reach: &DaemonReach) -> (Vec<DoctorCheck>, Option<DaemonLink>) {
    let socket = reach.socket.display();
    if let Err(error) = tokio::net::UnixStream::connect(&reach.socket).await {
        let detail = format!("does not run: {socket} ({error})");
        if let Some((why, hint)) = last_words(reach) {
            let detail = format!("{detail}; the last one ended with: {why}");
            return (
                vec![DoctorCheck::new(
                    "daemon",
                    CheckOutcome::Fail,
                    detail,
                    hint.as_deref(),
                )],
                None,
            );
        }
        let fix = if reach.around.has_socket_unit() {
            "aishctl service start"
        } else {
            "nothing: it starts with the first aishctl ask"
        };
        return (
            vec![DoctorCheck::new(
                "daemon",
                CheckOutcome::Warn,
                detail,
                Some(fix),
            )],
            None,
        );
    }
    let opened = tokio::time::timeout(LOOK_WITHIN, reach.open(DaemonWait::No)).await;
    let link = match opened {
        Ok(Ok(link)) => link,
        Ok(Err(failure)) => {
            let fix = failure.hint.as_deref().filter(|it| *it != "aishctl status");
            let fix = fix.unwrap_or("aishctl service restart, or end it: kill -9 its process");
            let detail = format!("{socket}: {}{}", failure.message, holder(reach));
            return (
                vec![DoctorCheck::new(
                    "daemon",
                    CheckOutcome::Fail,
                    detail,
                    Some(fix),
                )],
                None,
            );
        }
        Err(_elapsed) => {
            let detail = format!(
                "{socket}: it takes connections and does not answer{}",
                holder(reach)
            );
            let fix = "aishctl service restart, or end it: kill -9 its process";
            return (
                vec![DoctorCheck::new(
                    "daemon",
                    CheckOutcome::Fail,
                    detail,
                    Some(fix),
                )],
                None,
            );
        }
    };
    let asked = link
        .caller
        .call_within::<Status>(Empty {}, Some(HELLO_WITHIN));
    let found = match asked.await {
        Ok(status) => running(reach, &status),
        Err(error) => DoctorCheck::new(
            "daemon",
            CheckOutcome::Fail,
            error.message,
            error.hint.as_deref(),
        ),
    };
    (vec![found], Some(link))
}

/// Why the daemon that a client started last could not begin or go on, with what it said to do, if that is the end of its log.
fn last_words(reach: &DaemonReach) -> Option<(String, Option<String>)> {
    let path = reach.around.state_directory()?.join("aishd.log");
    let mut file = File::open(path).ok()?;
    let from = file.metadata().ok()?.len().saturating_sub(LAST_WORDS_BYTES);
    file.seek(SeekFrom::Start(from)).ok()?;
    let mut end = vec![];
    file.take(LAST_WORDS_BYTES).read_to_end(&mut end).ok()?;
    let end = String::from_utf8_lossy(&end);
    let mut lines = end.lines().rev();
    let last = lines.next()?;
    let (why, hint) = match last.strip_prefix("hint: ") {
        Some(hint) => (lines.next()?, Some(hint.to_owned())),
        None => (last, None),
    };
    Some((why.strip_prefix("aishd: ")?.to_owned(), hint))
}

/// The process that holds the socket's lock, for somebody who has to end it.
fn holder(reach: &DaemonReach) -> String {
    let lock = reach.socket.with_file_name("aishd.lock");
    let pid = std::fs::read_to_string(lock).unwrap_or_default();
    match pid.trim().parse::<u32>() {
        Ok(pid) => format!(" (pid {pid})"),
        Err(_) => String::new(),
    }
}

fn running(reach: &DaemonReach, status: &StatusResult) -> DoctorCheck {
    let server = &status.server;
    let mode = |path: &Path| std::fs::symlink_metadata(path).map_or(0, |it| it.mode() & 0o777);
    let directory = reach.socket.parent().unwrap_or(Path::new("/"));
    let (socket_mode, directory_mode) = (mode(&reach.socket), mode(directory));
    let detail = format!(
        "aishd {}, pid {}, since {}, socket {socket_mode:04o} in {directory_mode:04o} {}",
        server.version,
        server.pid,
        server.started_at,
        directory.display()
    );
    if (socket_mode | directory_mode) & 0o077 != 0 {
        let fix = format!("chmod 700 {}", directory.display());
        return DoctorCheck::new("daemon", CheckOutcome::Fail, detail, Some(&fix));
    }
    if server.version != PROGRAM {
        let detail = format!("{detail}; this aishctl is {PROGRAM}");
        let fix = if reach.around.has_socket_unit() {
            "aishctl service restart"
        } else {
            "aishctl rpc daemon/shutdown; the next question starts the new one"
        };
        return DoctorCheck::new("daemon", CheckOutcome::Warn, detail, Some(fix));
    }
    DoctorCheck::new("daemon", CheckOutcome::Ok, detail, None)
}

async fn from_daemon(link: &DaemonLink) -> Vec<DoctorCheck> {
    let asked = link
        .caller
        .call_within::<Doctor>(Empty {}, Some(LOOK_WITHIN));
    match asked.await {
        Ok(result) => result.checks,
        Err(error) => {
            let hint = error.hint.as_deref();
            vec![DoctorCheck::new(
                "daemon/doctor",
                CheckOutcome::Fail,
                error.message,
                hint,
            )]
        }
    }
}

/// What a daemon would begin with, where none can be asked: one that does not start has its reason there.
async fn configuration(reach: &DaemonReach) -> Option<DoctorCheck> {
    #[derive(Deserialize)]
    struct Found {
        ok: bool,
        problems: Vec<Problem>,
    }
    #[derive(Deserialize)]
    struct Problem {
        message: String,
        file: String,
        line: Option<u32>,
    }
    let program = spawn::daemon_beside(&reach.around)?;
    let asked = Command::new(program)
        .args(["config", "check", "--json"])
        .env_clear()
        .envs(&reach.around.variables)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(HELLO_WITHIN, asked).await.ok()?.ok()?;
    let found: Found = serde_json::from_slice(&output.stdout).ok()?;
    let fix = Some("aishctl config check");
    let shown = |it: &Problem| match it.line {
        Some(line) => format!("{}:{line}: {}", it.file, it.message),
        None => format!("{}: {}", it.file, it.message),
    };
    Some(match found.problems.first() {
        None => DoctorCheck::new("config", CheckOutcome::Ok, "valid".to_owned(), None),
        Some(first) if found.ok => {
            DoctorCheck::new("config", CheckOutcome::Warn, shown(first), fix)
        }
        Some(first) => DoctorCheck::new("config", CheckOutcome::Fail, shown(first), fix),
    })
}

/// The store as it lies there, where no daemon can be asked: it may be why none starts.
async fn store(reach: &DaemonReach) -> Option<DoctorCheck> {
    let program = spawn::daemon_beside(&reach.around)?;
    let asked = Command::new(program)
        .args(["store", "look"])
        .env_clear()
        .envs(&reach.around.variables)
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(LOOK_WITHIN, asked).await.ok()?.ok()?;
    serde_json::from_slice(&output.stdout).ok()
}

/// The file with keys that the unit reads must be its owner's alone.
fn keys_for_the_service(reach: &DaemonReach) -> Option<DoctorCheck> {
    let file = reach.around.config_home()?.join("aish/env");
    let mode = std::fs::metadata(&file).ok()?.mode() & 0o7777;
    let detail = format!("{} (mode {mode:04o})", file.display());
    Some(if mode & 0o077 == 0 {
        DoctorCheck::new("keys", CheckOutcome::Ok, detail, None)
    } else {
        let fix = format!("chmod 600 {}", file.display());
        DoctorCheck::new("keys", CheckOutcome::Fail, detail, Some(&fix))
    })
}

async fn terminal(reach: &DaemonReach) -> DoctorCheck {
    let around = &reach.around;
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|it| around.variable(it))
        .unwrap_or("none");
    let term = around.variable("TERM").unwrap_or("none");
    let mut detail = format!("{term}, locale {locale}");
    if around.variable("TMUX").is_some()
        && let Some(version) = version("tmux", "-V").await
    {
        let _infallible = write!(detail, ", in {version}");
    }
    let lower = locale.to_lowercase();
    if lower.contains("utf-8") || lower.contains("utf8") {
        DoctorCheck::new("terminal", CheckOutcome::Ok, detail, None)
    } else {
        let fix = "export LANG=C.UTF-8, or the locale of your language in UTF-8";
        DoctorCheck::new("terminal", CheckOutcome::Warn, detail, Some(fix))
    }
}

/// The first line that a program says about itself.
async fn version(program: &str, argument: &str) -> Option<String> {
    let asked = Command::new(program)
        .arg(argument)
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(PROGRAM_WITHIN, asked)
        .await
        .ok()?
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().next().map(str::to_owned)
}

fn system() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|it| it.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "Linux".to_owned(), |it| it.trim_matches('"').to_owned())
}

fn text(report: &DoctorReport) -> String {
    let mut text = format!(
        "aish {} · protocol {} · {}\n",
        report.version, report.protocol, report.system
    );
    let widest = report
        .checks
        .iter()
        .map(|it| it.check.chars().count())
        .max();
    let width = widest.unwrap_or(0);
    let (mut failed, mut warned) = (0, 0);
    for check in &report.checks {
        let word = match check.outcome {
            CheckOutcome::Ok => "ok",
            CheckOutcome::Warn => {
                warned += 1;
                "warn"
            }
            CheckOutcome::Fail => {
                failed += 1;
                "fail"
            }
        };
        let _infallible = writeln!(
            text,
            " {word:<4}  {:<width$}  {}",
            check.check, check.detail
        );
        if let Some(fix) = &check.fix {
            let _infallible = writeln!(text, "{:indent$}→ {fix}", "", indent = width + 9);
        }
    }
    match (failed, warned) {
        (0, 0) => text.push_str("all is well\n"),
        (failed, warned) => {
            let _infallible = writeln!(text, "{failed} failed, {warned} warned");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_one_line_a_check_with_its_remedy_below() {
        let report = DoctorReport {
            v: 1,
            version: "1",
            protocol: 1,
            system: "Debian".to_owned(),
            checks: vec![
                DoctorCheck::new("daemon", CheckOutcome::Ok, "pid 7".to_owned(), None),
                DoctorCheck::new(
                    "model x",
                    CheckOutcome::Fail,
                    "gone".to_owned(),
                    Some("start it"),
                ),
            ],
        };
        let expected = "aish 1 · protocol 1 · Debian\n ok    daemon   pid 7\n fail  model x  gone\n                → start it\n1 failed, 0 warned\n";
        assert_eq!(expected, text(&report));
    }
}
