//! One reply while it arrives: chunk after chunk becomes deltas at once and is added to the reply, within the caps.

use aishd_dialect::{AnswerChunk, AnswerDecoder, ChunkPiece, ReportedKind, ServerReportedError};
use aishd_log::api_dialect::ApiDialect;
use aishd_log::sealed_answer::{SealOrigin, SealedAnswer, SealedPart};
use aishd_model::call_assembly::{Assembler, StreamEnding, StreamExcess, merge};
use aishd_model::reply::{Delta, HttpDetail, Reply, RequestFailure};
use aishd_model::thinking::{AnswerPart, Splitter, ThinkingStart, ThinkingStatus, lone_end};
use aishd_model::written_call::{may_be_written_call, written_calls};
use aishd_platform::clock;
use serde_json::{Map, Value};

use super::made_pictures::{MadePictures, NoMadePicture};
use super::offered_tools::OfferedTools;

/// Text and reasoning of one answer.
pub(super) const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// Seals of one answer.
const MAX_SEAL_BYTES: usize = 1024 * 1024;
/// Parts of one answer; each is a piece of what is sealed, or text between two such.
const MOST_PARTS: usize = 4096;
/// What a server does in its own way is noted so many times in one answer.
const MOST_NOTES: usize = 16;
/// One frame that cannot be decoded is skipped; this many in a row are no stream.
const MAX_BAD_FRAMES: u32 = 3;
const REASONING_CONTENT: &str = "reasoning_content";

/// What is known of an answer before it comes.
#[derive(Clone, Debug)]
pub(super) struct AnswerContext {
    /// Who was asked for it.
    pub(super) from: SealOrigin,
    pub(super) think: ThinkingStart,
    pub(super) offered: OfferedTools,
}

