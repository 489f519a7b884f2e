//! One actor per conversation, the only writer of its log.
//!
//! `select` only picks what comes next and may be dropped; `apply` runs to its end. Every change goes the
//! same way: store the facts, then let everybody see them, then do the work (architecture, decision 5).

pub mod allowances;
pub mod argument_edit;
mod aside_questions;
mod ask;
pub mod audit;
pub mod budget;
mod call;
mod call_list_turn;
mod change;
pub mod command_output;
mod command_queue;
mod commit;
mod confirm_answer;
pub mod directory;
mod elicitation;
pub mod evicted_exchanges;
mod expiry;
pub mod export;
pub mod extra_context;
pub mod follow;
mod fork;
pub mod handle;
pub mod import;
mod level_questions;
pub mod live_item;
pub mod memory_book;
mod memory_proposals;
mod memory_questions;
mod model_choice;
pub mod model_limits;
pub mod norris;
pub mod pending_questions;
mod proposed_command;
mod question_quota;
mod read_error;
mod recover;
mod request;
pub mod request_context;
pub mod request_error;
pub mod requests;
pub mod resource;
mod resume;
pub mod routing_book;
mod sampling;
pub mod search;
mod sessions;
mod stop;
mod stored_results;
mod summarize;
pub mod tail_buffer;
pub mod token_counts;
pub mod tool_definitions;
pub mod tool_progress;
mod turn_options;
pub mod turn_record;
mod turn_tasks;
mod usage_records;
pub mod user_command;
pub mod view;
pub mod viewers;
pub mod warm_transcripts;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::{ConversationId, TurnId};
use aishd_broker::{Broker, Discovery};
use aishd_log::confirm::{AnsweringPerson, OnConfirm};
use aishd_log::ending::CommandResult;
use aishd_log::event::{Event, PresetSource, Record, StopReason};
use aishd_log::pinned_resource::PinnedContent;
use aishd_log::state::ConversationState;
use aishd_model::context_budget::ContextSettings;
use aishd_model::model_settings::ModelSettings;
use aishd_model::preset::Preset;
use aishd_model::reply::{BrokenRequest, Reply, RequestFailure};
use aishd_project::ProjectCache;
use aishd_rules::autonomy::SecondOpinion;
use aishd_rules::boundary::{BoundaryFailures, BoundaryGround};
use aishd_rules::catalog::ToolOffer;
use aishd_rules::policy::Policy;
use aishd_store::Store;
use aishd_tools::ToolRunner;
use aishd_turn::turn::{Effect, Step, StreamId, Turn, TurnInput};
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::allowances::ClientAllowances;
use self::budget::{BudgetMeter, Ledger, SpendingTicket};
use self::command_queue::CommandQueue;
use self::commit::StalledCommit;
use self::directory::{ActorRegistration, NewConversation};
use self::elicitation::{ElicitNews, ServerQuestions};
use self::expiry::ConfirmExpiry;
use self::extra_context::{DirectoryTold, GatheredContext};
use self::handle::TurnStopper;
use self::memory_book::MemoryBook;
use self::memory_proposals::MemoryProposals;
use self::norris::ReceivedOpinion;
use self::pending_questions::PendingQuestions;
use self::routing_book::RoutingBook;
use self::sessions::OwnSessions;
pub use self::stored_results::KeptPart;
pub use self::summarize::CaughtUp;
use self::summarize::{SummaryOutcome, SummaryTask, UnsummarizedExchanges};
use self::token_counts::TokenCounts;
use self::tool_definitions::ToolDefinitions;
use self::view::ViewPublisher;
use self::warm_transcripts::{HeldTranscript, WarmTranscripts};
use crate::requests::ActorRequest;

