//! What a conversation may be asked, checked for form and size, and what it answers.

use std::num::NonZeroU32;
use std::sync::Arc;

use aish_proto::form::FormContent;
use aish_proto::id::{ChangesId, ConfirmId, JobId, Seq, TurnId};
use aishd_log::access::Access;
use aishd_log::answering_person::AnsweringPerson;
use aishd_log::budget::BudgetLimits;
use aishd_log::call_list::CallList;
use aishd_log::changes_undo::ChangesUndo;
use aishd_log::confirm::{Confirm, Decision, KeptHunks, OnConfirm, Resolution};
use aishd_log::constraints::Constraints;
use aishd_log::environment::ClientVariables;
use aishd_log::event::{Attachment, IdempotencyKey, TurnOrigin};
use aishd_log::eviction::EvictedExchange;
use aishd_log::level_request::LevelStep;
use aishd_log::memory::{MemoryDraft, StoredMemory};
use aishd_log::norris::launch::RunLaunch;
use aishd_log::norris::status::RunStatus;
use aishd_log::pinned_resource::PinnedEntry;
use aishd_log::resource::{ResourceChange, ResourceChanged};
use aishd_log::run_changes::ChangesPart;
use aishd_log::time::Timestamp;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::Alias;
use aishd_log::tried::TriedCommand;
use aishd_rules::asking::Unasked;
use aishd_rules::level_request::WantedLevel;
use aishd_tools::trial::PartWish;
use serde_json::{Map, Value};
use tokio::sync::oneshot;

use crate::commands::job::LiveJob;
use crate::context::memory_book::BookError;
use crate::context::preview::{PreviewTarget, PreviewedRequest};
use crate::request_error::RequestError;

/// A question, checked for form and size.
#[derive(Clone, Debug)]
pub struct AskRequest {
    pub text: String,
    pub attachments: Vec<Attachment>,
    pub key: IdempotencyKey,
    pub mode: AskMode,
    /// The turn that must be the running one.
    pub expected: Option<TurnId>,
    /// A preset by name, for this turn only.
    pub model: Option<String>,
    pub by: AnsweringPerson,
    pub place: AskPlace,
    /// `None`: a person is asked, whoever that may be.
    pub on_confirm: Option<OnConfirm>,
    /// Rounds of calls; `None`: as many as the configuration allows.
    pub max_tool_depth: Option<NonZeroU32>,
    /// What is run, where no model is asked.
    pub calls: Option<CallList>,
    /// What its commands run with.
    pub environment: ClientVariables,
    /// Who asks knows what it takes.
    pub accepts_cost: bool,
}

/// Where a question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskPlace {
    Existing,
    /// In a conversation that it makes.
    New,
}

/// An answer to a confirm, checked for form.
#[derive(Clone, Debug)]
pub struct ConfirmAnswer {
    pub confirm: ConfirmId,
    pub decision: Decision,
    /// Of what the person saw.
    pub digest: ContentDigest,
    /// What runs instead, for an edit.
    pub arguments: Option<Map<String, Value>>,
    pub reason: Option<String>,
    /// The trial that is kept.
    pub changes: Option<ChangesId>,
    /// For `keep`: these paths and what is in them; empty: all.
    pub only: Vec<String>,
    /// For `keep`: these hunks of the difference.
    pub hunks: Option<KeptHunks>,
    /// What a form is filled in with.
    pub content: Option<FormContent>,
    pub by: AnsweringPerson,
}

/// What a person wants tried before it is answered.
#[derive(Clone, Debug)]
pub struct TrialRequest {
    pub confirm: ConfirmId,
    /// Of what the person saw.
    pub digest: ContentDigest,
    pub by: AnsweringPerson,
}

/// What a person wants of the changes of a run that goes on.
#[derive(Clone, Debug)]
pub struct PartRequest {
    pub changes: ChangesId,
    pub wish: PartWish,
    pub by: AnsweringPerson,
}

/// What became of an answer. All of these are results: a late one is no error.
#[derive(Clone, Debug, PartialEq)]
pub enum AnswerOutcome {
    /// It is the one that counts, and is in the log.
    Resolved,
    /// Somebody was first: when, who and how.
    AlreadyResolved(Timestamp, Box<Resolution>),
    Expired,
    Cancelled,
    /// What would run is not what the person saw; nothing ran.
    ArgumentsChanged,
    Unknown,
}

/// What became of a wish for a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LevelRequestOutcome {
    /// The provider has it; this is its level.
    Already(Access),
    /// Nobody is asked, and why.
    Unasked(LevelStep, Unasked),
    /// A person is asked. Whoever wants the same meanwhile gets the same question.
    Asked(ConfirmId, LevelStep),
}

/// What to do while another turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskMode {
    Queue,
    Reject,
    Steer,
}

/// A question that is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedAsk {
    pub turn: TurnId,
    pub seq: Seq,
    /// 0: it runs; n: it waits as the nth.
    pub position: u32,
    pub duplicate: bool,
}

