//! What a contained child sees of the file system, made in the mount namespace of its first process: everything read-only,
//! over it what is the child's own, over that what it may write, and masks last.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, OpenTreeFlags, mount_change};

use super::mount_table::{self, MountAccess, depth, is_plain};
use super::own_trees::{self, EmptyMasks};
use super::placed::{self, LayerLocks, copy, put};
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

/// Sockets with a path that somebody outside has bound. A program that may only read still connects to them, so they are
/// masked. Read before the network namespace is left, of which this is the list.
pub(super) fn sockets() -> io::Result<Vec<PathBuf>> {
    let list = std::fs::read("/proc/self/net/unix")?;
    Ok(bound(&list))
}

/// `number: references protocol flags type state inode path`; without a path for most, and `@` begins an abstract name.
fn bound(list: &[u8]) -> Vec<PathBuf> {
    let paths = list.split(|it| *it == b'\n').filter_map(|line| {
        let start = line.iter().position(|it| *it == b'/')?;
        let before = line[..start].split(|it| *it == b' ');
        let fields = before.filter(|it| !it.is_empty()).count();
        (fields == 7).then(|| PathBuf::from(OsStr::from_bytes(&line[start..])))
    });
    let mut all: Vec<PathBuf> = paths.collect();
    all.sort();
    all.dedup();
    all
}

/// Arranges all of it. What is returned has to be held as long as the child lives.
pub(super) fn arrange(
    wanted: &Containment,
    sockets: &[PathBuf],
) -> Result<LayerLocks, StartFailure> {
    let failed = |error: io::Error| StartFailure::of(ContainmentPart::Mounts, &error);
    check(wanted)?;
    let alone = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", alone).map_err(|error| failed(error.into()))?;
    let (writable, locks) = placed::prepare(wanted)?;
    let brought = own_trees::bring().map_err(failed)?;
    mount_table::hold(Path::new("/"), MountAccess::ReadOnly).map_err(failed)?;
    let empty = EmptyMasks::make().map_err(failed)?;
    own_trees::own_devices(&brought).map_err(failed)?;
    if !is_written(wanted, Path::new("/tmp")) {
        own_trees::own_temporary().map_err(failed)?;
    }
    own_trees::own_run(&brought).map_err(failed)?;
    for it in &writable {
        placed::place(it).map_err(failed)?;
    }
    own_trees::own_processes()
        .map_err(|error| StartFailure::of(ContainmentPart::Processes, &error))?;
    let ours = wanted.layers.iter().flat_map(|it| [&it.upper, &it.work]);
    let masks = wanted.masks.iter().chain(ours).map(PathBuf::as_path);
    for path in MACHINE.map(Path::new).into_iter().chain(masks) {
        mask(path, &empty, OFlags::empty()).map_err(|error| failed(error).at(path))?;
    }
    for path in sockets {
        mask_socket(path, &empty).map_err(|error| failed(error).at(path))?;
    }
    Ok(locks)
}

/// That each place is one that can be held, and that no two are the same.
fn check(wanted: &Containment) -> Result<(), StartFailure> {
    let written = written(wanted).collect::<Vec<_>>();
    for (at, path) in written.iter().enumerate() {
        let own = ["/dev", "/proc", "/run"].map(Path::new);
        if own.contains(path) || written[..at].contains(path) {
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

fn written(wanted: &Containment) -> impl Iterator<Item = &Path> {
    let layers = wanted.layers.iter().map(|it| it.lower.as_path());
    layers.chain(wanted.write.iter().map(PathBuf::as_path))
}

fn is_written(wanted: &Containment, path: &Path) -> bool {
    written(wanted).any(|it| it == path)
}

/// Hides what a path leads to, if there is something.
fn mask(path: &Path, empty: &EmptyMasks, how: OFlags) -> io::Result<()> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | how;
    let target = match openat(CWD, path, flags, Mode::empty()) {
        Ok(target) => target,
        // Where we cannot go, what we start cannot either.
        Err(Errno::NOENT | Errno::NOTDIR | Errno::ACCESS | Errno::LOOP) => return Ok(()),
        Err(error) => return Err(error.into()),
    };
    let source = match FileType::from_raw_mode(fstat(&target)?.st_mode) {
        FileType::Directory => &empty.directory,
        _any_other => &empty.file,
    };
    put(copy(source, OpenTreeFlags::empty())?, target)
}

fn mask_socket(path: &Path, empty: &EmptyMasks) -> io::Result<()> {
    let about = rustix::fs::lstat(path);
    let is_socket = about.is_ok_and(|it| FileType::from_raw_mode(it.st_mode) == FileType::Socket);
    if !is_socket {
        return Ok(());
    }
    mask(path, empty, OFlags::NOFOLLOW)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_those_with_a_path() {
        let list = b"\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 21057 /run/a b.sock
0000000000000000: 00000002 00000000 00010000 0001 01 21057 /run/a b.sock
0000000000000000: 00000003 00000000 00000000 0001 03 21058
0000000000000000: 00000002 00000000 00010000 0001 01 21059 @/tmp/.X11-unix/X0
0000000000000000: 00000002 00000000 00010000 0001 01 21060 relative/x
";
        assert_eq!(vec![PathBuf::from("/run/a b.sock")], bound(list));
    }
}
