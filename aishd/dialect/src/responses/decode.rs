//! What an answer in `OpenAI`'s responses says: items that are added, grow and are done. Servers leave out numbers, names of
//! events and whole kinds of them, so that a piece is placed by its item's id, else by its number, else by what is open.

use std::collections::BTreeMap;

use aishd_log::usage::Usage;
use aishd_model::call_assembly::CallFragment;
use aishd_model::reply::FinishReason;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::chunk::{AnswerChunk, ChunkPiece};
use crate::server_error::{ReportedKind, ServerReportedError, reported, wait_in};

/// Items of one answer; more of them mean nothing.
const MOST_ITEMS: usize = 1024;

#[derive(Debug, Default)]
pub struct ResponsesDecoder {
    items: Vec<OutputItem>,
    by_id: BTreeMap<String, usize>,
    by_number: BTreeMap<u64, usize>,
    calls: u64,
    /// Parts of one reasoning stand apart.
    summary: Option<(usize, u64)>,
}

#[derive(Debug)]
struct OutputItem {
    kind: ItemKind,
    /// Something of it was said already.
    begun: bool,
    done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemKind {
    Message,
    Reasoning,
    Call(u64),
    Other,
}

/// An item as it came, byte for byte.
#[derive(Deserialize)]
struct DoneItem<'a> {
    #[serde(borrow)]
    item: &'a RawValue,
}

#[derive(Deserialize)]
struct FinalResponse<'a> {
    #[serde(borrow)]
    response: FinalOutput<'a>,
}

#[derive(Default, Deserialize)]
struct FinalOutput<'a> {
    #[serde(borrow, default)]
    output: Vec<&'a RawValue>,
}

impl ResponsesDecoder {
    pub(crate) fn read(&mut self, data: &str, mut event: Map<String, Value>) -> AnswerChunk {
        let kind = text(event.get("type")).to_owned();
        let delta = || text(event.get("delta")).to_owned();
        match &*kind {
            "response.created" | "response.in_progress" | "response.queued" => AnswerChunk {
                model: model(event.get("response")),
                ..AnswerChunk::default()
            },
            "response.output_item.added" => {
                let Some(Value::Object(item)) = event.remove("item") else {
                    return AnswerChunk::default();
                };
                let (_, opened) = self.open(&event, &item);
                opened
            }
            "response.output_item.done" => {
                let Some(Value::Object(item)) = event.remove("item") else {
                    return AnswerChunk::default();
                };
                let raw = serde_json::from_str::<DoneItem<'_>>(data);
                let raw = raw.map(|it| it.item.get()).unwrap_or_default();
                self.done(&event, &item, raw)
            }
            "response.output_text.delta" => {
                self.said(&event, ItemKind::Message, ChunkPiece::Text, delta())
            }
            "response.refusal.delta" => {
                self.said(&event, ItemKind::Message, ChunkPiece::Refusal, delta())
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                let more = self.in_its_part(&event, delta());
                self.said(&event, ItemKind::Reasoning, ChunkPiece::Reasoning, more)
            }
            "response.function_call_arguments.delta" => self.arguments(&event, delta()),
            "response.function_call_arguments.done" => {
                let begun = self.find(&event).is_some_and(|it| self.items[it].begun);
                if begun {
                    return AnswerChunk::default();
                }
                let whole = text(event.get("arguments")).to_owned();
                self.arguments(&event, whole)
            }
            "response.completed"
            | "response.done"
            | "response.incomplete"
            | "response.failed"
            | "response.cancelled" => self.end(data, &kind, &event),
            "error" => AnswerChunk {
                error: Some(told(
                    event.get("error").unwrap_or(&Value::Object(event.clone())),
                )),
                ..AnswerChunk::default()
            },
            // What servers in between say in their own form.
            "" => AnswerChunk {
                error: crate::server_error::error(&event),
                ..AnswerChunk::default()
            },
            // Said in pieces before, or in whole behind.
            "response.content_part.added"
            | "response.content_part.done"
            | "response.output_text.done"
            | "response.output_text.annotation.added"
            | "response.refusal.done"
            | "response.reasoning_summary_part.added"
            | "response.reasoning_summary_part.done"
            | "response.reasoning_summary_text.done"
            | "response.reasoning_text.done"
            | "keepalive" => AnswerChunk::default(),
            other => AnswerChunk::unknown("an event", other),
        }
    }

