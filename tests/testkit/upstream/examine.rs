//! The examiner: what every request for an answer must hold, whatever the test is about.

use std::collections::BTreeSet;

use serde_json::Value;

use super::speech::{self, Api};

/// Whether this is the one-token question by which a daemon looks for a model that answers. It belongs to no
/// conversation, so most rules mean nothing for it.
pub(super) fn is_probe(body: &Value) -> bool {
    body["max_tokens"] == 1
}

/// The rules that this body breaks.
pub(super) fn broken_rules(api: Api, bytes: &[u8], secrets: &[String]) -> Vec<String> {
    let mut broken = vec![];
    let text = String::from_utf8_lossy(bytes);
    if secrets.iter().any(|it| text.contains(it.as_str())) {
        broken.push("a key is in the body".to_owned());
    }
    let body: Value = match serde_json::from_slice(bytes) {
        Ok(body) => body,
        Err(error) => {
            broken.push(format!("the body is not JSON: {error}"));
            return broken;
        }
    };
    if body["model"].as_str().is_none_or(str::is_empty) {
        broken.push("`model` is missing".to_owned());
    }
    if is_probe(&body) {
        return broken;
    }
    broken.extend(speech::broken_rules(api, &body));
    let body = speech::as_chat(api, &body);
    if body["stream"] != true {
        broken.push("`stream` is not true".to_owned());
    }
    broken.extend(tools(&body));
    match body["messages"].as_array() {
        Some(messages) if !messages.is_empty() => {
            broken.extend(order(messages));
            broken.extend(calls(messages));
        }
        Some(_) | None => broken.push("`messages` is missing or empty".to_owned()),
    }
    broken
}

fn tools(body: &Value) -> Vec<String> {
    let Some(tools) = body.get("tools") else {
        return vec![];
    };
    let Some(tools) = tools.as_array().filter(|it| !it.is_empty()) else {
        return vec!["`tools` is there and empty; it must be left out".to_owned()];
    };
    let mut names = BTreeSet::new();
    let mut broken = vec![];
    for tool in tools {
        let name = tool["function"]["name"].as_str().unwrap_or_default();
        let fits = (1..=64).contains(&name.len())
            && name
                .bytes()
                .all(|it| it.is_ascii_alphanumeric() || it == b'_' || it == b'-');
        if !fits {
            broken.push(format!("servers reject the tool name {name:?}"));
        }
        if !names.insert(name) {
            broken.push(format!("the tool {name:?} is offered twice"));
        }
        if tool["type"] != "function" || !tool["function"]["parameters"].is_object() {
            broken.push(format!("the tool {name:?} is not described as a function"));
        }
    }
    broken
}

fn order(messages: &[Value]) -> Vec<String> {
    let mut broken = vec![];
    let roles: Vec<&str> = messages
        .iter()
        .map(|it| it["role"].as_str().unwrap_or_default())
        .collect();
    let systems = roles.iter().filter(|it| **it == "system").count();
    if systems != 1 || roles[0] != "system" {
        broken.push(format!(
            "there must be one system message, and first: {roles:?}"
        ));
    }
    if roles.windows(2).any(|it| it == ["user", "user"]) {
        broken.push(format!(
            "two user messages stand next to each other: {roles:?}"
        ));
    }
    for (message, role) in messages.iter().zip(&roles) {
        if !["system", "user", "assistant", "tool"].contains(role) {
            broken.push(format!("nobody knows the role {role:?}"));
        }
        let content = &message["content"];
        let has_content = content.as_str().is_some_and(|it| !it.is_empty()) || content.is_array();
        let may_be_empty =
            *role == "tool" && content.is_string() || message["tool_calls"].is_array();
        if !has_content && !may_be_empty {
            broken.push(format!("a message has no content: {message}"));
        }
    }
    broken
}

