//! Pastes that are too large for the line: a mark stands in it for each. No text is dropped while its mark may still
//! be in the line, for a mark alone says nothing to a model.

use std::collections::{BTreeMap, BTreeSet};

/// All texts together. What does not fit is refused, and a person is told.
pub(super) const BYTES: usize = 8 << 20;
/// What the smallest counts, so that there are not too many of them.
const LEAST_BYTES: usize = 4 << 10;
const BEGINS: &str = "[paste ";

#[derive(Debug, Default)]
pub(super) struct PasteStore {
    kept: BTreeMap<usize, String>,
    bytes: usize,
    /// The number of the newest.
    given: usize,
    /// The newest that has come into the line; the keys of those after it are still on their way.
    arrived: usize,
    /// Those whose marks are in the line.
    standing: BTreeSet<usize>,
}

/// The text of this mark was dropped to make room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DroppedPaste {
    pub(super) mark: String,
}

impl PasteStore {
    /// Keeps a text and gives the mark that stands for it; none when there is no room.
    pub(super) fn keep(&mut self, text: String) -> Option<String> {
        while self.bytes + cost(&text) > BYTES {
            let spent = |it: &usize| *it <= self.arrived && !self.standing.contains(it);
            let oldest = self.kept.keys().copied().find(spent)?;
            if let Some(dropped) = self.kept.remove(&oldest) {
                self.bytes -= cost(&dropped);
            }
        }
        self.given += 1;
        self.bytes += cost(&text);
        let mark = mark(self.given, &text);
        self.kept.insert(self.given, text);
        Some(mark)
    }

    /// What the line is now.
    pub(super) fn line(&mut self, line: &str) {
        self.standing = line
            .match_indices(BEGINS)
            .filter_map(|(at, _)| read(line.get(at..)?))
            .map(|(number, _)| number)
            .filter(|it| self.kept.contains_key(it))
            .collect();
        self.arrived = self.arrived.max(self.standing.last().copied().unwrap_or(0));
    }

    /// The line with the texts in the place of their marks. One pass, so that a mark inside a paste stays text.
    pub(super) fn unfold(&self, line: &str) -> Result<String, DroppedPaste> {
        let mut unfolded = String::new();
        let mut rest = line;
        while let Some(at) = rest.find(BEGINS) {
            let (before, from) = rest.split_at(at);
            unfolded.push_str(before);
            let (number, length) = match read(from) {
                Some(mark) => mark,
                // What is left of a mark says nothing to a model, and its text would be lost without a word.
                None if self.is_damaged(from) => {
                    return Err(DroppedPaste {
                        mark: from.lines().next().unwrap_or_default().to_owned(),
                    });
                }
                None => (0, BEGINS.len()),
            };
            let (named, after) = from.split_at(length);
            match self.kept.get(&number) {
                Some(text) if mark(number, text) == named => unfolded.push_str(text),
                None if (1..=self.given).contains(&number) => {
                    return Err(DroppedPaste {
                        mark: named.to_owned(),
                    });
                }
                // Somebody writes about marks.
                Some(_) | None => unfolded.push_str(named),
            }
            rest = after;
        }
        Ok(unfolded + rest)
    }

    /// Whether this begins as the mark of a text that is kept, and goes on otherwise.
    fn is_damaged(&self, text: &str) -> bool {
        self.kept
            .keys()
            .any(|number| text.starts_with(&format!("{BEGINS}{number}: ")))
    }
}

fn cost(text: &str) -> usize {
    text.len().max(LEAST_BYTES)
}

fn mark(number: usize, text: &str) -> String {
    let lines = text.lines().count();
    format!("{BEGINS}{number}: {lines} lines, {} bytes]", text.len())
}

/// The mark at the beginning: its number and how long it is.
fn read(text: &str) -> Option<(usize, usize)> {
    let (inside, _) = text.strip_prefix(BEGINS)?.split_once(']')?;
    let (number, about) = inside.split_once(": ")?;
    let (lines, bytes) = about.strip_suffix(" bytes")?.split_once(" lines, ")?;
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit());
    if !is_number(lines) || !is_number(bytes) {
        return None;
    }
    Some((number.parse().ok()?, BEGINS.len() + inside.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_pastes_as_there_is_room_for_are_in_one_line_whole() {
        let mut pastes = PasteStore::default();
        let mut line = String::new();
        let mut expected = String::new();
        for n in 0..100 {
            let text = format!("text {n}\n[paste 1: 2 lines, 3 bytes]\n");
            line.push_str(&pastes.keep(text.clone()).unwrap());
            expected.push_str(&text);
        }
        pastes.line(&line);
        assert_eq!(Ok(expected), pastes.unfold(&line));
    }

    #[test]
    fn a_mark_that_was_changed_is_not_sent_as_it_stands() {
        let mut pastes = PasteStore::default();
        let mark = pastes.keep("one\ntwo\n".to_owned()).unwrap();
        let damaged = mark.trim_end_matches(']');
        let gone = DroppedPaste {
            mark: damaged.to_owned(),
        };
        assert_eq!(Err(gone), pastes.unfold(damaged));
        let written = "what does [paste 7: mean?";
        assert_eq!(Ok(written.to_owned()), pastes.unfold(written));
    }

    #[test]
    fn a_paste_without_room_is_refused_until_others_are_out_of_the_line() {
        let mut pastes = PasteStore::default();
        let large = "x".repeat(1 << 20);
        let mut line = String::new();
        for _ in 0..8 {
            line.push_str(&pastes.keep(large.clone()).unwrap());
        }
        assert_eq!(None, pastes.keep(large.clone()), "they are on their way");
        pastes.line(&line);
        assert_eq!(None, pastes.keep(large.clone()), "they are in the line");
        assert_eq!(Ok(large.repeat(8)), pastes.unfold(&line));
        pastes.line("");
        let ninth = pastes.keep(large.clone()).unwrap();
        assert_eq!(Ok(large), pastes.unfold(&ninth));
        let mark = "[paste 1: 1 lines, 1048576 bytes]".to_owned();
        assert_eq!(Err(DroppedPaste { mark }), pastes.unfold(&line));
    }

    #[test]
    fn what_only_looks_like_a_mark_is_text() {
        let mut pastes = PasteStore::default();
        drop(pastes.keep("a\nb".into()));
        let line = "[paste 1: 9 lines, 3 bytes] [paste 2: 1 lines, 1 bytes] [paste ] [paste x";
        assert_eq!(Ok(line.to_owned()), pastes.unfold(line));
        assert_eq!(
            Ok("a\nb!".to_owned()),
            pastes.unfold("[paste 1: 2 lines, 3 bytes]!")
        );
    }
}
