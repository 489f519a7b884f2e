//! Markdown as it streams: text in, finished rows out (spec 80, 3.2). Pure: no IO, no clock, no terminal. What
//! comes out depends on the text and the style, never on how the text was cut into pieces. Putting rows on a
//! screen is the caller's part.

#[expect(dead_code, reason = "the blocks of Markdown use what lines do not")]
mod flow;
#[expect(dead_code, reason = "the blocks of Markdown use what lines do not")]
mod row;
mod style;

pub use row::Row;
pub use style::{Code, Colours, Glyphs, Links, Style};

use flow::Flow;
use row::Look;

use crate::safe;

/// Writes one text after the other.
#[derive(Debug)]
pub struct Writer {
    style: Style,
    line: String,
}

impl Writer {
    #[must_use]
    pub fn new(style: Style) -> Self {
        Self {
            style,
            line: String::new(),
        }
    }

    /// Takes the next piece of the text in; the rows that became final with it.
    pub fn push(&mut self, text: &str) -> Vec<Row> {
        let mut rows = Vec::new();
        for piece in safe::screen(text).split_inclusive('\n') {
            match piece.strip_suffix('\n') {
                Some(end) => {
                    self.line.push_str(end);
                    self.end_line(&mut rows);
                }
                None => self.line.push_str(piece),
            }
        }
        rows
    }

    /// The text is over: the rows that were still open. What is pushed afterwards is another text.
    pub fn finish(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut rows);
        }
        rows
    }

    /// The terminal has another width now: for the rows to come.
    pub fn resize(&mut self, width: Option<usize>) {
        self.style.width = width;
    }

    fn end_line(&mut self, rows: &mut Vec<Row>) {
        let line = std::mem::take(&mut self.line);
        if line.trim().is_empty() {
            rows.push(Row::default());
            return;
        }
        let mut flow = Flow::default();
        let room = self.style.columns();
        flow.push(&line.replace('\t', "    "), &Look::default(), room);
        rows.extend(flow.finish(room));
    }
}

#[cfg(test)]
mod tests;
