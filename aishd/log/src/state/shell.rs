//! What the state has of commands: those of people that run, outputs that wait for a question, and what they run with.

use aish_proto::id::{JobId, Seq};
use serde::{Deserialize, Serialize};

use crate::ending::CommandEnding;
use crate::event::{Event, Record};
use crate::job::JobEnded;
use crate::shell::OutputUse;
use crate::tool::ContentDigest;

/// So much of a command is shown of one that runs; the log has all of it.
const MOST_SHOWN_BYTES: usize = 256;
/// Jobs that have ended and are still at hand by their names.
const MOST_ENDED_JOBS: usize = 16;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellState {
    /// Commands of people that run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub own: Vec<UserCommand>,
    /// The first output that waits for the next question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending_from: Option<Seq>,
    /// What the last question came with that said it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<ShellEnvironment>,
    /// Commands that go on in the background.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<RunningJob>,
    /// The last of them that ended, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_jobs: Vec<EndedJob>,
    /// The newest of them; 0: there was none.
    #[serde(default, skip_serializing_if = "is_none")]
    pub last_job: u32,
    /// Where it was before it changed its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous_cwd: Option<String>,
}

/// One that runs by itself, without a turn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserCommand {
    pub call: String,
    /// Where its start stands.
    pub seq: Seq,
    pub digest: ContentDigest,
    /// Its beginning, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub shown: String,
}

fn is_none(job: &u32) -> bool {
    *job == 0
}

/// A command in the background, and where its start stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningJob {
    pub job: JobId,
    pub seq: Seq,
}

/// One that has ended, and where its start and its end stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EndedJob {
    pub job: JobId,
    pub started: Seq,
    pub ended: Seq,
}

/// Where an environment stands, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellEnvironment {
    pub seq: Seq,
    pub digest: ContentDigest,
}

impl ShellState {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub fn environment_seq(&self) -> Option<Seq> {
        self.environment.map(|it| it.seq)
    }

    /// Takes in what an event says of commands.
    pub(super) fn apply(&mut self, record: &Record) {
        if let Event::UserMessage {
            environment: Some(given),
            ..
        } = &record.event
        {
            self.environment = Some(ShellEnvironment {
                seq: record.seq,
                digest: given.digest(),
            });
        }
        if let (
            Event::ShellStarted {
                call,
                command,
                digest,
                ..
            },
            None,
        ) = (&record.event, record.turn)
        {
            let shown = command.floor_char_boundary(MOST_SHOWN_BYTES);
            self.own.push(UserCommand {
                call: call.clone(),
                seq: record.seq,
                digest: *digest,
                shown: command[..shown].to_owned(),
            });
        }
        if let Event::ShellFinished {
            call,
            given,
            ending,
            ..
        } = &record.event
        {
            // In a copy nothing runs, and the name is taken all the same.
            if let CommandEnding::Background { job } = ending {
                self.last_job = self.last_job.max(job.0);
            }
            if record.turn.is_none() {
                self.own.retain(|it| it.call != *call);
            }
            if *given == OutputUse::WithNextQuestion {
                self.pending_from.get_or_insert(record.seq);
            }
        }
        if let Event::ChangesSettled(settled) = &record.event
            && settled.told().is_some()
        {
            self.pending_from.get_or_insert(record.seq);
        }
        if let Event::JobStarted(started) = &record.event {
            let (job, seq) = (started.job, record.seq);
            self.jobs.push(RunningJob { job, seq });
            self.last_job = self.last_job.max(job.0);
        }
        if let Event::JobEnded(ended) = &record.event {
            self.job_ended(record.seq, ended);
        }
        if let Event::CwdChanged { from, .. } = &record.event {
            self.previous_cwd = Some(from.clone());
        }
    }

    fn job_ended(&mut self, at: Seq, ended: &JobEnded) {
        let Some(place) = self.jobs.iter().position(|it| it.job == ended.job) else {
            return;
        };
        let RunningJob { job, seq } = self.jobs.remove(place);
        if self.ended_jobs.len() == MOST_ENDED_JOBS {
            self.ended_jobs.remove(0);
        }
        self.ended_jobs.push(EndedJob {
            job,
            started: seq,
            ended: at,
        });
        if ended.told().is_some() {
            self.pending_from.get_or_insert(at);
        }
    }

    /// The name of the next command that goes on in the background.
    pub fn next_job(&self) -> JobId {
        JobId(self.last_job + 1)
    }

    /// A question has taken the outputs along.
    pub(super) fn flushed(&mut self) {
        self.pending_from = None;
    }
}
