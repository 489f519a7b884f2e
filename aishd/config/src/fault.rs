//! What is wrong with a configuration, and where; told on one line.

use std::ops::Range;
use std::sync::Arc;

use super::safe_text;
use super::source::{SourcePlace, SourceText};

/// A line longer than this is shown in part.
pub(super) const SHOWN_BYTES: usize = 400;
/// More faults of one configuration are counted and not shown.
pub const MOST: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The configuration cannot be used.
    Error,
    /// It can, and somebody should know.
    Warning,
}

/// One thing that is wrong.
#[derive(Clone, Debug)]
pub struct Fault {
    pub severity: Severity,
    pub source: Arc<SourceText>,
    /// Absent: the source as a whole.
    pub span: Option<Range<usize>>,
    /// A lowercase fragment; it may quote the source.
    pub message: String,
    /// What to say under the mark.
    pub label: Option<String>,
    pub help: Option<String>,
}

impl Fault {
    pub fn error(place: &SourcePlace, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            source: place.source.clone(),
            span: Some(place.span.clone()),
            message: message.into(),
            label: None,
            help: None,
        }
    }

    pub fn warning(place: &SourcePlace, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            ..Self::error(place, message)
        }
    }

    /// Of the whole source.
    pub fn of(source: &Arc<SourceText>, message: impl Into<String>) -> Self {
        let place = SourcePlace {
            source: source.clone(),
            span: 0..0,
        };
        Self {
            span: None,
            ..Self::error(&place, message)
        }
    }

    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// `file:line:column: what is wrong; what was meant`
    pub fn line(&self) -> String {
        let mut text = self.source.name();
        if let Some(span) = &self.span {
            let (line, column) = self.source.line_and_column(span.start);
            text.push_str(&format!(":{line}:{column}"));
        }
        text.push_str(": ");
        text.push_str(&one_line_text(&self.message));
        for more in [&self.label, &self.help].into_iter().flatten() {
            text.push_str("; ");
            text.push_str(&one_line_text(more));
        }
        text
    }
}

/// What is said, fit to be shown: it may quote a name of any length.
pub(super) fn one_line_text(text: &str) -> String {
    let safe = safe_text::safe(text);
    match safe.char_indices().nth(SHOWN_BYTES) {
        Some((end, _)) => format!("{}…", &safe[..end]),
        None => safe.into_owned(),
    }
}
