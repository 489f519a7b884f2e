//! What blocks stand in: quotes and list items, and what each puts in front of a row.

use super::line::{Kind, Marker, TASKS};
use super::row::{Face, Look, Row, width};
use super::style::{Colours, Glyphs, Style};

/// Deeper ones are text.
pub(super) const MOST_CONTAINERS: usize = 12;
/// Where fewer columns than this would be left, a container puts nothing in front.
const LEAST_ROOM: usize = 10;

#[derive(Clone, Debug)]
pub(super) struct Container {
    pub(super) shape: Shape,
    /// In front of the first row.
    first: String,
    /// In front of the others.
    rest: String,
    /// What these take at most.
    columns: usize,
    shown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Quote,
    Item {
        kind: Kind,
        /// How far its lines are indented.
        columns: usize,
        number: u64,
    },
}

impl Container {
    pub(super) fn quote(style: &Style) -> Self {
        let (first, rest) = match style.glyphs {
            Glyphs::Drawn => ("│ ", "│ "),
            Glyphs::Words => ("quote: ", "  "),
        };
        Self::new(Shape::Quote, first, rest)
    }

    /// The item after `before`, if that is of the same list.
    pub(super) fn item(
        marker: &Marker,
        indent: usize,
        before: Option<&Self>,
        style: &Style,
    ) -> Self {
        let follows = before.and_then(|it| match it.shape {
            Shape::Item { kind, number, .. } if kind.is_like(marker.kind) => Some(number + 1),
            Shape::Item { .. } | Shape::Quote => None,
        });
        let (number, first) = match (marker.kind, style.glyphs) {
            (Kind::Bullet(_), Glyphs::Drawn) => (0, "• ".to_owned()),
            (Kind::Bullet(_), Glyphs::Words) => (0, "- ".to_owned()),
            (Kind::Ordered { number, after }, _) => {
                let number = follows.unwrap_or(number);
                (number, format!("{number}{after} "))
            }
        };
        let shape = Shape::Item {
            kind: marker.kind,
            columns: indent + marker.columns,
            number,
        };
        Self::new(shape, &first, &" ".repeat(width(&first)))
    }

    fn new(shape: Shape, first: &str, rest: &str) -> Self {
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
        if self.shown || self.shape == Shape::Quote {
            return text;
        }
        for (sign, done) in TASKS {
            if let Some(rest) = text.strip_prefix(sign) {
                let box_ = match (style.glyphs, done) {
                    (Glyphs::Drawn, false) => "☐ ",
                    (Glyphs::Drawn, true) => "☑ ",
                    (Glyphs::Words, false) => "to do: ",
                    (Glyphs::Words, true) => "done: ",
                };
                match self.shape {
                    Shape::Item {
                        kind: Kind::Bullet(_),
                        ..
                    } if style.glyphs == Glyphs::Drawn => {
                        box_.clone_into(&mut self.first);
                    }
                    Shape::Item { .. } | Shape::Quote => self.first.push_str(box_),
                }
                self.columns = self.columns.max(width(&self.first));
                return rest;
            }
        }
        text
    }

    /// An item that has nothing in it yet.
    pub(super) fn is_bare_item(&self) -> bool {
        !self.shown && self.shape != Shape::Quote
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
pub(super) fn in_front(containers: &mut [Container], columns: usize, style: &Style) -> Row {
    let mut row = Row::default();
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
pub(super) fn between(containers: &[Container], style: &Style) -> Row {
    let text: String = containers.iter().map(|it| it.rest.as_str()).collect();
    let mut row = Row::default();
    row.push(text.trim_end(), &look(style));
    row
}

fn look(style: &Style) -> Look {
    match style.colours {
        Colours::None => Look::default(),
        Colours::Sixteen | Colours::True => Look::of(Face::DIM),
    }
}
