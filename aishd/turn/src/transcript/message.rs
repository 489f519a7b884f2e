//! What a transcript is made of: messages, questions that wait for their turn, and outputs that go with the next one.

use std::sync::Arc;

use aish_proto::id::Seq;
use aishd_log::event::{Attachment, TurnOrigin};
use aishd_log::picture::NamedPicture;
use aishd_log::sealed_answer::SealedAnswer;
use aishd_log::tool_call::ToolCall;
use serde_json::{Map, Value};

use crate::command_report::CommandReport;

/// One message, in the form that every dialect is written from.
#[derive(Clone, Debug, PartialEq)]
pub enum TranscriptMessage {
    User {
        text: String,
        pictures: Vec<NamedPicture>,
    },
    Assistant {
        text: Arc<str>,
        calls: Vec<ToolCall>,
        extra: Map<String, Value>,
        /// What the server that wrote it wants back byte for byte.
        sealed: Option<Box<SealedAnswer>>,
        /// The model that wrote it: only that one gets `extra` back.
        model_id: String,
        /// That it made.
        pictures: Vec<NamedPicture>,
    },
    Tool {
        call: String,
        name: String,
        content: String,
        pictures: Vec<NamedPicture>,
    },
}

impl TranscriptMessage {
    /// A text that stands where a person's do.
    pub(super) fn said(text: String) -> Self {
        let pictures = vec![];
        Self::User { text, pictures }
    }
}

impl TranscriptMessage {
    pub fn pictures(&self) -> &[NamedPicture] {
        match self {
            Self::User { pictures, .. }
            | Self::Assistant { pictures, .. }
            | Self::Tool { pictures, .. } => pictures,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct WaitingQuestionText {
    pub(super) text: String,
    pub(super) pictures: Vec<NamedPicture>,
    pub(super) origin: TurnOrigin,
    pub(super) at: Seq,
}

/// Outputs of commands that go with the next question.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CommandOutputs {
    pub(super) texts: Vec<CommandReport>,
    /// Where the first of them stands.
    pub(super) from: Option<Seq>,
    /// There is more to read of one of them than it shows.
    pub(super) keeps_more: bool,
}

impl CommandOutputs {
    /// What was asked at `at` took none of them along, and who reads the log has to see that.
    pub(super) fn stay_behind(&mut self, at: Seq) {
        self.from = self.from.map(|it| it.min(at));
    }
}

/// The question, and what came with it, as one text. No text can end its own frame.
pub(super) fn with_attachments(text: &str, attachments: &[Attachment]) -> String {
    let mut whole = text.to_owned();
    for attachment in attachments {
        if let Some(named) = named_picture(attachment) {
            let line = named.line();
            // What was exported has it.
            if !whole.contains(&line) {
                whole.push_str("\n\n");
                whole.push_str(&line);
            }
            continue;
        }
        let name = attachment.name.replace(['"', '\n'], "_");
        let newline = if attachment.text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        let text = &attachment.text;
        let ends = text.split("</attachment").skip(1);
        let dashes = ends.map(|it| it.chars().take_while(|it| *it == '-').count() + 1);
        let tag = format!("attachment{}", "-".repeat(dashes.max().unwrap_or(0)));
        let framed = format!("\n\n<{tag} name=\"{name}\">\n{text}{newline}</{tag}>");
        whole.push_str(&framed);
    }
    whole
}

/// The pictures that came with a question.
pub(super) fn pictures_of(attachments: &[Attachment]) -> Vec<NamedPicture> {
    attachments.iter().filter_map(named_picture).collect()
}

fn named_picture(attachment: &Attachment) -> Option<NamedPicture> {
    let picture = attachment.picture.clone()?;
    let name = attachment.name.clone();
    Some(NamedPicture { name, picture })
}
