//! What a command prints: text for people, or JSON for programs.

use serde::Serialize;

use crate::exit::Exit;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::safe;

/// What a command has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    pub text: String,
    pub json: bool,
    pub exit: Exit,
}

/// How a command ends that prints once.
pub type PrintResult = Result<CommandOutput, Failure>;

impl CommandOutput {
    pub fn text(text: String) -> Self {
        Self {
            text,
            json: false,
            exit: Exit::DONE,
        }
    }

    /// The text as it may reach stdout.
    pub fn render(&self, terminal: bool) -> String {
        match (self.json, terminal) {
            (true, true) => safe::json(&self.text),
            (true, false) => safe::json_pipe(&self.text).into_owned(),
            (false, _) => safe::screen(&self.text),
        }
    }
}

/// JSON where it was asked for, else what people read.
pub fn print<T: Serialize>(
    global: &GlobalArgs,
    value: &T,
    human: impl FnOnce() -> String,
) -> PrintResult {
    if !global.json && !global.jsonl {
        return Ok(CommandOutput::text(human()));
    }
    let mut text = serde_json::to_string(value)
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot print the result: {error}")))?;
    text.push('\n');
    Ok(CommandOutput {
        text,
        json: true,
        exit: Exit::DONE,
    })
}
