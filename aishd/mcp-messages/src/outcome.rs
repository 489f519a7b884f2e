//! What a call of a tool gave.

use aishd_log::block::BlockKind;
use serde_json::Value;

/// A result of `tools/call`, flattened for a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutcome {
    /// As the server says; a failure may come without it.
    pub is_error: bool,
    /// Text blocks joined with newlines, a placeholder of one line for each other block; the structured content
    /// where there is no text.
    pub text: String,
    /// What the placeholders stand for, in their order.
    pub attachments: Vec<OutcomeAttachment>,
    /// As the server sent it.
    pub structured: Option<Value>,
}

/// A block that is no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutcomeAttachment {
    pub kind: BlockKind,
    pub mime: String,
    pub uri: Option<String>,
    pub body: AttachmentBody,
    /// Where the line ends that stands for it in the text, in bytes.
    pub end: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttachmentBody {
    Bytes(Vec<u8>),
    Text(String),
}

impl AttachmentBody {
    pub fn bytes(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Text(text) => text.len(),
        }
    }
}
