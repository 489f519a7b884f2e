//! `shell/*`, and commands as events show them.

use aish_proto::event::ShellOutput;
use aish_proto::shell::{
    self as wire, Cancel, CommandAsked, CommandSegment, ProposedCommand, Run, RunHolding,
    RunResult, RunningCommand, ShellCancelResult, ShellEnding,
};
use aishd_conversation::commands::command_output::CommandPrinting;
use aishd_conversation::requests::UserCommandRequest;
use aishd_conversation::view::tail_buffer::TailPart;
use aishd_log::ending::CommandEnding;
use aishd_log::lasting_environment::LastingVariable;
use aishd_log::norris::launch::RunHold;
use aishd_log::pattern::Patterns;
use aishd_log::shell::{CommandProposal, CommandQuestion, OutputUse, tool};
use aishd_log::state::ConversationState;
use aishd_platform::clock;
use jsonrpsee::RpcModule;

use super::method_error::MethodError;
use super::{MethodCall, RpcServer, register};
use crate::log_owner::LogOwner;

pub(super) fn register_all(module: &mut RpcModule<RpcServer>) {
    register::<Run, _, _>(module, run);
    register::<Cancel, _, _>(module, cancel);
}

async fn run(call: MethodCall<Run>) -> Result<RunResult, MethodError> {
    let params = call.params;
    if let Some(cwd) = &params.cwd
        && !cwd.starts_with('/')
    {
        return Err(MethodError::params("cwd is an absolute directory"));
    }
    let wanted = UserCommandRequest {
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

async fn cancel(call: MethodCall<Cancel>) -> Result<ShellCancelResult, MethodError> {
    let handle = call.server.directory.open(call.params.conversation).await?;
    let by = call.connection.person();
    let cancelled = handle.cancel_command(call.params.call, by).await?;
    Ok(ShellCancelResult { cancelled })
}

/// The person's own command that runs.
pub(super) fn running(state: &ConversationState) -> Option<RunningCommand> {
    let own = state.shell.own.first()?;
    Some(RunningCommand {
        call: own.call.clone(),
        command: own.shown.clone(),
    })
}

/// Nobody's patterns let a command run, and whoever gives one should know.
pub(super) fn refuse_pattern(patterns: &Patterns) -> Result<(), MethodError> {
    match patterns.covering(&tool().name) {
        Some(pattern) => Err(MethodError::params(&format!(
            "{pattern}: commands are allowed by their exact text only, each by a person"
        ))),
        None => Ok(()),
    }
}

pub(super) fn proposed(proposed: CommandProposal) -> ProposedCommand {
    ProposedCommand {
        call: proposed.call,
        command: proposed.command,
        background: proposed.background,
    }
}

/// What a confirm says of a command. Values of variables stay here: one may be a secret.
pub(super) fn wire_command(asked: CommandQuestion) -> CommandAsked {
    let CommandQuestion {
        command,
        shell,
        background,
        environment,
        lasting,
        segments,
        unread,
        dangers,
        mentions,
        beyond,
    } = asked;
    CommandAsked {
        command,
        shell,
        background,
        environment: environment.variables.into_keys().collect(),
        tty: environment.tty,
        lasting: lasting.into_iter().map(lasting_variable).collect(),
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
        mentions,
        beyond: beyond.map(|it| match it {
            RunHold::Reads => RunHolding::Reads,
            RunHold::Wall => RunHolding::Workspace,
            RunHold::Layers => RunHolding::Try,
        }),
    }
}

fn lasting_variable(it: LastingVariable) -> wire::LastingVariable {
    wire::LastingVariable {
        name: it.name,
        value: it.value,
        removed: it.removed,
    }
}

pub(super) fn ending(ending: CommandEnding) -> (ShellEnding, Option<i32>, Option<i32>) {
    match ending {
        CommandEnding::Exited { code } => (ShellEnding::Exited, Some(code), None),
        CommandEnding::Signalled { signal } => (ShellEnding::Signalled, None, Some(signal)),
        CommandEnding::TimedOut { .. } => (ShellEnding::TimedOut, None, None),
        CommandEnding::Cut { .. } => (ShellEnding::Cut, None, None),
        CommandEnding::Full => (ShellEnding::Full, None, None),
        CommandEnding::Cancelled => (ShellEnding::Cancelled, None, None),
        CommandEnding::Unknown => (ShellEnding::Unknown, None, None),
        CommandEnding::Failed => (ShellEnding::Failed, None, None),
        CommandEnding::Refused => (ShellEnding::Refused, None, None),
        CommandEnding::Background { .. } => (ShellEnding::Background, None, None),
    }
}

pub(super) fn goes_to_model(given: OutputUse) -> bool {
    match given {
        OutputUse::WithNextQuestion | OutputUse::AtOnce => true,
        OutputUse::Never => false,
    }
}

/// What a command prints, as an event.
pub(super) fn printed(log: LogOwner, printing: &CommandPrinting, part: TailPart) -> String {
    let data = ShellOutput {
        call: printing.call.clone(),
        offset: part.offset,
        text: part.text,
        gap: part.gap,
    };
    log.ephemeral(printing.turn, clock::now(), &data)
}
