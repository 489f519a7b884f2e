//! Starting the daemon when none runs: once, however many clients want it at the same moment.

use std::ffi::OsStr;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aish_proto::network;
use rustix::fs::{FlockOperation, flock};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::time::Instant;

use crate::client::service;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;

/// What aishd prints on stdout once it serves.
const READY: &[u8] = b"ready\n";
/// A store that must be repaired first may take a while.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// How long a daemon that serves no more may take to let go of its store.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// How aishd exits when another one has the store or the socket.
const TAKEN: i32 = 75;
const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// How much of the log's end is shown after a failed start.
const LOG_LINES: usize = 5;
const LOG_TAIL_BYTES: usize = 16 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpawnOutcome {
    ByUs,
    /// Another client or the service manager did it.
    Elsewhere,
}

/// Returns once a daemon serves at `socket`, or says why none does.
pub async fn start(around: &ClientEnvironment, socket: &Path) -> Result<SpawnOutcome, Failure> {
    let directory = socket.parent().unwrap_or(Path::new("/"));
    own_directory(directory, around.uid)?;
    let lock = open_private(&directory.join("aishd.start")).map_err(|error| {
        cannot(
            &format!("open the start lock in {}", directory.display()),
            &error,
        )
    })?;
    let give_up = Instant::now() + READY_WITHIN;
    while let Err(error) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
        if error != rustix::io::Errno::WOULDBLOCK {
            return Err(cannot("take the start lock", &error.into()));
        }
        if Instant::now() > give_up {
            return Err(Failure::new(
                Exit::NO_DAEMON,
                "another client has been starting aishd for too long",
            )
            .hint("aishd --foreground shows why it does not start"));
        }
        tokio::time::sleep(LOCK_PAUSE).await;
        if serves(socket).await {
            return Ok(SpawnOutcome::Elsewhere);
        }
    }
    // Whoever held the lock before us may have started it.
    if serves(socket).await {
        return Ok(SpawnOutcome::Elsewhere);
    }
    if around.has_socket_unit()
        && let Some(begun) = service::begin(around).await
    {
        return begun.map(|()| SpawnOutcome::Elsewhere);
    }
    let give_up = Instant::now() + GONE_WITHIN;
    loop {
        match run_beside_us(around).await {
            Ok(()) => return Ok(SpawnOutcome::ByUs),
            // The last one is on its way out: its socket is closed, its locks are not free yet.
            Err(NotStarted {
                code: Some(TAKEN), ..
            }) if Instant::now() < give_up => tokio::time::sleep(LOCK_PAUSE).await,
            Err(NotStarted { failure, .. }) => return Err(failure),
        }
        if serves(socket).await {
            return Ok(SpawnOutcome::Elsewhere);
        }
    }
}

/// A daemon that did not start, and its exit code if there is one.
struct NotStarted {
    code: Option<i32>,
    failure: Failure,
}

impl From<Failure> for NotStarted {
    fn from(failure: Failure) -> Self {
        Self {
            code: None,
            failure,
        }
    }
}

async fn serves(socket: &Path) -> bool {
    tokio::net::UnixStream::connect(socket).await.is_ok()
}

/// The directory of the socket, made 0700; refused when it is another's or open to others.
fn own_directory(directory: &Path, uid: u32) -> Result<(), Failure> {
    let made = DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory);
    made.map_err(|error| cannot(&format!("make {}", directory.display()), &error))?;
    let about = std::fs::symlink_metadata(directory)
        .map_err(|error| cannot(&format!("look at {}", directory.display()), &error))?;
    let place = directory.display();
    if !about.is_dir() || about.uid() != uid {
        return Err(Failure::new(
            Exit::NO_DAEMON,
            format!("{place} is not a directory of yours"),
        )
        .hint("set XDG_RUNTIME_DIR, or AISH_SOCKET to a place in a directory of yours"));
    }
    if about.mode() & 0o077 != 0 {
        return Err(Failure::new(
            Exit::NO_DAEMON,
            format!(
                "{place} is open to others (mode {:o})",
                about.mode() & 0o777
            ),
        )
        .hint(format!("chmod 700 {place}")));
    }
    Ok(())
}

fn open_private(path: &Path) -> io::Result<File> {
    let no_follow = rustix::fs::OFlags::NOFOLLOW.bits();
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .custom_flags(i32::try_from(no_follow).unwrap_or_default())
        .open(path)
}

/// The daemon's program, beside our own.
pub fn daemon_beside(around: &ClientEnvironment) -> Option<PathBuf> {
    let beside = around.program.as_ref()?.parent()?.join("aishd");
    beside.is_file().then_some(beside)
}

