//! Markdown as it streams: text in, finished rows out. Pure: no IO, no clock, no terminal. What
//! comes out depends on the text and the style, never on how the text was cut into pieces. Putting rows on a
//! screen is the caller's part.

mod block;
mod blocks;
mod code;
mod container;
mod flow;
mod inline;
mod line;
mod link;
mod markers;
mod painter;
mod paragraph;
mod row;
mod style;
mod table;
mod tilde;

use blocks::BlockStack;
pub use painter::Painter;
pub use row::ScreenRow;
pub use style::{CodeStyle, Colours, GlyphSet, LinkStyle, Style};

use crate::safe;

/// Writes one text after the other.
#[derive(Debug)]
pub struct MarkdownWriter {
    blocks: BlockStack,
}

impl MarkdownWriter {
    pub fn new(style: Style) -> Self {
        Self {
            blocks: BlockStack::new(style),
        }
    }

    /// Takes the next piece of the text in; the rows that became final with it.
    pub fn push(&mut self, text: &str) -> Vec<ScreenRow> {
        for it in safe::screen(text).chars() {
            self.blocks.take(it);
        }
        self.blocks.rows()
    }

    /// Whether a paragraph, a table or code has begun and may go on. Items of a list are blocks of their own.
    pub fn is_within_block(&self) -> bool {
        self.blocks.is_within_one()
    }

    /// The row that is being written, as it stands so far: none of those that are final, and nothing final itself.
    pub fn row_begun(&self) -> Option<ScreenRow> {
        self.blocks.row_begun()
    }

    /// The text is over: the rows that were still open. What is pushed afterwards is another text.
    pub fn finish(&mut self) -> Vec<ScreenRow> {
        self.blocks.finish()
    }

    /// The terminal has another width now: for the rows to come.
    pub fn resize(&mut self, width: Option<usize>) {
        self.blocks.style.width = width;
    }
}

#[cfg(test)]
mod tests;
