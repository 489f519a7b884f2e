//! One reply while it arrives: chunk after chunk becomes deltas at once and is added to the reply, within the caps.

use serde_json::{Map, Value};

use super::chunk::{self, Chunk, Kind, Piece, Reported};
use crate::clock;
use crate::core::assemble::{Assembler, Ending, Excess, merge};
use crate::core::reply::{Delta, Failure, Reply};

/// Text and reasoning of one answer (R13).
pub(super) const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// One frame that cannot be decoded is skipped; this many in a row are no stream (R16).
const MAX_BAD_FRAMES: u32 = 3;
const REASONING_CONTENT: &str = "reasoning_content";

#[derive(Debug)]
pub(super) struct Answer<'a> {
    asked: &'a str,
    reply: Reply,
    calls: Assembler,
    extra_bytes: usize,
    choice: Option<u64>,
    reasoning_content: bool,
    bad_frames: u32,
}

/// What a frame did for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing that a person would see.
    None,
    Content,
    /// The stream said that it is over.
    Done,
}

impl<'a> Answer<'a> {
    pub(super) fn new(asked: &'a str) -> Self {
        Self {
            asked,
            reply: Reply::default(),
            calls: Assembler::default(),
            extra_bytes: 0,
            choice: None,
            reasoning_content: false,
            bad_frames: 0,
        }
    }

    /// Whether the server said why it stopped. What comes after that is no longer needed.
    pub(super) fn finished(&self) -> bool {
        self.reply.finish.is_some()
    }

    /// Takes one event of the stream.
    pub(super) fn event(
        &mut self,
        name: &str,
        data: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<Progress, Failure> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(Progress::None);
        }
        if data == "[DONE]" {
            return Ok(Progress::Done);
        }
        if name == "error" {
            let object = serde_json::from_str::<Map<String, Value>>(data).unwrap_or_default();
            let told = chunk::error(&object).unwrap_or_else(|| {
                let message = object.get("message").and_then(Value::as_str);
                chunk::reported(message.unwrap_or(data), &[])
            });
            return Err(api(told));
        }
        let Ok(object) = serde_json::from_str::<Map<String, Value>>(data) else {
            self.bad_frames += 1;
            self.note("skipped a part of the stream that was not JSON");
            if self.bad_frames == MAX_BAD_FRAMES {
                return Err(Failure::Api {
                    message: format!("{MAX_BAD_FRAMES} parts of the stream in a row were not JSON"),
                    overflow: false,
                });
            }
            return Ok(Progress::None);
        };
        self.bad_frames = 0;
        self.chunk(chunk::read(object), sink)
    }

    /// Takes an answer that came whole, from a server that does not stream.
    pub(super) fn whole(
        &mut self,
        body: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), Failure> {
        let read = serde_json::from_str::<Map<String, Value>>(body).map(chunk::read);
        match read {
            Ok(chunk) if chunk.whole || chunk.error.is_some() => {
                self.chunk(chunk, sink)?;
                self.note("the server answered without streaming");
                Ok(())
            }
            Ok(_) | Err(_) => Err(not_a_stream(body)),
        }
    }

    fn chunk(
        &mut self,
        chunk: Chunk,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<Progress, Failure> {
        if let Some(model) = chunk.model
            && model != self.asked
            && self.reply.served_by.is_none()
        {
            self.reply.served_by = Some(model);
        }
        if chunk.usage.is_some() {
            self.reply.usage = chunk.usage;
        }
        if chunk.choice.is_some() && self.choice.is_none() {
            self.choice = chunk.choice;
        }
        // Nobody asked for a second choice, and two of them mixed are no answer.
        let other_choice = chunk.choice.is_some() && chunk.choice != self.choice;
        // Some servers repeat the whole message in the last chunk.
        let repeated = chunk.whole && (!self.reply.text.is_empty() || self.calls.any());
        let mut progress = Progress::None;
        if !other_choice && !repeated {
            for piece in chunk.pieces {
                self.piece(piece, sink)?;
                progress = Progress::Content;
            }
            self.calls
                .push(chunk.calls, |call, name, text| {
                    progress = Progress::Content;
                    sink(Delta::Arguments { call, name, text });
                })
                .map_err(|excess: Excess| Failure::TooLarge(excess.to_string()))?;
            merge(&mut self.reply.extra, chunk.extra, &mut self.extra_bytes);
        }
        if let Some(told) = chunk.error {
            return Err(api(told));
        }
        if chunk.finish.is_some() && !other_choice {
            self.reply.finish = chunk.finish;
            progress = Progress::Content;
        }
        Ok(progress)
    }

    fn piece(&mut self, piece: Piece, sink: &mut impl FnMut(Delta<'_>)) -> Result<(), Failure> {
        let (text, is_reasoning) = match piece {
            Piece::Text(text) => (text, false),
            Piece::Refusal(text) => {
                self.reply.refused = true;
                (text, false)
            }
            Piece::ReasoningContent(text) => {
                self.reasoning_content = true;
                (text, true)
            }
            Piece::Reasoning(text) => (text, true),
        };
        if self.reply.text.len() + self.reply.reasoning.len() + text.len() > MAX_TEXT_BYTES {
            return Err(Failure::TooLarge(format!(
                "the answer is longer than {} MiB",
                MAX_TEXT_BYTES / 1024 / 1024
            )));
        }
        if is_reasoning {
            sink(Delta::Reasoning(&text));
            self.reply.reasoning.push_str(&text);
        } else {
            sink(Delta::Text(&text));
            self.reply.text.push_str(&text);
        }
        Ok(())
    }

    pub(super) fn note(&mut self, note: &str) {
        if self.reply.notes.iter().all(|known| known != note) {
            self.reply.notes.push(note.to_owned());
        }
    }

    pub(super) fn finish(mut self, ending: Ending) -> Reply {
        if self.calls.without_index() {
            self.note("tool calls came without an index; their order was worked out");
        }
        let make_id = || format!("call_{}", clock::ulid());
        self.reply.calls = self.calls.finish(ending, make_id);
        if self.reasoning_content && !self.reply.calls.is_empty() {
            self.reply.extra.insert(
                REASONING_CONTENT.to_owned(),
                Value::String(self.reply.reasoning.clone()),
            );
        }
        self.reply
    }
}

fn api(told: Reported) -> Failure {
    Failure::Api {
        overflow: told.kind == Kind::ContextOverflow,
        message: told.message,
    }
}

/// For a 2xx answer that is neither a stream nor a whole answer.
pub(super) fn not_a_stream(start: &str) -> Failure {
    Failure::Api {
        message: format!("the server answered with no event stream: {start}"),
        overflow: false,
    }
}
