//! A request as `OpenAI`'s responses: the whole conversation each time, for nothing of it is to stay at the server.

use aishd_log::picture::PictureKind;
use aishd_log::sealed_answer::SealedAnswer;
use aishd_log::tool_call::ToolCall;
use aishd_log::tool_name::on_the_wire;
use aishd_model::optional_fields::{FOR_THOUGHT_TOKENS, OptionalField, OutputLimit};
use aishd_model::preset::{CacheLife, Preset};

use crate::call_id;
use crate::object_writer::ObjectWriter;
use crate::prompt::{
    AnswerPart, Prompt, PromptItem, PromptPicture, PromptPurpose, PromptTool, parts,
};

/// No server takes a smaller limit.
const LEAST_LIMIT: u64 = 16;

pub(crate) fn body(preset: &Preset, prompt: &Prompt<'_>) -> String {
    let mut to = String::with_capacity(prompt.room());
    let mut body = ObjectWriter::begin(&mut to);
    body.text("model", &preset.model)
        .value("stream", &true)
        .value("store", &false);
    options(preset, prompt, &mut body);
    if !prompt.system.is_empty() {
        body.text("instructions", prompt.system);
    }
    let items = prompt.items.iter().flat_map(input);
    body.list("input", items, |it, to| item(&it, to));
    // Some servers refuse an empty list.
    if !prompt.tools.is_empty() {
        body.list("tools", &prompt.tools, tool);
    }
    body.end();
    to
}

fn options(preset: &Preset, prompt: &Prompt<'_>, body: &mut ObjectWriter<'_>) {
    let sends = |field| !preset.learned.without.contains(&field);
    let options = prompt.options;
    if let PromptPurpose::Conversation { key } = prompt.purpose {
        if preset.may_think() && sends(OptionalField::SealedThinking) {
            body.value("include", &["reasoning.encrypted_content"]);
        }
        let is_told = sends(OptionalField::CacheKey) && preset.cache != CacheLife::Off;
        if let Some(key) = key.filter(|_| is_told) {
            body.text("prompt_cache_key", key);
        }
    }
    let temperature = options.temperature;
    let takes = sends(OptionalField::Temperature) && preset.takes_temperature();
    if let Some(temperature) = temperature.filter(|_| takes) {
        body.value("temperature", &temperature);
    }
    let takes = sends(OptionalField::TopP) && preset.takes_temperature();
    if let Some(top_p) = preset.fields.top_p.filter(|_| takes) {
        body.value("top_p", &top_p);
    }
    if let Some(limit) = options.limit.filter(|_| sends(OptionalField::Limit)) {
        let tokens = match limit {
            OutputLimit::Set(tokens) => tokens,
            OutputLimit::Said(tokens) => tokens + FOR_THOUGHT_TOKENS,
        };
        body.value("max_output_tokens", &tokens.max(LEAST_LIMIT));
    }
    let verbosity = preset.fields.verbosity;
    if let Some(verbosity) = verbosity.filter(|_| sends(OptionalField::Verbosity)) {
        body.object("text", |it| {
            it.text("verbosity", verbosity.as_str());
        });
    }
    let effort = preset.effort_sent();
    if let Some(effort) = effort.filter(|_| sends(OptionalField::Effort)) {
        body.object("reasoning", |it| {
            it.text("effort", effort.as_str()).text("summary", "auto");
        });
    }
}

enum InputItem<'a> {
    User {
        text: &'a str,
        pictures: &'a [PromptPicture<'a>],
    },
    Said {
        text: &'a str,
        phase: Option<&'a str>,
    },
    Call(&'a ToolCall),
    Result {
        call: &'a str,
        content: &'a str,
        pictures: &'a [PromptPicture<'a>],
    },
    Sealed(&'a str),
}

