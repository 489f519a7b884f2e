//! What one decoded chunk says. Every field may be absent, null or of another type than the documents promise:
//! what cannot be understood is left out, never an error.

use aishd_log::usage::Usage;
use aishd_model::call_assembly::CallFragment;
use aishd_model::reply::FinishReason;
use serde_json::{Map, Value};

#[derive(Debug, Default, PartialEq)]
pub(super) struct CompletionChunk {
    pub(super) model: Option<String>,
    /// Position of the choice; a server may send more of them than it was asked for.
    pub(super) choice: Option<u64>,
    pub(super) pieces: Vec<ChunkPiece>,
    pub(super) calls: Vec<CallFragment>,
    /// The chunk holds the message as a whole and not a part of it.
    pub(super) whole: bool,
    pub(super) extra: Map<String, Value>,
    pub(super) finish: Option<FinishReason>,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<ServerReportedError>,
}

#[derive(Debug, PartialEq)]
pub(super) enum ChunkPiece {
    Text(String),
    Refusal(String),
    /// From `reasoning_content`, which DeepSeek wants back with the calls that followed from it.
    ReasoningContent(String),
    Reasoning(String),
}

/// An error as the server told it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServerReportedError {
    pub(super) message: String,
    pub(super) kind: ChunkKind,
    /// The field of the request that it is about.
    pub(super) param: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkKind {
    Other,
    ContextOverflow,
    ModelNotFound,
}

pub(super) fn read(mut object: Map<String, Value>) -> CompletionChunk {
    let mut chunk = CompletionChunk {
        model: text(object.remove("model")).filter(|model| !model.is_empty()),
        usage: usage(object.get("usage"))
            .or_else(|| usage(object.get("x_groq").and_then(|groq| groq.get("usage")))),
        error: error(&object),
        ..CompletionChunk::default()
    };
    if let Some(Value::Array(choices)) = object.remove("choices")
        && let Some(Value::Object(choice)) = choices.into_iter().next()
    {
        read_choice(choice, &mut chunk);
    }
    chunk
}

fn read_choice(mut choice: Map<String, Value>, chunk: &mut CompletionChunk) {
    chunk.choice = choice.get("index").and_then(Value::as_u64);
    if chunk.usage.is_none() {
        chunk.usage = usage(choice.get("usage"));
    }
    match text(choice.remove("finish_reason")).as_deref() {
        // Some servers write an empty reason into every chunk.
        None | Some("") => {}
        Some("stop") => chunk.finish = Some(FinishReason::Stop),
        Some("length" | "max_tokens") => chunk.finish = Some(FinishReason::Length),
        Some("tool_calls" | "function_call") => chunk.finish = Some(FinishReason::ToolCalls),
        Some("content_filter") => chunk.finish = Some(FinishReason::ContentFilter),
        Some("error") => {
            let told = error(&choice);
            chunk.error = chunk.error.take().or(told).or_else(|| {
                Some(ServerReportedError {
                    message: "the server ended the answer with an error".to_owned(),
                    kind: ChunkKind::Other,
                    param: None,
                })
            });
        }
        Some(_) => chunk.finish = Some(FinishReason::Other),
    }
    let delta = match (choice.remove("delta"), choice.remove("message")) {
        (Some(Value::Object(delta)), _) => delta,
        (_, Some(Value::Object(message))) => {
            chunk.whole = true;
            message
        }
        (_, _) => return,
    };
    read_delta(delta, chunk);
}

fn read_delta(mut delta: Map<String, Value>, chunk: &mut CompletionChunk) {
    delta.remove("role");
    // Some servers say the same in both.
    let reasoning_content = text(delta.remove("reasoning_content")).unwrap_or_default();
    let reasoning = text(delta.remove("reasoning")).unwrap_or_default();
    if !reasoning_content.is_empty() {
        chunk
            .pieces
            .push(ChunkPiece::ReasoningContent(reasoning_content));
    } else if !reasoning.is_empty() {
        chunk.pieces.push(ChunkPiece::Reasoning(reasoning));
    }
    match delta.remove("content") {
        Some(Value::String(content)) => push_text(content, chunk),
        Some(Value::Array(parts)) => parts.into_iter().for_each(|part| read_part(part, chunk)),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {}
    }
    if let Some(refusal) = text(delta.remove("refusal"))
        && !refusal.is_empty()
    {
        chunk.pieces.push(ChunkPiece::Refusal(refusal));
    }
    if let Some(Value::Array(calls)) = delta.remove("tool_calls") {
        chunk.calls = calls.into_iter().filter_map(read_call).collect();
    }
    // What is empty says nothing, and strict servers refuse an unknown field sooner than they miss it.
    delta.retain(|_, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(object) => !object.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    });
    chunk.extra = delta;
}