    pub(crate) fn read_whole(&mut self, data: &str, object: Map<String, Value>) -> AnswerChunk {
        if let Some(error) = crate::server_error::error(&object) {
            return AnswerChunk {
                error: Some(error),
                ..AnswerChunk::default()
            };
        }
        if object.get("output").and_then(Value::as_array).is_none() {
            return AnswerChunk::default();
        }
        let kind = format!("response.{}", text(object.get("status")));
        let event = Map::from_iter([("response".to_owned(), Value::Object(object))]);
        let chunk = self.end(&format!("{{\"response\":{data}}}"), &kind, &event);
        AnswerChunk {
            whole: true,
            ..chunk
        }
    }

    /// Notes a new item, where it is one, and opens its call.
    fn open(
        &mut self,
        event: &Map<String, Value>,
        item: &Map<String, Value>,
    ) -> (usize, AnswerChunk) {
        let kind = match text(item.get("type")) {
            "message" => ItemKind::Message,
            "reasoning" => ItemKind::Reasoning,
            "function_call" => ItemKind::Call(self.calls),
            _ => ItemKind::Other,
        };
        let at = self.note(kind);
        let id = text(item.get("id"));
        if !id.is_empty() && self.by_id.len() < MOST_ITEMS {
            self.by_id.insert(id.to_owned(), at);
        }
        if let Some(number) = event.get("output_index").and_then(Value::as_u64)
            && self.by_number.len() < MOST_ITEMS
        {
            self.by_number.insert(number, at);
        }
        let chunk = match kind {
            ItemKind::Call(number) => {
                self.calls += 1;
                AnswerChunk::call(CallFragment {
                    index: Some(number),
                    id: Some(text(item.get("call_id")).to_owned()),
                    name: Some(text(item.get("name")).to_owned()),
                    ..CallFragment::default()
                })
            }
            ItemKind::Message => match text(item.get("phase")) {
                "" => AnswerChunk::default(),
                phase => AnswerChunk::of(ChunkPiece::Phase(phase.to_owned())),
            },
            ItemKind::Reasoning => AnswerChunk::default(),
            ItemKind::Other => AnswerChunk::unknown("an item", text(item.get("type"))),
        };
        (at, chunk)
    }

    fn note(&mut self, kind: ItemKind) -> usize {
        if self.items.len() < MOST_ITEMS {
            self.items.push(OutputItem {
                kind,
                begun: false,
                done: false,
            });
        }
        self.items.len() - 1
    }

    /// The item that an event is about.
    fn find(&self, event: &Map<String, Value>) -> Option<usize> {
        let id = text(event.get("item_id"));
        let number = event.get("output_index").and_then(Value::as_u64);
        self.by_id
            .get(id)
            .or_else(|| self.by_number.get(&number?))
            .copied()
    }

    fn said(
        &mut self,
        event: &Map<String, Value>,
        kind: ItemKind,
        piece: fn(String) -> ChunkPiece,
        more: String,
    ) -> AnswerChunk {
        if more.is_empty() {
            return AnswerChunk::default();
        }
        let at = self.find(event).or_else(|| self.last_open(kind));
        let at = at.unwrap_or_else(|| self.note(kind));
        self.items[at].begun = true;
        AnswerChunk::of(piece(more))
    }

    fn last_open(&self, kind: ItemKind) -> Option<usize> {
        self.items
            .iter()
            .rposition(|it| it.kind == kind && !it.done)
    }

