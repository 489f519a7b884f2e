//! Commands that a model proposes, in the actor: what they would run with, asking the gate, starting them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use aish_proto::id::{Seq, TurnId};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::handle::RequestError;
use super::printing::Printing;
use super::view::Printer;
use super::{Conversation, Done, edit};
use aishd_command::change_directory;
use aishd_command::change_directory::From;
use aishd_log::confirm::{Confirm, Decision, OnConfirm};
use aishd_log::ending::{Ended, Ending};
use aishd_log::environment::Environment;
use aishd_log::event::Event;
use aishd_log::shell::{Proposed, why_it_cannot_run};
use aishd_log::tool::Sha;
use aishd_log::tool_call::ToolCall;
use aishd_platform::clock;
use aishd_rules::boundary::Failures;
use aishd_rules::gate::{CommandGate, Execution, Inside, Judged};
use aishd_rules::setting::Setting;
use aishd_tools::Tools;
use aishd_tools::shell::{self, Limits};
use aishd_turn::turn::{Input, Step, finish};

/// A command on its way, with all that it needs.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) run: Execution,
    pub(super) tools: Tools,
    pub(super) limits: Limits,
    pub(super) printer: Printer,
    pub(super) token: CancellationToken,
    /// The directory that `cd` alone would change to, or why that cannot be said.
    pub(super) moves: Option<Result<String, String>>,
    /// The conversation's directory.
    pub(super) cwd: String,
}

impl Conversation {
    pub(super) fn judge_command(&self, proposed: &Proposed, approved: Option<Sha>) -> Judged {
        self.with_command_gate(|gate| match approved {
            Some(digest) => gate.approved(proposed, digest),
            None => gate.judge(proposed),
        })
    }

    /// A command that may run waits for those that came before it.
    pub(super) fn in_their_order(&mut self, judged: Vec<Judged>) -> Vec<Judged> {
        if !judged.iter().any(|it| matches!(it, Judged::Execute(_)))
            || !self.commands.holds_up_turn()
        {
            return judged;
        }
        self.commands.turn_waits();
        let held = |it| match it {
            Judged::Execute(_) => Judged::Later,
            Judged::Run(_) | Judged::Ask(_) | Judged::Refuse { .. } | Judged::Later => it,
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
        let policy = self.around.policy.borrow().clone();
        let models = self.models();
        let none = Failures::default();
        let inside = Inside {
            ground: &self.around.ground,
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
            attended: self.attended_by(),
            setting: &self.setting_of_turn(),
            now: clock::now(),
            next: self.next_confirm(),
        })
    }

    /// What commands of the running turn run with: the conversation's directory, and what its asker's client gave.
    fn setting_of_turn(&self) -> Arc<Setting> {
        let seq = self
            .state
            .running
            .as_ref()
            .and_then(|it| it.environment_seq);
        let given = self.given_at(seq);
        self.setting(given.unwrap_or_default(), &self.state.cwd)
    }

    /// What a client gave with a question.
    pub(super) fn given_at(&self, seq: Option<Seq>) -> Option<Environment> {
        match seq.map(|it| self.around.store.record(self.id, it)) {
            Some(Ok(Some(record))) => given(record.event),
            Some(Err(error)) => {
                // It is asked about with what there is, and nothing else runs.
                tracing::warn!(conversation = %self.id, %error, "an environment cannot be read");
                None
            }
            Some(Ok(None)) | None => None,
        }
    }

    pub(super) fn setting(&self, given: Environment, cwd: &str) -> Arc<Setting> {
        let base = self.around.tools.base();
        Arc::new(Setting::new(given, base, cwd, shell::is_program))
    }

    /// What is written down of what a client gave: nothing, where that was said before.
    pub(super) fn said_anew(&self, given: Environment) -> Option<Environment> {
        let known = self.state.shell.environment.map(|it| it.digest);
        let known = known.unwrap_or_else(|| Environment::default().digest());
        (given.digest() != known).then_some(given)
    }

    /// What the command that is to run is bound to, if it would run as it was asked about.
    pub(super) fn as_asked_command(
        &self,
        confirm: &Confirm,
        decision: Decision,
        [asked, meant]: [&ToolCall; 2],
    ) -> Result<Option<Sha>, RequestError> {
        // What cannot run can be said no to.
        if !decision.allows() {
            return Ok(Some(confirm.digest));
        }
        let asked = edit::command(&asked.arguments)?;
        let meant = edit::command(&meant.arguments)?;
        let setting = self.setting_of_turn();
        let is_same = setting.digest(&asked) == confirm.digest;
        let digest = setting.digest(&meant);
        Ok(is_same.then_some(digest))
    }

    pub(super) fn start_command(
        &mut self,
        turn: TurnId,
        call: String,
        run: Execution,
        token: CancellationToken,
    ) {
        self.commands.begin_of_turn(turn, call.clone());
        let begun = self.begun(Some(turn), &call, run, token);
        self.io.spawn(async move {
            let ended = Box::new(begun.run().await);
            Done::Turn(turn, Box::new(Input::CommandEnded { call, ended }))
        });
    }

    /// Everybody who follows sees from here on what it prints.
    pub(super) fn begun(
        &self,
        turn: Option<TurnId>,
        call: &str,
        run: Execution,
        token: CancellationToken,
    ) -> Begun {
        let printing = Printing::new(call, turn, self.state.last_seq);
        self.publisher.begin_printing(printing.clone());
        let policy = self.around.policy.borrow();
        let from = From {
            cwd: &run.setting.cwd,
            previous: self.state.shell.previous_cwd.as_deref(),
            home: run.setting.home(),
        };
        Begun {
            moves: change_directory::target(&run.command, from),
            tools: self.around.tools.clone(),
            limits: Limits::of(&policy),
            printer: self.publisher.printer(printing),
            cwd: self.state.cwd.clone(),
            run,
            token,
        }
    }
}

impl Begun {
    /// Runs it to its end, or until it is cancelled. Whatever happens, it has an end.
    pub(super) async fn run(self) -> Ended {
        let ran_in = self.run.setting.cwd.clone();
        let ended = AssertUnwindSafe(self.until_its_end()).catch_unwind().await;
        ended.unwrap_or_else(|_panic| Ended {
            ending: Ending::Unknown,
            ..Ended::failed("internal error".to_owned(), &ran_in)
        })
    }

    async fn until_its_end(self) -> Ended {
        let ran_in = self.run.setting.cwd.clone();
        match self.moves {
            Some(Ok(target)) => {
                let failed = Ended::failed(String::new(), &ran_in);
                let goes = shell::change_directory(self.cwd, target, self.limits, ran_in);
                let went = self.token.run_until_cancelled(goes).await;
                went.unwrap_or(Ended {
                    ending: Ending::Cancelled,
                    ..failed
                })
            }
            Some(Err(why)) => Ended {
                ending: Ending::Exited { code: 1 },
                ..Ended::failed(why, &ran_in)
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

pub(super) fn given(event: Event) -> Option<Environment> {
    let Event::UserMessage { environment, .. } = event else {
        return None;
    };
    environment
}

/// Why this is no command that could run.
pub(super) fn check(command: &str) -> Result<(), &'static str> {
    why_it_cannot_run(command).map_or(Ok(()), Err)
}

/// A command that was stopped had printed something: its end tells of that, too.
pub(super) fn fill(step: &mut Step, input: &Input) {
    let Input::CommandEnded { call, ended } = input else {
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
        let proposed = Proposed {
            call: call.clone(),
            command,
        };
        let mut filled = Step::default();
        let ended = Ended {
            ending,
            moved: None,
            ..Ended::clone(ended)
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
