//! Whether a text may be cut here: no inline marker of Markdown is open, so what follows cannot change what
//! came before. In doubt it may not; then the text is held, and in the end shown as it is.

use std::ops::ControlFlow;

use pulldown_cmark::{Event, Parser, Tag};

/// Reads a paragraph character by character.
#[derive(Clone, Debug, Default)]
pub(super) struct MarkerReader {
    state: MarkerState,
    open: Vec<OpenMarker>,
    /// Something came whose meaning only the whole paragraph tells.
    doubtful: bool,
    previous: Option<char>,
}

#[derive(Clone, Debug, Default)]
enum MarkerState {
    #[default]
    Text,
    /// After a backslash.
    Escape,
    /// In a run of `*`, `_`, `~` or backticks.
    Run {
        mark: char,
        length: usize,
        before: Option<char>,
    },
    /// In a code span, which ends with as many backticks.
    Code { length: usize, run: usize },
    /// After `<`.
    Angle(String),
    /// After `]`.
    Closed(OpenBracket),
    /// In the parentheses of a link.
    Destination {
        text: String,
        depth: usize,
        escaped: bool,
        bracket: OpenBracket,
    },
}

/// Something that may be closed later.
#[derive(Clone, Copy, Debug)]
enum OpenMarker {
    Run(MarkerRun),
    Bracket(OpenBracket),
}

#[derive(Clone, Copy, Debug)]
struct MarkerRun {
    mark: char,
    left: usize,
    length: usize,
    both: bool,
}

#[derive(Clone, Copy, Debug)]
struct OpenBracket {
    image: bool,
    /// A link is inside, so this is none.
    holds_link: bool,
    /// A marker inside was not closed inside.
    unclosed: bool,
}

/// What the two sides of a run make of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunSide {
    Space,
    Punctuation,
    Word,
}

const MOST_PARENTHESES: usize = 8;

impl MarkerReader {
    pub(super) fn is_closed(&self) -> bool {
        matches!(self.state, MarkerState::Text) && self.open.is_empty() && !self.doubtful
    }

    pub(super) fn take(&mut self, it: char) {
        // A state that ends before this character hands it on; each does so once.
        while self.step(it).is_continue() {}
        self.previous = Some(it);
    }

    /// The last character was a backslash that escapes the end of its line.
    pub(super) fn unescape(&mut self) -> bool {
        let escaping = matches!(self.state, MarkerState::Escape);
        if escaping {
            self.state = MarkerState::Text;
        }
        escaping
    }

    fn step(&mut self, it: char) -> ControlFlow<()> {
        match std::mem::take(&mut self.state) {
            MarkerState::Text => self.text(it),
            // Only punctuation can be escaped; nothing else is a marker.
            MarkerState::Escape => {}
            MarkerState::Run {
                mark,
                length,
                before,
            } if it == mark => {
                self.state = MarkerState::Run {
                    mark,
                    length: length + 1,
                    before,
                };
            }
            MarkerState::Run {
                mark,
                length,
                before,
            } => {
                self.end_run(mark, length, before, it);
                return ControlFlow::Continue(());
            }
            MarkerState::Code { length, run } => self.code(length, run, it)?,
            MarkerState::Angle(text) => return self.angle(text, it),
            MarkerState::Closed(bracket) => return self.closed(bracket, it),
            MarkerState::Destination {
                text,
                depth,
                escaped,
                bracket,
            } => self.destination(text, depth, escaped, bracket, it),
        }
        ControlFlow::Break(())
    }

    fn text(&mut self, it: char) {
        match it {
            '\\' => self.state = MarkerState::Escape,
            '*' | '_' | '~' | '`' => {
                self.state = MarkerState::Run {
                    mark: it,
                    length: 1,
                    before: self.previous,
                };
            }
            '<' => self.state = MarkerState::Angle(String::new()),
            '[' => self.open.push(OpenMarker::Bracket(OpenBracket {
                image: self.previous == Some('!'),
                holds_link: false,
                unclosed: false,
            })),
            ']' => self.close_bracket(),
            _ => {}
        }
    }

