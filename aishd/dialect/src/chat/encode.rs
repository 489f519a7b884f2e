//! A request as a chat completion.

use aishd_log::picture::PictureKind;
use aishd_log::tool_call::ToolCall;
use aishd_log::tool_name::on_the_wire;
use aishd_model::optional_fields;
use aishd_model::preset::Preset;

use crate::object_writer::ObjectWriter;
use crate::prompt::{Prompt, PromptItem, PromptPicture, PromptTool};

pub(crate) fn body(preset: &Preset, prompt: &Prompt<'_>) -> String {
    let mut to = String::with_capacity(prompt.room());
    let mut body = ObjectWriter::begin(&mut to);
    body.text("model", &preset.model).value("stream", &true);
    for (name, value) in optional_fields::fields(preset, prompt.options) {
        body.value(name, &value);
    }
    let system = Some(prompt.system).filter(|it| !it.is_empty());
    let messages = system.map(ChatMessage::System).into_iter();
    let messages = messages.chain(items(&prompt.items));
    body.list("messages", messages, |it, to| message(&it, to));
    // Some servers refuse an empty list.
    if !prompt.tools.is_empty() {
        body.list("tools", &prompt.tools, tool);
    }
    body.end();
    to
}

enum ChatMessage<'a> {
    System(&'a str),
    Item(&'a PromptItem<'a>),
    /// Of a person, with pictures: those of results before it first, since a result takes none.
    Shown(&'a str, Vec<PromptPicture<'a>>),
}

/// What is said to be the person's where only results had pictures.
const OF_RESULTS: &str = "[aish] What the results show:";

fn items<'a>(items: &'a [PromptItem<'a>]) -> Vec<ChatMessage<'a>> {
    let mut out = Vec::with_capacity(items.len());
    let mut of_results: Vec<PromptPicture<'a>> = vec![];
    for item in items {
        match item {
            PromptItem::Tool { pictures, .. } => {
                of_results.extend(pictures);
                out.push(ChatMessage::Item(item));
            }
            PromptItem::User { text, pictures } => {
                let mut shown = std::mem::take(&mut of_results);
                shown.extend(pictures);
                out.push(if shown.is_empty() {
                    ChatMessage::Item(item)
                } else {
                    ChatMessage::Shown(text, shown)
                });
            }
            PromptItem::Assistant { .. } => {
                out.extend(shown_of_results(&mut of_results));
                out.push(ChatMessage::Item(item));
            }
        }
    }
    out.extend(shown_of_results(&mut of_results));
    out
}

fn shown_of_results<'a>(pictures: &mut Vec<PromptPicture<'a>>) -> Option<ChatMessage<'a>> {
    let shown = std::mem::take(pictures);
    (!shown.is_empty()).then_some(ChatMessage::Shown(OF_RESULTS, shown))
}

fn message(message: &ChatMessage<'_>, to: &mut String) {
    let mut out = ObjectWriter::begin(to);
    match message {
        ChatMessage::System(text) => {
            out.text("role", "system").text("content", text);
        }
        ChatMessage::Item(PromptItem::User { text, .. }) => {
            out.text("role", "user").text("content", text);
        }
        ChatMessage::Shown(text, pictures) => {
            let text = std::iter::once(ChatPart::Text(text));
            let parts = text.chain(pictures.iter().map(ChatPart::Picture));
            out.text("role", "user").list("content", parts, part);
        }
        ChatMessage::Item(PromptItem::Assistant {
            text, calls, extra, ..
        }) => {
            out.text("role", "assistant").text("content", text);
            if !calls.is_empty() {
                out.list("tool_calls", *calls, |it, to| call(it, extra.is_some(), to));
            }
            for (name, value) in extra.iter().copied().flatten() {
                out.value(name, value);
            }
        }
        ChatMessage::Item(PromptItem::Tool { call, content, .. }) => {
            out.text("role", "tool")
                .text("tool_call_id", call)
                .text("content", content);
        }
    }
    out.end();
}

#[derive(Clone, Copy)]
enum ChatPart<'a> {
    Text(&'a str),
    Picture(&'a PromptPicture<'a>),
}

fn part(part: ChatPart<'_>, to: &mut String) {
    let mut out = ObjectWriter::begin(to);
    match part {
        ChatPart::Text(text) => {
            out.text("type", "text").text("text", text);
        }
        ChatPart::Picture(it) if it.picture.kind == PictureKind::Pdf => {
            out.text("type", "file").object("file", |file| {
                file.text("filename", it.name)
                    .text("file_data", &it.picture.data_url());
            });
        }
        ChatPart::Picture(it) => {
            out.text("type", "image_url").object("image_url", |url| {
                url.text("url", &it.picture.data_url());
            });
        }
    }
    out.end();
}

/// One call, and whether its own unknown fields go along.
fn call(call: &ToolCall, with_extra: bool, to: &mut String) {
    let mut out = ObjectWriter::begin(to);
    out.text("id", &call.id).text("type", "function");
    out.object("function", |it| {
        it.text("arguments", &call.arguments)
            .text("name", &on_the_wire(&call.name));
    });
    for (name, value) in call.extra.iter().filter(|_| with_extra) {
        out.value(name, value);
    }
    out.end();
}

pub(crate) fn tool(tool: &PromptTool<'_>, to: &mut String) {
    let mut out = ObjectWriter::begin(to);
    out.text("type", "function");
    out.object("function", |it| {
        it.text("description", tool.description)
            .text("name", tool.name)
            .value("parameters", tool.schema);
    });
    out.end();
}
