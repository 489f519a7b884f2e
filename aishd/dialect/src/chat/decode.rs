//! What a chunk of a chat completion says. Every field may be absent, null or of another type than the documents promise:
//! what cannot be understood is left out, never an error.

use aishd_log::usage::Usage;
use aishd_model::call_assembly::CallFragment;
use aishd_model::reply::FinishReason;
use serde_json::{Map, Value};

use crate::chunk::{AnswerChunk, ChunkPiece};
use crate::server_error::{ServerReportedError, error};

pub(crate) fn read(mut object: Map<String, Value>) -> AnswerChunk {
    let mut chunk = AnswerChunk {
        model: text(object.remove("model")).filter(|model| !model.is_empty()),
        usage: usage(object.get("usage"))
            .or_else(|| usage(object.get("x_groq").and_then(|groq| groq.get("usage")))),
        error: error(&object),
        ..AnswerChunk::default()
    };
    if let Some(Value::Array(choices)) = object.remove("choices")
        && let Some(Value::Object(choice)) = choices.into_iter().next()
    {
        read_choice(choice, &mut chunk);
    }
    chunk
}

fn read_choice(mut choice: Map<String, Value>, chunk: &mut AnswerChunk) {
    chunk.choice = choice.get("index").and_then(Value::as_u64);
    if chunk.usage.is_none() {
        chunk.usage = usage(choice.get("usage"));
    }
    match text(choice.remove("finish_reason")).as_deref() {
        // Some servers write an empty reason into every chunk.
        None | Some("") => {}
        // What servers in front of other models pass on of those.
        Some("stop" | "STOP" | "eos" | "eos_token" | "end_turn" | "stop_sequence" | "COMPLETE") => {
            chunk.finish = Some(FinishReason::Stop);
        }
        Some("length" | "max_tokens") => chunk.finish = Some(FinishReason::Length),
        Some("tool_calls" | "function_call") => chunk.finish = Some(FinishReason::ToolCalls),
        Some("content_filter") => chunk.finish = Some(FinishReason::ContentFilter),
        Some("error") => {
            let told = error(&choice);
            chunk.error = chunk.error.take().or(told).or_else(|| {
                Some(ServerReportedError::saying(
                    "the server ended the answer with an error",
                ))
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

fn read_delta(mut delta: Map<String, Value>, chunk: &mut AnswerChunk) {
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
    // OpenRouter's field, which other gateways to models that draw have too.
    if let Some(Value::Array(pictures)) = delta.remove("images") {
        chunk
            .pieces
            .extend(pictures.iter().filter_map(read_picture));
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
fn read_part(part: Value, chunk: &mut AnswerChunk) {
    let mut part = match part {
        Value::Object(part) => part,
        Value::String(content) => return push_text(content, chunk),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => return,
    };
    if let Some(picture) = picture_address(&part) {
        return chunk.pieces.push(picture);
    }
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

fn read_picture(picture: &Value) -> Option<ChunkPiece> {
    match picture {
        Value::Object(part) => picture_address(part),
        Value::String(url) => Some(ChunkPiece::Picture(url.clone())),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => None,
    }
}

fn picture_address(part: &Map<String, Value>) -> Option<ChunkPiece> {
    let image = part.get("image_url")?;
    let url = image.as_str().or_else(|| image.get("url")?.as_str())?;
    Some(ChunkPiece::Picture(url.to_owned()))
}

fn push_text(content: String, chunk: &mut AnswerChunk) {
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
        cache_written: detail("prompt_tokens_details", "cache_write_tokens"),
        reasoning: detail("completion_tokens_details", "reasoning_tokens"),
        ..Usage::default()
    };
    (usage != Usage::default()).then_some(usage)
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
