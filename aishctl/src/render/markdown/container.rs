//! What blocks stand in: quotes and list items, and what each puts in front of a row.

use crate::render::markdown::line::{LineKind, ListMarker, TASKS};
use crate::render::markdown::row::{FontFace, ScreenRow, TextLook, width};
use crate::render::markdown::style::{Colours, GlyphSet, Style};

/// Deeper ones are text.
pub(super) const MOST_CONTAINERS: usize = 12;
/// Where fewer columns than this would be left, a container puts nothing in front.
const LEAST_ROOM: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) shape: ContainerShape,
    /// In front of the first row.
    first: String,
    /// In front of the others.
    rest: String,
    /// What these take at most.
    columns: usize,
    shown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContainerShape {
    Quote,
    Item {
        kind: LineKind,
        /// How far its lines are indented.
        columns: usize,
        number: u64,
    },
}

impl Container {
    pub(super) fn quote(style: &Style) -> Self {
        let (first, rest) = match style.glyphs {
            GlyphSet::Drawn => ("│ ", "│ "),
            GlyphSet::Words => ("quote: ", "  "),
        };
        Self::new(ContainerShape::Quote, first, rest)
    }

    /// The item after `before`, if that is of the same list.
    pub(super) fn item(
        marker: &ListMarker,
        indent: usize,
        before: Option<&Self>,
        style: &Style,
    ) -> Self {
        let follows = before.and_then(|it| match it.shape {
            ContainerShape::Item { kind, number, .. } if kind.is_like(marker.kind) => {
                Some(number + 1)
            }
            ContainerShape::Item { .. } | ContainerShape::Quote => None,
        });
        let (number, first) = match (marker.kind, style.glyphs) {
            (LineKind::Bullet(_), GlyphSet::Drawn) => (0, "• ".to_owned()),
            (LineKind::Bullet(_), GlyphSet::Words) => (0, "- ".to_owned()),
            (LineKind::Ordered { number, after }, _) => {
                let number = follows.unwrap_or(number);
                (number, format!("{number}{after} "))
            }
        };
        let shape = ContainerShape::Item {
            kind: marker.kind,
            columns: indent + marker.columns,
            number,
        };
        Self::new(shape, &first, &" ".repeat(width(&first)))
    }

    fn new(shape: ContainerShape, first: &str, rest: &str) -> Self {
        Self {
            shape,
            first: first.to_owned(),
            rest: rest.to_owned(),
            columns: width(first).max(width(rest)),
            shown: false,
        }
    }

    /// The text of an item may make it a task; what is left of the text.
    pub(super) fn task<'a>(&mut self, text: &'a str, style: &Style) -> &'a str {
        if self.shown || self.shape == ContainerShape::Quote {
            return text;
        }
        for (sign, done) in TASKS {
            if let Some(rest) = text.strip_prefix(sign) {
                let box_ = match (style.glyphs, done) {
                    (GlyphSet::Drawn, false) => "☐ ",
                    (GlyphSet::Drawn, true) => "☑ ",
                    (GlyphSet::Words, false) => "to do: ",
                    (GlyphSet::Words, true) => "done: ",
                };
                match self.shape {
                    ContainerShape::Item {
                        kind: LineKind::Bullet(_),
                        ..
                    } if style.glyphs == GlyphSet::Drawn => {
                        box_.clone_into(&mut self.first);
                    }
                    ContainerShape::Item { .. } | ContainerShape::Quote => {
                        self.first.push_str(box_);
                    }
                }
                self.columns = self.columns.max(width(&self.first));
                return rest;
            }
        }
        text
    }

    /// An item that has nothing in it yet.
    pub(super) fn is_bare_item(&self) -> bool {
        !self.shown && self.shape != ContainerShape::Quote
    }
}

/// The columns that all of them leave.
pub(super) fn room(containers: &[Container], columns: usize) -> usize {
    let mut left = columns;
    for it in containers {
        if left >= LEAST_ROOM + it.columns {
            left -= it.columns;
        }
    }
    left
}

/// What they put in front of the next row.
pub(super) fn in_front(containers: &mut [Container], columns: usize, style: &Style) -> ScreenRow {
    let mut row = ScreenRow::default();
    let mut left = columns;
    for it in containers {
        if left >= LEAST_ROOM + it.columns {
            left -= it.columns;
            let text = if it.shown { &it.rest } else { &it.first };
            row.push(text, &look(style));
        }
        it.shown = true;
    }
    row
}

/// What they put in front of a row that separates two blocks inside of them.
pub(super) fn between(containers: &[Container], style: &Style) -> ScreenRow {
    let text: String = containers.iter().map(|it| it.rest.as_str()).collect();
    let mut row = ScreenRow::default();
    row.push(text.trim_end(), &look(style));
    row
}

fn look(style: &Style) -> TextLook {
    match style.colours {
        Colours::None => TextLook::default(),
        Colours::Sixteen | Colours::True => TextLook::of(FontFace::DIM),
    }
}
