//! Random trees and random operations on them, and all that two trees must have in common.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::node;
use crate::rel_path::{Escaped, RelPath};
use crate::xattr;

/// splitmix64
pub(super) struct Chance(pub(super) u64);

impl Chance {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(super) fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.bits() % end as u64).unwrap()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Operation {
    Write(RelPath, String),
    Append(RelPath, String),
    Truncate(RelPath, u64),
    Sparse(RelPath, u64),
    Mode(RelPath, u32),
    Xattr(RelPath, String),
    Touch(RelPath),
    Remove(RelPath),
    RemoveAll(RelPath),
    Rename(RelPath, RelPath),
    MakeDir(RelPath),
    Symlink(RelPath, String),
    HardLink(RelPath, RelPath),
    Fifo(RelPath),
}

const NAMES: [&[u8]; 9] = [
    b"a",
    b"b",
    b"c",
    b"d",
    b"e f",
    b"new\nline",
    b"\xff\xfe",
    b"-x",
    b"percent%41",
];

fn any_path(chance: &mut Chance) -> RelPath {
    let mut path = RelPath::default();
    for _ in 0..=chance.below(3) {
        path = path.join(NAMES[chance.below(NAMES.len())]);
    }
    path
}

fn any_text(chance: &mut Chance) -> String {
    (0..chance.below(30))
        .map(|_| format!("line {}\n", chance.below(1000)))
        .collect()
}

/// Hard links are made only within the layer: an overlay parts a file from its other names as it is copied up.
pub(super) fn any_operation(chance: &mut Chance, links: bool) -> Operation {
    let path = any_path(chance);
    match chance.below(18) {
        0..=2 => Operation::Write(path, any_text(chance)),
        3 => Operation::Append(path, any_text(chance)),
        4 => Operation::Truncate(path, chance.below(50) as u64),
        5 => Operation::Sparse(path, 1 << (12 + chance.below(12))),
        6 => Operation::Mode(
            path,
            [0o644, 0o600, 0o755, 0o700, 0o444, 0o555, 0o2755][chance.below(7)],
        ),
        7 => Operation::Xattr(path, any_text(chance)),
        8 => Operation::Touch(path),
        9 => Operation::Remove(path),
        10 => Operation::RemoveAll(path),
        11 | 12 => Operation::Rename(path, any_path(chance)),
        13 | 14 => Operation::MakeDir(path),
        15 => Operation::Symlink(path, format!("../{}", chance.below(5))),
        16 if links => Operation::HardLink(path, any_path(chance)),
        16 => Operation::Write(path, any_text(chance)),
        _ => Operation::Fifo(path),
    }
}

/// Does it, if it can be done; the outcome is the same in a layer and without one.
pub(super) fn perform(root: &Path, operation: &Operation) -> io::Result<()> {
    let at = |path: &RelPath| root.join(path.as_path());
    let is_file = |path: &Path| fs::symlink_metadata(path).is_ok_and(|meta| meta.is_file());
    let only_files = |path: &Path| match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => Err(io::Error::other("no file")),
        _ => Ok(()),
    };
    match operation {
        Operation::Write(path, text) => {
            only_files(&at(path)).and_then(|()| fs::write(at(path), text))
        }
        Operation::Append(path, text) => {
            only_files(&at(path))?;
            let mut file = OpenOptions::new().append(true).open(at(path))?;
            file.write_all(text.as_bytes())
        }
        Operation::Truncate(path, size) => {
            only_files(&at(path))?;
            OpenOptions::new()
                .write(true)
                .open(at(path))?
                .set_len(*size)
        }
        Operation::Sparse(path, offset) => {
            only_files(&at(path))?;
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(at(path))?;
            file.seek(SeekFrom::Start(*offset))?;
            file.write_all(b"end")
        }
        Operation::Mode(path, mode) => {
            let meta = fs::symlink_metadata(at(path))?;
            // A tree must stay one that can be walked without privilege.
            // A write of root keeps set-group-id outside of a namespace and clears it inside.
            let mode = if meta.is_dir() {
                mode | 0o700
            } else {
                mode & 0o777
            };
            if meta.is_symlink() {
                Ok(())
            } else {
                fs::set_permissions(at(path), Permissions::from_mode(mode))
            }
        }
        Operation::Xattr(path, text) => {
            let meta = fs::symlink_metadata(at(path))?;
            if meta.is_file() || meta.is_dir() {
                rustix::fs::lsetxattr(
                    at(path),
                    "user.test",
                    text.as_bytes(),
                    rustix::fs::XattrFlags::empty(),
                )?;
            }
            Ok(())
        }
        Operation::Touch(path) => only_files(&at(path)).and_then(|()| {
            let file = OpenOptions::new().write(true).open(at(path))?;
            file.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000))
        }),
        Operation::Remove(path) => fs::remove_file(at(path)).or_else(|_| fs::remove_dir(at(path))),
        Operation::RemoveAll(path) => fs::remove_dir_all(at(path)),
        Operation::Rename(from, to) => rename(&at(from), &at(to)),
        Operation::MakeDir(path) => fs::create_dir_all(at(path)),
        Operation::Symlink(path, target) => symlink(target, at(path)),
        Operation::HardLink(from, to) if is_file(&at(from)) => fs::hard_link(at(from), at(to)),
        Operation::HardLink(..) => Ok(()),
        Operation::Fifo(path) => Ok(rustix::fs::mkfifoat(
            rustix::fs::CWD,
            at(path),
            0o640.into(),
        )?),
    }
}

