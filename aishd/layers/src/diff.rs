//! Lines that a file gained and lost. Its text is a command's: it is bounded here, and escaped by who shows it.

use std::io::{self, Read as _};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use similar::{ChangeTag, TextDiff};

use crate::change_kind::ChangeKind;
use crate::node::{self, NodeKind};
use crate::rel_path::RelPath;
use crate::tree::Tree;
use crate::upper::UpperEntry;

/// After this a diff is made of whole blocks: there are texts that take minutes otherwise.
pub(crate) const DIFF_TIME: Duration = Duration::from_millis(200);
pub(crate) const CONTEXT_LINES: usize = 3;

/// How the text of a file changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextChange {
    Lines {
        added: u64,
        removed: u64,
    },
    /// It is no text, on one side at least.
    Binary,
    /// It was not read: larger than the bound, or all that may be read was read.
    Large,
}

impl TextChange {
    pub(crate) fn read_bytes(self, found: &UpperEntry<'_>) -> u64 {
        match self {
            Self::Large => 0,
            Self::Lines { .. } | Self::Binary => {
                found.meta.size + found.lower.map_or(0, |lower| lower.size)
            }
        }
    }
}

/// `None` for what has no text of its own.
pub(crate) fn text_change(
    found: &UpperEntry<'_>,
    kind: ChangeKind,
    bytes: u64,
) -> io::Result<Option<TextChange>> {
    let with_content = [
        ChangeKind::Created,
        ChangeKind::Modified,
        ChangeKind::Removed,
        ChangeKind::Replaced,
    ];
    if !with_content.contains(&kind) {
        return Ok(None);
    }
    let was_file = found.lower.is_some_and(|lower| lower.is(NodeKind::File));
    if !was_file && !found.meta.is(NodeKind::File) {
        return Ok(None);
    }
    let new = read_at(Some(found.upper_dir), found.name, bytes)?;
    let old = read_at(found.lower_dir, found.name, bytes)?;
    let counted = match (old, new) {
        (Side::Large, _) | (_, Side::Large) => TextChange::Large,
        (Side::Binary, _) | (_, Side::Binary) => TextChange::Binary,
        (old, new) => {
            let (old, new) = (old.text(), new.text());
            let diff = TextDiff::configure()
                .timeout(DIFF_TIME)
                .diff_lines(&*old, &*new);
            let count = |tag| {
                diff.iter_all_changes()
                    .filter(|line| line.tag() == tag)
                    .count() as u64
            };
            TextChange::Lines {
                added: count(ChangeTag::Insert),
                removed: count(ChangeTag::Delete),
            }
        }
    };
    Ok(Some(counted))
}

/// One side of a diff.
#[derive(Debug)]
pub(crate) enum Side {
    /// No file is there.
    Absent,
    Text(String),
    Binary,
    Large,
}

impl Side {
    fn text(self) -> String {
        match self {
            Self::Text(text) => text,
            Self::Absent | Self::Binary | Self::Large => String::new(),
        }
    }
}

pub(crate) fn read_side(tree: &Tree, path: &RelPath, bytes: u64) -> io::Result<Side> {
    match tree.place(path)? {
        Some((dir, name)) => read_at(Some(std::os::fd::AsFd::as_fd(&*dir)), name, bytes),
        None => Ok(Side::Absent),
    }
}

/// Both sides, where both can be shown; what is not there is empty.
pub(crate) fn texts(old: Side, new: Side) -> Option<(String, String)> {
    let shown = |side: &Side| matches!(side, Side::Absent | Side::Text(_));
    (shown(&old) && shown(&new)).then(|| (old.text(), new.text()))
}

fn read_at(dir: Option<BorrowedFd<'_>>, name: &[u8], bytes: u64) -> io::Result<Side> {
    let Some(dir) = dir else {
        return Ok(Side::Absent);
    };
    match node::meta_at(dir, name)? {
        Some(meta) if meta.is(NodeKind::File) && meta.size > bytes => return Ok(Side::Large),
        Some(meta) if meta.is(NodeKind::File) => {}
        _ => return Ok(Side::Absent),
    }
    let mut content = Vec::new();
    match node::open_file(dir, name) {
        Ok(file) => file.take(bytes + 1).read_to_end(&mut content)?,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Side::Large),
        Err(error) => return Err(error),
    };
    if content.len() as u64 > bytes {
        return Ok(Side::Large);
    }
    if content.contains(&0) {
        return Ok(Side::Binary);
    }
    Ok(Side::Text(match String::from_utf8(content) {
        Ok(text) => text,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    }))
}
