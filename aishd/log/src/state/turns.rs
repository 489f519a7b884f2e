//! The turns of a conversation that are not over, as its state has them.

use aish_proto::id::{Seq, TurnId};
use serde::{Deserialize, Serialize};

use crate::server_task::ServerTask;
use crate::shell::{CommandProposal, TOOL};
use crate::tool::DecisionSubject;
use crate::tool_call::ToolCall;
use crate::usage::Usage;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningTurn {
    pub turn: TurnId,
    /// Where its question stands.
    pub message_seq: Seq,
    pub started_seq: Seq,
    /// Answers of the model that are finished.
    #[serde(default)]
    pub items: u32,
    /// Calls of the last answer that have no result yet.
    #[serde(default)]
    pub open_calls: Vec<OpenCall>,
    /// Where the last answer stands.
    #[serde(default)]
    pub answer_seq: Seq,
    /// Answers that called tools.
    #[serde(default)]
    pub rounds: u32,
    #[serde(default)]
    pub usage: Usage,
    /// Where the environment stands that its commands run with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_seq: Option<Seq>,
}

impl RunningTurn {
    /// The model has answered: all that the answer wants done is owed. A call that proposes a command is there as that.
    pub(super) fn answered(&mut self, at: Seq, calls: &[ToolCall], commands: &[CommandProposal]) {
        let open = |id: &str, name: &str, command: Option<&str>| OpenCall {
            id: id.to_owned(),
            name: name.to_owned(),
            started: false,
            subject: None,
            command: command.map(str::to_owned),
            task: None,
        };
        let is_command = |it: &&ToolCall| commands.iter().any(|line| line.call == it.id);
        let called = calls.iter().filter(|it| !is_command(it));
        let called = called.map(|it| open(&it.id, &it.name, None));
        let proposed = commands.iter();
        let proposed = proposed.map(|it| open(&it.call, TOOL, Some(&it.command)));
        self.items += 1;
        self.answer_seq = at;
        self.open_calls = called.chain(proposed).collect();
        self.rounds += u32::from(!self.open_calls.is_empty());
    }
}

/// A call whose reply is still owed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    pub id: String,
    pub name: String,
    /// Whether it began to run: then its effect is unknown until it has said so.
    #[serde(default)]
    pub started: bool,
    /// What began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<DecisionSubject>,
    /// What is proposed, where it is a command and no call of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What its server calls it, where that goes on with it by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<ServerTask>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedTurn {
    pub turn: TurnId,
    /// Where its question stands.
    pub message_seq: Seq,
    #[serde(default)]
    pub steer: bool,
    /// The turn whose answer leaves the context with its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<TurnId>,
    /// Outputs that wait go with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_new: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment_seq: Option<Seq>,
}