/// What every actor is given.
#[derive(Clone, Debug)]
pub struct ActorServices {
    pub store: Store,
    pub broker: Broker,
    pub models: tokio::sync::watch::Receiver<Arc<ModelSettings>>,
    pub policy: tokio::sync::watch::Receiver<Arc<Policy>>,
    pub tools: ToolRunner,
    /// Where every open confirm is made known.
    pub pending: PendingQuestions,
    /// What attached clients let run unasked.
    pub allowances: ClientAllowances,
    /// What rules about tools are bound to.
    pub definitions: ToolDefinitions,
    /// What commands of runs are kept within.
    pub ground: Arc<BoundaryGround>,
    /// What servers count as a token.
    pub tokens: TokenCounts,
    /// Whose lost summaries have been seen to.
    pub caught_up: CaughtUp,
    pub warm: WarmTranscripts,
    /// What is switched of routing and fallback.
    pub routes: RoutingBook,
    /// What people keep for all conversations.
    pub book: MemoryBook,
    /// What directories tell models.
    pub folders: ProjectCache,
    /// What is spent on a day.
    pub ledger: Ledger,
    /// Turns that may wait in one conversation.
    pub max_queue: usize,
    /// No new turns from here on.
    pub draining: CancellationToken,
    /// Running turns end now, as interrupted.
    pub stopping: CancellationToken,
}

/// The actor.
#[derive(Debug)]
struct Conversation {
    id: ConversationId,
    services: ActorServices,
    state: ConversationState,
    transcript: HeldTranscript,
    turn: Option<ActiveTurn>,
    /// A turn whose preset is being looked for.
    resolving: Option<TurnId>,
    /// The first fact of a new conversation. It is in `state` already and becomes durable with the next commit.
    unborn: Option<Record>,
    /// Facts that the store would not take; nothing else changes until it does.
    unstored: Option<StalledCommit>,
    mailbox: mpsc::Receiver<ActorRequest>,
    io: JoinSet<TaskOutcome>,
    publisher: ViewPublisher,
    stopper: TurnStopper,
    registration: ActorRegistration,
    /// Who could answer its questions, and until when.
    expiry: ConfirmExpiry,
    /// What servers want to know while calls run.
    forms: ServerQuestions,
    /// Its own sessions with servers, while it has constraints.
    own: Option<OwnSessions>,
    /// What left the context and is being summed up.
    summing: SummaryTask,
    /// Commands that run, and that wait for their turn.
    commands: CommandQueue,
    /// A model is looking for what is worth remembering.
    proposing: bool,
    /// What is told of its directory.
    told: DirectoryTold,
    /// Presets that classes name and that are not there, as far as somebody was told.
    unknown_told: BTreeSet<String>,
    purse: BudgetMeter,
}

/// What an actor begins with.
#[derive(Debug)]
enum ActorStart {
    /// With what is stored.
    Stored,
    /// With what is stored, or else as a new one, which its first question makes durable.
    OrNew(NewConversation),
}

/// The running turn.
#[derive(Debug)]
struct ActiveTurn {
    id: TurnId,
    machine: Turn,
    /// `None`: the turn was begun by another daemon, and the preset is looked up when it is needed.
    preset: Option<Arc<Preset>>,
    /// Whom a request goes to whose server looks down.
    second: Option<Arc<Preset>>,
    model: (String, PresetSource),
    /// The request that is under way.
    asking: Option<(StreamId, SpendingTicket)>,
    /// What the last request offered. `None`: that was another daemon's.
    offer: Option<Arc<ToolOffer>>,
    /// What pinned resources held when the last request was made.
    held: Vec<PinnedContent>,
    /// The rules of contexts that it began with: a reload is for the next turn.
    rules: ContextSettings,
    on_confirm: OnConfirm,
    token: CancellationToken,
    /// Who cancelled it.
    stopped_by: Option<AnsweringPerson>,
    /// How long it has worked.
    clock: norris::RunClock,
    /// What another model said of the call of a run that would begin next.
    heard: Option<SecondOpinion>,
    /// Which of its commands failed inside their boundary.
    failures: BoundaryFailures,
    /// The conversation's directory when it began: a run that changes to one below is still within this one.
    top: String,
}

