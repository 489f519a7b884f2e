//! Resources that a conversation keeps in its context.

use serde::{Deserialize, Serialize};

use crate::shortened_result::without_middle;
use crate::tool_name::Alias;

/// In one conversation.
pub const MOST: usize = 16;
pub const MAX_URI_BYTES: usize = 2048;
/// Of one resource, in a request.
const MAX_CHARS: usize = 16_000;
const MAX_BYTES: usize = 64 << 10;

/// One of them; the server is looked for by its name each time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedEntry {
    pub alias: Alias,
    pub uri: String,
}

impl PinnedEntry {
    /// As people write it.
    pub fn name(&self) -> String {
        format!("@{}:{}", self.alias, self.uri)
    }
}

/// What one of them holds now, as the model is shown it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedContent {
    pub name: String,
    pub text: String,
}

impl PinnedContent {
    /// What is too long loses its middle.
    pub fn new(pinned: &PinnedEntry, text: String) -> Self {
        let cut = without_middle(&text, MAX_CHARS, MAX_BYTES, |left_out| {
            format!(
                "[aish] {} of {} bytes are left out here",
                left_out.to - left_out.from,
                left_out.whole
            )
        });
        Self {
            name: pinned.name(),
            text: cut.unwrap_or(text),
        }
    }

    /// The block that stands before the question.
    pub fn block(&self) -> String {
        let name = self.name.replace(['"', '\n'], "_");
        let end = if self.text.ends_with('\n') { "" } else { "\n" };
        format!("<pinned name=\"{name}\">\n{}{end}</pinned>", self.text)
    }
}
