//! What the program of a manifest's tool is told and what it may answer (RUN-2, RUN-3). Its output is hostile.

use serde_json::{Map, Value, json};

use crate::child::spec::Exit;
use crate::core::mcp::content::flatten;
use crate::core::mcp::outcome::Outcome;

/// What a program printed, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Printed {
    pub(super) bytes: Vec<u8>,
    pub(super) ended: Ended,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    Exit(Exit),
    /// It printed more than so many bytes, and was ended.
    TooMuch(usize),
    /// It ran for so many milliseconds, and was ended.
    TooLong(u128),
}

/// The one line on its standard input.
pub(super) fn question(arguments: &Map<String, Value>) -> Vec<u8> {
    let mut line = json!({"arguments": arguments}).to_string().into_bytes();
    line.push(b'\n');
    line
}

/// Its answer, with the value that an output schema is about; or why there is none.
pub(super) fn answer(printed: &Printed) -> Result<(Outcome, Option<Value>), String> {
    let failed = match printed.ended {
        Ended::TooMuch(limit) => return Err(format!("it printed more than {limit} bytes")),
        Ended::TooLong(ms) => return Err(format!("it was ended after {ms} ms, its timeout")),
        Ended::Exit(Exit::Code(0)) => None,
        Ended::Exit(Exit::Code(code)) => Some(format!("it ended with exit status {code}")),
        Ended::Exit(Exit::Signal(signal)) => {
            return Err(format!("it was killed by signal {signal}"));
        }
        Ended::Exit(Exit::Unknown) => return Err("it was killed".to_owned()),
    };
    let (text, value) = match (value(&printed.bytes), failed.as_ref()) {
        (Ok(read), _) => read,
        (Err(_), Some(exit)) => return Err(exit.clone()),
        (Err(why), None) => return Err(why),
    };
    let (mut outcome, about) = match direct(&value) {
        Some(result) => {
            let structured = result.get("structuredContent").cloned();
            (flatten(&result), structured)
        }
        None => {
            let result = json!({"content": [{"type": "text", "text": text}]});
            (flatten(&result), Some(value))
        }
    };
    outcome.is_error |= failed.is_some();
    Ok((outcome, about))
}

/// The line as it was printed, and its value.
fn value(bytes: &[u8]) -> Result<(&str, Value), String> {
    let text = std::str::from_utf8(bytes)
        .map_err(|error| format!("its output is no UTF-8 at byte {}", error.valid_up_to()))?;
    let text = text.trim();
    if text.is_empty() {
        return Err("it printed nothing".to_owned());
    }
    if text.contains('\n') {
        return Err("it printed more than one line".to_owned());
    }
    let value = serde_json::from_str(text);
    let value = value.map_err(|error| format!("its output is no JSON: {error}"))?;
    Ok((text, value))
}

/// A result as MCP has it, where a block of JSON is the text of it.
fn direct(value: &Value) -> Option<Value> {
    let blocks = value.get("content")?.as_array()?;
    let is_error = value.get("isError").is_none_or(Value::is_boolean);
    let is_block = |it: &Value| it.get("type").is_some_and(Value::is_string);
    if !is_error || !blocks.iter().all(is_block) {
        return None;
    }
    let blocks = blocks
        .iter()
        .map(|it| match (it.get("type"), it.get("json")) {
            (Some(kind), Some(json)) if kind == "json" => {
                json!({"type": "text", "text": json.to_string()})
            }
            (_, _) => it.clone(),
        });
    let mut result = value.clone();
    result["content"] = blocks.collect();
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], exit: Exit, expected: Result<(bool, &str), &str>) {
        let printed = Printed {
            bytes: bytes.to_vec(),
            ended: Ended::Exit(exit),
        };
        let seen = answer(&printed).map(|(it, _)| (it.is_error, it.text));
        let expected = expected.map(|(is_error, text)| (is_error, text.to_owned()));
        assert_eq!(expected.map_err(str::to_owned), seen);
    }

    const FINE: Exit = Exit::Code(0);

    #[test]
    fn one_line_of_json_is_an_answer() {
        check(br#"{"a":[1,2]}"#, FINE, Ok((false, r#"{"a":[1,2]}"#)));
        check(b"7\r\n\n", FINE, Ok((false, "7")));
        check(
            br#"{"b":1, "a":2.0}"#,
            FINE,
            Ok((false, r#"{"b":1, "a":2.0}"#)),
        );
        check(b"null\n", FINE, Ok((false, "null")));
        check(
            br#"{"content":[{"type":"text","text":"hi"},{"type":"json","json":{"b":1}}],"isError":true}"#,
            FINE,
            Ok((true, "hi\n{\"b\":1}")),
        );
        check(br#"{"content":[]}"#, FINE, Ok((false, "")));
    }

    /// What only looks like a result is a value.
    #[test]
    fn other_json_is_wrapped() {
        for text in [
            r#"{"content":"hi"}"#,
            r#"{"content":[1]}"#,
            r#"{"content":[],"isError":"no"}"#,
            r#"[{"text":"hi","type":"text"}]"#,
        ] {
            check(text.as_bytes(), FINE, Ok((false, text)));
        }
    }

    #[test]
    fn every_failure_has_its_own_words() {
        check(b"", FINE, Err("it printed nothing"));
        check(b" \n\n", FINE, Err("it printed nothing"));
        check(b"1\n2\n", FINE, Err("it printed more than one line"));
        check(b"\"\xff\"", FINE, Err("its output is no UTF-8 at byte 1"));
        check(
            b"{\n",
            FINE,
            Err("its output is no JSON: EOF while parsing an object at line 1 column 1"),
        );
        check(b"oops", Exit::Code(3), Err("it ended with exit status 3"));
        check(b"", Exit::Code(3), Err("it ended with exit status 3"));
        check(br#"{"a":1}"#, Exit::Code(3), Ok((true, r#"{"a":1}"#)));
        check(b"1", Exit::Signal(9), Err("it was killed by signal 9"));
        check(b"1", Exit::Unknown, Err("it was killed"));
    }

    #[test]
    fn what_it_is_told_is_one_line() {
        let arguments = serde_json::from_str("{\"a\":\"b\\nc\"}").unwrap();
        assert_eq!(
            b"{\"arguments\":{\"a\":\"b\\nc\"}}\n",
            &question(&arguments)[..]
        );
    }
}
