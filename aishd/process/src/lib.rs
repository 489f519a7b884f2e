//! Every child process of the daemon, each behind a trampoline: a copy of this program that
//! makes the child's surroundings clean, starts it, and outlives it until nothing that it started is left.
//!
//! The trampoline knows that the daemon is gone, `kill -9` included, by the end of its control socket. Not here: what is
//! run and why, and deadlines; dropping the future or the [`Child`] ends the whole tree.

pub mod child;
mod child_table;
pub mod contained;
mod control_line;
pub mod keeper;
mod process_tree;
mod program_start;
pub mod spec;
mod syscall_filter;
pub mod trampoline;
pub mod wall;

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use child::{Child, ControlSocket};
use child_table::ChildTable;
use contained::ContainmentPart;
use spec::{ChildSpec, ChildStreams, StandardStream, StartFailure, StartStage, TrampolineJob};
use tokio::net::unix::pipe::{Receiver, Sender};

/// This very program, also when its file was replaced since we started.
const OURSELVES: &str = "/proc/self/exe";
/// What a job may come to; the kernel would not take more as arguments and environment either.
const MAX_JOB_BYTES: usize = 4 << 20;

/// Starts children; cheap to clone.
#[derive(Clone, Debug)]
pub struct Children {
    table: Arc<ChildTable>,
    base: Arc<BTreeMap<String, String>>,
}

/// A child was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    #[error("find {program}")]
    NotFound {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("execute {program}")]
    NotExecutable {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("enter {}", cwd.display())]
    Directory {
        cwd: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("start {program}")]
    Refused {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("start {program}: its arguments and environment are {bytes} bytes long")]
    TooLong { program: String, bytes: usize },
    /// A directory that is to be within its wall cannot be: a link leads there, or what is kept apart is in it.
    #[error(
        "start {program} within its boundary: a directory of it is not what it was, or cannot be held"
    )]
    Places {
        program: String,
        #[source]
        source: io::Error,
    },
    /// The kernel does not hold the wall that it is to be in.
    #[error("start {program} within its boundary")]
    Kernel {
        program: String,
        #[source]
        source: io::Error,
    },
    /// A part of its containment cannot be had here.
    #[error("start {program} contained{}: {part}", at(place.as_ref()))]
    Contained {
        program: String,
        part: ContainmentPart,
        place: Option<PathBuf>,
        #[source]
        source: io::Error,
    },
    /// Something between us and the child, such as the number of processes or descriptors.
    #[error("start the keeper of {program}")]
    Trampoline {
        program: String,
        #[source]
        source: io::Error,
    },
}

impl Children {
    /// Children that have `base` in their environment, and what each declares.
    pub fn new(base: BTreeMap<String, String>) -> Self {
        Self::behind(PathBuf::from(OURSELVES), base)
    }

    /// As [`Children::new`], for a process that is no `aishd`: this one is the trampoline.
    pub fn behind(trampoline: PathBuf, base: BTreeMap<String, String>) -> Self {
        Self {
            table: Arc::new(ChildTable::new(trampoline)),
            base: Arc::new(base),
        }
    }

    /// Variables that every child has.
    pub fn base(&self) -> &BTreeMap<String, String> {
        &self.base
    }

    /// Returns when the program runs. There is no deadline; dropping the future ends what it has begun.
    pub async fn spawn(&self, spec: &ChildSpec) -> Result<Child, SpawnError> {
        let program = || spec.program.clone();
        let broken = |source| SpawnError::Trampoline {
            program: program(),
            source,
        };
        let job = TrampolineJob::line(spec, &self.base).map_err(|error| broken(error.into()))?;
        if job.len() > MAX_JOB_BYTES {
            return Err(SpawnError::TooLong {
                program: program(),
                bytes: job.len(),
            });
        }
        let (pipes, theirs) = pipes(spec).map_err(broken)?;
        let mut control = self.start(spec.provider.clone()).await.map_err(broken)?;
        control.hand_over(&job, &theirs).await.map_err(broken)?;
        // Ours would keep the pipes open after the child has closed its own.
        drop(theirs);
        match control.started().await.map_err(broken)? {
            Ok(started) => Ok(Child::new(started, pipes, control)),
            Err(failed) => Err(refused(spec, failed)),
        }
    }