/// One part of a content that is a list (Mistral).
fn read_part(part: Value, chunk: &mut CompletionChunk) {
    let mut part = match part {
        Value::Object(part) => part,
        Value::String(content) => return push_text(content, chunk),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return,
    };
    match part.remove("thinking") {
        Some(Value::String(thinking)) => chunk.pieces.push(ChunkPiece::Reasoning(thinking)),
        Some(Value::Array(parts)) => {
            let thinking: String = parts
                .iter()
                .filter_map(|part| part.get("text").and_then(Value::as_str))
                .collect();
            chunk.pieces.push(ChunkPiece::Reasoning(thinking));
        }
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => {
            push_text(text(part.remove("text")).unwrap_or_default(), chunk);
        }
    }
}

fn push_text(content: String, chunk: &mut CompletionChunk) {
    if !content.is_empty() {
        chunk.pieces.push(ChunkPiece::Text(content));
    }
}

fn read_call(call: Value) -> Option<CallFragment> {
    let Value::Object(mut call) = call else {
        return None;
    };
    let index = match call.remove("index") {
        Some(Value::Number(index)) => index.as_u64(),
        Some(Value::String(index)) => index.parse().ok(),
        Some(Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_)) | None => None,
    };
    let id = text(call.remove("id"));
    call.remove("type");
    let mut function = match call.remove("function") {
        Some(Value::Object(function)) => function,
        Some(_) | None => Map::new(),
    };
    let arguments = match function.remove("arguments") {
        Some(Value::String(arguments)) => arguments,
        None | Some(Value::Null) => String::new(),
        Some(value @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_))) => {
            value.to_string()
        }
    };
    Some(CallFragment {
        index,
        id,
        name: text(function.remove("name")),
        arguments,
        extra: call,
    })
}

fn usage(value: Option<&Value>) -> Option<Usage> {
    let value = value?.as_object()?;
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let detail = |group: &str, name: &str| value.get(group)?.get(name)?.as_u64();
    let usage = Usage {
        input: number("prompt_tokens"),
        output: number("completion_tokens"),
        cached_input: detail("prompt_tokens_details", "cached_tokens")
            .or_else(|| number("prompt_cache_hit_tokens")),
        reasoning: detail("completion_tokens_details", "reasoning_tokens"),
        ..Usage::default()
    };
    (usage != Usage::default()).then_some(usage)
}

/// The error that an object reports: `{"error": …}`, `{"object": "error"}`, or FastAPI's `{"detail": …}`.
pub(super) fn error(object: &Map<String, Value>) -> Option<ServerReportedError> {
    let told = match object.get("error") {
        None | Some(Value::Null) => {
            if object.get("object").and_then(Value::as_str) == Some("error") {
                object
            } else if let (Some(detail), false) =
                (object.get("detail"), object.contains_key("choices"))
            {
                return Some(reported(&plain(detail), &[]));
            } else {
                return None;
            }
        }
        Some(Value::Object(told)) => told,
        Some(other) => return Some(reported(&plain(other), &[])),
    };
    let field = |name: &str| told.get(name).map(plain).unwrap_or_default();
    let message = told
        .get("message")
        .map_or_else(|| plain(&Value::Object(told.clone())), plain);
    let param = told.get("param").and_then(Value::as_str);
    Some(ServerReportedError {
        param: param.map(str::to_owned),
        ..reported(&message, &[field("type"), field("code")])
    })
}

/// What a plain message or one with a type and a code is about; servers agree on no field for it.
pub(super) fn reported(message: &str, labels: &[String]) -> ServerReportedError {
    const OVERFLOW: [&str; 10] = [
        "exceed_context_size",
        "context_length_exceeded",
        "exceeds the available context size",
        "context window",
        "contextwindowexceeded",
        "maximum context length",
        "context length",
        "prompt is too long",
        "maximum number of tokens",
        "input is too long",
    ];
    const NOT_FOUND: [&str; 4] = [
        "not found",
        "does not exist",
        "invalid model name",
        "not a valid model",
    ];
    let all = format!("{message} {}", labels.join(" ")).to_lowercase();
    let about_model = all.contains("model") && NOT_FOUND.iter().any(|words| all.contains(words));
    let kind = if OVERFLOW.iter().any(|words| all.contains(words)) {
        ChunkKind::ContextOverflow
    } else if about_model || all.contains("model_not_found") {
        ChunkKind::ModelNotFound
    } else {
        ChunkKind::Other
    };
    ServerReportedError {
        message: message.to_owned(),
        kind,
        param: None,
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            value.to_string()
        }
    }
}

fn text(value: Option<Value>) -> Option<String> {
    match value {
        Some(Value::String(text)) => Some(text),
        Some(
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_),
        )
        | None => None,
    }
}
