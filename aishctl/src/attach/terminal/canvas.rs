//! What is written when the line is drawn: the rows that wait, and below them the prompt and the line, which are always
//! the last thing on the screen. Nothing but this moves the cursor, so it is known where it stands, whatever the width
//! of the terminal was and is; but a terminal that lays its rows out anew for another width may leave a copy of a row.

use std::fmt::Write as _;

use super::layout;

/// The terminal shows what comes between these at once, where it knows them.
const BEGIN: &str = "\u{1b}[?2026h";
const END: &str = "\u{1b}[?2026l";
/// A row of the line that is too long, because the terminal became narrower a moment ago, is cut and does not wrap: it
/// stays one row.
const CUT: &str = "\u{1b}[?7l";
const WRAP: &str = "\u{1b}[?7h";
/// Behind a drawing that nobody knows the end of.
pub(super) const BROKEN_OFF: &str = "\u{1b}[?7h\u{1b}[?2026l\u{1b}[0m\r\n\u{1b}[J";
const CLEAR: &str = "\u{1b}[H\u{1b}[2J";

/// What stands at the end of the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct BottomRows {
    /// Rows of the line above the cursor, and below it.
    above: usize,
    below: usize,
    /// Of the terminal when it was drawn; none when nobody knows what stands there.
    size: Option<TerminalSize>,
}

/// The line that is being typed.
#[derive(Clone, Copy, Debug)]
pub(super) struct EditedLine<'a> {
    /// With its colours.
    pub(super) prompt: &'a str,
    pub(super) prompt_columns: usize,
    pub(super) text: &'a str,
    /// The cursor is before this byte.
    pub(super) cursor: usize,
    /// What goes on now: one row above, where there is room for it.
    pub(super) live: Option<&'a str>,
}

/// Columns and rows of a terminal.
pub(super) type TerminalSize = (usize, usize);

impl BottomRows {
    /// Rows above, and the line where it can be typed on. One that is higher than the screen shows the rows around its
    /// cursor.
    pub(super) fn draw(
        &mut self,
        above: &str,
        line: EditedLine<'_>,
        (columns, rows): TerminalSize,
    ) -> String {
        let laid = layout::lay(line.text, line.cursor, line.prompt_columns, columns);
        let (at, column) = laid.cursor;
        // One row of the conversation stays in sight.
        let height = rows.saturating_sub(1).max(1);
        let first = (at + 1).saturating_sub(height);
        let last = laid.rows.len().min(first + height);
        let mut drawn = self.erased((columns, rows));
        drawn.push_str(above);
        drawn.push_str(CUT);
        let live = line.live.filter(|_| laid.rows.len() < height);
        if let Some(live) = live {
            drawn.push_str(live);
            drawn.push('\n');
        }
        if first == 0 {
            drawn.push_str(line.prompt);
        }
        let shown = laid.rows.get(first..last).unwrap_or_default();
        drawn.push_str(&shown.join("\n"));
        up(&mut drawn, last.saturating_sub(at + 1));
        drawn.push('\r');
        if column > 0 {
            // Writing to a string cannot fail.
            let _ = write!(drawn, "\u{1b}[{column}C");
        }
        drawn.push_str(WRAP);
        drawn.push_str(END);
        *self = Self {
            above: at - first + usize::from(live.is_some()),
            below: last.saturating_sub(at + 1),
            size: Some((columns, rows)),
        };
        drawn
    }

    /// The line as it stays, whole and in one piece for whoever copies it; the cursor is below it.
    pub(super) fn leave(
        &mut self,
        above: &str,
        line: EditedLine<'_>,
        size: TerminalSize,
    ) -> String {
        let mut drawn = self.erased(size);
        drawn.push_str(above);
        drawn.push_str(line.prompt);
        drawn.push_str(&layout::without_wraps(line.text));
        drawn.push('\n');
        drawn.push_str(END);
        self.forget();
        drawn
    }

    /// The rows alone: the line was empty, and what comes next stands in its place.
    pub(super) fn take_away(&mut self, above: &str, size: TerminalSize) -> String {
        let drawn = format!("{}{above}{END}", self.erased(size));
        self.forget();
        drawn
    }

    /// The screen is empty.
    pub(super) fn clear(&mut self) -> &'static str {
        self.forget();
        CLEAR
    }

    /// Somebody else wrote on the terminal, and left the cursor where a row may begin.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Back to where the prompt begins, with nothing below it. Row by row: a terminal that is told to clear all of its
    /// screen may keep it in its history first, and would with each key.
    fn erased(&self, size: TerminalSize) -> String {
        let mut drawn = BEGIN.to_owned();
        if self.size == Some(size) {
            down(&mut drawn, self.below);
            drawn.push_str("\r\u{1b}[K");
            for _ in 0..self.above + self.below {
                drawn.push_str("\u{1b}[A\u{1b}[K");
            }
        } else {
            up(&mut drawn, self.above);
            drawn.push_str("\r\u{1b}[J");
        }
        drawn
    }
}

fn down(drawn: &mut String, rows: usize) {
    if rows > 0 {
        let _ = write!(drawn, "\u{1b}[{rows}B");
    }
}

fn up(drawn: &mut String, rows: usize) {
    if rows > 0 {
        let _ = write!(drawn, "\u{1b}[{rows}A");
    }
}

#[cfg(test)]
mod tests;
