//! Facts of one conversation, in the past tense, and the form in which they are stored.
//!
//! The serde attributes spell the stored form out: renaming a Rust field changes no byte on disk.
//! Fields are only ever added, with a default; `tests/data/store` holds old records that must load.

mod turn;

use std::num::NonZeroU32;
use std::sync::Arc;

use aish_proto::id::{ClientId, ConfirmId, ConversationId, ResultId, Seq, TurnId};
use serde::{Deserialize, Serialize};

pub use self::turn::{Attachment, IdempotencyKey, PresetSource, StopReason, TurnOrigin};
use crate::access::Access;
use crate::answering_person::AnsweringPerson;
use crate::block::KeptBlock;
use crate::budget::{BudgetChanged, BudgetLimits, BudgetReached};
use crate::call_list::CallList;
use crate::changes_undo::ChangesUndo;
use crate::confirm::{Confirm, Denial, OnConfirm, Resolution};
use crate::constraints::Constraints;
use crate::ending::CommandEnding;
use crate::environment::ClientVariables;
use crate::eviction::{Eviction, LeftExchange};
use crate::job::{JobEnded, JobStarted};
use crate::kept_result::KeptResult;
use crate::network::NetworkUse;
use crate::norris::NorrisEvent;
use crate::pinned_resource::PinnedEntry;
use crate::resource::ResourceChanged;
use crate::rolling_summary::RollingSummary;
use crate::routed::RoutingDecision;
use crate::run_changes::{ChangesPart, ChangesSettled};
use crate::sealed_answer::SealedAnswer;
use crate::server_task::ServerTask;
use crate::shell::{CommandProposal, OutputUse};
use crate::spending::{PaidRequest, Payee};
use crate::structured::StructuredResult;
use crate::time::Timestamp;
use crate::todo::Todo;
use crate::tool::{ContentDigest, DecisionSubject};
use crate::tool_call::ToolCall;
use crate::tool_name::{Alias, ToolName};
use crate::tried::TriedCommand;
use crate::turn_error::TurnError;
use crate::usage::Usage;

/// One event in its place in the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub seq: Seq,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<TurnId>,
    /// The client that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client: Option<ClientId>,
    pub event: Event,
}

