//! What an answer in Anthropic's messages says: blocks that begin, grow and end, each with a number, and what the whole
//! took. Events are told by the `type` in their data, since gateways leave their names out.

use std::collections::BTreeMap;

use aishd_log::usage::Usage;
use aishd_model::call_assembly::CallFragment;
use aishd_model::reply::FinishReason;
use serde_json::{Map, Value, json};

use crate::chunk::{AnswerChunk, ChunkPiece};
use crate::server_error::{ReportedKind, ServerReportedError, reported, wait_in};

/// Blocks of one answer; more of them mean nothing.
const MOST_BLOCKS: u64 = 1024;
/// A thought is signed with less.
const MAX_SIGNATURE_BYTES: usize = 1024 * 1024;

#[derive(Debug, Default)]
pub struct MessagesDecoder {
    blocks: BTreeMap<u64, AnswerBlock>,
    /// The one that was opened last, for pieces that do not say theirs.
    last: u64,
    calls: u64,
    counted: CountedTokens,
}

#[derive(Debug)]
enum AnswerBlock {
    Text,
    /// With what it began with, and what has come of its two texts.
    Thinking {
        thinking: String,
        signature: String,
    },
    Call {
        number: u64,
        /// Input that was there at its beginning; pieces of it go before that.
        whole: Option<String>,
    },
    Other,
}

/// Tokens as they were counted last: later counts are of the whole answer.
#[derive(Clone, Copy, Debug, Default)]
struct CountedTokens {
    input: Option<u64>,
    cache_read: Option<u64>,
    cache_written: Option<u64>,
    output: Option<u64>,
}

impl MessagesDecoder {
    pub(crate) fn read(&mut self, mut event: Map<String, Value>) -> AnswerChunk {
        let kind = text(event.get("type")).to_owned();
        match &*kind {
            "message_start" => self.start(event.remove("message")),
            "content_block_start" => {
                let at = self.place(&event);
                let Some(Value::Object(block)) = event.remove("content_block") else {
                    return AnswerChunk::default();
                };
                self.open(at, block)
            }
            "content_block_delta" => {
                let at = self.place(&event);
                let Some(Value::Object(delta)) = event.remove("delta") else {
                    return AnswerChunk::default();
                };
                self.grow(at, &delta)
            }
            "content_block_stop" => {
                let at = self.place(&event);
                self.close(at)
            }
            "message_delta" => {
                self.counted.take(event.get("usage"));
                let mut chunk = AnswerChunk {
                    usage: self.counted.usage(),
                    ..AnswerChunk::default()
                };
                let delta = event.get("delta");
                stopped(text(delta.and_then(|it| it.get("stop_reason"))), &mut chunk);
                chunk
            }
            "message_stop" => AnswerChunk {
                done: true,
                ..AnswerChunk::default()
            },
            "ping" => AnswerChunk::default(),
            "error" => AnswerChunk {
                error: Some(told(&event)),
                ..AnswerChunk::default()
            },
            // What servers in between say in their own form.
            "" => AnswerChunk {
                error: crate::server_error::error(&event),
                ..AnswerChunk::default()
            },
            other => AnswerChunk::unknown("an event", other),
        }
    }

    pub(crate) fn read_whole(&mut self, mut message: Map<String, Value>) -> AnswerChunk {
        if let Some(error) = crate::server_error::error(&message) {
            let error = Some(if text(message.get("type")) == "error" {
                told(&message)
            } else {
                error
            });
            return AnswerChunk {
                error,
                ..AnswerChunk::default()
            };
        }
        let Some(Value::Array(blocks)) = message.remove("content") else {
            return AnswerChunk::default();
        };
        let mut whole = AnswerChunk {
            whole: text(message.get("type")) == "message",
            ..AnswerChunk::default()
        };
        for (at, block) in (0..).zip(blocks) {
            let Value::Object(block) = block else {
                continue;
            };
            for chunk in [self.open(at, block), self.close(at)] {
                whole.pieces.extend(chunk.pieces);
                whole.calls.extend(chunk.calls);
                whole.note = whole.note.or(chunk.note);
            }
        }
        stopped(text(message.get("stop_reason")), &mut whole);
        let begun = self.start(Some(Value::Object(message)));
        AnswerChunk {
            model: begun.model,
            usage: begun.usage,
            ..whole
        }
    }

