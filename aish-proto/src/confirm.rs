//! `confirm/*`: questions to a person, and answers to them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::answerer::Answerer;
use crate::changes::ProposedChanges;
use crate::event::{CommandTried, ConfirmRequested, ConfirmResolved};
use crate::form::{ElicitationRequest, FormContent};
use crate::hosts::WantedHost;
use crate::id::{ChangesId, ConfirmId, ConversationId, SubscriptionId, TurnId};
use crate::memory::ProposedMemory;
use crate::method::{Empty, methods};
use crate::permission::LevelUpgrade;
use crate::sampling::SamplingRequest;
use crate::shell::CommandAsked;

methods! {
    /// Every confirm that waits, oldest first.
    List: "confirm/list", Observer, Unordered, ConfirmListParams => ConfirmListResult;
    /// One confirm, also after its end.
    Get: "confirm/get", Observer, Unordered, ConfirmParams => ConfirmRecord;
    /// Follows the confirms of all conversations. After the reply come `confirmRequested` for each that waits and
    /// `replayComplete`, then what happens. `conversation/detach` ends it.
    Watch: "confirm/watch", Observer, Unordered, Empty => ConfirmWatchResult;
    /// How the question would read with other arguments, before anybody answers it with `edit`: as the daemon judges them,
    /// with their digest. Nothing changes by it. What may not run at all is refused here, and the question stays.
    Preview: "confirm/preview", Observer, Unordered, ConfirmPreviewParams => ConfirmPreviewResult;
    /// Runs the command of a confirm in layers over the files, while the confirm waits on: it sees its own changes, and nobody
    /// else does. Returns when it has ended, and goes on without the client. It reaches the hosts that rules name, others are
    /// asked about, and nothing else of the network. Only where this kernel holds that (`doctor` says so): what is missing is an error, and nothing runs. The answer `keep` makes its changes real;
    /// any other drops them.
    Try: "confirm/try", Approver, Unordered, TryParams => TryResult;
    /// Answers. The first answer counts; a late one is told so in its result and changes nothing.
    Answer: "confirm/answer", Approver, Conversation, AnswerParams => AnswerResult;
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "camelCase")]
pub enum ConfirmSubject {
    /// A call of a tool.
    Call(CallSubject),
    /// A command of this machine.
    Command(CommandSubject),
    /// A server wants to know something while a call runs.
    Form(FormSubject),
    /// A server wants a model to be asked while a call runs.
    Model(ModelSubject),
    /// A person has to sign in to a server before a call can run, with `mcp/login`. When somebody has, wherever, the question is
    /// over by itself and the call runs; `allowOnce` has it tried again without that.
    SignIn(SignInSubject),
    /// Somebody wants a provider to have a higher level. No turn waits for it.
    Level(LevelUpgrade),
    /// A model proposes a fact to be kept for all conversations. No turn waits for it, and no model is told it before
    /// somebody has allowed it.
    Memory(ProposedMemory),
    /// What a run changed in layers over the files. No turn waits for it.
    Changes(ProposedChanges),
    /// A command in layers wants to reach a host, and its connection waits. No turn waits for it.
    Host(WantedHost),
}

