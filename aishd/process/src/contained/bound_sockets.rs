//! Sockets with a path that somebody outside has bound. A program that may only read still connects to them, so they are masked.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// The kernel's list, of the network namespace that reads it.
const LIST: &str = "/proc/self/net/unix";
/// Whoever binds more by paths that are not absolute hides from us.
const MOST_RELATIVE: usize = 256;

/// Those that were bound by an absolute path. Read before the network namespace is left.
pub(super) fn absolute() -> io::Result<BTreeSet<PathBuf>> {
    let list = std::fs::read(LIST)?;
    Ok(names(&list).filter(|it| it.is_absolute()).collect())
}

/// Where those are that were bound by a path that is not absolute, without links. The kernel lists such a name as it was
/// written, and not where it is. Most programs stay in the directory in which they bound it, so it is looked for there.
///
/// Looked at before there is a namespace: from inside of one nobody is told where others are.
pub(super) fn relative() -> Vec<PathBuf> {
    let list = std::fs::read(LIST).unwrap_or_default();
    let names = names(&list).filter(|it| it.is_relative());
    let names: BTreeSet<PathBuf> = names.take(MOST_RELATIVE).collect();
    if names.is_empty() {
        return vec![];
    }
    let directories = directories();
    let places = directories.iter().flat_map(|directory| {
        let all = names.iter().map(|it| directory.join(it));
        all.filter(|it| is_socket(it))
    });
    places.filter_map(|it| it.canonicalize().ok()).collect()
}

/// `number: references protocol flags type state inode path`; without a path for most, and `@` begins an abstract name, or one
/// that looks like that.
fn names(list: &[u8]) -> impl Iterator<Item = PathBuf> {
    let lines = list.split(|it| *it == b'\n').skip(1);
    lines.filter_map(|line| {
        let mut rest = line;
        for _ in 0..7 {
            let end = rest.iter().position(|it| *it == b' ')?;
            let (_, after) = rest.split_at(end);
            let begin = after.iter().position(|it| *it != b' ')?;
            rest = &after[begin..];
        }
        (!rest.starts_with(b"@")).then(|| PathBuf::from(OsStr::from_bytes(rest)))
    })
}

/// Where processes are, as far as we may know.
fn directories() -> BTreeSet<PathBuf> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = all.filter(|it| it.file_name().as_bytes().iter().all(u8::is_ascii_digit));
    processes
        .filter_map(|it| std::fs::read_link(it.path().join("cwd")).ok())
        .collect()
}

fn is_socket(path: &Path) -> bool {
    path.symlink_metadata()
        .is_ok_and(|it| it.file_type().is_socket())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_sockets_with_a_path() {
        let list = b"\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 21057 /run/a b.sock
0000000000000000: 00000003 00000000 00000000 0001 03   258
0000000000000000: 00000003 00000000 00000000 0001 03 21058
0000000000000000: 00000002 00000000 00010000 0001 01 21059 @/tmp/.X11-unix/X0
0000000000000000: 00000002 00000000 00010000 0001 01   260 relative/a b
0000000000000000: 00000002 00000000 00010000 0001 01 21061 s
";
        let expected = ["/run/a b.sock", "relative/a b", "s"].map(PathBuf::from);
        assert_eq!(expected.to_vec(), names(list).collect::<Vec<_>>());
    }
}
