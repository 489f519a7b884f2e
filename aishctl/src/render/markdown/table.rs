//! A table, laid out as a whole within the columns there are. Where a column would be too narrow to read, its
//! rows become lists of `key: value`.

use crate::render::markdown::line::ColumnAlignment;
use crate::render::markdown::paragraph;
use crate::render::markdown::row::{FontFace, ScreenRow, TextLook};
use crate::render::markdown::style::{Colours, GlyphSet, Style};

/// A cell narrower than this is not read but spelled.
const LEAST_CELL_COLUMNS: usize = 6;
/// Rows that are laid out together. What comes after them begins again, so that no table is held for ever.
pub(super) const ROWS_TOGETHER: usize = 500;

#[derive(Clone, Debug)]
pub(super) struct MarkdownTable {
    head: Vec<String>,
    alignments: Vec<ColumnAlignment>,
    rows: Vec<Vec<String>>,
    /// The rows before these have been given out.
    continued: bool,
}

impl MarkdownTable {
    pub(super) fn new(head: Vec<String>, alignments: Vec<ColumnAlignment>) -> Self {
        Self {
            head,
            alignments,
            rows: Vec::new(),
            continued: false,
        }
    }

    /// Takes a row in; a row has as many cells as the head. What is too much stands in the last one: no text is lost.
    pub(super) fn row(&mut self, mut cells: Vec<String>) {
        let columns = self.head.len().max(1);
        if cells.len() > columns {
            let last = cells.split_off(columns - 1).join(" \\| ");
            cells.push(last);
        }
        cells.resize(columns, String::new());
        self.rows.push(cells);
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_TOGETHER
    }

    /// The rows so far; the table goes on with the next.
    pub(super) fn drain(&mut self, room: usize, style: &Style) -> Vec<ScreenRow> {
        if self.continued && self.rows.is_empty() {
            return Vec::new();
        }
        let natural = self.natural_widths(style);
        let around = natural.len() * 3 + 1;
        let fitted = fit(&natural, room.saturating_sub(around));
        let rows = match fitted {
            Some(widths) if style.glyphs == GlyphSet::Drawn => self.drawn(&widths, style),
            Some(_) | None => self.listed(room, style),
        };
        self.rows.clear();
        self.continued = true;
        rows
    }

    fn natural_widths(&self, style: &Style) -> Vec<usize> {
        let mut widths = vec![1; self.head.len()];
        for row in std::iter::once(&self.head).chain(&self.rows) {
            for (width, cell) in widths.iter_mut().zip(row) {
                let rows = paragraph::rows(cell, &TextLook::default(), usize::MAX >> 1, style);
                let widest = rows.iter().map(ScreenRow::width).max().unwrap_or(0);
                *width = (*width).max(widest);
            }
        }
        widths
    }

    fn drawn(&self, widths: &[usize], style: &Style) -> Vec<ScreenRow> {
        let bold = match style.colours {
            Colours::None => TextLook::default(),
            Colours::Sixteen | Colours::True => TextLook::of(FontFace::BOLD),
        };
        let mut rows = Vec::new();
        rows.push(border(widths, ["┌", "┬", "┐"]));
        if !self.continued {
            self.lay_out(&self.head, widths, &bold, style, &mut rows);
            rows.push(border(widths, ["├", "┼", "┤"]));
        }
        for row in &self.rows {
            self.lay_out(row, widths, &TextLook::default(), style, &mut rows);
        }
        rows.push(border(widths, ["└", "┴", "┘"]));
        rows
    }

    fn lay_out(
        &self,
        cells: &[String],
        widths: &[usize],
        look: &TextLook,
        style: &Style,
        rows: &mut Vec<ScreenRow>,
    ) {
        let columns: Vec<Vec<ScreenRow>> = cells
            .iter()
            .zip(widths)
            .map(|(cell, width)| paragraph::rows(cell, look, *width, style))
            .collect();
        let height = columns.iter().map(Vec::len).max().unwrap_or(0).max(1);
        let (dim, none) = (TextLook::of(FontFace::DIM), TextLook::default());
        for at in 0..height {
            let mut row = ScreenRow::default();
            for ((cell, width), alignment) in columns.iter().zip(widths).zip(&self.alignments) {
                row.push("│", &dim);
                let blank = ScreenRow::default();
                let part = cell.get(at).unwrap_or(&blank);
                let free = width.saturating_sub(part.width());
                let before = match alignment {
                    ColumnAlignment::Left => 0,
                    ColumnAlignment::Centre => free / 2,
                    ColumnAlignment::Right => free,
                };
                row.push(&" ".repeat(before + 1), &none);
                row.append(part);
                row.push(&" ".repeat(free - before + 1), &none);
            }
            row.push("│", &dim);
            rows.push(row);
        }
    }

    fn listed(&self, room: usize, style: &Style) -> Vec<ScreenRow> {
        let mut rows = Vec::new();
        if self.rows.is_empty() {
            rows.extend(paragraph::rows(
                &self.head.join(", "),
                &TextLook::default(),
                room,
                style,
            ));
        }
        for (at, cells) in self.rows.iter().enumerate() {
            if at > 0 || self.continued {
                rows.push(ScreenRow::default());
            }
            for (key, value) in self.head.iter().zip(cells) {
                let text = if key.is_empty() {
                    value.clone()
                } else {
                    format!("{key}: {value}")
                };
                rows.extend(paragraph::rows(&text, &TextLook::default(), room, style));
            }
        }
        rows
    }
}

fn border(widths: &[usize], [left, between, right]: [&str; 3]) -> ScreenRow {
    let lines: Vec<String> = widths.iter().map(|it| "─".repeat(it + 2)).collect();
    let mut row = ScreenRow::default();
    let text = format!("{left}{}{right}", lines.join(between));
    row.push(&text, &TextLook::of(FontFace::DIM));
    row
}

/// The columns of each cell: what it needs where there is room, else the wide ones share what the narrow ones
/// leave. `None`: some would be too narrow.
fn fit(natural: &[usize], room: usize) -> Option<Vec<usize>> {
    if natural.iter().sum::<usize>() <= room {
        return Some(natural.to_vec());
    }
    let mut widths = vec![0; natural.len()];
    let mut left = room;
    let mut open: Vec<usize> = (0..natural.len()).collect();
    while !open.is_empty() {
        let share = left / open.len();
        let (narrow, wide): (Vec<usize>, Vec<usize>) = open
            .iter()
            .copied()
            .partition(|at| natural.get(*at).is_some_and(|it| *it <= share));
        if narrow.is_empty() {
            let mut extra = left % wide.len();
            if share < LEAST_CELL_COLUMNS {
                return None;
            }
            for at in wide {
                if let Some(width) = widths.get_mut(at) {
                    *width = share + usize::from(extra > 0);
                    extra = extra.saturating_sub(1);
                }
            }
            break;
        }
        for at in &narrow {
            if let (Some(width), Some(needs)) = (widths.get_mut(*at), natural.get(*at)) {
                *width = *needs;
                left -= needs;
            }
        }
        open = wide;
    }
    Some(widths)
}
