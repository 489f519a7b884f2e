//! The mounts of this process as the kernel lists them, and making them read-only one by one.
//!
//! One call for all of them (`mount_setattr`) has no safe form in Rust. A remount in a user namespace has to repeat every
//! flag that the mount has, because flags that came from outside are locked.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::{fs, io};

use rustix::io::Errno;
use rustix::mount::{MountFlags, mount_remount};

/// How what is mounted in a place is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MountAccess {
    ReadOnly,
    /// As it was; no devices and no set-user-ID programs, as everywhere.
    AsItIs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ListedMount {
    id: u64,
    parent: u64,
    point: PathBuf,
    flags: MountFlags,
}

/// Where something is mounted, as this process sees it.
pub fn mount_points() -> io::Result<Vec<PathBuf>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(parse(&table).into_iter().map(|it| it.point).collect())
}

/// Holds everything that is mounted at this path or below it.
pub(super) fn hold(below: &Path, access: MountAccess) -> io::Result<()> {
    let table = fs::read("/proc/self/mountinfo")?;
    for it in visible(&parse(&table)) {
        if !it.point.starts_with(below) {
            continue;
        }
        let mut flags = it.flags | MountFlags::NODEV | MountFlags::NOSUID;
        match access {
            MountAccess::ReadOnly => flags |= MountFlags::RDONLY,
            MountAccess::AsItIs => {}
        }
        if flags == it.flags {
            continue;
        }
        match mount_remount(&it.point, flags | MountFlags::BIND, "") {
            // Where we cannot go, what we start cannot either; or it is gone already.
            Ok(()) | Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn parse(table: &[u8]) -> Vec<ListedMount> {
    let lines = table.split(|it| *it == b'\n');
    lines.filter_map(mount).collect()
}

/// `id parent major:minor root point options …`
fn mount(line: &[u8]) -> Option<ListedMount> {
    let mut fields = line.split(|it| *it == b' ');
    let mut number = || str::from_utf8(fields.next()?).ok()?.parse().ok();
    let (id, parent) = (number()?, number()?);
    let point = unescaped(fields.nth(2)?);
    let options = str::from_utf8(fields.next()?).ok()?;
    Some(ListedMount {
        id,
        parent,
        point: PathBuf::from(point),
        flags: flags(options),
    })
}

/// Space, tab, line feed and backslash are three octal digits there.
fn unescaped(field: &[u8]) -> OsString {
    let mut bytes = vec![];
    let mut at = 0;
    while let Some(byte) = field.get(at) {
        let digits = field.get(at + 1..at + 4).filter(|_| *byte == b'\\');
        let code = digits.and_then(|it| u8::from_str_radix(str::from_utf8(it).ok()?, 8).ok());
        bytes.push(code.unwrap_or(*byte));
        at += if code.is_some() { 4 } else { 1 };
    }
    OsString::from_vec(bytes)
}

fn flags(options: &str) -> MountFlags {
    let mut flags = MountFlags::empty();
    for option in options.split(',') {
        flags |= match option {
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            "nosymfollow" => MountFlags::NOSYMFOLLOW,
            _not_of_the_mount => MountFlags::empty(),
        };
    }
    if !flags.intersects(MountFlags::NOATIME | MountFlags::RELATIME) {
        flags |= MountFlags::STRICTATIME;
    }
    flags
}

/// What a path can lead to: not what another mount, at the same path or further up, lies over.
fn visible(all: &[ListedMount]) -> Vec<&ListedMount> {
    let mut children: BTreeMap<u64, Vec<&ListedMount>> = BTreeMap::new();
    for it in all.iter().filter(|it| it.id != it.parent) {
        children.entry(it.parent).or_default().push(it);
    }
    let is_known = |id| all.iter().any(|it| it.id == id);
    let mut found: Vec<&ListedMount> = all
        .iter()
        .filter(|it| it.id == it.parent || !is_known(it.parent))
        .collect();
    let mut seen = vec![];
    while let Some(it) = found.pop() {
        let on_it = children.remove(&it.id).unwrap_or_default();
        let point = |it: &ListedMount| it.point.as_os_str().to_owned();
        // Of two on one mount, the later one that is further up lies over the other.
        let covers = |upper: &ListedMount, lower: &ListedMount| {
            upper.id != lower.id && lower.point.starts_with(&upper.point)
        };
        let shown = on_it
            .iter()
            .filter(|lower| !on_it.iter().any(|upper| covers(upper, lower)));
        if !on_it.iter().any(|over| point(over) == point(it)) {
            seen.push(it);
        }
        found.extend(shown.copied());
    }
    seen
}

/// How many directories lead to a path.
pub(super) fn depth(path: &Path) -> usize {
    path.components().count()
}

/// Whether a path can be given to the kernel as it is: from the root, without `..`.
pub(super) fn is_plain(path: &Path) -> bool {
    path.is_absolute()
        && path
            .components()
            .all(|it| it != std::path::Component::ParentDir)
        && !OsStr::as_bytes(path.as_os_str()).contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
22 27 0:21 / /proc rw,nosuid,nodev,noexec,relatime shared:1 - proc proc rw
24 27 0:6 / /dev rw - devtmpfs devtmpfs rw,size=12334432k
25 24 0:23 / /dev/shm rw,relatime - tmpfs tmpfs rw
27 1 254:0 / / rw,noatime - ext4 /dev/vda rw
30 25 0:27 / /dev/shm rw,relatime - tmpfs tmpfs rw
40 27 0:30 / /a\\040b ro,nosymfollow - tmpfs tmpfs rw
41 27 0:31 / /x/y rw,relatime - tmpfs tmpfs rw
42 27 0:32 / /x rw,relatime - tmpfs tmpfs rw
43 41 0:33 / /x/y/z rw,relatime - tmpfs tmpfs rw
";

    #[test]
    fn what_lies_under_another_mount_is_not_remounted_through_it() {
        let all = parse(TABLE);
        let mut ids: Vec<u64> = visible(&all).iter().map(|it| it.id).collect();
        ids.sort_unstable();
        assert_eq!(vec![22, 24, 27, 30, 40, 42], ids);
    }

    #[test]
    fn flags_and_names_are_read_as_the_kernel_writes_them() {
        let all = parse(TABLE);
        let of = |id| all.iter().find(|it| it.id == id).unwrap();
        let proc = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
        assert_eq!(proc | MountFlags::RELATIME, of(22).flags);
        assert_eq!(MountFlags::STRICTATIME, of(24).flags);
        assert_eq!(MountFlags::NOATIME, of(27).flags);
        assert_eq!(Path::new("/a b"), of(40).point);
        let odd = MountFlags::RDONLY | MountFlags::NOSYMFOLLOW | MountFlags::STRICTATIME;
        assert_eq!(odd, of(40).flags);
    }
}
