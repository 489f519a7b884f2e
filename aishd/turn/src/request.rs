//! The body of one model request, made from a preset and a transcript. The same function serves the real call and every preview of it.

use aishd_dialect::prompt::{Prompt, PromptItem, PromptPurpose, PromptTool, SharedText};
use aishd_log::picture::NamedPicture;
use aishd_log::pinned_resource::PinnedContent;
use aishd_model::context_budget::LoopMode;
use aishd_model::optional_fields::{OutputLimit, RequestOptions};
use aishd_model::preset::Preset;
use aishd_rules::catalog::ToolOffer;

use crate::exchange::json_bytes;
use crate::transcript::{Transcript, TranscriptMessage};

pub mod completion;
pub mod fit;
mod pictures;
pub mod system_message;

use self::pictures::{MadePictures, ShownOfMessage, ShownPictures};

/// Characters of a tool's description that the model is shown.
const DESCRIPTION_BYTES: usize = 4096;

/// Stands in for a reply that is missing, so that strict templates never see an orphaned call.
pub(super) const NO_RESULT: &str = "[aish] no result";

/// A request body.
#[derive(Clone, Debug, PartialEq)]
pub struct WeighedBody {
    /// As it goes out, byte for byte.
    pub text: String,
    /// What it is measured by: its bytes, but of a picture those of a text that is as many tokens.
    pub weight: usize,
}

/// The request body as it goes out.
pub fn body(
    preset: &Preset,
    transcript: &Transcript,
    offer: &ToolOffer,
    pinned: &[PinnedContent],
    mode: LoopMode,
) -> WeighedBody {
    let offer = Some(offer).filter(|it| preset.tools && !it.is_empty());
    let system = system_message::text(transcript, offer, mode);
    let mut pictures = ShownPictures::new(preset, transcript);
    let mut items = if preset.use_tool_role {
        with_tool_role(transcript, preset, &mut pictures)
    } else {
        without_tool_role(transcript, &mut pictures)
    };
    pin(&mut items, pinned);
    let prompt = Prompt {
        system: &system,
        items,
        tools: offer.map(tools).unwrap_or_default(),
        options: RequestOptions {
            temperature: preset.temperature,
            limit: preset.max_tokens.map(OutputLimit::Set),
            stop: &[],
        },
        purpose: PromptPurpose::Conversation {
            key: transcript.cache_key(),
        },
    };
    let text = aishd_dialect::encode(preset, &prompt);
    let weight = pictures.weight(&text);
    WeighedBody { text, weight }
}

/// The system message of a request with these tools, as it goes out.
pub fn system(
    preset: &Preset,
    transcript: &Transcript,
    offer: &ToolOffer,
    mode: LoopMode,
) -> String {
    let offer = Some(offer).filter(|it| preset.tools && !it.is_empty());
    system_message::text(transcript, offer, mode)
}

/// What of a request is neither question nor answer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestBytes {
    /// The system message without the two that follow.
    pub system: usize,
    /// What it tells of the directory.
    pub project: usize,
    pub summary: usize,
    pub tools: usize,
    pub pinned: usize,
}

pub fn parts(
    preset: &Preset,
    transcript: &Transcript,
    offer: &ToolOffer,
    pinned: &[PinnedContent],
    mode: LoopMode,
) -> RequestBytes {
    let offers = preset.tools && !offer.is_empty();
    let offered = offers.then_some(offer);
    let summary = match mode {
        LoopMode::Talk => transcript.summary().map_or(0, |it| it.block().len()),
        LoopMode::Norris => 0,
    };
    let project = transcript.project().map_or(0, str::len);
    let tools = aishd_dialect::tools_bytes(preset.api(), &tools(offer));
    RequestBytes {
        system: system_message::text(transcript, offered, mode).len() - summary - project,
        project,
        summary,
        tools: if offers { tools } else { 0 },
        pinned: usize::try_from(json_bytes(&in_front(pinned))).unwrap_or(usize::MAX),
    }
}

/// Resources stand before the newest question: what comes before it stays byte for byte what it was, and a local server
/// need not read that again.
fn pin(items: &mut [PromptItem<'_>], pinned: &[PinnedContent]) {
    if pinned.is_empty() {
        return;
    }
    let mut text = in_front(pinned);
    let newest = items.iter_mut().rev().find_map(|it| match it {
        PromptItem::User { text, .. } => Some(text),
        PromptItem::Assistant { .. } | PromptItem::Tool { .. } => None,
    });
    if let Some(question) = newest {
        text.push_str(question);
        *question = text.into();
    }
}

fn in_front(pinned: &[PinnedContent]) -> String {
    pinned.iter().map(|it| it.block() + "\n\n").collect()
}

fn tools(offer: &ToolOffer) -> Vec<PromptTool<'_>> {
    let tools = offer.iter().map(|(name, tool)| {
        let cut = tool.description.floor_char_boundary(DESCRIPTION_BYTES);
        PromptTool {
            name,
            description: &tool.description[..cut],
            schema: &tool.schema,
        }
    });
    tools.collect()
}

