//! What the program of a manifest's tool is told and what it may answer. Its output is hostile.

use std::collections::BTreeMap;

use aishd_log::resource::{
    MOST_CHANGES, ResourceAction, ResourceChange, ResourceChangeError, ResourceData, ResourceName,
};
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::content::flatten;
use aishd_mcp_messages::outcome::ToolOutcome;
use aishd_process::spec::ChildExit;
use serde_json::{Map, Value, json};

/// Resources of the conversation that a call is given.
pub type CallContext = BTreeMap<ResourceName, GivenResource>;

/// One of them, as it was then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenResource {
    pub revision: u64,
    pub data: ResourceData,
}

/// Of what a call was given, the revisions; 0 where there was nothing. It may replace these, and no others of these names.
pub(super) type KnownRevisions = BTreeMap<ResourceName, u64>;

/// More parts than any answer of a few megabytes has, each of which takes more room here than it took on the line.
const MAX_PARTS: usize = 1_000_000;

/// Of a name that is none, in what is said of it.
const MAX_NAME_CHARS: usize = 80;

/// What a program printed, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ProgramOutput {
    pub(super) bytes: Vec<u8>,
    pub(super) ended: ProgramEnd,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramEnd {
    Exit(ChildExit),
    /// It printed more than so many bytes, and was ended.
    TooMuch(usize),
    /// It ran for so many milliseconds, and was ended.
    TooLong(u128),
}

/// What it said, when it kept to the contract.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ProgramAnswer {
    pub(super) outcome: ToolOutcome,
    /// What an output schema is about.
    pub(super) value: Option<Value>,
    /// What it wants written; nothing where it says that it failed.
    pub(super) changes: Vec<ResourceChange>,
}

/// The one line on its standard input. `context` is for those who named what they read, found or not.
pub(super) fn question(arguments: &Map<String, Value>, context: Option<&CallContext>) -> Vec<u8> {
    let mut line = format!("{{\"arguments\":{}", Value::from(arguments.clone()));
    if let Some(context) = context {
        line.push_str(",\"context\":{");
        for (at, (name, GivenResource { revision: _, data })) in context.iter().enumerate() {
            // A name needs no escapes, and data is JSON on one line: neither is read into a tree first.
            line.push_str(if at == 0 { "\"" } else { ",\"" });
            line.push_str(name.as_str());
            line.push_str("\":");
            line.push_str(data.as_str());
        }
        line.push('}');
    }
    line.push_str("}\n");
    line.into_bytes()
}

/// Its answer, or why there is none.
pub(super) fn answer(
    printed: &ProgramOutput,
    known: &KnownRevisions,
) -> Result<ProgramAnswer, String> {
    let failed = match printed.ended {
        ProgramEnd::TooMuch(limit) => return Err(format!("it printed more than {limit} bytes")),
        ProgramEnd::TooLong(ms) => return Err(format!("it was ended after {ms} ms, its timeout")),
        ProgramEnd::Exit(ChildExit::Code(0)) => None,
        ProgramEnd::Exit(ChildExit::Code(code)) => {
            Some(format!("it ended with exit status {code}"))
        }
        ProgramEnd::Exit(ChildExit::Signal(signal)) => {
            return Err(format!("it was killed by signal {signal}"));
        }
        ProgramEnd::Exit(ChildExit::Unknown) => return Err("it was killed".to_owned()),
    };
    let (text, value) = match (value(&printed.bytes), failed.as_ref()) {
        (Ok(read), _) => read,
        (Err(_), Some(exit)) => return Err(exit.clone()),
        (Err(why), None) => return Err(why),
    };
    let Some(result) = direct(&value) else {
        if value.get("content").is_some() && value.get("resources").is_some() {
            return Err(
                "its result has `resources`, but its `content` is no list of blocks, or its `isError` neither true nor false"
                    .to_owned(),
            );
        }
        let result = json!({"content": [{"type": "text", "text": text}]});
        let mut outcome = flatten(&result);
        outcome.is_error |= failed.is_some();
        return Ok(ProgramAnswer {
            outcome,
            value: Some(value),
            changes: vec![],
        });
    };
    let mut outcome = flatten(&result);
    outcome.is_error |= failed.is_some();
    let changes = match result.get("resources") {
        Some(resources) if !outcome.is_error => written(resources, known)?,
        Some(_) | None => vec![],
    };
    Ok(ProgramAnswer {
        outcome,
        value: result
            .get("structuredContent")
            .or_else(|| json_block(&value))
            .cloned(),
        changes,
    })
}

