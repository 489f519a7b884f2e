//! What a contained child sees of the file system, made in the mount namespace of its first process: everything read-only,
//! over it what is the child's own, over that what it may write, and masks last.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, OpenTreeFlags, mount_change};

use super::mount_table::{self, MountAccess, depth, is_plain};
use super::own_trees::{self, EmptyMasks};
use super::placed::{self, LayerLocks, PlacedMount, copy, put};
use super::{Containment, ContainmentPart};
use crate::spec::StartFailure;

/// What tells root, also without any capability, of the whole machine and not only of the namespace.
const MACHINE: [&str; 10] = [
    "/sys/kernel/debug",
    "/sys/kernel/tracing",
    "/sys/firmware",
    "/sys/fs/bpf",
    "/proc/kcore",
    "/proc/keys",
    "/proc/kpagecount",
    "/proc/kpageflags",
    "/proc/kpagecgroup",
    "/proc/timer_list",
];

/// Arranges all of it. What is returned has to be held as long as the child lives.
pub(super) fn arrange(
    wanted: &Containment,
    sockets: &BTreeSet<PathBuf>,
) -> Result<LayerLocks, StartFailure> {
    let failed = |error: io::Error| StartFailure::of(ContainmentPart::Mounts, &error);
    check(wanted)?;
    let alone = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", alone).map_err(|error| failed(error.into()))?;
    let (prepared, locks) = placed::prepare(wanted)?;
    let brought = own_trees::bring().map_err(failed)?;
    mount_table::hold(Path::new("/"), MountAccess::ReadOnly).map_err(failed)?;
    let empty = EmptyMasks::make().map_err(failed)?;
    own_trees::own_devices(&brought).map_err(failed)?;
    if !is_placed(wanted, Path::new("/tmp")) {
        own_trees::own_temporary().map_err(failed)?;
    }
    own_trees::own_run(&brought).map_err(failed)?;
    for it in &prepared.places {
        placed::place(it).map_err(failed)?;
    }
    own_trees::own_processes()
        .map_err(|error| StartFailure::of(ContainmentPart::Processes, &error))?;
    let ours = wanted.layers.iter().flat_map(|it| [&it.upper, &it.work]);
    let masks = wanted.masks.iter().chain(ours).map(PathBuf::as_path);
    let mut with_room = vec![];
    for path in MACHINE.map(Path::new).into_iter().chain(masks) {
        let masked = mask(path, &empty, &prepared.programs);
        with_room.extend(masked.map_err(|error| failed(error).at(path))?);
    }
    for it in &prepared.programs {
        placed::place(it).map_err(|error| failed(error).at(it.at.as_path()))?;
    }
    for path in &with_room {
        mount_table::hold(path, MountAccess::ReadOnly).map_err(failed)?;
    }
    for path in sockets {
        mask_socket(path, &empty).map_err(|error| failed(error).at(path))?;
    }
    Ok(locks)
}

/// That each place is one that can be held, and that no two are the same.
fn check(wanted: &Containment) -> Result<(), StartFailure> {
    let placed = placed(wanted).collect::<Vec<_>>();
    for (at, path) in placed.iter().enumerate() {
        let own = ["/dev", "/proc", "/run"].map(Path::new);
        if own.contains(path) || placed[..at].contains(path) {
            let refused = io::Error::from(Errno::INVAL);
            return Err(StartFailure::of(ContainmentPart::Places, &refused).at(path));
        }
    }
    for path in &wanted.masks {
        if !is_plain(path) || depth(path) < 2 {
            let refused = io::Error::from(Errno::INVAL);
            return Err(StartFailure::of(ContainmentPart::Places, &refused).at(path));
        }
    }
    Ok(())
}

fn placed(wanted: &Containment) -> impl Iterator<Item = &Path> {
    let layers = wanted.layers.iter().map(|it| &it.lower);
    let others = wanted.write.iter().chain(&wanted.read);
    layers.chain(others).map(PathBuf::as_path)
}

fn is_placed(wanted: &Containment, path: &Path) -> bool {
    placed(wanted).any(|it| it == path)
}

/// Hides what a path leads to, if there is something. Returns where that is, if something is to be seen in it all the same.
fn mask(path: &Path, empty: &EmptyMasks, programs: &[PlacedMount]) -> io::Result<Option<PathBuf>> {
    let Some(target) = there(path, OFlags::empty())? else {
        return Ok(None);
    };
    let is_directory = FileType::from_raw_mode(fstat(&target)?.st_mode) == FileType::Directory;
    // A program stands where no link leads, and so does what hides it.
    let has_room = is_directory && !programs.is_empty();
    let real = has_room.then(|| std::fs::canonicalize(path)).transpose()?;
    if let Some(real) = real.filter(|real| programs.iter().any(|it| it.at.starts_with(real))) {
        put(own_trees::empty_with_room()?, target)?;
        return Ok(Some(real));
    }
    hide(target, is_directory, empty)?;
    Ok(None)
}

fn there(path: &Path, how: OFlags) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | how;
    match openat(CWD, path, flags, Mode::empty()) {
        Ok(target) => Ok(Some(target)),
        // Where we cannot go, what we start cannot either.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn hide(target: OwnedFd, is_directory: bool, empty: &EmptyMasks) -> io::Result<()> {
    let source = if is_directory {
        &empty.directory
    } else {
        &empty.file
    };
    put(copy(source, OpenTreeFlags::empty())?, target)
}

fn mask_socket(path: &Path, empty: &EmptyMasks) -> io::Result<()> {
    let about = rustix::fs::lstat(path);
    let is_socket = about.is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::Socket);
    if !is_socket {
        return Ok(());
    }
    let Some(target) = there(path, OFlags::NOFOLLOW)? else {
        return Ok(());
    };
    match hide(target, false, empty) {
        // Whoever bound it has just removed it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        hidden => hidden,
    }
}
