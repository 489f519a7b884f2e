//! Lists that tests of several packages begin with.

use aishd_log::call_list::{CallList, ListError, parse};
use serde_json::{Map, Value, json};

/// A list in short: `a`, `b<a` (uses the result of a), `c>a,b` (after a and b).
pub(crate) fn list(words: &str) -> Result<CallList, ListError> {
    parse(&requests(words))
}

fn requests(words: &str) -> Vec<Value> {
    words.split_whitespace().map(request).collect()
}

fn request(word: &str) -> Value {
    let (word, after) = word.split_once('>').unwrap_or((word, ""));
    let (id, uses) = word.split_once('<').unwrap_or((word, ""));
    let ids = |text: &str| -> Vec<String> {
        let ids = text.split(',').filter(|it| !it.is_empty());
        ids.map(str::to_owned).collect()
    };
    let arguments: Map<String, Value> = ids(uses)
        .into_iter()
        .map(|it| (format!("from_{it}"), json!({"$result": it})))
        .collect();
    let (id, name) = match id.split_once(':') {
        Some((id, name)) => (id, name),
        None => (id, "runs"),
    };
    json!({
        "jsonrpc": "2.0", "id": id, "method": "tools/call", "after": ids(after),
        "params": {"name": format!("t__{name}"), "arguments": arguments},
    })
}
