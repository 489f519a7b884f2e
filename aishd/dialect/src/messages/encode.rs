//! A request as Anthropic's messages: the roles take turns, all results of an answer stand first in one message behind it, and
//! what the server is to keep is marked in at most four places.

use std::borrow::Cow;
use std::collections::BTreeSet;

use aishd_log::picture::PictureKind;
use aishd_log::sealed_answer::SealedAnswer;
use aishd_log::tool_call::ToolCall;
use aishd_log::tool_name::on_the_wire;
use aishd_model::optional_fields::OptionalField;
use aishd_model::preset::{CacheLife, Preset};
use serde_json::{Map, Value};

use super::repeated_calls::CallIds;
use crate::object_writer::ObjectWriter;
use crate::prompt::{
    AnswerPart, Prompt, PromptItem, PromptPicture, PromptPurpose, PromptTool, parts,
};
use crate::thinking_budget::{self, ThinkingWish};

/// Stands in for a text of which nothing can be seen, which the server refuses.
const NOTHING_SAID: &str = "(nothing)";

pub(crate) fn body(preset: &Preset, prompt: &Prompt<'_>) -> String {
    let mut messages = messages(&prompt.items);
    let mark = match prompt.purpose {
        PromptPurpose::Aside => None,
        PromptPurpose::Conversation { .. } => mark(preset.cache)
            .filter(|_| !preset.learned.without.contains(&OptionalField::CacheMarks)),
    };
    if mark.is_some() {
        mark_places(&mut messages);
    }
    let mut to = String::with_capacity(prompt.room());
    let mut body = ObjectWriter::begin(&mut to);
    body.text("model", &preset.model).value("stream", &true);
    options(preset, prompt, &mut body);
    if !prompt.system.is_empty() {
        body.list("system", [prompt.system], |text, to| {
            text_block(text, mark, to);
        });
    }
    body.list("messages", &messages, |it, to| message(it, mark, to));
    if let Some((last, others)) = prompt.tools.split_last() {
        let tools = others.iter().map(|it| (it, None));
        let tools = tools.chain([(last, mark)]);
        body.list("tools", tools, |(it, mark), to| tool(it, mark, to));
    } else {
        tools_of_before(&prompt.items, &mut body);
    }
    body.end();
    to
}