/// What happened. Deltas are no events: the finished message is the truth.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// Always the first.
    Created {
        #[serde(default)]
        title: Option<String>,
        #[serde(default)]
        model: Option<String>,
        cwd: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        forked_from: Option<(ConversationId, Seq)>,
        #[serde(default, skip_serializing_if = "Constraints::is_empty")]
        constraints: Constraints,
        /// What is imported follows; until its end is in the log, nobody sees the conversation.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        importing: bool,
        /// Nobody wants it any longer than its work takes.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        temporary: bool,
        #[serde(default, skip_serializing_if = "BudgetLimits::is_none")]
        budget: BudgetLimits,
    },
    /// A question was accepted. It joins the transcript when its turn starts or is merged.
    UserMessage {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        attachments: Vec<Attachment>,
        /// The client's idempotency key, and the digest of what it asked with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<IdempotencyKey>,
        /// A preset named by hand for this turn.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default)]
        origin: TurnOrigin,
        /// What is done where a person would have to be asked.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        on_confirm: Option<OnConfirm>,
        /// Rounds of calls, where the asker wants fewer than the configuration allows.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_tool_depth: Option<NonZeroU32>,
        /// The turn runs these calls and asks no model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        calls: Option<CallList>,
        /// What the asker's client gave for commands. `None`: what the question before it came with.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        environment: Option<ClientVariables>,
    },
    /// The turn waits at this position, 1 being next; said again when it is moved.
    TurnQueued {
        position: u32,
        /// It joins the running turn if that makes another model request.
        #[serde(default)]
        steer: bool,
    },
    TurnStarted {
        model: String,
        model_id: String,
        source: PresetSource,
        /// What a request and its answer may take, where that is limited.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context_tokens: Option<u64>,
    },
    /// The look of a question was asked which preset answers it; stands behind the start of its turn.
    RouteDecided(RoutingDecision),
    /// A request failed before anything of its answer was shown, and goes to another preset, once. The turn's own
    /// preset stays what it was.
    FellBack {
        from: String,
        to: String,
        /// What the server of `to` is asked for.
        model_id: String,
        /// Why `from` looks as if it was down, in words of ours.
        reason: String,
        /// The failure, as it would have ended the turn.
        cause: String,
        /// Where there was an answer over HTTP.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
    },
    AssistantMessage {
        /// Position of the answer in its turn, from 0.
        item: u32,
        text: Arc<str>,
        #[serde(default, skip_serializing_if = "String::is_empty")]
        reasoning: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
        /// Lines of it that propose commands, taken out of it where it ended properly.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        commands: Vec<CommandProposal>,
        /// Fields of the message that we do not know and the same model wants back.
        #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
        extra: serde_json::Map<String, serde_json::Value>,
        /// What the server that wrote it wants back byte for byte.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sealed: Option<Box<SealedAnswer>>,
        complete: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        served_by: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Who was asked for it; absent: nobody who could take money for it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        payee: Option<Box<Payee>>,
    },
    /// Pictures that belong to the answer before it; their parts stand between the two.
    AnswerPictures {
        item: u32,
        blocks: Vec<KeptBlock>,
    },
    /// A model was asked, and no message came of it: a summary, a server's request, an answer that was stopped before its
    /// first word.
    ModelUsed(Box<PaidRequest>),
    /// The conversation may take another amount than before.
    BudgetChanged(Box<BudgetChanged>),
    /// A request was not sent, because a budget is used up.
    BudgetReached(BudgetReached),
    /// A person is asked. A turn that is concerned waits, over a restart too.
    #[serde(alias = "raise_requested", alias = "memory_proposed")]
    ConfirmRequested(Box<Confirm>),
    /// The command that an open confirm is about was tried; its newest trial counts.
    CommandTried(Box<TriedCommand>),
    /// What a run changed in layers is real, or gone: the last word about it.
    ChangesSettled(Box<ChangesSettled>),
    /// A person keeps or drops what a run has changed so far, while the run goes on; the order stands before what came of it.
    ChangesPart(Box<ChangesPart>),
    /// A person took back what was kept, or did it again.
    ChangesUndo(Box<ChangesUndo>),
    /// Once for each confirm.
    ConfirmResolved(Box<Resolution>),
    /// The mark that a call was started: from here on it is never started again by itself.
    ToolStarted {
        call: String,
        name: String,
        /// Canonical: what runs.
        arguments: String,
        digest: ContentDigest,
        /// What let it through.
        rule: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
    },
    /// The server of a call goes on with it by itself, and can be asked what came of it, also by the next daemon.
    TaskBegan {
        call: String,
        task: ServerTask,
    },
    /// A part of a result that is too long for the model's context, or of a block that is no text; in order, before the
    /// event that names it.
    ResultKept {
        result: ResultId,
        text: String,
    },
    /// The one reply of a call.
    ToolResult {
        call: String,
        name: String,
        ok: bool,
        content: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denial: Option<Denial>,
        /// How long it ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
        /// The whole of it, where `content` is less.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<KeptResult>,
        /// Blocks of it that are no text; their parts stand before it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        blocks: Vec<KeptBlock>,
        /// Its value, where it has one that fits its output schema.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<StructuredResult>,
        /// Why it never began. `None`: it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Box<RefusedCall>>,
    },
    /// The mark that a command was started: from here on it is never started again by itself. Without a turn it is a
    /// person's own.
    ShellStarted {
        call: String,
        command: String,
        cwd: String,
        shell: String,
        digest: ContentDigest,
        /// What let it through.
        rule: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
        #[serde(default)]
        given: OutputUse,
    },
    /// The one end of a command, whether it began or not.
    ShellFinished {
        call: String,
        command: String,
        /// Where it ran.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cwd: Option<String>,
        ending: CommandEnding,
        /// What is shown of what it printed; where nothing could be, why.
        output: String,
        #[serde(default)]
        bytes: u64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ms: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        kept: Option<KeptResult>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        denial: Option<Denial>,
        /// Why it never began. `None`: it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        refused: Option<Box<RefusedCall>>,
        #[serde(default)]
        given: OutputUse,
        /// The hosts that it reached, and that it was refused. `None`: there were none, or nothing held it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        network: Option<Box<NetworkUse>>,
    },
    /// A command goes on in the background; the mark that it was started stands before it.
    JobStarted(Box<JobStarted>),
    /// The one end of such a command.
    JobEnded(Box<JobEnded>),
    /// Commands run there from now on.
    CwdChanged {
        cwd: String,
        from: String,
    },
    /// A provider has another level in this conversation.
    PermissionChanged {
        /// Absent: all of them, in the layout in which a conversation had one level. Nobody's calls go by that;
        /// the daemon hands it out at its start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        provider: Option<Alias>,
        from: Access,
        to: Access,
        /// What was always allowed of it was taken back too.
        #[serde(default)]
        revoked: bool,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<AnsweringPerson>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        confirm: Option<ConfirmId>,
    },
    /// It is in the context from now on, as it is at each request.
    ResourcePinned(PinnedEntry),
    ResourceUnpinned(PinnedEntry),
    /// The shared context changed.
    ResourceChanged(Box<ResourceChanged>),
    /// The model has written its tasks anew, all of them.
    TodosChanged {
        todos: Vec<Todo>,
    },
    /// Where not all tools are sent, these are from now on, behind those that were.
    ToolsChosen {
        added: Vec<ToolName>,
        /// These are no longer, for want of room.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dropped: Vec<ToolName>,
    },
    /// The conversation keeps itself from other things than before.
    ConstraintsChanged {
        constraints: Constraints,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<AnsweringPerson>,
    },
    /// Whole exchanges left the context; they stay in the log.
    Evicted(Box<Eviction>),
    /// One of them is in the context again.
    Restored(LeftExchange),
    /// A model has summed up what left the context.
    SummaryUpdated(Box<RollingSummary>),
    /// What happens to a run that works by itself.
    Norris(NorrisEvent),
    ModelChanged {
        #[serde(default)]
        model: Option<String>,
    },
    Renamed {
        title: String,
    },
    ArchivedChanged {
        archived: bool,
    },
    /// All that was imported stands before it. None of it was asked, called or allowed here.
    Imported(ImportedFrom),
    Status {
        level: ProviderLevel,
        text: String,
    },
    /// A record that could not be read any more stood here; a repair of the store put this in its place.
    RecordLost {},
    TurnFinished {
        stop: StopReason,
        /// The last answer's text.
        #[serde(default)]
        text: Arc<str>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<TurnError>,
        /// The running turn that took the question in.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        merged_into: Option<TurnId>,
    },
}