/// What a result wants written to the shared context.
fn written(resources: &Value, known: &KnownRevisions) -> Result<Vec<ResourceChange>, String> {
    let resources = resources
        .as_object()
        .ok_or("the `resources` of its result are no object")?;
    if resources.len() > MOST_CHANGES {
        return Err(ResourceChangeError::TooMany(resources.len()).to_string());
    }
    let one = |(name, value): (&String, &Value)| {
        let shown = one_line(name, MAX_NAME_CHARS);
        let wrong = |why: String| format!("resource {shown:?} of its result: {why}");
        let named = name.parse::<ResourceName>();
        let name = named.map_err(|error| wrong(error.to_string()))?;
        let data = ResourceData::of(value).map_err(|error| wrong(error.to_string()))?;
        let action = ResourceAction::Put(data, known.get(&name).copied());
        Ok(ResourceChange { name, action })
    };
    resources.iter().map(one).collect()
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
    if parts(text) > MAX_PARTS {
        return Err(format!("its output has more than {MAX_PARTS} parts"));
    }
    let value = serde_json::from_str(text);
    let value = value.map_err(|error| format!("its output is no JSON: {error}"))?;
    Ok((text, value))
}

/// The first value among the blocks of a result.
fn json_block(result: &Value) -> Option<&Value> {
    let mut blocks = result.get("content")?.as_array()?.iter();
    let is_json = |it: &&Value| it.get("type").is_some_and(|kind| kind == "json");
    blocks.find(is_json)?.get("json")
}

