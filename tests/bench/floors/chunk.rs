//! What a client needs of a chunk of an answer: the text in it.

use serde::Deserialize;

#[derive(Deserialize)]
pub(crate) struct Chunk {
    choices: Vec<Choice>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Delta,
}

#[derive(Deserialize)]
struct Delta {
    content: Option<String>,
}

impl Chunk {
    /// The text, if this chunk has one.
    pub(crate) fn text(&self) -> Option<&str> {
        self.choices.first()?.delta.content.as_deref()
    }
}
