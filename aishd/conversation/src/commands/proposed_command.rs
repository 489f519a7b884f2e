//! Running one command, outside the actor, and the end that it has. What it would run with, and whether it may, is in
//! `actor/proposed_command`.

use std::panic::AssertUnwindSafe;

use aishd_log::command_result::CommandResult;
use aishd_log::ending::CommandEnding;
use aishd_log::event::Event;
use aishd_log::shell::{CommandProposal, why_it_cannot_run};
use aishd_rules::gate::AdmittedCommand;
use aishd_tools::shell::{CommandLimits, RunRoom};
use aishd_tools::{ToolRunner, entered_directory};
use aishd_turn::turn::{Step, TurnInput, finish};
use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::view::OutputPrinter;

/// A command on its way, with all that it needs.
#[derive(Debug)]
pub(crate) struct BegunCommand {
    pub(crate) run: AdmittedCommand,
    pub(crate) tools: ToolRunner,
    pub(crate) limits: CommandLimits,
    pub(crate) printer: OutputPrinter,
    pub(crate) token: CancellationToken,
    /// Those of its run, where it works in layers.
    pub(crate) layers: Option<RunRoom>,
    /// The directory that `cd` alone would change to, or why that cannot be said.
    pub(crate) moves: Option<Result<String, String>>,
    /// The conversation's directory.
    pub(crate) cwd: String,
}

impl BegunCommand {
    /// Runs it to its end, or until it is cancelled. Whatever happens, it has an end.
    pub(crate) async fn run(self) -> CommandResult {
        let ran_in = self.run.setting.cwd.clone();
        let ended = Box::pin(AssertUnwindSafe(self.until_its_end()).catch_unwind()).await;
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
                let goes =
                    entered_directory::change_directory(self.cwd, target, self.limits, ran_in);
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
                let (run, limits, token) = (&self.run, self.limits, &self.token);
                match self.layers {
                    None => {
                        self.tools
                            .command(&run.command, &run.setting, limits, token, print)
                            .await
                    }
                    Some(layers) => {
                        self.tools
                            .command_in_layers(
                                &run.command,
                                &run.setting,
                                limits,
                                token,
                                layers,
                                print,
                            )
                            .await
                    }
                }
            }
        }
    }
}

/// Why this is no command that could run.
pub(crate) fn check(command: &str) -> Result<(), &'static str> {
    why_it_cannot_run(command).map_or(Ok(()), Err)
}

/// A command that was stopped had printed something: its end tells of that, too.
pub(crate) fn fill(step: &mut Step, input: &TurnInput) {
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
        let proposed = CommandProposal {
            call: call.clone(),
            command,
            background: false,
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

pub(crate) fn is_end_of(event: &Event, wanted: &str) -> bool {
    if let Event::ShellFinished { call, refused, .. } = event {
        return call == wanted && refused.is_none();
    }
    false
}
