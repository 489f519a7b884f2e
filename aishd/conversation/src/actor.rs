//! The actor of a conversation: its parts, and the tasks that work for it.
//!
//! A part keeps its own state and knows nothing of the actor; the files of this folder are what the actor does with several
//! of them at once, with the log between.

pub(crate) mod apply_request;
pub(crate) mod argument_edit;
pub(crate) mod aside_questions;
pub(crate) mod ask;
pub(crate) mod call_judgement;
pub(crate) mod call_list_turn;
pub(crate) mod change;
pub(crate) mod commit;
pub(crate) mod confirm_answer;
pub(crate) mod event_loop;
pub(crate) mod extra_context;
pub(crate) mod file_changes;
pub(crate) mod form_questions;
pub(crate) mod host_questions;
pub(crate) mod jobs;
pub(crate) mod lasting_environment;
pub(crate) mod level_questions;
pub(crate) mod memory_proposals;
pub(crate) mod memory_questions;
pub(crate) mod model_choice;
pub(crate) mod norris;
pub(crate) mod proposed_command;
pub(crate) mod recover;
pub(crate) mod request_context;
pub(crate) mod resource_change;
pub(crate) mod restore;
pub(crate) mod resume;
pub(crate) mod run_changes;
pub(crate) mod run_parts;
pub(crate) mod sampling;
pub(crate) mod server_tasks;
pub(crate) mod sessions;
mod sign_in_questions;
pub(crate) mod stop;
pub(crate) mod summaries;
pub(crate) mod title;
pub(crate) mod tool_definitions;
pub(crate) mod tool_offer;
pub(crate) mod trial;
pub(crate) mod usage_records;
pub(crate) mod user_command;

use std::collections::BTreeSet;
use std::sync::Arc;

use aish_proto::id::{ConfirmId, ConversationId, JobId, TurnId};
use aishd_broker::Discovery;
use aishd_log::command_result::CommandResult;
use aishd_log::confirm::OnConfirm;
use aishd_log::event::{Event, PresetSource, Record, StopReason};
use aishd_log::lasting_environment::LastingEnvironment;
use aishd_log::state::ConversationState;
use aishd_model::reply::{BrokenRequest, Reply, RequestFailure};
use aishd_turn::turn::{StreamId, Turn, TurnInput};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use self::lasting_environment::LeftByTrial;
use self::run_changes::ChangesStep;
use self::run_parts::{PartStep, PartWork};
use crate::commands::command_queue::CommandQueue;
use crate::commands::job::JobBook;
use crate::commands::trial::{KeepOrder, RunningTrial, TrialEnd};
use crate::context::extra_context::{DirectoryTold, GatheredContext};
use crate::context::memory_proposals::MemoryProposals;
use crate::context::summarize::{SummaryOutcome, SummaryTask, UnsummarizedExchanges};
use crate::context::title::TitleOutcome;
use crate::context::warm_transcripts::HeldTranscript;
use crate::handle::TurnStopper;
use crate::new_conversation::NewConversation;
use crate::open_actors::ActorRegistration;
use crate::pending_commit::StalledCommit;
use crate::questions::elicitation::ServerQuestions;
use crate::questions::expiry::ConfirmExpiry;
use crate::questions::hosts::HostQuestions;
use crate::requests::ActorRequest;
use crate::services::ActorServices;
use crate::spending::budget::BudgetMeter;
use crate::turns::active_turn::{ActiveTurn, TurnGround};
use crate::turns::file_change::{ProposedChange, TriedFirst};
use crate::turns::run_clock::RunClock;
use crate::turns::second_opinion::ReceivedOpinion;
use crate::turns::seen_files::SeenFiles;
use crate::turns::sessions::OwnSessions;
use crate::view::ViewPublisher;

