//! What a turn was asked with and for, what answers it, and how it ended.

use aish_proto::id::TurnId;
use serde::{Deserialize, Serialize};

use crate::picture::Picture;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub name: String,
    /// Empty where it is a picture.
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<Picture>,
}

impl Attachment {
    /// About what models read of it, in bytes of text.
    pub fn weight(&self) -> u64 {
        self.text.len() as u64 + self.picture.as_ref().map_or(0, Picture::weight)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyKey {
    pub key: String,
    /// SHA-256 over text, attachments and model, in hexadecimal.
    pub body: String,
}

/// Why a turn was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnOrigin {
    #[default]
    Asked,
    /// The same question again; the answer of that turn leaves the transcript.
    Retry(TurnId),
    /// Go on from where that turn stopped.
    Continue(TurnId),
    /// It was asked elsewhere.
    Imported,
}

/// Where a turn's preset came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PresetSource {
    Configured,
    Discovered,
    Demo,
    /// There is none: the turn runs a list of calls.
    None,
    /// None was asked here.
    Imported,
}

impl PresetSource {
    /// Whether a model is asked.
    pub fn is_a_model(self) -> bool {
        match self {
            Self::Configured | Self::Discovered | Self::Demo => true,
            Self::None | Self::Imported => false,
        }
    }
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    End,
    ToolDepth,
    MaxTokens,
    Refusal,
    Cancelled,
    Upstream,
    Interrupted,
    /// A person denied a call and ended the turn with it.
    Denied,
    /// A limit of a run is met, or a budget is used up and the next request was not sent.
    Budget,
}
