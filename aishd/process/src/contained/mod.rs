//! Containment of a child: namespaces of its own in which everything is there to be read, and what it writes goes where the
//! containment says. No privilege is needed, and nothing of it can be undone from inside.
//!
//! The trampoline enters a user namespace and stays outside of everything else; below it, a copy of this program is the
//! first process of a pid namespace (`init`), makes the rest and starts the program. When that first process ends, the
//! kernel ends all the others, so the end of one process is the end of the tree.
//!
//! Not held back here, in directories that the child sees as they are: sockets with a path that were bound after it was
//! started, that a container around or beside us has bound, or that were bound by a path that is not absolute by somebody who
//! is in another directory by now; and named pipes, which read-only mounts let be written to.
//! Sockets that were there before, and everything in `/run`, `/tmp`, `/dev` and in layers, are out of reach. How much memory its
//! own `/tmp` and `/dev/shm` take, the kernel limits to half of what there is, for each.

mod bound_sockets;
mod init;
mod mount_table;
mod mounts;
mod namespaces;
mod own_trees;
mod placed;
mod probe;
mod relay;
mod seccomp;

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub(super) use init::{ARGUMENT, main};
pub use mount_table::mount_points;
pub(super) use namespaces::own_user;
pub use probe::{ContainmentProbe, Mechanism};
pub(super) use relay::run;

/// What a child's surroundings are. All paths are absolute.
///
/// What is not named is read-only. `/tmp`, `/run`, `/dev`, `/dev/shm` and `/proc` are its own, and empty where that has a
/// meaning. Its environment is what its [`ChildSpec`](super::spec::ChildSpec) declares, without the base.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Containment {
    /// Directories that it may write in, whose changes go elsewhere.
    pub layers: Vec<WriteLayer>,
    /// Directories, and files, that it may write for real.
    pub write: Vec<PathBuf>,
    /// Directories, and files, that it may read also where they are below a directory of its own (`/tmp`, `/run`), which would
    /// hide them. Masks hide what is in them.
    pub read: Vec<PathBuf>,
    /// What is to be started, and what that is told to read: files and directories that are to be read also where a mask
    /// around them would hide them. What else is in that mask stays hidden.
    pub programs: Vec<PathBuf>,
    /// Hidden, if they are there: a directory is empty then and a file cannot be read. Where a link leads, that is hidden.
    /// These come last, so a mask within a layer or a writable directory holds, and one around it hides it as well.
    pub masks: Vec<PathBuf>,
    pub network: ContainedNetwork,
}

impl Containment {
    /// Masks sockets that are there and that no list of the kernel names as they can be reached.
    pub(super) fn mask_relative_sockets(&mut self) {
        self.masks.extend(bound_sockets::relative());
    }
}

/// A directory whose changes go to another one. The program sees both as one.
///
/// No link may be on the way to any of the three. `upper` and `work` are on one file system, `work` is for the kernel
/// alone; `upper` may be below `lower`, where the child does not see it. A layer is used by one child at a time: the next one
/// waits some seconds for the end of the one before. Where another file system is mounted below `lower`, the kernel makes none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteLayer {
    pub lower: PathBuf,
    /// What was made or changed. What was removed is a character device 0:0, and a directory that replaced another has
    /// `user.overlay.opaque`.
    pub upper: PathBuf,
    pub work: PathBuf,
}

/// What a contained child can connect to. It always has a loopback device of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainedNetwork {
    #[default]
    Nothing,
    /// One listener on 127.0.0.1 within, whose connections the daemon accepts
    /// ([`Child::take_listener`](super::child::Child::take_listener)). Port 0 is any.
    Listener { port: u16 },
}

/// What holds a contained child besides namespaces and a filter of system calls, without which it would not have started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldBy {
    pub landlock: LandlockHold,
}

/// Whether Landlock scopes signals and abstract sockets as well, which the namespaces do already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LandlockHold {
    /// Not in this kernel.
    Missing,
    /// In this kernel, and switched off.
    Off,
    /// It has no scopes yet.
    TooOld {
        abi: u32,
    },
    Scoped {
        abi: u32,
    },
}

/// The part of a containment that could not be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainmentPart {
    UserNamespace,
    Namespaces,
    /// A path of it: not absolute, not there, a link on the way to it, or one that cannot be held.
    Places,
    LayerInUse,
    Overlay,
    Mounts,
    /// Its own `/proc`.
    Processes,
    Network,
    Privileges,
    Landlock,
    SystemCalls,
    /// The first process ended before it had said anything.
    FirstProcess,
}

impl fmt::Display for ContainmentPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UserNamespace => "user namespaces are not allowed here",
            Self::Namespaces => {
                "a user namespace gives no rights to make others here (AppArmor may forbid it)"
            }
            Self::Places => "a place of it is not there, is behind a link, or cannot be held",
            Self::LayerInUse => "a layer of it is in use by another program",
            Self::Overlay => "the kernel makes no overlay in a user namespace there",
            Self::Mounts => "its file system could not be arranged",
            Self::Processes => {
                "no /proc of its own (a container around us may hide parts of /proc)"
            }
            Self::Network => "no network of its own",
            Self::Privileges => "privileges could not be given up",
            Self::Landlock => "Landlock refused",
            Self::SystemCalls => "the kernel takes no filter of system calls",
            Self::FirstProcess => "its first process ended at once",
        })
    }
}
