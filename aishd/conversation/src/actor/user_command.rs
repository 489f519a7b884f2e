//! Commands of people: nobody is asked, and they have no turn. Those of one conversation run one after another, beside
//! whatever else it does; each that began has a start and an end in the log. What lasts between commands is the same for them
//! and for those of models.

use aish_proto::id::Seq;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::command_result::CommandResult;
use aishd_log::ending::CommandEnding;
use aishd_log::event::Event;
use aishd_log::shell::{CommandProposal, OutputUse};
use aishd_platform::clock;
use aishd_rules::gate::AdmittedCommand;
use aishd_store::CommitError;
use aishd_turn::turn::{Step, TurnInput, finish, not_begun, unfinished_command};

use crate::actor::{Conversation, TaskOutcome};
use crate::commands::command_queue::{NextCommand, RunningUserCommand};
use crate::commands::proposed_command::check;
use crate::pending_commit::{PendingCommit, UncommittedFact};
use crate::request_error::RequestError;
use crate::requests::{BegunUserCommand, UserCommandRequest};
use crate::view::LiveChange;

impl Conversation {
    pub(crate) async fn run_own(
        &mut self,
        wanted: UserCommandRequest,
    ) -> Result<BegunUserCommand, RequestError> {
        if self.services.draining.is_cancelled() {
            return Err(RequestError::Draining);
        }
        check(&wanted.command).map_err(|why| RequestError::BadCommand(why.to_owned()))?;
        let call = format!("run-{}", aish_proto::id::TurnId(clock::ulid()));
        if self.commands.is_empty() {
            let seq = Some(self.begin_own(&call, wanted).await?);
            return Ok(BegunUserCommand { call, seq });
        }
        if self.commands.is_full() {
            return Err(RequestError::TooManyCommands);
        }
        self.commands.wait(call.clone(), wanted);
        Ok(BegunUserCommand { call, seq: None })
    }

    async fn begin_own(
        &mut self,
        call: &str,
        wanted: UserCommandRequest,
    ) -> Result<Seq, CommitError> {
        let cwd = wanted.cwd.as_deref().unwrap_or(&self.state.cwd);
        let setting = self.lasting_setting(wanted.environment, cwd);
        let run = AdmittedCommand {
            digest: setting.digest(&wanted.command),
            command: wanted.command,
            setting,
            rule: "run by a person".to_owned(),
        };
        let given = if wanted.into_context {
            OutputUse::WithNextQuestion
        } else {
            OutputUse::Never
        };
        let fact = UncommittedFact {
            turn: None,
            by: Some(wanted.by),
            event: run.started(call, None, given),
        };
        let seq = self.commit(&[fact], LiveChange::Keep).await?;
        let token = self.services.stopping.child_token();
        let runs = RunningUserCommand {
            command: run.command.clone(),
            given,
            token: token.clone(),
            stopped_by: None,
        };
        self.commands.begin_own(call.to_owned(), runs);
        let begun = self.begin_command(None, call, run, token);
        let name = call.to_owned();
        self.io.spawn(
            async move { TaskOutcome::OwnEnded(name, Box::new(Box::pin(begun.run()).await)) },
        );
        Ok(seq)
    }

    /// Begins what waited for a command that has ended.
    pub(crate) async fn next_command(&mut self) {
        while self.stalled.is_none()
            && let Some(next) = self.commands.next()
        {
            match next {
                NextCommand::Own(call, wanted) => self.begin_waiting(&call, *wanted).await,
                NextCommand::OfTurn => self.free_turn().await,
            }
        }
    }

    async fn begin_waiting(&mut self, call: &str, wanted: UserCommandRequest) {
        let (command, by) = (wanted.command.clone(), wanted.by.clone());
        let why = if self.services.draining.is_cancelled() || self.services.stopping.is_cancelled()
        {
            "aishd ended before it began".to_owned()
        } else {
            match self.begin_own(call, wanted).await {
                Ok(_) => return,
                Err(error) => format!("its start could not be stored: {error}"),
            }
        };
        self.never_began(call, &command, by, &why).await;
    }

    /// The running turn's command can run now, if it still waits for that.
    async fn free_turn(&mut self) {
        if self.is_cancelled() {
            return self.stop_now(self.stop_of_token()).await;
        }
        let Some(active) = &mut self.turn else { return };
        let step = active.hear(TurnInput::Freed);
        Box::pin(self.take_step(step)).await;
    }

    /// Whoever looks on sees that it came to nothing; no model is told.
    async fn never_began(&mut self, call: &str, command: &str, by: AnsweringPerson, why: &str) {
        let fact = UncommittedFact {
            turn: None,
            by: Some(by),
            event: not_begun(call, command, why, OutputUse::Never),
        };
        Box::pin(self.settle(PendingCommit::facts(vec![fact]))).await;
    }

    pub(crate) async fn cancel_own(
        &mut self,
        call: &str,
        by: AnsweringPerson,
    ) -> Result<bool, RequestError> {
        if let Some(waited) = self.commands.take_waiting(call) {
            let why = "cancelled before it began";
            self.never_began(call, &waited.command, waited.by, why)
                .await;
        } else {
            let Some(runs) = self.commands.own_mut(call) else {
                return Ok(false);
            };
            runs.stopped_by.get_or_insert(by);
            runs.token.cancel();
            self.until_own_over(Some(call)).await;
        }
        if self.stalled.is_some() {
            let why = "the command was stopped, and its end still waits for the store";
            return Err(RequestError::Storage(why.to_owned()));
        }
        Ok(true)
    }

    /// Lets stopped commands say what they still owe: this one, or all.
    pub(crate) async fn until_own_over(&mut self, call: Option<&str>) {
        let runs = |it: &Self| match call {
            Some(call) => it.commands.own(call).is_some(),
            None => it.commands.runs_own(),
        };
        self.work_while(runs).await;
    }

    pub(crate) async fn own_ended(&mut self, call: String, mut ended: CommandResult) {
        let Some(runs) = self.commands.end_own(&call) else {
            return;
        };
        self.take_left(&mut ended).await;
        let proposed = CommandProposal {
            call,
            command: runs.command,
            background: false,
        };
        // It may have come to its own end first.
        let stopped_by = runs
            .stopped_by
            .filter(|_| ended.ending == CommandEnding::Cancelled);
        let mut step = Step::default();
        finish(&proposed, ended, runs.given, &mut step);
        let facts = step.events.into_iter().map(|event| UncommittedFact {
            turn: None,
            by: stopped_by.clone(),
            event,
        });
        self.settle(PendingCommit::facts(facts.collect())).await;
    }

    /// What the last daemon left running: nobody knows what became of it.
    pub(crate) fn own_left(&self) -> Vec<UncommittedFact> {
        let own = self.state.shell.own.iter();
        let ends = own.filter_map(|it| {
            let (command, given) = match self.services.store.record(self.id, it.seq) {
                Ok(Some(record)) => begun_by(record.event)?,
                Ok(None) => return None,
                Err(error) => {
                    // It is ended by the next one who can read it.
                    tracing::warn!(conversation = %self.id, %error, "the start of a command cannot be read");
                    return None;
                }
            };
            Some(UncommittedFact {
                turn: None,
                by: None,
                event: unfinished_command(&it.call, &command, CommandEnding::Unknown, given),
            })
        });
        ends.collect()
    }
}

fn begun_by(event: Event) -> Option<(String, OutputUse)> {
    let Event::ShellStarted { command, given, .. } = event else {
        return None;
    };
    Some((command, given))
}
