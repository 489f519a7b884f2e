//! Commands that make calls and print once: the same on the command line and behind `:` in attach.

use serde::Serialize;

use crate::args::{Command, Global, StatusFormat};
use crate::connect::Caller;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::surroundings::Surroundings;
use crate::{
    audit, confirm, context, conversations, export, import, kept, log, mcp, memory, model, norris,
    permission, queue, resource, route, rpc, run, safe, saved_prompt, status, tools, usage,
};

/// What such a command works with.
#[derive(Clone, Debug)]
pub struct Desk {
    pub caller: Caller,
    pub around: Surroundings,
    pub global: Global,
    /// A person can be asked on this terminal.
    pub may_prompt: bool,
    /// `ui.editor`, as configured.
    pub editor: String,
}

/// What a command has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Printed {
    pub text: String,
    pub json: bool,
    pub exit: Exit,
}

impl Printed {
    pub fn text(text: String) -> Self {
        Self {
            text,
            json: false,
            exit: Exit::DONE,
        }
    }

    /// The text as it may reach stdout.
    pub fn shown(&self, terminal: bool) -> String {
        match (self.json, terminal) {
            (true, true) => safe::json(&self.text),
            (true, false) => safe::json_pipe(&self.text).into_owned(),
            (false, _) => safe::screen(&self.text),
        }
    }
}

impl Desk {
    /// JSON where it was asked for, else what people read.
    pub fn print<T: Serialize>(
        &self,
        value: &T,
        human: impl FnOnce() -> String,
    ) -> Result<Printed, Failure> {
        print(&self.global, value, human)
    }

    /// The conversation of a command: its argument, then `-C`.
    pub fn name<'a>(&'a self, argument: Option<&'a str>) -> Option<&'a str> {
        argument.or(self.global.conversation.as_deref())
    }

    /// Runs a command that prints once.
    pub async fn run(&self, command: &Command) -> Result<Printed, Failure> {
        match command {
            Command::Conv { command } => conversations::run(self, command).await,
            Command::Fork(args) => conversations::fork(self, args).await,
            Command::Search(args) => conversations::search(self, args).await,
            Command::Status { format } => status::run(self, *format).await,
            Command::Reload => status::reload(self).await,
            Command::Metrics => status::metrics(self).await,
            Command::Model { name, command } => {
                model::run(self, name.as_deref(), command.as_ref()).await
            }
            Command::Route { command } => route::run(self, command.as_ref()).await,
            Command::Fallback { command } => route::fallback(self, command.as_ref()).await,
            Command::Norris(args) => norris::run(self, args).await,
            Command::Confirm { command } => confirm::run(self, command.as_ref()).await,
            Command::Perm { command } => permission::run(self, command.as_ref()).await,
            Command::Usage(args) => usage::run(self, args).await,
            Command::Audit(args) => audit::run(self, args).await,
            Command::Result(args) => kept::run(self, args).await,
            Command::Prompt { command } => saved_prompt::run(self, command.as_ref()).await,
            Command::Resource { command } => resource::run(self, command.as_ref()).await,
            Command::Context { command } => context::run(self, command.as_ref()).await,
            Command::Memory { command } => memory::run(self, command.as_ref()).await,
            Command::Remember(args) => memory::remember(self, args).await,
            Command::Forget { ids } => memory::forget(self, ids).await,
            Command::Queue { command } => queue::run(self, command.as_ref()).await,
            Command::Cancel { conversation } => queue::cancel(self, conversation.as_deref()).await,
            Command::Mcp { command } => mcp::run(self, command.as_ref()).await,
            Command::Tools { command } => tools::look(self, command).await,
            Command::Rpc(args) => rpc::run(self, args).await,
            Command::Log(args) => log::page(self, args).await,
            Command::Export(args) => export::to_file(self, args).await,
            Command::Import(args) => import::at_desk(self, args).await,
            Command::Help { topic } => run::help(topic).map(Printed::text),
            Command::Ask(_)
            | Command::Propose(_)
            | Command::Init { .. }
            | Command::Attach(_)
            | Command::Retry(_)
            | Command::Continue(_)
            | Command::Doctor
            | Command::Logs(_)
            | Command::Service { .. }
            | Command::Config { .. } => {
                Err(Failure::new(Exit::USAGE, "that command has its own output"))
            }
        }
    }
}

/// JSON where it was asked for, else what people read.
pub fn print<T: Serialize>(
    global: &Global,
    value: &T,
    human: impl FnOnce() -> String,
) -> Result<Printed, Failure> {
    if !global.json && !global.jsonl {
        return Ok(Printed::text(human()));
    }
    let mut text = serde_json::to_string(value)
        .map_err(|error| Failure::new(Exit::FAILED, format!("cannot print the result: {error}")))?;
    text.push('\n');
    Ok(Printed {
        text,
        json: true,
        exit: Exit::DONE,
    })
}

/// A command that a status bar runs again and again.
pub fn is_status_bar(command: &Command) -> bool {
    matches!(
        command,
        Command::Status {
            format: Some(StatusFormat::Tmux)
        }
    )
}
