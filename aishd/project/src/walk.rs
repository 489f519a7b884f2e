//! The walk through a directory: level by level, so that what stands near the top is known whatever lies below it. No link
//! is followed, no other file system entered, and nothing opened but directories and `.gitignore`.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use aishd_turn::project::tree::{TreeDepth, TreeFolder};

use super::file_stamp::StampSet;
use super::gitignore::IgnorePatterns;

/// Entries that are looked at in all. A summary has no room for more anyway.
const MOST_ENTRIES: usize = 20_000;
/// Entries of one directory; beyond that only their number is told.
const MOST_IN_ONE: usize = 5_000;
/// Directories, each of which is looked at again before every question.
const MOST_FOLDERS: usize = 2_000;
/// Levels below the top.
const MOST_DEPTH: usize = 8;
/// A walk that takes longer tells what it has seen.
const LONGEST: Duration = Duration::from_secs(10);

/// A directory that was found, with those in it that were found later.
struct FoundDirectory {
    folder: TreeFolder,
    inner: Vec<usize>,
}

/// One that is to be looked into.
struct NextDirectory {
    at: usize,
    path: PathBuf,
    depth: usize,
    ignored: IgnorePatterns,
}

/// What can be told of it. Notes everything that has to stay as it is for that.
pub(super) fn tree(top: &Path, stamps: &mut StampSet) -> TreeFolder {
    let begun = Instant::now();
    let device = fs::metadata(top).map(|it| it.dev()).ok();
    let ignored = IgnorePatterns::above(top, stamps);
    let mut found = vec![found("", TreeDepth::Not)];
    let mut next = VecDeque::from([NextDirectory {
        at: 0,
        path: top.to_path_buf(),
        depth: 0,
        ignored,
    }]);
    let (mut entries, mut folders) = (0, 0);
    while let Some(NextDirectory {
        at,
        path,
        depth,
        ignored,
    }) = next.pop_front()
    {
        let enough = entries >= MOST_ENTRIES || folders >= MOST_FOLDERS;
        let too_deep = depth > MOST_DEPTH || begun.elapsed() > LONGEST;
        let elsewhere = fs::symlink_metadata(&path).map(|it| it.dev()).ok() != device;
        if enough || too_deep || (elsewhere && depth > 0) {
            continue;
        }
        folders += 1;
        stamps.note(&path);
        let ignored = ignored.within(&path, stamps);
        let (looked_at, level) = level(&path, &ignored);
        entries += looked_at;
        let Some(level) = level else { continue };
        found[at].folder.seen = level.seen;
        found[at].folder.files = level.files;
        for name in level.folders {
            let inner = found.len();
            found.push(self::found(&name, TreeDepth::Not));
            found[at].inner.push(inner);
            next.push_back(NextDirectory {
                at: inner,
                path: path.join(&name),
                depth: depth + 1,
                ignored: ignored.clone(),
            });
        }
    }
    if found[0].folder.seen == TreeDepth::Not {
        // It is not there, or not ours to read.
        return TreeFolder::default();
    }
    joined(found)
}

fn found(name: &str, seen: TreeDepth) -> FoundDirectory {
    FoundDirectory {
        folder: TreeFolder {
            seen,
            ..TreeFolder::of(name, vec![])
        },
        inner: vec![],
    }
}

/// Each into the one that it was found in, which stands before it.
fn joined(found: Vec<FoundDirectory>) -> TreeFolder {
    let mut whole: Vec<Option<TreeFolder>> = found.iter().map(|_| None).collect();
    for (at, FoundDirectory { mut folder, inner }) in found.into_iter().enumerate().rev() {
        folder.folders = inner.iter().filter_map(|it| whole[*it].take()).collect();
        whole[at] = Some(folder);
    }
    whole.first_mut().and_then(Option::take).unwrap_or_default()
}

/// The entries of one directory, in their order.
#[derive(Default)]
struct DirectoryLevel {
    folders: Vec<String>,
    files: Vec<String>,
    seen: TreeDepth,
}

/// How many entries were looked at, and what they are; `None`: it cannot be read.
fn level(path: &Path, ignored: &IgnorePatterns) -> (usize, Option<DirectoryLevel>) {
    let Ok(entries) = fs::read_dir(path) else {
        return (0, None);
    };
    let mut level = DirectoryLevel::default();
    let mut looked_at = 0;
    for entry in entries.flatten() {
        looked_at += 1;
        if looked_at > MOST_IN_ONE {
            // In which order they come is not ours to say.
            let many = DirectoryLevel {
                seen: TreeDepth::Many(MOST_IN_ONE),
                ..DirectoryLevel::default()
            };
            return (looked_at, Some(many));
        }
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let is_folder = entry.file_type().is_ok_and(|it| it.is_dir());
        if ignored.has(&entry.path(), is_folder) {
            continue;
        }
        match (is_folder, name.into_string()) {
            (true, Ok(name)) => level.folders.push(name),
            (false, Ok(name)) => level.files.push(name),
            // Nobody could ask for it by such a name.
            (_, Err(_)) => {}
        }
    }
    level.folders.sort_unstable();
    level.files.sort_unstable();
    (looked_at, Some(level))
}
