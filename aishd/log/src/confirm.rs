//! A question to a person, as a fact: what is asked, and what became of it.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

pub mod changes;
pub mod host;
pub mod level;
pub mod memory;
mod older;

use aish_proto::id::ConfirmId;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use self::changes::ChangesSubject;
use self::host::HostSubject;
use self::level::LevelSubject;
use self::memory::MemorySubject;
use crate::access::Access;
use crate::answering_person::AnsweringPerson;
use crate::pattern::Patterns;
use crate::shell::CommandQuestion;
use crate::time::Timestamp;
use crate::tool::{ContentDigest, DecisionSubject};
use crate::tool_name::ToolName;

/// What is asked. A yes is to what `digest` is of, and to nothing else.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Confirm {
    pub id: ConfirmId,
    /// Counts the confirms of a conversation from 1; people say `c7`.
    pub number: u32,
    pub title: String,
    pub subject: ConfirmSubject,
    pub why: String,
    /// The same for the audit trail, where `why` has a word of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_told: Option<String>,
    /// Why it may not be undone: then a whole word approves it, once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destructive: Option<String>,
    /// An autonomous run has halted for it, and would halt for the same again.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub halt: bool,
    pub digest: ContentDigest,
    pub options: Vec<Decision>,
    /// Silence is a no from then on. `None`: while nobody is attached, a day of it is.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmSubject {
    /// A call of a tool.
    Call(CallSubject),
    /// A command of this machine.
    Command(CommandSubject),
    /// A server wants to know something while a call runs.
    Form(FormSubject),
    /// A server wants a model to be asked while a call runs.
    Model(ModelSubject),
    /// A person has to sign in before a call can run.
    SignIn(SignInSubject),
    /// A provider's level. No turn waits for it.
    Level(LevelSubject),
    /// A fact that a model proposes. No turn waits for it.
    Memory(MemorySubject),
    /// What a run changed in layers over the files. No turn waits for it.
    Changes(ChangesSubject),
    /// A host that a command in layers wants to reach. No turn waits for it.
    Host(HostSubject),
}

/// The call that waits for the answer; for what a server asks, the one that runs meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfirmCall {
    /// The call of the model's message.
    pub id: String,
    pub tool: ToolName,
    /// One JSON object in its canonical spelling: the bytes that run.
    pub arguments: String,
    pub cwd: String,
    /// Where it runs.
    pub server: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CallSubject {
    pub call: ConfirmCall,
    /// The tool as it was when this was asked.
    pub definition: Value,
    pub definition_digest: ContentDigest,
    /// All tools of its provider as they were when this was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_digest: Option<ContentDigest>,
    /// The tool as it was when it was approved, where it changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_definition: Option<Value>,
    pub needs: Access,
    /// The level that the provider would get.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raise_to: Option<Access>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CommandSubject {
    pub call: ConfirmCall,
    pub needs: Access,
    pub asked: CommandQuestion,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FormSubject {
    pub call: ConfirmCall,
    /// What the server asks, as it was sent.
    pub params: Value,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSubject {
    pub call: ConfirmCall,
    pub asked: ForModel,
}

/// A server that a person has to sign in to before a call can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignInSubject {
    /// It was refused before it did anything, and runs when somebody has signed in.
    pub call: ConfirmCall,
    /// Where one signs in, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// What the server said.
    pub why: String,
    /// What it wants, where it wants more than was granted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

impl Confirm {
    /// The call that it is about. `None`: no turn waits for the answer.
    pub fn call(&self) -> Option<&ConfirmCall> {
        match &self.subject {
            ConfirmSubject::Call(subject) => Some(&subject.call),
            ConfirmSubject::Command(subject) => Some(&subject.call),
            ConfirmSubject::Form(subject) => Some(&subject.call),
            ConfirmSubject::Model(subject) => Some(&subject.call),
            ConfirmSubject::SignIn(subject) => Some(&subject.call),
            ConfirmSubject::Level(_)
            | ConfirmSubject::Memory(_)
            | ConfirmSubject::Changes(_)
            | ConfirmSubject::Host(_) => None,
        }
    }

    /// The call that runs while this is asked.
    pub fn running_call(&self) -> Option<&ConfirmCall> {
        match &self.subject {
            ConfirmSubject::Form(subject) => Some(&subject.call),
            ConfirmSubject::Model(subject) => Some(&subject.call),
            ConfirmSubject::Call(_)
            | ConfirmSubject::Command(_)
            | ConfirmSubject::SignIn(_)
            | ConfirmSubject::Level(_)
            | ConfirmSubject::Memory(_)
            | ConfirmSubject::Changes(_)
            | ConfirmSubject::Host(_) => None,
        }
    }

    /// The command that waits for the answer.
    pub fn command(&self) -> Option<&CommandSubject> {
        match &self.subject {
            ConfirmSubject::Command(subject) => Some(subject),
            _ => None,
        }
    }

    pub fn decision_subject(&self) -> Option<DecisionSubject> {
        Some(DecisionSubject {
            tool: self.call()?.tool.clone(),
            digest: self.digest,
        })
    }
}

impl Serialize for Confirm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// Also as older programs stored it.
impl<'de> Deserialize<'de> for Confirm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let stored = Value::deserialize(deserializer)?;
        let read = if stored.get("subject").is_some() {
            Self::deserialize(stored)
        } else {
            older::read(stored)
        };
        read.map_err(serde::de::Error::custom)
    }
}

