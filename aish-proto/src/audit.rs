//! `audit/*`: what was decided about every effect, and what became of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answerer::Answerer;
use crate::confirm::{Decision, Denial};
use crate::hosts::NetworkUse;
use crate::id::{ChangesId, ClientId, ConfirmId, ConversationId, Seq, TurnId};
use crate::method::methods;

methods! {
    /// Records of the trail that fit a filter. A page may be empty and still have a next one.
    List: "audit/list", Observer, Unordered, AuditListParams => AuditListResult;
    /// Whether the trail is what was written, and where it is not.
    Verify: "audit/verify", Observer, Unordered, VerifyParams => VerifyResult;
    /// The records as they were written, to be kept elsewhere.
    Export: "audit/export", Observer, Unordered, AuditExportParams => AuditExportResult;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditListParams {
    /// Not older than this (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Not older than so many milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_ms: Option<u64>,
    /// Of tools with such a name; `*` stands for any characters: `fs__*`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<AuditDecision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    #[serde(default)]
    pub order: AuditOrder,
    /// `nextCursor` of the page before, with the same order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// At most 500; 100 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AuditOrder {
    #[default]
    OldestFirst,
    NewestFirst,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditListResult {
    pub records: Vec<AuditRecord>,
    /// There may be more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// One record. What concerns its kind is there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditRecord {
    /// Its number; records count from 1 without a gap.
    pub n: u64,
    pub at: String,
    pub kind: AuditKind,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationId>,
    /// Where what it tells of stands in the conversation's log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// Over the tool's definition, where it runs, the arguments and the directory, as in `confirmRequested`; of a resource
    /// over its URI, of a prompt over its name and arguments, of rules over all that are in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<AuditDecision>,
    /// The rule that decided, or why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<Denial>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm: Option<ConfirmId>,
    /// The keep that was to be undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changes: Option<ChangesId>,
    /// What a person answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<Decision>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Answerer>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waited_ms: Option<u64>,
    /// Tools that run unasked from then on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<String>,
    /// Ties the start of a call to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<AuditOutcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ms: Option<u64>,
    /// Of a permission: the level before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u8>,
    /// The level that there is, or would be after a yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<u8>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Rules that came.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// Rules that went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// Of a command in layers and of a program under a profile: the hosts that it reached, and that it was refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<NetworkUse>,
    /// What would run or ran, from the conversation's log while that is there: shortened, and without what looks like a
    /// secret. The trail itself has the digest only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// SHA-256 of the record as it was written.
    pub hash: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AuditKind {
    TurnAsked,
    ModelChosen,
    /// A question's look was asked; `model` answers, `because` why.
    QuestionRouted,
    /// A request went to another preset, `model`; `because` says from which one and why.
    FellBack,
    /// Somebody switched routing or fallback, or took that back.
    RoutingSwitched,
    /// Somebody kept, pinned or forgot a fact; `because` says which.
    MemoryChanged,
    ConfirmRequested,
    ConfirmResolved,
    /// The command of an open confirm was tried in layers over the files; nothing of it is real. `because` says how much it
    /// would change.
    CommandTried,
    /// What a run changed in layers is real, or gone; `because` says which, and how much.
    ChangesSettled,
    /// What a run has changed so far is kept or dropped while it goes on: ordered, done, or failed.
    ChangesPart,
    /// Somebody wanted what was kept to be taken back, `changes`; `outcome` and `because` say whether it was, and how much.
    ChangesUndone,
    /// The same of what was taken back, to be done again.
    ChangesRedone,
    CallStarted,
    CallEnded,
    /// It never began.
    CallRefused,
    PermissionChanged,
    /// Somebody launched an autonomous run; `approved` is what it may do unasked, `because` its bounds.
    NorrisLaunched,
    /// A client lets tools run unasked while it is attached, or took that back.
    AutoApproveSet,
    PolicyChanged,
    /// What a conversation keeps itself from.
    ConstraintsChanged,
    ResourcePinned,
    ResourceUnpinned,
    /// The shared context; `digest` is of the resource's name, and `arguments` is the name while the log has it.
    ResourceChanged,
    /// A server was asked for a prompt.
    PromptAsked,
    /// A resource of a server was read for a client.
    ResourceRead,
    /// A server was connected to by hand, left, or begun anew.
    ServerChanged,
    /// A program was started to tell somebody of a question.
    NoticeGiven,
    /// A program was started that the kernel holds to a profile; `because` says to which, and by what.
    ProgramHeld,
    /// A program under a profile has ended that had wanted to reach hosts; `network` has them.
    ProgramReached,
    /// An action was routed; `digest` is of its words, `tool` what was chosen, `because` how sure that was.
    Routed,
    /// Messages from elsewhere became a conversation; nothing of them was asked, called or allowed here.
    ConversationImported,
    ConversationDeleted,
    /// What could not be read of the store any more was taken out of it; `because` says how much that was.
    StoreRepaired,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AuditDecision {
    Allow,
    Ask,
    Deny,
    /// Nobody answered in time.
    Expire,
    /// The question was taken back.
    Cancel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum AuditOutcome {
    Ok,
    Failed,
    /// It was left while it ran.
    Unknown,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VerifyParams {
    /// `head` of an earlier check, noted elsewhere: the trail must still have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noted: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyResult {
    pub whole: bool,
    pub records: u64,
    /// Number and digest of the last record: `12:9f86d0…`.
    pub head: String,
    /// At most fifty.
    pub findings: Vec<AuditFinding>,
    /// So many more.
    pub more: u64,
    /// Records that are lost, as repairs of the store have told.
    #[serde(default, skip_serializing_if = "is_none")]
    pub lost: u64,
}

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditFinding {
    /// The record's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub n: Option<u64>,
    /// A file of the journal, and a byte in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    pub what: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct AuditExportParams {
    /// `nextCursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
    /// At most 1,000, which is what comes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditExportResult {
    /// Each is `{"hash":"…","entry":…}`; the hash is SHA-256 over the bytes of `entry`.
    pub sealed: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}
