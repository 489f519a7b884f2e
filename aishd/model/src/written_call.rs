//! A call that a model wrote as its answer. Models that were not made for the template of their server say the call
//! that they mean as text: one JSON object with a name and arguments, in a code fence, in `<tool_call>` tags or bare.
//! It is taken for a call only where the answer is nothing else and the name is one that this request offered.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::call_assembly::{CallFragment, MAX_CALLS};

/// What stands around such an object.
const FRAMES: [(&str, &str); 4] = [
    ("<tool_call>", "</tool_call>"),
    ("```json", "```"),
    ("```", "```"),
    ("", ""),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    name: String,
    #[serde(alias = "parameters")]
    arguments: Value,
    #[serde(default, rename = "type")]
    _kind: Option<String>,
}

/// The calls that a whole answer consists of; none where it says anything else.
pub fn written_calls(answer: &str, offered: &[String]) -> Vec<CallFragment> {
    let mut calls = vec![];
    let mut rest = answer.trim();
    while !rest.is_empty() {
        let Some((call, after)) = next_call(rest) else {
            return vec![];
        };
        if !offered.contains(&call.name) || calls.len() == MAX_CALLS {
            return vec![];
        }
        let arguments = match call.arguments {
            Value::Object(arguments) => Value::Object(arguments).to_string(),
            Value::String(arguments) => arguments,
            Value::Null => Value::Object(Map::new()).to_string(),
            Value::Bool(_) | Value::Number(_) | Value::Array(_) => return vec![],
        };
        calls.push(CallFragment {
            index: u64::try_from(calls.len()).ok(),
            name: Some(call.name),
            arguments,
            ..CallFragment::default()
        });
        rest = after.trim_start();
    }
    calls
}

/// The call at the beginning of a text, and what follows it.
fn next_call(text: &str) -> Option<(WrittenCall, &str)> {
    FRAMES.iter().find_map(|(open, close)| {
        let inner = text.strip_prefix(open)?;
        let mut read = serde_json::Deserializer::from_str(inner).into_iter::<WrittenCall>();
        let call = read.next()?.ok()?;
        let after = inner.get(read.byte_offset()..)?.trim_start();
        Some((call, after.strip_prefix(close)?))
    })
}

/// Whether an answer that has come so far may still become such a call, so that nobody is shown it yet. What was `offered` is
/// asked for only where one begins like that.
pub fn may_be_written_call<'a>(answer: &str, offered: impl Fn() -> &'a [String]) -> bool {
    let text = answer.trim_start();
    FRAMES.iter().any(|(open, _)| {
        if open.starts_with(text) {
            return !open.is_empty();
        }
        let inner = text.strip_prefix(open).map(str::trim_start);
        inner.is_some_and(|it| begins_as_call(it, &offered))
    })
}

/// Whether a text is the beginning of `{"name": "NAME"`, or of that and more.
fn begins_as_call<'a>(text: &str, offered: &impl Fn() -> &'a [String]) -> bool {
    let mut text = text;
    for token in ["{", "\"name\"", ":", "\""] {
        if text.len() <= token.len() && token.starts_with(text) {
            return true;
        }
        let Some(rest) = text.strip_prefix(token) else {
            return false;
        };
        text = if token == "\"" {
            rest
        } else {
            rest.trim_start()
        };
    }
    let (name, ended) = match text.split_once('"') {
        Some((name, _)) => (name, true),
        None => (text, false),
    };
    let fits = |it: &String| {
        if ended {
            it == name
        } else {
            it.starts_with(name)
        }
    };
    offered().iter().any(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered() -> Vec<String> {
        ["shell__run", "files__read"].map(str::to_owned).to_vec()
    }

    #[test]
    fn an_answer_that_is_a_call_is_read_as_one() {
        let run = r#"{"name": "shell__run", "arguments": {"command": "df -h"}}"#;
        let read = r#"{"name": "files__read", "parameters": {"file_path": "a"}}"#;
        let check = |answer: &str, expected: &[(&str, &str)]| {
            let calls = written_calls(answer, &offered());
            let got: Vec<_> = calls
                .iter()
                .map(|it| {
                    (
                        it.name.as_deref().unwrap_or_default(),
                        it.arguments.as_str(),
                    )
                })
                .collect();
            assert_eq!(expected, got, "{answer}");
        };
        let ran = ("shell__run", r#"{"command":"df -h"}"#);
        check(run, &[ran]);
        check(&format!("```json\n{run}\n```"), &[ran]);
        check(&format!("\n```\n{run}```\n"), &[ran]);
        check(&format!("<tool_call>\n{run}\n</tool_call>"), &[ran]);
        let both = format!("<tool_call>{run}</tool_call>\n<tool_call>{read}</tool_call>");
        check(&both, &[ran, ("files__read", r#"{"file_path":"a"}"#)]);
        let as_text = r#"{"name":"shell__run","arguments":"{\"command\":\"df -h\"}"}"#;
        check(as_text, &[ran]);
        check(
            r#"{"type":"function","name":"shell__run","arguments":null}"#,
            &[("shell__run", "{}")],
        );
        // Whoever says more than the call speaks of it.
        check(&format!("Try this:\n```json\n{run}\n```"), &[]);
        check(&format!("```json\n{run}\n```\nIt shows the disks."), &[]);
        check(&format!("```json\n{run}"), &[]);
        check(r#"{"name": "rm", "arguments": {}}"#, &[]);
        check(r#"{"name": "shell__run", "arguments": [1]}"#, &[]);
        check(
            r#"{"name": "shell__run", "arguments": {}, "why": "so"}"#,
            &[],
        );
        check(r#"{"name": "Ada", "born": 1815}"#, &[]);
        check("", &[]);
    }

    #[test]
    fn nothing_else_is_held_back() {
        let all = offered();
        let check = |answer: &str, may: bool| {
            assert_eq!(may, may_be_written_call(answer, || &all), "{answer}");
        };
        let whole = "```json\n{\n  \"name\": \"files__read\",\n  \"arguments\": {";
        for (end, _) in whole.char_indices() {
            check(whole.get(..end).unwrap_or_default(), true);
        }
        check(whole, true);
        check("<tool_call>{\"name\":\"shell__r", true);
        check("{", true);
        check("{\"name\": \"Ada", false);
        check("{\"name\": \"shell__runs", false);
        check("```rust", false);
        check("```json\n[", false);
        check("The", false);
        check("<table>", false);
    }
}
