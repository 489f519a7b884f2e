//! Commands that a model proposes: what they would run with, asking the gate, starting them.

use std::sync::Arc;

use aish_proto::id::{Seq, TurnId};
use aishd_command::change_directory;
use aishd_command::change_directory::StartingDirectory;
use aishd_log::confirm::{Confirm, Decision, OnConfirm};
use aishd_log::environment::ClientVariables;
use aishd_log::run_changes::of_run;
use aishd_log::shell::CommandProposal;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_call::ToolCall;
use aishd_platform::clock;
use aishd_rules::boundary::BoundaryFailures;
use aishd_rules::command_setting::CommandSetting;
use aishd_rules::gate::{AdmittedCommand, CallJudgement, CommandGate, RunGround};
use aishd_tools::shell;
use aishd_tools::shell::{CommandLimits, RunRoom};
use aishd_turn::turn::TurnInput;
use tokio_util::sync::CancellationToken;

use crate::actor::{Conversation, TaskOutcome, argument_edit};
use crate::commands::command_output::CommandPrinting;
use crate::commands::proposed_command::BegunCommand;
use crate::request_error::RequestError;

impl Conversation {
    pub(crate) fn judge_command(
        &self,
        proposed: &CommandProposal,
        approved: Option<ContentDigest>,
    ) -> CallJudgement {
        self.with_command_gate(|gate| match approved {
            Some(digest) => gate.approved(proposed, digest),
            None => gate.judge(proposed),
        })
    }

    /// A command that may run waits for those that came before it.
    pub(crate) fn in_their_order(&mut self, judged: Vec<CallJudgement>) -> Vec<CallJudgement> {
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

    pub(crate) fn with_command_gate<T>(&self, work: impl FnOnce(CommandGate<'_>) -> T) -> T {
        let asks = OnConfirm::default();
        let on_confirm = self.turn.as_ref().map_or(&asks, |it| &it.on_confirm);
        self.with_command_gate_for(on_confirm, work)
    }

    /// The gate of a turn that is asked with that.
    pub(crate) fn with_command_gate_for<T>(
        &self,
        on_confirm: &OnConfirm,
        work: impl FnOnce(CommandGate<'_>) -> T,
    ) -> T {
        let policy = self.services.policy.borrow().clone();
        let models = self.models();
        let none = BoundaryFailures::default();
        let no_layers = self.services.trials.known_missing();
        let inside = RunGround {
            ground: &self.services.ground,
            widened: &models.norris.widened,
            failures: self.turn.as_ref().map_or(&none, |it| &it.failures),
            hold: self.run_hold(),
            no_layers: no_layers.as_deref(),
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
            jobs: &self.state.shell.jobs,
            now: clock::now(),
            next: self.next_confirm(),
        })
    }

    /// What its asker's client gave the running turn.
    pub(crate) fn given_to_turn(&self) -> ClientVariables {
        let seq = self
            .state
            .running
            .as_ref()
            .and_then(|it| it.environment_seq);
        self.given_at(seq).unwrap_or_default()
    }

    /// What a client gave with a question.
    pub(crate) fn given_at(&self, seq: Option<Seq>) -> Option<ClientVariables> {
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

    pub(crate) fn setting(&self, given: ClientVariables, cwd: &str) -> Arc<CommandSetting> {
        let base = self.services.tools.base();
        Arc::new(CommandSetting::new(given, base, cwd, shell::is_program))
    }

    /// What is written down of what a client gave: nothing, where that was said before.
    pub(crate) fn said_anew(&self, given: ClientVariables) -> Option<ClientVariables> {
        let known = self.state.shell.environment.map(|it| it.digest);
        let known = known.unwrap_or_else(|| ClientVariables::default().digest());
        (given.digest() != known).then_some(given)
    }

    /// What the command that is to run is bound to, if it would run as it was asked about.
    pub(crate) fn as_asked_command(
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
        let background = confirm.command().is_some_and(|it| it.asked.background);
        argument_edit::check_background(&meant.arguments, background)?;
        let meant = argument_edit::command(&meant.arguments)?;
        let setting = self.setting_of_turn().in_background(background);
        let is_same = setting.digest(&asked) == confirm.digest;
        let digest = setting.digest(&meant);
        Ok(is_same.then_some(digest))
    }

    pub(crate) fn start_command(
        &mut self,
        turn: TurnId,
        call: String,
        run: AdmittedCommand,
        token: CancellationToken,
    ) {
        self.commands.begin_of_turn(turn, call.clone());
        let begun = self.begin_command(Some(turn), &call, run, token);
        self.io.spawn(async move {
            let ended = Box::new(Box::pin(begun.run()).await);
            TaskOutcome::Turn(turn, Box::new(TurnInput::CommandEnded { call, ended }))
        });
    }

    /// Everybody who follows sees from here on what it prints.
    pub(crate) fn begin_command(
        &mut self,
        turn: Option<TurnId>,
        call: &str,
        run: AdmittedCommand,
        token: CancellationToken,
    ) -> BegunCommand {
        let in_layers = run.setting.held_by.layers().is_some();
        let layers = turn.filter(|_| in_layers).map(|it| RunRoom {
            room: self.services.trials.clone(),
            changes: of_run(it),
            reach: self.network_for(&run.command, Some(it)),
        });
        let printing = CommandPrinting::new(call, turn, self.state.last_seq);
        self.publisher.begin_printing(printing.clone());
        let policy = self.services.policy.borrow();
        let from = StartingDirectory {
            cwd: &run.setting.cwd,
            previous: self.state.shell.previous_cwd.as_deref(),
            home: run.setting.home(),
        };
        BegunCommand {
            layers,
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
