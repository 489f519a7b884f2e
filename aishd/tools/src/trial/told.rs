//! What a trial changed, as people are told: names are a stranger's text, and so is what stands in the files.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use aishd_layers::{Change, ChangeKind, Changes, LayerSet, ReadBounds, RelPath, TextChange};
use aishd_log::invisible_characters::is_hidden;
use aishd_log::tried::{ChangeSummary, ChangedFile, FileChange};

/// So many changed files are told beside a question; the diff has all.
const LISTED: usize = 20;
/// What a diff shows, at most.
const DIFF_BYTES: usize = 1 << 20;

/// The difference that these changes would make, of as many files as there is room for.
pub(super) fn diff(set: &LayerSet, changes: &Changes, bounds: &ReadBounds) -> String {
    let mut out = String::new();
    for it in changes.listed.iter().filter(|it| is_told(it)) {
        let file = file(set, it);
        let what = match file.change {
            FileChange::Created => "new",
            FileChange::Modified => "changed",
            FileChange::Attributes => "mode or owner changed",
            FileChange::Removed => "removed",
            FileChange::Replaced => "replaced",
        };
        out.push_str(&format!("=== {} ({what})\n", file.path));
        if let Some(target) = &it.target {
            let target = PathBuf::from(std::ffi::OsStr::from_bytes(target));
            out.push_str(&format!("-> {}\n", visible(&target)));
        }
        let text = match it.text {
            Some(TextChange::Lines { .. }) => set.diff(it.layer, &it.path, bounds),
            Some(TextChange::Binary) => Ok(Some("(no text)\n".to_owned())),
            Some(TextChange::Large) => Ok(Some("(too large to be shown)\n".to_owned())),
            None => Ok(None),
        };
        match text {
            Ok(text) => out.push_str(&text.unwrap_or_default()),
            Err(error) => out.push_str(&format!("(cannot be read: {error})\n")),
        }
        if out.len() > DIFF_BYTES {
            out.truncate(out.floor_char_boundary(DIFF_BYTES));
            out.push_str("\n(and more)\n");
            break;
        }
    }
    if changes.unlisted > 0 {
        out.push_str(&format!("(and {} more files)\n", changes.unlisted));
    }
    out
}

/// `meanwhile`: so many paths somebody else changed while it was changed.
pub(super) fn summary(set: &LayerSet, changes: &Changes, meanwhile: u64) -> ChangeSummary {
    let told = changes.listed.iter().filter(|it| is_told(it));
    let counts = changes.counts;
    let mut refused = vec![];
    if counts.not_kept > 0 {
        refused.push(format!(
            "{} sockets and devices are left out",
            counts.not_kept
        ));
    }
    if counts.too_deep > 0 {
        refused.push(format!("{} directories are too deep", counts.too_deep));
    }
    if meanwhile > 0 {
        refused.push(format!(
            "{meanwhile} of them were changed by somebody else meanwhile"
        ));
    }
    ChangeSummary {
        listed: told.take(LISTED).map(|it| file(set, it)).collect(),
        count: counts.total() - counts.touched - counts.not_kept,
        refused,
    }
}

/// A time alone is nothing that somebody has to look at.
fn is_told(it: &Change) -> bool {
    !matches!(it.kind, ChangeKind::Touched | ChangeKind::NotKept)
}

fn file(set: &LayerSet, it: &Change) -> ChangedFile {
    ChangedFile {
        path: shown(set, it.layer, &it.path),
        change: match it.kind {
            ChangeKind::Created | ChangeKind::Linked => FileChange::Created,
            ChangeKind::Modified => FileChange::Modified,
            ChangeKind::Attributes | ChangeKind::Touched => FileChange::Attributes,
            ChangeKind::Removed => FileChange::Removed,
            ChangeKind::Replaced | ChangeKind::NotKept => FileChange::Replaced,
        },
        lines: match it.text {
            Some(TextChange::Lines { added, removed }) => Some((added, removed)),
            Some(TextChange::Binary | TextChange::Large) | None => None,
        },
    }
}

pub(super) fn shown(set: &LayerSet, layer: usize, path: &RelPath) -> String {
    visible(&set.lower(layer).join(path.as_path()))
}

/// A name is a stranger's text, and a new line in it would begin another one.
pub(super) fn visible(path: &Path) -> String {
    let path = path.to_string_lossy();
    let escape = |it: char| it.is_control() || is_hidden(it);
    path.chars().fold(String::new(), |mut text, it| {
        if escape(it) {
            text.extend(it.escape_default());
        } else {
            text.push(it);
        }
        text
    })
}

/// The first of them.
pub(super) fn few(paths: &[String]) -> String {
    const FEW: usize = 5;
    let more = paths.len().saturating_sub(FEW);
    let mut text = paths
        .iter()
        .take(FEW)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}