/// The call that waits for the answer; for what a server asks, the one that runs meanwhile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmCall {
    /// As in the answer's `toolCalls`.
    pub id: String,
    pub tool: String,
    /// One JSON object in its canonical spelling, as text: the bytes that run.
    pub arguments: String,
    pub cwd: String,
    /// Where it runs.
    pub server: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallSubject {
    pub call: ConfirmCall,
    /// The tool as its server defines it.
    pub definition: Value,
    /// The definition that was approved here before, where it changed since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved_definition: Option<Value>,
    pub level_required: u8,
    /// The file that it changes, as it was named: what would change is shown beside the question (`commandTried`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes_file: Option<String>,
    /// The level that the provider would get by `allowConversation`, `allowProvider` and `raiseOnly`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raise_to: Option<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandSubject {
    /// Its tool is `shell__run`, and its arguments have the command.
    pub call: ConfirmCall,
    pub level_required: u8,
    pub asked: CommandAsked,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FormSubject {
    pub call: ConfirmCall,
    pub asked: ElicitationRequest,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelSubject {
    pub call: ConfirmCall,
    pub asked: SamplingRequest,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SignInSubject {
    /// It was refused before it did anything.
    pub call: ConfirmCall,
    /// The server's alias.
    pub server: String,
    /// Where one signs in, as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// What the server said.
    pub why: String,
    /// What it wants, as far as it says so.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<String>,
}

impl ConfirmSubject {
    /// The call that it is about. `None`: no turn waits for the answer.
    pub fn call(&self) -> Option<&ConfirmCall> {
        match self {
            Self::Call(subject) => Some(&subject.call),
            Self::Command(subject) => Some(&subject.call),
            Self::Form(subject) => Some(&subject.call),
            Self::Model(subject) => Some(&subject.call),
            Self::SignIn(subject) => Some(&subject.call),
            Self::Level(_) | Self::Memory(_) | Self::Changes(_) | Self::Host(_) => None,
        }
    }

    /// The arguments of that call; empty where there is none.
    pub fn arguments(&self) -> &str {
        self.call().map_or("", |it| &it.arguments)
    }
}

/// What a person may answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Decision {
    /// This call. Of a form: it is filled in with `content`, the page is looked at. Of a model: it is
    /// asked this, once. Of a memory: the fact is kept. Of a host: for the run, or for what is tried.
    AllowOnce,
    /// This definition of this tool, in this conversation, with the level that `raiseTo` shows. Of a command: exactly this
    /// one, in this directory, with this shell and environment. Of a host: this host and port, for what works in layers.
    AllowConversation,
    /// All tools of its provider as they are now, in this conversation, with the level that `raiseTo` shows.
    AllowProvider,
    /// This call, and the provider gets the level that `raiseTo` shows; later calls are asked about. Of a level:
    /// the level, and nothing else.
    RaiseOnly,
    Deny,
    /// This call with other arguments, or another command in place of this one; the model is told.
    Edit,
    /// Denies, and ends the turn. Of what a server asks: it is dismissed, and the turn ends.
    Abort,
    /// Of a command that was tried (`confirm/try`): what it changed becomes real, and it does not run again. Of what a run
    /// changed: the same. The answer names it with `changes`, and with `only` what of it.
    Keep,
}

/// How far a confirm is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ConfirmState {
    Pending,
    Allowed,
    Denied,
    /// Nobody answered in time.
    Expired,
    /// Its turn was cancelled, the tool was not what was asked about any more, or nobody waits for the answer now. Of a
    /// level: the provider got the level in another way or may not have it any more, or the conversation was archived.
    Cancelled,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfirmListParams {
    /// Absent: all conversations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmListResult {
    pub confirms: Vec<ConfirmRecord>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfirmParams {
    pub confirm: ConfirmId,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmRecord {
    pub conversation: ConversationId,
    /// The turn that waits for it; null for a level, a memory, changes, and a host that a trial wants. Of a host that a run
    /// wants: that run, which does not wait.
    pub turn: Option<TurnId>,
    pub requested_at: String,
    pub state: ConfirmState,
    /// What was asked, byte for byte as it was.
    pub request: ConfirmRequested,
    /// The newest trial of its command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<CommandTried>,
    /// Null while it waits.
    pub resolution: Option<ConfirmResolved>,
    pub resolved_at: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ConfirmPreviewParams {
    pub confirm: ConfirmId,
    /// One JSON object, as text: what an `edit` would be answered with.
    pub arguments: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmPreviewResult {
    /// The confirm as it would be asked. An answer to it is `edit` with its `arguments` and the digest of the confirm that
    /// waits, so that nothing else changed meanwhile.
    pub request: ConfirmRequested,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfirmWatchResult {
    pub subscription: SubscriptionId,
}

/// Hunks of a difference as `changes/diff` gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ChosenHunks {
    /// From 1, as they are in `hunks` of that result.
    pub numbers: Vec<u32>,
    /// Its `digest`. Of another difference than there is now nothing is kept.
    pub difference: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AnswerParams {
    pub confirm: ConfirmId,
    pub decision: Decision,
    /// The digest of what was seen; another one is `argsChanged`, and nothing runs.
    pub digest: String,
    /// For `edit`: one JSON object, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// For `deny`, and for `keep` of what was tried: the model is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// For `keep`: the trial or the changes that were seen. Where there was another trial since, that is `argsChanged`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangesId>,
    /// For `keep`: absolute paths of files and directories, which stand for all that is in them; the rest is dropped. Absent:
    /// everything is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub only: Vec<String>,
    /// For `keep` of what was tried: these hunks of the difference alone. Then `only` is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hunks: Option<ChosenHunks>,
    /// For `allowOnce` of a form: a value for each field that is filled in. What does not fit is refused, and the form
    /// stays open. It goes to the server and is kept nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<FormContent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TryParams {
    pub confirm: ConfirmId,
    /// The digest of what was seen; another one is refused, and nothing runs.
    pub digest: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TryResult {
    /// As in the log.
    pub tried: CommandTried,
}

/// What became of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AnswerOutcome {
    /// It counts.
    Resolved,
    /// Another one came first.
    AlreadyResolved,
    Expired,
    Cancelled,
    /// What would run is not what was seen. Nothing ran; the call is asked about again, as it is now.
    ArgsChanged,
    /// There is no such confirm.
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerResult {
    pub outcome: AnswerOutcome,
    /// Who answered first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Answerer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
}

/// Why a call did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Denial {
    Person,
    Policy,
    /// Nobody answered in time.
    Expired,
    /// Nobody was there to ask.
    NoApprover,
}
