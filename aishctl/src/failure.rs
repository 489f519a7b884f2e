//! What ends a command early: the exit code, what happened, and what to type next.

use aish_proto::error::ErrorKind;
use aish_proto::turn::TurnError;

use crate::exit::Exit;
use crate::safe;

/// Why a turn failed, and what had failed before that.
pub fn of_turn(error: &TurnError) -> String {
    match &error.cause {
        None => error.message.clone(),
        Some(cause) => format!("{} (because before that: {cause})", error.message),
    }
}

/// Whether a server answered, with an error of its own: starting it is no help.
pub fn is_of_server(error: &TurnError) -> bool {
    error.message.starts_with("transport: HTTP ")
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub exit: Exit,
    /// A lowercase fragment; empty when there is nothing to say (a reader that went away).
    pub message: String,
    pub hint: Option<String>,
    /// The daemon went away meanwhile; the next one may do it.
    pub transient: bool,
    /// The kind under which the daemon refused it.
    pub refused: Option<ErrorKind>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
            transient: false,
            refused: None,
        }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// It needs what a shell has and a window has not: its terminal, or the person's files.
    pub fn for_a_shell() -> Self {
        let message = "that command is for a shell; here nothing was done";
        Self::new(Exit::USAGE, message).hint("type it in a shell, as a command of aishctl")
    }

    /// Writing the output failed. A reader that went away is told by the exit code alone.
    pub fn output(error: &std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            Self::new(Exit::BROKEN_PIPE, "")
        } else {
            Self::new(Exit::FAILED, format!("cannot write the output: {error}"))
        }
    }

    /// The lines for stderr, safe to show.
    pub fn render(&self, program: &str) -> String {
        if self.message.is_empty() {
            return String::new();
        }
        let mut text = format!("{program}: {}\n", safe::screen(&self.message));
        if let Some(hint) = &self.hint {
            text.push_str(&format!("hint: {}\n", safe::screen(hint)));
        }
        text
    }
}

#[cfg(test)]
mod tests;