/// What a person may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// This call. Of a host: for the run, or what is tried.
    AllowOnce,
    /// This definition of this tool, in this conversation; with the level that the confirm showed. Or this very command,
    /// or this host.
    AllowConversation,
    /// All tools of its provider as they are now, in this conversation; with the level that the confirm showed.
    AllowProvider,
    /// This call, and the provider gets the level that the confirm showed; later calls are asked about.
    RaiseOnly,
    Deny,
    /// This call with other arguments; the model is told.
    Edit,
    /// Denies, and ends the turn.
    Abort,
    /// What the command or the run changed in layers becomes real; a command does not run again.
    Keep,
}

/// What became of a confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfirmFate {
    Allowed,
    Denied,
    /// Nobody answered in time.
    Expired,
    /// Its turn was cancelled, the tool is not what was asked about any more, or nobody waits for the answer now.
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
    /// The paths that are kept, and what is below them; empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// The hunks of the difference that are kept, some of all; none: it goes by paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunks: Option<Box<KeptHunks>>,
    /// How long it was open; not said where its turn ended under it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Definitions that run unasked in this conversation from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<(ToolName, ContentDigest)>,
}

/// Hunks of a difference that somebody was shown, numbered from 1 through all its files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptHunks {
    pub numbers: Vec<u32>,
    /// How many there are; 0 in a wish that was not compared with what is there.
    pub of: u32,
    /// The name of the difference.
    pub difference: ContentDigest,
}

impl KeptHunks {
    /// Nothing is left out.
    pub fn are_all(&self) -> bool {
        u32::try_from(self.numbers.len()) == Ok(self.of)
    }
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
            only: vec![],
            hunks: None,
            waited_ms,
            approved: vec![],
        }
    }
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
    /// When a question of the turn ends that is asked now, if it has a time of its own.
    pub fn expires_at(&self, now: Timestamp) -> Option<Timestamp> {
        let timeout = self.timeout_ms?;
        Some(Timestamp(now.0.saturating_add_unsigned(timeout)))
    }

    /// The same where somebody is there to answer, attached or not.
    pub fn as_answered(&self) -> Self {
        Self {
            then: Then::Ask,
            ..self.clone()
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Then {
    #[default]
    Ask,
    /// Ask if a person is attached, else deny.
    AskAttended,
    Deny,
}

/// Why a call did not run though it could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Denial {
    Person,
    Policy,
    Expired,
    NoApprover,
}

impl Decision {
    pub fn allows(self) -> bool {
        match self {
            Self::AllowOnce
            | Self::AllowConversation
            | Self::AllowProvider
            | Self::RaiseOnly
            | Self::Edit
            | Self::Keep => true,
            Self::Deny | Self::Abort => false,
        }
    }

    /// Whether the provider gets the level that the confirm showed.
    pub fn raises(self) -> bool {
        match self {
            Self::AllowConversation | Self::AllowProvider | Self::RaiseOnly => true,
            Self::AllowOnce | Self::Deny | Self::Edit | Self::Abort | Self::Keep => false,
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