/// A request in which something was called has to have tools, even where none is offered any more.
fn tools_of_before(items: &[PromptItem<'_>], body: &mut ObjectWriter<'_>) {
    let calls = items.iter().flat_map(|it| match it {
        PromptItem::Assistant { calls, .. } => *calls,
        PromptItem::User { .. } | PromptItem::Tool { .. } => &[],
    });
    let names: BTreeSet<String> = calls.map(|it| on_the_wire(&it.name)).collect();
    if names.is_empty() {
        return;
    }
    let schema = Value::Object(Map::new());
    body.list("tools", &names, |name, to| {
        let was_offered = PromptTool {
            name,
            description: "It was offered before, and is not any more.",
            schema: &schema,
        };
        tool(&was_offered, None, to);
    });
    body.object("tool_choice", |it| {
        it.text("type", "none");
    });
}

fn options(preset: &Preset, prompt: &Prompt<'_>, body: &mut ObjectWriter<'_>) {
    let sends = |field| !preset.learned.without.contains(&field);
    let (wish, limit) = thinking_budget::wish(preset, prompt);
    body.value("max_tokens", &limit);
    match wish {
        ThinkingWish::Unsaid => {
            // Who thinks takes neither.
            let temperature = prompt.options.temperature;
            let temperature = temperature
                .filter(|_| sends(OptionalField::Temperature) && preset.takes_temperature());
            if let Some(temperature) = temperature {
                body.value("temperature", &temperature);
            }
            let takes = sends(OptionalField::TopP) && preset.takes_temperature();
            if let Some(top_p) = preset.fields.top_p.filter(|_| takes) {
                body.value("top_p", &top_p);
            }
        }
        ThinkingWish::Adaptive { effort } => {
            body.object("thinking", |it| {
                it.text("type", "adaptive").text("display", "summarized");
            });
            body.object("output_config", |it| {
                it.text("effort", effort);
            });
        }
        ThinkingWish::Budget { tokens } => body.object("thinking", |it| {
            it.text("type", "enabled").value("budget_tokens", &tokens);
        }),
    }
    if !prompt.options.stop.is_empty() && sends(OptionalField::StopSequences) {
        body.value("stop_sequences", &prompt.options.stop);
    }
}

/// The mark of a place up to which the server is to keep what it has read.
fn mark(life: CacheLife) -> Option<&'static str> {
    match life {
        CacheLife::FiveMinutes => Some(r#"{"type":"ephemeral"}"#),
        CacheLife::OneHour => Some(r#"{"type":"ephemeral","ttl":"1h"}"#),
        CacheLife::Off => None,
    }
}

struct OutgoingMessage<'a> {
    role: &'static str,
    blocks: Vec<OutgoingBlock<'a>>,
    /// The server is to keep all up to the end of it.
    is_kept: bool,
    /// The person's words are in it, and not results alone.
    asks: bool,
}

enum OutgoingBlock<'a> {
    Text(&'a str),
    Call {
        id: Cow<'a, str>,
        call: &'a ToolCall,
    },
    Picture(&'a PromptPicture<'a>),
    Result {
        id: Cow<'a, str>,
        content: &'a str,
        pictures: &'a [PromptPicture<'a>],
    },
    Sealed(&'a str),
}

fn messages<'a>(items: &'a [PromptItem<'a>]) -> Vec<OutgoingMessage<'a>> {
    let mut out: Vec<OutgoingMessage<'a>> = vec![];
    let mut ids = CallIds::default();
    for item in items {
        match item {
            PromptItem::User { text, pictures } => {
                let message = of_person(&mut out);
                message.asks = true;
                // What is asked about goes first, as such models want it.
                let pictures = pictures.iter().map(OutgoingBlock::Picture);
                message.blocks.extend(pictures);
                message.blocks.push(OutgoingBlock::Text(visible(text)));
            }
            PromptItem::Tool {
                call,
                content,
                pictures,
            } => {
                let message = of_person(&mut out);
                let is_result = |it: &OutgoingBlock<'_>| matches!(it, OutgoingBlock::Result { .. });
                let place = message.blocks.iter().take_while(|it| is_result(it)).count();
                let result = OutgoingBlock::Result {
                    id: ids.of_result(call),
                    content,
                    pictures,
                };
                message.blocks.insert(place, result);
            }
            PromptItem::Assistant {
                text,
                calls,
                sealed,
                ..
            } => {
                let blocks = answer_blocks(text, calls, *sealed, &mut ids);
                if blocks.is_empty() {
                    continue;
                }
                if out.is_empty() {
                    // Somebody has to begin.
                    of_person(&mut out)
                        .blocks
                        .push(OutgoingBlock::Text(NOTHING_SAID));
                }
                out.push(OutgoingMessage {
                    role: "assistant",
                    blocks,
                    is_kept: false,
                    asks: false,
                });
            }
        }
    }
    out
}

/// The message of the person that stands last, begun if it is another's.
fn of_person<'a, 'b>(out: &'b mut Vec<OutgoingMessage<'a>>) -> &'b mut OutgoingMessage<'a> {
    if out.last().is_none_or(|it| it.role != "user") {
        out.push(OutgoingMessage {
            role: "user",
            blocks: vec![],
            is_kept: false,
            asks: false,
        });
    }
    let last = out.len() - 1;
    &mut out[last]
}

fn visible(text: &str) -> &str {
    if text.trim().is_empty() {
        NOTHING_SAID
    } else {
        text
    }
}

/// The parts of an answer in their order, where seals say what that was; else the text, and what it calls.
fn answer_blocks<'a>(
    text: &'a str,
    calls: &'a [ToolCall],
    sealed: Option<&'a SealedAnswer>,
    ids: &mut CallIds<'a>,
) -> Vec<OutgoingBlock<'a>> {
    let mut blocks = vec![];
    let mut called = |call: &'a ToolCall| OutgoingBlock::Call {
        id: ids.of_call(&call.id),
        call,
    };
    let push_text = |text: &'a str, blocks: &mut Vec<OutgoingBlock<'a>>| {
        if !text.trim().is_empty() {
            blocks.push(OutgoingBlock::Text(text));
        }
    };
    let Some(sealed) = sealed else {
        push_text(text, &mut blocks);
        blocks.extend(calls.iter().map(called));
        return blocks;
    };
    for part in parts(text, calls, &sealed.parts) {
        match part {
            AnswerPart::Seal(json) => blocks.push(OutgoingBlock::Sealed(json)),
            AnswerPart::Text { text, .. } => push_text(text, &mut blocks),
            AnswerPart::Call(call) => blocks.push(called(call)),
        }
    }
    // Thinking alone is no message.
    if blocks
        .iter()
        .all(|it| matches!(it, OutgoingBlock::Sealed(_)))
    {
        blocks.clear();
    }
    blocks
}

