//! What a command came to, before it is a fact.

use std::path::PathBuf;

use aish_proto::id::ResultId;

use crate::ending::{BoundaryFailure, CommandEnding};
use crate::event::Event;
use crate::kept_result::KeptResult;
use crate::lasting_environment::EnvironmentChange;
use crate::network::NetworkUse;

/// All that a command printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WholeOutput {
    /// In parts, which are to be stored.
    New(ResultId, Vec<String>),
    /// It was stored when the command was tried.
    Stored(KeptResult),
}

impl WholeOutput {
    /// Where it is once these events are in the log.
    pub fn store(self, events: &mut Vec<Event>) -> KeptResult {
        match self {
            Self::New(result, parts) => {
                let bytes = parts.iter().map(|it| it.len() as u64).sum();
                let part = |text| Event::ResultKept { result, text };
                events.extend(parts.into_iter().map(part));
                KeptResult { result, bytes }
            }
            Self::Stored(kept) => kept,
        }
    }
}

/// What the shell of a command left to the commands after it, as it said itself when it ended in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftByShell {
    pub exported: EnvironmentChange,
    /// Where it was at its end. `None`: where it began, or nobody knows. Whether others can go on there is not looked at yet.
    pub directory: Option<String>,
    /// What was hidden from it: nothing goes on there.
    pub hidden: Vec<PathBuf>,
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandResult {
    pub ending: CommandEnding,
    /// What is shown of what it printed, or why there is nothing.
    pub output: String,
    /// Bytes that it printed, as far as they were read.
    pub bytes: u64,
    pub ms: u64,
    /// The whole of it, where `output` is less.
    pub kept: Option<WholeOutput>,
    /// The directory that it ran in.
    pub ran_in: String,
    /// Whether a boundary may be why it failed.
    pub within: BoundaryFailure,
    /// The conversation's directory was that and is this from now on.
    pub moved: Option<(String, String)>,
    /// The hosts that it reached, and that it was refused.
    pub network: Option<Box<NetworkUse>>,
    /// What it left, until it is taken, if that is known and is to last.
    pub left: Option<Box<LeftByShell>>,
}

impl CommandResult {
    /// Adds a line of ours behind its output.
    pub fn remark(&mut self, line: &str) {
        if !self.output.is_empty() && !self.output.ends_with('\n') {
            self.output.push('\n');
        }
        self.output.push_str(line);
        self.output.push('\n');
    }

    /// One that came to nothing; `why` says so in its output.
    pub fn failed(why: String, ran_in: &str) -> Self {
        Self {
            ending: CommandEnding::Failed,
            output: why,
            bytes: 0,
            ms: 0,
            kept: None,
            within: BoundaryFailure::None,
            ran_in: ran_in.to_owned(),
            moved: None,
            network: None,
            left: None,
        }
    }
}
