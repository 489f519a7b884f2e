//! `changes/*`: what commands changed in layers over the files, before it is real and for some days after.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answerer::Answerer;
use crate::hosts::NetworkUse;
use crate::id::{ChangesId, ConfirmId, ConversationId, TurnId};
use crate::method::{Empty, methods};

methods! {
    /// What waits to be kept or dropped, what was kept and can be undone, and what was undone and can be done again, the newest
    /// first.
    List: "changes/list", Observer, Unordered, Empty => ChangesListResult;
    /// The difference that a trial would make, as text: unified diffs of text files, a line for everything else. The text is
    /// that of the command, so whoever shows it makes it safe. Only while its question waits. Also of a run, between its
    /// commands.
    Diff: "changes/diff", Approver, Unordered, ChangesParams => ChangesDiffResult;
    /// What changes are that wait: of a run that goes on, between its commands, and of a run or a command that a question asks
    /// about. With `diff` also the difference, as `changes/diff` has it.
    Show: "changes/show", Approver, Unordered, ChangesShowParams => ChangesShowResult;
    /// Makes real what a run has changed so far, or a part of it, while the run goes on; it goes on over what is real then. It
    /// is all or nothing, `changes/undo` takes it back, and at the end it is no conflict. While a command of the run writes, it
    /// waits some seconds for its end. Where a question asks about the changes, `confirm/answer` is the way.
    Keep: "changes/keep", Approver, Unordered, ChangesKeepParams => ChangesPartResult;
    /// Drops what a run has changed so far, or a part of it, while the run goes on: it sees there what is real.
    Drop: "changes/drop", Approver, Unordered, ChangesDropParams => ChangesPartResult;
    /// Takes back what was kept, all of it or nothing: a file that was changed since is named in the error, and nothing is
    /// touched.
    Undo: "changes/undo", Approver, Unordered, ChangesParams => UndoResult;
    /// Does again what `changes/undo` took back, all of it or nothing, unless a file is not what the undo left.
    Redo: "changes/redo", Approver, Unordered, ChangesParams => RedoResult;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangesParams {
    pub changes: ChangesId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesListResult {
    /// What nobody has kept or dropped yet, the oldest first.
    #[serde(default)]
    pub open: Vec<OpenChanges>,
    pub kept: Vec<KeptChanges>,
    /// What was undone last comes first.
    #[serde(default)]
    pub undone: Vec<KeptChanges>,
}

/// Changes that nobody has kept or dropped yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OpenChanges {
    pub changes: ChangesId,
    pub stage: OpenChangesStage,
    pub conversation: ConversationId,
    /// The question that asks about them. Absent: the run goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmId>,
    /// Its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The goal of the run, or the command that was tried.
    pub text: String,
    /// How much it is. Null: a command of the run writes there now, or it cannot be read.
    pub size: Option<ChangesSize>,
}

/// Where changes stand that nobody has kept or dropped yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum OpenChangesStage {
    /// Of a run that goes on: `changes/keep` and `changes/drop`.
    Run,
    /// Of a run that is over, and a person is asked: `confirm/answer`.
    RunAsked,
    /// Of a command that was tried while its question waits: `confirm/answer`.
    Tried,
}

/// How much changes are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesSize {
    /// Files, directories and links.
    pub count: u64,
    /// Lines that are new, in the first files of many.
    pub added: u64,
    /// Lines that are gone there.
    pub removed: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangesShowParams {
    pub changes: ChangesId,
    /// These absolute paths and what is below them; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub diff: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesShowResult {
    #[serde(flatten)]
    pub open: OpenChanges,
    pub changed: ChangeSummary,
    /// Names what is shown here: `changes/keep` says it.
    pub seen: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangesKeepParams {
    pub changes: ChangesId,
    /// These absolute paths and what is below them; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// What `changes/show` named these paths. Where a command has changed something there since, nothing is kept.
    pub seen: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChangesDropParams {
    pub changes: ChangesId,
    /// These absolute paths and what is below them; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesPartResult {
    #[serde(flatten)]
    pub part: PartOfChanges,
}

/// What a person keeps or drops of a run that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PartOfChanges {
    /// Of the run.
    pub changes: ChangesId,
    /// Names this part; what was kept is undone by it.
    pub part: ChangesId,
    pub act: PartAct,
    pub stage: PartStage,
    /// The files, the first ones of many.
    pub paths: Vec<String>,
    /// How many paths it is about.
    pub count: u64,
    /// What there is to be said of it besides, or why nothing was done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Answerer>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PartAct {
    /// It becomes real.
    Keep,
    /// The run loses it.
    Drop,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum PartStage {
    /// A person has said so, and whatever happens, it is done or told why not.
    Ordered,
    Done,
    /// Nothing was touched.
    Failed,
}

/// What was kept, and can be undone for some days; or what was undone, and can be done again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptChanges {
    pub changes: ChangesId,
    pub kept_at: String,
    /// The conversation of the command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// The turn there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The number of its question there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// The files, the first ones of many.
    pub paths: Vec<String>,
}

/// Lines of a difference that become real together. The first hunk of a file begins with the line that names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffHunk {
    /// The first one, from 0.
    pub line: u32,
    pub lines: u32,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangesDiffResult {
    pub diff: String,
    /// What of it can be kept for itself, numbered from 1. Empty where `diff` has not all.
    pub hunks: Vec<DiffHunk>,
    /// Names the difference and its hunks, in an answer that keeps some of them.
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndoResult {
    pub changes: ChangesId,
    /// Paths that are as before.
    pub count: u64,
    /// Whether `changes/redo` can do it again: what was taken back is held up to 1 GiB.
    pub reversible: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedoResult {
    /// What it can be undone by from now on.
    pub changes: ChangesId,
    /// Paths that are as they were kept.
    pub count: u64,
}

/// What a person did to what was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum UndoAct {
    Undo,
    Redo,
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
