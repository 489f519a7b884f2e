//! How the upstream speaks the dialects: an answer is scripted as chunks of a chat, and comes out as the events of the dialect
//! that it was asked in; a request of any dialect is read as if it were a chat, so that the same rules examine it.

use serde_json::{Map, Value, json};

/// What was asked, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    Chat,
    Responses,
    Messages,
}

impl Api {
    pub(super) fn of_path(path: &str) -> Option<Self> {
        match path {
            "/chat/completions" => Some(Self::Chat),
            "/responses" => Some(Self::Responses),
            "/messages" => Some(Self::Messages),
            _ => None,
        }
    }
}

/// What the tokens of an answer are counted as.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counted {
    pub(super) input: u64,
    pub(super) output: u64,
    /// Of the input: read from what the server kept, and kept from now on.
    pub(super) cached: (u64, u64),
}

/// Writes one answer in the events of its dialect.
#[derive(Debug)]
pub(super) struct Speech {
    api: Api,
    model: String,
    begun: bool,
    /// The blocks or items so far, and whether the last is open.
    items: Vec<SpokenItem>,
    open: bool,
    sequence: u64,
}

#[derive(Debug)]
struct SpokenItem {
    kind: SpokenKind,
    id: String,
    name: String,
    text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SpokenKind {
    Text,
    Thinking,
    Call(u64),
}

impl Speech {
    pub(super) fn new(api: Api, model: &str) -> Self {
        Self {
            api,
            model: model.to_owned(),
            begun: false,
            items: vec![],
            open: false,
            sequence: 0,
        }
    }

    /// A chunk of a chat as events; `None`: it goes out as it is.
    pub(super) fn chunk(&mut self, chunk: &Value) -> Option<String> {
        if self.api == Api::Chat || !chunk["choices"].is_array() {
            return None;
        }
        let mut out = String::new();
        self.begin(&mut out);
        let delta = &chunk["choices"][0]["delta"];
        if let Some(text) = delta["reasoning_content"].as_str() {
            self.piece(SpokenKind::Thinking, ("", ""), text, &mut out);
        }
        if let Some(text) = delta["content"].as_str() {
            self.piece(SpokenKind::Text, ("", ""), text, &mut out);
        }
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
            let function = &call["function"];
            let (id, name) = (text(&call["id"]), text(&function["name"]));
            let kind = SpokenKind::Call(call["index"].as_u64().unwrap_or_default());
            self.piece(kind, (&id, &name), &text(&function["arguments"]), &mut out);
        }
        Some(out)
    }

    /// The end of an answer that is whole.
    pub(super) fn end(&mut self, finish: &str, counted: Option<Counted>) -> String {
        let mut out = String::new();
        self.begin(&mut out);
        self.close(&mut out);
        let Counted {
            input,
            output,
            cached: (read, written),
        } = counted.unwrap_or_default();
        match self.api {
            Api::Chat => {}
            Api::Messages => {
                let reason = match finish {
                    "tool_calls" => "tool_use",
                    "length" => "max_tokens",
                    "stop" => "end_turn",
                    other => other,
                };
                let rest = input.saturating_sub(read + written);
                let usage = json!({
                    "input_tokens": rest, "cache_read_input_tokens": read,
                    "cache_creation_input_tokens": written, "output_tokens": output,
                });
                let delta = json!({"stop_reason": reason, "stop_sequence": null});
                self.event(
                    "message_delta",
                    json!({"delta": delta, "usage": usage}),
                    &mut out,
                );
                self.event("message_stop", json!({}), &mut out);
            }
            Api::Responses => {
                let status = if finish == "length" {
                    "incomplete"
                } else {
                    "completed"
                };
                let mut response = self.response(status);
                response["output"] = self.items.iter().map(done_item).collect();
                response["usage"] = json!({
                    "input_tokens": input, "input_tokens_details": {"cached_tokens": read},
                    "output_tokens": output, "output_tokens_details": {"reasoning_tokens": 0},
                    "total_tokens": input + output,
                });
                if finish == "length" {
                    response["incomplete_details"] = json!({"reason": "max_output_tokens"});
                }
                self.event(
                    &format!("response.{status}"),
                    json!({"response": response}),
                    &mut out,
                );
            }
        }
        out
    }