/// What a task of this conversation came to.
#[derive(Debug)]
enum TaskOutcome {
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
    /// What this preset proposes to be remembered, or not.
    Proposed(String, MemoryProposals),
    /// What had left before, and nobody has summed up.
    Left(Box<UnsummarizedExchanges>),
    /// Another model was asked about a call of a run.
    Opinion(TurnId, Box<ReceivedOpinion>),
}

/// What can wake the actor.
#[derive(Debug)]
enum ActorAction {
    Request(ActorRequest),
    Done(TaskOutcome),
    RetryCommit,
    /// Somebody came to look, or left.
    Attended,
    /// Other rules are in force, about silence too.
    Policy,
    /// The time of an open confirm is over.
    Expired,
    /// The run has worked for as long as it may.
    TimeIsOver,
    Form(ElicitNews),
    /// The transcript has waited long enough for a question.
    Cooled,
    /// Nobody has wanted anything for a while.
    Idle,
    Stop,
}

impl Conversation {
    async fn run(mut self, start: ActorStart) {
        let begun = match start {
            ActorStart::Stored => self.load().await,
            ActorStart::OrNew(new) => self.load_or_new(new).await,
        };
        if !begun {
            return;
        }
        self.start_next().await;
        loop {
            let is_idle = self.is_idle();
            self.transcript.keep_warm(is_idle, &self.services.warm);
            match self.select().await {
                ActorAction::Request(request) => {
                    if self.apply_request(request).await.is_break() {
                        return;
                    }
                }
                ActorAction::Done(done) => self.apply_done(done).await,
                ActorAction::RetryCommit => self.retry_commit().await,
                ActorAction::Attended | ActorAction::Policy => self.plan_expiry(),
                ActorAction::Expired => self.expire_open().await,
                ActorAction::TimeIsOver => self.time_is_over().await,
                ActorAction::Form(news) => self.take_news(news).await,
                // What is to be done is done before the next wait.
                ActorAction::Cooled => {}
                ActorAction::Idle => {
                    if self.registration.remove_if(|| self.may_close()) {
                        tracing::debug!("closed: nobody needs it");
                        return;
                    }
                }
                ActorAction::Stop => break,
            }
        }
        self.finish().await;
    }

    /// Waits for the next thing. Cancel-safe: nothing is taken and then lost.
    async fn select(&mut self) -> ActorAction {
        let retry_at = self.unstored.as_ref().map(|it| it.retry_at);
        let expiry_at = self.expiry.due().filter(|_| retry_at.is_none());
        let time_over_at = self.time_over_at().filter(|_| retry_at.is_none());
        let cools_at = self.transcript.cools_at();
        let idle_in = self.registration.idle_time();
        let idle_for_now = self.is_idle();
        tokio::select! {
            biased;
            () = self.services.stopping.cancelled() => ActorAction::Stop,
            () = sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => ActorAction::RetryCommit,
            () = self.expiry.attendance_changed() => ActorAction::Attended,
            Ok(()) = self.services.policy.changed() => ActorAction::Policy,
            () = sleep_until(expiry_at.unwrap_or_else(Instant::now)), if expiry_at.is_some() => ActorAction::Expired,
            () = sleep_until(time_over_at.unwrap_or_else(Instant::now)), if time_over_at.is_some() => ActorAction::TimeIsOver,
            Some(done) = self.io.join_next(), if !self.io.is_empty() && retry_at.is_none() => match done {
                Ok(done) => ActorAction::Done(done),
                // Tasks catch their own panics, so this one was aborted with its turn.
                Err(_aborted) => ActorAction::Idle,
            },
            news = self.forms.next(), if retry_at.is_none() => ActorAction::Form(news),
            () = sleep_until(cools_at.unwrap_or_else(Instant::now)), if cools_at.is_some() => ActorAction::Cooled,
            request = self.mailbox.recv() => request.map_or(ActorAction::Stop, ActorAction::Request),
            () = idle(&self.publisher, idle_in), if idle_for_now => ActorAction::Idle,
        }
    }

