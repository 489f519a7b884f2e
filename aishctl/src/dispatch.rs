//! From a parsed command to the module that runs it, for all that make calls and print once.

use aish_proto::changes::UndoAct;

use crate::args::CtlCommand;
use crate::command_output::{CommandOutput, PrintResult};
use crate::commands::command_context::CommandContext;
use crate::commands::prompt_ask::PromptRequest;
use crate::commands::status::{self, StatusFormat};
use crate::commands::undo::WantedChanges;
use crate::commands::{
    audit, changes, confirm, context, conversation, export, import, jobs, log, mcp, memory, model,
    norris, permission, queue, resource, result, route, rpc, saved_prompt, todo, tools, undo,
    usage,
};
use crate::dispatch::mcp::McpCommand;
use crate::dispatch::saved_prompt::SavedPromptCommand;
use crate::failure::Failure;
use crate::help;

impl CommandContext {
    /// Runs a command that prints once.
    pub async fn run(&self, command: &CtlCommand) -> PrintResult {
        match command {
            CtlCommand::Conv { command } => conversation::run(self, command).await,
            CtlCommand::Fork(args) => conversation::fork(self, args).await,
            CtlCommand::Todo { conversation } => todo::run(self, conversation.as_deref()).await,
            CtlCommand::Search(args) => conversation::search(self, args).await,
            CtlCommand::Status { format } => status::run(self, *format).await,
            CtlCommand::Reload => status::reload(self).await,
            CtlCommand::Metrics => status::metrics(self).await,
            CtlCommand::Model { name, command } => {
                model::run(self, name.as_deref(), command.as_ref()).await
            }
            CtlCommand::Route { command } => route::run(self, command.as_ref()).await,
            CtlCommand::Fallback { command } => route::fallback(self, command.as_ref()).await,
            CtlCommand::Norris(args) => norris::run(self, args).await,
            CtlCommand::Confirm { command } => confirm::run(self, command.as_ref()).await,
            CtlCommand::Changes { command } => changes::run(self, command.as_ref()).await,
            CtlCommand::Undo { changes, earlier } => {
                undo::run(self, UndoAct::Undo, WantedChanges::new(*changes, *earlier)).await
            }
            CtlCommand::Redo { changes } => {
                undo::run(self, UndoAct::Redo, WantedChanges::new(*changes, false)).await
            }
            CtlCommand::Perm { command } => permission::run(self, command.as_ref()).await,
            CtlCommand::Usage(args) => usage::run(self, args).await,
            CtlCommand::Audit(args) => audit::run(self, args).await,
            CtlCommand::Result(args) => result::run(self, args).await,
            CtlCommand::Prompt { command } => saved_prompt::run(self, command.as_ref()).await,
            CtlCommand::Resource { command } => resource::run(self, command.as_ref()).await,
            CtlCommand::Context { command } => context::run(self, command.as_ref()).await,
            CtlCommand::Memory { command } => memory::run(self, command.as_ref()).await,
            CtlCommand::Remember(args) => memory::remember(self, args).await,
            CtlCommand::Forget { ids } => memory::forget(self, ids).await,
            CtlCommand::Queue { command } => queue::run(self, command.as_ref()).await,
            CtlCommand::Jobs { command } => jobs::run(self, command.as_ref()).await,
            CtlCommand::Cancel { conversation } => {
                queue::cancel(self, conversation.as_deref()).await
            }
            CtlCommand::Mcp { command } => mcp::run(self, command.as_ref()).await,
            CtlCommand::Tools { command } => tools::look(self, command.as_ref()).await,
            CtlCommand::Rpc(args) => rpc::run(self, args).await,
            CtlCommand::Log(args) => log::page(self, args).await,
            CtlCommand::Export(args) => export::to_file(self, args).await,
            CtlCommand::Import(args) => import::in_window(self, args).await,
            CtlCommand::Help { topic } => {
                help::in_window(topic).map(|it| CommandOutput::text(format!("{it}\n")))
            }
            CtlCommand::Ask(_)
            | CtlCommand::Propose(_)
            | CtlCommand::Init { .. }
            | CtlCommand::ShellAsk
            | CtlCommand::Record(_)
            | CtlCommand::Completion { .. }
            | CtlCommand::Complete(_)
            | CtlCommand::Man(_)
            | CtlCommand::Key { .. }
            | CtlCommand::Attach(_)
            | CtlCommand::Retry(_)
            | CtlCommand::Continue(_)
            | CtlCommand::Doctor
            | CtlCommand::Store { .. }
            | CtlCommand::Backup(_)
            | CtlCommand::Restore(_)
            | CtlCommand::Logs(_)
            | CtlCommand::Service { .. }
            | CtlCommand::Config { .. } => Err(Failure::for_a_shell()),
        }
    }
}

/// A command that a status bar runs again and again.
pub(crate) fn is_status_bar(command: &CtlCommand) -> bool {
    matches!(
        command,
        CtlCommand::Status {
            format: Some(StatusFormat::Tmux)
        }
    )
}

/// What a command asks, when it asks a prompt.
pub(crate) fn prompt_request(command: &CtlCommand) -> Option<PromptRequest> {
    if let CtlCommand::Mcp {
        command: Some(McpCommand::Ask(args)),
    } = command
    {
        Some(PromptRequest::Served(args.clone()))
    } else if let CtlCommand::Prompt {
        command: Some(SavedPromptCommand::Ask(args)),
    } = command
    {
        Some(PromptRequest::Saved(args.clone()))
    } else {
        None
    }
}