    fn begin(&mut self, out: &mut String) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        match self.api {
            Api::Chat => {}
            Api::Messages => {
                let message = json!({
                    "id": "msg_scripted", "type": "message", "role": "assistant", "content": [],
                    "model": self.model, "stop_reason": null, "stop_sequence": null,
                    "usage": {"input_tokens": 1, "output_tokens": 1},
                });
                self.event("message_start", json!({"message": message}), out);
                self.event("ping", json!({}), out);
            }
            Api::Responses => {
                let response = self.response("in_progress");
                self.event("response.created", json!({"response": response}), out);
            }
        }
    }

    fn response(&self, status: &str) -> Value {
        json!({"id": "resp_scripted", "object": "response", "status": status, "model": self.model, "output": []})
    }

    fn piece(&mut self, kind: SpokenKind, (id, name): (&str, &str), text: &str, out: &mut String) {
        let goes_on = self.open && self.items.last().is_some_and(|it| it.kind == kind);
        if !goes_on {
            self.close(out);
            let number = self.items.len();
            let made_up = format!("item_{number}");
            let id = if id.is_empty() {
                made_up
            } else {
                id.to_owned()
            };
            let name = name.to_owned();
            self.items.push(SpokenItem {
                kind,
                id,
                name,
                text: String::new(),
            });
            self.open = true;
            self.opened(out);
        }
        let at = self.items.len() - 1;
        self.items[at].text.push_str(text);
        if text.is_empty() {
            return;
        }
        let id = format!("it_{at}");
        match (self.api, kind) {
            (Api::Chat, _) => {}
            (Api::Messages, SpokenKind::Text) => {
                self.delta(at, &json!({"type": "text_delta", "text": text}), out);
            }
            (Api::Messages, SpokenKind::Thinking) => {
                self.delta(
                    at,
                    &json!({"type": "thinking_delta", "thinking": text}),
                    out,
                );
            }
            (Api::Messages, SpokenKind::Call(_)) => {
                self.delta(
                    at,
                    &json!({"type": "input_json_delta", "partial_json": text}),
                    out,
                );
            }
            (Api::Responses, kind) => {
                let name = match kind {
                    SpokenKind::Text => "response.output_text.delta",
                    SpokenKind::Thinking => "response.reasoning_summary_text.delta",
                    SpokenKind::Call(_) => "response.function_call_arguments.delta",
                };
                let event = json!({"item_id": id, "output_index": at, "content_index": 0, "summary_index": 0, "delta": text});
                self.event(name, event, out);
            }
        }
    }

    fn opened(&mut self, out: &mut String) {
        let at = self.items.len() - 1;
        let item = &self.items[at];
        match self.api {
            Api::Chat => {}
            Api::Messages => {
                let block = match item.kind {
                    SpokenKind::Text => json!({"type": "text", "text": ""}),
                    SpokenKind::Thinking => {
                        json!({"type": "thinking", "thinking": "", "signature": ""})
                    }
                    SpokenKind::Call(_) => {
                        json!({"type": "tool_use", "id": item.id, "name": item.name, "input": {}})
                    }
                };
                self.event(
                    "content_block_start",
                    json!({"index": at, "content_block": block}),
                    out,
                );
            }
            Api::Responses => {
                let id = format!("it_{at}");
                let item = match item.kind {
                    SpokenKind::Text => {
                        json!({"id": id, "type": "message", "role": "assistant", "status": "in_progress", "content": []})
                    }
                    SpokenKind::Thinking => json!({"id": id, "type": "reasoning", "summary": []}),
                    SpokenKind::Call(_) => {
                        json!({"id": id, "type": "function_call", "call_id": item.id, "name": item.name, "arguments": ""})
                    }
                };
                self.event(
                    "response.output_item.added",
                    json!({"output_index": at, "item": item}),
                    out,
                );
            }
        }
    }

    fn close(&mut self, out: &mut String) {
        if !std::mem::replace(&mut self.open, false) {
            return;
        }
        let at = self.items.len() - 1;
        let item = &self.items[at];
        match self.api {
            Api::Chat => {}
            Api::Messages => {
                if item.kind == SpokenKind::Thinking {
                    let signature = signature(&item.text);
                    self.delta(
                        at,
                        &json!({"type": "signature_delta", "signature": signature}),
                        out,
                    );
                }
                self.event("content_block_stop", json!({"index": at}), out);
            }
            Api::Responses => {
                let mut item = done_item(item);
                item["id"] = format!("it_{at}").into();
                self.event(
                    "response.output_item.done",
                    json!({"output_index": at, "item": item}),
                    out,
                );
            }
        }
    }

    fn delta(&mut self, at: usize, delta: &Value, out: &mut String) {
        self.event(
            "content_block_delta",
            json!({"index": at, "delta": delta}),
            out,
        );
    }

    fn event(&mut self, name: &str, mut data: Value, out: &mut String) {
        data["type"] = name.into();
        if self.api == Api::Responses {
            data["sequence_number"] = self.sequence.into();
            self.sequence += 1;
        }
        out.push_str(&format!("event: {name}\ndata: {data}\n\n"));
    }
}

fn done_item(item: &SpokenItem) -> Value {
    match item.kind {
        SpokenKind::Text => json!({
            "type": "message", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": item.text, "annotations": []}],
        }),
        SpokenKind::Thinking => json!({
            "type": "reasoning", "summary": [{"type": "summary_text", "text": item.text}],
            "encrypted_content": signature(&item.text),
        }),
        SpokenKind::Call(_) => json!({
            "type": "function_call", "status": "completed", "call_id": item.id, "name": item.name, "arguments": item.text,
        }),
    }
}

/// What a server seals these thoughts with.
pub fn signature(thought: &str) -> String {
    format!("sealed:{thought}==")
}

