//! How much of a terminal a picture may take, in cells and in pixels.

use std::os::fd::AsFd;

use rustix::termios::tcgetwinsize;

/// A cell of a terminal that does not say how large its cells are. Windows Terminal counts so for sixels whatever its font is.
const CELL: CellPixels = CellPixels {
    width: 10,
    height: 20,
};
/// A terminal that says otherwise is mistaken.
const CELL_PIXELS: std::ops::RangeInclusive<u32> = 3..=128;
/// More pixels on a side help nobody, and xterm shows no more of a sixel.
const SIDE: u32 = 1000;
/// Rows of a picture in the window, and on a terminal that is asked for this one picture.
const WINDOW_ROWS: u32 = 12;
const WHOLE_ROWS: u32 = 24;

/// How large a cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellPixels {
    pub(crate) width: u32,
    pub(crate) height: u32,
}

impl CellPixels {
    /// `None`: no terminal has such cells.
    pub(crate) fn new(width: u32, height: u32) -> Option<Self> {
        let sane = CELL_PIXELS.contains(&width) && CELL_PIXELS.contains(&height);
        sane.then_some(Self { width, height })
    }
}

/// The cells that a picture may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureArea {
    pub(crate) columns: u32,
    pub(crate) rows: u32,
    pub(crate) cell: CellPixels,
}

impl PictureArea {
    /// Among the rows of a conversation: a third of the height, and twelve rows at most.
    pub(crate) fn among_rows(terminal: impl AsFd, cell: Option<CellPixels>) -> Self {
        let mut area = Self::of(terminal, cell);
        area.rows = (area.rows / 3).clamp(1, WINDOW_ROWS);
        area
    }

    /// For one picture that was asked for.
    pub(crate) fn whole(terminal: impl AsFd, cell: Option<CellPixels>) -> Self {
        let mut area = Self::of(terminal, cell);
        area.rows = area.rows.saturating_sub(1).clamp(1, WHOLE_ROWS);
        area
    }

    /// All of a terminal. What it has said of its cells counts where the kernel does not know it.
    fn of(terminal: impl AsFd, said: Option<CellPixels>) -> Self {
        let size = tcgetwinsize(terminal).ok();
        let [columns, rows, width, height] = size.map_or([0; 4], |it| {
            [it.ws_col, it.ws_row, it.ws_xpixel, it.ws_ypixel].map(u32::from)
        });
        let (columns, rows) = match (columns, rows) {
            (1.., 1..) => (columns, rows),
            (_, _) => (80, 24),
        };
        Self {
            columns,
            rows,
            cell: CellPixels::new(width / columns, height / rows)
                .or(said)
                .unwrap_or(CELL),
        }
    }

    /// The most pixels of a picture in it.
    pub(crate) fn pixels(self) -> (u32, u32) {
        let side = |cells: u32, pixels: u32| {
            // Whole cells: a picture that is cut in one leaves a margin.
            let cells = cells.min(SIDE / pixels).max(1);
            cells * pixels
        };
        (
            side(self.columns, self.cell.width),
            side(self.rows, self.cell.height),
        )
    }

    /// The cells of a picture of that many pixels.
    pub(crate) fn cells(self, (width, height): (u32, u32)) -> (u32, u32) {
        (
            width.div_ceil(self.cell.width),
            height.div_ceil(self.cell.height),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_takes_whole_cells_and_no_more_than_there_are() {
        let area = PictureArea {
            columns: 300,
            rows: 12,
            cell: CELL,
        };
        assert_eq!((1000, 240), area.pixels());
        assert_eq!((1, 2), area.cells((1, 21)));
        let narrow = PictureArea {
            columns: 7,
            rows: 1,
            cell: CellPixels::new(9, 17).unwrap(),
        };
        assert_eq!((63, 17), narrow.pixels());
        for (width, height) in [(0, 0), (2, 20), (10, 500)] {
            assert_eq!(None, CellPixels::new(width, height));
        }
    }
}
