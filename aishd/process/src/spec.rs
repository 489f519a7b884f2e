//! What a child is to be, and what daemon and trampoline say to each other about it. Both are the same program, so these
//! forms are nobody else's.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::contained::{Containment, ContainmentPart, HeldBy};
use super::wall::Wall;

/// A program to be started.
#[derive(Clone)]
pub struct ChildSpec {
    /// Looked for in the child's own PATH when it has no slash.
    pub program: String,
    pub args: Vec<String>,
    /// What it has in its environment besides the base; a name of the base is replaced.
    pub env: BTreeMap<String, String>,
    pub cwd: PathBuf,
    pub umask: u32,
    pub limits: KernelLimits,
    pub privileges: ChildPrivileges,
    /// What the kernel keeps it within. `None`: it can do whatever the daemon can.
    pub wall: Option<Box<Wall>>,
    /// The namespaces and layers that it is in, if any; they and a wall are independent of each other.
    pub contained: Option<Box<Containment>>,
    /// The MCP server or the tool that it is, for what the configuration lets that do as a client of the daemon. `None`:
    /// nothing is let.
    pub provider: Option<Arc<str>>,
    pub stdin: StandardStream,
    pub stdout: StandardStream,
    pub stderr: StandardStream,
    /// It has a pipe to say something on besides: what opens [`NOTE`] writes into [`Child::note`](super::child::Child::note).
    pub takes_note: bool,
}

/// The pipe of a child that has one, as it sees it.
pub const NOTE: &str = "/proc/self/fd/187";
/// A number that no script has for its own files: shells take those below ten, the one of `flock` scripts and 63 downwards.
pub(super) const NOTE_FD: i32 = 187;

/// The streams of a child.
#[derive(Debug)]
pub(super) struct ChildStreams {
    pub(super) standard: [OwnedFd; 3],
    pub(super) note: Option<OwnedFd>,
}

impl ChildStreams {
    /// The most descriptors that they are.
    pub(super) const MOST: usize = 4;

    /// As they are sent, one behind the other.
    pub(super) fn of(fds: Vec<OwnedFd>) -> Option<Self> {
        let mut fds = fds.into_iter();
        let standard = [fds.next()?, fds.next()?, fds.next()?];
        let note = fds.next();
        fds.next().is_none().then_some(Self { standard, note })
    }

    pub(super) fn as_sent(&self) -> Vec<BorrowedFd<'_>> {
        self.standard
            .iter()
            .chain(&self.note)
            .map(|it| it.as_fd())
            .collect()
    }
}

/// One of the three standard streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StandardStream {
    Null,
    Piped,
    /// Standard error goes where standard output goes.
    Joined,
}

/// What set-user-ID programs such as `sudo` can give to the child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildPrivileges {
    AsUsual,
    NoNew,
}

/// Limits of the kernel, for each process of the tree. There is never a core dump. What is above the daemon's own limit
/// becomes that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KernelLimits {
    /// At least 64, because the trampoline has to live with it too.
    pub open_files: Option<u64>,
    pub file_bytes: Option<u64>,
    pub cpu_seconds: Option<u64>,
    /// Of the user, as the kernel counts; root has none.
    pub processes: Option<u64>,
    /// Of address space. The trampoline has none, because it has to live.
    pub memory_bytes: Option<u64>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChildExit {
    Code(i32),
    Signal(i32),
    /// Somebody killed the trampoline; what it kept is killed by the daemon.
    Unknown,
}

impl ChildSpec {
    /// This program in this directory, with no input, its output in a pipe, and errors shown to nobody.
    pub fn new(program: impl Into<String>, cwd: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            args: vec![],
            env: BTreeMap::new(),
            cwd: cwd.into(),
            umask: 0o077,
            limits: KernelLimits::default(),
            privileges: ChildPrivileges::AsUsual,
            wall: None,
            contained: None,
            provider: None,
            stdin: StandardStream::Null,
            stdout: StandardStream::Piped,
            stderr: StandardStream::Null,
            takes_note: false,
        }
    }
}

