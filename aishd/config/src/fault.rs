//! What is wrong with a configuration, where, and how that is told: with the line and a mark under it, or on one line.

use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::redaction;
use super::source::{SourcePlace, SourceText};

/// A line longer than this is shown in part.
const SHOWN_BYTES: usize = 400;
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

    /// With the line of the source and a mark under what is wrong.
    pub fn picture(&self) -> String {
        let level = match self.severity {
            Severity::Error => Level::ERROR,
            Severity::Warning => Level::WARNING,
        };
        let name = self.source.name();
        let message = one_line_text(&self.message);
        let help = self.help.as_deref().map(one_line_text);
        let mut group = match &self.span {
            None => level
                .primary_title(format!("{name}: {message}"))
                .elements(std::iter::empty::<annotate_snippets::Element<'_>>()),
            Some(span) => {
                let part = LineExcerpt::of(&self.source, span);
                let mark = AnnotationKind::Primary
                    .span(part.span)
                    .label(self.label.as_deref().map(one_line_text));
                level.primary_title(message).element(
                    Snippet::source(part.text)
                        .path(name)
                        .line_start(part.line)
                        .annotation(mark),
                )
            }
        };
        if let Some(help) = help {
            group = group.element(Level::HELP.message(help));
        }
        let mut text = Renderer::plain()
            .term_width(SHOWN_BYTES + 40)
            .render(&[group]);
        text.push('\n');
        text
    }
}

/// What is said, fit to be shown: it may quote a name of any length.
fn one_line_text(text: &str) -> String {
    let safe = redaction::safe(text);
    match safe.char_indices().nth(SHOWN_BYTES) {
        Some((end, _)) => format!("{}…", &safe[..end]),
        None => safe.into_owned(),
    }
}

/// The line on which a span begins, or a part of it when it is very long.
struct LineExcerpt<'a> {
    text: &'a str,
    line: usize,
    span: Range<usize>,
}

impl<'a> LineExcerpt<'a> {
    fn of(source: &'a SourceText, span: &Range<usize>) -> Self {
        let shown = source.display();
        let start = shown.floor_char_boundary(span.start);
        let begin = shown[..start].rfind('\n').map_or(0, |it| it + 1);
        let end = shown[start..]
            .find('\n')
            .map_or(shown.len(), |it| start + it);
        let end = if shown[..end].ends_with('\r') {
            end - 1
        } else {
            end
        };
        let from = begin.max(shown.floor_char_boundary(start.saturating_sub(SHOWN_BYTES / 2)));
        let to = end
            .min(shown.ceil_char_boundary(from + SHOWN_BYTES))
            .max(from);
        let stop = shown
            .floor_char_boundary(span.end)
            .clamp(start, to.max(start));
        Self {
            text: &shown[from..to],
            line: source.line_and_column(span.start).0,
            span: start.min(to) - from..stop.min(to) - from,
        }
    }
}

/// All of them as pictures, with an empty line between, and how many are not shown.
pub fn pictures(faults: &[Fault]) -> String {
    let shown: Vec<String> = faults.iter().take(MOST).map(Fault::picture).collect();
    let mut text = shown.join("\n");
    if faults.len() > MOST {
        text.push_str(&format!("\nand {} more\n", faults.len() - MOST));
    }
    text
}