fn input<'a>(item: &'a PromptItem<'a>) -> Vec<InputItem<'a>> {
    match item {
        PromptItem::User { text, pictures } => vec![InputItem::User { text, pictures }],
        PromptItem::Tool {
            call,
            content,
            pictures,
        } => vec![InputItem::Result {
            call,
            content,
            pictures,
        }],
        PromptItem::Assistant {
            text,
            calls,
            sealed,
            ..
        } => match sealed {
            Some(sealed) => sealed_items(text, calls, sealed),
            None => {
                let said = Some(&**text).filter(|it| !it.is_empty());
                let said = said.map(|text| InputItem::Said { text, phase: None });
                let calls = calls.iter().map(InputItem::Call);
                said.into_iter().chain(calls).collect()
            }
        },
    }
}

fn sealed_items<'a>(
    text: &'a str,
    calls: &'a [ToolCall],
    sealed: &'a SealedAnswer,
) -> Vec<InputItem<'a>> {
    let parts = parts(text, calls, &sealed.parts).into_iter();
    let mut items: Vec<InputItem<'a>> = parts
        .map(|it| match it {
            AnswerPart::Seal(json) => InputItem::Sealed(json),
            AnswerPart::Text { text, phase } => InputItem::Said { text, phase },
            AnswerPart::Call(call) => InputItem::Call(call),
        })
        .collect();
    // Thinking is refused where nothing follows that it was for.
    let thinks = |it: &InputItem<'_>| matches!(it, InputItem::Sealed(_));
    while items.last().is_some_and(thinks) {
        items.pop();
    }
    items
}

fn item(item: &InputItem<'_>, to: &mut String) {
    // As one text: servers differ in what parts an answer of theirs may have.
    let said = |role: &str, text: &str, phase: Option<&str>, to: &mut String| {
        let mut out = ObjectWriter::begin(to);
        out.text("type", "message")
            .text("role", role)
            .text("content", text);
        if let Some(phase) = phase {
            out.text("phase", phase);
        }
        out.end();
    };
    match item {
        InputItem::Sealed(json) => to.push_str(json),
        InputItem::User { text, pictures: [] } => said("user", text, None, to),
        InputItem::User { text, pictures } => {
            let mut out = ObjectWriter::begin(to);
            out.text("type", "message").text("role", "user");
            out.list("content", parts_of(text, pictures), part);
            out.end();
        }
        InputItem::Said { text, phase } => said("assistant", text, *phase, to),
        InputItem::Call(call) => {
            let mut out = ObjectWriter::begin(to);
            out.text("type", "function_call")
                .text("call_id", &call_id::fitting(&call.id, |_| true))
                .text("name", &on_the_wire(&call.name))
                .text("arguments", &call.arguments);
            out.end();
        }
        InputItem::Result {
            call,
            content,
            pictures,
        } => {
            let mut out = ObjectWriter::begin(to);
            out.text("type", "function_call_output")
                .text("call_id", &call_id::fitting(call, |_| true));
            if pictures.is_empty() {
                out.text("output", content);
            } else {
                out.list("output", parts_of(content, pictures), part);
            }
            out.end();
        }
    }
}

#[derive(Clone, Copy)]
enum ResponsesPart<'a> {
    Text(&'a str),
    Picture(&'a PromptPicture<'a>),
}

fn parts_of<'a>(
    text: &'a str,
    pictures: &'a [PromptPicture<'a>],
) -> impl Iterator<Item = ResponsesPart<'a>> {
    std::iter::once(ResponsesPart::Text(text)).chain(pictures.iter().map(ResponsesPart::Picture))
}

fn part(part: ResponsesPart<'_>, to: &mut String) {
    let mut out = ObjectWriter::begin(to);
    match part {
        ResponsesPart::Text(text) => {
            out.text("type", "input_text").text("text", text);
        }
        ResponsesPart::Picture(it) if it.picture.kind == PictureKind::Pdf => {
            out.text("type", "input_file")
                .text("filename", it.name)
                .text("file_data", &it.picture.data_url());
        }
        ResponsesPart::Picture(it) => {
            out.text("type", "input_image")
                .text("detail", "auto")
                .text("image_url", &it.picture.data_url());
        }
    }
    out.end();
}

pub(crate) fn tool(tool: &PromptTool<'_>, to: &mut String) {
    let mut out = ObjectWriter::begin(to);
    out.text("type", "function")
        .text("name", tool.name)
        .text("description", tool.description)
        .value("parameters", tool.schema)
        .value("strict", &false);
    out.end();
}
