//! Rows of what a person is to judge: they end between words, and show the text as it is.

use textwrap::core::Word;
use textwrap::{WordSeparator, WordSplitter, WrapAlgorithm};

/// Rows of fewer columns are left to the terminal.
pub(crate) const NARROWEST: usize = 24;
/// What goes on in another row stands so far to the right of where its line began: deeper than any row of a card begins, so
/// that no text can look like one.
const DEEPER: &str = "        ";
/// What begins here or behind is a difference or a definition, where the beginning of a row has a meaning.
const LAID_OUT: &str = "    ";
/// What may be answered.
const ANSWERS: &str = "  [";
/// Somebody else's words, each row of them marked.
const QUOTED: &str = "  > ";

/// The text in rows of so many columns. A row ends only where there is exactly one space, so that a break never hides how many
/// there were; what has none is left to the terminal, and so is what is laid out already. `None`: nothing is broken.
pub(crate) fn exactly(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns.filter(|it| *it >= NARROWEST) else {
        return text.to_owned();
    };
    let lines = text.split('\n').map(|line| {
        if line.starts_with(LAID_OUT) || line.starts_with(QUOTED) {
            return ends_of_frames(line, Some(columns));
        }
        let (said, end) = line.split_at(line.trim_end_matches(' ').len());
        let begin = said.len() - said.trim_start_matches(' ').len();
        let below = format!("{}{DEEPER}", &said[..begin]);
        let separator = if said.starts_with(ANSWERS) {
            WordSeparator::Custom(answers)
        } else {
            WordSeparator::Custom(words)
        };
        let options = textwrap::Options::new(columns)
            .word_separator(separator)
            .word_splitter(WordSplitter::NoHyphenation)
            .wrap_algorithm(WrapAlgorithm::FirstFit)
            .break_words(false)
            .subsequent_indent(&below);
        textwrap::wrap(said, &options).join("\n") + end
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// How rows begin that say in our words how something ended, where, or what there is to do, and what stands below such a
/// beginning.
const ENDS: [(&str, &str); 10] = [
    ("  └ ", "    "),
    // What aish adds to what was printed.
    ("  │ [aish] ", "  │   "),
    ("    not run: ", "      "),
    ("    held to ", "      "),
    ("  taken back: ", "    "),
    ("  done again: ", "    "),
    ("  in /", DEEPER),
    ("  ☑ ", "    "),
    ("  ▶ ", "    "),
    ("  ☐ ", "    "),
];

/// The row in rows of so many columns, where it says how something ended; what was printed stays as it is. `None`: nothing is
/// broken.
pub(crate) fn ends_of_frames(row: &str, columns: Option<usize>) -> String {
    let ends = ENDS.iter().find(|(begin, _)| row.starts_with(begin));
    match (ends, columns.filter(|it| *it >= NARROWEST)) {
        (Some((_, below)), Some(columns)) => {
            let options = textwrap::Options::new(columns)
                .word_separator(WordSeparator::Custom(words))
                .word_splitter(WordSplitter::NoHyphenation)
                .wrap_algorithm(WrapAlgorithm::FirstFit)
                .break_words(false)
                .subsequent_indent(below);
            textwrap::wrap(row, &options).join("\n")
        }
        _ => row.to_owned(),
    }
}

/// Each is one thing, with two spaces to the next.
fn answers(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    parts(line, |before, behind| {
        before.len() > 2 && before.ends_with("  ") && !behind.starts_with(' ')
    })
}

/// Between two of them is exactly one space.
fn words(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    parts(line, is_between_words)
}

/// Words, where a number goes with what stands behind it, and a dot between two with what stands before it.
pub(crate) fn figures(line: &str) -> Box<dyn Iterator<Item = Word<'_>> + '_> {
    parts(line, |before, behind| {
        let last = before.trim_end().rsplit(' ').next().unwrap_or_default();
        let digits = last.trim_start_matches(['(', '~', '$']);
        let is_number = digits.starts_with(|it: char| it.is_ascii_digit());
        is_between_words(before, behind) && !is_number && !behind.starts_with("· ")
    })
}

fn is_between_words(before: &str, behind: &str) -> bool {
    let word = before.strip_suffix(' ');
    word.is_some_and(|it| !it.is_empty() && !it.ends_with(' ')) && !behind.starts_with(' ')
}

/// The line cut behind each space where it may be, judged by what stands before and behind the cut.
fn parts<'a>(
    line: &'a str,
    is_cut: impl Fn(&str, &str) -> bool + 'a,
) -> Box<dyn Iterator<Item = Word<'a>> + 'a> {
    let mut begin = 0;
    let spaces = line.match_indices(' ').map(|(at, _)| at + 1);
    let cuts = spaces.filter(move |at| *at < line.len() && is_cut(&line[..*at], &line[*at..]));
    Box::new(cuts.chain([line.len()]).map(move |end| {
        let part = Word::from(&line[begin..end]);
        begin = end;
        part
    }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn how_something_ended_is_broken_between_words_and_what_was_printed_is_not() {
        let ended = "  └ 1 file would change; nothing of it is real yet";
        assert_eq!(
            "  └ 1 file would change;\n    nothing of it is real yet",
            ends_of_frames(ended, Some(30))
        );
        assert_eq!(
            "  │ [aish] commands run in\n  │   /tmp from now on",
            ends_of_frames("  │ [aish] commands run in /tmp from now on", Some(30))
        );
        let printed = "  │ a row that is longer than thirty columns are";
        assert_eq!(printed, ends_of_frames(printed, Some(30)));
        assert_eq!(
            "  ☐ look at what the compiler\n    says of it",
            ends_of_frames("  ☐ look at what the compiler says of it", Some(30))
        );
        let held = "    held to `try`: what it changed is a proposal";
        assert_eq!(
            "    held to `try`: what it\n      changed is a proposal",
            exactly(held, Some(30))
        );
        assert_eq!(ended, ends_of_frames(ended, None));
    }

    #[test]
    fn rows_end_between_words_and_go_on_below_them() {
        assert_eq!(
            "? c1  CMD  printf 'a  b'\n        --and-more\n  runs printf\n  [N]o  [?] ",
            exactly(
                "? c1  CMD  printf 'a  b' --and-more\n  runs printf\n  [N]o  [?] ",
                Some(25)
            )
        );
        let long = "  in /a/directory/whose/name/is/longer/than/a/row · level 1";
        assert_eq!(
            "  in\n          /a/directory/whose/name/is/longer/than/a/row\n          · level 1",
            exactly(long, Some(24))
        );
        assert_eq!(long, exactly(long, None));
        assert_eq!(long, exactly(long, Some(10)));
    }

    #[test]
    fn answers_stay_whole() {
        assert_eq!(
            "  [y]es, keep  [N]o, drop\n          [d]iff, all of it  [?] ",
            exactly(
                "  [y]es, keep  [N]o, drop  [d]iff, all of it  [?] ",
                Some(32)
            )
        );
    }

    /// A command that spells rows of a card does not get them.
    #[test]
    fn what_goes_on_never_looks_like_a_row_of_the_card() {
        let long = "A".repeat(130);
        let command =
            format!("? c7  CMD  ls; : {long} in /home/u · /bin/sh · level 1 read; rm -r x");
        let shown = exactly(&command, Some(80));
        assert!(shown.contains("\n        in /home/u"), "{shown}");
        for difference in ["    +a b c", "     a b c", "  > said by a server"] {
            let line = format!("{difference} {long} {long}");
            assert_eq!(line, exactly(&line, Some(80)));
        }
    }

    proptest! {
        /// What was broken can be put together again: a break is one space, and nothing is lost or added.
        #[test]
        fn a_break_stands_for_one_space(
            words in proptest::collection::vec("[a-z日-]{1,30}", 1..20),
            spaces in proptest::collection::vec(1_usize..4, 20),
            columns in 24_usize..90,
        ) {
            let mut line = String::from("  ");
            for (word, count) in words.iter().zip(spaces) {
                line.push_str(word);
                line.push_str(&" ".repeat(count));
            }
            let rows = exactly(&line, Some(columns));
            let again = rows.replace("\n          ", " ");
            prop_assert_eq!(&line, &again);
            for row in rows.trim_end().split('\n') {
                let fits = unicode_width::UnicodeWidthStr::width(row) <= columns;
                let could_be_shorter = crate::render::wrap::words(row.trim()).count() > 1;
                prop_assert!(fits || !could_be_shorter, "{:?} of {}", row, columns);
            }
        }
    }
}