#[derive(Debug)]
pub(super) struct AnswerReader<'a> {
    asked: AnswerContext,
    decoder: AnswerDecoder,
    /// What has come so far: whoever gave it has it also where the stream is given up.
    reply: &'a mut Reply,
    thinking: Splitter,
    calls: Assembler,
    parts: Vec<SealedPart>,
    pictures: MadePictures,
    seal_bytes: usize,
    extra_bytes: usize,
    choice: Option<u64>,
    reasoning_content: bool,
    bad_frames: u32,
    /// Some text has come.
    began: bool,
    /// Bytes of the text that somebody has been shown.
    shown: usize,
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
    pub(super) fn new(asked: AnswerContext, reply: &'a mut Reply) -> Self {
        *reply = Reply::default();
        Self {
            decoder: AnswerDecoder::new(asked.from.api),
            thinking: Splitter::new(asked.think),
            asked,
            reply,
            calls: Assembler::default(),
            parts: vec![],
            pictures: MadePictures::default(),
            seal_bytes: 0,
            extra_bytes: 0,
            choice: None,
            reasoning_content: false,
            bad_frames: 0,
            began: false,
            shown: 0,
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
        let is_chat = self.asked.from.api == ApiDialect::Chat;
        if data == "[DONE]" {
            // Elsewhere it is a habit of servers in between, and says nothing.
            return Ok(if is_chat || self.finished() {
                FrameProgress::Done
            } else {
                FrameProgress::None
            });
        }
        if name == "error" && is_chat {
            let object = serde_json::from_str::<Map<String, Value>>(data).unwrap_or_default();
            let told = aishd_dialect::error(&object).unwrap_or_else(|| {
                let message = object.get("message").and_then(Value::as_str);
                aishd_dialect::reported(message.unwrap_or(data), &[])
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
        let chunk = self.decoder.read(data, object);
        self.chunk(chunk, sink)
    }

    /// Takes an answer that came whole, from a server that does not stream.
    pub(super) fn read_unstreamed(
        &mut self,
        body: &str,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<(), RequestFailure> {
        let read = serde_json::from_str::<Map<String, Value>>(body);
        match read.map(|it| self.decoder.read_whole(body, it)) {
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
        chunk: AnswerChunk,
        sink: &mut impl FnMut(Delta<'_>),
    ) -> Result<FrameProgress, RequestFailure> {
        if let Some(model) = chunk.model
            && !is_dated(&model, &self.asked.from.model)
            && self.reply.served_by.is_none()
        {
            self.reply.served_by = Some(model);
        }
        if chunk.usage.is_some() {
            self.reply.usage = chunk.usage;
        }
        if let Some(note) = &chunk.note {
            self.note(note);
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
            let opened = self.calls.len();
            self.calls
                .push(chunk.calls, |call, name, text| {
                    progress = FrameProgress::Content;
                    sink(Delta::Arguments { call, name, text });
                })
                .map_err(|excess: StreamExcess| RequestFailure::TooLarge(excess.to_string()))?;
            self.parts
                .extend((opened..self.calls.len()).map(SealedPart::Call));
            merge(&mut self.reply.extra, chunk.extra, &mut self.extra_bytes);
        }
        if let Some(told) = chunk.error {
            return Err(api(told));
        }
        if chunk.finish.is_some() && !other_choice {
            self.reply.finish = chunk.finish;
            progress = FrameProgress::Content;
        }
        if chunk.done {
            progress = FrameProgress::Done;
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
            // They have a room of their own.
            ChunkPiece::Picture(_) => 0,
            ChunkPiece::Phase(sealed) | ChunkPiece::Seal(sealed) => {
                self.seal_bytes += sealed.len();
                0
            }
        };
        let whole = self.reply.text.len() + self.reply.reasoning.len() + self.seal_bytes + bytes;
        if whole > MAX_TEXT_BYTES || self.parts.len() >= MOST_PARTS {
            return Err(RequestFailure::TooLarge(format!(
                "the answer is longer than {} MiB",
                MAX_TEXT_BYTES / 1024 / 1024
            )));
        }
        let reply = &mut *self.reply;
        let said = reply.text.len();
        match piece {
            ChunkPiece::Text(text) => {
                self.began = true;
                let (shown, offered) = (&mut self.shown, &self.asked.offered);
                self.thinking
                    .push(&text, |part| push_part(reply, (shown, offered), part, sink));
            }
            ChunkPiece::Refusal(text) => {
                self.began = true;
                reply.refused = true;
                let held = (&mut self.shown, &self.asked.offered);
                push_part(reply, held, AnswerPart::Text(&text), sink);
            }
            ChunkPiece::Phase(phase) => self.parts.push(SealedPart::Text {
                bytes: 0,
                phase: Some(phase),
            }),
            ChunkPiece::Seal(json) => self.parts.push(SealedPart::Seal(json)),
            ChunkPiece::ReasoningContent(text) => {
                self.reasoning_content = true;
                push_thinking(reply, &text, sink);
            }
            ChunkPiece::Reasoning(text) => push_thinking(reply, &text, sink),
            ChunkPiece::Picture(url) => {
                self.began = true;
                let (held, pictures) = ((&mut self.shown, &self.asked.offered), &mut self.pictures);
                match pictures.take(&url) {
                    Ok(kept) => reply.pictures.extend(kept),
                    // Nobody fetches it; whoever reads the answer may.
                    Err(NoMadePicture::Elsewhere) => {
                        let line = format!("![picture]({url})\n");
                        push_part(reply, held, AnswerPart::Text(&line), sink);
                    }
                    Err(NoMadePicture::Other(why)) => self.note(&why),
                }
            }
        }
        let more = self.reply.text.len() - said;
        match self.parts.last_mut() {
            _ if more == 0 => {}
            Some(SealedPart::Text { bytes, .. }) => *bytes += more,
            Some(SealedPart::Seal(_) | SealedPart::Call(_)) | None => {
                self.parts.push(SealedPart::Text {
                    bytes: more,
                    phase: None,
                });
            }
        }
        Ok(())
    }

    /// What the server wants back, where it sealed something. Half an answer is worth nothing to it.
    fn sealed(&mut self, ending: StreamEnding) -> Option<Box<SealedAnswer>> {
        let parts = std::mem::take(&mut self.parts);
        let is_sealed = |it: &SealedPart| {
            matches!(
                it,
                SealedPart::Seal(_) | SealedPart::Text { phase: Some(_), .. }
            )
        };
        if ending == StreamEnding::Broken || !parts.iter().any(is_sealed) {
            return None;
        }
        if self.seal_bytes > MAX_SEAL_BYTES {
            self.note("what the model thought is too long to be sent back to it");
            return None;
        }
        let from = self.asked.from.clone();
        Some(Box::new(SealedAnswer { from, parts }))
    }

    /// What was held back, because it could have been the beginning of a tag, is said.
    fn end_text(&mut self, ending: StreamEnding, sink: &mut impl FnMut(Delta<'_>)) {
        let reply = &mut *self.reply;
        let (shown, offered) = (&mut self.shown, &self.asked.offered);
        let standing = self
            .thinking
            .finish(|part| push_part(reply, (&mut *shown, offered), part, sink));
        self.end_held_text(ending, sink);
        let reply = &mut *self.reply;
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

    /// What was held back, because it could have been the beginning of a call, is that call or is said.
    fn end_held_text(&mut self, ending: StreamEnding, sink: &mut impl FnMut(Delta<'_>)) {
        if self.shown > 0 || self.reply.text.is_empty() {
            return;
        }
        let calls = if ending == StreamEnding::Complete && !self.calls.any() && self.seal_bytes == 0
        {
            written_calls(&self.reply.text, self.asked.offered.names())
        } else {
            vec![]
        };
        let placed = |call, name: &str, text: &str| sink(Delta::Arguments { call, name, text });
        if calls.is_empty() || self.calls.push(calls, placed).is_err() {
            sink(Delta::Text(&self.reply.text));
            self.shown = self.reply.text.len();
            return;
        }
        self.reply.text.clear();
        self.parts = (0..self.calls.len()).map(SealedPart::Call).collect();
        self.note("the model wrote its call as text; it was taken for one");
    }

    pub(super) fn note(&mut self, note: &str) {
        let notes = &self.reply.notes;
        if notes.len() < MOST_NOTES && notes.iter().all(|known| known != note) {
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
        self.reply.sealed = self.sealed(ending);
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

/// `held` is how much of the text was shown, and the tools of which it may become a call: then it is not shown yet.
fn push_part(
    reply: &mut Reply,
    held: (&mut usize, &OfferedTools),
    part: AnswerPart<'_>,
    sink: &mut impl FnMut(Delta<'_>),
) {
    let (shown, offered) = held;
    let text = match part {
        AnswerPart::Thinking(text) => return push_thinking(reply, text, sink),
        AnswerPart::Text(text) => text,
    };
    reply.text.push_str(text);
    if *shown == 0 && may_be_written_call(&reply.text, || offered.names()) {
        return;
    }
    if let Some(unshown) = reply.text.get(*shown..) {
        sink(Delta::Text(unshown));
    }
    *shown = reply.text.len();
}

fn push_thinking(reply: &mut Reply, text: &str, sink: &mut impl FnMut(Delta<'_>)) {
    sink(Delta::Reasoning(text));
    reply.reasoning.push_str(text);
}

fn api(told: ServerReportedError) -> RequestFailure {
    let Some(status) = told.status else {
        return RequestFailure::Api {
            overflow: told.kind == ReportedKind::ContextOverflow,
            message: told.message,
        };
    };
    RequestFailure::Http {
        status,
        message: told.message,
        retry_after_ms: told.retry_after_ms,
        detail: match told.kind {
            ReportedKind::ContextOverflow => HttpDetail::ContextOverflow,
            ReportedKind::RefusesSeals => HttpDetail::RefusesSeals,
            ReportedKind::ModelNotFound | ReportedKind::Other => HttpDetail::None,
        },
    }
}

/// Whether it is the model that was asked for, or that with the day of its version: `gpt-5` and `gpt-5-2025-08-07`.
fn is_dated(served: &str, asked: &str) -> bool {
    let Some(rest) = served.strip_prefix(asked) else {
        return false;
    };
    let digits = rest.bytes().filter(u8::is_ascii_digit).count();
    rest.is_empty()
        || (rest.starts_with('-')
            && digits == 8
            && rest.bytes().all(|it| it == b'-' || it.is_ascii_digit()))
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
