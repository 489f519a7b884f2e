//! A daemon under test: the real program, in the foreground, as a child of the test.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::BufReader;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};

use crate::built::built;
use crate::process::{code_of, copy_until, pid_of};
use crate::wait::{PATIENCE, until};
use crate::world::World;

/// A daemon that has not been started yet.
#[derive(Debug)]
#[must_use = "no daemon runs before `spawn`"]
pub struct DaemonBuilder<'a> {
    world: &'a World,
    binary: Option<PathBuf>,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    activation: Option<UnixListener>,
    stderr: Option<OwnedFd>,
}

impl<'a> DaemonBuilder<'a> {
    pub(crate) fn new(world: &'a World) -> Self {
        Self {
            world,
            binary: None,
            args: vec!["--foreground".into()],
            env: world.env(),
            activation: None,
            stderr: None,
        }
    }

    /// This program and not the one beside the test: `env!("CARGO_BIN_EXE_aishd")`.
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Arms a failpoint: `turn.before_commit=kill@2`.
    pub fn failpoint(self, text: &str) -> Self {
        self.env("AISH_FAILPOINT", text)
    }

    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    /// Lets it log there and not into the world's log.
    pub fn log_into(mut self, stderr: impl Into<OwnedFd>) -> Self {
        self.stderr = Some(stderr.into());
        self
    }

    /// Hands it this socket, as the service manager does.
    pub fn activated(mut self, listener: UnixListener) -> Self {
        self.activation = Some(listener);
        self
    }

    /// The program and its arguments; with a socket to hand over, behind a shell that gives it the number 3.
    fn command(&mut self) -> Command {
        let binary = self.binary.take().unwrap_or_else(|| built("aishd"));
        let Some(listener) = self.activation.take() else {
            let mut command = Command::new(binary);
            command.args(&self.args).stdin(Stdio::null());
            return command;
        };
        let hand_over = "exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$@\"";
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", hand_over])
            .arg(binary)
            .args(&self.args)
            .stdin(OwnedFd::from(listener));
        command
    }

    /// Starts it and waits for its `ready` line; fails the test, with the log, when none comes.
    #[track_caller]
    pub fn spawn(self) -> Daemon {
        self.spawn_or_exit()
            .unwrap_or_else(|code| panic!("aishd ended with {code} before it was ready"))
    }

    /// As [`DaemonBuilder::spawn`], where the daemon may end instead: then its exit code, as a shell has it.
    #[track_caller]
    pub fn spawn_or_exit(mut self) -> Result<Daemon, i32> {
        let log = self.world.log_file();
        let open = || {
            File::options()
                .create(true)
                .append(true)
                .open(&log)
                .expect("the world takes a log")
        };
        let started = Instant::now();
        let stderr = self
            .stderr
            .take()
            .map_or_else(|| open().into(), Stdio::from);
        let mut child = self
            .command()
            .env_clear()
            .envs(self.env)
            .current_dir("/")
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap_or_else(|error| panic!("start aishd: {error}"));
        let mut stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, receiver) = channel();
        let mut copy = open();
        thread::spawn(move || {
            let ready = copy_until(&mut stdout, &mut copy, is_ready);
            if sender.send(ready).is_ok() {
                copy_until(&mut stdout, &mut copy, |_line| false);
            }
        });
        let mut daemon = Daemon {
            child,
            log: self.world.log_file(),
            socket: self.world.socket(),
            ready_after: Duration::ZERO,
            ended: None,
        };
        match receiver.recv_timeout(PATIENCE) {
            Ok(Some(_ready)) => {
                daemon.ready_after = started.elapsed();
                Ok(daemon)
            }
            Ok(None) => Err(daemon.wait_exit()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                panic!(
                    "aishd printed no `ready` line on stdout in {PATIENCE:?}; its log:\n{}",
                    daemon.log_text()
                )
            }
        }
    }
}

fn is_ready(line: &str) -> bool {
    line.split_whitespace().next() == Some("ready")
}

