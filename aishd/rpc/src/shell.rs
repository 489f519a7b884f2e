//! `shell/*`, and commands as events show them.

use aish_proto::event::ShellOutput;
use aish_proto::shell::{
    Cancel, CancelResult, CommandAsked, CommandSegment, ProposedCommand, Run, RunResult,
    RunningCommand, ShellEnding,
};
use jsonrpsee::RpcModule;

use super::convert::Log;
use super::refusal::Refusal;
use super::{Call, Server, register};
use aishd_conversation::own_command::OwnCommand;
use aishd_conversation::printing::Printing;
use aishd_conversation::window::Part;
use aishd_log::ending::Ending;
use aishd_log::pattern::Patterns;
use aishd_log::shell::{Asked, Given, Proposed, tool};
use aishd_log::state::State;
use aishd_platform::clock;

pub(super) fn register_all(module: &mut RpcModule<Server>) {
    register::<Run, _, _>(module, run);
    register::<Cancel, _, _>(module, cancel);
}

async fn run(call: Call<Run>) -> Result<RunResult, Refusal> {
    let params = call.params;
    if let Some(cwd) = &params.cwd
        && !cwd.starts_with('/')
    {
        return Err(Refusal::params("cwd is an absolute directory"));
    }
    let wanted = OwnCommand {
        command: params.command,
        cwd: params.cwd,
        environment: call.connection.environment(&call.server),
        into_context: params.into_context,
        by: call.connection.person(),
    };
    // It is not done again where the conversation was closed under it: that it began nobody would know.
    let handle = call.server.directory.open(params.conversation).await?;
    let began = handle.run_command(wanted).await?;
    Ok(RunResult {
        call: began.call,
        seq: began.seq,
    })
}

async fn cancel(call: Call<Cancel>) -> Result<CancelResult, Refusal> {
    let handle = call.server.directory.open(call.params.conversation).await?;
    let by = call.connection.person();
    let cancelled = handle.cancel_command(call.params.call, by).await?;
    Ok(CancelResult { cancelled })
}

/// The person's own command that runs.
pub(super) fn running(state: &State) -> Option<RunningCommand> {
    let own = state.shell.own.first()?;
    Some(RunningCommand {
        call: own.call.clone(),
        command: own.shown.clone(),
    })
}

/// Nobody's patterns let a command run, and whoever gives one should know.
pub(super) fn refuse_pattern(patterns: &Patterns) -> Result<(), Refusal> {
    match patterns.covering(&tool().name) {
        Some(pattern) => Err(Refusal::params(&format!(
            "{pattern}: commands are allowed by their exact text only, each by a person"
        ))),
        None => Ok(()),
    }
}

pub(super) fn proposed(proposed: Proposed) -> ProposedCommand {
    ProposedCommand {
        call: proposed.call,
        command: proposed.command,
    }
}

/// What a confirm says of a command. Values of variables stay here: one may be a secret.
pub(super) fn asked(asked: Asked) -> CommandAsked {
    let Asked {
        command,
        shell,
        environment,
        segments,
        unread,
        dangers,
    } = asked;
    CommandAsked {
        command,
        shell,
        environment: environment.variables.into_keys().collect(),
        tty: environment.tty,
        segments: segments
            .into_iter()
            .map(|it| CommandSegment {
                runs: it.runs,
                redirects: it.redirects,
                substitutes: it.substitutes,
            })
            .collect(),
        unread,
        dangers,
    }
}

pub(super) fn ending(ending: Ending) -> (ShellEnding, Option<i32>, Option<i32>) {
    match ending {
        Ending::Exited { code } => (ShellEnding::Exited, Some(code), None),
        Ending::Signalled { signal } => (ShellEnding::Signalled, None, Some(signal)),
        Ending::TimedOut { .. } => (ShellEnding::TimedOut, None, None),
        Ending::Cut { .. } => (ShellEnding::Cut, None, None),
        Ending::Cancelled => (ShellEnding::Cancelled, None, None),
        Ending::Unknown => (ShellEnding::Unknown, None, None),
        Ending::Failed => (ShellEnding::Failed, None, None),
        Ending::Refused => (ShellEnding::Refused, None, None),
    }
}

pub(super) fn goes_to_model(given: Given) -> bool {
    match given {
        Given::WithNextQuestion | Given::AtOnce => true,
        Given::Never => false,
    }
}

/// What a command prints, as an event.
pub(super) fn printed(log: Log, printing: &Printing, part: Part) -> String {
    let data = ShellOutput {
        call: printing.call.clone(),
        offset: part.offset,
        text: part.text,
        gap: part.gap,
    };
    log.ephemeral(printing.turn, clock::now(), &data)
}