/// At least as many as there are values in it.
fn parts(text: &str) -> usize {
    let (mut count, mut quoted, mut escaped) = (1, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => count += 1,
            _ => {}
        }
    }
    count
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
    fn check(bytes: &[u8], exit: ChildExit, expected: Result<(bool, &str), &str>) {
        let printed = ProgramOutput {
            bytes: bytes.to_vec(),
            ended: ProgramEnd::Exit(exit),
        };
        let seen = answer(&printed, &KnownRevisions::new())
            .map(|it| (it.outcome.is_error, it.outcome.text));
        let expected = expected.map(|(is_error, text)| (is_error, text.to_owned()));
        assert_eq!(expected.map_err(str::to_owned), seen);
    }

    const FINE: ChildExit = ChildExit::Code(0);

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
        check(
            b"oops",
            ChildExit::Code(3),
            Err("it ended with exit status 3"),
        );
        check(b"", ChildExit::Code(3), Err("it ended with exit status 3"));
        check(br#"{"a":1}"#, ChildExit::Code(3), Ok((true, r#"{"a":1}"#)));
        check(b"1", ChildExit::Signal(9), Err("it was killed by signal 9"));
        check(b"1", ChildExit::Unknown, Err("it was killed"));
    }

    #[test]
    fn an_answer_has_only_so_many_parts() {
        let zeros = |count: usize| format!("[{}0]", "0,".repeat(count));
        let long = zeros(MAX_PARTS);
        check(
            long.as_bytes(),
            FINE,
            Err("its output has more than 1000000 parts"),
        );
        let text = format!("\"{}\\\",[\"", ",[{".repeat(MAX_PARTS));
        check(text.as_bytes(), FINE, Ok((false, &text)));
    }

    #[test]
    fn what_it_is_told_is_one_line() {
        let arguments = serde_json::from_str("{\"a\":\"b\\nc\"}").unwrap();
        let check = |context: Option<&CallContext>, expected: &str| {
            let line = String::from_utf8(question(&arguments, context)).unwrap();
            assert_eq!(expected, line);
            let read: Value = serde_json::from_str(&line).unwrap();
            assert_eq!("b\nc", read["arguments"]["a"]);
        };
        check(None, "{\"arguments\":{\"a\":\"b\\nc\"}}\n");
        let data = |value: Value| GivenResource {
            revision: 1,
            data: ResourceData::of(&value).unwrap(),
        };
        let mut context = CallContext::new();
        check(
            Some(&context),
            "{\"arguments\":{\"a\":\"b\\nc\"},\"context\":{}}\n",
        );
        context.insert("b/c".parse().unwrap(), data(json!(["x\ny"])));
        context.insert("a".parse().unwrap(), data(json!({"n": null})));
        check(
            Some(&context),
            "{\"arguments\":{\"a\":\"b\\nc\"},\"context\":{\"a\":{\"n\":null},\"b/c\":[\"x\\ny\"]}}\n",
        );
    }

    #[test]
    fn a_result_says_what_it_wants_written() {
        let known =
            KnownRevisions::from_iter([("seen".parse().unwrap(), 3), ("new".parse().unwrap(), 0)]);
        let check = |line: &str, exit, expected: Result<&[(&str, &str)], &str>| {
            let printed = ProgramOutput {
                bytes: line.as_bytes().to_vec(),
                ended: ProgramEnd::Exit(exit),
            };
            let seen = answer(&printed, &known).map(|it| {
                let one = |it: ResourceChange| match it.action {
                    ResourceAction::Put(data, over) => {
                        let over = over.map(|it| format!(" over {it}"));
                        let data = data.as_str().to_owned() + &over.unwrap_or_default();
                        (it.name.to_string(), data)
                    }
                    other @ (ResourceAction::Create(_)
                    | ResourceAction::Update(..)
                    | ResourceAction::Delete(_)) => {
                        panic!("{other:?}")
                    }
                };
                it.changes.into_iter().map(one).collect::<Vec<_>>()
            });
            let expected = expected.map(|all| {
                let all = all.iter();
                all.map(|(name, data)| ((*name).to_owned(), (*data).to_owned()))
                    .collect()
            });
            assert_eq!(expected.map_err(str::to_owned), seen);
        };
        let with = |resources: &str| format!("{{\"content\":[],\"resources\":{resources}}}");
        check(
            &with(r#"{"b":{"x": 1},"a":null}"#),
            FINE,
            Ok(&[("a", "null"), ("b", "{\"x\":1}")]),
        );
        check(&with("{}"), FINE, Ok(&[]));
        // What it was given it replaces as it was then.
        check(
            &with(r#"{"new":1,"other":2,"seen":3}"#),
            FINE,
            Ok(&[("new", "1 over 0"), ("other", "2"), ("seen", "3 over 3")]),
        );
        // Nothing of what it wants is passed over in silence.
        for line in [
            r#"{"content":[],"isError":"no","resources":{"a":1}}"#,
            r#"{"content":"done","resources":{"a":1}}"#,
        ] {
            let why = "its result has `resources`, but its `content` is no list of blocks, or its `isError` neither true nor false";
            check(line, FINE, Err(why));
        }
        // Who failed writes nothing.
        check(&with(r#"{"a":1}"#), ChildExit::Code(1), Ok(&[]));
        let failed = r#"{"content":[],"isError":true,"resources":{"a":1}}"#;
        check(failed, FINE, Ok(&[]));
        // A value that is no result says nothing of resources.
        check(r#"{"resources":{"a":1}}"#, FINE, Ok(&[]));
        check(
            &with("[]"),
            FINE,
            Err("the `resources` of its result are no object"),
        );
        check(
            &with(r#"{"a b":1}"#),
            FINE,
            Err(
                "resource \"a b\" of its result: a resource's name has 1 to 128 letters, digits and . _ - /, and does not \
                 begin with -",
            ),
        );
        let large = format!("{{\"a\":1,\"big\":\"{}\"}}", "x".repeat(1 << 20));
        check(
            &with(&large),
            FINE,
            Err(
                "resource \"big\" of its result: 1048578 bytes of JSON are more than the 1048576 that a resource may have",
            ),
        );
        let many: Map<String, Value> = (0..65).map(|it| (format!("r{it}"), json!(it))).collect();
        check(
            &with(&Value::from(many).to_string()),
            FINE,
            Err("65 changes by one call are more than 64"),
        );
    }
}
