//! Where a line that is being typed goes on in the next row: as the editor counts it, character by character.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthChar as _;

/// Tabs lead to multiples of this.
const TAB_COLUMNS: usize = 8;

/// The text with a line feed wherever it goes on in the next row; `taken` columns of the first are taken. On a
/// terminal that is narrower by now, what has no place in its row is left out, so that there are as many rows.
#[must_use]
pub(super) fn broken(text: &str, taken: usize, columns: usize, now: usize) -> String {
    let mut broken = String::with_capacity(text.len() + text.len() / columns.max(1));
    walk(text, taken, columns, |piece, step| {
        if step.next_row {
            broken.push('\n');
        }
        if step.end <= now || piece == "\n" {
            broken.push_str(piece);
        }
    });
    broken
}

/// How many rows it takes.
#[must_use]
pub(super) fn rows(text: &str, taken: usize, columns: usize) -> usize {
    let mut rows = 1;
    walk(text, taken, columns, |piece, step| {
        rows += usize::from(step.next_row || piece == "\n");
    });
    rows
}

struct Step {
    /// It is the first of its row, for the one before is full.
    next_row: bool,
    /// The column behind it.
    end: usize,
}

fn walk<'t>(text: &'t str, taken: usize, columns: usize, mut take: impl FnMut(&'t str, Step)) {
    let mut at = taken;
    for piece in text.graphemes(true) {
        if piece == "\n" {
            at = 0;
            take(
                piece,
                Step {
                    next_row: false,
                    end: 0,
                },
            );
            continue;
        }
        let wide = match piece {
            "\t" => TAB_COLUMNS - at % TAB_COLUMNS,
            _ => piece.chars().map(|it| it.width().unwrap_or(0)).sum(),
        };
        at += wide;
        let next_row = at > columns;
        if next_row {
            at = wide;
        }
        take(piece, Step { next_row, end: at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, taken: usize, expected: &str) {
        assert_eq!(expected, broken(text, taken, 10, 10));
        assert_eq!(expected.split('\n').count(), rows(text, taken, 10));
    }

    #[test]
    fn a_narrower_terminal_gets_as_many_rows() {
        assert_eq!("abcd\nklmn", broken("abcdefghijklmn", 0, 10, 4));
        assert_eq!("ab\n語", broken("abcdefgh語", 2, 10, 4));
    }

    #[test]
    fn a_line_goes_on_where_the_row_is_full() {
        check("abc", 4, "abc");
        check("abcdef", 4, "abcdef");
        check("abcdefg", 4, "abcdef\ng");
        check("日本語日本語", 0, "日本語日本\n語");
        check("日本語", 5, "日本\n語");
        check("one\ntwo", 9, "o\nne\ntwo");
        check("e\u{301}x", 9, "e\u{301}\nx");
        check("a\tb", 0, "a\tb");
        check("", 10, "");
    }
}
