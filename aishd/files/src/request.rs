//! What the program is asked.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::call::FileCall;
use crate::fingerprint::{FileFingerprint, SeenFile};

/// One call, with what the program cannot know by itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileRequest {
    pub call: FileCall,
    /// The conversation's directory: relative paths begin there.
    pub directory: PathBuf,
    /// What `~` stands for.
    #[serde(default)]
    pub home: Option<PathBuf>,
    /// The conversation's directories. What is named in one of them must really be in one; none: anything may be anywhere.
    #[serde(default)]
    pub roots: Vec<PathBuf>,
    /// Names of files that hold keys by custom: a search goes by them where they are not named.
    #[serde(default)]
    pub keys: Vec<String>,
    /// What replies of this conversation said that it has seen; of two for one path the later counts.
    #[serde(default)]
    pub seen: Vec<SeenFile>,
}

impl FileRequest {
    /// What was last seen of a file, by where it really is.
    pub(crate) fn seen(&self, path: &str) -> Option<FileFingerprint> {
        let mut seen = self.seen.iter().rev();
        seen.find(|it| it.path == path).map(|it| it.fingerprint)
    }
}
