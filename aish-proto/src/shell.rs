//! `shell/*`: commands of this machine, run in the daemon for a conversation.
//!
//! A model proposes one with a line of its answer, and a person is asked; `shell/run` is a person's own command, which
//! runs at once. Either way its start and its end are events, and its output is sent while it comes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::id::{ConversationId, Seq};
use crate::method::methods;

methods! {
    /// Runs a command of the caller's own, without a question. Commands of a conversation run one after another, in the order
    /// in which they came: returns when its start is in the log, or at once where it waits for another. It goes on without the
    /// client. A process that the daemon started is refused.
    Run: "shell/run", Driver, Conversation, ShellRunParams => RunResult;
    /// Ends such a command and all that it started, or takes it back where it waits.
    Cancel: "shell/cancel", Driver, Conversation, CancelParams => ShellCancelResult;
}

/// Variables that a client gives unasked with `daemon/hello`, as far as it has them. The daemon says in its reply what else it
/// would take.
pub const USUAL_ENVIRONMENT: [&str; 6] = [
    "PATH",
    "HOME",
    "LANG",
    "SHELL",
    "SSH_AUTH_SOCK",
    "VIRTUAL_ENV",
];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ShellRunParams {
    pub conversation: ConversationId,
    /// Read by the shell of the client, where that is sh, bash, zsh or fish, and else by `/bin/sh`.
    pub command: String,
    /// An absolute directory; absent: the conversation's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Whether its output goes to the model with the next question.
    #[serde(default = "yes")]
    pub into_context: bool,
}

fn yes() -> bool {
    true
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunResult {
    /// Its name in `shellStarted`, `shellOutput` and `shellFinished`.
    pub call: String,
    /// Where its start stands in the log; absent: it waits for the commands before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
}

/// A person's own command that runs in a conversation. Every driver can end it (`shell/cancel`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RunningCommand {
    pub call: String,
    /// Of a long one the beginning; `shellStarted` has all of it.
    pub command: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelParams {
    pub conversation: ConversationId,
    pub call: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ShellCancelResult {
    /// False: it was over already.
    pub cancelled: bool,
}

/// A line of a model's answer that proposes a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProposedCommand {
    /// Its name in the events that follow.
    pub call: String,
    pub command: String,
    /// It goes on by itself (`jobs/list`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ShellEnding {
    /// By itself, with `exitCode`.
    Exited,
    /// By `signal`.
    Signalled,
    /// Its time was over, and it was ended.
    TimedOut,
    /// It printed more than it may, and was ended.
    Cut,
    /// What it wrote in layers over the files took more room than it may, and it was ended.
    Full,
    /// Somebody ended it.
    Cancelled,
    /// The daemon ended while it ran: nobody knows what it did. It is not run again.
    Unknown,
    /// It could not be started.
    Failed,
    /// It never began: `denied` says who said no, or its turn ended first.
    Refused,
    /// It has not ended: it goes on in the background, as the `jobStarted` of its call says.
    Background,
}

/// What a shell confirm is about, besides the command itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandAsked {
    /// The bytes that the shell gets, all of them.
    pub command: String,
    /// The shell that reads it.
    pub shell: String,
    /// It goes on by itself, with no limit of time and beside whatever comes after it, until it ends or is stopped
    /// (`jobs/stop`). It cannot be tried.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub background: bool,
    /// Names of the variables that the asker's client gave; their values are part of what is approved.
    pub environment: Vec<String>,
    /// The terminal whose directory and environment it runs with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tty: Option<String>,
    /// What earlier commands of the conversation have changed of its environment; that is part of what is approved, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lasting: Vec<LastingVariable>,
    /// What the text says by the rules of the shell, as far as it was understood.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub segments: Vec<CommandSegment>,
    /// Why it could not be read to its end, where it could not. Such a command counts as destructive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unread: Option<String>,
    /// Why it may be destructive. Then it can be allowed once at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dangers: Vec<String>,
    /// What else its text says that it does, and a person may want to know: that it reaches the network, or runs code that
    /// is not read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mentions: Vec<String>,
    /// What holds other commands of the run; once somebody agrees to its text, this one runs outside of that. Absent: no run
    /// wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beyond: Option<RunHolding>,
}

/// A variable that a command begins with because an earlier one has exported it, or without because one has removed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastingVariable {
    pub name: String,
    /// Of those that say which programs run or what they do first (`PATH`, `LD_PRELOAD`); of others it stays in the daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub removed: bool,
}

/// What the kernel holds those commands of a run to that no person has agreed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RunHolding {
    /// They change nothing that stays.
    Reads,
    /// They change the directories of the conversation, and nothing else.
    Workspace,
    /// They work in layers over the files: what they change is a proposal.
    Try,
}

/// One simple command of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandSegment {
    /// What runs, as it is written.
    pub runs: String,
    /// Files that it reads or writes by redirection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redirects: Vec<String>,
    /// What the shell puts in place of other text when it runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub substitutes: Vec<String>,
}
