//! Why a call came to nothing: a kind for programs, and words that say what to do next for the model.

use std::io;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// A call that came to nothing. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileFailure {
    pub(crate) kind: FailureKind,
    pub(crate) text: String,
}

/// What kind of reason it is, for who goes on from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FailureKind {
    /// The request, or a path or pattern in it, has no meaning.
    BadRequest,
    NotThere,
    /// A directory, a pipe, a device: not what the call is for.
    WrongKind,
    /// It is there and not to be read or written by us, here.
    NotAllowed,
    /// A link leads out of the directories that it was named in.
    LeadsOut,
    /// It is no text, or none that could be written back as it was.
    NotText,
    TooLarge,
    /// The conversation has not read it.
    NotRead,
    /// It is another one than the conversation has read.
    Stale,
    NoMatch,
    /// The text is there more than once.
    ManyMatches,
    /// Nothing would be another than before.
    NoChange,
    /// It would not be the same file any more: other names, an owner, attributes.
    CannotKeep,
    /// The system said no, for none of these reasons.
    System,
}

impl FileFailure {
    pub(crate) fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Self {
            kind,
            text: text.into(),
        }
    }

    /// What the system said while we did something: `read a.txt`.
    pub(crate) fn system(doing: &str, error: &io::Error) -> Self {
        let kind = match (error.kind(), Errno::from_io_error(error)) {
            (io::ErrorKind::NotFound, _) => FailureKind::NotThere,
            (_, Some(Errno::ROFS)) | (io::ErrorKind::PermissionDenied, _) => {
                FailureKind::NotAllowed
            }
            (_, Some(Errno::LOOP | Errno::NAMETOOLONG)) => FailureKind::BadRequest,
            _ => FailureKind::System,
        };
        let reason = match Errno::from_io_error(error) {
            Some(Errno::ROFS) => "it is outside of what may be written here".to_owned(),
            Some(Errno::ACCESS | Errno::PERM) => "that is not permitted here".to_owned(),
            Some(Errno::LOOP) => "its links lead in a circle".to_owned(),
            Some(Errno::NAMETOOLONG) => "a name in it is too long".to_owned(),
            Some(Errno::NOSPC | Errno::DQUOT) => "the disk is full".to_owned(),
            _ => error.to_string(),
        };
        Self::new(kind, format!("cannot {doing}: {reason}"))
    }
}