    fn start(&mut self, message: Option<Value>) -> AnswerChunk {
        let Some(Value::Object(message)) = message else {
            return AnswerChunk::default();
        };
        self.counted.take(message.get("usage"));
        AnswerChunk {
            model: Some(text(message.get("model")).to_owned()).filter(|it| !it.is_empty()),
            usage: self.counted.usage(),
            ..AnswerChunk::default()
        }
    }

    fn place(&mut self, event: &Map<String, Value>) -> u64 {
        let at = event.get("index").and_then(Value::as_u64);
        self.last = at.unwrap_or(self.last).min(MOST_BLOCKS);
        self.last
    }

    fn open(&mut self, at: u64, block: Map<String, Value>) -> AnswerChunk {
        let field = |name: &str| text(block.get(name)).to_owned();
        let kind = field("type");
        match &*kind {
            "text" => {
                self.blocks.insert(at, AnswerBlock::Text);
                said(ChunkPiece::Text, field("text"))
            }
            "thinking" => {
                let (thinking, signature) = (field("thinking"), field("signature"));
                let chunk = said(ChunkPiece::Reasoning, thinking.clone());
                let block = AnswerBlock::Thinking {
                    thinking,
                    signature,
                };
                self.blocks.insert(at, block);
                chunk
            }
            "redacted_thinking" => {
                self.blocks.insert(at, AnswerBlock::Other);
                AnswerChunk::of(ChunkPiece::Seal(Value::Object(block).to_string()))
            }
            "tool_use" => {
                let number = self.calls;
                self.calls += 1;
                let input = block.get("input").and_then(Value::as_object);
                let whole = input
                    .filter(|it| !it.is_empty())
                    .map(|it| Value::Object(it.clone()).to_string());
                self.blocks.insert(at, AnswerBlock::Call { number, whole });
                AnswerChunk::call(CallFragment {
                    index: Some(number),
                    id: Some(field("id")),
                    name: Some(field("name")),
                    ..CallFragment::default()
                })
            }
            other => {
                self.blocks.insert(at, AnswerBlock::Other);
                AnswerChunk::unknown("a block", other)
            }
        }
    }

    fn grow(&mut self, at: u64, delta: &Map<String, Value>) -> AnswerChunk {
        let field = |name: &str| text(delta.get(name)).to_owned();
        let kind = field("type");
        match (&*kind, self.blocks.get_mut(&at)) {
            ("text_delta", _) => said(ChunkPiece::Text, field("text")),
            ("thinking_delta", block) => {
                let more = field("thinking");
                if let Some(AnswerBlock::Thinking { thinking, .. }) = block {
                    thinking.push_str(&more);
                }
                said(ChunkPiece::Reasoning, more)
            }
            ("signature_delta", block) => {
                if let Some(AnswerBlock::Thinking { signature, .. }) = block {
                    let more = field("signature");
                    // One that is cut is refused by its server, and then left out.
                    if signature.len() + more.len() <= MAX_SIGNATURE_BYTES {
                        signature.push_str(&more);
                    }
                }
                AnswerChunk::default()
            }
            ("input_json_delta", Some(AnswerBlock::Call { number, whole })) => {
                let arguments = field("partial_json");
                if !arguments.is_empty() {
                    *whole = None;
                }
                AnswerChunk::call(CallFragment {
                    index: Some(*number),
                    arguments,
                    ..CallFragment::default()
                })
            }
            // Of a block that was passed over.
            ("input_json_delta" | "citations_delta", _) => AnswerChunk::default(),
            (other, _) => AnswerChunk::unknown("a part", other),
        }
    }

