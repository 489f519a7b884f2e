//! `jobs/*`: commands that go on in the background of a conversation, beside its turns.
//!
//! A model begins one by a command that it proposes, so each was asked about as any command is. What one prints is read here
//! and by the model; its beginning and its end are events.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ConversationId, JobId};
use crate::kept::KeptResult;
use crate::method::methods;
use crate::shell::ShellEnding;

methods! {
    /// Jobs of a conversation, the newest first: those that run, and the last that ended. Without one: those that run, of all
    /// conversations.
    List: "jobs/list", Observer, Unordered, JobsListParams => JobsListResult;
    /// What a job has printed: the end of it while it runs, and what was kept of it afterwards. It takes nothing from what the
    /// model reads.
    Output: "jobs/output", Observer, Unordered, JobParams => JobOutputResult;
    /// Ends a job with all that it started; returns when its end is in the log. To stop one that has ended is no error.
    Stop: "jobs/stop", Driver, Conversation, JobParams => JobStopResult;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobsListParams {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobParams {
    pub conversation: ConversationId,
    pub job: JobId,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobsListResult {
    pub jobs: Vec<Job>,
}

/// A command in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    pub conversation: ConversationId,
    /// The title of the conversation.
    pub title: String,
    pub job: JobId,
    /// The bytes that the shell got.
    pub command: String,
    pub cwd: String,
    /// RFC 3339.
    pub started_at: String,
    /// Absent: it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<JobEnd>,
}

/// How a job ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobEnd {
    /// RFC 3339.
    pub at: String,
    pub ending: ShellEnding,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<i32>,
    /// Who ended it; absent: it ended by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<JobStopper>,
    /// How long it ran; absent: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Bytes that it printed, as far as they were read.
    pub bytes: u64,
    /// The whole of what it printed, where that is too long to be shown in one piece.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptResult>,
}

/// Who ended a job that did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum JobStopper {
    Model,
    Person,
    /// A person stopped the turn before the command had said that it goes on.
    Turn,
    /// The daemon ended.
    Daemon,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobOutputResult {
    pub job: Job,
    /// A stranger's text. Of one that runs the end, of one that has ended the beginning and the end.
    pub output: String,
    /// Bytes of what it printed before `output`, which are not in it.
    pub before: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct JobStopResult {
    /// False: it had ended already.
    pub stopped: bool,
}
