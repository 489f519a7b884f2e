//! The directories that a contained child has for itself: `/dev`, `/tmp`, `/run` and `/proc`, and the empty ones that masks
//! are made of.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_string, fsmount, fsopen, mount, mount_bind, mount_remount,
};
use rustix::process::geteuid;

use super::placed::{copy, put};

/// Devices that every program takes for granted and that lead nowhere.
const DEVICES: [&str; 5] = ["null", "zero", "full", "random", "urandom"];
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
/// What of `/proc` is not about processes and can be written by root without any capability.
const MACHINE: [&str; 8] = [
    "sys",
    "sysrq-trigger",
    "irq",
    "bus",
    "fs",
    "acpi",
    "scsi",
    "driver",
];
/// Files of the system that may be links into `/run`.
const NAMES: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

const NO_PROGRAMS: MountFlags = MountFlags::NOSUID
    .union(MountFlags::NODEV)
    .union(MountFlags::NOEXEC);
const NO_PRIVILEGES: MountFlags = MountFlags::NOSUID.union(MountFlags::NODEV);

/// What is taken along from outside.
pub(super) struct BroughtAlong {
    devices: Vec<(&'static str, OwnedFd)>,
    /// Links at the top of `/run`, which lead elsewhere (NixOS has its programs behind one).
    links: Vec<(PathBuf, PathBuf)>,
    /// What names are looked up with, as it is now: the directory may have the socket of a resolver in it.
    names: Vec<(PathBuf, Vec<u8>)>,
}

/// An empty directory, and an empty file that nobody can open.
pub(super) struct EmptyMasks {
    pub(super) directory: OwnedFd,
    pub(super) file: OwnedFd,
}

pub(super) fn bring() -> io::Result<BroughtAlong> {
    let mut devices = vec![];
    for name in DEVICES {
        match opened(&Path::new("/dev").join(name)) {
            Ok(device) => devices.push((name, copy(device, OpenTreeFlags::empty())?)),
            // One container has no /dev/full; a program that wants it says so.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    let top = fs::read_dir("/run").into_iter().flatten().flatten();
    let links = top.filter_map(|it| Some((it.path(), fs::read_link(it.path()).ok()?)));
    let names = NAMES.iter().filter_map(|it| {
        let real = fs::canonicalize(it).ok()?;
        let text = real.starts_with("/run").then(|| fs::read(&real).ok())??;
        Some((real, text))
    });
    Ok(BroughtAlong {
        devices,
        links: links.collect(),
        names: names.collect(),
    })
}

impl EmptyMasks {
    /// They are mounted where the child's own devices come next, and are out of sight then.
    pub(super) fn make() -> io::Result<Self> {
        let size = c"mode=0755,size=64k";
        mount("tmpfs", "/dev", "tmpfs", NO_PROGRAMS, size)?;
        DirBuilder::new().mode(0o555).create("/dev/directory")?;
        let unreadable = File::options()
            .write(true)
            .create_new(true)
            .mode(0o000)
            .open("/dev/file")?;
        // What somebody has open to write does not become read-only.
        drop(unreadable);
        let read_only = NO_PROGRAMS | MountFlags::RDONLY | MountFlags::BIND;
        mount_remount("/dev", read_only, "")?;
        Ok(Self {
            directory: opened(Path::new("/dev/directory"))?,
            file: opened(Path::new("/dev/file"))?,
        })
    }
}

/// Devices without any that leads somewhere: no terminal but those that the child makes.
pub(super) fn own_devices(brought: &BroughtAlong) -> io::Result<()> {
    let dev = Path::new("/dev");
    mount("tmpfs", dev, "tmpfs", NO_PROGRAMS, c"mode=0755,size=64k")?;
    for (name, device) in &brought.devices {
        let target = dev.join(name);
        drop(File::create_new(&target)?);
        put(device, opened(&target)?)?;
    }
    for (name, target) in DEVICE_LINKS {
        symlink(target, dev.join(name))?;
    }
    for name in ["pts", "shm"] {
        fs::create_dir(dev.join(name))?;
    }
    let terminals = c"newinstance,ptmxmode=0666,mode=0620";
    let no_programs = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", dev.join("pts"), "devpts", no_programs, terminals)?;
    mount(
        "tmpfs",
        dev.join("shm"),
        "tmpfs",
        NO_PRIVILEGES,
        c"mode=1777",
    )?;
    let read_only = NO_PROGRAMS | MountFlags::RDONLY | MountFlags::BIND;
    Ok(mount_remount(dev, read_only, "")?)
}

/// An empty directory in which something can be put in place, by us and not by the child.
pub(super) fn empty_with_room() -> io::Result<OwnedFd> {
    let tree = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(&tree, "mode", "0555")?;
    fsconfig_set_string(&tree, "size", "64k")?;
    fsconfig_create(&tree)?;
    let held = MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    Ok(fsmount(&tree, FsMountFlags::FSMOUNT_CLOEXEC, held)?)
}

pub(super) fn own_temporary() -> io::Result<()> {
    Ok(mount(
        "tmpfs",
        "/tmp",
        "tmpfs",
        NO_PRIVILEGES,
        c"mode=1777",
    )?)
}

/// Without the sockets through which others do what one asks them to.
pub(super) fn own_run(brought: &BroughtAlong) -> io::Result<()> {
    let run = Path::new("/run");
    if !run.is_dir() {
        return Ok(());
    }
    mount("tmpfs", run, "tmpfs", NO_PRIVILEGES, c"mode=0755")?;
    for (path, target) in &brought.links {
        symlink(target, path)?;
    }
    for (path, text) in &brought.names {
        fs::create_dir_all(path.parent().unwrap_or(run))?;
        fs::write(path, text)?;
    }
    let runtime = run.join("user").join(geteuid().as_raw().to_string());
    fs::create_dir_all(run.join("user"))?;
    DirBuilder::new().mode(0o700).create(runtime)
}

/// Mounts the view of this pid namespace.
pub(super) fn own_processes() -> io::Result<()> {
    let proc = Path::new("/proc");
    mount("proc", proc, "proc", NO_PROGRAMS, None)?;
    super::namespaces::forbid_more()?;
    for name in MACHINE {
        let path = proc.join(name);
        match mount_bind(&path, &path) {
            Ok(()) => {
                let read_only = NO_PROGRAMS | MountFlags::RDONLY | MountFlags::BIND;
                mount_remount(&path, read_only, "")?;
            }
            Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn opened(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Ok(openat(CWD, path, flags, Mode::empty())?)
}
