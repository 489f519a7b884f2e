//! The hunks of one changed file, and what the file would be with some of them alone. What is shown and what is made come of one
//! comparison: another one may divide the same two texts in another way.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;

use aishd_platform::failpoint;
use rustix::fs::{Mode, OFlags, openat};
use similar::{DiffOp, DiffTag, TextDiff};

use crate::change_kind::ChangeKind;
use crate::changes::{Change, ReadBounds};
use crate::diff::{self, CONTEXT_LINES, DIFF_TIME, Side};
use crate::layer_set::LayerSet;
use crate::node::{self, NodeKind};
use crate::rel_path::RelPath;
use crate::tree::Tree;
use crate::xattr;

/// How the text of one file changed, hunk by hunk.
#[derive(Clone, Debug, Default)]
pub struct FileHunks {
    /// As a unified diff shows them, in their order; lossy text, which the caller escapes.
    pub shown: Vec<String>,
    /// Each of them can be taken or left by itself.
    pub divisible: bool,
    pieces: Vec<Piece>,
}

/// What lies between two places of a file.
#[derive(Clone, Debug)]
enum Piece {
    Same(String),
    /// In the hunk of this number, from 0.
    Changed {
        hunk: usize,
        old: String,
        new: String,
    },
}

impl FileHunks {
    pub(crate) fn of(old: &str, new: &str) -> Self {
        let diff = TextDiff::configure()
            .timeout(DIFF_TIME)
            .diff_lines(old, new);
        let mut unified = diff.unified_diff();
        unified.context_radius(CONTEXT_LINES);
        let (mut shown, mut hunk_of) = (vec![], vec![]);
        for (number, hunk) in unified.iter_hunks().enumerate() {
            let changes = hunk.ops().iter().filter(|it| it.tag() != DiffTag::Equal);
            hunk_of.extend(changes.map(|_| number));
            shown.push(hunk.to_string());
        }
        let mut hunk_of = hunk_of.into_iter();
        let before = |op: &DiffOp| -> String {
            let lines = op.old_range().filter_map(|at| diff.old_slice(at));
            lines.collect()
        };
        let after = |op: &DiffOp| -> String {
            let lines = op.new_range().filter_map(|at| diff.new_slice(at));
            lines.collect()
        };
        let pieces = diff.ops().iter().map(|op| match op.tag() {
            DiffTag::Equal => Piece::Same(before(op)),
            DiffTag::Delete | DiffTag::Insert | DiffTag::Replace => Piece::Changed {
                hunk: hunk_of.next().unwrap_or_default(),
                old: before(op),
                new: after(op),
            },
        });
        Self {
            pieces: pieces.collect(),
            divisible: shown.len() > 1,
            shown,
        }
    }

    /// What stands in their place where there are none to show.
    pub fn undivided(text: String) -> Self {
        Self {
            shown: vec![text],
            ..Self::default()
        }
    }

    /// The file with these hunks alone, numbered from 0.
    pub fn with(&self, chosen: &BTreeSet<usize>) -> String {
        let pieces = self.pieces.iter().map(|it| match it {
            Piece::Same(text) => text.as_str(),
            Piece::Changed { hunk, new, .. } if chosen.contains(hunk) => new,
            Piece::Changed { old, .. } => old,
        });
        pieces.collect()
    }
}

impl LayerSet {
    /// The hunks of one change, as [`LayerSet::changes`] listed it. `None` where there are none to show: binary, larger than the
    /// bound, or no file.
    ///
    /// Only a file that was there and of which nothing but the text changed is divisible: its mode, its owner and its attributes
    /// are no lines. Nor is one that has several names, whose text is not UTF-8 to the last byte, or in which a carriage return alone
    /// would end lines that nobody sees.
    pub fn hunks(&self, change: &Change, bounds: &ReadBounds) -> io::Result<Option<FileHunks>> {
        let upper = Tree::open(&self.upper(change.layer))?;
        let lower = Tree::open(&self.lower(change.layer))?;
        let new = diff::read_side(&upper, &change.path, bounds.text_bytes)?;
        let old = diff::read_side(&lower, &change.path, bounds.text_bytes)?;
        let is_plain = matches!((&old, &new), (Side::Text(old), Side::Text(new)) if is_plain(old) && is_plain(new));
        let Some((old, new)) = diff::texts(old, new) else {
            return Ok(None);
        };
        let mut hunks = FileHunks::of(&old, &new);
        hunks.divisible &=
            is_plain && is_text_alone(change) && is_same_xattrs(&upper, &lower, &change.path)?;
        Ok(Some(hunks))
    }

