//! What a command printed, as text: rows as they stood in the end, without colours. Returns, backspaces and the short ways of
//! progress bars up and back are followed; a program that takes the whole screen is left out, and so is what was printed while
//! nothing that is typed was shown.

use std::collections::VecDeque;

use vte::{Params, Parser, Perform};

/// The most that is kept of one command, in characters; the end of it.
const MOST: usize = 64 << 10;
/// A longer row is broken, so that the end of it is what stays.
const ROW: usize = 2_000;
/// Further no program moves that writes rows.
const FURTHEST: usize = 1_000;
/// A parser that gets bytes for so long without a result is in the middle of something endless.
const SILENT: usize = 64 << 10;
/// Stands where something is left out.
const LEFT_OUT: &str = "[not recorded]";

/// The rows of one command, while it prints.
#[derive(Default)]
pub(crate) struct OutputText {
    parser: Parser,
    rows: OutputRows,
}

impl std::fmt::Debug for OutputText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputText").finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct OutputRows {
    rows: VecDeque<Vec<char>>,
    /// Where the cursor stands.
    row: usize,
    column: usize,
    /// Characters in all rows.
    kept: usize,
    /// Rows that were too many.
    dropped: usize,
    /// A program has the whole screen.
    whole_screen: bool,
    /// What is typed is not shown.
    hidden: bool,
    /// The last thing that is there says that something is left out.
    says_left_out: bool,
    /// Something came of the bytes.
    heard: bool,
    silent: usize,
}

impl OutputText {
    /// What came next; `hidden`: it is not to be kept.
    pub(crate) fn add(&mut self, bytes: &[u8], hidden: bool) {
        self.rows.hidden = hidden;
        self.rows.heard = false;
        self.parser.advance(&mut self.rows, bytes);
        self.rows.silent = if self.rows.heard {
            0
        } else {
            self.rows.silent + bytes.len()
        };
        if self.rows.silent > SILENT {
            self.parser = Parser::new();
            self.rows.silent = 0;
        }
    }

    pub(crate) fn has_text(&self) -> bool {
        self.rows.rows.iter().any(|it| !it.is_empty())
    }

    /// The rows that are kept, and how many there were.
    pub(crate) fn finish(&self) -> (Vec<String>, usize) {
        let rows = self.rows.rows.iter();
        let mut rows: Vec<String> = rows
            .map(|row| row.iter().collect::<String>().trim_end().to_owned())
            .collect();
        while rows.last().is_some_and(String::is_empty) {
            rows.pop();
        }
        let all = self.rows.dropped + rows.len();
        (rows, all)
    }
}

impl OutputRows {
    fn is_left_out(&mut self) -> bool {
        self.heard = true;
        self.hidden || self.whole_screen
    }

    fn say_left_out(&mut self) {
        if std::mem::replace(&mut self.says_left_out, true) {
            return;
        }
        if self.column > 0 {
            self.next_row();
        }
        for it in LEFT_OUT.chars() {
            self.put(it);
        }
        self.next_row();
    }

    fn put(&mut self, character: char) {
        if self.column >= ROW {
            self.next_row();
        }
        while self.rows.len() <= self.row {
            self.rows.push_back(vec![]);
        }
        let Some(row) = self.rows.get_mut(self.row) else {
            return;
        };
        let before = row.len();
        if row.len() < self.column {
            row.resize(self.column, ' ');
        }
        match row.get_mut(self.column) {
            Some(cell) => *cell = character,
            None => row.push(character),
        }
        self.kept += row.len() - before;
        self.column += 1;
        while self.kept > MOST && self.rows.len() > 1 {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some(first) = self.rows.pop_front() {
            // A row of its own counts for one more, or empty ones would be without end.
            self.kept = self.kept.saturating_sub(first.len() + 1);
            self.dropped += 1;
            self.row = self.row.saturating_sub(1);
        }
    }

    fn next_row(&mut self) {
        self.row += 1;
        self.column = 0;
        while self.rows.len() <= self.row {
            self.rows.push_back(vec![]);
            self.kept += 1;
        }
        while self.kept > MOST && self.rows.len() > 1 {
            self.drop_first();
        }
    }

    fn cut_row(&mut self, at: usize) {
        if let Some(row) = self.rows.get_mut(self.row) {
            let before = row.len();
            row.truncate(at);
            self.kept = self.kept.saturating_sub(before - row.len());
        }
    }

    fn erase_display(&mut self, how: u16) {
        match how {
            0 => {
                self.cut_row(self.column);
                while self.rows.len() > self.row + 1 {
                    let gone = self.rows.pop_back().map_or(0, |it| it.len() + 1);
                    self.kept = self.kept.saturating_sub(gone);
                }
            }
            2 | 3 => {
                *self = Self {
                    whole_screen: self.whole_screen,
                    hidden: self.hidden,
                    heard: true,
                    ..Self::default()
                };
            }
            _ => {}
        }
    }

    fn move_cursor(&mut self, action: char, by: usize) {
        match action {
            'A' | 'F' => self.row = self.row.saturating_sub(by),
            'B' | 'E' => self.row = (self.row + by).min(self.rows.len().saturating_sub(1)),
            'C' => self.column = (self.column + by).min(ROW),
            'D' => self.column = self.column.saturating_sub(by),
            'G' => self.column = by.saturating_sub(1),
            _ => {}
        }
        if matches!(action, 'E' | 'F') {
            self.column = 0;
        }
    }
}

impl Perform for OutputRows {
    fn print(&mut self, character: char) {
        if self.is_left_out() {
            self.say_left_out();
        } else {
            self.says_left_out = false;
            self.put(character);
        }
    }

