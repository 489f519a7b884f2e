//! What a line is, before anybody acts on it: one call, a batch, a notification, or none of these.
//!
//! JSON that does not parse is -32700 with id null; JSON that is no request is -32600, with the id when one
//! can be read. Notifications are accepted and dropped.

use aish_proto::limits::BATCH_CALLS;
use jsonrpsee::types::error::{INVALID_REQUEST_CODE, PARSE_ERROR_CODE};
use jsonrpsee::types::{ErrorObjectOwned, Id};
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;

/// A line, understood.
#[derive(Debug)]
pub(super) enum RequestLine<'a> {
    /// White space only.
    Empty,
    One(RequestEntry<'a>),
    Batch(Vec<RequestEntry<'a>>),
    /// The line as a whole is answered with this error.
    Bad(ErrorObjectOwned),
}

/// One member of a batch, or the line itself.
#[derive(Debug)]
pub(super) enum RequestEntry<'a> {
    Call {
        id: Id<'a>,
        method: String,
        params: Option<&'a str>,
    },
    Notification,
    Bad(Id<'static>, ErrorObjectOwned),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RpcRequest<'a> {
    jsonrpc: String,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    method: String,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// Keeps the difference between a null id and none.
fn present<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Understands one line, its line feed apart.
pub(super) fn read(line: &[u8]) -> RequestLine<'_> {
    let Ok(text) = std::str::from_utf8(line) else {
        return RequestLine::Bad(parse_error("the line is not UTF-8"));
    };
    let text = text.trim();
    if text.is_empty() {
        return RequestLine::Empty;
    }
    if !text.starts_with('[') {
        return match entry(text) {
            Ok(entry) => RequestLine::One(entry),
            Err(error) => RequestLine::Bad(error),
        };
    }
    let members: Vec<&RawValue> = match serde_json::from_str(text) {
        Ok(members) => members,
        Err(error) => return RequestLine::Bad(parse_error(&error.to_string())),
    };
    if members.is_empty() {
        return RequestLine::Bad(request_error("an empty batch"));
    }
    if members.len() > BATCH_CALLS {
        return RequestLine::Bad(request_error(&format!(
            "a batch of {} calls; at most {BATCH_CALLS} are taken",
            members.len()
        )));
    }
    let entries = members
        .into_iter()
        .map(|it| entry(it.get()).unwrap_or_else(|error| RequestEntry::Bad(Id::Null, error)));
    RequestLine::Batch(entries.collect())
}

fn entry(text: &str) -> Result<RequestEntry<'_>, ErrorObjectOwned> {
    // A struct can be read from an array too, which no request is.
    if !text.starts_with('{') && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok() {
        let error = request_error("a request is an object");
        return Ok(RequestEntry::Bad(Id::Null, error));
    }
    let request: RpcRequest<'_> = match serde_json::from_str(text) {
        Ok(request) => request,
        Err(error) if error.is_data() => {
            return Ok(RequestEntry::Bad(
                readable_id(text),
                request_error(&error.to_string()),
            ));
        }
        Err(error) => return Err(parse_error(&error.to_string())),
    };
    let id = match request.id.map(|it| id(it.get())) {
        Some(Ok(id)) => Some(id),
        Some(Err(error)) => {
            return Ok(RequestEntry::Bad(
                Id::Null,
                request_error(&error.to_string()),
            ));
        }
        None => None,
    };
    let owned = |id: &Option<Id<'_>>| id.clone().map_or(Id::Null, Id::into_owned);
    if request.jsonrpc != "2.0" {
        return Ok(RequestEntry::Bad(
            owned(&id),
            request_error("jsonrpc must be \"2.0\""),
        ));
    }
    let params = request.params.map(RawValue::get);
    if params.is_some_and(|it| !it.starts_with(['{', '['])) {
        return Ok(RequestEntry::Bad(
            owned(&id),
            request_error("params must be an object"),
        ));
    }
    Ok(match id {
        None => RequestEntry::Notification,
        Some(id) => RequestEntry::Call {
            id,
            method: request.method,
            params,
        },
    })
}

/// A string, a whole number that is not negative, or null.
fn id(text: &str) -> Result<Id<'_>, serde_json::Error> {
    serde_json::from_str(text)
        .map_err(|_other| serde_json::Error::custom("id must be a string, a whole number or null"))
}

/// The id of something that is no request, if it has one.
fn readable_id(text: &str) -> Id<'static> {
    #[derive(Deserialize)]
    struct Identified {
        id: Option<serde_json::Value>,
    }
    let found = serde_json::from_str::<Identified>(text)
        .ok()
        .and_then(|it| it.id);
    found
        .and_then(|it| id(&it.to_string()).ok().map(Id::into_owned))
        .unwrap_or(Id::Null)
}

fn parse_error(why: &str) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(PARSE_ERROR_CODE, format!("parse error: {why}"), None::<()>)
}

