//! What went wrong on the way, from what reqwest and the server's answer say about it.

use std::error::Error as _;
use std::io;

use aishd_dialect::ReportedKind;
use aishd_model::reply::{HttpDetail, RequestFailure, TimeoutStage};
use aishd_model::{optional_fields, tool_limit};
use aishd_platform::clock;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, LOCATION, RETRY_AFTER};
use serde_json::{Map, Value};

/// How much of a server's text is shown.
pub(super) const SHOWN_BYTES: usize = 2048;

/// For a request that got no answer. A timeout also counts as a decoding error, so it is asked for first.
pub(super) fn before_head(error: &reqwest::Error) -> RequestFailure {
    if error.is_timeout() {
        let stage = if error.is_connect() {
            TimeoutStage::Connect
        } else {
            TimeoutStage::FirstByte
        };
        return RequestFailure::TimedOut(stage);
    }
    if error.is_builder() {
        return RequestFailure::Config(format!(
            "the request cannot be made: {}",
            last_cause(error)
        ));
    }
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(found) = inner.downcast_ref::<io::Error>().and_then(from_io) {
            return found;
        }
        let text = inner.to_string();
        if text.contains("dns error") || text.contains("failed to lookup address") {
            return RequestFailure::Unresolved;
        }
        if text.contains("connection closed before message completed") {
            return RequestFailure::Closed;
        }
        cause = inner.source();
    }
    RequestFailure::Transport(last_cause(error))
}

fn from_io(error: &io::Error) -> Option<RequestFailure> {
    use io::ErrorKind as Kind;
    let kind = error.kind();
    if kind == Kind::ConnectionRefused {
        return Some(RequestFailure::Refused);
    }
    if kind == Kind::TimedOut {
        return Some(RequestFailure::TimedOut(TimeoutStage::Connect));
    }
    if matches!(kind, Kind::HostUnreachable | Kind::NetworkUnreachable) {
        return Some(RequestFailure::NoRoute);
    }
    let closed = [
        Kind::ConnectionReset,
        Kind::ConnectionAborted,
        Kind::BrokenPipe,
        Kind::UnexpectedEof,
    ];
    if closed.contains(&kind) {
        return Some(RequestFailure::Closed);
    }
    // rustls hands its own errors through as these; a socket's errors carry a number and no inner error, and a
    // resolver's are told apart further up.
    if !matches!(kind, Kind::InvalidData | Kind::Other) {
        return None;
    }
    let inner = error.get_ref()?.to_string();
    (!inner.contains("lookup")).then(|| RequestFailure::Transport(format!("TLS: {inner}")))
}

/// For a body that broke off. Timeouts are our own, so whatever reqwest says here is the end of the connection.
pub(super) fn in_body(error: &reqwest::Error) -> RequestFailure {
    if error.is_timeout() {
        RequestFailure::TimedOut(TimeoutStage::Idle)
    } else {
        RequestFailure::Cut
    }
}

/// For an answer whose status is not 2xx; `body` is what was read of its body.
pub(super) fn from_status(status: StatusCode, headers: &HeaderMap, body: &str) -> RequestFailure {
    let told = serde_json::from_str::<Map<String, Value>>(body)
        .ok()
        .and_then(|object| aishd_dialect::error(&object));
    let message = match &told {
        Some(told) => told.message.clone(),
        None if status.is_redirection() => redirected(headers),
        None => start(body),
    };
    let param = told.as_ref().and_then(|told| told.param.clone());
    let kind = told.map_or_else(
        || aishd_dialect::reported(&message, &[]).kind,
        |told| told.kind,
    );
    let detail = if tool_limit::is_refused(&message, param.as_deref()) {
        HttpDetail::TooManyTools
    } else if tool_limit::takes_none(&message) {
        HttpDetail::TakesNoTools
    } else {
        let refused = optional_fields::refused(&message, param.as_deref());
        refused.map_or(HttpDetail::None, HttpDetail::Refuses)
    };
    let in_text = aishd_dialect::wait_in(&message);
    let message = if message.is_empty() {
        status.canonical_reason().unwrap_or("no message").to_owned()
    } else {
        message
    };
    RequestFailure::Http {
        status: status.as_u16(),
        message,
        retry_after_ms: retry_after_ms(headers).or(in_text),
        detail: match kind {
            ReportedKind::ContextOverflow => HttpDetail::ContextOverflow,
            ReportedKind::RefusesSeals => HttpDetail::RefusesSeals,
            ReportedKind::ModelNotFound if matches!(status.as_u16(), 400 | 404) => {
                HttpDetail::ModelNotFound
            }
            ReportedKind::ModelNotFound | ReportedKind::Other => detail,
        },
    }
}

