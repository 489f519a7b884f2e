//! Importing: a text of JSON lines, taken in piece by piece, becomes facts of a log. Pure; what it holds is one line.
//!
//! A line is one example of OpenAI's fine-tuning form, `{"messages": [...]}`, or one message; a text has lines of one kind.
//! What was called elsewhere is history here: no call of it has a start mark, a digest or anybody's consent.

mod history;
mod line;

use std::fmt;

use aish_proto::id::TurnId;
use aishd_log::event::{Event, ImportedFrom};

use self::history::ImportHistory;
use self::line::ImportLineKind;

/// Longest line.
pub const LINE_BYTES: usize = 32 << 20;
/// Longest message as it stands in its line: what it says fits a line of the wire again.
pub const MESSAGE_BYTES: usize = 7 << 20;

/// A fact of the log to be, and the turn that it is of.
pub type ImportedFact = (TurnId, Event);

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}, column {column}: {what}")]
pub struct ImportFault {
    /// From 1.
    pub line: u64,
    /// In characters, from 1.
    pub column: u64,
    pub what: ImportError,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportError {
    /// It is no JSON, or not of the form that was expected; in words.
    Malformed(String),
    /// More than a line or a message may have, in bytes.
    TooLong { what: &'static str, limit: usize },
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(what) => f.write_str(what),
            Self::TooLong { what, limit } => write!(f, "a {what} has at most {limit} bytes"),
        }
    }
}

impl ImportError {
    fn malformed(what: impl Into<String>) -> Self {
        Self::Malformed(what.into())
    }
}

/// A fault in a line, at this byte of it.
type AtByte = (usize, ImportError);

/// Reads a text that comes in pieces.
#[derive(Debug, Default)]
pub struct TextImport {
    /// A line whose end has not come.
    open: String,
    /// Lines that are whole.
    lines: u64,
    kind: Option<ImportLineKind>,
    history: ImportHistory,
    bytes: u64,
}

impl TextImport {
    /// Bytes taken so far.
    pub fn bytes_taken(&self) -> u64 {
        self.bytes
    }

    /// The facts of the lines that are whole with this piece. After a fault the import is of no more use.
    pub fn take(
        &mut self,
        piece: &str,
        new_turn: &mut dyn FnMut() -> TurnId,
        facts: &mut Vec<ImportedFact>,
    ) -> Result<(), ImportFault> {
        let mut rest = piece;
        if self.bytes == 0 {
            rest = rest.strip_prefix('\u{feff}').unwrap_or(rest);
        }
        self.bytes += piece.len() as u64;
        while let Some((head, tail)) = rest.split_once('\n') {
            self.hold(head)?;
            let line = std::mem::take(&mut self.open);
            self.line(&line, new_turn, facts)?;
            rest = tail;
        }
        self.hold(rest)
    }

    /// The facts of what is left, and what has come of it all.
    pub fn finish(
        mut self,
        new_turn: &mut dyn FnMut() -> TurnId,
        facts: &mut Vec<ImportedFact>,
    ) -> Result<ImportedFrom, ImportFault> {
        let line = std::mem::take(&mut self.open);
        self.line(&line, new_turn, facts)?;
        self.history.close(facts);
        let imported = self.history.imported(self.bytes);
        if imported.messages == 0 {
            return Err(ImportFault {
                line: self.lines,
                column: 1,
                what: ImportError::malformed("there is no message in it"),
            });
        }
        Ok(imported)
    }

    fn hold(&mut self, text: &str) -> Result<(), ImportFault> {
        if self.open.len() + text.len() > LINE_BYTES {
            let limit = LINE_BYTES;
            let what = ImportError::TooLong {
                what: "line",
                limit,
            };
            return Err(ImportFault {
                line: self.lines + 1,
                column: 1,
                what,
            });
        }
        self.open.push_str(text);
        Ok(())
    }

    fn line(
        &mut self,
        line: &str,
        new_turn: &mut dyn FnMut() -> TurnId,
        facts: &mut Vec<ImportedFact>,
    ) -> Result<(), ImportFault> {
        self.lines += 1;
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let number = self.lines;
        self.messages(line, new_turn, facts)
            .map_err(|(at, what)| ImportFault {
                line: number,
                column: column(line, at),
                what,
            })
    }

    fn messages(
        &mut self,
        line: &str,
        new_turn: &mut dyn FnMut() -> TurnId,
        facts: &mut Vec<ImportedFact>,
    ) -> Result<(), AtByte> {
        let (kind, messages) = line::split(line)?;
        let before = *self.kind.get_or_insert(kind);
        if before != kind {
            let what = format!("the lines before are {before}, and this one is not");
            return Err((0, ImportError::Malformed(what)));
        }
        for (at, text) in messages {
            if text.len() > MESSAGE_BYTES {
                let limit = MESSAGE_BYTES;
                let what = ImportError::TooLong {
                    what: "message",
                    limit,
                };
                return Err((at, what));
            }
            let message = line::message(text).map_err(|(inner, what)| (at + inner, what))?;
            self.history
                .take(message, new_turn, facts)
                .map_err(|what| (at, ImportError::Malformed(what)))?;
        }
        // An example stands for itself: nothing in a later one answers its calls.
        if kind == ImportLineKind::Example {
            self.history.settle(facts);
        }
        Ok(())
    }
}

fn column(line: &str, byte: usize) -> u64 {
    let before = &line[..line.floor_char_boundary(byte)];
    before.chars().count() as u64 + 1
}

#[cfg(test)]
mod tests;
