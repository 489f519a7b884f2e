//! What is wrong with a configuration as people are shown it: with the line and a mark under it.

use std::ops::Range;
use std::sync::Arc;

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

use super::fault::{Fault, MOST, SHOWN_BYTES, Severity, one_line_text};
use super::redaction;

/// All of them, with an empty line between, and how many are not shown.
pub fn pictures(faults: &[Fault]) -> String {
    let of_one_source = |a: &Fault, b: &Fault| Arc::ptr_eq(&a.source, &b.source);
    let mut pictures = vec![];
    for faults in faults[..faults.len().min(MOST)].chunk_by(of_one_source) {
        let shown = redaction::cover(faults[0].source.text());
        pictures.extend(faults.iter().map(|it| picture(it, &shown)));
    }
    let mut text = pictures.join("\n");
    if faults.len() > MOST {
        text.push_str(&format!("\nand {} more\n", faults.len() - MOST));
    }
    text
}

/// `shown`: the source of the fault, covered.
fn picture(fault: &Fault, shown: &str) -> String {
    let level = match fault.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let name = fault.source.name();
    let message = one_line_text(&fault.message);
    let help = fault.help.as_deref().map(one_line_text);
    let mut group = match &fault.span {
        None => level
            .primary_title(format!("{name}: {message}"))
            .elements(std::iter::empty::<annotate_snippets::Element<'_>>()),
        Some(span) => {
            let part = LineExcerpt::of(fault, shown, span);
            let mark = AnnotationKind::Primary
                .span(part.span)
                .label(fault.label.as_deref().map(one_line_text));
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

/// The line on which a span begins, or a part of it when it is very long.
struct LineExcerpt<'a> {
    text: &'a str,
    line: usize,
    span: Range<usize>,
}

impl<'a> LineExcerpt<'a> {
    fn of(fault: &Fault, shown: &'a str, span: &Range<usize>) -> Self {
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
            line: fault.source.line_and_column(span.start).0,
            span: start.min(to) - from..stop.min(to) - from,
        }
    }
}
