//! One line of an import: its messages, each as the form of OpenAI's chat has it.
//!
//! Fields that we do not know are passed over, as such files carry weights, names and lists of tools.

use std::fmt;

use aishd_log::tool_call::ToolCall;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::{AtByte, ImportError};

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ImportLineKind {
    Example,
    Message,
}

impl fmt::Display for ImportLineKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Example => "examples with \"messages\"",
            Self::Message => "single messages",
        })
    }
}

/// A message, understood.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ImportedMessage {
    System,
    User(String),
    Assistant { text: String, calls: Vec<ToolCall> },
    Tool { call: String, content: String },
}

/// A message's text, with the byte at which it begins.
type PlacedText<'a> = (usize, &'a str);

/// The texts of a line's messages.
pub(super) fn split(line: &str) -> Result<(ImportLineKind, Vec<PlacedText<'_>>), AtByte> {
    is_object(line)?;
    let ImportLine { messages, role } =
        serde_json::from_str(line).map_err(|error| fault(line, &error))?;
    let place = |it: &RawValue| it.get().as_ptr().addr() - line.as_ptr().addr();
    match (messages, role) {
        (Some(messages), None) => {
            let messages = messages.into_iter().map(|it| (place(it), it.get()));
            Ok((ImportLineKind::Example, messages.collect()))
        }
        (None, Some(_)) => {
            let begin = line.len() - line.trim_ascii_start().len();
            Ok((ImportLineKind::Message, vec![(begin, line.trim_ascii())]))
        }
        (Some(_), Some(_)) => Err(malformed(
            0,
            "it has both \"messages\" and \"role\", so that it is not clear which is meant",
        )),
        (None, None) => Err(malformed(
            0,
            "it is neither {\"messages\": [...]} nor a message with a \"role\"",
        )),
    }
}

/// One message. The byte of a fault is one of `text`.
pub(super) fn message(text: &str) -> Result<ImportedMessage, AtByte> {
    is_object(text)?;
    let raw: RawLine = serde_json::from_str(text).map_err(|error| fault(text, &error))?;
    if raw.function_call.is_some() {
        return Err(malformed(
            0,
            "function_call is the older form; write tool_calls",
        ));
    }
    let wrong = |what: &str| Err(malformed(0, what));
    if raw.role != ImportRole::Assistant && raw.tool_calls.is_some() {
        return wrong("only an assistant has tool_calls");
    }
    if raw.role != ImportRole::Tool && raw.tool_call_id.is_some() {
        return wrong("only a tool has a tool_call_id");
    }
    let content = raw.content.map(|it| it.0);
    match raw.role {
        ImportRole::System | ImportRole::Developer => Ok(ImportedMessage::System),
        ImportRole::User => match content {
            Some(text) => Ok(ImportedMessage::User(text)),
            None => wrong("a user's message has no content"),
        },
        ImportRole::Assistant => {
            let calls = calls(raw.tool_calls.unwrap_or_default())?;
            let text = content.or(raw.refusal);
            if text.is_none() && calls.is_empty() {
                return wrong("an assistant's message has neither content nor tool_calls");
            }
            let text = text.unwrap_or_default();
            Ok(ImportedMessage::Assistant { text, calls })
        }
        ImportRole::Tool => match (raw.tool_call_id, content) {
            (Some(call), Some(content)) => Ok(ImportedMessage::Tool { call, content }),
            (None, _) => wrong("a tool's message has no tool_call_id"),
            (_, None) => wrong("a tool's message has no content"),
        },
    }
}

fn calls(raw: Vec<RawCall>) -> Result<Vec<ToolCall>, AtByte> {
    let mut calls: Vec<ToolCall> = Vec::with_capacity(raw.len());
    for RawCall { id, function } in raw {
        if calls.iter().any(|it| it.id == id) {
            let what = format!("two calls of one message have the id {id:?}");
            return Err(malformed(0, &what));
        }
        let arguments = Some(function.arguments).filter(|it| !it.trim_ascii().is_empty());
        let arguments = arguments.unwrap_or_else(|| "{}".to_owned());
        if serde_json::from_str::<Map<String, Value>>(&arguments).is_err() {
            let what = format!("the arguments of the call {id:?} are not one JSON object");
            return Err(malformed(0, &what));
        }
        calls.push(ToolCall {
            id,
            name: function.name,
            arguments,
            broken: None,
            extra: Map::new(),
        });
    }
    Ok(calls)
}

/// An array of the right values would be read as one.
fn is_object(text: &str) -> Result<(), AtByte> {
    let begin = text.trim_ascii_start();
    if begin.starts_with('{') {
        return Ok(());
    }
    Err(malformed(
        text.len() - begin.len(),
        "a JSON object was expected here",
    ))
}

fn malformed(at: usize, what: &str) -> AtByte {
    (at, ImportError::malformed(what))
}

/// serde_json counts bytes from 1, and says where it is once more in its words.
fn fault(text: &str, error: &serde_json::Error) -> AtByte {
    let words = error.to_string();
    let suffix = format!(" at line {} column {}", error.line(), error.column());
    let words = words.strip_suffix(&suffix).unwrap_or(&words);
    let lines = error.line().saturating_sub(1);
    let before: usize = text.split_inclusive('\n').take(lines).map(str::len).sum();
    (
        before + error.column().saturating_sub(1),
        ImportError::malformed(words),
    )
}

#[derive(Deserialize)]
struct ImportLine<'a> {
    #[serde(borrow, default)]
    messages: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    role: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct RawLine {
    role: ImportRole,
    #[serde(default)]
    content: Option<ImportContent>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<RawCall>>,
    #[serde(default)]
    tool_call_id: Option<String>,
    #[serde(default)]
    function_call: Option<IgnoredAny>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ImportRole {
    System,
    Developer,
    User,
    Assistant,
    Tool,
}

#[derive(Deserialize)]
struct RawCall {
    id: String,
    function: RawFunction,
}

#[derive(Deserialize)]
struct RawFunction {
    name: String,
    arguments: String,
}

/// A text, or a list of parts that are texts.
struct ImportContent(String);

#[derive(Deserialize)]
struct ContentPart {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
}

impl<'de> Deserialize<'de> for ImportContent {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = ImportContent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or a list of text parts")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ImportContent, E> {
        Ok(ImportContent(text.to_owned()))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<ImportContent, E> {
        Ok(ImportContent(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<ImportContent, A::Error> {
        let mut whole = String::new();
        while let Some(part) = parts.next_element::<ContentPart>()? {
            let text = part.text.filter(|_| part.kind == "text");
            let text = text.ok_or_else(|| {
                let kind = &part.kind;
                A::Error::custom(format!("a part of the type {kind:?} is no text"))
            })?;
            whole.push_str(&text);
        }
        Ok(ImportContent(whole))
    }
}
