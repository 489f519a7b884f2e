//! `service status`: what is installed and what runs, as the service manager sees it.

use std::path::Path;

use aish_proto::doctor::{Check, Outcome};
use aish_proto::version::PROGRAM;
use serde::Serialize;

use super::control::{Control, SERVICE_UNIT, SOCKET_UNIT, UNITS};
use super::units::{self, Lies};
use crate::args::Global;
use crate::desk::{self, Printed};
use crate::doctor;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::hello::Reach;
use crate::surroundings::Surroundings;

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
pub(super) fn lingers(around: &Surroundings) -> Option<bool> {
    let user = around.variable("USER").or(around.variable("LOGNAME"))?;
    if user.contains('/') || !Path::new("/run/systemd/seats").exists() {
        return None;
    }
    Some(Path::new(LINGER).join(user).exists())
}

const LINGERING_OFF: &str = "lingering is off: it stops when you log out";

/// What `doctor` says of the service.
pub async fn check(around: &Surroundings) -> Check {
    let check = |outcome, detail: String, fix| doctor::check("service", outcome, detail, fix);
    let control = match Control::reach(around).await {
        Ok(control) => control,
        Err(failure) => return check(Outcome::Ok, failure.message, None),
    };
    if !units::are_there(around) {
        let detail = "not installed; aishctl starts aishd by itself, and it ends with the machine";
        return check(Outcome::Ok, detail.to_owned(), None);
    }
    for unit in UNITS {
        let state = control.show(unit, "ActiveState,Result").await;
        if state.get("ActiveState").is_some_and(|it| it == "failed") {
            let why = state.get("Result").map(String::as_str).unwrap_or_default();
            let detail = format!("{unit} failed ({why})");
            return check(Outcome::Fail, detail, Some("aishctl service logs -n 20"));
        }
    }
    let old = units::wanted(around)
        .is_ok_and(|units| units.iter().any(|it| matches!(it.lies(), Ok(Lies::Ours))));
    if old {
        let detail = "installed by another version, or for a program elsewhere".to_owned();
        return check(Outcome::Warn, detail, Some("aishctl service install"));
    }
    if lingers(around) == Some(false) {
        let detail = format!("installed, but {LINGERING_OFF}");
        return check(Outcome::Warn, detail, Some("loginctl enable-linger"));
    }
    check(Outcome::Ok, "installed".to_owned(), None)
}

pub(super) async fn status(reach: &Reach, global: &Global) -> Result<Printed, Failure> {
    let control = Control::reach(&reach.around).await?;
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
    let printed = desk::print(global, &status, || shown(&status))?;
    Ok(Printed { exit, ..printed })
}

fn shown(status: &ServiceStatus) -> String {
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
