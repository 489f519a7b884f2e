//! A question to a person, as a fact: what would run, and what became of it.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::{ClientId, ConfirmId};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::access::Access;
use crate::pattern::Patterns;
use crate::shell;
use crate::time::Timestamp;
use crate::tool::{ContentDigest, DecisionSubject};
use crate::tool_name::ToolName;

/// What is asked. It runs what `digest` is of, or nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Confirm {
    pub id: ConfirmId,
    /// Counts the confirms of a conversation from 1; people say `c7`.
    pub number: u32,
    pub kind: ConfirmKind,
    pub title: String,
    /// The call of the model's message that waits for it; one that began already, for what a server asks.
    pub call: String,
    pub tool: ToolName,
    /// One JSON object in its canonical spelling: the bytes that run.
    pub arguments: String,
    pub cwd: String,
    /// Where it runs.
    pub server: String,
    pub digest: ContentDigest,
    /// The tool as it was when this was asked.
    pub definition: Value,
    pub definition_digest: ContentDigest,
    /// All tools of its provider as they were when this was asked.
    #[serde(
        rename = "provider_digest",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub provider_digest: Option<ContentDigest>,
    /// The tool as it was when it was approved, where it changed since.
    #[serde(default)]
    pub approved_definition: Option<Value>,
    pub needs: Access,
    /// The level that the provider would get.
    #[serde(default)]
    pub raise_to: Option<Access>,
    pub why: String,
    /// The same for the audit trail, where `why` has a word of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_told: Option<String>,
    /// What a server asks, as it was sent; for an elicitation.
    #[serde(
        rename = "elicitation",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub elicitation: Option<Value>,
    /// What a server wants a model to be asked; for sampling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<ForModel>,
    /// What is asked about a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shell: Option<Box<shell::CommandQuestion>>,
    pub options: Vec<Decision>,
    /// Silence is a no from then on. `None`: while nobody is attached, a day of it is.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

impl Confirm {
    pub fn subject(&self) -> DecisionSubject {
        DecisionSubject {
            tool: self.tool.clone(),
            digest: self.digest,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfirmKind {
    #[serde(rename = "tool")]
    Tool,
    /// An autonomous run wants to do something destructive, or something that another model warns of.
    #[serde(rename = "halt")]
    Halt,
    /// A command that a model proposes.
    #[serde(rename = "shell")]
    Shell,
    /// A server wants to know something while the call runs.
    #[serde(rename = "elicitation")]
    Elicitation,
    /// A server wants a model to be asked while the call runs.
    #[serde(rename = "sampling")]
    Sampling,
}

/// What a person may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// This call.
    #[serde(rename = "allow_once")]
    AllowOnce,
    /// This definition of this tool, in this conversation; with the level that the confirm showed. Or this very command.
    #[serde(rename = "allow_conversation")]
    AllowConversation,
    /// All tools of its provider as they are now, in this conversation; with the level that the confirm showed.
    #[serde(rename = "allow_provider")]
    AllowProvider,
    /// This call, and the provider gets the level that the confirm showed; later calls are asked about.
    #[serde(rename = "raise_only")]
    RaiseOnly,
    #[serde(rename = "deny")]
    Deny,
    /// This call with other arguments; the model is told.
    #[serde(rename = "edit")]
    Edit,
    /// Denies, and ends the turn.
    #[serde(rename = "abort")]
    Abort,
}

/// What became of a confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConfirmFate {
    #[serde(rename = "allowed")]
    Allowed,
    #[serde(rename = "denied")]
    Denied,
    /// Nobody answered in time.
    #[serde(rename = "expired")]
    Expired,
    /// Its turn was cancelled, the tool is not what was asked about any more, or nobody waits for the answer now.
    #[serde(rename = "cancelled")]
    Cancelled,
}

/// The end of a confirm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resolution {
    pub confirm: ConfirmId,
    pub fate: ConfirmFate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<AnsweringPerson>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The arguments that run instead, canonical.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub edited: Option<String>,
    /// How long it was open; not said where its turn ended under it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Definitions that run unasked in this conversation from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<(ToolName, ContentDigest)>,
}

impl Resolution {
    /// An end that is nobody's answer.
    pub fn unanswered(confirm: ConfirmId, fate: ConfirmFate, waited_ms: Option<u64>) -> Self {
        Self {
            confirm,
            fate,
            decision: None,
            by: None,
            reason: None,
            edited: None,
            waited_ms,
            approved: vec![],
        }
    }
}

/// Who answered: the socket says which process and user, the client which terminal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnsweringPerson {
    pub client: ClientId,
    pub name: String,
    #[serde(default)]
    pub tty: Option<String>,
    #[serde(default)]
    pub pid: Option<u32>,
    #[serde(default)]
    pub uid: Option<u32>,
}

/// What the asker of a turn wants done where a person would have to be asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnConfirm {
    #[serde(default)]
    pub then: Then,
    /// Runs unasked, in this turn only.
    #[serde(default)]
    pub allow: Patterns,
    /// How long a confirm of this turn waits, whoever is attached.
    #[serde(default)]
    pub timeout_ms: Option<u64>,
}

impl OnConfirm {
    /// The same where somebody is there to answer, attached or not.
    pub fn as_answered(&self) -> Self {
        Self {
            then: Then::Ask,
            ..self.clone()
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Then {
    #[default]
    #[serde(rename = "ask")]
    Ask,
    /// Ask if a person is attached, else deny.
    #[serde(rename = "ask_attended")]
    AskAttended,
    #[serde(rename = "deny")]
    Deny,
}

/// Why a call did not run though it could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Denial {
    #[serde(rename = "person")]
    Person,
    #[serde(rename = "policy")]
    Policy,
    #[serde(rename = "expired")]
    Expired,
    #[serde(rename = "no_approver")]
    NoApprover,
}

impl Decision {
    pub fn allows(self) -> bool {
        match self {
            Self::AllowOnce
            | Self::AllowConversation
            | Self::AllowProvider
            | Self::RaiseOnly
            | Self::Edit => true,
            Self::Deny | Self::Abort => false,
        }
    }

    /// Whether the provider gets the level that the confirm showed.
    pub fn raises(self) -> bool {
        match self {
            Self::AllowConversation | Self::AllowProvider | Self::RaiseOnly => true,
            Self::AllowOnce | Self::Deny | Self::Edit | Self::Abort => false,
        }
    }
}

/// What is asked, and of whom.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForModel {
    /// As the server sent it.
    pub params: Value,
    pub preset: String,
    pub model: String,
    /// The longest answer.
    pub max_tokens: u64,
}
