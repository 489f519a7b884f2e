//! What a server of models is told, and what it says, in each of the dialects that are spoken: pure pairs that write a request
//! and read an answer. How the bytes travel is the broker's business.

mod call_id;
mod chat;
mod chunk;
mod escape;
mod messages;
mod object_writer;
pub mod prompt;
mod responses;
mod server_error;
mod thinking_budget;

use aishd_log::api_dialect::ApiDialect;
use aishd_model::preset::Preset;
use serde_json::{Map, Value};

pub use self::chunk::{AnswerChunk, ChunkPiece};
use self::prompt::{Prompt, PromptTool};
pub use self::server_error::{ReportedKind, ServerReportedError, error, reported, wait_in};

/// The body of a request, byte for byte.
pub fn encode(preset: &Preset, prompt: &Prompt<'_>) -> String {
    let body = match preset.api() {
        ApiDialect::Chat => chat::encode::body(preset, prompt),
        ApiDialect::Responses => responses::encode::body(preset, prompt),
        ApiDialect::Messages => messages::encode::body(preset, prompt),
    };
    preset.fields.applied_to(body)
}

/// What the tools take in a request, in bytes.
pub fn tools_bytes(api: ApiDialect, tools: &[PromptTool<'_>]) -> usize {
    let mut to = String::new();
    for tool in tools {
        match api {
            ApiDialect::Chat => chat::encode::tool(tool, &mut to),
            ApiDialect::Responses => responses::encode::tool(tool, &mut to),
            ApiDialect::Messages => messages::encode::tool(tool, None, &mut to),
        }
    }
    // With what stands between them and around them.
    to.len() + tools.len() + 1
}

/// The tools that a request offered to a model that may write its call as text instead of making it: many that people run
/// themselves do, and those are asked in chat completions.
pub fn written_tools(api: ApiDialect, body: &[u8]) -> Vec<String> {
    match api {
        ApiDialect::Chat => chat::offered::names(body),
        ApiDialect::Responses | ApiDialect::Messages => vec![],
    }
}

/// Reads one answer, event after event.
#[derive(Debug)]
pub enum AnswerDecoder {
    Chat,
    Responses(Box<responses::decode::ResponsesDecoder>),
    Messages(Box<messages::decode::MessagesDecoder>),
}

impl AnswerDecoder {
    pub fn new(api: ApiDialect) -> Self {
        match api {
            ApiDialect::Chat => Self::Chat,
            ApiDialect::Responses => Self::Responses(Box::default()),
            ApiDialect::Messages => Self::Messages(Box::default()),
        }
    }

    /// What one event says; `data` is the same as `object`, as it came.
    pub fn read(&mut self, data: &str, object: Map<String, Value>) -> AnswerChunk {
        match self {
            Self::Chat => chat::decode::read(object),
            Self::Responses(decoder) => decoder.read(data, object),
            Self::Messages(decoder) => decoder.read(object),
        }
    }

    /// What an answer says that came whole, from a server that does not stream.
    pub fn read_whole(&mut self, data: &str, object: Map<String, Value>) -> AnswerChunk {
        match self {
            Self::Chat => chat::decode::read(object),
            Self::Responses(decoder) => decoder.read_whole(data, object),
            Self::Messages(decoder) => decoder.read_whole(object),
        }
    }
}

#[cfg(test)]
mod tests;