/// Every call is answered once, straight after the message that makes it, and nothing else is.
fn calls(messages: &[Value]) -> Vec<String> {
    let mut broken = vec![];
    let mut open = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let leave = |open: &mut BTreeSet<String>, broken: &mut Vec<String>| {
        for id in std::mem::take(open) {
            broken.push(format!("the call {id:?} has no tool message"));
        }
    };
    for message in messages {
        if message["role"] == "tool" {
            let id = message["tool_call_id"].as_str().unwrap_or_default();
            if !open.remove(id) {
                broken.push(format!("the tool message for {id:?} answers no open call"));
            }
            continue;
        }
        leave(&mut open, &mut broken);
        let Some(calls) = message.get("tool_calls") else {
            continue;
        };
        if calls.as_array().is_none_or(Vec::is_empty) {
            broken.push("`tool_calls` is there and empty".to_owned());
        }
        for call in calls.as_array().into_iter().flatten() {
            let id = call["id"].as_str().unwrap_or_default().to_owned();
            if id.is_empty() || !seen.insert(id.clone()) {
                broken.push(format!("the call id {id:?} is empty or used twice"));
            }
            let arguments = call["function"]["arguments"].as_str().unwrap_or_default();
            if !serde_json::from_str::<Value>(arguments).is_ok_and(|it| it.is_object()) {
                broken.push(format!(
                    "the arguments of {id:?} are no object: {arguments:?}"
                ));
            }
            open.insert(id);
        }
    }
    leave(&mut open, &mut broken);
    broken
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The body with these messages after the system message breaks exactly the rules that begin so.
    #[track_caller]
    fn check(messages: &Value, expected: &[&str]) {
        let mut all = vec![json!({ "role": "system", "content": "be brief" })];
        all.extend(messages.as_array().unwrap().clone());
        check_body(
            &json!({ "model": "m", "stream": true, "messages": all }),
            expected,
        );
    }

    #[track_caller]
    fn check_body(body: &Value, expected: &[&str]) {
        let secrets = ["sk-secret".to_owned()];
        let broken = broken_rules(Api::Chat, body.to_string().as_bytes(), &secrets);
        assert_eq!(expected.len(), broken.len(), "{broken:#?}");
        for (rule, begin) in broken.iter().zip(expected) {
            assert!(rule.starts_with(begin), "{rule:?} should say {begin:?}");
        }
    }

    fn user(text: &str) -> Value {
        json!({ "role": "user", "content": text })
    }

    fn calling(id: &str, arguments: &str) -> Value {
        let function = json!({ "name": "f", "arguments": arguments });
        json!({ "role": "assistant", "content": null, "tool_calls": [{ "id": id, "type": "function", "function": function }] })
    }

    fn result(id: &str) -> Value {
        json!({ "role": "tool", "tool_call_id": id, "content": "" })
    }

    #[test]
    fn a_good_history_breaks_nothing() {
        check(&json!([user("hi")]), &[]);
        check(
            &json!([user("hi"), calling("a", "{}"), result("a"), user("go on")]),
            &[],
        );
        check_body(
            &json!({ "model": "m", "max_tokens": 1, "messages": [] }),
            &[],
        );
    }

    #[test]
    fn messages_out_of_order_are_seen() {
        check(&json!([user("hi"), user("ho")]), &["two user messages"]);
        let system = json!({ "role": "system", "content": "again" });
        check(&json!([user("hi"), system]), &["there must be one system"]);
        check(&json!([user("")]), &["a message has no content"]);
        check(
            &json!([{ "role": "robot", "content": "x" }]),
            &["nobody knows"],
        );
        let body = json!({ "model": "m", "stream": true, "messages": [user("hi")] });
        check_body(&body, &["there must be one system"]);
    }

    #[test]
    fn calls_and_results_must_match() {
        check(
            &json!([user("hi"), calling("a", "{}")]),
            &["the call \"a\" has no"],
        );
        check(
            &json!([user("hi"), calling("a", "{}"), user("no"), result("a")]),
            &[
                "the call \"a\" has no",
                "the tool message for \"a\" answers no",
            ],
        );
        check(
            &json!([user("hi"), calling("a", "{}"), result("a"), result("a")]),
            &["the tool message for \"a\" answers no"],
        );
        check(
            &json!([user("hi"), calling("a", "{"), result("a")]),
            &["the arguments of \"a\""],
        );
    }

    #[test]
    fn the_frame_of_the_request_is_examined() {
        let good = json!({ "model": "m", "stream": true, "messages": [{ "role": "system", "content": "x" }] });
        let with = |name: &str, value: Value| {
            let mut body = good.clone();
            body[name] = value;
            body
        };
        check_body(&good, &[]);
        check_body(&with("tools", json!([])), &["`tools` is there and empty"]);
        check_body(&with("stream", json!(false)), &["`stream` is not true"]);
        check_body(&with("model", json!("")), &["`model` is missing"]);
        check_body(&with("user", json!("sk-secret")), &["a key is in the body"]);
        let dotted =
            json!([{ "type": "function", "function": { "name": "a.b", "parameters": {} } }]);
        check_body(&with("tools", dotted), &["servers reject the tool name"]);
        assert_eq!(1, broken_rules(Api::Chat, b"{", &[]).len());
    }
}
