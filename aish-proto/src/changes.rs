//! `changes/*`: what commands changed in layers over the files, before it is real and for some days after.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answerer::Answerer;
use crate::hosts::NetworkUse;
use crate::id::{ChangesId, ConfirmId, ConversationId, TurnId};
use crate::method::{Empty, methods};

methods! {
    /// What was kept and can be undone, the newest first.
    List: "changes/list", Observer, Unordered, Empty => ChangesListResult;
    /// The difference that a trial would make, as text: unified diffs of text files, a line for everything else. The text is
    /// that of the command, so whoever shows it makes it safe. Only while its question waits. Also of a run, between its
    /// commands.
    Diff: "changes/diff", Approver, Unordered, ChangesParams => ChangesDiffResult;
    /// Takes back what was kept, all of it or nothing: a file that was changed since is named in the error, and nothing is
    /// touched.
    Undo: "changes/undo", Approver, Unordered, ChangesParams => UndoResult;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangesParams {
    pub changes: ChangesId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesListResult {
    pub kept: Vec<KeptChanges>,
}

/// What was kept, and can be undone for some days.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptChanges {
    pub changes: ChangesId,
    pub kept_at: String,
    /// The conversation of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// The number of its question there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The files, the first ones of many.
    pub paths: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesDiffResult {
    pub diff: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoResult {
    pub changes: ChangesId,
}

/// What a run changed in layers over the files, as a question: a proposal until somebody keeps or drops it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedChanges {
    /// For `changes/diff` and the answer.
    pub changes: ChangesId,
    /// The run.
    pub turn: TurnId,
    pub goal: String,
    pub changed: ChangeSummary,
    /// The hosts that its commands reached, and that they were refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUse>,
}

/// The last word about the changes of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesEnd {
    pub changes: ChangesId,
    pub outcome: ChangesOutcome,
    /// What was kept, the first ones of many.
    pub paths: Vec<String>,
    /// How many paths were kept.
    pub count: u64,
    /// What there is to be said of it besides, or why nothing was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Answerer>,
}

/// What became of the changes of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ChangesOutcome {
    /// There were none.
    Nothing,
    /// They are real.
    Kept,
    /// Those that were chosen are real, and the others gone.
    KeptInPart,
    Dropped,
    /// They could not be kept; nothing was touched, and they are gone.
    Failed,
}

/// What a command changed, as people are told beside its question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSummary {
    /// The first ones, by path.
    pub listed: Vec<ChangedFile>,
    /// All of them.
    pub count: u64,
    /// What cannot be kept, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
}

/// One changed file, directory or link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangedFile {
    /// Absolute; bytes that are no text are shown as such.
    pub path: String,
    pub change: FileChange,
    /// Lines that are new, where it is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<u64>,
    /// Lines that are gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum FileChange {
    Created,
    Modified,
    /// Its mode or its owner.
    Attributes,
    Removed,
    /// It is of another kind than before.
    Replaced,
}