async fn run_beside_us(around: &ClientEnvironment) -> Result<(), NotStarted> {
    let daemon = daemon_beside(around).ok_or_else(|| {
        Failure::new(
            Exit::NO_DAEMON,
            "aishd does not run, and there is none beside aishctl to start",
        )
        .hint(".ci/dist of a checkout builds both; or start aishd yourself")
    })?;
    let (log_path, log) = open_log(around)?;
    let before = log.metadata().map_or(0, |it| it.len());
    // A leader of a process group could not leave our session, and a hangup of our terminal would reach it.
    let mut child = Command::new(&daemon)
        .arg("--detach")
        .current_dir("/")
        .env_clear()
        .envs(
            around
                .variables
                .iter()
                .filter(|(name, _)| is_passed_on(name)),
        )
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .map_err(|error| cannot(&format!("start {}", daemon.display()), &error))?;
    if is_ready(&mut child).await {
        return Ok(());
    }
    let code = child.try_wait().ok().flatten().and_then(|it| it.code());
    let exit = match code {
        Some(78) => Exit::CONFIG,
        _ => Exit::NO_DAEMON,
    };
    let mut message = "aishd did not start".to_owned();
    for line in last_lines(&log_path, before) {
        message.push_str("\n  ");
        message.push_str(&line);
    }
    let failure = Failure::new(exit, message).hint(format!("its log is {}", log_path.display()));
    Err(NotStarted { code, failure })
}

/// True when aishd printed `ready`; false at EOF without it, or when it takes too long.
async fn is_ready(child: &mut Child) -> bool {
    let Some(stdout) = child.stdout.take() else {
        return false;
    };
    let Ok(mut stdout) = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout)) else {
        return false;
    };
    let mut said = Vec::new();
    let reading = async {
        loop {
            if said.ends_with(READY) {
                return true;
            }
            if !matches!(stdout.read_buf(&mut said).await, Ok(1..)) || said.len() > 4096 {
                return false;
            }
        }
    };
    let ready = tokio::time::timeout(READY_WITHIN, reading)
        .await
        .unwrap_or(false);
    if !ready {
        // EOF comes a moment before the exit status does.
        for _ in 0..25 {
            if !matches!(child.try_wait(), Ok(None)) {
                break;
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
    }
    ready
}

fn open_log(around: &ClientEnvironment) -> Result<(PathBuf, File), Failure> {
    let state = around.state_directory().ok_or_else(|| {
        Failure::new(Exit::NO_DAEMON, "cannot start aishd without a home")
            .hint("set HOME or XDG_STATE_HOME")
    })?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&state);
    made.map_err(|error| cannot(&format!("make {}", state.display()), &error))?;
    let path = state.join("aishd.log");
    let file =
        open_private(&path).map_err(|error| cannot(&format!("open {}", path.display()), &error))?;
    Ok((path, file))
}

/// Variables that a daemon of this user needs, whoever starts it first; keys are lent at hello instead.
fn is_passed_on(name: &OsStr) -> bool {
    const NAMES: [&str; 8] = [
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR",
    ];
    const PREFIXES: [&str; 3] = ["LC_", "XDG_", "AISH_"];
    name.to_str().is_some_and(|name| {
        NAMES.contains(&name)
            || network::is_network(name)
            || PREFIXES.iter().any(|it| name.starts_with(it))
    })
}

/// The end of what was written to the log after `before`.
fn last_lines(log: &Path, before: u64) -> Vec<String> {
    let bytes = std::fs::read(log).unwrap_or_default();
    let new = bytes
        .get(usize::try_from(before).unwrap_or(0)..)
        .unwrap_or_default();
    let tail = new
        .get(new.len().saturating_sub(LOG_TAIL_BYTES)..)
        .unwrap_or_default();
    let text = String::from_utf8_lossy(tail);
    let lines: Vec<&str> = text.lines().filter(|it| !it.trim().is_empty()).collect();
    let from = lines.len().saturating_sub(LOG_LINES);
    lines.iter().skip(from).map(|it| (*it).to_owned()).collect()
}