    fn is_idle(&self) -> bool {
        let works = self.turn.is_some()
            || self.resolving.is_some()
            || self.unstored.is_some()
            || self.proposing
            || !self.summing.is_idle()
            || !self.commands.is_empty();
        // Silence has to be counted while a person is asked.
        !works && !self.state.asks_aside()
    }

    fn may_close(&self) -> bool {
        self.is_idle() && self.publisher.is_unwatched() && self.mailbox.is_empty()
    }

    async fn apply_done(&mut self, done: TaskOutcome) {
        match done {
            TaskOutcome::Turn(turn, mut input) => {
                if let TurnInput::CommandEnded { call, ended } = &*input {
                    self.commands.end_of_turn(turn, call);
                    self.note_end_inside(turn, ended.within);
                }
                let is_ours = self.turn.as_ref().is_some_and(|it| it.id == turn);
                let paid = is_ours.then(|| self.charge(&mut input)).flatten();
                let input = match *input {
                    TurnInput::ReplyFailed(stream, broken, _) => {
                        let evictable = self.evictable(&broken.failure);
                        TurnInput::ReplyFailed(stream, broken, evictable)
                    }
                    TurnInput::ReplyFinished(stream, reply) => {
                        self.told.note(&reply.cured.told);
                        TurnInput::ReplyFinished(stream, self.with_real_names(reply))
                    }
                    TurnInput::ToolReturned { call, mut returned } => {
                        self.remark_on_blocks(&mut returned);
                        self.check_changes(&call, &mut returned);
                        TurnInput::ToolReturned { call, returned }
                    }
                    other => other,
                };
                let may_fall_back = self.may_fall_back();
                let stop = self.stop_of_token();
                let by = self.stopper.stopped_by();
                let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) else {
                    return Box::pin(self.next_command()).await;
                };
                if !may_fall_back {
                    active.machine.bar_way();
                }
                let mut step = Step::default();
                if active.token.is_cancelled() {
                    // The work was dropped ahead of the mailbox: the machine hears why before it hears the end.
                    active.stopped_by = active.stopped_by.take().or(by);
                    step.append(active.hear(TurnInput::Stopped(stop)));
                    proposed_command::fill(&mut step, &input);
                }
                step.append(active.hear(input));
                if let Some(paid) = paid {
                    usage_records::note(paid, &mut step.events);
                }
                self.take_step(step).await;
            }
            TaskOutcome::Resolved(turn, discovery) => {
                if self.resolving == Some(turn) {
                    self.resolving = None;
                    self.resolved(turn, *discovery).await;
                }
            }
            TaskOutcome::Gathered(turn, stream, it) => self.gathered(turn, stream, it).await,
            TaskOutcome::Opinion(turn, opined) => self.opined(turn, *opined).await,
            TaskOutcome::Summed(summed) => self.summed(*summed).await,
            TaskOutcome::OwnEnded(call, ended) => self.own_ended(call, *ended).await,
            TaskOutcome::Proposed(by, outcome) => self.proposed(&by, outcome).await,
            TaskOutcome::Left(left) => self.begin_with(*left),
            TaskOutcome::Found(turn, stream, discovery) => {
                self.found(turn, stream, *discovery).await;
            }
            TaskOutcome::StartAgain(turn) => {
                if self.resolving == Some(turn) {
                    self.resolving = None;
                    Box::pin(self.start_first()).await;
                }
            }
        }
    }

    async fn perform(&mut self, effect: Effect) {
        let Some(active) = &self.turn else { return };
        let (turn, token) = (active.id, active.token.clone());
        match effect {
            Effect::OpenStream(stream) => match self.load_transcript().await {
                Ok(()) => self.open_stream_of(stream).await,
                Err(error) => {
                    self.spawn(turn, stream, async move {
                        failed(stream, RequestFailure::Unreadable(error))
                    });
                }
            },
            Effect::OpenFallback(stream) => match self.load_transcript().await {
                Ok(()) => self.open_fallback(stream).await,
                Err(error) => {
                    self.spawn(turn, stream, async move {
                        failed(stream, RequestFailure::Unreadable(error))
                    });
                }
            },
            Effect::Wait(stream, pause) => {
                self.spawn(turn, stream, turn_tasks::wait(stream, pause, token));
            }
            Effect::Judge { owing, approved } => {
                let judged = self.judge(&owing, approved);
                if self.ask_for_opinion(&owing, approved, &judged) {
                    return;
                }
                let judged = self.bound(&owing, approved, judged).await;
                let judged = self.in_their_order(judged);
                if let Some(active) = &mut self.turn {
                    let step = active.hear(TurnInput::Judged(judged));
                    self.use_up(&step);
                    Box::pin(self.take_step(step)).await;
                }
            }
            Effect::CallTool { call, go } => {
                self.note_action(None);
                let tools = self.tools();
                let started = call::StartedCall {
                    conversation: self.id,
                    head: self.state.last_seq,
                    call,
                    cwd: self.state.cwd.clone(),
                    needs: self.services.policy.borrow().needs(&go.tool),
                    go: *go,
                    tools,
                    store: self.services.store.clone(),
                    broker: self.services.broker.clone(),
                    max_chars: self.services.policy.borrow().max_result_chars,
                    token,
                    doing: self.publisher.teller(),
                    forms: self.forms.sender(),
                    purse: self.purse.clone(),
                    turn,
                };
                self.io.spawn(async move {
                    TaskOutcome::Turn(turn, Box::new(call::run(started).await))
                });
            }
            Effect::RunCommand { call, run } => {
                self.note_action(Some(&run));
                self.start_command(turn, call, *run, token);
            }
            Effect::Abandon => token.cancel(),
        }
    }

    /// Starts work of a turn; a panic in it is a failed request and nothing worse.
    fn spawn(
        &mut self,
        turn: TurnId,
        stream: StreamId,
        work: impl Future<Output = TurnInput> + Send + 'static,
    ) -> AbortHandle {
        let span = tracing::info_span!("turn", %turn);
        let work = async move {
            let ended = AssertUnwindSafe(work).catch_unwind().await;
            let broke = |_panic| {
                failed(
                    stream,
                    RequestFailure::Transport("internal error".to_owned()),
                )
            };
            TaskOutcome::Turn(turn, Box::new(ended.unwrap_or_else(broke)))
        };
        self.io.spawn(work.instrument(span))
    }

    /// People and logs see what a tool is really called.
    fn with_real_names(&self, mut reply: Reply) -> Reply {
        let offer = self.turn.as_ref().and_then(|it| it.offer.as_deref());
        for call in &mut reply.calls {
            if let Some(name) = offer.and_then(|it| it.real_name(&call.name)) {
                call.name = name.to_string();
            }
        }
        reply
    }
}

/// Waits until nobody has looked for a while.
async fn idle(publisher: &ViewPublisher, time: Duration) {
    publisher.unwatched().await;
    tokio::time::sleep(time).await;
}

/// What helps where nothing was sent.
fn hint(failure: &RequestFailure) -> Option<String> {
    matches!(failure, RequestFailure::TooLong(_)).then(|| {
        "ask with less at once, or raise context.max_tokens; aishctl context preview shows what takes how much".to_owned()
    })
}

fn failed(stream: StreamId, failure: RequestFailure) -> TurnInput {
    let partial = Reply::default();
    let hint = hint(&failure);
    let broken = BrokenRequest {
        failure,
        partial,
        hint,
    };
    TurnInput::ReplyFailed(stream, Box::new(broken), None)
}

fn finished(stop: StopReason) -> Event {
    Event::TurnFinished {
        stop,
        text: Arc::default(),
        usage: None,
        error: None,
        merged_into: None,
    }
}