/// The body of a request in any dialect, as the chat that it is.
pub(super) fn as_chat(api: Api, body: &Value) -> Value {
    let mut messages = vec![];
    let system = |text: String, messages: &mut Vec<Value>| {
        if !text.is_empty() {
            messages.push(json!({"role": "system", "content": text}));
        }
    };
    match api {
        Api::Chat => return body.clone(),
        Api::Messages => {
            system(texts(&body["system"]), &mut messages);
            for message in body["messages"].as_array().into_iter().flatten() {
                of_messages(message, &mut messages);
            }
        }
        Api::Responses => {
            system(
                body["instructions"].as_str().unwrap_or_default().to_owned(),
                &mut messages,
            );
            for item in body["input"].as_array().into_iter().flatten() {
                of_input(item, &mut messages);
            }
        }
    }
    let mut chat = json!({"model": body["model"], "stream": body["stream"], "messages": messages});
    if let Some(tools) = body["tools"].as_array() {
        let tools = tools.iter().map(|it| {
            let schema = it.get("input_schema").or(it.get("parameters"));
            json!({"type": "function", "function": {"name": it["name"], "description": it["description"], "parameters": schema}})
        });
        chat["tools"] = tools.collect();
    }
    if let Some(limit) = body.get("max_tokens").or(body.get("max_output_tokens")) {
        chat["max_tokens"] = limit.clone();
    }
    chat
}

/// The texts among the parts of a message.
pub(super) fn texts(parts: &Value) -> String {
    let parts = parts.as_array().into_iter().flatten();
    parts.filter_map(|it| it["text"].as_str()).collect()
}

fn of_messages(message: &Value, messages: &mut Vec<Value>) {
    let blocks = message["content"].as_array().cloned().unwrap_or_default();
    let of = |kind: &str| {
        blocks
            .iter()
            .filter(move |it| it["type"] == kind)
            .collect::<Vec<_>>()
    };
    for result in of("tool_result") {
        messages.push(json!({"role": "tool", "tool_call_id": result["tool_use_id"], "content": result["content"]}));
    }
    let text = texts(&message["content"]);
    let calls: Vec<Value> = of("tool_use")
        .into_iter()
        .map(|it| called(&it["id"], &it["name"], &it["input"].to_string()))
        .collect();
    if !text.is_empty() || !calls.is_empty() {
        push(&message["role"], &text, calls, messages);
    }
}

fn of_input(item: &Value, messages: &mut Vec<Value>) {
    match item["type"].as_str() {
        Some("message") => {
            let text = item["content"].as_str().map(str::to_owned);
            let text = text.unwrap_or_else(|| texts(&item["content"]));
            push(&item["role"], &text, vec![], messages);
        }
        Some("function_call_output") => {
            messages.push(
                json!({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}),
            );
        }
        Some("function_call") => {
            let arguments = item["arguments"].as_str().unwrap_or_default();
            let call = called(&item["call_id"], &item["name"], arguments);
            match messages.last_mut().filter(|it| it["role"] == "assistant") {
                Some(last) => match last["tool_calls"].as_array_mut() {
                    Some(calls) => calls.push(call),
                    None => last["tool_calls"] = json!([call]),
                },
                None => push(&json!("assistant"), "", vec![call], messages),
            }
        }
        Some(_) | None => {}
    }
}

fn called(id: &Value, name: &Value, arguments: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
}

fn push(role: &Value, text: &str, calls: Vec<Value>, messages: &mut Vec<Value>) {
    let mut message = Map::from_iter([
        ("role".to_owned(), role.clone()),
        ("content".to_owned(), text.into()),
    ]);
    if !calls.is_empty() {
        message.insert("tool_calls".to_owned(), calls.into());
    }
    messages.push(message.into());
}

/// What strict servers of this dialect reject, beside what all do.
pub(super) fn broken_rules(api: Api, body: &Value) -> Vec<String> {
    let mut broken = vec![];
    match api {
        Api::Chat => {}
        Api::Messages => {
            if !body["max_tokens"].is_u64() {
                broken.push("`max_tokens` is missing".to_owned());
            }
            let marks = body.to_string().matches("\"cache_control\"").count();
            if marks > 4 {
                broken.push(format!(
                    "{marks} places are to be kept, and four is the most"
                ));
            }
            let messages = body["messages"].as_array().into_iter().flatten();
            let blocks = messages.flat_map(|it| it["content"].as_array().into_iter().flatten());
            for block in blocks {
                let text = block["text"].as_str();
                if block["type"] == "text" && text.is_none_or(|it| it.trim().is_empty()) {
                    broken.push("a text is empty".to_owned());
                }
            }
            let first = &body["messages"][0]["role"];
            if first != "user" {
                broken.push(format!("the first message is of {first}"));
            }
        }
        Api::Responses => {
            if body["store"] != false {
                broken.push("something would stay at the server".to_owned());
            }
            let items = body["input"].as_array().cloned().unwrap_or_default();
            let thinks = |it: &Value| it["type"] == "reasoning";
            let alone = |pair: &[Value]| thinks(&pair[0]) && pair[1]["role"] == "user";
            if items.windows(2).any(alone) || items.last().is_some_and(thinks) {
                broken.push("a reasoning is without what it was for".to_owned());
            }
        }
    }
    broken
}
