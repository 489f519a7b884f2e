//! Words into rows. A row is given out as soon as the next word does not fit into it.

use unicode_segmentation::UnicodeSegmentation as _;

use crate::render::markdown::row::{ScreenRow, TextLook, width};

/// A row that is being filled, and the word that comes next.
#[derive(Clone, Debug, Default)]
pub(super) struct RowFlow {
    row: ScreenRow,
    column: usize,
    /// A space that stands between the row and the word, unless the row ends there.
    space: Option<TextLook>,
    word: ScreenRow,
    word_width: usize,
    full: Vec<ScreenRow>,
}

impl RowFlow {
    /// Text of one look, for rows of `room` columns. Where it was cut into pieces does not matter, except inside
    /// of what is seen as one character.
    pub(super) fn push(&mut self, text: &str, look: &TextLook, room: usize) {
        for it in text.graphemes(true) {
            if it == " " {
                self.place(room);
                if self.column > 0 {
                    self.space = Some(look.clone());
                }
            } else if is_ideograph(it) {
                self.place(room);
                self.extend(it, look, room);
                self.place(room);
            } else {
                self.extend(it, look, room);
            }
        }
    }

    /// Ends the row here.
    pub(super) fn break_row(&mut self, room: usize) {
        self.place(room);
        if self.column > 0 {
            self.end_row();
        }
    }

    /// The rows that are full.
    pub(super) fn full(&mut self) -> Vec<ScreenRow> {
        std::mem::take(&mut self.full)
    }

    /// The columns that the row has taken so far.
    pub(super) fn column(&self) -> usize {
        self.column + self.word_width + usize::from(self.space.is_some())
    }

    /// All rows; the flow is empty then.
    pub(super) fn finish(&mut self, room: usize) -> Vec<ScreenRow> {
        self.break_row(room);
        self.full()
    }

    fn extend(&mut self, character: &str, look: &TextLook, room: usize) {
        let columns = width(character);
        let before = self.column + usize::from(self.space.is_some());
        if self.column > 0 && before + self.word_width + columns > room {
            self.end_row();
        }
        // A word that fits no row is broken where the row ends.
        if self.word_width > 0 && self.word_width + columns > room {
            self.place(room);
            self.end_row();
        }
        self.word.push(character, look);
        self.word_width += columns;
    }

    /// Moves the word into the row. That it fits was seen to before, by [`RowFlow::extend`].
    fn place(&mut self, room: usize) {
        if self.word.is_empty() {
            return;
        }
        if self.column > 0 && self.column() > room {
            self.end_row();
        }
        if let Some(look) = self.space.take() {
            self.row.push(" ", &look);
            self.column += 1;
        }
        self.row.append(&std::mem::take(&mut self.word));
        self.column += std::mem::take(&mut self.word_width);
    }

    fn end_row(&mut self) {
        self.space = None;
        self.column = 0;
        self.full.push(std::mem::take(&mut self.row));
    }
}

/// Characters of scripts that are written without spaces: a row may end before and after each.
pub(super) fn is_ideograph(character: &str) -> bool {
    character.chars().next().is_some_and(|it| {
        matches!(u32::from(it),
            0x2E80..=0x9FFF | 0xAC00..=0xD7A3 | 0xF900..=0xFAFF | 0xFF00..=0xFF60 | 0x20000..=0x3FFFF)
    })
}
