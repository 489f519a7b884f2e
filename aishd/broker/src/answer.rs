//! One reply while it arrives: chunk after chunk becomes deltas at once and is added to the reply, within the caps.

use aishd_model::call_assembly::{Assembler, StreamEnding, StreamExcess, merge};
use aishd_model::reply::{Delta, Reply, RequestFailure};
use aishd_model::thinking::{AnswerPart, Splitter, ThinkingStart, ThinkingStatus, lone_end};
use aishd_platform::clock;
use serde_json::{Map, Value};

use super::chunk::{self, ChunkKind, ChunkPiece, CompletionChunk, ServerReportedError};

/// Text and reasoning of one answer.
pub(super) const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// One frame that cannot be decoded is skipped; this many in a row are no stream.
const MAX_BAD_FRAMES: u32 = 3;
const REASONING_CONTENT: &str = "reasoning_content";

/// What is known of an answer before it comes.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerContext<'a> {
    pub(super) model: &'a str,
    pub(super) think: ThinkingStart,
}

#[derive(Debug)]
pub(super) struct AnswerReader<'a> {
    asked: AnswerContext<'a>,
    /// What has come so far: whoever gave it has it also where the stream is given up.
    reply: &'a mut Reply,
    thinking: Splitter,
    calls: Assembler,
    extra_bytes: usize,
    choice: Option<u64>,
    reasoning_content: bool,
    bad_frames: u32,
    /// Some text has come.
    began: bool,
}

/// What a frame did for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameProgress {
    /// Nothing that a person would see.
    None,
    Content,
    /// The stream said that it is over.
    Done,
}

impl<'a> AnswerReader<'a> {
    pub(super) fn new(asked: AnswerContext<'a>, reply: &'a mut Reply) -> Self {
        *reply = Reply::default();
        Self {
            asked,
            reply,
            thinking: Splitter::new(asked.think),
            calls: Assembler::default(),
            extra_bytes: 0,
            choice: None,
            reasoning_content: false,
            bad_frames: 0,
            began: false,
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
    ) -> Result<FrameProgress, RequestFailure> {
        let data = data.trim();
        if data.is_empty() {
            return Ok(FrameProgress::None);
        }
        if data == "[DONE]" {
            return Ok(FrameProgress::Done);
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
                return Err(RequestFailure::Api {
                    message: format!("{MAX_BAD_FRAMES} parts of the stream in a row were not JSON"),
                    overflow: false,
                });
            }
            return Ok(FrameProgress::None);
        };
        self.bad_frames = 0;
        self.chunk(chunk::read(object), sink)
    }

    /// Takes an answer that came whole, from a server that does not stream.
    pub(super) fn read_unstreamed(
        &mut self,
        body: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), RequestFailure> {
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
        chunk: CompletionChunk,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<FrameProgress, RequestFailure> {
        if let Some(model) = chunk.model
            && model != self.asked.model
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
        let repeated = chunk.whole && (self.began || self.calls.any());
        let mut progress = FrameProgress::None;
        if !other_choice && !repeated {
            for piece in chunk.pieces {
                self.piece(piece, sink)?;
                progress = FrameProgress::Content;
            }
            self.calls
                .push(chunk.calls, |call, name, text| {
                    progress = FrameProgress::Content;
                    sink(Delta::Arguments { call, name, text });
                })
                .map_err(|excess: StreamExcess| RequestFailure::TooLarge(excess.to_string()))?;
            merge(&mut self.reply.extra, chunk.extra, &mut self.extra_bytes);
        }
        if let Some(told) = chunk.error {
            return Err(api(told));
        }
        if chunk.finish.is_some() && !other_choice {
            self.reply.finish = chunk.finish;
            progress = FrameProgress::Content;
        }
        Ok(progress)
    }

    fn piece(
        &mut self,
        piece: ChunkPiece,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), RequestFailure> {
        let bytes = match &piece {
            ChunkPiece::Text(text)
            | ChunkPiece::Refusal(text)
            | ChunkPiece::ReasoningContent(text)
            | ChunkPiece::Reasoning(text) => text.len(),
        };
        if self.reply.text.len() + self.reply.reasoning.len() + bytes > MAX_TEXT_BYTES {
            return Err(RequestFailure::TooLarge(format!(
                "the answer is longer than {} MiB",
                MAX_TEXT_BYTES / 1024 / 1024
            )));
        }
        let reply = &mut *self.reply;
        match piece {
            ChunkPiece::Text(text) => {
                self.began = true;
                self.thinking
                    .push(&text, |part| push_part(reply, part, sink));
            }
            ChunkPiece::Refusal(text) => {
                self.began = true;
                reply.refused = true;
                push_part(reply, AnswerPart::Text(&text), sink);
            }
            ChunkPiece::ReasoningContent(text) => {
                self.reasoning_content = true;
                push_part(reply, AnswerPart::Thinking(&text), sink);
            }
            ChunkPiece::Reasoning(text) => push_part(reply, AnswerPart::Thinking(&text), sink),
        }
        Ok(())
    }

    /// What was held back, because it could have been the beginning of a tag, is said.
    fn end_text(&mut self, ending: StreamEnding, sink: &mut impl FnMut(Delta<'_>)) {
        let reply = &mut *self.reply;
        let standing = self.thinking.finish(|part| push_part(reply, part, sink));
        let answers = !self.calls.any() && ending == StreamEnding::Complete;
        match standing {
            // Nobody thinks without an end and then says nothing: this time it did not think.
            ThinkingStatus::OnlyOpen if answers && reply.text.is_empty() => {
                reply.text = std::mem::take(&mut reply.reasoning);
            }
            ThinkingStatus::OnlyText if self.asked.think == ThinkingStart::Auto => {
                let found = lone_end(&reply.text).filter(|(_, answer)| {
                    // A text that only ends in a tag speaks of it.
                    !answer.is_empty() || self.calls.any()
                });
                if let Some((thinking, answer)) = found {
                    let answer = answer.to_owned();
                    reply.reasoning.push_str(thinking);
                    reply.text = answer;
                    reply.began_in_thinking = true;
                }
            }
            ThinkingStatus::OnlyOpen | ThinkingStatus::OnlyText | ThinkingStatus::Tagged => {}
        }
        if self.reply.began_in_thinking {
            self.note("the answer began in thinking, without a tag; later ones are read so from the start (think = \"open\")");
        }
    }

    pub(super) fn note(&mut self, note: &str) {
        if self.reply.notes.iter().all(|known| known != note) {
            self.reply.notes.push(note.to_owned());
        }
    }

    pub(super) fn finish(
        mut self,
        ending: StreamEnding,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Reply {
        self.end_text(ending, sink);
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
        std::mem::take(self.reply)
    }
}

fn push_part(reply: &mut Reply, part: AnswerPart<'_>, sink: &mut impl FnMut(Delta<'_>)) {
    match part {
        AnswerPart::Thinking(text) => {
            sink(Delta::Reasoning(text));
            reply.reasoning.push_str(text);
        }
        AnswerPart::Text(text) => {
            sink(Delta::Text(text));
            reply.text.push_str(text);
        }
    }
}

fn api(told: ServerReportedError) -> RequestFailure {
    RequestFailure::Api {
        overflow: told.kind == ChunkKind::ContextOverflow,
        message: told.message,
    }
}

/// For a 2xx answer that is neither a stream nor a whole answer.
pub(super) fn not_a_stream(start: &str) -> RequestFailure {
    if start.trim().is_empty() {
        return RequestFailure::Empty;
    }
    RequestFailure::Api {
        message: format!("the server answered with no event stream: {start}"),
        overflow: false,
    }
}
