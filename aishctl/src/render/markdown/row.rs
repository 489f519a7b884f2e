//! A finished row: text with looks, and what a terminal gets of it.

use std::sync::Arc;

use unicode_segmentation::UnicodeSegmentation as _;
use unicode_width::UnicodeWidthStr as _;

use crate::render::markdown::style::Colours;

/// One row of the screen, without its line end. No character in it moves the cursor; only
/// [`ScreenRow::painted`] adds escape sequences, and only these: SGR and OSC 8.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScreenRow {
    pub(super) spans: Vec<StyledSpan>,
}

/// Text of one look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct StyledSpan {
    pub(super) text: String,
    pub(super) look: TextLook,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TextLook {
    pub(super) face: FontFace,
    pub(super) colour: Option<TextColour>,
    /// Where a click leads: an address that [`crate::render::markdown::link`] let through.
    pub(super) link: Option<Arc<str>>,
}

/// Bold and its like, as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FontFace(u8);

#[cfg_attr(
    not(feature = "highlight"),
    expect(dead_code, reason = "most of them are for code")
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextColour {
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
    Exact(u8, u8, u8),
}

impl FontFace {
    pub(super) const BOLD: Self = Self(1);
    pub(super) const DIM: Self = Self(2);
    pub(super) const ITALIC: Self = Self(4);
    pub(super) const UNDERLINED: Self = Self(8);
    pub(super) const STRUCK: Self = Self(16);

    const CODES: [(Self, &str); 5] = [
        (Self::BOLD, "1"),
        (Self::DIM, "2"),
        (Self::ITALIC, "3"),
        (Self::UNDERLINED, "4"),
        (Self::STRUCK, "9"),
    ];

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl TextColour {
    fn code(self) -> String {
        match self {
            Self::Red => "31".to_owned(),
            Self::Green => "32".to_owned(),
            Self::Yellow => "33".to_owned(),
            Self::Blue => "34".to_owned(),
            Self::Magenta => "35".to_owned(),
            Self::Cyan => "36".to_owned(),
            Self::Exact(red, green, blue) => format!("38;2;{red};{green};{blue}"),
        }
    }
}

impl TextLook {
    pub(super) fn of(face: FontFace) -> Self {
        Self {
            face,
            ..Self::default()
        }
    }

    fn codes(&self) -> String {
        let faces = FontFace::CODES
            .iter()
            .filter(|(face, _)| self.face.has(*face))
            .map(|(_, code)| (*code).to_owned());
        let codes: Vec<String> = faces.chain(self.colour.map(TextColour::code)).collect();
        codes.join(";")
    }
}

impl ScreenRow {
    /// As much of the end of a text as has room.
    pub(super) fn end_of(text: &str, room: usize) -> Self {
        let mut begin = text.len();
        let mut columns = 0;
        for (at, grapheme) in text.grapheme_indices(true).rev() {
            columns += width(grapheme);
            if columns > room {
                break;
            }
            begin = at;
        }
        let mut row = Self::default();
        row.push(&text[begin..], &TextLook::default());
        row
    }

    /// The columns that it takes.
    pub fn width(&self) -> usize {
        self.spans.iter().map(|it| width(&it.text)).sum()
    }

    /// The text alone.
    pub fn plain(&self) -> String {
        self.spans.iter().map(|it| it.text.as_str()).collect()
    }

    /// The text as a terminal is to get it. Every row stands by itself: no look goes on into the next.
    pub fn painted(&self, colours: Colours) -> String {
        if colours == Colours::None {
            return self.plain();
        }
        let mut painted = String::new();
        for span in &self.spans {
            let codes = span.look.codes();
            if let Some(address) = &span.look.link {
                painted.push_str(&format!("\u{1b}]8;;{address}\u{1b}\\"));
            }
            if codes.is_empty() {
                painted.push_str(&span.text);
            } else {
                painted.push_str(&format!("\u{1b}[{codes}m{}\u{1b}[0m", span.text));
            }
            if span.look.link.is_some() {
                painted.push_str("\u{1b}]8;;\u{1b}\\");
            }
        }
        painted
    }

    pub(super) fn append(&mut self, other: &Self) {
        for span in &other.spans {
            self.push(&span.text, &span.look);
        }
    }

    pub(super) fn trim_end(&mut self) {
        while let Some(last) = self.spans.last_mut() {
            last.text.truncate(last.text.trim_end_matches(' ').len());
            if !last.text.is_empty() {
                return;
            }
            self.spans.pop();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub(super) fn push(&mut self, text: &str, look: &TextLook) {
        match self.spans.last_mut() {
            Some(last) if last.look == *look => last.text.push_str(text),
            Some(_) | None if text.is_empty() => {}
            Some(_) | None => self.spans.push(StyledSpan {
                text: text.to_owned(),
                look: look.clone(),
            }),
        }
    }
}

/// The columns of a text: by what is seen as one character, so that a flag or a family is two columns wide.
pub(super) fn width(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.graphemes(true).map(|it| it.width()).sum()
}
