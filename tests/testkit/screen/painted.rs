//! What of a screen is not as plain text is: colours and faces by name, with the texts that have them.

use vt100::{Cell, Color, Parser};

/// The names of the sixteen colours, which are those of a person's theme.
const NAMES: [&str; 8] = [
    "black", "red", "green", "yellow", "blue", "magenta", "cyan", "white",
];

/// A text in one row, and how it looks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaintedText {
    /// Such as `bold red` or `on blue`.
    pub look: String,
    pub text: String,
}

/// The painted texts of the rows that are to be seen now.
pub(super) fn of_page(emulator: &Parser, rows: usize) -> Vec<PaintedText> {
    let screen = emulator.screen();
    let (_, columns) = screen.size();
    let mut painted: Vec<PaintedText> = vec![];
    for row in 0..u16::try_from(rows).unwrap_or(u16::MAX) {
        let mut open: Option<PaintedText> = None;
        for column in 0..columns.get() {
            let Some(cell) = screen.cell(row, column) else {
                continue;
            };
            if cell.is_wide_continuation() {
                continue;
            }
            let look = look(cell);
            let text = if cell.has_contents() {
                cell.contents()
            } else {
                " "
            };
            match &mut open {
                Some(open) if open.look == look => open.text.push_str(text),
                _ => {
                    let text = text.to_owned();
                    painted.extend(open.replace(PaintedText { look, text }));
                }
            }
        }
        painted.extend(open);
    }
    painted.retain(|it| !it.look.is_empty() && !it.text.trim().is_empty());
    painted
}

fn look(cell: &Cell) -> String {
    let mut words = vec![];
    let faces = [
        (cell.bold(), "bold"),
        (cell.dim(), "dim"),
        (cell.italic(), "italic"),
        (cell.underline(), "underlined"),
        (cell.inverse(), "inverse"),
    ];
    words.extend(faces.iter().filter(|it| it.0).map(|it| it.1.to_owned()));
    words.extend(name(cell.fgcolor()));
    words.extend(name(cell.bgcolor()).map(|it| format!("on {it}")));
    words.join(" ")
}

fn name(color: Color) -> Option<String> {
    match color {
        Color::Default => None,
        Color::Idx(at) => Some(match NAMES.get(usize::from(at % 8)) {
            Some(name) if at < 8 => (*name).to_owned(),
            Some(name) if at < 16 => format!("bright-{name}"),
            _ => format!("colour-{at}"),
        }),
        Color::Rgb(red, green, blue) => Some(format!("#{red:02x}{green:02x}{blue:02x}")),
    }
}
