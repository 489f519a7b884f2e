//! A daemon that runs already but is no service: it has to go before the service can have the socket and the store.
//! The service manager would take the path of a socket that somebody serves without asking.

use std::time::Duration;

use aish_proto::daemon::{ClientKind, Shutdown, ShutdownParams, Status};
use aish_proto::error::ErrorKind;
use aish_proto::method::{ClientRole, Empty};
use rustix::process::{Pid, Signal, kill_process};
use tokio::time::Instant;

use crate::client::connect::CallFailure;
use crate::client::daemon_link::{DaemonReach, DaemonStart, DaemonWait};
use crate::client::service::control::{SERVICE_UNIT, ServiceControl};
use crate::exit::Exit;
use crate::failure::Failure;

/// A daemon ends within ten seconds.
const GONE_WITHIN: Duration = Duration::from_secs(12);
const PAUSE: Duration = Duration::from_millis(20);

/// How a running daemon is asked to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TakeoverManner {
    /// Only when nothing runs or waits.
    IfIdle,
    /// What runs gets the usual grace.
    Now,
}

/// Who had the socket.
#[derive(Debug)]
pub(super) enum SocketHolder {
    Nobody,
    /// The service itself, or its socket unit.
    TheService,
    /// A daemon with this process id, which has ended.
    Gone(u32),
    /// A daemon that has work to do.
    Busy(Failure),
}

pub(super) async fn take_over(
    reach: &DaemonReach,
    control: &ServiceControl,
    manner: TakeoverManner,
) -> Result<SocketHolder, Failure> {
    // Connecting to the socket unit would start the daemon that it belongs to.
    if control.is_active(crate::client::service::SOCKET_UNIT).await
        || control.is_active(SERVICE_UNIT).await
    {
        return Ok(SocketHolder::TheService);
    }
    end(reach, manner).await
}

/// Ends whoever serves the socket.
pub(super) async fn end(
    reach: &DaemonReach,
    manner: TakeoverManner,
) -> Result<SocketHolder, Failure> {
    let Ok(peer) = tokio::net::UnixStream::connect(&reach.socket).await else {
        return Ok(SocketHolder::Nobody);
    };
    let served_by = peer.peer_cred().ok().and_then(|it| it.pid());
    drop(peer);
    let reach = DaemonReach {
        start: DaemonStart::Forbidden,
        kind: ClientKind::Ctl,
        role: ClientRole::Driver,
        ..reach.clone()
    };
    let link = match reach.open(DaemonWait::No).await {
        Ok(link) => link,
        // It does not understand us, or does not answer: a signal is understood by every version.
        Err(failure) => return terminate(served_by, manner).await.ok_or(failure)?,
    };
    let pid = link.caller.call::<Status>(Empty {}).await?.server.pid;
    let params = ShutdownParams {
        if_idle: manner == TakeoverManner::IfIdle,
        deadline_ms: None,
    };
    if let Err(error) = link.caller.call::<Shutdown>(params).await {
        if error.kind != CallFailure::Refused(ErrorKind::Busy) {
            return Err(error.into());
        }
        let message = format!(
            "aishd (pid {pid}) runs already, is no service, and has work to do: {}",
            error.message
        );
        return Ok(SocketHolder::Busy(
            Failure::new(Exit::FAILED, message).hint(
                "aishctl service start once it is idle, or aishctl service restart to end it now",
            ),
        ));
    }
    drop(link);
    wait_gone(pid).await?;
    Ok(SocketHolder::Gone(pid))
}

/// Asks the process to end that serves the socket; `None` where it must not or cannot be asked.
async fn terminate(
    served_by: Option<i32>,
    manner: TakeoverManner,
) -> Option<Result<SocketHolder, Failure>> {
    let pid = Pid::from_raw(served_by?).filter(|_| manner == TakeoverManner::Now)?;
    kill_process(pid, Signal::TERM).ok()?;
    let pid = pid.as_raw_nonzero().get().unsigned_abs();
    Some(wait_gone(pid).await.map(|()| SocketHolder::Gone(pid)))
}

/// Waits for the end of the process: only then is the store free.
async fn wait_gone(pid: u32) -> Result<(), Failure> {
    let give_up = Instant::now() + GONE_WITHIN;
    while is_alive(pid) {
        if Instant::now() > give_up {
            let message = format!("aishd (pid {pid}) was asked to end and is still there");
            return Err(Failure::new(Exit::FAILED, message).hint(format!("kill {pid}")));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// A process that nobody has buried yet holds nothing any more.
fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.is_ok_and(|it| !it.contains(") Z "))
}
