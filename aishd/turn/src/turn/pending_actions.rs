//! What a message of a model wants done, each of which gets exactly one reply: calls of tools, some of which propose commands, and
//! after them the commands that its text proposes.

use aishd_log::confirm::Denial;
use aishd_log::ending::CommandEnding;
use aishd_log::event::{Event, RefusedCall, StopReason};
use aishd_log::shell::{CommandProposal, OutputUse};
use aishd_log::tool_call::ToolCall;
use aishd_model::reply::{FinishReason, Reply};

use super::replies::{refused, reply};
use crate::extract::{FinishedAnswer, commands};

#[derive(Clone, Debug, PartialEq)]
pub enum OwedReplies {
    Call(ToolCall),
    /// Of the text.
    Command(CommandProposal),
    /// Of a call: what becomes of it is the reply of that call.
    CalledCommand(CommandProposal),
}

impl OwedReplies {
    /// All of a message, in the order in which it begins: a call that proposes a command stands among the commands, under its id.
    pub fn of_answer(calls: Vec<ToolCall>, commands: Vec<CommandProposal>) -> Vec<Self> {
        let mut lines = commands;
        let mut owed = Vec::with_capacity(calls.len() + lines.len());
        for call in calls {
            owed.push(match lines.iter().position(|it| it.call == call.id) {
                Some(at) => Self::CalledCommand(lines.remove(at)),
                None => Self::Call(call),
            });
        }
        owed.extend(lines.into_iter().map(Self::Command));
        owed
    }

    pub fn id(&self) -> &str {
        match self {
            Self::Call(call) => &call.id,
            Self::Command(proposed) | Self::CalledCommand(proposed) => &proposed.call,
        }
    }

    /// What becomes of its output, where that of commands is `given`: a call has its reply at once.
    pub(super) fn given(&self, given: OutputUse) -> OutputUse {
        match self {
            Self::CalledCommand(_) => OutputUse::AtOnce,
            Self::Call(_) | Self::Command(_) => given,
        }
    }

    /// Puts what a person wrote in its place: one JSON object.
    pub(super) fn edit(&mut self, edited: &str) {
        match self {
            Self::Call(call) => edited.clone_into(&mut call.arguments),
            Self::Command(proposed) | Self::CalledCommand(proposed) => {
                if let Some(command) = command_of(edited) {
                    proposed.command = command;
                }
            }
        }
    }

    /// The reply of what never began.
    pub(super) fn refused(
        &self,
        denial: Option<Denial>,
        content: String,
        refused: Option<Box<RefusedCall>>,
        given: OutputUse,
    ) -> Event {
        match self {
            Self::Call(call) => reply(call, denial, content, refused),
            Self::Command(proposed) | Self::CalledCommand(proposed) => Event::ShellFinished {
                call: proposed.call.clone(),
                command: proposed.command.clone(),
                cwd: None,
                ending: CommandEnding::Refused,
                output: content,
                bytes: 0,
                ms: None,
                kept: None,
                denial,
                refused,
                given: self.given(given),
                network: None,
            },
        }
    }

    /// The reply of what began and never said how it ended.
    pub(super) fn unfinished_command(
        &self,
        unknown: &str,
        ending: CommandEnding,
        given: OutputUse,
    ) -> Event {
        match self {
            Self::Call(call) => reply(call, None, unknown.to_owned(), None),
            Self::Command(proposed) | Self::CalledCommand(proposed) => {
                let given = self.given(given);
                unfinished_command(&proposed.call, &proposed.command, ending, given)
            }
        }
    }
}

/// The end of a command that began and was left.
pub fn unfinished_command(
    call: &str,
    command: &str,
    ending: CommandEnding,
    given: OutputUse,
) -> Event {
    Event::ShellFinished {
        call: call.to_owned(),
        command: command.to_owned(),
        cwd: None,
        ending,
        output: String::new(),
        bytes: 0,
        ms: None,
        kept: None,
        denial: None,
        refused: None,
        given,
        network: None,
    }
}

/// The end of a command that never began, and nobody said no to.
pub fn not_begun(call: &str, command: &str, why: &str, given: OutputUse) -> Event {
    let proposed = OwedReplies::Command(CommandProposal {
        call: call.to_owned(),
        command: command.to_owned(),
        background: false,
    });
    let refused = Some(refused(None, why));
    proposed.refused(None, format!("[aish] {why}"), refused, given)
}

/// The command in what a person made of a confirm's arguments.
pub fn command_of(arguments: &str) -> Option<String> {
    let arguments: serde_json::Value = serde_json::from_str(arguments).ok()?;
    let command = arguments.get("command")?.as_str()?;
    Some(command.to_owned())
}

/// What a person is told of an answer that may not be all of it: its server stopped for a reason of its own.
pub(super) fn remark_of_end(reply: &Reply, goes_on: bool) -> Option<&'static str> {
    match reply.finish {
        Some(FinishReason::Other) => Some(
            "the server ended this answer for a reason that is not known here: it may not be whole",
        ),
        Some(FinishReason::Paused) if !goes_on => Some(
            "the server paused this answer again and again, and is not asked any more: it may not be whole",
        ),
        Some(
            FinishReason::Stop
            | FinishReason::Length
            | FinishReason::ToolCalls
            | FinishReason::ContentFilter
            | FinishReason::Paused,
        )
        | None => None,
    }
}

/// The commands that the text of an answer proposes, and how many lines were too many. It has to have ended by itself: the last line of
/// a text that broke off, or that the server cut, may be the beginning of another one. `before` is what it goes on from:
/// a fence that was opened there is open here, and a line that began there is none of this answer.
pub(super) fn proposed(
    before: &str,
    reply: &Reply,
    stop: StopReason,
    item: u32,
) -> (Vec<CommandProposal>, usize) {
    let whole = format!("{before}{}", reply.text);
    // A server that stops for a reason of its own may have stopped anywhere.
    let finished = match reply.finish {
        Some(FinishReason::Stop | FinishReason::ToolCalls) | None => {
            FinishedAnswer::of(&whole, stop)
        }
        Some(
            FinishReason::Length
            | FinishReason::ContentFilter
            | FinishReason::Paused
            | FinishReason::Other,
        ) => None,
    };
    let Some(lines) = finished.map(commands) else {
        return (vec![], 0);
    };
    let begins_here = |command: &&str| {
        let at = command.as_ptr() as usize - whole.as_ptr() as usize;
        let line = whole.get(..at).and_then(|it| it.rfind('\n'));
        line.map_or(0, |it| it + 1) >= before.len()
    };
    let numbered = lines.commands.into_iter().filter(begins_here).enumerate();
    let proposed = numbered.map(|(number, command)| {
        // Calls of the answer have ids of their server's choice.
        let mut call = format!("cmd{item}-{number}");
        while reply.calls.iter().any(|it| it.id == call) {
            call.push('x');
        }
        CommandProposal {
            call,
            command: command.to_owned(),
            background: false,
        }
    });
    (proposed.collect(), lines.left_out)
}
