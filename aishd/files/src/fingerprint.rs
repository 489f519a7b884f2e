//! By what a file is known again: its size and a digest of all of it.

use aishd_log::tool::ContentDigest;
use serde::{Deserialize, Serialize};

/// The whole content of a file, as it was once. Times and places are no part of it: the same content is the same file to
/// whoever has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileFingerprint {
    pub bytes: u64,
    pub sha256: ContentDigest,
}

/// What a conversation knows of a file. `path` is where it really is, with `\xNN` for what is no text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeenFile {
    pub path: String,
    pub fingerprint: FileFingerprint,
}

impl FileFingerprint {
    pub fn of(content: &[u8]) -> Self {
        Self {
            bytes: content.len() as u64,
            sha256: ContentDigest::of(content),
        }
    }
}
