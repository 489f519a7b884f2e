//! From JSON-RPC requests to calls. What is not understood is refused, so that a slip in `after` does not make a call run
//! too early.

use serde_json::{Map, Value};

use super::reference::id;
use super::{CallList, ListError, ListedCall, MAX_CALLS, MAX_LIST_BYTES, READ_RESOURCE, Which};

/// So that a model's server takes it, with what makes it unlike those of other lists before it.
const MAX_ID_BYTES: usize = 36;

/// The list that these requests are.
pub fn parse(requests: &[Value]) -> Result<CallList, ListError> {
    if requests.len() > MAX_CALLS {
        return Err(ListError::TooMany(requests.len()));
    }
    let bytes = requests.iter().map(|it| it.to_string().len()).sum();
    if bytes > MAX_LIST_BYTES {
        return Err(ListError::TooLong(bytes));
    }
    let mut calls = Vec::with_capacity(requests.len());
    for (at, request) in requests.iter().enumerate() {
        let number = at + 1;
        let read = call(request).map_err(|what| ListError::Call {
            at: Which {
                number,
                id: request.get("id").and_then(id),
            },
            what,
        });
        calls.push(read?);
    }
    CallList::new(calls)
}

fn call(request: &Value) -> Result<ListedCall, String> {
    let Value::Object(request) = request else {
        return Err("a call is a JSON-RPC request, which is an object".to_owned());
    };
    let members = ["jsonrpc", "id", "method", "params", "after", "literal"];
    only_known(request, &members, "")?;
    if request.get("jsonrpc").is_some_and(|it| it != "2.0") {
        return Err("\"jsonrpc\" is \"2.0\"".to_owned());
    }
    let id = request.get("id").ok_or("it has no \"id\"")?;
    let id = self::id(id).ok_or("\"id\" is a text or a whole number")?;
    let fits = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'_' | b'-');
    if id.is_empty() || id.len() > MAX_ID_BYTES || !id.bytes().all(fits) {
        return Err(format!(
            "an id has 1 to {MAX_ID_BYTES} letters, digits, - and _"
        ));
    }
    let params = match request.get("params") {
        Some(Value::Object(params)) => params,
        Some(_) => return Err("\"params\" is an object".to_owned()),
        None => return Err("it has no \"params\"".to_owned()),
    };
    let (name, arguments) = match request.get("method").and_then(Value::as_str) {
        Some("tools/call") => tool(params)?,
        Some("resources/read") => resource(params)?,
        Some(_) | None => {
            return Err("\"method\" is tools/call or resources/read".to_owned());
        }
    };
    Ok(ListedCall {
        id,
        name,
        arguments,
        after: after(request.get("after"))?,
        literal: match request.get("literal") {
            None => false,
            Some(Value::Bool(literal)) => *literal,
            Some(_) => return Err("\"literal\" is true or false".to_owned()),
        },
    })
}

fn tool(params: &Map<String, Value>) -> Result<(String, Map<String, Value>), String> {
    only_known(params, &["name", "arguments"], "params.")?;
    let name = text(params, "name", "a tool, like fs__read_file")?;
    let arguments = match params.get("arguments") {
        None => Map::new(),
        Some(Value::Object(arguments)) => arguments.clone(),
        Some(_) => return Err("\"params.arguments\" is an object".to_owned()),
    };
    Ok((name, arguments))
}

/// A server's resource, which may be named by a result.
fn resource(params: &Map<String, Value>) -> Result<(String, Map<String, Value>), String> {
    only_known(params, &["server", "uri"], "params.")?;
    text(params, "server", "an MCP server's alias")?;
    if !params
        .get("uri")
        .is_some_and(|it| it.is_string() || it.is_object())
    {
        return Err("\"params.uri\" is a resource's URI, or a result".to_owned());
    }
    Ok((READ_RESOURCE.to_owned(), params.clone()))
}

fn text(params: &Map<String, Value>, name: &str, what: &str) -> Result<String, String> {
    let text = params.get(name).and_then(Value::as_str);
    let text = text.filter(|it| !it.is_empty());
    text.map(str::to_owned)
        .ok_or_else(|| format!("\"params.{name}\" names {what}"))
}

fn after(after: Option<&Value>) -> Result<Vec<String>, String> {
    let ids = match after {
        None => return Ok(vec![]),
        Some(Value::Array(ids)) => ids.iter().map(id).collect::<Option<Vec<String>>>(),
        Some(_) => None,
    };
    ids.ok_or_else(|| "\"after\" is a list of ids".to_owned())
}

fn only_known(object: &Map<String, Value>, names: &[&str], within: &str) -> Result<(), String> {
    match object.keys().find(|it| !names.contains(&it.as_str())) {
        None => Ok(()),
        Some(name) => {
            let name: String = name.chars().take(MAX_ID_BYTES).collect();
            Err(format!("it cannot have {:?}", format!("{within}{name}")))
        }
    }
}
