//! Commands that a model proposes, in the actor: what they would run with, asking the gate, starting them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::{Seq, TurnId};
use aishd_command::change_directory::{self, StartingDirectory};
use aishd_log::confirm::{Confirm, Decision, OnConfirm};
use aishd_log::ending::{CommandEnding, CommandResult};
use aishd_log::environment::ClientVariables;
use aishd_log::event::Event;
use aishd_log::shell::{ProposedLine, why_it_cannot_run};
use aishd_log::tool::ContentDigest;
use aishd_log::tool_call::ToolCall;
use aishd_platform::clock;
use aishd_rules::boundary::BoundaryFailures;
use aishd_rules::command_setting::CommandSetting;
use aishd_rules::gate::{ApprovedCommand, CallJudgement, CommandGate, RunContainment};
use aishd_tools::ToolRunner;
use aishd_tools::shell::{self, CommandLimits};
use aishd_turn::turn::{Step, TurnInput, finish};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::command_output::CommandPrinting;
use super::view::OutputPrinter;
use super::{Conversation, TaskOutcome, argument_edit};
use crate::request_error::RequestError;

/// A command on its way, with all that it needs.
#[derive(Debug)]
pub(super) struct BegunCommand {
    pub(super) run: ApprovedCommand,
    pub(super) tools: ToolRunner,
    pub(super) limits: CommandLimits,
    pub(super) printer: OutputPrinter,
    pub(super) token: CancellationToken,
    /// The directory that `cd` alone would change to, or why that cannot be said.
    pub(super) moves: Option<Result<String, String>>,
    /// The conversation's directory.
    pub(super) cwd: String,
}

impl Conversation {
    pub(super) fn judge_command(
        &self,
        proposed: &ProposedLine,
        approved: Option<ContentDigest>,
    ) -> CallJudgement {
        self.with_command_gate(|gate| match approved {
            Some(digest) => gate.approved(proposed, digest),
            None => gate.judge(proposed),
        })
    }

    /// A command that may run waits for those that came before it.
    pub(super) fn in_their_order(&mut self, judged: Vec<CallJudgement>) -> Vec<CallJudgement> {
        if !judged
            .iter()
            .any(|it| matches!(it, CallJudgement::Execute(_)))
            || !self.commands.holds_up_turn()
        {
            return judged;
        }
        self.commands.turn_waits();
        let held = |it| match it {
            CallJudgement::Execute(_) => CallJudgement::Later,
            CallJudgement::Run(_)
            | CallJudgement::Ask(_)
            | CallJudgement::Refuse { .. }
            | CallJudgement::Later => it,
        };
        judged.into_iter().map(held).collect()
    }

