//! What changes would do to files, line by line, as the daemon tells it: made safe, and painted where there are colours. The
//! text of it is a command's, and so is every name in it.

use std::ops::Range;

use similar::{ChangeTag, TextDiff};

use crate::safe;

/// Rows of a difference that stand beside a question; a command of `aishctl` shows all.
const BESIDE_A_QUESTION: usize = 200;
/// Lines of which the words are compared: longer ones are no text of a person.
const MAX_LINE_BYTES: usize = 1_000;
/// Pairs of lines that are compared so, in one difference.
const MAX_PAIRS: usize = 1_000;
/// Lines that have less in common are two lines, and not one that was changed.
const ALIKE: f32 = 0.5;

const FILE: &str = "\u{1b}[1m";
const PLACE: &str = "\u{1b}[36m";
const ADDED: &str = "\u{1b}[32m";
const REMOVED: &str = "\u{1b}[31m";
/// What changed within a line, and the line as it goes on.
const CHANGED: [&str; 2] = ["\u{1b}[7m", "\u{1b}[27m"];
const PLAIN: &str = "\u{1b}[0m";

/// What could hide or reorder stands as an escape, line by line.
pub fn safe(diff: &str) -> String {
    diff.lines().map(|it| safe::visible(it) + "\n").collect()
}

/// The beginning of a safe difference, and how many rows more there are.
pub fn beginning(safe: &str) -> (&str, usize) {
    let mut ends = safe.match_indices('\n').map(|(at, _)| at + 1);
    match ends.nth(BESIDE_A_QUESTION - 1) {
        Some(end) => (&safe[..end], safe[end..].lines().count()),
        None => (safe, 0),
    }
}

/// A safe difference in the colours of the terminal's own theme. Without its escape sequences it is the same text.
pub fn painted(safe: &str) -> String {
    let lines: Vec<&str> = safe.lines().collect();
    let mut painter = DifferencePainter::default();
    let mut at = 0;
    while at < lines.len() {
        at += painter.take(&lines[at..]);
    }
    painter.out
}

#[derive(Default)]
struct DifferencePainter {
    out: String,
    /// Behind the place of lines, where the first character of a line says what became of it.
    among_lines: bool,
    compared: usize,
}

impl DifferencePainter {
    /// Paints what belongs together at the beginning of these; says how many lines that are.
    fn take(&mut self, lines: &[&str]) -> usize {
        let run = |lines: &[&str], sign: char| {
            let is_of = |it: &&&str| self.among_lines && it.starts_with(sign);
            lines.iter().take_while(is_of).count()
        };
        let removed = run(lines, '-');
        let added = run(&lines[removed..], '+');
        let (removed, added) = lines[..removed + added].split_at(removed);
        if removed.is_empty() && added.is_empty() {
            if let Some(line) = lines.first() {
                self.other(line);
            }
            return 1;
        }
        let mut words = [vec![], vec![]];
        if removed.len() == added.len() && self.compared + added.len() <= MAX_PAIRS {
            self.compared += added.len();
            for (before, now) in removed.iter().zip(added) {
                let [old, new] = changed_words(before, now).unwrap_or_default();
                words[0].push(old);
                words[1].push(new);
            }
        }
        for ((lines, colour), words) in [(removed, REMOVED), (added, ADDED)].iter().zip(&words) {
            let mut words = words.iter();
            for line in *lines {
                let changed = words.next().map_or(&[][..], Vec::as_slice);
                self.line(line, colour, changed);
            }
        }
        removed.len() + added.len()
    }

    fn other(&mut self, line: &str) {
        let colour = if line.starts_with("=== ") {
            self.among_lines = false;
            FILE
        } else if line.starts_with("@@ ") {
            self.among_lines = true;
            PLACE
        } else {
            ""
        };
        self.line(line, colour, &[]);
    }

    fn line(&mut self, line: &str, colour: &str, changed: &[Range<usize>]) {
        self.out.push_str(colour);
        let mut at = 0;
        for it in changed {
            self.out.push_str(&line[at..it.start]);
            self.out.push_str(CHANGED[0]);
            self.out.push_str(&line[it.clone()]);
            self.out.push_str(CHANGED[1]);
            at = it.end;
        }
        self.out.push_str(&line[at..]);
        if !colour.is_empty() {
            self.out.push_str(PLAIN);
        }
        self.out.push('\n');
    }
}