    fn in_its_part(&mut self, event: &Map<String, Value>, more: String) -> String {
        let part = ["summary_index", "content_index"].into_iter();
        let part = part.filter_map(|it| event.get(it)?.as_u64()).next();
        let now = (self.find(event).unwrap_or(0), part.unwrap_or(0));
        let before = self.summary.replace(now);
        match before {
            Some(before) if before != now && !more.is_empty() => format!("\n\n{more}"),
            Some(_) | None => more,
        }
    }

    fn arguments(&mut self, event: &Map<String, Value>, arguments: String) -> AnswerChunk {
        let is_call = |it: &OutputItem| matches!(it.kind, ItemKind::Call(_));
        let last = || self.items.iter().rposition(|it| is_call(it) && !it.done);
        let at = self.find(event).or_else(last);
        let Some(item) = at.and_then(|it| self.items.get_mut(it)) else {
            return AnswerChunk::default();
        };
        let ItemKind::Call(number) = item.kind else {
            return AnswerChunk::default();
        };
        item.begun |= !arguments.is_empty();
        AnswerChunk::call(CallFragment {
            index: Some(number),
            arguments,
            ..CallFragment::default()
        })
    }

    /// An item is whole. What was not said of it in pieces is said now.
    fn done(
        &mut self,
        event: &Map<String, Value>,
        item: &Map<String, Value>,
        raw: &str,
    ) -> AnswerChunk {
        let known = self.by_id.get(text(item.get("id"))).copied();
        let known = known.or_else(|| self.find(event));
        let known = known.or_else(|| match text(item.get("type")) {
            "message" => self.last_open(ItemKind::Message),
            "reasoning" => self.last_open(ItemKind::Reasoning),
            _ => None,
        });
        let (at, mut chunk) = match known {
            Some(at) => (at, AnswerChunk::default()),
            None => self.open(event, item),
        };
        let Some(OutputItem { kind, begun, done }) = self.items.get_mut(at) else {
            return chunk;
        };
        if std::mem::replace(done, true) {
            return AnswerChunk::default();
        }
        let begun = *begun;
        match *kind {
            ItemKind::Call(number) if !begun => chunk.calls.push(CallFragment {
                index: Some(number),
                arguments: arguments(item.get("arguments")),
                ..CallFragment::default()
            }),
            ItemKind::Message if !begun => chunk.pieces.extend(message_pieces(item)),
            ItemKind::Reasoning => {
                if !begun {
                    chunk.pieces.extend(reasoning_pieces(item));
                }
                if is_taken_back(item) && !raw.is_empty() {
                    chunk.pieces.push(ChunkPiece::Seal(raw.to_owned()));
                }
            }
            ItemKind::Call(_) | ItemKind::Message | ItemKind::Other => {}
        }
        chunk
    }

    fn end(&mut self, data: &str, kind: &str, event: &Map<String, Value>) -> AnswerChunk {
        let response = event.get("response");
        let field = |name: &str| response.and_then(|it| it.get(name));
        let mut chunk = AnswerChunk {
            model: model(response),
            usage: usage(field("usage")),
            done: true,
            ..AnswerChunk::default()
        };
        // Some say what they have to say only here.
        let raw = serde_json::from_str::<FinalResponse<'_>>(data);
        let raw = raw.map(|it| it.response.output).unwrap_or_default();
        let output = field("output").and_then(Value::as_array);
        let output = output.into_iter().flatten();
        if self.items.is_empty() {
            for (at, item) in output.enumerate() {
                let Value::Object(item) = item else { continue };
                let raw = raw.get(at).map_or("", |it| it.get());
                let said = self.done(&Map::new(), item, raw);
                chunk.pieces.extend(said.pieces);
                chunk.calls.extend(said.calls);
                chunk.note = chunk.note.or(said.note);
            }
        }
        let status = text(field("status"));
        match (kind, status) {
            ("response.failed", _) | (_, "failed") => {
                chunk.error = Some(told(field("error").unwrap_or(&Value::Null)));
            }
            ("response.cancelled", _) | (_, "cancelled") => {
                chunk.error = Some(ServerReportedError::saying(
                    "the server cancelled the answer",
                ));
            }
            ("response.incomplete", _) | (_, "incomplete") => {
                let details = field("incomplete_details");
                let reason = text(details.and_then(|it| it.get("reason")));
                chunk.finish = Some(if reason == "content_filter" {
                    FinishReason::ContentFilter
                } else {
                    FinishReason::Length
                });
            }
            (_, _) if self.calls > 0 => chunk.finish = Some(FinishReason::ToolCalls),
            (_, _) => chunk.finish = Some(FinishReason::Stop),
        }
        chunk
    }
}

