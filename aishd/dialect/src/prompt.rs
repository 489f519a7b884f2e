//! What a request says, in no dialect yet.

use std::borrow::Cow;

use aishd_log::picture::Picture;
use aishd_log::sealed_answer::{SealedAnswer, SealedPart};
use aishd_log::tool_call::ToolCall;
use aishd_model::optional_fields::RequestOptions;
use serde_json::{Map, Value};

/// One request.
#[derive(Debug, Default)]
pub struct Prompt<'a> {
    /// Empty: there is none.
    pub system: &'a str,
    pub items: Vec<PromptItem<'a>>,
    pub tools: Vec<PromptTool<'a>>,
    pub options: RequestOptions<'a>,
    pub purpose: PromptPurpose<'a>,
}

/// What it is a part of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptPurpose<'a> {
    /// A question beside all conversations: nothing like it comes again, so that it is worth no server's memory.
    #[default]
    Aside,
    /// A conversation, whose next request begins as this one does.
    Conversation {
        /// The same for all requests of it.
        key: Option<&'a str>,
    },
}

/// One message of it. Two of the person never stand side by side.
#[derive(Clone, Debug)]
pub enum PromptItem<'a> {
    User {
        text: SharedText<'a>,
        pictures: Vec<PromptPicture<'a>>,
    },
    Assistant {
        text: SharedText<'a>,
        calls: &'a [ToolCall],
        /// Fields that the chat of this model wants back; `None`: another model wrote it.
        extra: Option<&'a Map<String, Value>>,
        /// Seals that this very server and model gave.
        sealed: Option<&'a SealedAnswer>,
    },
    /// The one reply of a call.
    Tool {
        call: &'a str,
        content: SharedText<'a>,
        pictures: Vec<PromptPicture<'a>>,
    },
}

/// A picture or a PDF beside a text.
#[derive(Clone, Copy, Debug)]
pub struct PromptPicture<'a> {
    pub name: &'a str,
    pub picture: &'a Picture,
}

impl PromptPicture<'_> {
    fn room(&self) -> usize {
        const AROUND: usize = 128;
        AROUND + self.name.len() + self.picture.data.len()
    }
}

/// A tool as it is offered, under the name that servers take.
#[derive(Clone, Copy, Debug)]
pub struct PromptTool<'a> {
    pub name: &'a str,
    pub description: &'a str,
    pub schema: &'a Value,
}

/// A text that is only copied when something is joined to it.
pub type SharedText<'a> = Cow<'a, str>;

/// A part of an answer, in its place.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AnswerPart<'a> {
    Seal(&'a str),
    Text {
        text: &'a str,
        phase: Option<&'a str>,
    },
    Call(&'a ToolCall),
}

/// The parts of a sealed answer. Its text may be another by now, without the commands that stood in it: then all of it
/// stands where the first of it did. A call that is gone is left out, and one that nobody placed stands last.
pub(crate) fn parts<'a>(
    text: &'a str,
    calls: &'a [ToolCall],
    parts: &'a [SealedPart],
) -> Vec<AnswerPart<'a>> {
    let said = parts.iter().map(|it| match it {
        SealedPart::Text { bytes, .. } => *bytes,
        SealedPart::Seal(_) | SealedPart::Call(_) => 0,
    });
    let is_whole = said.sum::<usize>() == text.len();
    let mut rest = text;
    let mut placed = vec![false; calls.len()];
    let mut out = vec![];
    for part in parts {
        match part {
            SealedPart::Seal(json) => out.push(AnswerPart::Seal(json)),
            SealedPart::Text { bytes, phase } => {
                let end = if is_whole { *bytes } else { rest.len() };
                let (text, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
                rest = after;
                if !text.is_empty() {
                    let phase = phase.as_deref();
                    out.push(AnswerPart::Text { text, phase });
                }
            }
            SealedPart::Call(at) => {
                if let (Some(call), Some(placed)) = (calls.get(*at), placed.get_mut(*at)) {
                    *placed = true;
                    out.push(AnswerPart::Call(call));
                }
            }
        }
    }
    if !rest.is_empty() {
        let (text, phase) = (rest, None);
        out.push(AnswerPart::Text { text, phase });
    }
    let others = calls.iter().zip(placed).filter(|(_, placed)| !placed);
    out.extend(others.map(|(call, _)| AnswerPart::Call(call)));
    out
}

impl<'a> Prompt<'a> {
    /// One question beside all conversations.
    pub fn question(system: &'a str, question: &'a str, options: RequestOptions<'a>) -> Self {
        Self {
            system,
            items: vec![PromptItem::User {
                text: question.into(),
                pictures: vec![],
            }],
            options,
            ..Self::default()
        }
    }

    /// About what it takes, escapes apart, so that a long one is not moved while it grows.
    pub(crate) fn room(&self) -> usize {
        const AROUND: usize = 1024;
        const OF_A_TOOL: usize = 1024;
        let texts: usize = self.items.iter().map(PromptItem::room).sum();
        AROUND + self.system.len() + texts + self.tools.len() * OF_A_TOOL
    }
}

impl PromptItem<'_> {
    fn room(&self) -> usize {
        const AROUND: usize = 96;
        let beside = |it: &[PromptPicture<'_>]| it.iter().map(PromptPicture::room).sum::<usize>();
        let text = match self {
            Self::User { text, pictures } => text.len() + beside(pictures),
            Self::Assistant {
                text,
                calls,
                sealed,
                ..
            } => {
                let arguments = calls.iter().map(|it| AROUND + it.arguments.len());
                let seals = sealed.map_or(0, SealedAnswer::bytes);
                text.len() + arguments.sum::<usize>() + usize::try_from(seals).unwrap_or(0)
            }
            Self::Tool {
                content, pictures, ..
            } => content.len() + beside(pictures),
        };
        AROUND + text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            id: id.to_owned(),
            name: "t".to_owned(),
            arguments: "{}".to_owned(),
            broken: None,
            extra: Map::new(),
        }
    }

    #[track_caller]
    fn check(text: &str, calls: &[&str], expected: &str) {
        let said = |bytes| SealedPart::Text { bytes, phase: None };
        let sealed = [
            SealedPart::Seal("S".to_owned()),
            said(4),
            SealedPart::Call(0),
            SealedPart::Seal("T".to_owned()),
            said(2),
            SealedPart::Call(1),
        ];
        let calls: Vec<ToolCall> = calls.iter().map(|it| call(it)).collect();
        let shown = parts(text, &calls, &sealed).into_iter().map(|it| match it {
            AnswerPart::Seal(json) => json.to_owned(),
            AnswerPart::Text { text, .. } => format!("{text:?}"),
            AnswerPart::Call(call) => call.id.clone(),
        });
        assert_eq!(expected, shown.collect::<Vec<_>>().join(" "));
    }

    #[test]
    fn the_parts_of_an_answer_keep_their_places_whatever_was_taken_out_of_it() {
        check("onexyz", &["a", "b"], "S \"onex\" a T \"yz\" b");
        // Not where a character would be cut.
        check("abcét", &["a"], "S \"abcét\" a T");
        check("other", &["a", "b", "c"], "S \"other\" a T b c");
        check("", &[], "S T");
    }
}
