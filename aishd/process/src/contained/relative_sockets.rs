//! Sockets that somebody has bound by a path that is not absolute. The kernel lists such a name as it was written, and not where
//! it is. Most programs stay in the directory in which they bound it, so it is looked for there.
//!
//! Looked at before there is a namespace: from inside of one nobody is told where others are.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

/// Whoever binds more than that hides from us.
const MOST_NAMES: usize = 256;

/// Those that were found, without links.
pub(super) fn places() -> Vec<PathBuf> {
    let list = std::fs::read("/proc/self/net/unix").unwrap_or_default();
    let names = names(&list);
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

/// The fields before a name are seven. What begins with `@` has no path, or looks as if it had none.
fn names(list: &[u8]) -> BTreeSet<PathBuf> {
    let lines = list.split(|it| *it == b'\n').skip(1);
    let names = lines.filter_map(|line| {
        let mut rest = line;
        for _ in 0..7 {
            let end = rest.iter().position(|it| *it == b' ')?;
            let (_, after) = rest.split_at(end);
            let begin = after.iter().position(|it| *it != b' ')?;
            rest = &after[begin..];
        }
        let is_relative = !rest.starts_with(b"/") && !rest.starts_with(b"@");
        is_relative.then(|| PathBuf::from(OsStr::from_bytes(rest)))
    });
    names.take(MOST_NAMES).collect()
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
    fn names_are_those_of_paths_that_are_not_absolute() {
        let list = b"\
Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 21057 /run/a.sock
0000000000000000: 00000003 00000000 00000000 0001 03   258
0000000000000000: 00000003 00000000 00000000 0001 03 21058
0000000000000000: 00000002 00000000 00010000 0001 01 21059 @/tmp/.X11-unix/X0
0000000000000000: 00000002 00000000 00010000 0001 01   260 relative/a b
0000000000000000: 00000002 00000000 00010000 0001 01 21061 s
";
        let expected = ["relative/a b", "s"].map(PathBuf::from);
        assert_eq!(BTreeSet::from(expected), names(list));
    }
}
