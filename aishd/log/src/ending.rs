//! How a command ended, and what it left.

use std::fmt;

use aish_proto::id::JobId;
use serde::{Deserialize, Serialize};

use crate::job::{OUTPUT_TOOL, STOP_TOOL};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandEnding {
    Exited {
        code: i32,
    },
    Signalled {
        signal: i32,
    },
    /// It was ended, because its time was over.
    TimedOut {
        after_ms: u64,
    },
    /// It was ended, because it printed more than it may.
    Cut {
        bytes: u64,
    },
    /// It was ended, because what it wrote in layers takes more room than it may.
    Full,
    /// Somebody ended it.
    Cancelled,
    /// It was left while it ran: nobody knows what it did.
    Unknown,
    Failed,
    /// It never began.
    Refused,
    /// It has not ended: it goes on by itself.
    Background {
        job: JobId,
    },
}

impl CommandEnding {
    pub fn is_success(self) -> bool {
        self == Self::Exited { code: 0 }
    }

    /// What was wanted of it has come to be, as far as that is known.
    pub fn is_as_wanted(self) -> bool {
        self.is_success() || matches!(self, Self::Background { .. })
    }

    /// It ran to its end and says that it failed, or it waited for something until its time was over.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Exited { code } => code != 0,
            Self::TimedOut { .. } | Self::Full => true,
            _ => false,
        }
    }
}

impl fmt::Display for CommandEnding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited { code } => write!(f, "exit code {code}"),
            Self::Signalled { signal } => write!(f, "ended by signal {signal}"),
            Self::TimedOut { after_ms } => {
                write!(f, "ended after {} s, its time limit", after_ms / 1000)
            }
            Self::Cut { bytes } => write!(f, "ended after {bytes} bytes, its output limit"),
            Self::Full => write!(f, "ended: what it wrote takes more room than it may"),
            Self::Cancelled => write!(f, "cancelled while it ran; its effect is unknown"),
            Self::Unknown => write!(
                f,
                "interrupted while it ran; its effect is unknown and it is not run again"
            ),
            Self::Failed => write!(f, "could not be started"),
            Self::Refused => write!(f, "not run"),
            Self::Background { job } => write!(
                f,
                "goes on in the background as {job} ({OUTPUT_TOOL} reads on, {STOP_TOOL} ends it)"
            ),
        }
    }
}

/// How a command that failed stood to its boundary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum BoundaryFailure {
    /// It had none, or it did not fail.
    #[default]
    None,
    /// It failed inside, and nothing says why.
    Failed,
    /// It failed inside, and what it printed sounds like the boundary.
    Stopped,
}
