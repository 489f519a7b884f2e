//! Event streams as servers of models write them: data, and errors in forms of their own.

use std::borrow::Cow;

use aishd_http::event_lines;
use aishd_model::reply::RequestFailure;

/// A name of an event is short; what is longer means nothing to us, and the parser would keep it.
const MAX_NAME_LINE_BYTES: usize = 64;

/// The lines of an answer that mean something.
#[derive(Debug, Default)]
pub(super) struct AnswerEvents;

impl event_lines::EventDialect for AnswerEvents {
    type Failure = RequestFailure;

    /// The last event of some servers has the whole answer, with the question and its tools; and a picture comes in one.
    const MAX_BYTES: usize = 16 * 1024 * 1024;

    /// Comments, ids and unknown fields end here: nothing is done with them, and the parser would copy some about.
    fn passed_line<'a>(&mut self, line: &'a str) -> Option<Cow<'a, str>> {
        if line.starts_with("data")
            || (line.starts_with("event") && line.len() <= MAX_NAME_LINE_BYTES)
        {
            Some(Cow::Borrowed(line))
        } else if let Some(error) = line.strip_prefix("error:") {
            // llama.cpp until the end of 2025 wrote errors into a field of its own making.
            Some(Cow::Owned(format!("data: {{\"error\":{error}}}")))
        } else if line.starts_with("{\"error\"") {
            // Gateways that pass the error of the server behind them on as it is, without a field.
            Some(Cow::Owned(format!("data: {line}")))
        } else {
            None
        }
    }

    fn too_large(part: &str) -> RequestFailure {
        let cap = Self::MAX_BYTES / 1024;
        RequestFailure::TooLarge(format!("{part} of the answer is longer than {cap} KiB"))
    }
}

#[cfg(test)]
mod tests {
    use aishd_http::event_lines::EventDialect as _;

    use super::*;

    #[test]
    fn what_the_parser_need_not_see_is_left_out_and_errors_outside_of_a_field_are_seen() {
        let long = format!("event: {}", "x".repeat(MAX_NAME_LINE_BYTES));
        for (line, shown) in [
            ("data: a", Some("data: a")),
            ("event: x", Some("event: x")),
            (&*long, None),
            (": ping", None),
            ("id: 1", None),
            ("retry: 5", None),
            (
                "error: {\"code\":400}",
                Some("data: {\"error\": {\"code\":400}}"),
            ),
            (
                "{\"error\":{\"code\":400}}",
                Some("data: {\"error\":{\"code\":400}}"),
            ),
        ] {
            assert_eq!(shown, AnswerEvents.passed_line(line).as_deref(), "{line}");
        }
    }
}