/// The end of what was said before this question, and the end of all. With the system message and the tools these are four
/// places, and more are refused.
fn mark_places(messages: &mut [OutgoingMessage<'_>]) {
    let question = messages.iter().rposition(|it| it.asks);
    for place in [
        question.and_then(|it| it.checked_sub(1)),
        messages.len().checked_sub(1),
    ] {
        if let Some(message) = place.and_then(|it| messages.get_mut(it)) {
            message.is_kept = true;
        }
    }
}

fn message(message: &OutgoingMessage<'_>, mark: Option<&str>, to: &mut String) {
    let mut out = ObjectWriter::begin(to);
    out.text("role", message.role);
    // Thinking cannot be marked.
    let markable = |it: &OutgoingBlock<'_>| !matches!(it, OutgoingBlock::Sealed(_));
    let marked = message.blocks.iter().rposition(markable);
    let marked = marked.filter(|_| message.is_kept);
    out.list(
        "content",
        message.blocks.iter().enumerate(),
        |(at, it), to| {
            let mark = mark.filter(|_| marked == Some(at));
            block(it, mark, to);
        },
    );
    out.end();
}

fn block(block: &OutgoingBlock<'_>, mark: Option<&str>, to: &mut String) {
    match block {
        OutgoingBlock::Sealed(json) => to.push_str(json),
        OutgoingBlock::Text(text) => text_block(text, mark, to),
        OutgoingBlock::Call { id, call } => {
            let mut out = ObjectWriter::begin(to);
            out.text("type", "tool_use")
                .text("id", id)
                .text("name", &on_the_wire(&call.name))
                .raw("input", &call.arguments);
            marked(out, mark);
        }
        OutgoingBlock::Picture(it) => picture_block(it, mark, to),
        OutgoingBlock::Result {
            id,
            content,
            pictures,
        } => {
            let mut out = ObjectWriter::begin(to);
            out.text("type", "tool_result").text("tool_use_id", id);
            if pictures.is_empty() {
                out.text("content", content);
            } else {
                let parts = std::iter::once(OutgoingBlock::Text(visible(content)));
                let parts = parts.chain(pictures.iter().map(OutgoingBlock::Picture));
                out.list("content", parts, |it, to| self::block(&it, None, to));
            }
            marked(out, mark);
        }
    }
}

fn picture_block(it: &PromptPicture<'_>, mark: Option<&str>, to: &mut String) {
    let kind = it.picture.kind;
    let is_document = kind == PictureKind::Pdf;
    let mut out = ObjectWriter::begin(to);
    out.text("type", if is_document { "document" } else { "image" });
    out.object("source", |source| {
        source
            .text("type", "base64")
            .text("media_type", kind.media_type())
            .text("data", &it.picture.data);
    });
    if is_document {
        out.text("title", it.name);
    }
    marked(out, mark);
}

fn text_block(text: &str, mark: Option<&str>, to: &mut String) {
    let mut out = ObjectWriter::begin(to);
    out.text("type", "text").text("text", text);
    marked(out, mark);
}

fn marked(mut out: ObjectWriter<'_>, mark: Option<&str>) {
    if let Some(mark) = mark {
        out.raw("cache_control", mark);
    }
    out.end();
}

pub(crate) fn tool(tool: &PromptTool<'_>, mark: Option<&str>, to: &mut String) {
    let schema = taken_schema(tool.schema);
    let mut out = ObjectWriter::begin(to);
    out.text("name", tool.name)
        .text("description", tool.description)
        .value("input_schema", &*schema);
    marked(out, mark);
}

/// As such servers take it: they refuse a whole request for a schema without a type, or that is a choice at its top. What a call has
/// to fit is looked at here in any case.
fn taken_schema(schema: &Value) -> Cow<'_, Value> {
    let Some(object) = schema.as_object() else {
        return Cow::Borrowed(schema);
    };
    let is_choice = CHOICES.iter().any(|it| object.contains_key(*it));
    if !is_choice && object.get("type").is_some_and(|it| it == "object") {
        return Cow::Borrowed(schema);
    }
    let mut taken = object.clone();
    CHOICES.iter().for_each(|it| drop(taken.remove(*it)));
    taken.insert("type".to_owned(), "object".into());
    Cow::Owned(Value::Object(taken))
}

/// Words of JSON Schema for one of several.
const CHOICES: [&str; 3] = ["oneOf", "anyOf", "allOf"];