/// As `mv` does it: an overlay does not rename directories that were there before.
fn rename(from: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(from)?.is_dir() {
        return Ok(());
    }
    fs::rename(from, to)
}

/// All that a keep has to bring along, by path. Names of one file share a number.
pub(super) fn picture(root: &Path, times: Times) -> BTreeMap<RelPath, String> {
    let mut shown = BTreeMap::new();
    let mut groups = BTreeMap::new();
    draw(root, &RelPath::default(), times, &mut groups, &mut shown);
    shown
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Times {
    Shown,
    Hidden,
}

fn draw(
    root: &Path,
    path: &RelPath,
    times: Times,
    groups: &mut BTreeMap<u64, RelPath>,
    shown: &mut BTreeMap<RelPath, String>,
) {
    let here = root.join(path.as_path());
    let meta = fs::symlink_metadata(&here).unwrap();
    let kind = meta.file_type();
    let (dir, name) = (
        File::open(here.parent().unwrap()).unwrap(),
        here.file_name().unwrap(),
    );
    let content = if kind.is_file() {
        Escaped(fs::read(&here).unwrap())
    } else if kind.is_symlink() {
        Escaped(fs::read_link(&here).unwrap().into_os_string().into_vec())
    } else {
        Escaped(Vec::new())
    };
    let group = if kind.is_dir() {
        path.clone()
    } else {
        groups
            .entry(meta.ino())
            .or_insert_with(|| path.clone())
            .clone()
    };
    let xattrs = if kind.is_symlink() {
        None
    } else {
        Some(xattr::kept_at(&dir, name.as_bytes()).unwrap())
    };
    let overlay = xattr::has_overlay(&dir, name.as_bytes()).unwrap();
    let time = (times == Times::Shown).then_some((meta.mtime(), meta.mtime_nsec()));
    let links = if kind.is_dir() { 0 } else { meta.nlink() };
    shown.insert(
        path.clone(),
        format!(
            "{:o} {}:{} links {links} {group:?} {content:?} {xattrs:?} overlay {overlay} {time:?}",
            meta.mode(),
            meta.uid(),
            meta.gid()
        ),
    );
    if kind.is_dir() {
        for name in node::names(File::open(&here).unwrap()).unwrap() {
            draw(root, &path.join(&name), times, groups, shown);
        }
    }
}

pub(super) fn difference(
    one: &BTreeMap<RelPath, String>,
    other: &BTreeMap<RelPath, String>,
) -> Option<String> {
    let mut all: Vec<_> = one.keys().chain(other.keys()).collect();
    all.sort();
    let differs = all
        .into_iter()
        .find(|path| one.get(*path) != other.get(*path))?;
    Some(format!(
        "{differs:?}:\n  {:?}\n  {:?}",
        one.get(differs),
        other.get(differs)
    ))
}

pub(super) fn copy(from: &Path, to: &Path) {
    let done = std::process::Command::new("cp")
        .arg("-a")
        .arg(from)
        .arg(to)
        .status()
        .unwrap();
    assert!(done.success());
}
