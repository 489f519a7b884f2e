//! How Markdown is to look: what the terminal can do and what the person wants. Decided once, outside.

/// What a [`crate::render::markdown::MarkdownWriter`] writes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns of a row; `None`: rows are as long as their paragraphs.
    pub width: Option<usize>,
    pub colours: Colours,
    pub glyphs: GlyphSet,
    pub links: LinkStyle,
    pub code: CodeStyle,
}

/// The colours that may be used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Colours {
    /// No escape sequence at all: what a colour would say, the marker of the source says.
    #[default]
    None,
    /// The sixteen of the user's own theme.
    Sixteen,
    /// Those, and for code all of them.
    True,
}

/// What may stand around the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GlyphSet {
    /// Bullets, bars and boxes.
    #[default]
    Drawn,
    /// Words in front of lines, for screen readers and terminals without UTF-8.
    Words,
}

/// How a link shows where it leads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkStyle {
    /// `label (url)`
    #[default]
    Written,
    /// The label can be clicked: OSC 8, for terminals that are known to have it.
    Clickable,
}

/// How fenced code looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeStyle {
    #[default]
    Plain,
    /// Coloured by its language, where that is known and the feature `highlight` is built in.
    Highlighted,
}

/// Narrower than this nothing is laid out; such a terminal wraps by itself.
const LEAST_COLUMNS: usize = 20;

/// Where no width is known, a row ends all the same somewhere.
const MOST_COLUMNS: usize = 1 << 16;

impl Style {
    /// Text alone, in rows of that many columns.
    pub fn plain(width: Option<usize>) -> Self {
        Self {
            width,
            colours: Colours::None,
            glyphs: GlyphSet::Drawn,
            links: LinkStyle::Written,
            code: CodeStyle::Plain,
        }
    }

    pub(super) fn columns(&self) -> usize {
        self.width.map_or(MOST_COLUMNS, |it| it.max(LEAST_COLUMNS))
    }
}
