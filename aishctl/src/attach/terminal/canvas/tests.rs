use std::num::NonZeroU16;

use proptest::collection::vec;
use proptest::prelude::*;
use vt100::Parser;

use super::super::prompt;
use super::*;
use crate::attach::look::PromptGlyphs;

const PROMPT: &str = "c · m ● ";
const PROMPT_COLUMNS: usize = 8;

/// Somebody's terminal, and what is typed there.
struct Desk {
    emulator: Parser,
    size: TerminalSize,
    standing: BottomRows,
    typed: Vec<char>,
    cursor: usize,
    /// What stands above the line, in pieces that the terminal wraps.
    above: Vec<String>,
}

fn number(it: usize) -> NonZeroU16 {
    NonZeroU16::new(u16::try_from(it).unwrap()).unwrap()
}

impl Desk {
    fn new((columns, rows): TerminalSize) -> Self {
        Self {
            emulator: Parser::new(number(rows), number(columns), 10_000),
            size: (columns, rows),
            standing: BottomRows::default(),
            typed: vec![],
            cursor: 0,
            above: vec![],
        }
    }

    /// The terminal makes a line feed out of what programs end a row with.
    fn write(&mut self, drawn: &str) {
        self.emulator
            .process(drawn.replace('\n', "\r\n").as_bytes());
    }

    fn line(&self) -> (String, usize) {
        let text: String = self.typed.iter().collect();
        let cursor = self.typed[..self.cursor].iter().map(|it| it.len_utf8());
        (text, cursor.sum())
    }

    fn draw(&mut self, above: &str) {
        let (text, cursor) = self.line();
        let line = EditedLine {
            live: None,
            prompt: PROMPT,
            prompt_columns: PROMPT_COLUMNS,
            text: &text,
            cursor,
        };
        let drawn = self.standing.draw(above, line, self.size);
        self.write(&drawn);
    }

    fn leave(&mut self) {
        let (text, cursor) = self.line();
        let line = EditedLine {
            live: None,
            prompt: PROMPT,
            prompt_columns: PROMPT_COLUMNS,
            text: &text,
            cursor,
        };
        let drawn = self.standing.leave("", line, self.size);
        self.write(&drawn);
        self.above.push(format!("{PROMPT}{text}"));
        self.typed.clear();
        self.cursor = 0;
    }

    fn rows(&mut self) -> Vec<String> {
        let screen = self.emulator.screen_mut();
        screen.set_scrollback(usize::MAX);
        let depth = screen.scrollback();
        let (height, width) = screen.size();
        let mut rows: Vec<String> = (1..=depth)
            .rev()
            .map(|it| {
                screen.set_scrollback(it);
                screen.rows(0, width.get()).next().unwrap_or_default()
            })
            .collect();
        screen.set_scrollback(0);
        rows.extend(screen.rows(0, width.get()).take(height.get().into()));
        for row in &mut rows {
            row.truncate(row.trim_end().len());
        }
        rows
    }

    /// The rows of the line that are to be seen, and the place of the cursor in them.
    fn expected(&self) -> (Vec<String>, (usize, usize)) {
        let (text, cursor) = self.line();
        let laid = layout::lay(&text, cursor, PROMPT_COLUMNS, self.size.0);
        let mut rows = laid.rows;
        rows[0].insert_str(0, PROMPT);
        let height = self.size.1.saturating_sub(1).max(1);
        let first = (laid.cursor.0 + 1).saturating_sub(height);
        let rows = rows[first..rows.len().min(first + height)]
            .iter()
            .map(|it| it.trim_end().to_owned());
        (rows.collect(), (laid.cursor.0 - first, laid.cursor.1))
    }

    /// The line stands once, at the end, with the cursor where it belongs.
    fn check_line(&mut self) {
        let (line, (row, column)) = self.expected();
        let mut shown = self.rows();
        let at = self.emulator.screen().cursor_position();
        let (height, _) = self.emulator.screen().size();
        let first = shown.len() - usize::from(height.get()) + usize::from(at.0) - row;
        assert_eq!(column, usize::from(at.1));
        let below = shown.split_off(first);
        let end = below.len().min(line.len());
        assert_eq!(line, below[..end], "{:?}", self.size);
        assert!(below[end..].iter().all(String::is_empty), "{below:?}");
    }

    /// And above it is what was said, and nothing else.
    fn check_all(&mut self) {
        self.check_line();
        let (line, (row, _)) = self.expected();
        let shown = self.rows();
        let at = self.emulator.screen().cursor_position();
        let (height, _) = self.emulator.screen().size();
        let first = shown.len() - usize::from(height.get()) + usize::from(at.0) - row;
        let above: Vec<String> = self
            .above
            .iter()
            .flat_map(|it| wrapped(it, self.size.0))
            .collect();
        assert_eq!(above, shown[..first], "above {line:?}");
    }
}

