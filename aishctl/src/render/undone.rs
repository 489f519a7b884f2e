//! What was taken back of kept changes, or done again, in one row: how much that is, its paths as far as they fit, and the way back.

use std::collections::BTreeSet;

use aish_proto::changes::UndoAct;
use aish_proto::event::ChangesUndo;

use crate::safe;

/// So many paths are named.
const FEW: usize = 5;
/// Columns that paths may have where nothing says how wide rows are, or where little else would fit beside them.
const PATH_COLUMNS: usize = 100;

/// One or several of them that were kept, summed up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UndoneSum {
    act: UndoAct,
    /// Paths of each, together.
    count: u64,
    /// Those that are too large to be done again.
    pub(crate) for_good: u64,
    /// Paths that are named, each once.
    paths: BTreeSet<String>,
    /// How many were named, also more than once.
    named: u64,
}

impl UndoneSum {
    pub(crate) fn new(act: UndoAct) -> Self {
        Self {
            act,
            count: 0,
            for_good: 0,
            paths: BTreeSet::new(),
            named: 0,
        }
    }

    /// Adds one; `paths` may be the first ones of many.
    pub(crate) fn add(&mut self, count: u64, reversible: bool, paths: &[String]) {
        self.count += count;
        self.for_good += u64::from(!reversible);
        self.named += paths.len() as u64;
        self.paths.extend(paths.iter().cloned());
    }

    /// Of each of them, so that a path may count more than once.
    pub(crate) fn all_paths(&self) -> u64 {
        self.count
    }

    /// Where all are named, one that several turns changed counts once.
    fn paths_changed(&self) -> u64 {
        if self.named == self.count {
            self.paths.len() as u64
        } else {
            self.count
        }
    }

    /// For the terminals that look on.
    pub(crate) fn row(&self, columns: Option<usize>) -> String {
        let count = self.paths_changed();
        let number = paths(count);
        let (begin, end) = match self.act {
            UndoAct::Undo if self.for_good == 0 => (
                format!("  taken back: {number} as before"),
                "; :redo does it again",
            ),
            UndoAct::Undo => (format!("  taken back for good: {number} as before"), ""),
            UndoAct::Redo => (format!("  done again: {number}"), "; :undo takes it back"),
        };
        let beside = columns.map(|it| it.saturating_sub(begin.len() + end.len() + 2));
        let listed = listed(self.paths.iter(), count, beside);
        format!("{begin}{listed}{end}")
    }

    /// For who called the command.
    pub(crate) fn sentence(&self) -> String {
        let count = self.paths_changed();
        let listed = listed(self.paths.iter(), count, None);
        let number = match count {
            1 => "1 path is".to_owned(),
            count => format!("{count} paths are"),
        };
        let (how, other) = match self.act {
            UndoAct::Undo if self.for_good > 0 => {
                ("as before", "it was too large to be held for a redo")
            }
            UndoAct::Undo => ("as before", "aishctl redo reverses it"),
            UndoAct::Redo => ("changed again", "aishctl undo reverses it"),
        };
        format!("{number} {how}{listed}; {other}")
    }
}

/// What a person did to what was kept, for everybody who looks on.
pub(crate) fn of_event(undo: &ChangesUndo) -> String {
    let mut sum = UndoneSum::new(undo.act);
    sum.add(undo.count, undo.reversible, &undo.paths);
    sum.row(None)
}

/// `: a, b and 3 more`: one path at least, and others as far as there is room. Nothing where none is known.
pub(crate) fn listed<'a>(
    paths: impl Iterator<Item = &'a String>,
    count: u64,
    columns: Option<usize>,
) -> String {
    let room = columns.unwrap_or(PATH_COLUMNS);
    let mut listed = String::new();
    let mut named = 0;
    for path in paths.take(FEW) {
        let path = safe::visible(path);
        let begin = if named == 0 { ": " } else { ", " };
        let is_over = listed.chars().count() + begin.len() + path.chars().count() > room;
        if named > 0 && is_over {
            break;
        }
        listed.push_str(begin);
        listed.push_str(&path);
        named += 1;
    }
    let more = count.saturating_sub(named);
    if named > 0 && more > 0 {
        listed.push_str(&format!(" and {more} more"));
    }
    listed
}

pub(crate) fn paths(count: u64) -> String {
    match count {
        1 => "1 path".to_owned(),
        count => format!("{count} paths"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(act: UndoAct, parts: &[(u64, bool, &[&str])]) -> UndoneSum {
        let mut sum = UndoneSum::new(act);
        for (count, reversible, paths) in parts {
            let paths: Vec<String> = paths.iter().map(ToString::to_string).collect();
            sum.add(*count, *reversible, &paths);
        }
        sum
    }

    #[test]
    fn several_keeps_are_one_row_that_names_paths_as_far_as_they_fit() {
        let check = |act, parts: &[(u64, bool, &[&str])], columns, expected: &str| {
            assert_eq!(expected, sum(act, parts).row(columns), "{parts:?}");
        };
        check(
            UndoAct::Undo,
            &[(1, true, &["/w/b"]), (2, true, &["/w/a", "/w/b"])],
            Some(80),
            "  taken back: 2 paths as before: /w/a, /w/b; :redo does it again",
        );
        check(
            UndoAct::Undo,
            &[(3, true, &["/w/a", "/w/b", "/w/c"])],
            Some(65),
            "  taken back: 3 paths as before: /w/a and 2 more; :redo does it again",
        );
        check(
            UndoAct::Undo,
            &[(1, true, &["/w/\u{1b}[2Ja"]), (1, false, &["/w/b"])],
            None,
            "  taken back for good: 2 paths as before: /w/\\u{1b}[2Ja, /w/b",
        );
        check(
            UndoAct::Redo,
            &[(400, true, &["/w/a", "/w/b", "/w/c", "/w/d", "/w/e", "/w/f"])],
            None,
            "  done again: 400 paths: /w/a, /w/b, /w/c, /w/d, /w/e and 395 more; :undo takes it back",
        );
        // Of an old record no path is known.
        check(
            UndoAct::Undo,
            &[(2, true, &[])],
            Some(80),
            "  taken back: 2 paths as before; :redo does it again",
        );
    }

    #[test]
    fn a_command_says_the_same_in_a_sentence() {
        let undone = sum(UndoAct::Undo, &[(1, true, &["/w/a"]), (1, true, &["/w/a"])]);
        assert_eq!(
            "1 path is as before: /w/a; aishctl redo reverses it",
            undone.sentence()
        );
    }
}
