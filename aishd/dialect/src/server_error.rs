//! An error as a server tells it, in a body of its own or in the middle of an answer; servers agree on no form for it.

use serde_json::{Map, Value};

/// What was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerReportedError {
    pub message: String,
    pub kind: ReportedKind,
    /// The field of the request that it is about.
    pub param: Option<String>,
    /// What the status would have been, where it came in an answer that had begun well.
    pub status: Option<u16>,
    /// How long it asks to be left alone.
    pub retry_after_ms: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportedKind {
    Other,
    ContextOverflow,
    ModelNotFound,
    /// It does not take back what it sealed itself.
    RefusesSeals,
}

impl ServerReportedError {
    pub fn saying(message: &str) -> Self {
        Self {
            message: message.to_owned(),
            kind: ReportedKind::Other,
            param: None,
            status: None,
            retry_after_ms: None,
        }
    }
}

/// The error that an object reports: `{"error": …}`, `{"object": "error"}`, or FastAPI's `{"detail": …}`.
pub fn error(object: &Map<String, Value>) -> Option<ServerReportedError> {
    let told = match object.get("error") {
        None | Some(Value::Null) => {
            if object.get("object").and_then(Value::as_str) == Some("error") {
                object
            } else if let (Some(detail), false) =
                (object.get("detail"), object.contains_key("choices"))
            {
                return Some(reported(&plain(detail), &[]));
            } else {
                return None;
            }
        }
        Some(Value::Object(told)) => told,
        Some(other) => return Some(reported(&plain(other), &[])),
    };
    let field = |name: &str| told.get(name).map(plain).unwrap_or_default();
    let message = told
        .get("message")
        .map_or_else(|| plain(&Value::Object(told.clone())), plain);
    let param = told.get("param").and_then(Value::as_str);
    Some(ServerReportedError {
        param: param.map(str::to_owned),
        status: status(&field("code"), &field("type")),
        retry_after_ms: wait_in(&message),
        ..reported(&message, &[field("type"), field("code")])
    })
}

/// What the status would have been of a server that cannot answer just now: some have it as the code, and Anthropic's kinds
/// are known.
fn status(code: &str, kind: &str) -> Option<u16> {
    let passing = |it: &u16| matches!(it, 429 | 503 | 529);
    let numbered = code.parse().ok().filter(passing);
    numbered.or(match kind {
        "rate_limit_error" => Some(429),
        "overloaded_error" => Some(529),
        _another => None,
    })
}

/// What a plain message or one with a type and a code is about; servers agree on no field for it.
pub fn reported(message: &str, labels: &[String]) -> ServerReportedError {
    const OVERFLOW: [&str; 10] = [
        "exceed_context_size",
        "context_length_exceeded",
        "exceeds the available context size",
        "context window",
        "contextwindowexceeded",
        "maximum context length",
        "context length",
        "prompt is too long",
        "maximum number of tokens",
        "input is too long",
    ];
    const NOT_FOUND: [&str; 5] = [
        "not found",
        "not_found_error",
        "does not exist",
        "invalid model name",
        "not a valid model",
    ];
    const SEALS: [&str; 5] = [
        "invalid_encrypted_content",
        "encrypted content",
        "items are not persisted",
        "`signature` in `thinking`",
        "blocks in the latest assistant message cannot be modified",
    ];
    let all = format!("{message} {}", labels.join(" ")).to_lowercase();
    let about_model = all.contains("model") && NOT_FOUND.iter().any(|words| all.contains(words));
    let kind = if OVERFLOW.iter().any(|words| all.contains(words)) {
        ReportedKind::ContextOverflow
    } else if SEALS.iter().any(|words| all.contains(words)) && !all.contains("not supported") {
        ReportedKind::RefusesSeals
    } else if about_model || all.contains("model_not_found") {
        ReportedKind::ModelNotFound
    } else {
        ReportedKind::Other
    };
    ServerReportedError {
        kind,
        ..ServerReportedError::saying(message)
    }
}

/// How long to wait, where that stands in the text: "try again in 1.3s", "in 250ms".
pub fn wait_in(message: &str) -> Option<u64> {
    let text = message.to_lowercase();
    let (_, rest) = text.split_once("try again in ")?;
    let end = rest.find(|it: char| !it.is_ascii_digit() && it != '.')?;
    let number: f64 = rest[..end].parse().ok()?;
    let unit = rest[end..].trim_start();
    let seconds = if unit.starts_with("ms") {
        number / 1000.0
    } else if unit.starts_with('s') {
        number
    } else if unit.starts_with('m') {
        number * 60.0
    } else {
        return None;
    };
    let wait = std::time::Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(wait.as_millis()).ok()
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_busy_within_an_answer_is_one_that_may_be_asked_again() {
        for (told, status) in [
            (r#"{"error":{"code":429,"message":"slow down"}}"#, Some(429)),
            (r#"{"error":{"code":"503","message":"no"}}"#, Some(503)),
            (
                r#"{"error":{"type":"overloaded_error","message":"no"}}"#,
                Some(529),
            ),
            (r#"{"error":{"code":500,"message":"no"}}"#, None),
        ] {
            let object: Map<String, Value> = serde_json::from_str(told).unwrap();
            assert_eq!(status, error(&object).unwrap().status, "{told}");
        }
        let unknown = r#"{"error":{"type":"not_found_error","message":"model: claude-nope"}}"#;
        let object: Map<String, Value> = serde_json::from_str(unknown).unwrap();
        assert_eq!(ReportedKind::ModelNotFound, error(&object).unwrap().kind);
    }

    #[test]
    fn the_wait_in_a_text_is_found() {
        for (text, ms) in [
            (
                "Rate limit reached for gpt-5. Please try again in 1.3s.",
                Some(1300),
            ),
            ("Please try again in 250ms.", Some(250)),
            ("Try again in 2 seconds", Some(2000)),
            ("try again in 1m", Some(60_000)),
            ("please try again in a while", None),
            ("try again in 1", None),
            ("try again in 1..3s", None),
            ("no", None),
        ] {
            assert_eq!(ms, wait_in(text), "{text}");
        }
    }

    #[test]
    fn a_seal_that_is_not_taken_back_is_told_from_one_that_a_model_never_gives() {
        for (text, kind) in [
            (
                "Item with id 'rs_1' not found. Items are not persisted when `store` is set to false.",
                ReportedKind::RefusesSeals,
            ),
            (
                "The encrypted content gAAA could not be verified.",
                ReportedKind::RefusesSeals,
            ),
            (
                "messages.1.content.0: Invalid `signature` in `thinking` block",
                ReportedKind::RefusesSeals,
            ),
            (
                "Encrypted content is not supported with this model.",
                ReportedKind::Other,
            ),
        ] {
            assert_eq!(kind, reported(text, &[]).kind, "{text}");
        }
    }
}
