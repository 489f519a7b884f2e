//! JSON-RPC as real servers write it: read leniently, written strictly.

use aishd_mcp_messages::bounded_text;
use serde_json::{Map, Value, json};

/// Messages of one batch; nobody has a reason to send more.
const MAX_BATCH: usize = 256;
const MAX_ERROR_CHARS: usize = 2000;

pub(super) const METHOD_NOT_FOUND: i64 = -32601;
pub(super) const INVALID_PARAMS: i64 = -32602;
pub(super) const INTERNAL_ERROR: i64 = -32603;
/// A person has to visit a URL first (2025-11-25).
pub(super) const URL_ELICITATION_REQUIRED: i64 = -32042;

/// One message from a server.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ServerMessage {
    /// An answer; without an id, or with one that is none of ours, it says so.
    Response {
        id: ResponseId,
        body: Result<Value, RpcError>,
    },
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
}

/// Whose answer a response is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResponseId {
    Ours(u64),
    Foreign,
    Missing,
}

/// The error of a response.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    pub code: i64,
    /// At most 2,000 characters of it.
    pub message: String,
    pub data: Value,
}

/// Levels of brackets that are read; the parser ends at 128.
const MAX_DEPTH: usize = 100;
/// Stands for what is deeper.
const TOO_DEEP: &str = "\"[aish] cut: nested too deep\"";

/// The messages in a text; a batch has several. What is no message is left out, and `None` says that the text is no
/// JSON at all.
pub(super) fn read(text: &[u8]) -> Option<Vec<ServerMessage>> {
    let text = String::from_utf8_lossy(text);
    let text = text.trim_start_matches('\u{feff}');
    // What is too deep in one tool of a list costs that tool, which says so, and not the list.
    let value: Value = serde_json::from_str(text)
        .or_else(|error| serde_json::from_str(&shallow(text).ok_or(error)?))
        .ok()?;
    Some(match value {
        Value::Array(items) => {
            let items = items.into_iter().take(MAX_BATCH);
            items.filter_map(message).collect()
        }
        one @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Object(_)) => message(one).into_iter().collect(),
    })
}

/// The same text without the innermost of what is nested too deep; nothing where it is not.
fn shallow(text: &str) -> Option<String> {
    let (mut kept, mut from) = (String::new(), 0);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    for (at, it) in text.bytes().enumerate() {
        match it {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'[' | b'{' if !in_text => {
                depth += 1;
                if depth == MAX_DEPTH + 1 {
                    kept.push_str(&text[from..at]);
                    kept.push_str(TOO_DEEP);
                }
            }
            b']' | b'}' if !in_text => {
                if depth == MAX_DEPTH + 1 {
                    from = at + 1;
                }
                depth = depth.checked_sub(1)?;
            }
            _ => {}
        }
    }
    if kept.is_empty() || depth > 0 {
        return None;
    }
    kept.push_str(&text[from..]);
    Some(kept)
}

fn message(value: Value) -> Option<ServerMessage> {
    let Value::Object(mut fields) = value else {
        return None;
    };
    let id = fields.remove("id").filter(|it| !it.is_null());
    if let Some(Value::String(method)) = fields.get("method") {
        let method = method.clone();
        let params = fields.remove("params").unwrap_or_default();
        return Some(match id {
            Some(id) => ServerMessage::Request { id, method, params },
            None => ServerMessage::Notification { method, params },
        });
    }
    let body = match (fields.remove("result"), fields.remove("error")) {
        // Some servers write both, one of them null.
        (_, Some(error)) if !error.is_null() => Err(rpc_error(&error)),
        (Some(result), _) => Ok(result),
        (None, _) => return None,
    };
    let id = match id {
        None => ResponseId::Missing,
        Some(Value::Number(number)) => number
            .as_u64()
            .map_or(ResponseId::Foreign, ResponseId::Ours),
        // Some servers turn every id into a string.
        Some(Value::String(text)) => text.parse().map_or(ResponseId::Foreign, ResponseId::Ours),
        Some(_) => ResponseId::Foreign,
    };
    Some(ServerMessage::Response { id, body })
}

/// An error as a server wrote it.
pub(super) fn rpc_error(error: &Value) -> RpcError {
    let said = error.get("message").and_then(Value::as_str);
    let message = match (said, error.as_str()) {
        (Some(text), _) | (None, Some(text)) => text.to_owned(),
        (None, None) => error.to_string(),
    };
    RpcError {
        code: error
            .get("code")
            .and_then(Value::as_i64)
            .unwrap_or_default(),
        message: bounded_text::cut(&message, MAX_ERROR_CHARS),
        data: error.get("data").cloned().unwrap_or_default(),
    }
}

