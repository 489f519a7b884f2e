//! The trampolines that run, and what is left of those that were killed.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, getpid, waitid, waitpid};
use tokio::sync::watch;

use super::process_tree::{self, SeenProcess};
use super::trampoline;

#[derive(Debug)]
pub(super) struct ChildTable {
    trampoline: PathBuf,
    /// Held while one is started, so that a child of ours which is not here is an orphan of a trampoline that was killed.
    running: Mutex<Vec<RunningChild>>,
    /// How many are left, orphans too.
    left: watch::Sender<usize>,
}

#[derive(Debug)]
struct RunningChild {
    trampoline: Child,
    /// What it was started for.
    provider: Option<Arc<str>>,
}

/// What the keeper has to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeeperStep {
    Rest,
    /// Orphans were killed and are not gone yet.
    LookAgain,
}

impl ChildTable {
    pub(super) fn new(trampoline: PathBuf) -> Self {
        Self {
            trampoline,
            running: Mutex::default(),
            left: watch::Sender::new(0),
        }
    }

    /// Starts a trampoline on this socket. Blocks until its program is loaded.
    pub(super) fn start(&self, control: UnixStream, provider: Option<Arc<str>>) -> io::Result<()> {
        let mut command = Command::new(&self.trampoline);
        command
            // Also what `pkill aishd` looks for: a daemon that is killed must not take its trampolines along.
            .arg0("aish-child")
            .arg(trampoline::ARGUMENT)
            .env_clear()
            .current_dir("/")
            .stdin(OwnedFd::from(control))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut running = self.running();
        running.push(RunningChild {
            trampoline: command.spawn()?,
            provider,
        });
        self.left.send_modify(|it| *it += 1);
        Ok(())
    }

    /// What the trampoline among these processes was started for.
    pub(super) fn provider_among(&self, pids: &[u32]) -> Option<Arc<str>> {
        let running = self.running();
        let mut running = running.iter();
        running
            .find(|it| pids.contains(&it.trampoline.id()))
            .and_then(|it| it.provider.clone())
    }

    pub(super) async fn empty(&self) {
        let mut left = self.left.subscribe();
        let _sender_is_ours = left.wait_for(|it| *it == 0).await;
    }

    /// The children that this process had before it started any, as after an `exec` in a script.
    pub(super) fn strangers(&self) -> Vec<SeenProcess> {
        let running = self.running();
        children_but(&running, &process_tree::all())
    }

    /// Reaps what has ended. What a killed trampoline has left is killed.
    pub(super) fn reap(&self, strangers: &[SeenProcess]) -> KeeperStep {
        let mut running = self.running();
        let mut was_killed = false;
        running.retain_mut(|it| match it.trampoline.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                was_killed |= !status.success();
                false
            }
            Err(_reaped_by_nobody_else) => false,
        });
        let look_only = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let orphan_ended = matches!(waitid(WaitId::All, look_only), Ok(Some(_)));
        let sweeping = was_killed || orphan_ended || *self.left.borrow() > running.len();
        let orphans = if sweeping {
            sweep(&running, strangers)
        } else {
            0
        };
        self.left.send_if_modified(|it| {
            let before = std::mem::replace(it, running.len() + orphans);
            before != *it
        });
        match orphans {
            0 => KeeperStep::Rest,
            _more => KeeperStep::LookAgain,
        }
    }

    fn running(&self) -> MutexGuard<'_, Vec<RunningChild>> {
        self.running.lock()
    }
}

/// Reaps the orphans that came to us, kills those that live with all below them, and says how many will need another look.
fn sweep(running: &[RunningChild], strangers: &[SeenProcess]) -> usize {
    for orphan in children_but(running, &process_tree::all()) {
        let _still_running = waitpid(Some(orphan.pid), WaitOptions::NOHANG);
    }
    let killed = process_tree::kill(|| {
        let orphans = children_but(running, &process_tree::all());
        let orphans = orphans.iter().filter(|it| !is_among(strangers, it));
        orphans
            .flat_map(|it| [vec![*it], process_tree::below(it.pid)].concat())
            .collect()
    });
    killed.ours
}

fn is_among(strangers: &[SeenProcess], one: &SeenProcess) -> bool {
    let same = |it: &SeenProcess| (it.pid, it.started) == (one.pid, one.started);
    strangers.iter().any(same)
}

/// Our children that are no trampolines.
fn children_but(running: &[RunningChild], all: &[SeenProcess]) -> Vec<SeenProcess> {
    let me = getpid().as_raw_nonzero().get();
    let is_trampoline = |pid: Pid| {
        let mut trampolines = running.iter().map(|it| Pid::from_child(&it.trampoline));
        trampolines.any(|it| it == pid)
    };
    let ours = all.iter().filter(|it| it.parent == me);
    ours.filter(|it| !is_trampoline(it.pid)).copied().collect()
}
