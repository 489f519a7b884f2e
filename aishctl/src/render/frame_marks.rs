//! What stands in front of the rows of a command or a call.

use crate::render::markdown::GlyphSet;

/// What stands in front of a frame's rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameMarks {
    pub(crate) begins: &'static str,
    /// A further line of what runs.
    pub(crate) goes_on: &'static str,
    pub(crate) prints: &'static str,
    pub(crate) ends: &'static str,
    pub(crate) refused: &'static str,
    /// Something is left out.
    pub(crate) gap: &'static str,
    /// Between how it ended and how long it took.
    pub(crate) between: &'static str,
}

impl FrameMarks {
    pub(crate) const fn of(glyphs: GlyphSet) -> Self {
        match glyphs {
            GlyphSet::Drawn => Self {
                begins: "  ┌ ",
                goes_on: "  ┊ ",
                prints: "  │ ",
                ends: "  └ ",
                refused: "  ✗ ",
                gap: "…",
                between: " · ",
            },
            GlyphSet::Words => Self {
                begins: "  run: ",
                goes_on: "  run: ",
                prints: "  out: ",
                ends: "  end: ",
                refused: "  refused: ",
                gap: "...",
                between: ", ",
            },
        }
    }
}

impl Default for FrameMarks {
    fn default() -> Self {
        Self::of(GlyphSet::default())
    }
}
