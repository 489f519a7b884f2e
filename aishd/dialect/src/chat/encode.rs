//! A request as a chat completion.

use aishd_log::tool_call::ToolCall;
use aishd_log::tool_name::on_the_wire;
use aishd_model::optional_fields;
use aishd_model::preset::Preset;

use crate::object_writer::ObjectWriter;
use crate::prompt::{Prompt, PromptItem, PromptTool};

pub(crate) fn body(preset: &Preset, prompt: &Prompt<'_>) -> String {
    let mut to = String::with_capacity(prompt.room());
    let mut body = ObjectWriter::begin(&mut to);
    body.text("model", &preset.model).value("stream", &true);
    for (name, value) in optional_fields::fields(preset, prompt.options) {
        body.value(name, &value);
    }
    let system = Some(prompt.system).filter(|it| !it.is_empty());
    let messages = system.map(ChatMessage::System).into_iter();
    let messages = messages.chain(prompt.items.iter().map(ChatMessage::Item));
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
}

fn message(message: &ChatMessage<'_>, to: &mut String) {
    let mut out = ObjectWriter::begin(to);
    match message {
        ChatMessage::System(text) => {
            out.text("role", "system").text("content", text);
        }
        ChatMessage::Item(PromptItem::User(text)) => {
            out.text("role", "user").text("content", text);
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
        ChatMessage::Item(PromptItem::Tool { call, content }) => {
            out.text("role", "tool")
                .text("tool_call_id", call)
                .text("content", content);
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