/// Arguments and values may be secrets.
impl fmt::Debug for ChildSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChildSpec")
            .field("program", &self.program)
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .field("cwd", &self.cwd)
            .field("limits", &self.limits)
            .field("privileges", &self.privileges)
            .field("wall", &self.wall)
            .field("contained", &self.contained)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for ChildExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit status: {code}"),
            Self::Signal(signal) => write!(f, "signal: {signal}"),
            Self::Unknown => write!(f, "it was killed with its keeper"),
        }
    }
}

/// The line that the trampoline is sent, with the three streams beside it. It sends the same on to the first process of a
/// containment.
#[derive(Serialize, Deserialize)]
pub(super) struct TrampolineJob {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: PathBuf,
    pub(super) umask: u32,
    pub(super) limits: KernelLimits,
    pub(super) privileges: ChildPrivileges,
    pub(super) wall: Option<Box<Wall>>,
    pub(super) contained: Option<Box<Containment>>,
}

impl TrampolineJob {
    pub(super) fn line(
        spec: &ChildSpec,
        base: &BTreeMap<String, String>,
    ) -> serde_json::Result<Vec<u8>> {
        // Behind a boundary, what the base has may be what is kept from it.
        let mut env = if spec.wall.is_some() || spec.contained.is_some() {
            BTreeMap::new()
        } else {
            base.clone()
        };
        env.extend(spec.env.clone());
        let mut line = serde_json::to_vec(&serde_json::json!({
            "program": spec.program,
            "args": spec.args,
            "env": env,
            "cwd": spec.cwd,
            "umask": spec.umask,
            "limits": spec.limits,
            "privileges": spec.privileges,
            "wall": spec.wall,
            "contained": spec.contained,
        }))?;
        line.push(b'\n');
        Ok(line)
    }
}

/// What the trampoline says, a line each. After the last it closes its end, and then nothing of the tree is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum TrampolineReport {
    /// With the listener of a contained child beside it, if one is wanted.
    Started {
        pid: u32,
        held: Option<HeldBy>,
    },
    Failed(StartFailure),
    Ended(ChildExit),
}

/// Why the program was not started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StartFailure {
    pub(super) stage: StartStage,
    pub(super) errno: i32,
    /// What it failed at, where there are several.
    pub(super) place: Option<PathBuf>,
}

impl StartFailure {
    pub(super) fn of(stage: impl Into<StartStage>, error: &io::Error) -> Self {
        // Only what std itself refuses has no number: a NUL in an argument.
        let unnumbered = rustix::io::Errno::INVAL.raw_os_error();
        Self {
            stage: stage.into(),
            errno: error.raw_os_error().unwrap_or(unnumbered),
            place: None,
        }
    }

    pub(super) fn at(self, place: impl Into<PathBuf>) -> Self {
        Self {
            place: Some(place.into()),
            ..self
        }
    }
}

impl From<ContainmentPart> for StartStage {
    fn from(part: ContainmentPart) -> Self {
        Self::Contained(part)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum StartStage {
    Directory,
    Limits,
    /// The places of its wall.
    Places,
    /// The wall itself.
    Kernel,
    Contained(ContainmentPart),
    Program,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_declared_variable_goes_before_the_base_and_no_value_is_shown() {
        let base = [("LANG", "C"), ("PATH", "/bin")].map(|(a, b)| (a.to_owned(), b.to_owned()));
        let mut spec = ChildSpec::new("x", "/");
        spec.env = BTreeMap::from([("LANG".to_owned(), "s3cret".to_owned())]);
        spec.args = vec!["--token=s3cret".to_owned()];
        let line = TrampolineJob::line(&spec, &BTreeMap::from(base)).unwrap();
        let job: TrampolineJob = serde_json::from_slice(&line).unwrap();
        assert_eq!(
            ("s3cret", "/bin"),
            (job.env["LANG"].as_str(), job.env["PATH"].as_str())
        );
        assert!(!format!("{spec:?}").contains("s3cret"));
    }
}
