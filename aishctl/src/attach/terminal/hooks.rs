//! Where the editor asks us what Tab gives, and tells what the line is.

use std::borrow::Cow;
use std::sync::Arc;

use rustyline::completion::Completer;
use rustyline::highlight::{CmdKind, Highlighter};
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};

use super::screen::Screen;
use super::{completion, files};
use crate::commands::file_mention::PersonLocation;
use crate::completion::server_words::WantedCompletion;

pub(super) struct EditorHooks {
    pub(super) screen: Arc<Screen>,
    pub(super) here: PersonLocation,
}

impl Helper for EditorHooks {}

/// Enter decides by itself (see [`super::keys`]).
impl Validator for EditorHooks {}

impl Hinter for EditorHooks {
    type Hint = String;

    fn hint(&self, _: &str, _: usize, _: &Context<'_>) -> Option<String> {
        None
    }
}

/// What the editor writes goes nowhere; it is only asked what it would.
impl Highlighter for EditorHooks {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        default: bool,
    ) -> Cow<'b, str> {
        self.screen.prompted((!default).then_some(prompt));
        Cow::Borrowed("")
    }

    fn highlight<'l>(&self, line: &'l str, cursor: usize) -> Cow<'l, str> {
        self.screen.typed(line, cursor);
        Cow::Borrowed("")
    }

    /// Always: every key draws the line anew.
    fn highlight_char(&self, _: &str, _: usize, _: CmdKind) -> bool {
        true
    }
}

impl Completer for EditorHooks {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let typed = line.get(..at).unwrap_or(line);
        if let Some((start, wish)) = WantedCompletion::of_mention(typed) {
            let found = self.screen.server_words(&wish);
            if !found.is_empty() {
                return Ok((start, completion::mentions(&typed[start..], &found)));
            }
        }
        if let Some((start, mut found)) = files::complete(typed, &self.here) {
            if typed.get(..start).is_some_and(|it| it.ends_with('@')) {
                let names = self.screen.names();
                found.extend(completion::readable(&typed[start..], &names));
            }
            return Ok((start, found));
        }
        if !typed.starts_with([':', '/']) {
            return Ok((at, Vec::new()));
        }
        if let Some((start, wish)) = WantedCompletion::of_line(typed) {
            let found = self.screen.server_words(&wish);
            if !found.is_empty() {
                return Ok((
                    start,
                    found.iter().map(|it| completion::quoted(it)).collect(),
                ));
            }
        }
        Ok(completion::complete(typed, &self.screen.names()))
    }
}
