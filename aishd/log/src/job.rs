//! Jobs: commands that go on in the background of a conversation, from their start to their end.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::JobId;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ending::CommandEnding;
use crate::kept_result::KeptResult;

/// So many may run in a conversation at a time.
pub const MOST_JOBS: usize = 4;
/// The tool that reads on in what one prints.
pub const OUTPUT_TOOL: &str = "shell__output";
/// The tool that ends one.
pub const STOP_TOOL: &str = "shell__stop";
/// So much of a command is said where only one among several is meant.
const MOST_NAMED_BYTES: usize = 200;

/// A command goes on by itself. The mark of its start, with its digest and what let it through, stands before it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStarted {
    pub job: JobId,
    pub call: String,
    pub command: String,
    pub cwd: String,
}

/// Nothing of it is left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnded {
    pub job: JobId,
    pub command: String,
    pub ending: CommandEnding,
    /// Who ended it. `None`: it did so by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<JobStop>,
    /// What is shown of what it printed; where nothing could be, why.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    #[serde(default)]
    pub bytes: u64,
    /// How long it ran. `None`: nobody knows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// The whole of it, where `output` is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept: Option<KeptResult>,
    /// The reply of its call said already how it ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub replied: bool,
}

/// Who ended a job that did not end by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStop {
    Model,
    Person,
    /// Somebody stopped its turn before its call had a reply.
    Turn,
    /// The daemon ended.
    Daemon,
}

impl JobEnded {
    /// The end of one that another daemon left running: nobody knows what became of it.
    pub fn left(started: JobStarted) -> Self {
        Self {
            job: started.job,
            command: started.command,
            ending: CommandEnding::Unknown,
            stopped: Some(JobStop::Daemon),
            output: String::new(),
            bytes: 0,
            ms: None,
            kept: None,
            replied: false,
        }
    }

    /// How it ended, for its model.
    pub fn how(&self) -> String {
        match self.stopped {
            None => self.ending.to_string(),
            Some(JobStop::Model) => "you ended it".to_owned(),
            Some(JobStop::Person) => "the user ended it".to_owned(),
            Some(JobStop::Turn) => "the user stopped the turn that began it".to_owned(),
            Some(JobStop::Daemon) => "it ended when the daemon did".to_owned(),
        }
    }

    /// For the model, before the next question. `None`: it has been told already.
    pub fn told(&self) -> Option<String> {
        if self.replied {
            return None;
        }
        let Self { job, ending, .. } = self;
        let command = named(&self.command);
        Some(match self.stopped {
            Some(JobStop::Model | JobStop::Turn) => return None,
            None => format!(
                "[aish] {job}, the command {command} in the background, has ended: {ending}. {OUTPUT_TOOL} has what it printed."
            ),
            Some(JobStop::Person) => format!(
                "[aish] The user stopped {job}, the command {command} in the background. {OUTPUT_TOOL} has what it printed."
            ),
            Some(JobStop::Daemon) => format!(
                "[aish] {job}, the command {command} in the background, ended when the daemon did. It is not started again by itself."
            ),
        })
    }
}

/// A command, or its beginning, in quotes that it cannot close.
fn named(command: &str) -> String {
    let cut = command.floor_char_boundary(MOST_NAMED_BYTES);
    let end = if cut < command.len() { "…" } else { "" };
    Value::String(format!("{}{end}", &command[..cut])).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(ending: CommandEnding, stopped: Option<JobStop>, expected: Option<&str>) {
        let ended = JobEnded {
            job: JobId(2),
            command: "serve\n\"x\"".to_owned(),
            ending,
            stopped,
            output: String::new(),
            bytes: 0,
            ms: Some(1),
            kept: None,
            replied: false,
        };
        assert_eq!(expected, ended.told().as_deref());
        let replied = JobEnded {
            replied: true,
            ..ended
        };
        assert_eq!(None, replied.told());
    }

    #[test]
    fn a_model_is_told_of_ends_that_it_has_not_heard_of() {
        check(
            CommandEnding::Exited { code: 1 },
            None,
            Some(
                r#"[aish] job-2, the command "serve\n\"x\"" in the background, has ended: exit code 1. shell__output has what it printed."#,
            ),
        );
        check(CommandEnding::Cancelled, Some(JobStop::Model), None);
        check(CommandEnding::Cancelled, Some(JobStop::Turn), None);
        check(
            CommandEnding::Cancelled,
            Some(JobStop::Person),
            Some(
                r#"[aish] The user stopped job-2, the command "serve\n\"x\"" in the background. shell__output has what it printed."#,
            ),
        );
        check(
            CommandEnding::Unknown,
            Some(JobStop::Daemon),
            Some(
                r#"[aish] job-2, the command "serve\n\"x\"" in the background, ended when the daemon did. It is not started again by itself."#,
            ),
        );
    }

    #[test]
    fn the_stored_form_is_this() {
        let ended = JobEnded::left(JobStarted {
            job: JobId(1),
            call: "c".to_owned(),
            command: "x".to_owned(),
            cwd: "/".to_owned(),
        });
        let text =
            r#"{"job":"job-1","command":"x","ending":"unknown","stopped":"daemon","bytes":0}"#;
        assert_eq!(text, serde_json::to_string(&ended).unwrap());
        assert_eq!(ended, serde_json::from_str(text).unwrap());
    }
}