    fn code(&mut self, length: usize, run: usize, it: char) -> ControlFlow<()> {
        if it == '`' {
            self.state = MarkerState::Code {
                length,
                run: run + 1,
            };
        } else if run == length {
            // The span ended before this character, which is text again.
            self.text(it);
        } else {
            self.state = MarkerState::Code { length, run: 0 };
        }
        ControlFlow::Continue(())
    }

    fn end_run(&mut self, mark: char, length: usize, before: Option<char>, after: char) {
        if mark == '`' {
            self.state = MarkerState::Code { length, run: 0 };
            return;
        }
        let (before, after) = (before.map_or(RunSide::Space, side), side(after));
        let left = after != RunSide::Space && (after == RunSide::Word || before != RunSide::Word);
        let right = before != RunSide::Space && (before == RunSide::Word || after != RunSide::Word);
        let (can_open, can_close) = match mark {
            '_' => (
                left && (!right || before == RunSide::Punctuation),
                right && (!left || after == RunSide::Punctuation),
            ),
            '~' => match tildes(length, before, after) {
                Some(sides) => sides,
                None => {
                    self.doubtful = true;
                    return;
                }
            },
            _ => (left, right),
        };
        let mut run = MarkerRun {
            mark,
            left: length,
            length,
            both: can_open && can_close,
        };
        if can_close {
            self.close_run(&mut run);
        }
        if can_open && run.left > 0 {
            self.open.push(OpenMarker::Run(run));
        }
    }

    /// Takes the openers away that this run closes.
    fn close_run(&mut self, closing: &mut MarkerRun) {
        while closing.left > 0 {
            let opener = self
                .open
                .iter_mut()
                .enumerate()
                .rev()
                .map_while(|(at, it)| match it {
                    OpenMarker::Run(run) => Some((at, run)),
                    OpenMarker::Bracket(_) => None,
                })
                .find(|(_, it)| it.is_closed_by(closing));
            let Some((at, opener)) = opener else { return };
            let used = if opener.left >= 2 && closing.left >= 2 {
                2
            } else {
                1
            };
            opener.left -= used;
            closing.left -= used;
            let keep = at + usize::from(opener.left > 0);
            self.open.truncate(keep);
        }
    }

    fn close_bracket(&mut self) {
        let bracket = self.open.iter().rposition(|it| match it {
            OpenMarker::Bracket(_) => true,
            OpenMarker::Run(_) => false,
        });
        let Some(at) = bracket else { return };
        let unclosed = self.open.len() > at + 1;
        self.open.truncate(at + 1);
        if let Some(OpenMarker::Bracket(bracket)) = self.open.pop() {
            self.state = MarkerState::Closed(OpenBracket {
                unclosed: unclosed || bracket.unclosed,
                ..bracket
            });
        }
    }

    /// After a bracket: is it a link?
    fn closed(&mut self, bracket: OpenBracket, it: char) -> ControlFlow<()> {
        if it == '(' && (bracket.image || !bracket.holds_link) {
            self.state = MarkerState::Destination {
                text: String::new(),
                depth: 1,
                escaped: false,
                bracket,
            };
            return ControlFlow::Break(());
        }
        self.doubtful |= bracket.unclosed;
        ControlFlow::Continue(())
    }

    fn destination(
        &mut self,
        mut text: String,
        mut depth: usize,
        escaped: bool,
        bracket: OpenBracket,
        it: char,
    ) {
        match it {
            '(' if !escaped => depth += 1,
            ')' if !escaped => depth -= 1,
            _ => {}
        }
        self.doubtful |= depth > MOST_PARENTHESES;
        if depth > 0 {
            text.push(it);
            self.state = MarkerState::Destination {
                text,
                depth,
                escaped: it == '\\' && !escaped,
                bracket,
            };
        } else if !is_destination(&text) {
            self.doubtful = true;
        } else if !bracket.image {
            for it in &mut self.open {
                match it {
                    OpenMarker::Bracket(outer) => outer.holds_link = true,
                    OpenMarker::Run(_) => {}
                }
            }
        }
    }

