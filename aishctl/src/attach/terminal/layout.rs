//! The rows of a line that is being typed, and where the cursor stands in them, character by character.

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthChar as _;

/// Tabs lead to multiples of this.
const TAB_COLUMNS: usize = 8;

/// A line as it stands on a screen.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LaidOutLine {
    /// The first is what follows the prompt.
    pub(super) rows: Vec<String>,
    /// The row and the column of the cursor.
    pub(super) cursor: (usize, usize),
}

/// Lays a text out in rows of `columns`; `taken` columns of the first are the prompt's, the cursor is before the byte
/// `cursor`. A last row that is full has an empty one below it, where the next character will stand.
pub(super) fn lay(text: &str, cursor: usize, taken: usize, columns: usize) -> LaidOutLine {
    let mut rows = vec![];
    let mut row = String::new();
    let (mut at, mut place) = (taken, None);
    for (byte, piece) in text.grapheme_indices(true) {
        let is_cursor = place.is_none() && cursor < byte + piece.len();
        if piece == "\n" {
            if is_cursor {
                place = Some((rows.len(), at.min(columns.saturating_sub(1))));
            }
            rows.push(std::mem::take(&mut row));
            at = 0;
            continue;
        }
        let shown = visible(piece, at);
        let wide = columns_of(&shown);
        if at + wide > columns && at > 0 {
            rows.push(std::mem::take(&mut row));
            at = 0;
        }
        if is_cursor {
            place = Some((rows.len(), at));
        }
        row.push_str(&shown);
        at += wide;
    }
    rows.push(row);
    if at >= columns {
        rows.push(String::new());
        at = 0;
    }
    LaidOutLine {
        cursor: place.unwrap_or((rows.len() - 1, at)),
        rows,
    }
}

/// The text as a terminal may have it: what was typed with Ctrl-V is shown, and does nothing.
pub(super) fn without_wraps(text: &str) -> String {
    let pieces = text.split_inclusive('\n').map(|row| {
        let (row, end) = row.strip_suffix('\n').map_or((row, ""), |it| (it, "\n"));
        let shown = row.graphemes(true).map(|it| visible(it, 0));
        shown.collect::<String>() + end
    });
    pieces.collect()
}

/// As the terminal counts: each character for itself.
pub(super) fn columns_of(text: &str) -> usize {
    text.chars().map(|it| it.width().unwrap_or(0)).sum()
}

/// A character that begins in this column.
fn visible(piece: &str, at: usize) -> String {
    if piece == "\t" {
        return " ".repeat(TAB_COLUMNS - at % TAB_COLUMNS);
    }
    let mut shown = String::with_capacity(piece.len());
    for it in piece.chars() {
        match it {
            '\0'..='\u{1f}' => {
                shown.push('^');
                shown.extend(char::from_u32(u32::from(it) + 64));
            }
            '\u{7f}' => shown.push_str("^?"),
            '\u{80}'..='\u{9f}' => shown.push('\u{fffd}'),
            _ => shown.push(it),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cursor stands before `|`.
    #[track_caller]
    fn check(text: &str, taken: usize, expected: &str, cursor: (usize, usize)) {
        let at = text.find('|').unwrap_or(text.len());
        let laid = lay(&text.replacen('|', "", 1), at, taken, 10);
        assert_eq!((expected, cursor), (&*laid.rows.join("\n"), laid.cursor));
    }

    #[test]
    fn a_line_goes_on_where_the_row_is_full() {
        check("abc", 4, "abc", (0, 7));
        check("a|bc", 4, "abc", (0, 5));
        check("abcdef", 4, "abcdef\n", (1, 0));
        check("abcde|f", 4, "abcdef\n", (0, 9));
        check("abcdefg", 4, "abcdef\ng", (1, 1));
        check("abcdef|g", 4, "abcdef\ng", (1, 0));
        check("日本語日本語", 0, "日本語日本\n語", (1, 2));
        check("日本|語", 5, "日本\n語", (1, 0));
        check("one\ntwo", 9, "o\nne\ntwo", (2, 3));
        check("one|\ntwo", 0, "one\ntwo", (0, 3));
        check("0123456789|\ntwo", 0, "0123456789\ntwo", (0, 9));
        check("one\n", 0, "one\n", (1, 0));
        check("e\u{301}x", 9, "e\u{301}\nx", (1, 1));
        check("", 0, "", (0, 0));
        check("", 10, "\n", (1, 0));
    }

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        check("a\t|b", 0, "a       b", (0, 8));
        check("\u{1b}[2J|x", 0, "^[[2Jx", (0, 5));
        check("\u{9b}\u{7f}", 0, "\u{fffd}^?", (0, 3));
        assert_eq!("a        b\n^[c\n", without_wraps("a\tb\n\u{1b}c\n"));
    }

    #[test]
    fn a_screen_of_one_column_has_rows_as_well() {
        assert_eq!(vec!["日", "本", ""], lay("日本", 0, 0, 1).rows);
    }
}
