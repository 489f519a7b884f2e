//! Daemons that are measured: started as a person would, told from outside when they are ready.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

use crate::table::millis;
use crate::upstream::Upstream;

/// The models that the bench asks for, by the name that says what they answer.
const MODELS: &[&str] = &[
    "n1", "n20", "n200", "n2000", "n20000", "n20-d5", "n400-d5", "n20-d20", "n100-d20", "c1",
];

/// The folder of one `aishd`: its configuration, its store, its socket.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) folder: PathBuf,
}

impl Home {
    /// Makes the folder; every preset of its configuration is the model's server.
    pub(crate) fn new(folder: PathBuf, upstream: &Upstream) -> anyhow::Result<Self> {
        fs::create_dir_all(folder.join("run/aish"))?;
        fs::create_dir_all(folder.join("state"))?;
        let mut config = File::options()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(folder.join("config.toml"))?;
        writeln!(
            config,
            "default_model = \"n1\"\nlimits.max_clients = 1100\nlogging.level = \"warn\""
        )?;
        for model in MODELS {
            let url = &upstream.base_url;
            writeln!(
                config,
                "[models.{model}]\nendpoint = \"{url}\"\nmodel = \"{model}\""
            )?;
        }
        for part in ["run", "run/aish", "state"] {
            let rights = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            fs::set_permissions(folder.join(part), rights)?;
        }
        Ok(Self { folder })
    }

    /// Adds to its configuration.
    pub(crate) fn configure(&self, more: &str) -> anyhow::Result<()> {
        let config = self.folder.join("config.toml");
        let mut config = File::options().append(true).open(config)?;
        Ok(writeln!(config, "{more}")?)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.join("run/aish/aishd.sock")
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.folder.join("state/store")
    }

    /// Starts the daemon and waits for its `ready`.
    pub(crate) fn start(&self, programs: &Path) -> anyhow::Result<Served> {
        let mut command = Command::new(programs.join("aishd"));
        command
            .arg("--foreground")
            .arg("--config")
            .arg(self.folder.join("config.toml"))
            .arg("--state")
            .arg(self.folder.join("state"));
        self.surround(&mut command);
        Served::start(command, &self.folder.join("log"))
    }

    /// An `aishctl` that finds this daemon as it always does.
    pub(crate) fn aishctl(&self, programs: &Path) -> Command {
        let mut command = Command::new(programs.join("aishctl"));
        self.surround(&mut command);
        command
    }

    fn surround(&self, command: &mut Command) {
        command
            .env_clear()
            .env("HOME", &self.folder)
            .env("PATH", "/usr/bin:/bin")
            .env("XDG_RUNTIME_DIR", self.folder.join("run"))
            .current_dir(&self.folder);
    }
}

/// A daemon that runs; it ends with this value.
#[derive(Debug)]
pub(crate) struct Served {
    child: Child,
    /// From exec to ready, in milliseconds.
    pub(crate) start: f64,
}

impl Served {
    /// Starts a program that says `ready` on its standard output.
    pub(crate) fn start(mut command: Command, log: &Path) -> anyhow::Result<Self> {
        let shown = format!("{command:?}");
        let stderr = File::options().create(true).append(true).open(log)?;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(stderr);
        let began = Instant::now();
        let child = command.spawn().with_context(|| format!("start {shown}"))?;
        let mut served = Self { child, start: 0.0 };
        let stdout = served.child.stdout.take().context("it is piped")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        served.start = millis(began, Instant::now());
        anyhow::ensure!(
            line == "ready\n",
            "{shown} did not get ready: see {}",
            log.display()
        );
        Ok(served)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A value of `/proc/PID/status`, in KiB.
    pub(crate) fn kib(&self, field: &str) -> anyhow::Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status
            .lines()
            .find_map(|it| it.strip_prefix(field)?.strip_prefix(':'));
        let number = line.and_then(|it| it.split_whitespace().next());
        Ok(number.context("no such field")?.parse()?)
    }

    pub(crate) fn kill9(mut self) -> anyhow::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Lets it stop in order.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        anyhow::ensure!(status.success(), "the daemon ended with {status}");
        Ok(())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _gone_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}