    /// In `<…`: an address, a tag, or nothing of the kind.
    fn angle(&mut self, mut text: String, it: char) -> ControlFlow<()> {
        if text.is_empty() && !it.is_ascii_alphabetic() && it != '/' {
            // A comment or an instruction has its own end.
            self.doubtful |= matches!(it, '!' | '?');
            return ControlFlow::Continue(());
        }
        if it == '>' {
            self.doubtful |= !is_address(&text) && text.contains(MARKS);
        } else {
            text.push(it);
            self.state = MarkerState::Angle(text);
        }
        ControlFlow::Break(())
    }
}

/// Whether tildes open and close; `None`: only the parser knows. One is text for us.
fn tildes(length: usize, before: RunSide, after: RunSide) -> Option<(bool, bool)> {
    match (before, after) {
        _ if length == 1 => Some((false, false)),
        (RunSide::Space, RunSide::Space) => Some((false, false)),
        _ if length > 2 => None,
        (RunSide::Space, RunSide::Word) => Some((true, false)),
        (RunSide::Word | RunSide::Punctuation, RunSide::Space) => Some((false, true)),
        (RunSide::Word, RunSide::Punctuation) => Some((true, true)),
        (RunSide::Space | RunSide::Punctuation, RunSide::Punctuation)
        | (RunSide::Word | RunSide::Punctuation, RunSide::Word) => None,
    }
}

/// What in a tag, or in what looks like one, has a meaning of its own.
const MARKS: [char; 10] = ['*', '_', '~', '`', '[', ']', '<', '"', '\'', '\\'];

impl MarkerRun {
    fn is_closed_by(&self, other: &Self) -> bool {
        if self.mark != other.mark {
            return false;
        }
        if self.mark == '~' {
            return self.length == other.length;
        }
        let three = (self.length + other.length).is_multiple_of(3);
        let both = self.both || other.both;
        !(both && three && !(self.length.is_multiple_of(3) && other.length.is_multiple_of(3)))
    }
}

/// What stands in the parentheses leads somewhere, with a title or without one.
fn is_destination(text: &str) -> bool {
    let text = text.trim();
    let (address, title) = text.split_once(' ').unwrap_or((text, ""));
    let title = title.trim();
    let quoted = title
        .strip_prefix('"')
        .and_then(|it| it.strip_suffix('"'))
        .is_some_and(|it| !it.contains(['"', '\\']));
    !address.starts_with('<') && !text.chars().any(char::is_control) && (title.is_empty() || quoted)
}

/// What stands between `<` and `>` is an address.
fn is_address(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        (2..=32).contains(&scheme.len())
            && scheme
                .chars()
                .all(|it| it.is_ascii_alphanumeric() || "+.-".contains(it))
            && !rest.contains(|it: char| it.is_whitespace() || it.is_control() || it == '<')
    })
}

fn side(it: char) -> RunSide {
    match it {
        _ if it.is_whitespace() => RunSide::Space,
        _ if it.is_alphanumeric() => RunSide::Word,
        _ if it.is_ascii_punctuation() => RunSide::Punctuation,
        _ if it.is_ascii() => RunSide::Word,
        _ if is_punctuation(it) => RunSide::Punctuation,
        _ => RunSide::Word,
    }
}

/// The parser is asked, so that there is one table: an asterisk between a letter and punctuation opens nothing.
fn is_punctuation(it: char) -> bool {
    let probe = format!("a*{it}b*");
    !Parser::new(&probe).any(|it| matches!(it, Event::Start(Tag::Emphasis)))
}