/// Where two lines differ that are one and the same before and after; `None`: they are not, or nobody would see it.
fn changed_words(before: &str, now: &str) -> Option<[Vec<Range<usize>>; 2]> {
    if before.len().max(now.len()) > MAX_LINE_BYTES {
        return None;
    }
    let (old, new) = (before.get(1..)?, now.get(1..)?);
    let diff = TextDiff::from_words(old, new);
    if diff.ratio() < ALIKE {
        return None;
    }
    let mut places = [1, 1];
    let mut changed = [vec![], vec![]];
    let mut step = |side: usize, length: usize, is_changed: bool| {
        let begin = places[side];
        places[side] += length;
        if !is_changed {
            return;
        }
        match changed[side].last_mut() {
            Some(Range { end, .. }) if *end == begin => *end += length,
            Some(_) | None => changed[side].push(begin..begin + length),
        }
    };
    for change in diff.iter_all_changes() {
        let length = change.value().len();
        match change.tag() {
            ChangeTag::Equal => {
                step(0, length, false);
                step(1, length, false);
            }
            ChangeTag::Delete => step(0, length, true),
            ChangeTag::Insert => step(1, length, true),
        }
    }
    Some(changed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(diff: &str, expected: &str) {
        let shown = painted(&safe(diff));
        let words = [
            (FILE, "<file>"),
            (PLACE, "<place>"),
            (ADDED, "<new>"),
            (REMOVED, "<old>"),
            (CHANGED[0], "["),
            (CHANGED[1], "]"),
            (PLAIN, "</>"),
        ];
        let named = words
            .iter()
            .fold(shown, |text, (code, name)| text.replace(code, name));
        assert_eq!(expected, named);
    }

    #[test]
    fn each_line_has_the_colour_of_what_became_of_it() {
        check(
            "=== /w/a (changed)\n@@ -1,2 +1,2 @@\n one\n-two\n+three\n\\ No newline at end of file\n=== /w/l (new)\n-> /x\n(no text)\n",
            "<file>=== /w/a (changed)</>\n<place>@@ -1,2 +1,2 @@</>\n one\n<old>-two</>\n<new>+three</>\n\\ No newline at end of file\n<file>=== /w/l (new)</>\n-> /x\n(no text)\n",
        );
    }

    #[test]
    fn words_that_changed_within_a_line_stand_out() {
        check(
            "@@ -1 +1 @@\n-let a = old ; // it\n+let a = new thing ; // it\n",
            "<place>@@ -1 +1 @@</>\n<old>-let a = [old] ; // it</>\n<new>+let a = [new thing] ; // it</>\n",
        );
        // Two of one line, and lines that have little in common, are compared with nothing.
        check(
            "@@ -1 +1,2 @@\n-a b c\n+a b d\n+e\n",
            "<place>@@ -1 +1,2 @@</>\n<old>-a b c</>\n<new>+a b d</>\n<new>+e</>\n",
        );
    }

    /// A line of a file that looks like a name is none, and what would draw is shown.
    #[test]
    fn a_text_draws_nothing_and_names_nothing() {
        check(
            "@@ -0,0 +1,2 @@\n+\u{1b}[2J\n+=== /etc/passwd (new)\n",
            "<place>@@ -0,0 +1,2 @@</>\n<new>+\\u{1b}[2J</>\n<new>+=== /etc/passwd (new)</>\n",
        );
    }

    #[test]
    fn a_long_one_is_shown_in_part_beside_a_question() {
        let long = "x\n".repeat(BESIDE_A_QUESTION + 3);
        let (begin, more) = beginning(&long);
        assert_eq!((BESIDE_A_QUESTION, 3), (begin.lines().count(), more));
        let short = "x\n".repeat(BESIDE_A_QUESTION);
        assert_eq!((short.as_str(), 0), beginning(&short));
    }

    proptest! {
        #[test]
        fn colours_are_all_that_is_added(text in "([-+ @=\\\\]{0,2}[a-c é]{0,9}\n){0,12}", wild in any::<String>()) {
            for text in [text, wild] {
                let text = safe(&text);
                let mut plain = painted(&text);
                for code in [FILE, PLACE, ADDED, REMOVED, CHANGED[0], CHANGED[1], PLAIN] {
                    plain = plain.replace(code, "");
                }
                prop_assert_eq!(text, plain);
            }
        }
    }
}
