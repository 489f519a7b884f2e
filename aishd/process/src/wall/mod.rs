//! The wall around a child: what the kernel lets it and everything that it starts reach. It is put up in the thread that
//! then starts the program, so that neither the trampoline nor anybody else is behind it, and it cannot be taken down.
//!
//! Three things together, none of which needs a privilege: Landlock says which files (`files`), a filter of system calls
//! shuts the ways out that are no files (`calls`), and what root could do besides is given up here.

mod landlock;
mod seccomp;

use std::io;
use std::path::{Path, PathBuf};

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};
use serde::{Deserialize, Serialize};

use super::spec::{ChildExit, ChildSpec, StandardStream, StartFailure, StartStage};
use super::{Children, SpawnError};

/// Of what root can do: writing in directories of others, as far as files are within the wall.
const KEPT: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// What is within reach. All paths are absolute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wall {
    /// Read and written. No link leads to one of them, or the program is not started.
    pub roots: Vec<PathBuf>,
    /// Read and written, if they are there.
    pub write: Vec<PathBuf>,
    /// Read, if they are there.
    pub read: Vec<PathBuf>,
    /// The same for what nobody named for this child: one that would hold what is apart is left out.
    pub known: Vec<PathBuf>,
    /// What is in these directories, but for these names.
    pub but: Vec<(PathBuf, Vec<String>)>,
    /// Nothing that holds one of these as a whole is within reach.
    pub homes: Vec<PathBuf>,
    /// Nothing that holds one of these or is in it is within reach, `scratch` excepted.
    pub own: Vec<PathBuf>,
    /// For this child alone.
    pub scratch: PathBuf,
}

impl Wall {
    /// Nothing but the system's programs, and a directory to work in.
    pub fn of_system(scratch: &Path) -> Self {
        Self {
            roots: vec![],
            write: vec![],
            read: vec![],
            known: ["/bin", "/usr", "/lib", "/lib64", "/nix/store", "/gnu/store"]
                .map(PathBuf::from)
                .to_vec(),
            but: vec![],
            homes: vec![],
            own: vec![],
            scratch: scratch.to_owned(),
        }
    }
}

/// Puts it up around the calling thread and all that it starts.
pub(super) fn put_up(wall: &Wall) -> Result<(), StartFailure> {
    // Looking comes before anything is given up.
    let opened = landlock::open(wall).map_err(failed(StartStage::Places))?;
    give_up_privileges().map_err(failed(StartStage::Kernel))?;
    landlock::hold(opened).map_err(failed(StartStage::Kernel))?;
    seccomp::hold().map_err(failed(StartStage::Kernel))
}

fn failed(stage: StartStage) -> impl Fn(io::Error) -> StartFailure {
    move |error| StartFailure::of(stage, &error)
}

/// What no ordinary user has, no program within the wall has either.
fn give_up_privileges() -> io::Result<()> {
    let now = capabilities(None)?;
    if now.permitted.is_empty() {
        return Ok(());
    }
    if now.effective.contains(CapabilitySet::SETPCAP) {
        for one in (CapabilitySet::all() - KEPT).iter() {
            // A kernel knows fewer of them than there are bits.
            let _unknown = remove_capability_from_bounding_set(one);
        }
    }
    let sets = CapabilitySets {
        effective: now.effective & KEPT,
        permitted: now.permitted & KEPT,
        inheritable: CapabilitySet::empty(),
    };
    Ok(set_capabilities(None, sets)?)
}

impl Children {
    /// Whether this kernel holds a wall: a real child tries to get out of one. The error says what is missing, for people.
    pub async fn probe(&self, scratch: &Path) -> Result<(), String> {
        // Writing beside it and signalling the trampoline must fail, and writing within must not.
        const TRY: &str = ": > within || exit 3; (: > ../beyond) 2>/dev/null && exit 4; kill -0 $PPID && exit 5; exit 0";
        let inside = scratch.join("probe");
        std::fs::create_dir_all(&inside).map_err(|it| it.to_string())?;
        let spec = ChildSpec {
            args: ["-c", TRY].map(str::to_owned).to_vec(),
            stdout: StandardStream::Null,
            wall: Some(Box::new(Wall::of_system(&inside))),
            ..ChildSpec::new("/bin/sh", &inside)
        };
        let tried = match self.spawn(&spec).await {
            Ok(mut child) => child.wait().await,
            Err(SpawnError::Kernel { source, .. }) => {
                return Err(format!(
                    "the kernel has no Landlock with scopes (Linux 6.12 or later, switched on), or forbids it: {source}"
                ));
            }
            Err(error) => return Err(error.to_string()),
        };
        let _left_for_the_next_start = std::fs::remove_dir_all(&inside);
        match tried {
            ChildExit::Code(0) => Ok(()),
            other @ (ChildExit::Code(_) | ChildExit::Signal(_) | ChildExit::Unknown) => {
                Err(format!("a program that tried got out ({other})"))
            }
        }
    }
}