    /// Puts a text in the place of what the layer holds of a file; its mode stays. Nothing is mounted on the layer, and no process of
    /// the command lives. A kill in between leaves a part of the text, so whoever calls it keeps the file at once or drops the layers.
    pub fn put_text(&self, layer: usize, path: &RelPath, text: &str) -> io::Result<()> {
        let upper = Tree::open(&self.upper(layer))?;
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let (dir, name) = upper.place(path)?.ok_or_else(gone)?;
        let meta = node::meta_at(&*dir, name)?.ok_or_else(gone)?;
        if !meta.is(NodeKind::File) || meta.links > 1 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        failpoint::pass("layers.step");
        node::set_mode(&*dir, name, meta.mode | 0o200)?;
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mut file = File::from(openat(dir.as_fd(), name, flags, Mode::empty())?);
        failpoint::pass("layers.step");
        file.write_all(text.as_bytes())?;
        // Writing takes set-user-id away, and we gave a right to write.
        node::set_mode(&*dir, name, meta.mode)?;
        file.sync_all()
    }
}

/// Nothing of it was changed but what is in it.
fn is_text_alone(change: &Change) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        return false;
    };
    change.kind == ChangeKind::Modified && before.same_access(after) && after.links == 1
}

fn is_same_xattrs(upper: &Tree, lower: &Tree, path: &RelPath) -> io::Result<bool> {
    let kept = |tree: &Tree| match tree.place(path)? {
        Some((dir, name)) => xattr::kept_at(&*dir, name).map(Some),
        None => Ok(None),
    };
    Ok(kept(upper)? == kept(lower)?)
}

/// What is no text is read with a mark in its place.
fn is_plain(text: &str) -> bool {
    !text.contains(char::REPLACEMENT_CHARACTER)
        && (text.match_indices('\r')).all(|(at, _)| text[at + 1..].starts_with('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(old: &str, new: &str, chosen: &[usize], expected: &str) {
        let hunks = FileHunks::of(old, new);
        let chosen = chosen.iter().copied().collect();
        assert_eq!(expected, hunks.with(&chosen), "{chosen:?}");
    }

    #[test]
    fn each_hunk_is_taken_or_left_for_itself() {
        let old: String = (0..30).map(|it| format!("line {it}\n")).collect();
        let changed = |text: &str, numbers: &[usize]| {
            let replaced = [
                ("line 3\n", "three\n"),
                ("line 15\n", ""),
                ("line 29\n", "line 29\nand more"),
            ];
            let chosen = numbers.iter().map(|it| replaced[*it]);
            chosen.fold(text.to_owned(), |text, (old, new)| text.replace(old, new))
        };
        let new = changed(&old, &[0, 1, 2]);
        for chosen in [&[][..], &[0], &[1], &[2], &[0, 2], &[1, 2], &[0, 1, 2]] {
            check(&old, &new, chosen, &changed(&old, chosen));
        }
    }

    #[test]
    fn ends_of_lines_stay_what_they_are() {
        check("a\nb", "a\nb\n", &[], "a\nb");
        check("a\nb", "a\nb\n", &[0], "a\nb\n");
        check("a\r\nb", "c\r\nd", &[], "a\r\nb");
        let old: String = (0..20).map(|it| format!("line {it}\r\n")).collect();
        let new = old
            .replace("line 2\r\n", "two\n")
            .replace("line 19\r\n", "end");
        check(&old, &new, &[0], &old.replace("line 2\r\n", "two\n"));
        check(&old, &new, &[1], &old.replace("line 19\r\n", "end"));
    }

    #[test]
    fn what_is_no_line_of_text_is_not_divided() {
        assert!(is_plain("a\r\nb\n") && is_plain("a\nb"));
        assert!(!is_plain("a\rb\n") && !is_plain("a\n\r") && !is_plain("a\u{fffd}"));
    }
}