    fn close(&mut self, at: u64) -> AnswerChunk {
        match self.blocks.remove(&at) {
            // Without its signature it is nobody's, and the server would refuse it.
            Some(AnswerBlock::Thinking {
                thinking,
                signature,
            }) if !signature.is_empty() => {
                let block =
                    json!({"type": "thinking", "thinking": thinking, "signature": signature});
                AnswerChunk::of(ChunkPiece::Seal(block.to_string()))
            }
            Some(AnswerBlock::Call {
                number,
                whole: Some(arguments),
            }) => AnswerChunk::call(CallFragment {
                index: Some(number),
                arguments,
                ..CallFragment::default()
            }),
            Some(
                AnswerBlock::Thinking { .. }
                | AnswerBlock::Call { whole: None, .. }
                | AnswerBlock::Text
                | AnswerBlock::Other,
            )
            | None => AnswerChunk::default(),
        }
    }
}

fn stopped(reason: &str, chunk: &mut AnswerChunk) {
    chunk.finish = match reason {
        "" => return,
        "end_turn" | "stop_sequence" => Some(FinishReason::Stop),
        "tool_use" => Some(FinishReason::ToolCalls),
        "max_tokens" | "model_context_window_exceeded" => Some(FinishReason::Length),
        "refusal" => Some(FinishReason::ContentFilter),
        "pause_turn" => Some(FinishReason::Paused),
        _ => Some(FinishReason::Other),
    };
}

impl CountedTokens {
    fn take(&mut self, usage: Option<&Value>) {
        let number = |name: &str| usage.and_then(|it| it.get(name)).and_then(Value::as_u64);
        for (count, name) in [
            (&mut self.input, "input_tokens"),
            (&mut self.cache_read, "cache_read_input_tokens"),
            (&mut self.cache_written, "cache_creation_input_tokens"),
            (&mut self.output, "output_tokens"),
        ] {
            *count = number(name).or(*count);
        }
    }

    /// What is cached is counted beside the rest here; ours is all of it.
    fn usage(self) -> Option<Usage> {
        let Self {
            input,
            cache_read,
            cache_written,
            output,
        } = self;
        let parts = [input, cache_read, cache_written];
        let all = parts.into_iter().flatten().reduce(u64::saturating_add);
        let usage = Usage {
            input: all,
            output,
            cached_input: cache_read,
            cache_written,
            ..Usage::default()
        };
        (usage != Usage::default()).then_some(usage)
    }
}

/// An error in the middle of an answer, with the status that it would have had in front of one.
fn told(event: &Map<String, Value>) -> ServerReportedError {
    let error = event.get("error");
    let field = |name: &str| text(error.and_then(|it| it.get(name))).to_owned();
    let (kind, message) = (field("type"), field("message"));
    let message = if message.is_empty() {
        Value::Object(event.clone()).to_string()
    } else {
        message
    };
    let reported = reported(&message, std::slice::from_ref(&kind));
    let status = match &*kind {
        "overloaded_error" => Some(529),
        "rate_limit_error" => Some(429),
        "authentication_error" => Some(401),
        "billing_error" => Some(402),
        "permission_error" => Some(403),
        "request_too_large" => Some(413),
        "timeout_error" => Some(504),
        "api_error" => Some(500),
        _ => None,
    };
    ServerReportedError {
        status: status.filter(|_| reported.kind != ReportedKind::ContextOverflow),
        retry_after_ms: wait_in(&message),
        ..reported
    }
}

fn said(piece: fn(String) -> ChunkPiece, text: String) -> AnswerChunk {
    if text.is_empty() {
        AnswerChunk::default()
    } else {
        AnswerChunk::of(piece(text))
    }
}

fn text(value: Option<&Value>) -> &str {
    value.and_then(Value::as_str).unwrap_or_default()
}