    pub(super) fn with_command_gate<T>(&self, work: impl FnOnce(CommandGate<'_>) -> T) -> T {
        let asks = OnConfirm::default();
        let on_confirm = self.turn.as_ref().map_or(&asks, |it| &it.on_confirm);
        self.with_command_gate_for(on_confirm, work)
    }

    /// The gate of a turn that is asked with that.
    pub(super) fn with_command_gate_for<T>(
        &self,
        on_confirm: &OnConfirm,
        work: impl FnOnce(CommandGate<'_>) -> T,
    ) -> T {
        let policy = self.services.policy.borrow().clone();
        let models = self.models();
        let none = BoundaryFailures::default();
        let inside = RunContainment {
            ground: &self.services.ground,
            widened: &models.norris.widened,
            failures: self.turn.as_ref().map_or(&none, |it| &it.failures),
            top: self.turn.as_ref().map(|it| it.top.as_str()),
        };
        work(CommandGate {
            inside,
            policy: &policy,
            grants: &self.state.grants,
            constraints: &self.state.constraints,
            on_confirm,
            autonomy: self.autonomy(),
            attended: self.expiry.presence(),
            setting: &self.setting_of_turn(),
            now: clock::now(),
            next: self.next_confirm(),
        })
    }

    /// What commands of the running turn run with: the conversation's directory, and what its asker's client gave.
    fn setting_of_turn(&self) -> Arc<CommandSetting> {
        let seq = self
            .state
            .running
            .as_ref()
            .and_then(|it| it.environment_seq);
        let given = self.given_at(seq);
        self.setting(given.unwrap_or_default(), &self.state.cwd)
    }

    /// What a client gave with a question.
    pub(super) fn given_at(&self, seq: Option<Seq>) -> Option<ClientVariables> {
        match seq.map(|it| self.services.store.record(self.id, it)) {
            Some(Ok(Some(record))) => record.event.environment().cloned(),
            Some(Err(error)) => {
                // It is asked about with what there is, and nothing else runs.
                tracing::warn!(conversation = %self.id, %error, "an environment cannot be read");
                None
            }
            Some(Ok(None)) | None => None,
        }
    }

    pub(super) fn setting(&self, given: ClientVariables, cwd: &str) -> Arc<CommandSetting> {
        let base = self.services.tools.base();
        Arc::new(CommandSetting::new(given, base, cwd, shell::is_program))
    }

    /// What is written down of what a client gave: nothing, where that was said before.
    pub(super) fn said_anew(&self, given: ClientVariables) -> Option<ClientVariables> {
        let known = self.state.shell.environment.map(|it| it.digest);
        let known = known.unwrap_or_else(|| ClientVariables::default().digest());
        (given.digest() != known).then_some(given)
    }

    /// What the command that is to run is bound to, if it would run as it was asked about.
    pub(super) fn as_asked_command(
        &self,
        confirm: &Confirm,
        decision: Decision,
        [asked, meant]: [&ToolCall; 2],
    ) -> Result<Option<ContentDigest>, RequestError> {
        // What cannot run can be said no to.
        if !decision.allows() {
            return Ok(Some(confirm.digest));
        }
        let asked = argument_edit::command(&asked.arguments)?;
        let meant = argument_edit::command(&meant.arguments)?;
        let setting = self.setting_of_turn();
        let is_same = setting.digest(&asked) == confirm.digest;
        let digest = setting.digest(&meant);
        Ok(is_same.then_some(digest))
    }

    pub(super) fn start_command(
        &mut self,
        turn: TurnId,
        call: String,
        run: ApprovedCommand,
        token: CancellationToken,
    ) {
        self.commands.begin_of_turn(turn, call.clone());
        let begun = self.begin_command(Some(turn), &call, run, token);
        self.io.spawn(async move {
            let ended = Box::new(begun.run().await);
            TaskOutcome::Turn(turn, Box::new(TurnInput::CommandEnded { call, ended }))
        });
    }

    /// Everybody who follows sees from here on what it prints.
    pub(super) fn begin_command(
        &self,
        turn: Option<TurnId>,
        call: &str,
        run: ApprovedCommand,
        token: CancellationToken,
    ) -> BegunCommand {
        let printing = CommandPrinting::new(call, turn, self.state.last_seq);
        self.publisher.begin_printing(printing.clone());
        let policy = self.services.policy.borrow();
        let from = StartingDirectory {
            cwd: &run.setting.cwd,
            previous: self.state.shell.previous_cwd.as_deref(),
            home: run.setting.home(),
        };
        BegunCommand {
            moves: change_directory::target(&run.command, from),
            tools: self.services.tools.clone(),
            limits: CommandLimits::of(&policy),
            printer: self.publisher.printer(printing),
            cwd: self.state.cwd.clone(),
            run,
            token,
        }
    }
}

impl BegunCommand {
    /// Runs it to its end, or until it is cancelled. Whatever happens, it has an end.
    pub(super) async fn run(self) -> CommandResult {
        let ran_in = self.run.setting.cwd.clone();
        let ended = AssertUnwindSafe(self.until_its_end()).catch_unwind().await;
        ended.unwrap_or_else(|_panic| CommandResult {
            ending: CommandEnding::Unknown,
            ..CommandResult::failed("internal error".to_owned(), &ran_in)
        })
    }

    async fn until_its_end(self) -> CommandResult {
        let ran_in = self.run.setting.cwd.clone();
        match self.moves {
            Some(Ok(target)) => {
                let failed = CommandResult::failed(String::new(), &ran_in);
                let goes = shell::change_directory(self.cwd, target, self.limits, ran_in);
                let went = self.token.run_until_cancelled(goes).await;
                went.unwrap_or(CommandResult {
                    ending: CommandEnding::Cancelled,
                    ..failed
                })
            }
            Some(Err(why)) => CommandResult {
                ending: CommandEnding::Exited { code: 1 },
                ..CommandResult::failed(why, &ran_in)
            },
            None => {
                let printer = self.printer;
                let print = |text: &str| printer.print(text);
                let run = &self.run;
                self.tools
                    .command(&run.command, &run.setting, self.limits, &self.token, print)
                    .await
            }
        }
    }
}

/// Why this is no command that could run.
pub(super) fn check(command: &str) -> Result<(), &'static str> {
    why_it_cannot_run(command).map_or(Ok(()), Err)
}

/// A command that was stopped had printed something: its end tells of that, too.
pub(super) fn fill(step: &mut Step, input: &TurnInput) {
    let TurnInput::CommandEnded { call, ended } = input else {
        return;
    };
    let place = step.events.iter().position(|it| is_end_of(it, call));
    let Some(place) = place else { return };
    if let Event::ShellFinished {
        command,
        ending,
        given,
        ..
    } = step.events[place].clone()
    {
        let proposed = ProposedLine {
            call: call.clone(),
            command,
        };
        let mut filled = Step::default();
        let ended = CommandResult {
            ending,
            moved: None,
            ..CommandResult::clone(ended)
        };
        finish(&proposed, ended, given, &mut filled);
        step.events.splice(place..=place, filled.events);
    }
}

fn is_end_of(event: &Event, wanted: &str) -> bool {
    if let Event::ShellFinished { call, refused, .. } = event {
        return call == wanted && refused.is_none();
    }
    false
}
