//! What a trial changed, as people are told: names are a stranger's text, and so is what stands in the files.

use std::path::Path;

use aishd_layers::{Change, ChangeKind, Changes, LayerSet, RelPath, TextChange};
use aishd_log::invisible_characters::is_hidden;
use aishd_log::tried::{ChangeSummary, ChangedFile, FileChange};

/// So many changed files are told beside a question; the diff has all.
const LISTED: usize = 20;

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
pub(super) fn is_told(it: &Change) -> bool {
    !matches!(it.kind, ChangeKind::Touched | ChangeKind::NotKept)
}

pub(super) fn file(set: &LayerSet, it: &Change) -> ChangedFile {
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
