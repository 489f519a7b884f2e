//! What a terminal answers when it is asked whether it has sixels, among the keys of who types meanwhile.

use super::area::CellPixels;
use super::sixel;

/// Primary device attributes: every terminal answers that, and 4 among them says that it has sixels.
pub(crate) const ASKS: &str = "\x1b[c";
/// Of one that has them: how many colours (XTSMGRAPHICS), how large a cell is, and again what ends the answers.
const ASKS_MORE: &str = "\x1b[?1;1;0S\x1b[16t\x1b[c";
const HAS_SIXELS: u32 = 4;
/// No answer is longer.
const ANSWER_BYTES: usize = 96;

/// One that has sixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SixelTerminal {
    pub(crate) colours: u16,
    pub(crate) cell: Option<CellPixels>,
}

/// What a terminal said of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TerminalAnswer {
    /// Of its attributes, whether it has sixels.
    Attributes {
        sixels: bool,
    },
    Colours(u16),
    Cell(Option<CellPixels>),
}

/// How far the asking is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asking {
    has_sixels: bool,
    colours: Option<u16>,
    cell: Option<CellPixels>,
}

/// What comes of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QueryProgress {
    Waits,
    /// This is asked next.
    Asks(&'static str),
    /// `None`: it has no sixels.
    Over(Option<SixelTerminal>),
}

impl Asking {
    pub(crate) fn take(&mut self, answer: &TerminalAnswer) -> QueryProgress {
        match answer {
            TerminalAnswer::Attributes { sixels: false } => QueryProgress::Over(None),
            TerminalAnswer::Attributes { sixels: true } if self.has_sixels => {
                let colours = self.colours.unwrap_or(sixel::COLOURS);
                QueryProgress::Over(Some(SixelTerminal {
                    colours,
                    cell: self.cell,
                }))
            }
            TerminalAnswer::Attributes { sixels: true } => {
                self.has_sixels = true;
                QueryProgress::Asks(ASKS_MORE)
            }
            TerminalAnswer::Colours(colours) => {
                self.colours = Some(*colours);
                QueryProgress::Waits
            }
            TerminalAnswer::Cell(cell) => {
                self.cell = *cell;
                QueryProgress::Waits
            }
        }
    }
}

/// Takes answers out of what is typed, however they were cut.
#[derive(Debug, Default)]
pub(crate) struct AnswerFilter {
    held: String,
}

impl AnswerFilter {
    /// The keys, and the answers among them. What may be the beginning of an answer is held back where one is waited for.
    pub(crate) fn take(&mut self, typed: &str, waits: bool) -> (String, Vec<TerminalAnswer>) {
        let mut text = std::mem::take(&mut self.held);
        text.push_str(typed);
        let (mut keys, mut answers) = (String::new(), vec![]);
        let mut rest = text.as_str();
        while let Some(at) = rest.find('\x1b') {
            let (before, from) = rest.split_at(at);
            keys.push_str(before);
            match begin(from) {
                Begin::Answer(answer, bytes) => {
                    answers.push(answer);
                    rest = &from[bytes..];
                }
                Begin::Cut if waits => {
                    self.held = from.to_owned();
                    return (keys, answers);
                }
                Begin::Cut | Begin::Key => {
                    keys.push('\x1b');
                    rest = &from[1..];
                }
            }
        }
        keys.push_str(rest);
        (keys, answers)
    }

    /// It was no answer.
    pub(crate) fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }
}

/// What begins with an escape.
enum Begin {
    /// And its length.
    Answer(TerminalAnswer, usize),
    /// The end is not there yet.
    Cut,
    Key,
}