fn cannot(what: &str, error: &io::Error) -> Failure {
    Failure::new(Exit::NO_DAEMON, format!("cannot {what}: {error}"))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct World {
        directory: tempfile::TempDir,
        around: ClientEnvironment,
        socket: PathBuf,
    }

    /// A world whose `aishd` is this script.
    fn world(script: &str) -> World {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path();
        let daemon = home.join("aishd");
        std::fs::write(&daemon, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&daemon, Permissions::from_mode(0o755)).unwrap();
        let mut around = ClientEnvironment {
            uid: rustix::process::getuid().as_raw(),
            program: Some(home.join("aishctl")),
            ..ClientEnvironment::default()
        };
        for (name, value) in [
            ("HOME", home.to_str().unwrap()),
            ("PATH", "/usr/bin:/bin"),
            ("SECRET_API_KEY", "s"),
            ("LC_ALL", "C"),
        ] {
            around.variables.insert(name.into(), value.into());
        }
        let socket = home.join("run/aishd.sock");
        World {
            around,
            socket,
            directory,
        }
    }

    #[tokio::test]
    async fn a_daemon_that_says_ready_is_started_clean_and_private() {
        let world =
            world(r#"env > "$HOME/env"; pwd > "$HOME/pwd"; echo "$@" > "$HOME/args"; echo ready"#);
        let started = start(&world.around, &world.socket).await.unwrap();
        assert_eq!(SpawnOutcome::ByUs, started);
        let home = world.directory.path();
        let read = |it: &str| std::fs::read_to_string(home.join(it)).unwrap();
        assert_eq!(
            ("/\n", "--detach\n"),
            (read("pwd").as_str(), read("args").as_str())
        );
        assert!(read("env").contains("LC_ALL=C") && !read("env").contains("SECRET_API_KEY"));
        let mode = |it: &str| std::fs::metadata(home.join(it)).unwrap().mode() & 0o777;
        assert_eq!(
            (0o700, 0o600),
            (mode("run"), mode(".local/state/aish/aishd.log"))
        );
    }

    #[tokio::test]
    async fn a_failed_start_shows_the_end_of_the_log_and_its_exit_code() {
        let failed = world("for i in 1 2 3 4 5 6; do echo line $i >&2; done; exit 74");
        let failure = start(&failed.around, &failed.socket).await.unwrap_err();
        assert_eq!(Exit::NO_DAEMON, failure.exit);
        assert!(
            failure.message.ends_with("line 6") && !failure.message.contains("line 1"),
            "{failure:?}"
        );
        let invalid = world("echo 'config.toml:3: unknown key' >&2; exit 78");
        let failure = start(&invalid.around, &invalid.socket).await.unwrap_err();
        assert_eq!(Exit::CONFIG, failure.exit);
        assert!(failure.message.contains("unknown key"));
    }

    #[tokio::test]
    async fn the_store_of_a_daemon_that_is_going_is_waited_for() {
        let script = r#"echo x >> "$HOME/tries"; test $(wc -l < "$HOME/tries") -gt 3 || exit 75; echo ready"#;
        let world = world(script);
        let started = start(&world.around, &world.socket).await.unwrap();
        assert_eq!(SpawnOutcome::ByUs, started);
        let tries = std::fs::read_to_string(world.directory.path().join("tries")).unwrap();
        assert_eq!(4, tries.lines().count());
    }

    #[tokio::test]
    async fn ten_clients_start_one_daemon() {
        // What serves is a socket of ours, which opens once the script has been started.
        let script = r#"echo started >> "$HOME/starts"; while [ ! -S "$HOME/run/aishd.sock" ]; do sleep 0.01; done; echo ready"#;
        let world = world(script);
        let mut clients = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let (around, socket) = (world.around.clone(), world.socket.clone());
            clients.spawn(async move { start(&around, &socket).await });
        }
        let starts = world.directory.path().join("starts");
        while !starts.exists() {
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        let _listener = std::os::unix::net::UnixListener::bind(&world.socket).unwrap();
        let results = clients.join_all().await;
        let by_us = results.iter().filter(|it| **it == Ok(SpawnOutcome::ByUs));
        let elsewhere = results
            .iter()
            .filter(|it| **it == Ok(SpawnOutcome::Elsewhere));
        assert_eq!((1, 9), (by_us.count(), elsewhere.count()), "{results:?}");
        assert_eq!("started\n", std::fs::read_to_string(starts).unwrap());
    }

    #[tokio::test]
    async fn a_directory_open_to_others_is_refused() {
        let world = world("echo ready");
        let run = world.socket.parent().unwrap();
        std::fs::create_dir(run).unwrap();
        std::fs::set_permissions(run, Permissions::from_mode(0o755)).unwrap();
        let failure = start(&world.around, &world.socket).await.unwrap_err();
        assert!(failure.hint.unwrap().starts_with("chmod 700"));
        let stranger = ClientEnvironment {
            uid: world.around.uid + 1,
            ..world.around.clone()
        };
        let failure = start(&stranger, &world.socket).await.unwrap_err();
        assert!(failure.message.contains("not a directory of yours"));
    }

    #[test]
    fn only_what_a_daemon_needs_is_passed_on() {
        let names = [
            "PATH",
            "OPENAI_API_KEY",
            "LC_TIME",
            "XDG_CONFIG_HOME",
            "AISH_SOCKET",
            "LD_PRELOAD",
            "https_proxy",
            "SSL_CERT_FILE",
            "HOME",
        ];
        let passed: Vec<&str> = names
            .into_iter()
            .filter(|it| is_passed_on(OsStr::new(it)))
            .collect();
        assert_eq!(
            vec![
                "PATH",
                "LC_TIME",
                "XDG_CONFIG_HOME",
                "AISH_SOCKET",
                "https_proxy",
                "SSL_CERT_FILE",
                "HOME"
            ],
            passed
        );
    }
}
