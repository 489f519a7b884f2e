//! What a call of a tool gave (MCP-9).

use serde_json::Value;

/// A result of `tools/call`, flattened for a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// As the server says; a failure may come without it.
    pub is_error: bool,
    /// Text blocks joined with newlines, a placeholder of one line for each other block; the structured content
    /// where there is no text.
    pub text: String,
    /// What the placeholders stand for, in their order.
    pub attachments: Vec<Attachment>,
    /// As the server sent it.
    pub structured: Option<Value>,
}

/// A block that is no text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// The line that stands for it in the text.
    pub placeholder: String,
    pub mime: String,
    pub body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// As it was sent, in base64.
    Base64(String),
    Text(String),
    /// A resource that can be read from the same server.
    Link(String),
    /// A kind of block that this program does not know, as JSON.
    Unknown(String),
}
