//! What is measured, one file for each question that a row answers.

pub(crate) mod ask;
pub(crate) mod command;
pub(crate) mod context;
pub(crate) mod fallback;
pub(crate) mod fanout;
pub(crate) mod history;
pub(crate) mod mcp;
pub(crate) mod start;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use crate::served::{Home, Served};
use crate::upstream::Upstream;

/// How long the bench takes, and how much its figures say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    Full,
    /// A few rounds: what a change does.
    Quick,
    /// One round of small things: whether it works at all. Its times say nothing.
    Smoke,
}

impl Effort {
    /// Rounds where the full bench has so many.
    pub(crate) fn rounds(self, full: usize) -> usize {
        match self {
            Self::Full => full,
            Self::Quick => (full / 4).max(3),
            Self::Smoke => 1,
        }
    }
}

/// What every row has at hand.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) upstream: Upstream,
    /// Where the programs are.
    pub(crate) programs: PathBuf,
    /// A folder that goes with the bench.
    pub(crate) scratch: PathBuf,
    pub(crate) effort: Effort,
}

impl Bench {
    pub(crate) fn home(&self, name: &str) -> anyhow::Result<Home> {
        Home::new(self.scratch.join(name), &self.upstream)
    }

    /// The relay's daemon, and its socket.
    pub(crate) fn relayd(&self, name: &str) -> anyhow::Result<(Served, PathBuf)> {
        let socket = self.scratch.join(format!("{name}.sock"));
        let mut command = Command::new(self.programs.join("bench-relayd"));
        command.arg(&socket).arg(&self.upstream.base_url);
        let served = Served::start(command, &self.scratch.join(format!("{name}.log")))?;
        Ok((served, socket))
    }

    pub(crate) fn direct(&self) -> Command {
        let mut command = Command::new(self.programs.join("bench-direct"));
        command.arg(&self.upstream.base_url);
        command
    }

    /// Serves until stdin ends, for who wants to look closer: with a profiler, with strace.
    pub(crate) fn by_hand(&self) -> anyhow::Result<()> {
        let home = self.home("by-hand")?;
        let served = home.start(&self.programs)?;
        let (relayd, relay) = self.relayd("by-hand")?;
        let mut out = std::io::stdout();
        writeln!(
            out,
            "export XDG_RUNTIME_DIR={}/run   # aishd is {}",
            home.folder.display(),
            served.pid()
        )?;
        writeln!(
            out,
            "RELAY={}   # bench-relayd is {}",
            relay.display(),
            relayd.pid()
        )?;
        writeln!(out, "BASE_URL={}", self.upstream.base_url)?;
        std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
        served.stop()
    }

    /// Says what is going on, on stderr.
    #[expect(clippy::print_stderr, reason = "the table alone is for stdout")]
    pub(crate) fn note(&self, what: &str) {
        if self.effort != Effort::Smoke {
            eprintln!("… {what}");
        }
    }
}