/// A daemon that is ready. Dropped, it is killed.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    log: PathBuf,
    socket: PathBuf,
    ready_after: Duration,
    ended: Option<i32>,
}

impl Daemon {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// From the start of the process to its `ready` line.
    pub fn ready_after(&self) -> Duration {
        self.ready_after
    }

    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(pid_of(&self.child), signal)
            .unwrap_or_else(|error| panic!("send {signal:?} to aishd: {error}"));
    }

    /// As a power cut for the process: it has no time for anything. Returns when it is gone.
    #[track_caller]
    pub fn kill9(mut self) {
        if self.ended.is_none() {
            self.signal(Signal::KILL);
            self.wait_exit();
        }
    }

    /// Asks it to end (SIGTERM) and returns its exit code.
    #[track_caller]
    pub fn terminate(mut self) -> i32 {
        self.signal(Signal::TERM);
        self.wait_exit()
    }

    /// Waits until it ends, a failpoint being the usual cause, and returns its exit code as a shell has it.
    #[track_caller]
    pub fn wait_exit(&mut self) -> i32 {
        let code = match self.ended {
            Some(code) => code,
            None => until("the end of aishd", PATIENCE, || {
                self.child.try_wait().expect("it is our child").map(code_of)
            }),
        };
        self.ended = Some(code);
        code
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        let status = self.child.try_wait().expect("it is our child");
        self.ended = self.ended.or(status.map(code_of));
        self.ended.is_none()
    }

    /// Memory in use now, in KiB.
    pub fn rss_kib(&self) -> u64 {
        self.number_in_status("VmRSS:")
    }

    /// The most memory it ever had in use, in KiB.
    pub fn peak_rss_kib(&self) -> u64 {
        self.number_in_status("VmHWM:")
    }

    pub fn threads(&self) -> u64 {
        self.number_in_status("Threads:")
    }

    pub fn open_fds(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.pid());
        fs::read_dir(&folder)
            .unwrap_or_else(|error| panic!("list {folder}: {error}"))
            .count()
    }

    pub fn log_text(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn number_in_status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))
            .unwrap_or_else(|error| panic!("look at aishd: {error}"));
        status
            .lines()
            .find_map(|it| {
                it.strip_prefix(name)?
                    .split_whitespace()
                    .next()?
                    .parse()
                    .ok()
            })
            .unwrap_or_else(|| panic!("the kernel says nothing of {name} about aishd"))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if self.ended.is_none() {
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stand-in: what the kit must cope with, said by a shell.
    fn stand_in(world: &World, script: &str) -> PathBuf {
        world.write("aishd.sh", &format!("#!/bin/sh\n{script}\n"));
        let path = world.path("aishd.sh");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        fs::set_permissions(&path, mode).unwrap();
        path
    }

    #[test]
    fn one_that_says_ready_is_there() {
        let world = World::new();
        let script = "echo hello >&2; echo ready $AISH_FAILPOINT; exec sleep 60";
        let program = stand_in(&world, script);
        let mut daemon = world
            .daemon()
            .binary(program)
            .failpoint("a.b=kill@2")
            .spawn();
        assert!(daemon.is_running());
        assert!(daemon.rss_kib() > 0 && daemon.open_fds() >= 3);
        assert_eq!("hello\nready a.b=kill@2\n", daemon.log_text());
        assert_eq!(143, daemon.terminate());
    }

    #[test]
    fn one_that_ends_first_gives_its_code() {
        let world = World::new();
        let program = stand_in(&world, "echo not ready; exit 75");
        let ended = world.daemon().binary(program).spawn_or_exit();
        assert_eq!(75, ended.err().unwrap());
    }

    #[test]
    fn dropped_it_is_gone() {
        let world = World::new();
        let program = stand_in(&world, "echo ready; exec sleep 60");
        let daemon = world.daemon().binary(program).spawn();
        let pid = daemon.pid();
        drop(daemon);
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
