//! The keys that are ours: Enter, Ctrl-C, Ctrl-D, Ctrl-Z, Ctrl-L, and Alt-y and Alt-n at a question.
//! All others are the editor's.

use std::sync::Arc;

use rustyline::{
    Cmd, ConditionalEventHandler, EditMode, Event, EventContext, EventHandler, KeyCode, KeyEvent,
    Modifiers, Movement, RepeatCount,
};

use super::screen::{Screen, SuspendReason};
use crate::attach::ui::{HalfTyped, LinePurpose, PressedKey, UserInput};

#[derive(Clone, Copy, Debug)]
enum KeyPress {
    Enter,
    Interrupt,
    End,
    Suspend,
    Clear,
    Answer(PressedKey),
}

struct KeyBinding {
    key: KeyPress,
    screen: Arc<Screen>,
}

/// Every key with what it does.
pub(super) fn bindings(screen: &Arc<Screen>) -> Vec<(KeyEvent, EventHandler)> {
    let bound = |key| {
        EventHandler::Conditional(Box::new(KeyBinding {
            key,
            screen: Arc::clone(screen),
        }))
    };
    vec![
        (
            KeyEvent(KeyCode::Enter, Modifiers::NONE),
            bound(KeyPress::Enter),
        ),
        (KeyEvent::ctrl('J'), bound(KeyPress::Enter)),
        (KeyEvent::ctrl('M'), bound(KeyPress::Enter)),
        (KeyEvent::ctrl('C'), bound(KeyPress::Interrupt)),
        (KeyEvent::ctrl('D'), bound(KeyPress::End)),
        (KeyEvent::ctrl('Z'), bound(KeyPress::Suspend)),
        (KeyEvent::ctrl('L'), bound(KeyPress::Clear)),
        (KeyEvent::alt('y'), bound(KeyPress::Answer(PressedKey::Yes))),
        (KeyEvent::alt('n'), bound(KeyPress::Answer(PressedKey::No))),
        // The editor would take it for Ctrl-C, and give up the line.
        (KeyEvent::ctrl('\\'), EventHandler::Simple(Cmd::Noop)),
        // A new line in the line, where the terminal tells it from Enter.
        (
            KeyEvent(KeyCode::Enter, Modifiers::ALT),
            EventHandler::Simple(Cmd::Newline),
        ),
        (
            KeyEvent(KeyCode::Char('\r'), Modifiers::ALT),
            EventHandler::Simple(Cmd::Newline),
        ),
    ]
}

impl ConditionalEventHandler for KeyBinding {
    fn handle(
        &self,
        _: &Event,
        _: RepeatCount,
        _: bool,
        context: &EventContext<'_>,
    ) -> Option<Cmd> {
        let (line, at) = (context.line(), context.pos());
        match self.key {
            KeyPress::Enter => Some(self.enter(line, at)),
            KeyPress::Interrupt => Some(self.interrupt(line)),
            KeyPress::End if line.is_empty() => Some(Cmd::EndOfFile),
            // It deletes a character, unless the editor is as vi: there it would send the line.
            KeyPress::End => (context.mode() == EditMode::Vi).then_some(Cmd::Noop),
            // Where nothing is asked, these are the editor's.
            KeyPress::Answer(pressed) => self.answer(pressed),
            KeyPress::Clear => {
                self.screen.clear();
                Some(Cmd::Noop)
            }
            KeyPress::Suspend => {
                let (left, right) = line.split_at(at);
                self.screen.suspend_line(SuspendReason {
                    left: left.to_owned(),
                    right: right.to_owned(),
                });
                Some(Cmd::Interrupt)
            }
        }
    }
}

impl KeyBinding {
    /// Answers the question that stands; `None` where none does, or not for long enough.
    fn answer(&self, pressed: PressedKey) -> Option<Cmd> {
        let question = self.screen.answered()?;
        drop(
            self.screen
                .inputs
                .try_send(UserInput::Answer(question, pressed)),
        );
        Some(Cmd::Noop)
    }

    fn enter(&self, line: &str, at: usize) -> Cmd {
        match ending(line) {
            // A form offers something for it.
            LineProgress::Empty if self.screen.lines() == LinePurpose::Field => Cmd::AcceptLine,
            LineProgress::Empty if line.is_empty() => {
                self.answer(PressedKey::Enter).unwrap_or(Cmd::Noop)
            }
            LineProgress::Empty => Cmd::Noop,
            LineProgress::OpenFence => Cmd::Newline,
            LineProgress::Continued if at == line.len() => Cmd::Newline,
            LineProgress::Continued | LineProgress::Whole => Cmd::AcceptLine,
        }
    }

    /// What runs is cancelled, a turn or a command, and the line stays; where nothing runs, the line is cleared.
    fn interrupt(&self, line: &str) -> Cmd {
        let typed = if line.is_empty() {
            HalfTyped::Nothing
        } else {
            HalfTyped::Something
        };
        if typed == HalfTyped::Something && !self.screen.is_interruptible() {
            return Cmd::Kill(Movement::WholeBuffer);
        }
        // A full queue: what was pressed before is not yet obeyed, and that is the same key.
        drop(self.screen.inputs.try_send(UserInput::Interrupt(typed)));
        Cmd::Noop
    }
}

/// How far a line has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineProgress {
    Empty,
    /// A fence is open: Enter is part of the code.
    OpenFence,
    /// It ends with a backslash.
    Continued,
    Whole,
}

/// The line without the backslashes by which it was continued; in a fence they are code.
pub(super) fn joined(line: &str) -> String {
    let mut joined = String::with_capacity(line.len());
    let mut fenced = false;
    for row in line.split_inclusive('\n') {
        fenced ^= opens_or_closes(row);
        match row.strip_suffix("\\\n") {
            Some(row) if !fenced => {
                joined.push_str(row);
                joined.push('\n');
            }
            Some(_) | None => joined.push_str(row),
        }
    }
    joined
}

fn opens_or_closes(row: &str) -> bool {
    row.trim_start().starts_with("```")
}

fn ending(line: &str) -> LineProgress {
    if line.trim().is_empty() {
        return LineProgress::Empty;
    }
    let fences = line.lines().filter(|it| opens_or_closes(it)).count();
    if fences % 2 == 1 {
        LineProgress::OpenFence
    } else if line.ends_with('\\') {
        LineProgress::Continued
    } else {
        LineProgress::Whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: LineProgress) {
        assert_eq!(expected, ending(line), "{line:?}");
    }

    #[test]
    fn a_line_goes_on_after_a_backslash_and_in_a_fence() {
        check(" ", LineProgress::Empty);
        check("why?", LineProgress::Whole);
        check("first \\", LineProgress::Continued);
        check("look:\n```rust", LineProgress::OpenFence);
        check("look:\n```rust\nfn a() \\", LineProgress::OpenFence);
        check("look:\n```rust\nfn a()\n```", LineProgress::Whole);
        check("inline ``` in a row", LineProgress::Whole);
    }

    #[test]
    fn what_continued_a_line_is_not_sent() {
        assert_eq!("one \ntwo\\", joined("one \\\ntwo\\"));
        assert_eq!("```\na \\\nb\n```\nc", joined("```\na \\\nb\n```\nc"));
    }
}
