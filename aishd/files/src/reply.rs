//! What the program answers.

use serde::{Deserialize, Serialize};

use crate::failure::{FailureKind, FileFailure};
use crate::fingerprint::SeenFile;

/// What came of a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileReply {
    /// For the model; where the call came to nothing, why, and what to do next.
    pub text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureKind>,
    /// What the conversation has seen by this: it replaces what was known of that path. A picture and what is no text are not
    /// seen, for they cannot be edited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<SeenFile>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub picture: Option<ReadPicture>,
}

/// A picture, to be shown to the model beside the text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReadPicture {
    pub media_type: String,
    pub base64: String,
}

impl FileReply {
    pub(crate) fn of(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }

    pub(crate) fn failed(failure: FileFailure) -> Self {
        Self {
            text: failure.text,
            failure: Some(failure.kind),
            ..Self::default()
        }
    }
}
