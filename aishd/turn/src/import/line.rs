//! One line of an import: its messages, each as the form of OpenAI's chat has it.
//!
//! Fields that we do not know are passed over, as such files carry weights, names and lists of tools.

use std::fmt;

use aish_proto::limits::PICTURES;
use aishd_log::event::Attachment;
use aishd_log::picture::{Picture, PictureKind};
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
    User(String, Vec<Attachment>),
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
    let (content, pictures) = raw.content.map_or((None, vec![]), |it| (Some(it.0), it.1));
    if raw.role != ImportRole::User && !pictures.is_empty() {
        return wrong("only a user's message has pictures");
    }
    match raw.role {
        ImportRole::System | ImportRole::Developer => Ok(ImportedMessage::System),
        ImportRole::User => match content {
            Some(text) => {
                let attachments = named(&text, pictures)?;
                Ok(ImportedMessage::User(text, attachments))
            }
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

/// Pictures have no names there, so that those are taken that stand in the text, if all do.
fn named(text: &str, pictures: Vec<ImportedPicture>) -> Result<Vec<Attachment>, AtByte> {
    if pictures.len() > PICTURES {
        let what = format!("a message takes {PICTURES} pictures");
        return Err(malformed(0, &what));
    }
    let lines = text.lines().filter_map(|it| it.strip_prefix("[picture "));
    let mut lines: Vec<&str> = lines
        .filter_map(|it| Some(it.rsplit_once(", ")?.0))
        .collect();
    lines.reverse();
    let attachments = (1..).zip(pictures).map(|(number, it)| {
        let name = match (it.name, it.picture.kind) {
            (Some(name), _) => name,
            (None, PictureKind::Pdf) => format!("{number}.pdf"),
            (None, _) => lines
                .pop()
                .map_or_else(|| format!("picture {number}"), str::to_owned),
        };
        Attachment {
            name,
            text: String::new(),
            picture: Some(it.picture),
        }
    });
    Ok(attachments.collect())
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

/// A text, or a list of parts that are texts and pictures.
struct ImportContent(String, Vec<ImportedPicture>);

struct ImportedPicture {
    name: Option<String>,
    picture: Picture,
}

#[derive(Deserialize)]
struct ContentPart {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    image_url: Option<ImageUrlPart>,
    #[serde(default)]
    file: Option<FilePart>,
}

#[derive(Deserialize)]
struct ImageUrlPart {
    url: String,
}

#[derive(Deserialize)]
struct FilePart {
    #[serde(default)]
    filename: Option<String>,
    #[serde(default)]
    file_data: String,
}

impl ContentPart {
    /// The picture of a part that is one.
    fn picture(self) -> Result<ImportedPicture, String> {
        let (name, url) = match (&*self.kind, self.image_url, self.file) {
            ("image_url", Some(image), _) => (None, image.url),
            ("file", _, Some(file)) => (file.filename, file.file_data),
            (kind, _, _) => {
                return Err(format!(
                    "a part of the type {kind:?} is neither a text nor a picture"
                ));
            }
        };
        match Picture::read_url(&url) {
            Some(Ok(picture)) => Ok(ImportedPicture { name, picture }),
            Some(Err(why)) => Err(format!("a picture cannot be taken: {why}")),
            // Nothing is fetched.
            None => Err("a picture stands elsewhere; only data: addresses are taken".to_owned()),
        }
    }
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
        f.write_str("a text or a list of texts and pictures")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ImportContent, E> {
        Ok(ImportContent(text.to_owned(), vec![]))
    }

    fn visit_string<E: serde::de::Error>(self, text: String) -> Result<ImportContent, E> {
        Ok(ImportContent(text, vec![]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<ImportContent, A::Error> {
        let (mut whole, mut pictures) = (String::new(), vec![]);
        while let Some(part) = parts.next_element::<ContentPart>()? {
            match part {
                ContentPart {
                    kind,
                    text: Some(text),
                    ..
                } if kind == "text" => whole.push_str(&text),
                other => pictures.push(other.picture().map_err(A::Error::custom)?),
            }
        }
        Ok(ImportContent(whole, pictures))
    }
}
