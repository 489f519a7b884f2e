//! Commands that make calls and print once: the same on the command line and behind `:` in attach.

use serde::Serialize;

use crate::args::{CtlCommand, GlobalArgs, StatusFormat};
use crate::connect::Caller;
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::{
    audit, confirm, context, conversations, export, import, log, mcp, memory, model, norris,
    permission, queue, resource, result, route, rpc, run, safe, saved_prompt, status, tools, usage,
};

/// What such a command works with.
#[derive(Clone, Debug)]
pub struct CommandContext {
    pub caller: Caller,
    pub around: ClientEnvironment,
    pub global: GlobalArgs,
    /// A person can be asked on this terminal.
    pub may_prompt: bool,
    /// `ui.editor`, as configured.
    pub editor: String,
}

/// What a command has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandOutput {
    pub text: String,
    pub json: bool,
    pub exit: Exit,
}

impl CommandOutput {
    pub fn text(text: String) -> Self {
        Self {
            text,
            json: false,
            exit: Exit::DONE,
        }
    }

    /// The text as it may reach stdout.
    pub fn render(&self, terminal: bool) -> String {
        match (self.json, terminal) {
            (true, true) => safe::json(&self.text),
            (true, false) => safe::json_pipe(&self.text).into_owned(),
            (false, _) => safe::screen(&self.text),
        }
    }
}

impl CommandContext {
    /// JSON where it was asked for, else what people read.
    pub fn print<T: Serialize>(
        &self,
        value: &T,
        human: impl FnOnce() -> String,
    ) -> Result<CommandOutput, Failure> {
        print(&self.global, value, human)
    }

    /// The conversation of a command: its argument, then `-C`.
    pub fn name<'a>(&'a self, argument: Option<&'a str>) -> Option<&'a str> {
        argument.or(self.global.conversation.as_deref())
    }

    /// Runs a command that prints once.
    pub async fn run(&self, command: &CtlCommand) -> Result<CommandOutput, Failure> {
        match command {
            CtlCommand::Conv { command } => conversations::run(self, command).await,
            CtlCommand::Fork(args) => conversations::fork(self, args).await,
            CtlCommand::Search(args) => conversations::search(self, args).await,
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
            CtlCommand::Cancel { conversation } => {
                queue::cancel(self, conversation.as_deref()).await
            }
            CtlCommand::Mcp { command } => mcp::run(self, command.as_ref()).await,
            CtlCommand::Tools { command } => tools::look(self, command).await,
            CtlCommand::Rpc(args) => rpc::run(self, args).await,
            CtlCommand::Log(args) => log::page(self, args).await,
            CtlCommand::Export(args) => export::to_file(self, args).await,
            CtlCommand::Import(args) => import::at_desk(self, args).await,
            CtlCommand::Help { topic } => run::help(topic).map(CommandOutput::text),
            CtlCommand::Ask(_)
            | CtlCommand::Propose(_)
            | CtlCommand::Init { .. }
            | CtlCommand::Attach(_)
            | CtlCommand::Retry(_)
            | CtlCommand::Continue(_)
            | CtlCommand::Doctor
            | CtlCommand::Logs(_)
            | CtlCommand::Service { .. }
            | CtlCommand::Config { .. } => {
                Err(Failure::new(Exit::USAGE, "that command has its own output"))
            }
        }
    }
}

/// JSON where it was asked for, else what people read.
pub fn print<T: Serialize>(
    global: &GlobalArgs,
    value: &T,
    human: impl FnOnce() -> String,
) -> Result<CommandOutput, Failure> {
    if !global.json && !global.jsonl {
        return Ok(CommandOutput::text(human()));
    }
    let mut text = serde_json::to_string(value)
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot print the result: {error}")))?;
    text.push('\n');
    Ok(CommandOutput {
        text,
        json: true,
        exit: Exit::DONE,
    })
}

/// A command that a status bar runs again and again.
pub fn is_status_bar(command: &CtlCommand) -> bool {
    matches!(
        command,
        CtlCommand::Status {
            format: Some(StatusFormat::Tmux)
        }
    )
}
