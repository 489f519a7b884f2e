//! A paragraph that may be shown before it is over: every full row but the last, as long as all inline markers are
//! closed. What is held for more than three rows is shown as it is.

use crate::render::markdown::flow::{RowFlow, is_ideograph};
use crate::render::markdown::inline::{self, BREAK, InlinePart};
use crate::render::markdown::markers::MarkerReader;
use crate::render::markdown::row::{ScreenRow, TextLook, width};
use crate::render::markdown::style::Style;

/// Rows that may be held because a marker is open.
pub(super) const MOST_HELD_ROWS: usize = 3;
/// Text without a space is looked at this often.
const STRIDE_BYTES: usize = 256;
/// The same where a row may end anywhere.
const IDEOGRAPH_STRIDE_BYTES: usize = 64;

#[derive(Clone, Debug)]
pub(super) struct Paragraph {
    /// What is not in the flow yet, as it stands in the source.
    source: String,
    /// The columns of `source`.
    columns: usize,
    /// Where in `source` we looked last, whether a row is full.
    looked: usize,
    /// Its first row was longer than the screen, so it is a paragraph whatever follows.
    flowing: bool,
    /// Lines that are over.
    lines: usize,
    markers: MarkerReader,
    flow: RowFlow,
    look: TextLook,
    previous: Option<char>,
}

impl Paragraph {
    pub(super) fn new(look: TextLook) -> Self {
        Self {
            source: String::new(),
            columns: 0,
            looked: 0,
            flowing: false,
            lines: 0,
            markers: MarkerReader::default(),
            flow: RowFlow::default(),
            look,
            previous: None,
        }
    }

    /// The text so far, while it may still become the head of a table or a heading.
    pub(super) fn undecided(&self) -> Option<&str> {
        (!self.flowing).then_some(self.source.as_str())
    }

    /// The text so far, if it is one line that may still become the head of a table.
    pub(super) fn only_line(&self) -> Option<&str> {
        self.undecided().filter(|_| self.lines == 1)
    }

    /// Takes a line's text; the rows that are full.
    pub(super) fn text(&mut self, text: &str, room: usize, style: &Style) -> Vec<ScreenRow> {
        for it in text.chars() {
            self.character(it, room, style);
        }
        self.flow.full()
    }

    fn character(&mut self, it: char, room: usize, style: &Style) {
        let held = self.source.len() - self.looked;
        let between = |kind: fn(char) -> bool| self.previous.is_some_and(kind) && kind(it);
        if held >= IDEOGRAPH_STRIDE_BYTES && between(may_end_a_row) {
            self.look(ParagraphCut::BetweenWords, room, style);
        } else if held >= STRIDE_BYTES {
            let inside = between(|it| it.is_ascii_alphanumeric());
            let cut = if inside {
                ParagraphCut::BetweenWords
            } else {
                ParagraphCut::InAWord
            };
            self.look(cut, room, style);
        }
        self.source.push(it);
        self.columns += width(it.encode_utf8(&mut [0; 4]));
        self.markers.take(it);
        self.previous = Some(it);
        if it == ' ' {
            self.look(ParagraphCut::BetweenWords, room, style);
        }
    }

    /// The line is over, and the next one goes on with the paragraph.
    pub(super) fn next_line(&mut self, room: usize, style: &Style) -> Vec<ScreenRow> {
        let text = self.source.trim_end();
        let spaces = self.source.len() - text.len();
        self.lines += 1;
        let escaped = spaces == 0 && self.markers.unescape();
        if escaped {
            self.source.pop();
        }
        if escaped || spaces >= 2 {
            return self.text(&format!(" {BREAK} "), room, style);
        }
        self.text(" ", room, style)
    }

    /// Moves text into the flow if it is more than a row.
    fn look(&mut self, cut: ParagraphCut, room: usize, style: &Style) {
        self.looked = self.source.len();
        if self.flow.column() + self.columns <= room {
            return;
        }
        self.flowing = true;
        let end = self.source.trim_end_matches([' ', BREAK]).len();
        let (text, rest) = self.source.split_at(end);
        let parts = if cut == ParagraphCut::BetweenWords && self.markers.is_closed() {
            inline::parts(text, &self.look, style)
        } else if self.columns > MOST_HELD_ROWS.saturating_mul(room) {
            self.markers = MarkerReader::default();
            inline::literal(text, &self.look)
        } else {
            return;
        };
        let rest = rest.to_owned();
        self.pour(&parts, room);
        self.columns = width(&rest);
        self.looked = rest.len();
        self.source = rest;
    }

    fn pour(&mut self, parts: &[InlinePart], room: usize) {
        for part in parts {
            match part {
                InlinePart::Text(text, look) => self.flow.push(text, look, room),
                InlinePart::Break => self.flow.break_row(room),
            }
        }
    }

    /// The paragraph is over: all of its rows that were not given out.
    pub(super) fn finish(mut self, room: usize, style: &Style) -> Vec<ScreenRow> {
        let source = std::mem::take(&mut self.source);
        let source = source.trim_end_matches([' ', BREAK]);
        let parts = inline::parts(source, &self.look, style);
        self.pour(&parts, room);
        self.flow.finish(room)
    }
}

/// Where we look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ParagraphCut {
    /// The text before and the text after mean the same apart as together.
    BetweenWords,
    InAWord,
}

fn may_end_a_row(it: char) -> bool {
    is_ideograph(it.encode_utf8(&mut [0; 4]))
}

/// The rows of a text that is there as a whole.
pub(super) fn rows(source: &str, look: &TextLook, room: usize, style: &Style) -> Vec<ScreenRow> {
    let mut flow = RowFlow::default();
    for part in inline::parts(source, look, style) {
        match part {
            InlinePart::Text(text, look) => flow.push(&text, &look, room),
            InlinePart::Break => flow.break_row(room),
        }
    }
    flow.finish(room)
}
