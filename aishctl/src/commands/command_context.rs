//! Commands that make calls and print once: the same on the command line and behind `:` in attach.

use serde::Serialize;

use crate::client::connect::Caller;
use crate::command_output::{CommandOutput, print};
use crate::environment::ClientEnvironment;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;

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
}