fn with_tool_role<'a>(
    transcript: &'a Transcript,
    preset: &Preset,
    seen: &mut ShownPictures<'a>,
) -> Vec<PromptItem<'a>> {
    let origin = preset.seal_origin();
    let mut out = with_room(transcript);
    let mut owed: Vec<&str> = vec![];
    let mut made = MadePictures::default();
    for message in transcript.messages() {
        if !matches!(message, TranscriptMessage::Tool { .. }) {
            settle(&mut out, &mut owed);
        }
        match message {
            TranscriptMessage::User { text, pictures } => {
                push_user(&mut out, text.into(), made.before(seen.next(pictures)));
            }
            TranscriptMessage::Assistant {
                text,
                calls,
                extra,
                sealed,
                model_id,
                pictures,
            } => {
                let text = with_made((&**text).into(), pictures);
                if text.is_empty() && calls.is_empty() {
                    continue;
                }
                made.note(seen.next(pictures));
                owed.extend(calls.iter().map(|it| it.id.as_str()));
                out.push(PromptItem::Assistant {
                    text,
                    calls,
                    extra: (*model_id == preset.model).then_some(extra),
                    // Nobody else can open it.
                    sealed: sealed.as_deref().filter(|it| it.from == origin),
                });
            }
            TranscriptMessage::Tool {
                call,
                content,
                pictures,
                ..
            } => {
                let next = seen.next(pictures);
                if let Some(at) = owed.iter().position(|it| it == call) {
                    owed.remove(at);
                    out.push(PromptItem::Tool {
                        call,
                        content: with_lines(content.into(), &next.lines),
                        pictures: next.shown,
                    });
                }
            }
        }
    }
    settle(&mut out, &mut owed);
    out
}

/// The list, with room for a conversation without tools.
fn with_room<'a>(transcript: &Transcript) -> Vec<PromptItem<'a>> {
    Vec::with_capacity(2 * transcript.exchanges().len())
}

fn settle<'a>(out: &mut Vec<PromptItem<'a>>, owed: &mut Vec<&'a str>) {
    out.extend(owed.drain(..).map(|call| PromptItem::Tool {
        call,
        content: NO_RESULT.into(),
        pictures: vec![],
    }));
}

/// Only user and assistant, strictly taking turns; results go in front of the next user text.
fn without_tool_role<'a>(
    transcript: &'a Transcript,
    seen: &mut ShownPictures<'a>,
) -> Vec<PromptItem<'a>> {
    let mut out = with_room(transcript);
    let mut made = MadePictures::default();
    for message in transcript.messages() {
        match message {
            TranscriptMessage::User { text, pictures } => {
                push_user(&mut out, text.into(), made.before(seen.next(pictures)));
            }
            TranscriptMessage::Assistant { text, pictures, .. } => {
                let text = with_made((&**text).into(), pictures);
                if text.is_empty() {
                    continue;
                }
                made.note(seen.next(pictures));
                if let Some(PromptItem::Assistant { text: before, .. }) = out.last_mut() {
                    join(before, &text);
                } else {
                    out.push(PromptItem::Assistant {
                        text,
                        calls: &[],
                        extra: None,
                        sealed: None,
                    });
                }
            }
            TranscriptMessage::Tool {
                name,
                content,
                pictures,
                ..
            } => {
                let text = format!("[tool: {name}]\n{content}");
                push_user(&mut out, text.into(), seen.next(pictures));
            }
        }
    }
    out
}

/// Two user messages never stand side by side.
fn push_user<'a>(out: &mut Vec<PromptItem<'a>>, text: SharedText<'a>, with: ShownOfMessage<'a>) {
    let text = with_lines(text, &with.lines);
    if let Some(PromptItem::User {
        text: before,
        pictures,
    }) = out.last_mut()
    {
        join(before, &text);
        pictures.extend(with.shown);
    } else {
        let pictures = with.shown;
        out.push(PromptItem::User { text, pictures });
    }
}

fn with_lines<'a>(mut text: SharedText<'a>, lines: &[String]) -> SharedText<'a> {
    for line in lines {
        let text = text.to_mut();
        text.push('\n');
        text.push_str(line);
    }
    text
}

/// The lines that stand for what a model drew, in its own text: no dialect takes pictures there.
pub fn with_made<'a>(mut text: SharedText<'a>, made: &[NamedPicture]) -> SharedText<'a> {
    for picture in made {
        let text = text.to_mut();
        if !text.is_empty() {
            text.push_str("\n\n");
        }
        text.push_str(&picture.line());
    }
    text
}

fn join(before: &mut SharedText<'_>, text: &str) {
    let joined = before.to_mut();
    joined.push_str("\n\n");
    joined.push_str(text);
}

#[cfg(test)]
mod tests;