fn message_pieces(item: &Map<String, Value>) -> Vec<ChunkPiece> {
    let parts = item.get("content").and_then(Value::as_array);
    let parts = parts.into_iter().flatten();
    let pieces = parts.filter_map(|it| match text(it.get("type")) {
        "output_text" | "text" => Some(ChunkPiece::Text(text(it.get("text")).to_owned())),
        "refusal" => Some(ChunkPiece::Refusal(text(it.get("refusal")).to_owned())),
        _ => None,
    });
    pieces.collect()
}

fn reasoning_pieces(item: &Map<String, Value>) -> Option<ChunkPiece> {
    let said = |name: &str| {
        let parts = item.get(name).and_then(Value::as_array);
        let parts = parts.into_iter().flatten();
        let parts: Vec<&str> = parts.map(|it| text(it.get("text"))).collect();
        Some(parts.join("\n\n")).filter(|it| !it.is_empty())
    };
    said("summary")
        .or_else(|| said("content"))
        .map(ChunkPiece::Reasoning)
}

/// What its server has forgotten by the next request is of no use there: it is taken back encrypted, or in clear words by
/// servers of open models.
fn is_taken_back(item: &Map<String, Value>) -> bool {
    let sealed = !text(item.get("encrypted_content")).is_empty();
    let clear = item.get("content").and_then(Value::as_array);
    sealed || clear.is_some_and(|it| !it.is_empty())
}

fn arguments(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(value @ Value::Object(_)) => value.to_string(),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_)) | None => {
            String::new()
        }
    }
}

fn model(response: Option<&Value>) -> Option<String> {
    let model = text(response?.get("model"));
    (!model.is_empty()).then(|| model.to_owned())
}

fn usage(value: Option<&Value>) -> Option<Usage> {
    let value = value?;
    let number = |name: &str| value.get(name).and_then(Value::as_u64);
    let detail = |group: &str, name: &str| value.get(group)?.get(name)?.as_u64();
    let usage = Usage {
        input: number("input_tokens"),
        output: number("output_tokens"),
        cached_input: detail("input_tokens_details", "cached_tokens"),
        cache_written: detail("input_tokens_details", "cache_write_tokens"),
        reasoning: detail("output_tokens_details", "reasoning_tokens"),
        ..Usage::default()
    };
    (usage != Usage::default()).then_some(usage)
}

/// An error in the middle of an answer, with the status that it would have had in front of one.
fn told(error: &Value) -> ServerReportedError {
    let field = |name: &str| text(error.get(name)).to_owned();
    let (code, message) = (field("code"), field("message"));
    let message = match (&*message, &*code) {
        ("", "") => "the server ended the answer with an error",
        ("", code) => code,
        (message, _) => message,
    };
    let labels = [code.clone(), field("type")];
    let reported = reported(message, &labels);
    let status = match &*code {
        "rate_limit_exceeded" | "insufficient_quota" => Some(429),
        "server_is_overloaded" | "slow_down" => Some(503),
        "server_error" => Some(500),
        _ => None,
    };
    ServerReportedError {
        param: Some(field("param")).filter(|it| !it.is_empty()),
        status: status.filter(|_| reported.kind != ReportedKind::ContextOverflow),
        retry_after_ms: wait_in(message),
        ..reported
    }
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}
