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
    pub kind: OutputKind,
    pub exit: Exit,
}

/// What the text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    People,
    Json,
    /// What changes would do to files, which has colours of its own where there are any.
    Difference,
    /// What draws a picture on this terminal (`picture`): every byte of it is ours.
    Picture,
}

/// How a command ends that prints once.
pub type PrintResult = Result<CommandOutput, Failure>;

impl CommandOutput {
    pub fn text(text: String) -> Self {
        Self {
            text,
            kind: OutputKind::People,
            exit: Exit::DONE,
        }
    }

    pub fn is_json(&self) -> bool {
        self.kind == OutputKind::Json
    }

    /// The same text as a difference, where it is for people.
    pub fn difference(self) -> Self {
        let kind = match self.kind {
            OutputKind::People | OutputKind::Difference => OutputKind::Difference,
            OutputKind::Json => OutputKind::Json,
            OutputKind::Picture => OutputKind::Picture,
        };
        Self { kind, ..self }
    }

    /// The text as it may reach stdout, without a colour.
    pub fn render(&self, terminal: bool) -> String {
        match (self.kind, terminal) {
            (OutputKind::Json, true) => safe::json(&self.text),
            (OutputKind::Json, false) => safe::json_pipe(&self.text).into_owned(),
            (OutputKind::People | OutputKind::Difference, _) => safe::screen(&self.text),
            (OutputKind::Picture, _) => self.text.clone(),
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
        kind: OutputKind::Json,
        exit: Exit::DONE,
    })
}
