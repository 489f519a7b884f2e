//! Where the editor asks us: what stands before the line, what Tab gives.

use std::borrow::Cow;
use std::sync::Arc;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper, Prompt};

use super::completion;
use super::screen::Screen;

pub(super) struct Hooks {
    pub(super) screen: Arc<Screen>,
}

impl Helper for Hooks {}

/// Enter decides by itself (see [`super::keys`]).
impl Validator for Hooks {}

impl Hinter for Hooks {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.screen.key(line);
        None
    }
}

impl Highlighter for Hooks {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        default: bool,
    ) -> Cow<'b, str> {
        Cow::Owned(self.screen.draw(prompt, default))
    }

    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        self.screen.broken(line)
    }

    /// Always: every key draws the line anew, so a drawing without a key before it is the one that a wake asked for.
    fn highlight_char(&self, line: &str, _: usize, _: CmdKind) -> bool {
        self.screen.key(line);
        true
    }
}

impl Completer for Hooks {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..at).unwrap_or(line);
        if !typed.starts_with(':') {
            return Ok((at, Vec::new()));
        }
        Ok(completion::complete(typed, &self.screen.names()))
    }
}

/// The place that the prompt takes; what stands in it is drawn by the hooks.
pub(super) struct Room {
    blank: String,
    screen: Arc<Screen>,
}

impl Room {
    pub(super) fn of(columns: usize, screen: &Arc<Screen>) -> Self {
        Self {
            blank: " ".repeat(columns),
            screen: Arc::clone(screen),
        }
    }
}

impl Prompt for Room {
    /// Read when the editor lays the line out anew: at its beginning, and when it has heard of a new size.
    fn raw(&self) -> &str {
        self.screen.laid_out();
        &self.blank
    }

    fn styled(&self) -> &str {
        &self.blank
    }
}