/// The start of a body for people; of a web page only its title.
pub(super) fn start(body: &str) -> String {
    let body = body.trim_start();
    if !body.starts_with('<') {
        return body.trim_end().to_owned();
    }
    let title = body
        .split_once("<title>")
        .and_then(|(_, rest)| rest.split_once("</title>"));
    match title {
        Some((title, _)) => format!("a web page, {:?}", title.trim()),
        None => "a web page".to_owned(),
    }
}

/// A server's text as a terminal may see it: one line, no control characters, not too long.
pub(super) fn presentable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(SHOWN_BYTES) + 4);
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        if word.is_empty() {
            continue;
        }
        if !shown.is_empty() {
            shown.push(' ');
        }
        let room = SHOWN_BYTES.saturating_sub(shown.len());
        if word.len() > room {
            shown.push_str(
                word.get(..word.floor_char_boundary(room))
                    .unwrap_or_default(),
            );
            shown.push('…');
            break;
        }
        shown.push_str(word);
    }
    shown
}

/// Where to, without what may be a secret in it.
fn redirected(headers: &HeaderMap) -> String {
    let place = headers.get(LOCATION).and_then(|it| it.to_str().ok());
    let place = place.and_then(|it| reqwest::Url::parse(it).ok());
    match place {
        Some(place) => format!(
            "redirects are not followed, and this one leads to {}{}",
            place.origin().ascii_serialization(),
            place.path()
        ),
        None => "redirects are not followed".to_owned(),
    }
}

fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let number = |name: &str, unit_ms: f64| {
        let seconds: f64 = headers.get(name)?.to_str().ok()?.trim().parse().ok()?;
        let ms = std::time::Duration::try_from_secs_f64(seconds * unit_ms / 1000.0).ok()?;
        u64::try_from(ms.as_millis()).ok()
    };
    number("retry-after-ms", 1.0)
        .or_else(|| number(RETRY_AFTER.as_str(), 1000.0))
        .or_else(|| {
            let date = headers.get(RETRY_AFTER)?.to_str().ok()?;
            let then = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
            let ms = then.as_millisecond().saturating_sub(clock::now().0);
            Some(u64::try_from(ms).unwrap_or(0))
        })
}

