//! The difference that changes would make, line by line, and its hunks: what of it becomes real, or does not, for itself.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use aishd_layers::{
    Change, ChangeKind, Changes, FileHunks, LayerSet, NodeKind, NodeMeta, ReadBounds, RelPath,
    TextChange,
};
use aishd_log::tool::ContentDigest;
use aishd_log::tried::FileChange;

use super::told::{file, is_told, visible};

/// What a difference shows, at most.
const DIFF_BYTES: usize = 1 << 20;
/// So many names of a directory that is removed are shown.
const FEW: usize = 8;

/// A difference as it is shown.
#[derive(Clone, Debug, Default)]
pub struct Difference {
    /// Its text is a command's, and not fit for a terminal as it is.
    pub text: String,
    /// The lines of each hunk, from 0; empty where not all is shown, for then nobody can choose. The first hunk of a file begins with
    /// the line that names it.
    pub hunks: Vec<Range<u32>>,
    pub(super) files: Vec<FileDifference>,
    lines: u32,
    /// What stands in the text for people and is not what they agree to: others may change it meanwhile.
    asides: Vec<Range<usize>>,
    /// The directory in the place of another one that is shown last.
    within: Option<(usize, RelPath)>,
}

/// What is shown of one path.
#[derive(Clone, Debug)]
pub(super) struct FileDifference {
    pub(super) layer: usize,
    pub(super) path: RelPath,
    pub(super) shown: String,
    /// Where its hunks are among all of them.
    pub(super) hunks: Range<usize>,
    /// Its own hunks, where there are several of them; else it is kept or left as it is.
    pub(super) parts: Option<FileHunks>,
    /// It stands for all that is in it.
    pub(super) is_replaced: bool,
}

impl Difference {
    /// Of as many files as there is room for.
    ///
    /// A file of which nothing but the text changed has its hunks. All else is one: what is new, removed, no text or too large, a
    /// link, a mode, a text with its mode; and a directory in the place of another one, with all that is in it.
    pub(super) fn of(set: &LayerSet, changes: &Changes, bounds: &ReadBounds) -> Self {
        let mut out = Self::default();
        for it in changes.listed.iter().filter(|it| is_told(it)) {
            out.add(set, it, bounds);
            if out.text.len() > DIFF_BYTES {
                out.text.truncate(out.text.floor_char_boundary(DIFF_BYTES));
                out.text.push_str("\n(and more)\n");
                out.hunks.clear();
                break;
            }
        }
        if changes.unlisted > 0 {
            let more = format!("(and {} more files)\n", changes.unlisted);
            out.text.push_str(&more);
            out.hunks.clear();
        }
        out
    }

    /// Names it: what a person was shown, of these changes and with these hunks.
    pub fn digest(&self, id: aish_proto::id::ChangesId) -> ContentDigest {
        let (mut text, mut at) = (String::new(), 0);
        for aside in &self.asides {
            text.push_str(self.text.get(at..aside.start).unwrap_or_default());
            at = aside.end;
        }
        text.push_str(self.text.get(at..).unwrap_or_default());
        ContentDigest::of(format!("{id}\n{:?}\n{text}", self.hunks).as_bytes())
    }

    fn add(&mut self, set: &LayerSet, it: &Change, bounds: &ReadBounds) {
        let is_within = self
            .within
            .as_ref()
            .is_some_and(|(layer, above)| *layer == it.layer && it.path.is_at_or_below(above));
        let (first, begin) = (self.hunks.len(), self.lines);
        let told = file(set, it);
        self.push(&format!("=== {} ({})\n", told.path, what(told.change)));
        if let Some(target) = &it.target {
            let target = PathBuf::from(std::ffi::OsStr::from_bytes(target));
            self.push(&format!("-> {}\n", visible(&target)));
        }
        if let (Some(before), Some(after)) = (&it.before, &it.after) {
            self.push(&access(it.kind, before, after));
        }
        let said = |text: String| Some(FileHunks::undivided(text));
        let read = match it.text {
            Some(TextChange::Lines { .. }) => set
                .hunks(it, bounds)
                .unwrap_or_else(|error| said(format!("(cannot be read: {error})\n"))),
            Some(TextChange::Binary) => said("(no text)\n".to_owned()),
            Some(TextChange::Large) => said("(too large to be shown)\n".to_owned()),
            None => None,
        };
        let is_gone = matches!(told.change, FileChange::Removed | FileChange::Replaced);
        if let Some(names) = is_gone.then(|| names_in(set, it)).flatten() {
            let from = self.text.len();
            self.push(&names);
            self.asides.push(from..self.text.len());
        }
        let mut hunks = read.unwrap_or_default();
        hunks.divisible &= !is_within;
        let mut begin = begin;
        for (at, text) in hunks.shown.iter().enumerate() {
            if hunks.divisible && at > 0 {
                self.hunks.push(begin..self.lines);
                begin = self.lines;
            }
            self.push(text);
        }
        match self.hunks.last_mut() {
            Some(whole) if is_within => whole.end = self.lines,
            Some(_) | None => self.hunks.push(begin..self.lines),
        }
        if is_within {
            return;
        }
        let is_replaced = it.kind == ChangeKind::Replaced
            && it.after.is_some_and(|it| it.kind == NodeKind::Directory);
        self.within = is_replaced.then(|| (it.layer, it.path.clone()));
        self.files.push(FileDifference {
            layer: it.layer,
            path: it.path.clone(),
            shown: told.path,
            hunks: first..self.hunks.len(),
            parts: hunks.divisible.then_some(hunks),
            is_replaced,
        });
    }

    /// Whole lines, so that what comes next begins one.
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
        if !text.is_empty() && !text.ends_with('\n') {
            self.text.push('\n');
        }
        let lines = text.lines().count();
        self.lines = self
            .lines
            .saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
    }
}

/// What goes with a directory, in one line; `None`: it is none.
fn names_in(set: &LayerSet, it: &Change) -> Option<String> {
    let (count, first) = set.names_in(it.layer, &it.path, FEW).ok()??;
    let names: Vec<String> = first.iter().map(|it| visible(it)).collect();
    let more = match count - names.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let listed = match count {
        0 => "nothing".to_owned(),
        _ => names.join(", "),
    };
    Some(format!("(in it: {listed}{more})\n"))
}

fn what(change: FileChange) -> &'static str {
    match change {
        FileChange::Created => "new",
        FileChange::Modified => "changed",
        FileChange::Attributes => "mode or owner changed",
        FileChange::Removed => "removed",
        FileChange::Replaced => "replaced",
    }
}

/// What becomes of the mode and the owner of something that stays, where they change.
fn access(kind: ChangeKind, before: &NodeMeta, after: &NodeMeta) -> String {
    if !matches!(kind, ChangeKind::Modified | ChangeKind::Attributes) {
        return String::new();
    }
    let mut text = String::new();
    if before.mode != after.mode {
        text.push_str(&format!(
            "(mode {:o}, then {:o})\n",
            before.mode, after.mode
        ));
    }
    let owner = |it: &NodeMeta| (it.uid, it.gid);
    let (old, new) = (owner(before), owner(after));
    if old != new {
        let (old, new) = (
            format!("{}:{}", old.0, old.1),
            format!("{}:{}", new.0, new.1),
        );
        text.push_str(&format!("(owner {old}, then {new})\n"));
    }
    text
}
