//! A command that was tried while its question waits: it ran in layers over the files, and what it would change is a
//! proposal.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::{ChangesId, ConfirmId};
use serde::{Deserialize, Serialize};

use crate::answering_person::AnsweringPerson;
use crate::ending::CommandEnding;
use crate::kept_result::KeptResult;
use crate::network::NetworkUse;
use crate::tool::ContentDigest;
use crate::tool_name::ToolName;

/// What a trial came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TriedCommand {
    pub confirm: ConfirmId,
    /// Of the command and all that it ran with, as its question has it.
    pub digest: ContentDigest,
    pub command: String,
    /// The tool whose call it is; none: it is a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolName>,
    /// Where the layers are that hold what it changed.
    pub changes: ChangesId,
    pub ending: CommandEnding,
    /// What is shown of what it printed, or why there is nothing.
    pub output: String,
    pub bytes: u64,
    pub ms: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptResult>,
    pub cwd: String,
    pub changed: ChangeSummary,
    /// The beginning of the difference, where that is what is asked about.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub difference: String,
    /// Lines of all of it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub difference_lines: u64,
    /// The hosts that it reached, and that it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<Box<NetworkUse>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnsweringPerson>,
}

/// What it changed, as people are told beside the question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeSummary {
    /// The first ones, by path.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub listed: Vec<ChangedFile>,
    /// All of them.
    pub count: u64,
    /// What cannot be kept, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_none(lines: &u64) -> bool {
    *lines == 0
}

impl ChangeSummary {
    /// Those that are listed.
    pub fn paths(&self) -> Vec<String> {
        self.listed.iter().map(|it| it.path.clone()).collect()
    }

    /// Those of them that are one of these, or in one of them; all where none is named.
    pub fn paths_within(&self, only: &[String]) -> Vec<String> {
        let is_in = |path: &str, it: &String| {
            let rest = path.strip_prefix(&**it);
            rest.is_some_and(|it| it.is_empty() || it.starts_with('/'))
        };
        let mut paths = self.paths();
        paths.retain(|path| only.is_empty() || only.iter().any(|it| is_in(path, it)));
        if paths.is_empty() {
            // It is among those that are not listed.
            paths = only.to_vec();
        }
        paths
    }
}

/// One changed file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Absolute; bytes that are no text are shown as such.
    pub path: String,
    pub change: FileChange,
    /// Lines of text that are new and gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u64, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    Created,
    Modified,
    /// Its mode or its owner.
    Attributes,
    Removed,
    /// It is of another kind than before.
    Replaced,
}