    fn execute(&mut self, byte: u8) {
        if self.is_left_out() {
            return;
        }
        match byte {
            b'\n' => self.next_row(),
            b'\r' => self.column = 0,
            b'\t' => self.column = (self.column / 8 + 1) * 8,
            0x08 => self.column = self.column.saturating_sub(1),
            _ => {}
        }
    }

    fn csi_dispatch(&mut self, params: &Params, intermediates: &[u8], _: bool, action: char) {
        let mut numbers = params.iter().filter_map(|it| it.first().copied());
        if intermediates == b"?" {
            if matches!(action, 'h' | 'l') && numbers.any(|it| matches!(it, 47 | 1047 | 1049)) {
                self.whole_screen = action == 'h';
            }
            self.heard = true;
            return;
        }
        if !intermediates.is_empty() || self.is_left_out() {
            return;
        }
        let first = numbers.next().unwrap_or_default();
        match action {
            'A'..='G' => self.move_cursor(action, usize::from(first).clamp(1, FURTHEST)),
            'J' => self.erase_display(first),
            'K' if first == 0 => self.cut_row(self.column),
            'K' if first == 2 => self.cut_row(0),
            'H' | 'f' if self.column > 0 => self.next_row(),
            _ => {}
        }
    }

    fn osc_dispatch(&mut self, _: &[&[u8]], _: bool) {
        self.heard = true;
    }

    fn esc_dispatch(&mut self, _: &[u8], _: bool, _: u8) {
        self.heard = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &str, expected: &[&str]) {
        for size in [1, 3, bytes.len().max(1)] {
            let mut text = OutputText::default();
            for piece in bytes.as_bytes().chunks(size) {
                text.add(piece, false);
            }
            assert_eq!(expected, text.finish().0, "{bytes:?} cut at {size}");
        }
    }

    #[test]
    fn rows_are_as_they_stood_in_the_end() {
        check("one\r\ntwo\r\n\r\n", &["one", "two"]);
        check(
            "\x1b[31merror\x1b[0m: größe 日本\r\n",
            &["error: größe 日本"],
        );
        check("10 %\r50 %\r100 %\r\ndone\x1b[K", &["100 %", "done"]);
        check("loading\r\x1b[Kok\r\n", &["ok"]);
        check(
            "a: 1\r\nb: 1\r\n\x1b[2Aa: 2\r\n\x1b[Bc",
            &["a: 2", "b: 1", "c"],
        );
        check("abc\x08\x08X\r\n", &["aXc"]);
        check("a\tb\x1b[3Cc", &["a       b   c"]);
        check("old\r\n\x1b[2J\x1b[Hnew", &["new"]);
        check(
            "\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
            &["link"],
        );
        check("", &[]);
    }

    #[test]
    fn the_whole_screen_is_left_out() {
        check(
            "before\r\n\x1b[?1049h\x1b[Hsecret\r\nfile\x1b[?1049lafter",
            &["before", "[not recorded]", "after"],
        );
        check("\x1b[?25;1047hx\x1b[?1047l", &["[not recorded]"]);
    }

    #[test]
    fn what_is_printed_while_nothing_is_echoed_is_left_out() {
        let mut text = OutputText::default();
        text.add(b"Password: ", false);
        text.add(b"hint\r\n\x1b[?1049hx", true);
        text.add(b"y", false);
        text.add(b"\x1b[?1049l", true);
        text.add(b"welcome", false);
        let expected = ["Password:", "[not recorded]", "welcome"];
        assert_eq!(&expected[..], text.finish().0);
    }

    #[test]
    fn however_much_comes_the_end_is_kept() {
        let mut text = OutputText::default();
        for at in 0..200_000 {
            text.add(format!("row {at}\r\n").as_bytes(), false);
        }
        let (rows, all) = text.finish();
        assert_eq!(
            (200_000, "row 199999"),
            (all, rows.last().unwrap().as_str())
        );
        assert!(rows.iter().map(String::len).sum::<usize>() <= MOST);
        let mut text = OutputText::default();
        text.add("x".repeat(300_000).as_bytes(), false);
        text.add(&b"\n".repeat(300_000), false);
        text.add(&b"\x1b[999B\x1b[65535C!".repeat(300), false);
        assert!(text.rows.rows.len() <= MOST + 1);
        let mut text = OutputText::default();
        text.add(b"\x1b]0;", false);
        for _ in 0..100 {
            text.add(&[b'x'; 4096], false);
        }
        text.add(b"\r\nback", false);
        assert_eq!("back", text.finish().0.last().unwrap());
    }
}
