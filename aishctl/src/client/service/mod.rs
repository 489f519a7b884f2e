//! `service …`: aishd as a service of the user's service manager. It talks to `systemctl` and `journalctl`
//! with arguments, never through a shell, and none of them is waited for without end.

mod control;
mod drop_in;
mod install;
mod logs;
mod state;
mod takeover;
mod units;

use clap::{Args, Subcommand};

use crate::client::daemon_link::DaemonReach;
use crate::client::service::control::{SERVICE_UNIT, SOCKET_UNIT, ServiceControl, UNITS};
use crate::client::service::install::ChangedUnits;
pub use crate::client::service::logs::{LogsArgs, journal_or_tail, tail};
pub use crate::client::service::state::check;
use crate::client::service::takeover::{SocketHolder, TakeoverManner};
use crate::command_output::{CommandOutput, PrintResult};
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;

#[derive(Clone, Debug, Subcommand)]
pub enum ServiceCommand {
    /// Write the units, and let the daemon start with its first client
    Install(InstallArgs),
    /// Stop it, and remove the units that install wrote
    Uninstall {
        /// Also units that somebody has changed
        #[arg(long)]
        force: bool,
    },
    /// Start the daemon
    Start,
    /// Stop the daemon and its socket
    Stop,
    /// Stop the daemon, and start the one that is installed (after an upgrade)
    Restart,
    /// Whether it is installed and runs
    Status,
    /// What it has logged
    Logs(LogsArgs),
}

#[derive(Args, Clone, Copy, Debug)]
pub struct InstallArgs {
    /// Only show what would be written
    #[arg(long)]
    print: bool,
    /// Start the daemon at once, and not with its first client
    #[arg(long)]
    now: bool,
    /// Also replace units that somebody has changed
    #[arg(long)]
    force: bool,
}

/// Runs a command that prints once; `logs` has its own output.
pub async fn run(
    reach: &DaemonReach,
    global: &GlobalArgs,
    command: &ServiceCommand,
) -> PrintResult {
    match command {
        ServiceCommand::Install(args) => install::install(reach, *args).await,
        ServiceCommand::Uninstall { force: false } => {
            install::uninstall(reach, ChangedUnits::Kept).await
        }
        ServiceCommand::Uninstall { force: true } => {
            install::uninstall(reach, ChangedUnits::Taken).await
        }
        ServiceCommand::Start => start(reach).await,
        ServiceCommand::Stop => stop(reach).await,
        ServiceCommand::Restart => restart(reach).await,
        ServiceCommand::Status => state::status(reach, global).await,
        ServiceCommand::Logs(_) => Err(Failure::for_a_shell()),
    }
}

/// Lets the service manager start the installed service; `None` where no manager can be reached.
pub async fn begin(around: &ClientEnvironment) -> Option<Result<(), Failure>> {
    let control = ServiceControl::reach(around).await.ok()?;
    // What failed before, somebody may have repaired: each of us may try once.
    control.reset().await;
    // Returns once it is ready or has failed, which starting the socket alone would not tell.
    let started = control.run(&["start", SOCKET_UNIT, SERVICE_UNIT]).await;
    let Err(failure) = started else {
        return Some(Ok(()));
    };
    let properties = control.show(SERVICE_UNIT, "ExecMainStatus").await;
    let code = properties.get("ExecMainStatus").map(String::as_str);
    let exit = match code {
        Some("78") => Exit::CONFIG,
        Some(_) | None => Exit::NO_DAEMON,
    };
    let mut message = "the service aishd did not start".to_owned();
    for line in logs::last(&control).await {
        message.push_str("\n  ");
        message.push_str(&line);
    }
    Some(Err(Failure {
        exit,
        message,
        ..failure
    }))
}

/// The units have to be there.
fn installed(reach: &DaemonReach) -> Result<(), Failure> {
    if units::are_there(&reach.around) {
        return Ok(());
    }
    Err(
        Failure::new(Exit::NO_DAEMON, "the service is not installed")
            .hint("aishctl service install"),
    )
}

async fn start(reach: &DaemonReach) -> PrintResult {
    installed(reach)?;
    let control = ServiceControl::reach(&reach.around).await?;
    match takeover::take_over(reach, &control, TakeoverManner::IfIdle).await? {
        SocketHolder::Busy(why) => return Err(why),
        SocketHolder::Nobody | SocketHolder::Gone(_) | SocketHolder::TheService => {}
    }
    control.reset().await;
    control.run(&["start", SOCKET_UNIT, SERVICE_UNIT]).await?;
    Ok(CommandOutput::text("aishd runs\n".to_owned()))
}

async fn stop(reach: &DaemonReach) -> PrintResult {
    if !units::are_there(&reach.around) {
        return ended(reach).await;
    }
    let control = ServiceControl::reach(&reach.around).await?;
    let mut arguments = vec!["stop"];
    arguments.extend(UNITS);
    control.run(&arguments).await?;
    Ok(CommandOutput::text(
        "aishd and its socket are stopped\n".to_owned(),
    ))
}

/// Ends a daemon that a client has started.
async fn ended(reach: &DaemonReach) -> PrintResult {
    match takeover::end(reach, TakeoverManner::Now).await? {
        SocketHolder::Gone(pid) => Ok(CommandOutput::text(format!(
            "aishd {pid} ended; the next aishctl ask, or aish, starts another\n"
        ))),
        SocketHolder::Busy(_) | SocketHolder::Nobody | SocketHolder::TheService => {
            installed(reach).map(|()| CommandOutput::text(String::new()))
        }
    }
}

async fn restart(reach: &DaemonReach) -> PrintResult {
    if !units::are_there(&reach.around) {
        // Somebody who was told to restart after an upgrade need not have a service.
        return ended(reach).await;
    }
    let control = ServiceControl::reach(&reach.around).await?;
    let found = takeover::take_over(reach, &control, TakeoverManner::Now).await?;
    control.reset().await;
    // The units may have come with the new version.
    control.run(&["daemon-reload"]).await?;
    control.run(&["start", SOCKET_UNIT]).await?;
    control.run(&["restart", SERVICE_UNIT]).await?;
    let told = match found {
        SocketHolder::Gone(pid) => {
            format!("aishd {pid}, which was no service, ended; the service runs\n")
        }
        SocketHolder::Busy(_) | SocketHolder::Nobody | SocketHolder::TheService => {
            "aishd was started again\n".to_owned()
        }
    };
    Ok(CommandOutput::text(told))
}
