//! Commands that make calls and print once: the same on the command line and behind `:` in attach.

use aish_proto::conversation::ConversationStatus;
use aish_proto::method::Method;
use serde::Serialize;

use crate::client::connect::{Caller, RpcCallError};
use crate::client::conversation_choice;
use crate::command_output::{PrintResult, print};
use crate::environment::ClientEnvironment;
use crate::failure::Failure;
use crate::global_args::GlobalArgs;
use crate::picture::area::PictureArea;
use crate::picture::protocol::PictureSupport;

/// What such a command works with.
#[derive(Clone, Debug)]
pub struct CommandContext {
    pub caller: Caller,
    pub around: ClientEnvironment,
    pub global: GlobalArgs,
    /// A person can be asked on this terminal.
    pub may_prompt: bool,
    /// Whether pictures can be drawn where its output goes.
    pub(crate) draws: PictureSupport,
    /// What room they have among the rows of a window; absent: they are on stdout.
    pub(crate) picture_area: Option<PictureArea>,
    /// `ui.editor`, as configured.
    pub editor: String,
}

impl CommandContext {
    /// As [`Caller::call`].
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, RpcCallError> {
        self.caller.call::<M>(params).await
    }

    /// The conversation that is meant by a name, or by none.
    pub async fn meant(&self, name: Option<&str>) -> Result<ConversationStatus, Failure> {
        conversation_choice::resolve(&self.caller, &self.around, name).await
    }

    /// JSON where it was asked for, else what people read.
    pub fn print<T: Serialize>(&self, value: &T, human: impl FnOnce() -> String) -> PrintResult {
        print(&self.global, value, human)
    }

    /// The conversation of a command: its argument, then `-C`.
    pub fn name<'a>(&'a self, argument: Option<&'a str>) -> Option<&'a str> {
        argument.or(self.global.conversation.as_deref())
    }
}
