//! A sealed world: a home, the XDG directories and an environment of its own, and nothing of the person who runs
//! the tests. It ends with the test, and every process that was started in it ends too.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use aish_proto::place::{SOCKET_NAME, SOCKET_PATH_BYTES};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::built::built;
use crate::client::Client;
use crate::daemon::DaemonBuilder;
use crate::process::{Run, Running, wait_gone};
use crate::upstream::Upstream;
use crate::{panics, signals, surroundings};

/// No server is looked for on the machine: what a developer has running must not answer a test.
const NO_DISCOVERY: &str = "\n[discovery]\nservers = []\n";

/// The machine's file: a model goes on with what its commands printed, and has tools for commands and files, where a test is about
/// that.
const MACHINE: &str = "[shell]\nfeed_back = false\ntool = false\n\n[tools]\nfiles = false\ntodo = false\nweb = false\n";

/// The end of the daemon's log that a failing test shows.
const LOG_SHOWN_BYTES: usize = 8 << 10;

/// A temporary directory with everything that aish reads and writes.
#[derive(Debug)]
pub struct World {
    root: TempDir,
}

impl World {
    /// A world with a configuration that names no model and looks for none, so that the demo answers.
    #[track_caller]
    pub fn new() -> Self {
        signals::as_at_a_prompt();
        // Not TMPDIR: it may be too long for the path of a socket.
        let root = tempfile::Builder::new()
            .prefix("a-")
            .tempdir_in("/tmp")
            .expect("/tmp takes a new directory");
        let world = Self { root };
        for folder in ["home", "run", "state", "config", "data", "work"] {
            let path = world.path(folder);
            fs::create_dir(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        }
        let socket = world.socket();
        assert!(
            socket.as_os_str().len() <= SOCKET_PATH_BYTES,
            "no socket fits in {}",
            socket.display()
        );
        world.write("machine/aish/config.toml", MACHINE);
        world.write_config("");
        world
    }

    /// A world whose one preset, `test`, is this upstream.
    #[track_caller]
    pub fn with(upstream: &Upstream) -> Self {
        let world = Self::new();
        world.write_config(&upstream.config("test"));
        world
    }

    /// A path below the top of the world.
    pub fn path(&self, below: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(below)
    }

    /// An empty directory to work in; where programs start when nothing else is said.
    pub fn work(&self) -> PathBuf {
        self.path("work")
    }

    pub fn socket(&self) -> PathBuf {
        self.path("run/aish").join(SOCKET_NAME)
    }

    /// Where aish keeps what must last.
    pub fn state(&self) -> PathBuf {
        self.path("state/aish")
    }

    pub fn config_file(&self) -> PathBuf {
        self.path("config/aish/config.toml")
    }

    /// Replaces the configuration. Text that says nothing of discovery gets a `[discovery]` that looks nowhere.
    #[track_caller]
    pub fn write_config(&self, text: &str) {
        let discovery = if text.contains("[discovery]") {
            ""
        } else {
            NO_DISCOVERY
        };
        self.write("config/aish/config.toml", &format!("{text}{discovery}"));
    }

    /// Puts a file there whole that only its owner can read, and the folders to it: nobody sees half of it.
    #[track_caller]
    pub fn write(&self, below: impl AsRef<Path>, text: &str) {
        let path = self.path(below);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).unwrap();
        let new = path.with_extension("new");
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&new)
            .unwrap_or_else(|error| panic!("write {}: {error}", new.display()));
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        fs::rename(&new, &path).unwrap();
    }

    /// All that a program of this world finds in its environment.
    pub fn env(&self) -> Vec<(OsString, OsString)> {
        let places = [
            ("HOME", "home"),
            ("XDG_RUNTIME_DIR", "run"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_DATA_HOME", "data"),
            ("XDG_CONFIG_DIRS", "machine"),
        ];
        let plain = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin"),
            ("LANG", "C.UTF-8"),
            ("TERM", "dumb"),
            ("SHELL", "/bin/sh"),
        ];
        let places = places.map(|(name, folder)| (name.into(), self.path(folder).into()));
        let plain = plain.map(|(name, value)| (name.into(), value.into()));
        let clock = surroundings::clock_and_zone();
        places.into_iter().chain(plain).chain(clock).collect()
    }

    /// A daemon, the one that cargo built beside this test.
    pub fn daemon(&self) -> DaemonBuilder<'_> {
        DaemonBuilder::new(self)
    }

    /// `aishctl` with these arguments, not yet started. The daemon that it may start is there too.
    #[track_caller]
    pub fn ctl(&self, args: &[&str]) -> Run {
        let _daemon = built("aishd");
        self.program(&built("aishctl"), args)
    }

    /// `aishctl`, started.
    #[track_caller]
    pub fn ctl_spawn(&self, args: &[&str]) -> Running {
        self.ctl(args).spawn()
    }

    /// Any program in this world.
    pub fn program(&self, program: &Path, args: &[&str]) -> Run {
        Run::new(program, args, &self.env(), &self.work())
    }

    /// A raw client that has said hello as a driver.
    #[track_caller]
    pub fn client(&self) -> Client {
        let client = Client::connect(&self.socket());
        client.hello();
        client
    }

    /// A raw client of a person at this terminal.
    #[track_caller]
    pub fn person(&self, tty: &str) -> Client {
        let client = Client::connect(&self.socket());
        client.hello_at(tty);
        client
    }

    /// A raw client that has said nothing yet.
    #[track_caller]
    pub fn stranger(&self) -> Client {
        Client::connect(&self.socket())
    }

    /// What all daemons of this world have logged.
    pub fn log_text(&self) -> String {
        let bytes = fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What a daemon that a client has started has logged.
    fn started_log_text(&self) -> String {
        let bytes = fs::read(self.state().join("aishd.log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.path("aishd.log")
    }

    /// The daemons of this world that run, whoever started them.
    pub fn daemon_pids(&self) -> Vec<u32> {
        let mut pids = self.pids(|name| name == "aishd");
        pids.extend(self.pid_in_lock());
        pids.sort_unstable();
        pids.dedup();
        pids
    }

    /// The processes of this name that have this world in their environment.
    pub fn running(&self, name: &str) -> Vec<u32> {
        self.pids(|it| it == name)
    }

    /// The process that the lock of the store names, if it is an `aishd` that runs. It is found also when the
    /// daemon hides its environment from others.
    fn pid_in_lock(&self) -> Option<u32> {
        [
            "state/aish/store/lock",
            "state/aish/lock",
            "run/aish/aishd.lock",
        ]
        .iter()
        .filter_map(|it| fs::read_to_string(self.path(it)).ok())
        .filter_map(|it| it.split_whitespace().next()?.parse().ok())
        .find(|pid| name_of(*pid).is_some_and(|it| it == "aishd"))
    }

    /// Processes that have this world in their environment and a name that is wanted.
    fn pids(&self, wanted: impl Fn(&str) -> bool) -> Vec<u32> {
        let root = self.root.path().as_os_str();
        let Ok(processes) = fs::read_dir("/proc") else {
            return vec![];
        };
        processes
            .filter_map(|it| it.ok()?.file_name().to_str()?.parse().ok())
            .filter(|pid| name_of(*pid).is_some_and(|it| wanted(&it)))
            .filter(|pid| {
                let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                contains(&environ, root)
            })
            .collect()
    }
}

fn name_of(pid: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

fn contains(environ: &[u8], root: &OsStr) -> bool {
    let root = root.as_encoded_bytes();
    environ.windows(root.len()).any(|it| it == root)
}

impl Default for World {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            show_end_of(&self.log_text());
        }
        let logs = [self.log_text(), self.started_log_text()];
        let mut left = self.pids(|_any| true);
        left.extend(self.pid_in_lock());
        for pid in left {
            let id = i32::try_from(pid).ok().and_then(Pid::from_raw);
            let killed = id.map(|it| kill_process(it, Signal::KILL));
            if killed == Some(Ok(())) && !std::thread::panicking() {
                wait_gone(pid);
            }
        }
        for log in logs {
            panics::refuse_in("the daemon's log", &log);
        }
    }
}

#[expect(
    clippy::print_stderr,
    reason = "the runner shows it when the test fails"
)]
fn show_end_of(log: &str) {
    if !log.is_empty() {
        let from = log.ceil_char_boundary(log.len().saturating_sub(LOG_SHOWN_BYTES));
        eprintln!("--- end of the daemon's log\n{}\n---", &log[from..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_this_world_and_nothing_else() {
        let world = World::new();
        let finished = world.program(Path::new("/usr/bin/env"), &[]).run().ok();
        let root = world.path("");
        let clock = surroundings::clock_and_zone();
        // What moves the clock tells its own children where its memory is.
        let lines = || {
            finished
                .out()
                .lines()
                .filter(|it| !it.starts_with("FAKETIME_SHARED="))
        };
        for line in lines() {
            let (name, value) = line.split_once('=').unwrap();
            let ours = Path::new(value).starts_with(&root);
            let plain = ["PATH", "LANG", "TERM", "SHELL"].contains(&name);
            let clock = clock.iter().any(|(it, _)| it == name);
            assert!(ours || plain || clock, "{line}");
        }
        assert_eq!(10 + clock.len(), lines().count());
    }

    #[test]
    fn what_was_left_running_ends_with_the_world() {
        let world = World::new();
        let script = "sleep 600 >/dev/null 2>&1 </dev/null & echo $!";
        let finished = world.program(Path::new("/bin/sh"), &["-c", script]).run();
        let pid: u32 = finished.ok().out().trim().parse().unwrap();
        assert_eq!(Some("sleep"), name_of(pid).as_deref());
        drop(world);
        wait_gone(pid);
    }

    #[test]
    fn a_configuration_never_looks_for_servers_by_accident() {
        let world = World::new();
        world.write_config("default_model = \"x\"\n");
        let text = fs::read_to_string(world.config_file()).unwrap();
        assert_eq!("default_model = \"x\"\n\n[discovery]\nservers = []\n", text);
        world.write_config("[discovery]\nservers = [\"http://127.0.0.1:9\"]\n");
        let text = fs::read_to_string(world.config_file()).unwrap();
        assert_eq!(1, text.matches("[discovery]").count());
    }
}