/// To ask the same again, or to go on.
#[derive(Clone, Debug)]
pub struct AskAgain {
    pub kind: RepeatAsk,
    /// `None`: the last one that finished.
    pub turn: Option<TurnId>,
    pub key: IdempotencyKey,
    pub model: Option<String>,
    pub by: AnsweringPerson,
    pub environment: ClientVariables,
    /// Who asks knows what it takes.
    pub accepts_cost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatAsk {
    Retry,
    Continue,
}

impl RepeatAsk {
    pub(crate) fn origin(self, turn: TurnId) -> TurnOrigin {
        match self {
            Self::Retry => TurnOrigin::Retry(turn),
            Self::Continue => TurnOrigin::Continue(turn),
        }
    }
}

/// A change that is no turn.
#[derive(Clone, Debug)]
pub enum ConversationChange {
    Title(String),
    Model(Option<String>),
    Archived(bool),
    Level(Alias, LevelChange),
    ResourcePinned(PinnedEntry),
    ResourceUnpinned(PinnedEntry),
    Constraints(Constraints),
    Budget(BudgetLimits),
    Undo(Box<ChangesUndo>),
}

/// What a person does to a provider's level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelChange {
    Raise(Access),
    /// Back to the first level, and nothing of it runs unasked any more.
    Revoke,
}

/// A change of the shared context that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceDone {
    pub seq: Seq,
    pub changed: ResourceChanged,
}

/// A change of the queue.
#[derive(Clone, Copy, Debug)]
pub enum QueueChange {
    Remove(TurnId),
    Move(TurnId, u32),
    Resume,
}

pub(crate) type ActorReply<T> = oneshot::Sender<Result<T, RequestError>>;

/// What the actor is asked; each reply comes after the commit.
#[derive(Debug)]
pub(crate) enum ActorRequest {
    Send(Box<AskRequest>, ActorReply<AcceptedAsk>),
    Again(Box<AskAgain>, ActorReply<AcceptedAsk>),
    Cancel {
        turn: TurnId,
        by: AnsweringPerson,
        reply: ActorReply<bool>,
    },
    Change(ConversationChange, AnsweringPerson, ActorReply<Seq>),
    Resource(
        Box<ResourceChange>,
        AnsweringPerson,
        ActorReply<ResourceDone>,
    ),
    Queue(QueueChange, AnsweringPerson, ActorReply<()>),
    /// Put an exchange that left back into the context.
    Restore(EvictedExchange, AnsweringPerson, ActorReply<Seq>),
    /// Have the summary of what left out of the context.
    Forget(AnsweringPerson, ActorReply<Seq>),
    Preview(Box<PreviewTarget>, ActorReply<PreviewedRequest>),
    WantLevel(Box<WantedLevel>, ActorReply<LevelRequestOutcome>),
    Launch(Box<NorrisLaunch>, ActorReply<AcceptedAsk>),
    Lead(RunControl, AnsweringPerson, ActorReply<RunStatus>),
    Answer(Box<ConfirmAnswer>, ActorReply<AnswerOutcome>),
    /// Try the command of a question that waits; the reply comes when that has ended.
    Try(Box<TrialRequest>, ActorReply<Box<TriedCommand>>),
    /// Keep or drop what a run has changed so far; the reply comes when that is done.
    Part(Box<PartRequest>, ActorReply<Box<ChangesPart>>),
    Keep(Box<PersonFact>, ActorReply<Result<KeptFact, BookError>>),
    Edited(Box<ArgumentEdit>, ActorReply<Confirm>),
    RunCommand(Box<UserCommandRequest>, ActorReply<BegunUserCommand>),
    CancelCommand(String, AnsweringPerson, ActorReply<bool>),
    /// The job whose end is to be waited for; none where it has ended.
    StopJob(JobId, AnsweringPerson, ActorReply<Option<Arc<LiveJob>>>),
    Delete(AnsweringPerson, ActorReply<()>),
    /// Delete it if nobody has used it since then.
    DeleteUnused(Timestamp, ActorReply<bool>),
    /// Says that everything before it has been done.
    Drain(ActorReply<()>),
}

/// Arguments for the call of a confirm that waits.
#[derive(Clone, Debug)]
pub struct ArgumentEdit {
    pub confirm: ConfirmId,
    pub arguments: Map<String, Value>,
}

/// A goal, checked for form and size, and what a person grants for it.
#[derive(Clone, Debug)]
pub struct NorrisLaunch {
    pub ask: AskRequest,
    pub launch: RunLaunch,
}

/// What a person does to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunControl {
    Pause,
    Resume,
}

/// What a person wants run.
#[derive(Clone, Debug)]
pub struct UserCommandRequest {
    pub command: String,
    /// `None`: the conversation's directory.
    pub cwd: Option<String>,
    pub environment: ClientVariables,
    pub into_context: bool,
    pub by: AnsweringPerson,
}

/// One that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BegunUserCommand {
    pub call: String,
    /// Where its start stands; `None`: it waits for those before it.
    pub seq: Option<Seq>,
}

/// A fact that a person says and that a conversation asks about.
#[derive(Clone, Debug)]
pub(crate) struct PersonFact {
    pub(crate) draft: MemoryDraft,
    pub(crate) asked: ConfirmId,
    pub(crate) by: AnsweringPerson,
}

/// A fact as it is kept, and whether anything is different.
pub(crate) type KeptFact = (StoredMemory, bool);
