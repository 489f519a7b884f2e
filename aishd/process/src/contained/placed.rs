//! What a child may write or has to see: overlays and directories as they are, made while everything is still as it was
//! outside and put in place when the rest is read-only.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fd::{AsFd, AsRawFd as _, OwnedFd};
use rustix::fs::{CWD, FlockOperation, Mode, OFlags, ResolveFlags, flock, openat2};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};

use super::mount_table::{self, MountAccess, depth, is_plain};
use super::{Containment, ContainmentPart, WriteLayer};
use crate::spec::StartFailure;

/// How long an earlier child of a layer has to end: it may have been asked to a moment ago.
const LAYER_WAIT: Duration = Duration::from_secs(4);
const LAYER_PAUSE: Duration = Duration::from_millis(1);

/// Something that can be mounted, and where.
pub(super) struct PlacedMount {
    pub(super) at: PathBuf,
    mount: OwnedFd,
    is_directory: bool,
    access: MountAccess,
}

/// What has been opened for a child, in the order in which it comes to its place.
pub(super) struct PreparedMounts {
    /// Beneath the masks.
    pub(super) places: Vec<PlacedMount>,
    /// Over them.
    pub(super) programs: Vec<PlacedMount>,
}

/// As long as this is held, no other child has one of these layers.
pub(super) struct LayerLocks {
    _held: Vec<OwnedFd>,
}

/// Makes all that a containment lets be written or seen, those further up first.
pub(super) fn prepare(wanted: &Containment) -> Result<(PreparedMounts, LayerLocks), StartFailure> {
    let mut all = vec![];
    let mut held = vec![];
    for layer in &wanted.layers {
        let failed = |stage| {
            move |error: io::Error| StartFailure::of(stage, &error).at(layer.lower.as_path())
        };
        let directories = LayerDirectories::open(layer).map_err(failed(ContainmentPart::Places))?;
        held.push(lock(&layer.work).map_err(failed(ContainmentPart::LayerInUse))?);
        let mount = overlay(&directories).map_err(failed(ContainmentPart::Overlay))?;
        all.push(PlacedMount {
            at: layer.lower.clone(),
            mount,
            is_directory: true,
            access: MountAccess::AsItIs,
        });
    }
    let write = wanted.write.iter().map(|it| (it, MountAccess::AsItIs));
    let read = wanted.read.iter().map(|it| (it, MountAccess::ReadOnly));
    for (path, access) in write.chain(read) {
        all.push(as_it_is(path, access)?);
    }
    let programs = wanted.programs.iter();
    let programs = programs.map(|it| as_it_is(it, MountAccess::ReadOnly));
    let mut programs = programs.collect::<Result<Vec<_>, _>>()?;
    for list in [&mut all, &mut programs] {
        list.sort_by_key(|it| depth(&it.at));
    }
    let prepared = PreparedMounts {
        places: all,
        programs,
    };
    Ok((prepared, LayerLocks { _held: held }))
}

fn as_it_is(path: &Path, access: MountAccess) -> Result<PlacedMount, StartFailure> {
    let failed = |error: io::Error| StartFailure::of(ContainmentPart::Places, &error).at(path);
    let place = straight(path).map_err(failed)?;
    let about = rustix::fs::fstat(&place).map_err(|error| failed(error.into()))?;
    let kind = rustix::fs::FileType::from_raw_mode(about.st_mode);
    Ok(PlacedMount {
        at: path.to_owned(),
        mount: copy(&place, OpenTreeFlags::AT_RECURSIVE).map_err(|error| failed(error.into()))?,
        is_directory: kind == rustix::fs::FileType::Directory,
        access,
    })
}

/// Puts it where it belongs.
pub(super) fn place(it: &PlacedMount) -> io::Result<()> {
    let target = match straight(&it.at) {
        // Only what is below a directory of the child's own is not there any more.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            make(it)?;
            straight(&it.at)?
        }
        target => target?,
    };
    put(&it.mount, &target)?;
    mount_table::hold(&it.at, it.access)
}

/// A way to a place in a directory of the child's own.
fn make(it: &PlacedMount) -> io::Result<()> {
    let directory = if it.is_directory {
        Some(it.at.as_path())
    } else {
        it.at.parent()
    };
    if let Some(directory) = directory {
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(directory)?;
    }
    if !it.is_directory {
        drop(File::create_new(&it.at)?);
    }
    Ok(())
}

/// Mounts it over what was opened.
pub(super) fn put(mount: impl AsFd, target: impl AsFd) -> io::Result<()> {
    let both = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    Ok(move_mount(mount, "", target, "", both)?)
}

/// What was opened, to be mounted somewhere else too.
pub(super) fn copy(place: impl AsFd, with: OpenTreeFlags) -> rustix::io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(place, "", flags | with)
}

/// Opens what stands at exactly this path: a link on the way is an error, because a child may have made it.
fn straight(path: &Path) -> io::Result<OwnedFd> {
    if !is_plain(path) || depth(path) < 2 {
        return Err(Errno::INVAL.into());
    }
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(CWD, path, flags, Mode::empty(), resolve)?)
}

struct LayerDirectories {
    lower: OwnedFd,
    upper: OwnedFd,
    work: OwnedFd,
}

impl LayerDirectories {
    fn open(layer: &WriteLayer) -> io::Result<Self> {
        Ok(Self {
            lower: straight(&layer.lower)?,
            upper: straight(&layer.upper)?,
            work: straight(&layer.work)?,
        })
    }
}

/// What the kernel does with two overlays on one upper directory is undefined.
fn lock(work: &Path) -> io::Result<OwnedFd> {
    let work = File::open(work)?;
    let until = Instant::now() + LAYER_WAIT;
    loop {
        match flock(&work, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(work.into()),
            Err(Errno::AGAIN) if Instant::now() < until => thread::sleep(LAYER_PAUSE),
            Err(error) => return Err(error.into()),
        }
    }
}

fn overlay(of: &LayerDirectories) -> io::Result<OwnedFd> {
    let overlay = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    // A value has at most 255 bytes and characters that mean something; so it is not the path itself.
    let by_number = |it: &OwnedFd| format!("/proc/self/fd/{}", it.as_raw_fd());
    fsconfig_set_string(&overlay, "lowerdir", by_number(&of.lower))?;
    fsconfig_set_string(&overlay, "upperdir", by_number(&of.upper))?;
    fsconfig_set_string(&overlay, "workdir", by_number(&of.work))?;
    fsconfig_set_flag(&overlay, "userxattr")?;
    fsconfig_create(&overlay)?;
    let held = MountAttrFlags::MOUNT_ATTR_NODEV | MountAttrFlags::MOUNT_ATTR_NOSUID;
    Ok(fsmount(&overlay, FsMountFlags::FSMOUNT_CLOEXEC, held)?)
}