fn last_cause(error: &reqwest::Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(inner) = last.source() {
        last = inner;
    }
    // Only the outermost error shows the address, which may hold a password.
    if last.source().is_none() && error.source().is_none() {
        return "the request failed".to_owned();
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(
        status: u16,
        header: Option<(&'static str, &str)>,
        body: &str,
        expected: (&str, HttpDetail, Option<u64>),
    ) {
        let mut headers = HeaderMap::new();
        if let Some((name, value)) = header {
            headers.insert(name, value.parse().unwrap());
        }
        let failure = from_status(StatusCode::from_u16(status).unwrap(), &headers, body);
        let RequestFailure::Http {
            retry_after_ms,
            detail,
            ..
        } = failure.clone()
        else {
            panic!("{failure:?}");
        };
        assert_eq!(
            expected,
            (failure.to_string().as_str(), detail, retry_after_ms)
        );
    }

    #[test]
    fn the_servers_own_words_are_shown() {
        let none = HttpDetail::None;
        check(
            401,
            None,
            r#"{"error":{"message":"Invalid API Key","type":"authentication_error","code":401}}"#,
            ("transport: HTTP 401: Invalid API Key", none, None),
        );
        check(
            500,
            None,
            "Internal Server Error",
            ("transport: HTTP 500: Internal Server Error", none, None),
        );
        check(
            502,
            None,
            "<html><head><title>502 Bad Gateway</title></head></html>",
            (
                "transport: HTTP 502: a web page, \"502 Bad Gateway\"",
                none,
                None,
            ),
        );
        check(
            403,
            None,
            "",
            ("transport: HTTP 403: Forbidden", none, None),
        );
        check(
            422,
            None,
            r#"{"detail":[{"msg":"field required"}]}"#,
            (
                "transport: HTTP 422: [{\"msg\":\"field required\"}]",
                none,
                None,
            ),
        );
        check(
            307,
            None,
            "",
            (
                "transport: HTTP 307: redirects are not followed",
                none,
                None,
            ),
        );
        check(
            308,
            Some(("location", "https://u:pw@api.example/v1/chat?key=secret")),
            "",
            (
                "transport: HTTP 308: redirects are not followed, and this one leads to https://api.example/v1/chat",
                none,
                None,
            ),
        );
        check(
            404,
            None,
            r#"{"error":{"message":"File Not Found","type":"not_found_error","code":404}}"#,
            ("transport: HTTP 404: File Not Found", none, None),
        );
    }

    #[test]
    fn a_missing_model_and_a_full_context_are_told_apart() {
        check(
            404,
            None,
            r#"{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error"}}"#,
            (
                "transport: HTTP 404: model \"x\" not found, try pulling it first",
                HttpDetail::ModelNotFound,
                None,
            ),
        );
        check(
            404,
            None,
            r#"{"error":{"message":"no","code":"model_not_found"}}"#,
            ("transport: HTTP 404: no", HttpDetail::ModelNotFound, None),
        );
        check(
            400,
            None,
            r#"{"error":{"code":400,"message":"request too large","type":"exceed_context_size_error","n_ctx":4096}}"#,
            (
                "transport: HTTP 400: request too large",
                HttpDetail::ContextOverflow,
                None,
            ),
        );
        check(
            400,
            None,
            r#"{"error":{"message":"too long","code":"context_length_exceeded"}}"#,
            (
                "transport: HTTP 400: too long",
                HttpDetail::ContextOverflow,
                None,
            ),
        );
    }

    #[test]
    fn the_wait_that_a_server_asks_for_is_understood() {
        let after = |name, value, ms| {
            check(
                429,
                Some((name, value)),
                "slow",
                ("transport: HTTP 429: slow", HttpDetail::None, Some(ms)),
            );
        };
        after("retry-after", "2", 2000);
        after("retry-after", "1.5", 1500);
        after("retry-after-ms", "250", 250);
        after("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", 0);
        check(
            429,
            Some(("retry-after", "-1")),
            "slow",
            ("transport: HTTP 429: slow", HttpDetail::None, None),
        );
        let then = jiff::Timestamp::from_millisecond(clock::now().0 + 60_000).unwrap();
        let date = jiff::fmt::rfc2822::to_string(&then.to_zoned(jiff::tz::TimeZone::UTC)).unwrap();
        let mut headers = HeaderMap::new();
        headers.insert(RETRY_AFTER, date.parse().unwrap());
        let ms = retry_after_ms(&headers).unwrap();
        assert!((55_000..=60_000).contains(&ms), "{ms}");
    }

    #[test]
    fn a_servers_text_cannot_drive_a_terminal_or_fill_it() {
        assert_eq!("a [31m b c", presentable("a\u{1b}[31m\r\n b\u{9b}c\n"));
        let long = presentable(&"é".repeat(SHOWN_BYTES));
        assert!(long.len() <= SHOWN_BYTES + '…'.len_utf8() && long.ends_with('…'));
    }
}
