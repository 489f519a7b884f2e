//! Why a text is not in a file, as far as that can be seen: it was copied with line numbers, has other white space, or is like
//! some lines.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::{Duration, Instant};

use similar::get_close_matches;

use crate::shown::{lines, snippet};

/// Lines among which a similar one is looked for, and what is compared of each.
const MOST_LINES: usize = 20_000;
const MOST_LINE_BYTES: usize = 300;
/// How long, and after how many lines that is looked at.
const LOOKING_TIME: Duration = Duration::from_millis(500);
const AT_ONCE: usize = 100;
/// Lines that are shown of the nearest place.
const SHOWN_LINES: usize = 12;

/// What to say of a text that is not there.
pub(crate) fn hint(text: &str, wanted: &str) -> String {
    if let Some(plain) = without_numbers(wanted)
        && text.contains(&plain)
    {
        return "it has the line numbers of `read` in it: leave them out".to_owned();
    }
    let unescaped = wanted
        .replace("\\n", "\n")
        .replace("\\t", "\t")
        .replace("\\\"", "\"");
    if unescaped != wanted && text.contains(&unescaped) {
        return "it has a backslash where the file has the sign itself: escape once, not twice"
            .to_owned();
    }
    let without_break = wanted.trim_end_matches('\n');
    if without_break != wanted && !without_break.is_empty() && text.contains(without_break) {
        return "it is there without the line break at its end: leave that out".to_owned();
    }
    let count = lines(wanted).count();
    if let Some(line) = but_for_white_space(text, wanted) {
        return format!(
            "line {line} differs in white space only; copy it exactly:\n{}",
            snippet(text, line, count.min(SHOWN_LINES))
        );
    }
    match nearest(text, wanted) {
        Some(line) => format!(
            "the nearest is at line {line}; copy it exactly, or read the file again:\n{}",
            snippet(text, line, count.min(SHOWN_LINES))
        ),
        None => "nothing in the file is like it: read the file again".to_owned(),
    }
}

/// A text that was copied with its numbers; none where one line has none.
fn without_numbers(wanted: &str) -> Option<String> {
    let parts: Option<Vec<&str>> = wanted
        .split('\n')
        .map(|line| {
            if line.is_empty() {
                return Some(line);
            }
            let (number, rest) = line.split_once('\t')?;
            let number = number.trim_start();
            let is_number = !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit());
            is_number.then_some(rest)
        })
        .collect();
    parts.map(|it| it.join("\n"))
}

/// The first line from which on all are the same but for white space.
fn but_for_white_space(text: &str, wanted: &str) -> Option<usize> {
    let mut wanted: Vec<u64> = lines(wanted).take(MOST_LINES).map(squeezed).collect();
    let empty = squeezed("");
    while wanted.last() == Some(&empty) {
        wanted.pop();
    }
    let first = wanted.iter().position(|it| *it != empty)?;
    let wanted = &wanted[first..];
    let text: Vec<u64> = lines(text).take(MOST_LINES).map(squeezed).collect();
    let mut windows = text.windows(wanted.len());
    windows.position(|it| it == wanted).map(|it| it + 1)
}

/// The same for lines that have the same words.
fn squeezed(line: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    for word in line.split_whitespace() {
        word.hash(&mut hasher);
    }
    hasher.finish()
}

/// The line, from 1, at which the text is nearest to what was wanted.
fn nearest(text: &str, wanted: &str) -> Option<usize> {
    let until = Instant::now() + LOOKING_TIME;
    let short = |line: &str| line.len() <= MOST_LINE_BYTES && !line.trim().is_empty();
    // The line that says most is looked for, and the place is counted from there.
    let (back, most) = lines(wanted)
        .enumerate()
        .filter(|(_, it)| short(it))
        .max_by_key(|(at, it)| (it.trim().len(), usize::MAX - at))?;
    let most = most.trim();
    let mut candidates: Vec<&str> = lines(text)
        .take(MOST_LINES)
        .filter(|it| short(it))
        .map(str::trim)
        .collect();
    candidates.sort_unstable();
    candidates.dedup();
    let mut best: Vec<&str> = vec![];
    for some in candidates.chunks(AT_ONCE) {
        best.extend(get_close_matches(most, some, 1, 0.6));
        if Instant::now() > until {
            break;
        }
    }
    let close = get_close_matches(most, &best, 1, 0.6);
    let close = close.first()?;
    let at = lines(text).position(|it| it.trim() == *close)?;
    Some(at.saturating_sub(back) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "fn main() {\n    let answer = 42;\n    println!(\"{answer}\");\n}\n";

    #[track_caller]
    fn check(wanted: &str, expected: &str) {
        assert_eq!(expected, hint(TEXT, wanted));
    }

    #[test]
    fn it_is_said_what_is_likely_wrong() {
        check(
            "     2\t    let answer = 42;",
            "it has the line numbers of `read` in it: leave them out",
        );
        check(
            "fn main() {\\n    let",
            "it has a backslash where the file has the sign itself: escape once, not twice",
        );
        check(
            "let answer = 42;\n  println!(\"{answer}\");",
            "line 2 differs in white space only; copy it exactly:\n     2\t    let answer = 42;\n     3\t    println!(\"{answer}\");\n",
        );
        check(
            "{\n    let answer = 43;",
            "the nearest is at line 1; copy it exactly, or read the file again:\n     1\tfn main() {\n     2\t    let answer = 42;\n",
        );
        check(
            "zebra",
            "nothing in the file is like it: read the file again",
        );
        check(
            "\n\n\n",
            "nothing in the file is like it: read the file again",
        );
        let at_the_end = "it is there without the line break at its end: leave that out";
        assert_eq!(at_the_end, hint("a\nb", "a\nb\n"));
    }
}