    /// Waits until every child, and what they started, is gone. Needs the keeper to run.
    pub async fn all_ended(&self) {
        self.table.empty().await;
    }

    /// Whose program a process is, by the processes that it descends from.
    pub fn provider_among(&self, ancestors: &[u32]) -> Option<Arc<str>> {
        self.table.provider_among(ancestors)
    }

    async fn start(&self, provider: Option<Arc<str>>) -> io::Result<ControlSocket> {
        let (ours, theirs) = UnixStream::pair()?;
        let table = self.table.clone();
        tokio::task::spawn_blocking(move || table.start(theirs, provider)).await??;
        ControlSocket::new(ours)
    }
}

fn at(place: Option<&PathBuf>) -> String {
    place.map_or_else(String::new, |it| format!(" ({})", it.display()))
}

fn refused(spec: &ChildSpec, failed: StartFailure) -> SpawnError {
    let program = spec.program.clone();
    let source = io::Error::from_raw_os_error(failed.errno);
    match (failed.stage, source.kind()) {
        (StartStage::Directory, _) => SpawnError::Directory {
            cwd: spec.cwd.clone(),
            source,
        },
        (StartStage::Program, io::ErrorKind::NotFound) => SpawnError::NotFound { program, source },
        (StartStage::Program, io::ErrorKind::PermissionDenied) => {
            SpawnError::NotExecutable { program, source }
        }
        (StartStage::Program | StartStage::Limits, _) => SpawnError::Refused { program, source },
        (StartStage::Places, _) => SpawnError::Places { program, source },
        (StartStage::Kernel, _) => SpawnError::Kernel { program, source },
        (StartStage::Contained(part), _) => SpawnError::Contained {
            program,
            part,
            place: failed.place,
            source,
        },
    }
}

/// Our ends of the child's pipes.
#[derive(Debug, Default)]
struct ChildPipes {
    stdin: Option<Sender>,
    stdout: Option<Receiver>,
    stderr: Option<Receiver>,
    note: Option<Receiver>,
}

/// Our ends, and the child's.
fn pipes(spec: &ChildSpec) -> io::Result<(ChildPipes, ChildStreams)> {
    let mut ours = ChildPipes::default();
    let stdin = match spec.stdin {
        StandardStream::Null | StandardStream::Joined => File::open("/dev/null")?.into(),
        StandardStream::Piped => {
            let (theirs, writer) = io::pipe()?;
            ours.stdin = Some(Sender::from_owned_fd(writer.into())?);
            theirs.into()
        }
    };
    let out = |stream, ours: &mut Option<Receiver>| -> io::Result<OwnedFd> {
        match stream {
            StandardStream::Null | StandardStream::Joined => {
                Ok(File::options().write(true).open("/dev/null")?.into())
            }
            StandardStream::Piped => {
                let (reader, theirs) = io::pipe()?;
                *ours = Some(Receiver::from_owned_fd(reader.into())?);
                Ok(theirs.into())
            }
        }
    };
    let stdout = out(spec.stdout, &mut ours.stdout)?;
    let stderr = match spec.stderr {
        StandardStream::Joined => stdout.try_clone()?,
        StandardStream::Null | StandardStream::Piped => out(spec.stderr, &mut ours.stderr)?,
    };
    let note = match spec.takes_note {
        true => Some(out(StandardStream::Piped, &mut ours.note)?),
        false => None,
    };
    let standard = [stdin, stdout, stderr];
    Ok((ours, ChildStreams { standard, note }))
}