fn begin(text: &str) -> Begin {
    let (mark, private) = match text.strip_prefix("\x1b[") {
        None if text == "\x1b" => return Begin::Cut,
        None => return Begin::Key,
        Some(rest) => match rest.strip_prefix('?') {
            Some(rest) => (rest, true),
            None => (rest, false),
        },
    };
    let Some(end) = mark.find(|it: char| !(it.is_ascii_digit() || it == ';')) else {
        // Keys with a number end within a few bytes, and cell sizes begin with a 6.
        let may_be = mark.is_empty() || private || mark == "6" || mark.starts_with("6;");
        return if may_be && text.len() <= ANSWER_BYTES {
            Begin::Cut
        } else {
            Begin::Key
        };
    };
    let numbers: Vec<u32> = mark[..end].split(';').flat_map(str::parse).collect();
    let answer = match (private, mark.as_bytes()[end], &numbers[..]) {
        (true, b'c', _) => TerminalAnswer::Attributes {
            sixels: numbers.iter().skip(1).any(|it| *it == HAS_SIXELS),
        },
        // The item, whether it is known, and its value.
        (true, b'S', [1, 0, colours, ..]) => {
            let colours = u16::try_from(*colours).unwrap_or(u16::MAX);
            TerminalAnswer::Colours(colours.clamp(2, sixel::COLOURS))
        }
        (true, b'S', _) => TerminalAnswer::Colours(sixel::COLOURS),
        (false, b't', [6, height, width]) => TerminalAnswer::Cell(CellPixels::new(*width, *height)),
        (_, _, _) => return Begin::Key,
    };
    let bytes = text.len() - mark.len() + end + 1;
    Begin::Answer(answer, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same for every way to cut it in two.
    #[track_caller]
    fn check(typed: &str, keys: &str, answers: &[TerminalAnswer]) {
        for at in (0..=typed.len()).filter(|it| typed.is_char_boundary(*it)) {
            let mut filter = AnswerFilter::default();
            let (mut left, mut found) = filter.take(&typed[..at], true);
            let (more, others) = filter.take(&typed[at..], true);
            left.push_str(&more);
            left.push_str(&filter.rest());
            found.extend(others);
            assert_eq!((keys, answers), (&*left, &found[..]), "cut at {at}");
        }
    }

    #[test]
    fn answers_are_no_keys_and_keys_are_no_answers() {
        let sixels = TerminalAnswer::Attributes { sixels: true };
        let none = TerminalAnswer::Attributes { sixels: false };
        check("a\x1b[?62;4;22cb", "ab", std::slice::from_ref(&sixels));
        // 4 in the first place is a kind of terminal.
        check("\x1b[?4c", "", std::slice::from_ref(&none));
        check("\x1b[?1;2c", "", std::slice::from_ref(&none));
        let cell = TerminalAnswer::Cell(CellPixels::new(9, 18));
        let colours = TerminalAnswer::Colours(16);
        check(
            "x\x1b[?1;0;16S\x1b[6;18;9t\x1b[?62;4cy",
            "xy",
            &[colours, cell, sixels],
        );
        check("\x1b[?1;3;0S", "", &[TerminalAnswer::Colours(256)]);
        check("\x1b[6;9999;0t", "", &[TerminalAnswer::Cell(None)]);
        for keys in [
            "\x1b[A",
            "\x1b[6~",
            "\x1b",
            "\x1bb",
            "\x1b[1;5C",
            "\x1b\x1b[B日本",
            "\x1b[200~",
            "\x1b[I",
        ] {
            check(keys, keys, &[]);
        }
    }

    #[test]
    fn nothing_is_held_where_nobody_waits() {
        let mut filter = AnswerFilter::default();
        assert_eq!(("\x1b".to_owned(), vec![]), filter.take("\x1b", false));
        let (keys, answers) = filter.take("\x1b[?6c", false);
        assert_eq!(("", 1), (&*keys, answers.len()));
        let endless = format!("\x1b[?{}", "1;".repeat(200));
        assert_eq!(endless, filter.take(&endless, true).0);
    }

    #[test]
    fn more_is_asked_of_one_that_has_sixels() {
        let sixels = TerminalAnswer::Attributes { sixels: true };
        let mut asking = Asking::default();
        assert_eq!(QueryProgress::Asks(ASKS_MORE), asking.take(&sixels));
        assert_eq!(
            QueryProgress::Waits,
            asking.take(&TerminalAnswer::Colours(16))
        );
        let cell = CellPixels::new(9, 18);
        assert_eq!(
            QueryProgress::Waits,
            asking.take(&TerminalAnswer::Cell(cell))
        );
        let found = SixelTerminal { colours: 16, cell };
        assert_eq!(QueryProgress::Over(Some(found)), asking.take(&sixels));
        let none = TerminalAnswer::Attributes { sixels: false };
        assert_eq!(QueryProgress::Over(None), Asking::default().take(&none));
    }
}