fn request_error(why: &str) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(
        INVALID_REQUEST_CODE,
        format!("invalid request: {why}"),
        None::<()>,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let one = |it: &RequestEntry<'_>| match it {
            RequestEntry::Call { id, method, params } => format!("call {id} {method} {params:?}"),
            RequestEntry::Notification => "notification".to_owned(),
            RequestEntry::Bad(id, error) => format!("bad {id} {}", error.code()),
        };
        let seen = match read(line.as_bytes()) {
            RequestLine::Empty => "empty".to_owned(),
            RequestLine::One(entry) => one(&entry),
            RequestLine::Batch(entries) => entries.iter().map(one).collect::<Vec<_>>().join("; "),
            RequestLine::Bad(error) => format!("bad line {}", error.code()),
        };
        assert_eq!(expected, seen, "{line}");
    }

    #[test]
    fn requests_are_told_from_everything_else() {
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"a/b","params":{}}"#,
            r#"call 1 a/b Some("{}")"#,
        );
        check(
            r#"{"jsonrpc":"2.0","id":"x","method":"a/b"}"#,
            "call x a/b None",
        );
        check(
            r#"{"jsonrpc":"2.0","id":null,"method":"a/b"}"#,
            "call null a/b None",
        );
        check(r#"{"jsonrpc":"2.0","method":"a/b"}"#, "notification");
        check("  ", "empty");
        check("{", "bad line -32700");
        check("[{]", "bad line -32700");
        check("nonsense", "bad line -32700");
        check("5", "bad null -32600");
        check(r#"[["2.0",1,"a/b",{}]]"#, "bad null -32600");
        check("[]", "bad line -32600");
        check(r#"{"jsonrpc":"1.0","id":4,"method":"a"}"#, "bad 4 -32600");
        check(r#"{"jsonrpc":"2.0","id":4,"method":5}"#, "bad 4 -32600");
        check(r#"{"jsonrpc":"2.0","id":4}"#, "bad 4 -32600");
        check(
            r#"{"jsonrpc":"2.0","id":[4],"method":"a"}"#,
            "bad null -32600",
        );
        check(
            r#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#,
            "bad null -32600",
        );
        check(
            r#"{"jsonrpc":"2.0","id":4,"method":"a","more":1}"#,
            "bad 4 -32600",
        );
        check(
            r#"{"jsonrpc":"2.0","id":4,"method":"a","params":7}"#,
            "bad 4 -32600",
        );
        check(
            r#"[{"jsonrpc":"2.0","id":1,"method":"a"},7,{"jsonrpc":"2.0","method":"b"}]"#,
            "call 1 a None; bad null -32600; notification",
        );
        let many = vec![r#"{"jsonrpc":"2.0","id":1,"method":"a"}"#; BATCH_CALLS + 1].join(",");
        check(&format!("[{many}]"), "bad line -32600");
    }

    #[test]
    fn bytes_that_are_no_text_are_a_parse_error() {
        assert!(matches!(read(b"\xff\xfe{}"), RequestLine::Bad(error) if error.code() == -32700));
    }

    /// A line is one of the things that there are, and an id that comes back is one that was sent.
    #[test]
    fn damaged_lines_are_told_from_requests() {
        let corpus = [
            r#"{"jsonrpc":"2.0","id":1,"method":"turn/send","params":{"conversation":"01","text":"é\n"}}"#,
            r#"[{"jsonrpc":"2.0","id":"x","method":"daemon/ping"},{"jsonrpc":"2.0","method":"a/b","params":[1]}]"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"daemon/hello","params":{"protocol":{"min":1,"max":1}}}"#,
        ];
        let sent = |line: &[u8], id: &Id<'_>| match id {
            Id::Null => true,
            Id::Number(number) => {
                let digits = number.to_string();
                let digits = digits.as_bytes();
                line.windows(digits.len()).any(|it| it == digits)
            }
            // It may have been written with escapes.
            Id::Str(text) => text.len() <= line.len(),
        };
        aish_testkit::fuzz(corpus, |line| {
            let one = |it: &RequestEntry<'_>| match it {
                RequestEntry::Call { id, method, params } => {
                    assert!(sent(line, id) && method.len() <= line.len());
                    let object = params.is_none_or(|it| it.starts_with(['{', '[']));
                    assert!(object, "{params:?}");
                    format!("call {}", params.is_some())
                }
                RequestEntry::Notification => "notification".to_owned(),
                RequestEntry::Bad(id, error) => {
                    assert!(sent(line, id));
                    // In a batch, a member may have a text that cannot be read (half a surrogate pair).
                    let unread = error.code() == PARSE_ERROR_CODE && *id == Id::Null;
                    assert!(unread || error.code() == INVALID_REQUEST_CODE, "{error}");
                    format!("bad {}", *id == Id::Null)
                }
            };
            match read(line) {
                RequestLine::Empty => "empty".to_owned(),
                RequestLine::One(entry) => one(&entry),
                RequestLine::Batch(entries) => {
                    assert!((1..=BATCH_CALLS).contains(&entries.len()));
                    entries.iter().map(one).collect()
                }
                RequestLine::Bad(error) => format!("bad line {}", error.code()),
            }
        });
    }
}
