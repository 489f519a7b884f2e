//! What a server wants back of an answer byte for byte: thinking that it signed or encrypted, in its place among the text and
//! the calls. It is nobody's to read, and goes back only to the server and the model that it came from.

use serde::{Deserialize, Serialize};

use crate::api_dialect::ApiDialect;

/// Who sealed it: nobody else can open it, and most servers refuse a request with a seal of another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealOrigin {
    pub api: ApiDialect,
    /// Scheme, host and port.
    pub origin: String,
    pub model: String,
}

/// An answer with seals: its parts in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SealedAnswer {
    pub from: SealOrigin,
    pub parts: Vec<SealedPart>,
}

/// One part. Text and calls stand in the message itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SealedPart {
    /// The server's own JSON.
    Seal(String),
    /// So many bytes of the text.
    Text {
        bytes: usize,
        /// What the server calls this part of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        phase: Option<String>,
    },
    /// A call, by its place among the calls of the message.
    Call(usize),
}

impl SealedAnswer {
    /// About what it takes in a request, beside text and calls.
    pub fn bytes(&self) -> u64 {
        let seals = self.parts.iter().map(|it| match it {
            SealedPart::Seal(json) => json.len() as u64 + 1,
            SealedPart::Text { .. } | SealedPart::Call(_) => 0,
        });
        seals.sum()
    }
}