/// A row as a terminal wraps it.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut at = 0;
    for it in text.chars() {
        let wide = layout::columns_of(&it.to_string());
        if at + wide > columns {
            rows.push(String::new());
            at = 0;
        }
        rows.last_mut().unwrap().push(it);
        at += wide;
    }
    rows.iter().map(|it| it.trim_end().to_owned()).collect()
}

#[derive(Clone, Debug)]
enum Act {
    Type(String),
    Left(usize),
    End,
    Delete,
    Say(Vec<String>),
    Send,
    Width(usize),
}

fn text() -> impl Strategy<Value = String> {
    "[a-c日ß🦀 ]{1,30}x"
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => text().prop_map(Act::Type),
        2 => (1usize..40).prop_map(Act::Left),
        1 => Just(Act::End),
        2 => Just(Act::Delete),
        4 => vec(text(), 1..4).prop_map(Act::Say),
        1 => Just(Act::Send),
    ]
}

fn perform(desk: &mut Desk, act: Act) {
    match act {
        Act::Type(text) => {
            // Each key is drawn.
            for it in text.chars() {
                desk.typed.insert(desk.cursor, it);
                desk.cursor += 1;
                desk.draw("");
            }
        }
        Act::Left(steps) => desk.cursor = desk.cursor.saturating_sub(steps),
        Act::End => desk.cursor = desk.typed.len(),
        Act::Delete if desk.cursor > 0 => {
            desk.cursor -= 1;
            desk.typed.remove(desk.cursor);
        }
        Act::Delete => {}
        Act::Say(rows) => {
            let above: String = rows.iter().map(|it| format!("{it}\n")).collect();
            desk.above.extend(rows);
            desk.draw(&above);
        }
        Act::Send => desk.leave(),
        Act::Width(columns) => {
            desk.size.0 = columns;
            let (rows, columns) = (number(desk.size.1), number(columns));
            desk.emulator.screen_mut().set_size(rows, columns);
        }
    }
    desk.draw("");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Issue 3: the line and what is said are never in each other, whatever is typed between.
    #[test]
    fn rows_and_the_line_never_meet(
        columns in 17usize..50, rows in 2usize..12, acts in vec(act(), 1..40)
    ) {
        let mut desk = Desk::new((columns, rows));
        desk.draw("");
        for act in acts {
            perform(&mut desk, act);
            desk.check_all();
        }
    }

    /// A terminal that gets another width, at any moment between two drawings, has the line once and whole.
    #[test]
    fn the_line_follows_the_width_of_the_terminal(
        acts in vec(prop_oneof![3 => act(), 1 => (17usize..50).prop_map(Act::Width)], 1..40)
    ) {
        let mut desk = Desk::new((40, 12));
        desk.draw("");
        for act in acts {
            perform(&mut desk, act);
            desk.check_line();
            let prompts = desk.rows().iter().filter(|it| it.starts_with(PROMPT.trim_end())).count();
            let sent = desk.above.iter().filter(|it| it.starts_with(PROMPT)).count();
            let (line, _) = desk.expected();
            let ours = usize::from(line[0].starts_with(PROMPT.trim_end()));
            prop_assert!(prompts <= sent + ours, "{:?}", desk.rows());
        }
    }
}

#[test]
fn what_is_cleared_leaves_the_line() {
    let mut desk = Desk::new((20, 5));
    desk.draw("one\ntwo\nthree\n");
    desk.typed = "abc".chars().collect();
    let clear = desk.standing.clear();
    desk.write(clear);
    desk.draw("");
    assert_eq!(format!("{PROMPT}abc"), desk.rows()[desk.rows().len() - 5]);
    desk.check_line();
}

#[test]
fn a_search_stands_whole_in_a_narrow_terminal() {
    let mut desk = Desk::new((20, 4));
    let asked = "(reverse-i-search)`foo': ";
    let (prompt, prompt_columns) = prompt::search(asked, PromptGlyphs::Unicode, desk.size.0);
    let text = "cargo test for foo";
    let line = EditedLine {
        live: None,
        prompt: &prompt,
        prompt_columns,
        text,
        cursor: text.len(),
    };
    let drawn = desk.standing.draw("", line, desk.size);
    desk.write(&drawn);
    assert_eq!(["/foo: cargo test for", " foo", "", ""], *desk.rows());
    assert_eq!((1, 4), desk.emulator.screen().cursor_position());
}
