//! What one event of an answer says, in no dialect any more.

use aishd_log::usage::Usage;
use aishd_model::call_assembly::CallFragment;
use aishd_model::reply::FinishReason;
use serde_json::{Map, Value};

use crate::server_error::ServerReportedError;

#[derive(Debug, Default, PartialEq)]
pub struct AnswerChunk {
    pub model: Option<String>,
    /// Position of the choice; a server may send more of them than it was asked for.
    pub choice: Option<u64>,
    pub pieces: Vec<ChunkPiece>,
    pub calls: Vec<CallFragment>,
    /// The chunk holds the message as a whole and not a part of it.
    pub whole: bool,
    pub extra: Map<String, Value>,
    pub finish: Option<FinishReason>,
    pub usage: Option<Usage>,
    pub error: Option<ServerReportedError>,
    /// The server said that nothing more comes.
    pub done: bool,
    /// What was passed over.
    pub note: Option<String>,
}

#[derive(Debug, PartialEq)]
pub enum ChunkPiece {
    Text(String),
    Refusal(String),
    /// From `reasoning_content`, which `DeepSeek` wants back with the calls that followed from it.
    ReasoningContent(String),
    Reasoning(String),
    /// The address of a picture that the model made; nearly always it holds the picture itself.
    Picture(String),
    /// A part of the text begins, and has a name of the server's.
    Phase(String),
    /// The server's own JSON, which it wants back as it is, here.
    Seal(String),
}

impl AnswerChunk {
    pub(crate) fn of(piece: ChunkPiece) -> Self {
        Self {
            pieces: vec![piece],
            ..Self::default()
        }
    }

    pub(crate) fn call(fragment: CallFragment) -> Self {
        Self {
            calls: vec![fragment],
            ..Self::default()
        }
    }

    /// Something that we do not know, which is passed over.
    pub(crate) fn unknown(what: &str, name: &str) -> Self {
        let name: String = name.chars().take(64).collect();
        Self {
            note: Some(format!("skipped {what} of the kind {name:?}")),
            ..Self::default()
        }
    }
}