/// A request of ours.
pub(super) fn request(id: u64, method: &str, params: &Map<String, Value>) -> String {
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
}

/// A notification of ours; params that are empty are left out.
pub(super) fn notification(method: &str, params: &Map<String, Value>) -> String {
    let mut message = json!({"jsonrpc": "2.0", "method": method});
    if !params.is_empty() {
        message["params"] = json!(params);
    }
    message.to_string()
}

/// Our answer to a server's request.
pub(super) fn response(id: &Value, body: Result<Value, (i64, String)>) -> String {
    match body {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string(),
        Err((code, message)) => {
            let error = json!({"code": code, "message": message});
            json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let seen = match read(text.as_bytes()) {
            None => "no JSON".to_owned(),
            Some(messages) => {
                let each = messages.into_iter().map(|it| match it {
                    ServerMessage::Response { id, body: Ok(it) } => format!("{id:?} {it}"),
                    ServerMessage::Response { id, body: Err(it) } => {
                        format!("{id:?} error {} {}", it.code, it.message)
                    }
                    ServerMessage::Request { id, method, .. } => format!("request {id} {method}"),
                    ServerMessage::Notification { method, params } => format!("{method} {params}"),
                });
                each.collect::<Vec<_>>().join("; ")
            }
        };
        assert_eq!(expected, seen, "{text}");
    }

    #[test]
    fn answers_are_understood_as_servers_write_them() {
        check(r#"{"jsonrpc":"2.0","id":3,"result":{}}"#, "Ours(3) {}");
        check(r#"{"id":"3","result":1}"#, "Ours(3) 1");
        check(r#"{"id":3,"result":null}"#, "Ours(3) null");
        check(r#"{"id":3,"result":{},"error":null}"#, "Ours(3) {}");
        check(r#"{"id":"x","result":{}}"#, "Foreign {}");
        check(r#"{"id":-1,"result":{}}"#, "Foreign {}");
        check(r#"{"id":1.5,"result":{}}"#, "Foreign {}");
        check(r#"{"result":{}}"#, "Missing {}");
        check(
            r#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"No valid session ID provided"},"id":null}"#,
            "Missing error -32000 No valid session ID provided",
        );
        check(r#"{"id":1,"error":"broken"}"#, "Ours(1) error 0 broken");
        check(r#"{"id":1,"error":{}}"#, "Ours(1) error 0 {}");
        check("\u{feff}{\"id\":1,\"result\":{}}", "Ours(1) {}");
    }

    #[test]
    fn what_is_no_message_costs_itself_only() {
        check("starting server on stdio", "no JSON");
        check(
            r#"{"error":"unauthorized"}"#,
            "Missing error 0 unauthorized",
        );
        check(r#"{"status":"ok"}"#, "");
        check("17", "");
        check("[]", "");
        check(
            r#"[{"id":1,"result":{}},7,{"method":"notifications/message","params":{"a":1}},{"id":9,"method":"ping"}]"#,
            r#"Ours(1) {}; notifications/message {"a":1}; request 9 ping"#,
        );
    }

    #[test]
    fn what_is_nested_too_deep_costs_itself_only() {
        let deep =
            |levels: usize| format!("{}7{}", "[{\"a\\\"]\":".repeat(levels), "}]".repeat(levels));
        for levels in [20, 60, 70, 5000] {
            let text = format!(
                r#"{{"id":1,"result":{{"first":"[[}}","deep":{},"last":{}}}}}"#,
                deep(levels),
                deep(1)
            );
            let mut messages = read(text.as_bytes()).unwrap();
            let Some(ServerMessage::Response {
                body: Ok(result), ..
            }) = messages.pop()
            else {
                panic!("{levels}");
            };
            assert_eq!("[[}", result["first"]);
            assert_eq!(7, result["last"][0]["a\"]"]);
            let cut = result["deep"].to_string().contains("nested too deep");
            assert_eq!(levels > 60, cut, "{levels}");
            assert!(read(&text.as_bytes()[..text.len() - 1]).is_none());
        }
    }

    #[test]
    fn bad_bytes_do_not_lose_the_message() {
        let messages = read(b"{\"id\":1,\"result\":\"a\xff\"}").unwrap();
        let body = Ok(Value::String("a\u{fffd}".to_owned()));
        let id = ResponseId::Ours(1);
        assert_eq!(vec![ServerMessage::Response { id, body }], messages);
    }
}
