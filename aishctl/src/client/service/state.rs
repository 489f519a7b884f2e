//! `service status`: what is installed and what runs, as the service manager sees it.

use std::path::Path;

use aish_proto::doctor::{CheckOutcome, DoctorCheck};
use aish_proto::version::PROGRAM;
use serde::Serialize;

use crate::client::daemon_link::DaemonReach;
use crate::client::service::control::{SERVICE_UNIT, SOCKET_UNIT, ServiceControl, UNITS};
use crate::client::service::units::{self, InstalledUnit};
use crate::command_output::{CommandOutput, PrintResult, print};
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::global_args::GlobalArgs;

/// Where logind notes whom it lets stay.
const LINGER: &str = "/var/lib/systemd/linger";

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ServiceStatus {
    installed: bool,
    enabled: bool,
    /// The socket listens, so that a client starts the daemon.
    listening: bool,
    running: bool,
    /// As the service manager says it: `active (running)`, `failed (exit-code)`.
    state: String,
    pid: Option<u32>,
    since: Option<String>,
    status: Option<String>,
    restarts: u32,
    lingers: Option<bool>,
    client_version: &'static str,
}

/// Whether the user's services go on without a session; `None` where nobody can say.
pub(super) fn lingers(around: &ClientEnvironment) -> Option<bool> {
    let user = around.variable("USER").or(around.variable("LOGNAME"))?;
    if user.contains('/') || !Path::new("/run/systemd/seats").exists() {
        return None;
    }
    Some(Path::new(LINGER).join(user).exists())
}

const LINGERING_OFF: &str = "lingering is off: it stops when you log out";

/// What `doctor` says of the service.
pub async fn check(around: &ClientEnvironment) -> DoctorCheck {
    let check = |outcome, detail: String, fix| DoctorCheck::new("service", outcome, detail, fix);
    let control = match ServiceControl::reach(around).await {
        Ok(control) => control,
        Err(failure) => return check(CheckOutcome::Ok, failure.message, None),
    };
    if !units::are_there(around) {
        let detail = "not installed; aishctl starts aishd by itself, and it ends with the machine";
        return check(CheckOutcome::Ok, detail.to_owned(), None);
    }
    for unit in UNITS {
        let state = control.show(unit, "ActiveState,Result").await;
        if state.get("ActiveState").is_some_and(|it| it == "failed") {
            let why = state.get("Result").map(String::as_str).unwrap_or_default();
            let detail = format!("{unit} failed ({why})");
            return check(
                CheckOutcome::Fail,
                detail,
                Some("aishctl service logs -n 20"),
            );
        }
    }
    let old = units::planned_units(around).is_ok_and(|units| {
        units
            .iter()
            .any(|it| matches!(it.installed(), Ok(InstalledUnit::Ours)))
    });
    if old {
        let detail = "installed by another version, or for a program elsewhere".to_owned();
        return check(CheckOutcome::Warn, detail, Some("aishctl service install"));
    }
    if lingers(around) == Some(false) {
        let detail = format!("installed, but {LINGERING_OFF}");
        return check(CheckOutcome::Warn, detail, Some("loginctl enable-linger"));
    }
    check(CheckOutcome::Ok, "installed".to_owned(), None)
}

pub(super) async fn status(reach: &DaemonReach, global: &GlobalArgs) -> PrintResult {
    let control = ServiceControl::reach(&reach.around).await?;
    let service = control
        .show(
            SERVICE_UNIT,
            "ActiveState,SubState,Result,MainPID,StatusText,NRestarts,ActiveEnterTimestamp",
        )
        .await;
    let socket = control.show(SOCKET_UNIT, "ActiveState,UnitFileState").await;
    let said = |name: &str| service.get(name).map(String::as_str).unwrap_or_default();
    let some = |text: &str| Some(text.to_owned()).filter(|it| !it.is_empty());
    let active = said("ActiveState");
    let detail = if active == "failed" {
        said("Result")
    } else {
        said("SubState")
    };
    let status = ServiceStatus {
        installed: units::are_there(&reach.around),
        enabled: socket
            .get("UnitFileState")
            .is_some_and(|it| it == "enabled"),
        listening: socket.get("ActiveState").is_some_and(|it| it == "active"),
        running: matches!(active, "active" | "reloading"),
        state: format!("{active} ({detail})"),
        pid: said("MainPID").parse().ok().filter(|it| *it != 0),
        since: some(said("ActiveEnterTimestamp")).filter(|_| active == "active"),
        status: some(said("StatusText")),
        restarts: said("NRestarts").parse().unwrap_or(0),
        lingers: lingers(&reach.around),
        client_version: PROGRAM,
    };
    let exit = if status.running || status.listening {
        Exit::DONE
    } else {
        Exit::NO_DAEMON
    };
    let printed = print(global, &status, || render(&status))?;
    Ok(CommandOutput { exit, ..printed })
}

fn render(status: &ServiceStatus) -> String {
    let mut text = format!("aishd.service  {}", status.state);
    if let Some(pid) = status.pid {
        text.push_str(&format!(" · pid {pid}"));
    }
    if let Some(since) = &status.since {
        text.push_str(&format!(" · since {since}"));
    }
    if status.restarts > 0 {
        text.push_str(&format!(" · started again {} times", status.restarts));
    }
    if let Some(said) = &status.status {
        text.push_str(&format!("\n               {said}"));
    }
    let socket = match (status.installed, status.listening, status.enabled) {
        (false, false, _) => "not installed: aishctl service install",
        (_, true, true) => "listens, and does so after every login",
        (_, true, false) => "listens; not enabled: aishctl service install",
        (true, false, true) => "does not listen: aishctl service start",
        (true, false, false) => "does not listen and is not enabled: aishctl service install",
    };
    text.push_str(&format!("\naishd.socket   {socket}\n"));
    if status.lingers == Some(false) {
        text.push_str(&format!(
            "note           {LINGERING_OFF}: loginctl enable-linger\n"
        ));
    }
    text
}
