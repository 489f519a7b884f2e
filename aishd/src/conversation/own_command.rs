//! Commands of people: they run at once, beside whatever the conversation does, and nobody is asked (SHL-3). They have no
//! turn; each has a start and an end in the log.

use std::collections::BTreeMap;

use aish_proto::id::Seq;
use tokio_util::sync::CancellationToken;

use super::command::check;
use super::commit::{Fact, Pending};
use super::handle::{Handle, Request, RequestError};
use super::view::LiveChange;
use super::{Conversation, Done};
use crate::clock;
use crate::core::confirm::Person;
use crate::core::event::Event;
use crate::core::gate::Execution;
use crate::core::shell::ending::{Ended, Ending};
use crate::core::shell::setting::Environment;
use crate::core::shell::{Given, Proposed};
use crate::core::turn::{Step, finish, left};

/// So many of one conversation run at the same time.
const MOST: usize = 8;

/// What a person wants run.
#[derive(Clone, Debug)]
pub struct OwnCommand {
    pub command: String,
    /// `None`: the conversation's directory.
    pub cwd: Option<String>,
    pub environment: Environment,
    pub into_context: bool,
    pub by: Person,
}

/// One that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Began {
    pub call: String,
    /// Where its start stands.
    pub seq: Seq,
}

/// Those that run.
#[derive(Debug, Default)]
pub(super) struct OwnCommands(BTreeMap<String, Runs>);

#[derive(Debug)]
struct Runs {
    command: String,
    given: Given,
    token: CancellationToken,
}

impl OwnCommands {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}

impl Handle {
    /// Returns once its start is in the log.
    pub async fn run_command(&self, wanted: OwnCommand) -> Result<Began, RequestError> {
        self.request(|reply| Request::RunCommand(Box::new(wanted), reply))
            .await
    }

    /// Ends one that runs; false: it was over. Returns once its end is in the log.
    pub async fn cancel_command(&self, call: String) -> Result<bool, RequestError> {
        self.request(|reply| Request::CancelCommand(call, reply))
            .await
    }
}

impl Conversation {
    pub(super) async fn run_own(&mut self, wanted: OwnCommand) -> Result<Began, RequestError> {
        if self.around.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        check(&wanted.command).map_err(|why| RequestError::BadAnswer(why.to_owned()))?;
        if self.own_commands.0.len() >= MOST {
            return Err(RequestError::TooManyCommands);
        }
        let cwd = wanted.cwd.as_deref().unwrap_or(&self.state.cwd);
        let setting = self.setting(wanted.environment, cwd);
        let run = Execution {
            digest: setting.digest(&wanted.command),
            command: wanted.command,
            setting,
            rule: "run by a person".to_owned(),
        };
        let call = format!("run-{}", aish_proto::id::TurnId(clock::ulid()));
        let given = if wanted.into_context {
            Given::WithNextQuestion
        } else {
            Given::Never
        };
        let fact = Fact {
            turn: None,
            by: Some(wanted.by),
            event: run.started(&call, None, given),
        };
        let seq = self.commit(&[fact], LiveChange::Keep).await?;
        let token = self.around.stopping.child_token();
        let runs = Runs {
            command: run.command.clone(),
            given,
            token: token.clone(),
        };
        self.own_commands.0.insert(call.clone(), runs);
        let begun = self.begun(None, &call, run, token);
        let name = call.clone();
        self.io
            .spawn(async move { Done::OwnEnded(name, Box::new(begun.run().await)) });
        Ok(Began { call, seq })
    }

    pub(super) async fn cancel_own(&mut self, call: &str) -> Result<bool, RequestError> {
        let Some(runs) = self.own_commands.0.get(call) else {
            return Ok(false);
        };
        runs.token.cancel();
        self.until_own_over(Some(call)).await;
        if self.unstored.is_some() {
            let why = "the command was stopped, and its end still waits for the store";
            return Err(RequestError::Storage(why.to_owned()));
        }
        Ok(true)
    }

    /// Lets stopped commands say what they still owe: this one, or all.
    pub(super) async fn until_own_over(&mut self, call: Option<&str>) {
        let runs = |own: &OwnCommands| match call {
            Some(call) => own.0.contains_key(call),
            None => !own.is_empty(),
        };
        while runs(&self.own_commands) && self.unstored.is_none() {
            match self.io.join_next().await {
                Some(Ok(done)) => Box::pin(self.apply_done(done)).await,
                Some(Err(_aborted)) => {}
                None => return,
            }
        }
    }

    pub(super) async fn own_ended(&mut self, call: String, ended: Ended) {
        let Some(runs) = self.own_commands.0.remove(&call) else {
            return;
        };
        let proposed = Proposed {
            call,
            command: runs.command,
        };
        let mut step = Step::default();
        finish(&proposed, ended, runs.given, &mut step);
        let facts = step.events.into_iter().map(|event| Fact {
            turn: None,
            by: None,
            event,
        });
        self.settle(Pending::facts(facts.collect())).await;
    }

    /// What the last daemon left running: nobody knows what became of it.
    pub(super) fn own_left(&self) -> Vec<Fact> {
        let own = self.state.shell.own.iter();
        let ends = own.filter_map(|it| {
            let record = self.around.store.record(self.id, it.seq);
            let Event::ShellStarted { command, given, .. } = record.ok()??.event else {
                return None;
            };
            Some(Fact {
                turn: None,
                by: None,
                event: left(&it.call, &command, Ending::Unknown, given),
            })
        });
        ends.collect()
    }
}