impl Event {
    /// The environment that came with a question.
    pub fn environment(&self) -> Option<&ClientVariables> {
        let Self::UserMessage { environment, .. } = self else {
            return None;
        };
        environment.as_ref()
    }

    /// What it says was taken, and of whom. Records of before there were prices name nobody.
    pub fn paid(&self) -> Option<(&Payee, &Usage)> {
        if let Self::AssistantMessage {
            usage: Some(usage),
            payee: Some(payee),
            ..
        } = self
        {
            return Some((payee, usage));
        }
        if let Self::ModelUsed(paid) = self {
            return Some((&paid.payee, &paid.usage));
        }
        None
    }

    /// Whether it is a question that a person asks, and not an old one again: outputs that wait go with it.
    pub fn is_new_question(&self) -> bool {
        let Self::UserMessage { origin, calls, .. } = self else {
            return false;
        };
        match origin {
            TurnOrigin::Asked | TurnOrigin::Imported => true,
            TurnOrigin::Retry(_) => false,
            // The rest of a list has its own question.
            TurnOrigin::Continue(_) => calls.is_some(),
        }
    }
}

/// What came with an import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedFrom {
    /// Of the text, so that an import whose reply was lost is known again.
    pub bytes: u64,
    /// Questions, each with what followed on it.
    pub exchanges: u64,
    pub messages: u64,
    /// System messages, which were left out.
    #[serde(default)]
    pub left_out: u64,
    /// Calls without a result.
    #[serde(default)]
    pub unanswered: u64,
}

/// A call that never began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefusedCall {
    /// Not known where it was no call of a known tool, or was not looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<DecisionSubject>,
    /// The rule, or why; never with a word of the model or of a person.
    pub because: String,
    /// It was asked for elsewhere, and came with an import.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub imported: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProviderLevel {
    Debug,
    Info,
    Warning,
}