/// The actor.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) id: ConversationId,
    pub(crate) services: ActorServices,
    pub(crate) state: ConversationState,
    pub(crate) transcript: HeldTranscript,
    pub(crate) turn: Option<ActiveTurn>,
    /// A turn whose preset is being looked for.
    pub(crate) resolving: Option<TurnId>,
    /// The first fact of a new conversation. It is in `state` already and becomes durable with the next commit.
    pub(crate) unborn: Option<Record>,
    /// Facts that the store would not take; nothing else changes until it does.
    pub(crate) stalled: Option<StalledCommit>,
    pub(crate) mailbox: mpsc::Receiver<ActorRequest>,
    pub(crate) io: JoinSet<TaskOutcome>,
    pub(crate) publisher: ViewPublisher,
    pub(crate) stopper: TurnStopper,
    pub(crate) registration: ActorRegistration,
    /// Who could answer its questions, and until when.
    pub(crate) expiry: ConfirmExpiry,
    /// What servers want to know while calls run.
    pub(crate) forms: ServerQuestions,
    /// What commands in layers want to reach.
    pub(crate) hosts: HostQuestions,
    /// Its own sessions with servers, while it has constraints.
    pub(crate) own: Option<OwnSessions>,
    /// What left the context and is being summed up.
    pub(crate) summing: SummaryTask,
    /// Commands that run, and that wait for their turn.
    pub(crate) commands: CommandQueue,
    /// Commands that go on in the background.
    pub(crate) jobs: JobBook,
    /// A model is looking for what is worth remembering.
    pub(crate) proposing: bool,
    /// A model is making a title.
    pub(crate) titling: bool,
    /// What is told of its directory.
    pub(crate) told: DirectoryTold,
    /// Presets that classes name and that are not there, as far as somebody was told.
    pub(crate) unknown_told: BTreeSet<String>,
    pub(crate) budget: BudgetMeter,
    pub(crate) seen_files: SeenFiles,
    /// Changes of files that are not asked about yet.
    pub(crate) changes: Vec<ProposedChange>,
    /// What its commands begin with because earlier ones have exported it.
    pub(crate) lasting: LastingEnvironment,
    pub(crate) left_by_trial: Option<LeftByTrial>,
    /// A command that is tried while its question waits.
    pub(crate) trial: Option<RunningTrial>,
    /// What a person has kept, until its command's turn has come.
    pub(crate) keeping: Option<KeepOrder>,
    /// The run whose changes are being looked at or kept.
    pub(crate) settling: Option<TurnId>,
    /// What a person keeps or drops of a run that goes on.
    pub(crate) part: Option<PartWork>,
    /// The question whose command was tried without anybody having to say so.
    pub(crate) tried_unasked: Option<ConfirmId>,
}

/// What an actor begins with.
#[derive(Debug)]
pub(crate) enum ActorStart {
    /// With what is stored.
    Stored,
    /// With what is stored, or else as a new one, which its first question makes durable.
    OrNew(NewConversation),
}

/// What a task of this conversation came to.
#[derive(Debug)]
pub(crate) enum TaskOutcome {
    Turn(TurnId, Box<TurnInput>),
    Resolved(TurnId, Box<Discovery>),
    /// The preset that a turn of another daemon goes on with.
    Found(TurnId, StreamId, Box<Discovery>),
    /// A waiting turn that the store would not let start.
    StartAgain(TurnId),
    /// What is told beside the log, for a request that is to be made.
    Gathered(TurnId, StreamId, GatheredContext),
    /// What left the context was summed up, or not.
    Summed(Box<SummaryOutcome>),
    /// A person's command is over.
    OwnEnded(String, Box<CommandResult>),
    /// A command in the background is over.
    JobEnded(JobId, Box<CommandResult>),
    /// What this preset proposes to be remembered, or not.
    Proposed(String, MemoryProposals),
    /// A title was made, or not.
    Titled(Box<TitleOutcome>),
    /// What had left before, and nobody has summed up.
    Left(Box<UnsummarizedExchanges>),
    /// The command of a question was tried, or why it was not.
    Tried(ConfirmId, Box<Result<TrialEnd, String>>),
    /// What the kernel holds is known.
    FoundOut,
    /// Somebody has signed in, for which this question waits.
    SignedIn(ConfirmId),
    /// The same of a change of files that nobody is asked about yet.
    TriedFirst(TurnId, Box<TriedFirst>),
    /// What a run changed was looked at, or kept.
    Changes(TurnId, Box<ChangesStep>),
    /// A part of what a run changed was looked at, kept or dropped.
    Part(Box<PartStep>),
    /// Or whoever did that broke off.
    PartBroke(TurnId, String),
    /// Another model was asked about a call of a run.
    Opinion(TurnId, Box<ReceivedOpinion>),
}

impl Conversation {
    /// This turn runs from here on, and can be stopped.
    fn set_turn(
        &mut self,
        id: TurnId,
        machine: Turn,
        model: (String, PresetSource),
        on_confirm: OnConfirm,
        clock: RunClock,
    ) -> &mut ActiveTurn {
        let token = self.services.stopping.child_token();
        self.stopper.set(Some((id, token.clone())));
        let ground = TurnGround {
            rules: self.models().context.clone(),
            on_confirm,
            token,
            clock,
            top: self.state.cwd.clone(),
        };
        self.turn
            .insert(ActiveTurn::new(id, machine, model, ground))
    }
}

/// What helps where nothing was sent.
pub(crate) fn hint(failure: &RequestFailure) -> Option<String> {
    matches!(failure, RequestFailure::TooLong(_)).then(|| {
        "ask with less at once, or raise context.max_tokens; aishctl context preview shows what takes how much".to_owned()
    })
}

pub(crate) fn failed(stream: StreamId, failure: RequestFailure) -> TurnInput {
    let partial = Reply::default();
    let hint = hint(&failure);
    let broken = BrokenRequest {
        failure,
        partial,
        hint,
    };
    TurnInput::ReplyFailed(stream, Box::new(broken), None)
}

pub(crate) fn finished(stop: StopReason) -> Event {
    Event::TurnFinished {
        stop,
        text: Arc::default(),
        usage: None,
        error: None,
        merged_into: None,
    }
}
