//! What a line of an MCP client is: requests, notifications, or something that is answered with what is wrong with it.

use serde_json::{Map, Value, json};

pub(super) const PARSE_ERROR: i32 = -32700;
pub(super) const INVALID_REQUEST: i32 = -32600;
pub(super) const METHOD_NOT_FOUND: i32 = -32601;
pub(super) const INVALID_PARAMS: i32 = -32602;
pub(super) const INTERNAL: i32 = -32603;
/// Until 2025-11-25.
pub(super) const RESOURCE_NOT_FOUND: i32 = -32002;
/// Of 2026-07-28.
pub(super) const UNSUPPORTED_VERSION: i32 = -32022;

/// Of one batch.
const MAX_BATCH: usize = 64;

pub(super) type MessageParams = Map<String, Value>;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum GatewayMessage {
    Request {
        id: Value,
        method: String,
        params: MessageParams,
    },
    Notification {
        method: String,
        params: MessageParams,
    },
    /// An answer to something, and we ask nothing.
    Reply,
    Broken {
        id: Value,
        error: RpcProblem,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum MessageLine {
    Blank,
    One(GatewayMessage),
    Batch(Vec<GatewayMessage>),
}

/// What stands in an error of JSON-RPC.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RpcProblem {
    pub(super) code: i32,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl RpcProblem {
    pub(super) fn new(code: i32, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            data: None,
        }
    }
}

/// The answer's line, or its place in that of a batch.
pub(super) fn answer(id: &Value, result: Result<Value, RpcProblem>) -> Value {
    match result {
        Ok(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
        Err(RpcProblem {
            code,
            message,
            data,
        }) => {
            let mut error = json!({"code": code, "message": message});
            if let Some(data) = data {
                error["data"] = data;
            }
            json!({"jsonrpc": "2.0", "id": id, "error": error})
        }
    }
}

pub(super) fn notification(method: &str, params: &Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

pub(super) fn read(line: &[u8]) -> MessageLine {
    if line.iter().all(u8::is_ascii_whitespace) {
        return MessageLine::Blank;
    }
    match serde_json::from_slice(line) {
        Ok(Value::Array(items)) if items.is_empty() => {
            MessageLine::One(broken(Value::Null, INVALID_REQUEST, "an empty batch"))
        }
        Ok(Value::Array(items)) if items.len() > MAX_BATCH => {
            let why = format!("a batch has at most {MAX_BATCH} messages");
            MessageLine::One(broken(Value::Null, INVALID_REQUEST, &why))
        }
        Ok(Value::Array(items)) => MessageLine::Batch(items.into_iter().map(message).collect()),
        Ok(other) => MessageLine::One(message(other)),
        Err(error) => MessageLine::One(broken(
            Value::Null,
            PARSE_ERROR,
            &format!("not JSON: {error}"),
        )),
    }
}

pub(super) fn too_long(limit: usize) -> GatewayMessage {
    let why = format!("a line has at most {limit} bytes");
    broken(Value::Null, INVALID_REQUEST, &why)
}

fn broken(id: Value, code: i32, why: &str) -> GatewayMessage {
    let error = RpcProblem::new(code, why);
    GatewayMessage::Broken { id, error }
}

fn message(value: Value) -> GatewayMessage {
    let Value::Object(mut value) = value else {
        return broken(Value::Null, INVALID_REQUEST, "a message is an object");
    };
    let id = value.remove("id");
    let named = |id: &Option<Value>| match id {
        Some(id) if is_id(id) => id.clone(),
        Some(_) | None => Value::Null,
    };
    if value.get("jsonrpc").is_none_or(|it| it != "2.0") {
        return broken(named(&id), INVALID_REQUEST, "\"jsonrpc\" is \"2.0\"");
    }
    let method = match value.remove("method") {
        Some(Value::String(method)) => method,
        None if value.contains_key("result") || value.contains_key("error") => {
            return GatewayMessage::Reply;
        }
        Some(_) | None => return broken(named(&id), INVALID_REQUEST, "\"method\" is a text"),
    };
    let params = match value.remove("params") {
        None => MessageParams::new(),
        Some(Value::Object(params)) => params,
        Some(_) if id.is_none() => return GatewayMessage::Reply,
        Some(_) => return broken(named(&id), INVALID_PARAMS, "\"params\" is an object"),
    };
    match id {
        None => GatewayMessage::Notification { method, params },
        Some(id) if is_id(&id) => GatewayMessage::Request { id, method, params },
        Some(_) => broken(
            Value::Null,
            INVALID_REQUEST,
            "an id is a text or a whole number",
        ),
    }
}

fn is_id(id: &Value) -> bool {
    id.is_string() || id.is_i64() || id.is_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let said = |message: &GatewayMessage| match message {
            GatewayMessage::Request { id, method, .. } => format!("{method} {id}"),
            GatewayMessage::Notification { method, .. } => method.clone(),
            GatewayMessage::Reply => "reply".to_owned(),
            GatewayMessage::Broken { id, error } => format!("{} {id}", error.code),
        };
        let text = match read(line.as_bytes()) {
            MessageLine::Blank => "blank".to_owned(),
            MessageLine::One(message) => said(&message),
            MessageLine::Batch(all) => {
                let all: Vec<String> = all.iter().map(said).collect();
                format!("[{}]", all.join(", "))
            }
        };
        assert_eq!(expected, text, "{line}");
    }

    #[test]
    fn every_line_is_something() {
        check(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, "ping 1");
        check(
            r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":{}}"#,
            "ping \"a\"",
        );
        check(r#"{"jsonrpc":"2.0","method":"x"}"#, "x");
        check(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "reply");
        check(" \r", "blank");
        check("{", "-32700 null");
        check("\u{0}", "-32700 null");
        check("7", "-32600 null");
        check("[]", "-32600 null");
        check(r#"{"id":1,"method":"ping"}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "-32600 1");
        check(r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, "-32600 null");
        check(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "-32600 null");
        check(
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#,
            "-32602 1",
        );
        check(
            r#"[{"jsonrpc":"2.0","id":1,"method":"x"},{"jsonrpc":"2.0","method":"y"},7]"#,
            "[x 1, y, -32600 null]",
        );
    }
}
