//! One actor per conversation, the only writer of its log.
//!
//! `select` only picks what comes next and may be dropped; `apply` runs to its end. Every change goes the
//! same way: store the facts, then let everybody see them, then do the work (architecture, decision 5).

pub mod allowances;
mod answer;
pub mod archive;
mod ask;
pub mod attendance;
pub mod audit;
pub mod beside;
mod call;
mod change;
mod choose;
mod command;
mod command_queue;
mod commit;
pub mod context;
pub mod definitions;
pub mod directory;
pub mod doing;
pub mod edit;
mod elicit;
mod expiry;
pub mod export;
pub mod follow;
mod fork;
pub mod handle;
pub mod import;
mod keep;
mod kept;
mod listed;
pub mod live;
pub mod memories;
pub mod norris;
pub mod not_taken;
pub mod own_command;
pub mod pending;
mod perform;
pub mod printing;
mod propose;
pub mod purse;
mod quota;
mod raise;
pub mod record;
mod recover;
mod refuse;
mod request;
mod request_error;
pub mod resource;
mod resume;
pub mod routes;
mod sample;
pub mod search;
mod sessions;
mod spend;
mod stop;
mod summarize;
mod terms;
pub mod tokens;
pub mod view;
pub mod warm;
pub mod window;

use std::collections::BTreeSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::{ConversationId, TurnId};
use futures_util::FutureExt as _;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use self::allowances::ClientAllowances;
use self::attendance::Attendance;
use self::beside::{Gathered, Told};
use self::command_queue::CommandQueue;
use self::commit::Unstored;
use self::definitions::Definitions;
use self::directory::{NewConversation, Registration};
use self::elicit::{Forms, News};
use self::handle::{Request, Stopper};
pub use self::kept::KeptPart;
use self::memories::Book;
use self::norris::Opined;
use self::pending::Pending;
use self::propose::Proposals;
use self::purse::{Ledger, Purse, Ticket};
use self::routes::Routes;
use self::sessions::Own;
pub use self::summarize::CaughtUp;
use self::summarize::{Left, Summed, Summing};
use self::tokens::Tokens;
use self::view::Publisher;
use self::warm::{Kept, Warm};
use aishd_broker::{Broker, Discovery};
use aishd_log::confirm::{OnConfirm, Person};
use aishd_log::ending::Ended;
use aishd_log::event::{Event, Record, Source, Stop};
use aishd_log::pinned::Held;
use aishd_log::state::State;
use aishd_model::budget::Rules;
use aishd_model::preset::{Models, Preset};
use aishd_model::reply::{Broken, Failure, Reply};
use aishd_project::Folders;
use aishd_rules::autonomy::Heard;
use aishd_rules::boundary::{Failures, Ground};
use aishd_rules::catalog::Offer;
use aishd_rules::policy::Policy;
use aishd_store::Store;
use aishd_tools::Tools;
use aishd_turn::transcript::Transcript;
use aishd_turn::turn::{Effect, Input, Step, StreamId, Turn};

/// What every actor is given.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub store: Store,
    pub broker: Broker,
    pub models: tokio::sync::watch::Receiver<Arc<Models>>,
    pub policy: tokio::sync::watch::Receiver<Arc<Policy>>,
    pub tools: Tools,
    /// Where every open confirm is made known.
    pub pending: Pending,
    /// What attached clients let run unasked.
    pub allowances: ClientAllowances,
    /// What rules about tools are bound to.
    pub definitions: Definitions,
    /// What commands of runs are kept within.
    pub ground: Arc<Ground>,
    /// What servers count as a token.
    pub tokens: Tokens,
    /// Whose lost summaries have been seen to.
    pub caught_up: CaughtUp,
    pub warm: Warm,
    /// What is switched of routing and fallback.
    pub routes: Routes,
    /// What people keep for all conversations.
    pub book: Book,
    /// What directories tell models.
    pub folders: Folders,
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
    around: Surroundings,
    state: State,
    /// Read from the log when the first turn needs it.
    transcript: Option<Transcript>,
    /// Until when that stays though nothing happens, where it is long.
    kept: Option<Kept>,
    turn: Option<Active>,
    /// A turn whose preset is being looked for.
    resolving: Option<TurnId>,
    /// The first fact of a new conversation. It is in `state` already and becomes durable with the next commit.
    unborn: Option<Record>,
    /// Facts that the store would not take; nothing else changes until it does.
    unstored: Option<Unstored>,
    mailbox: mpsc::Receiver<Request>,
    io: JoinSet<Done>,
    publisher: Publisher,
    stopper: Stopper,
    registration: Registration,
    attendance: Attendance,
    /// The same, as changes to wait for.
    attended: tokio::sync::watch::Receiver<usize>,
    /// What servers want to know while calls run.
    forms: Forms,
    /// When the time of an open confirm is over.
    expiry_at: Option<Instant>,
    /// Its own sessions with servers, while it has constraints.
    own: Option<Own>,
    /// What left the context and is being summed up.
    summing: Summing,
    /// Commands that run, and that wait for their turn.
    commands: CommandQueue,
    /// A model is looking for what is worth remembering.
    proposing: bool,
    /// What is told of its directory.
    told: Told,
    /// Presets that classes name and that are not there, as far as somebody was told.
    unknown_told: BTreeSet<String>,
    purse: Purse,
}

/// What an actor begins with.
#[derive(Debug)]
enum Start {
    /// With what is stored.
    Stored,
    /// With what is stored, or else as a new one, which its first question makes durable.
    OrNew(NewConversation),
}

/// The running turn.
#[derive(Debug)]
struct Active {
    id: TurnId,
    machine: Turn,
    /// `None`: the turn was begun by another daemon, and the preset is looked up when it is needed.
    preset: Option<Arc<Preset>>,
    /// Whom a request goes to whose server looks down.
    second: Option<Arc<Preset>>,
    model: (String, Source),
    /// The request that is under way.
    asking: Option<(StreamId, Ticket)>,
    /// What the last request offered. `None`: that was another daemon's.
    offer: Option<Arc<Offer>>,
    /// What pinned resources held when the last request was made.
    held: Vec<Held>,
    /// The rules of contexts that it began with: a reload is for the next turn.
    rules: Rules,
    on_confirm: OnConfirm,
    token: CancellationToken,
    /// Who cancelled it.
    stopped_by: Option<Person>,
    /// How long it has worked.
    clock: norris::Clock,
    /// What another model said of the call of a run that would begin next.
    heard: Option<Heard>,
    /// Which of its commands failed inside their boundary.
    failures: Failures,
    /// The conversation's directory when it began: a run that changes to one below is still within this one.
    top: String,
}

/// What a task of this conversation came to.
#[derive(Debug)]
enum Done {
    Turn(TurnId, Box<Input>),
    Resolved(TurnId, Box<Discovery>),
    /// The preset that a turn of another daemon goes on with.
    Found(TurnId, StreamId, Box<Discovery>),
    /// A waiting turn that the store would not let start.
    StartAgain(TurnId),
    /// What is told beside the log, for a request that is to be made.
    Gathered(TurnId, StreamId, Gathered),
    /// What left the context was summed up, or not.
    Summed(Box<Summed>),
    /// A person's command is over.
    OwnEnded(String, Box<Ended>),
    /// What this preset proposes to be remembered, or not.
    Proposed(String, Proposals),
    /// What had left before, and nobody has summed up.
    Left(Box<Left>),
    /// Another model was asked about a call of a run.
    Opinion(TurnId, Box<Opined>),
}

/// What can wake the actor.
#[derive(Debug)]
enum Action {
    Request(Request),
    Done(Done),
    RetryCommit,
    /// Somebody came to look, or left.
    Attended,
    /// Other rules are in force, about silence too.
    Policy,
    /// The time of an open confirm is over.
    Expired,
    /// The run has worked for as long as it may.
    TimeIsOver,
    Form(News),
    /// The transcript has waited long enough for a question.
    Cooled,
    /// Nobody has wanted anything for a while.
    Idle,
    Stop,
}

impl Conversation {
    async fn run(mut self, start: Start) {
        let begun = match start {
            Start::Stored => self.load().await,
            Start::OrNew(new) => self.load_or_new(new).await,
        };
        if !begun {
            return;
        }
        self.start_next().await;
        loop {
            self.keep_transcript_warm();
            match self.select().await {
                Action::Request(request) => {
                    if self.apply_request(request).await.is_break() {
                        return;
                    }
                }
                Action::Done(done) => self.apply_done(done).await,
                Action::RetryCommit => self.retry_commit().await,
                Action::Attended | Action::Policy => self.plan_expiry(),
                Action::Expired => self.expire_open().await,
                Action::TimeIsOver => self.time_is_over().await,
                Action::Form(news) => self.take_news(news).await,
                // What is to be done is done before the next wait.
                Action::Cooled => {}
                Action::Idle => {
                    if self.registration.remove_if(|| self.may_close()) {
                        tracing::debug!("closed: nobody needs it");
                        return;
                    }
                }
                Action::Stop => break,
            }
        }
        self.finish().await;
    }

    /// Waits for the next thing. Cancel-safe: nothing is taken and then lost.
    async fn select(&mut self) -> Action {
        let retry_at = self.unstored.as_ref().map(|it| it.retry_at);
        let expiry_at = self.expiry_at.filter(|_| retry_at.is_none());
        let time_over_at = self.time_over_at().filter(|_| retry_at.is_none());
        let cools_at = self.kept.as_ref().map(|it| it.until);
        let idle_in = self.registration.idle_time();
        let idle_for_now = self.is_idle();
        tokio::select! {
            biased;
            () = self.around.stopping.cancelled() => Action::Stop,
            () = sleep_until(retry_at.unwrap_or_else(Instant::now)), if retry_at.is_some() => Action::RetryCommit,
            Ok(()) = self.attended.changed() => Action::Attended,
            Ok(()) = self.around.policy.changed() => Action::Policy,
            () = sleep_until(expiry_at.unwrap_or_else(Instant::now)), if expiry_at.is_some() => Action::Expired,
            () = sleep_until(time_over_at.unwrap_or_else(Instant::now)), if time_over_at.is_some() => Action::TimeIsOver,
            Some(done) = self.io.join_next(), if !self.io.is_empty() && retry_at.is_none() => match done {
                Ok(done) => Action::Done(done),
                // Tasks catch their own panics, so this one was aborted with its turn.
                Err(_aborted) => Action::Idle,
            },
            news = self.forms.next(), if retry_at.is_none() => Action::Form(news),
            () = sleep_until(cools_at.unwrap_or_else(Instant::now)), if cools_at.is_some() => Action::Cooled,
            request = self.mailbox.recv() => request.map_or(Action::Stop, Action::Request),
            () = idle(&self.publisher, idle_in), if idle_for_now => Action::Idle,
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

    async fn apply_done(&mut self, done: Done) {
        match done {
            Done::Turn(turn, mut input) => {
                if let Input::CommandEnded { call, ended } = &*input {
                    self.commands.end_of_turn(turn, call);
                    self.note_end_inside(turn, ended.within);
                }
                let is_ours = self.turn.as_ref().is_some_and(|it| it.id == turn);
                let paid = is_ours.then(|| self.charge(&mut input)).flatten();
                let input = match *input {
                    Input::ReplyFailed(stream, broken, _) => {
                        let evictable = self.evictable(&broken.failure);
                        Input::ReplyFailed(stream, broken, evictable)
                    }
                    Input::ReplyFinished(stream, reply) => {
                        self.told.note(&reply.cured.told);
                        Input::ReplyFinished(stream, self.with_real_names(reply))
                    }
                    Input::ToolReturned { call, mut returned } => {
                        self.remark_on_blocks(&mut returned);
                        self.check_changes(&call, &mut returned);
                        Input::ToolReturned { call, returned }
                    }
                    other @ (Input::CommandEnded { .. }
                    | Input::Freed
                    | Input::ReplyAbandoned(..)
                    | Input::WaitElapsed(_)
                    | Input::Judged(_)
                    | Input::Answered(_)
                    | Input::Paused
                    | Input::Resumed
                    | Input::TimeIsOver
                    | Input::Stopped(_)) => other,
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
                    step.append(active.hear(Input::Stopped(stop)));
                    command::fill(&mut step, &input);
                }
                step.append(active.hear(input));
                if let Some(paid) = paid {
                    spend::note(paid, &mut step.events);
                }
                self.take_step(step).await;
            }
            Done::Resolved(turn, discovery) => {
                if self.resolving == Some(turn) {
                    self.resolving = None;
                    self.resolved(turn, *discovery).await;
                }
            }
            Done::Gathered(turn, stream, it) => self.gathered(turn, stream, it).await,
            Done::Opinion(turn, opined) => self.opined(turn, *opined).await,
            Done::Summed(summed) => self.summed(*summed).await,
            Done::OwnEnded(call, ended) => self.own_ended(call, *ended).await,
            Done::Proposed(by, outcome) => self.proposed(&by, outcome).await,
            Done::Left(left) => self.begin_with(*left),
            Done::Found(turn, stream, discovery) => self.found(turn, stream, *discovery).await,
            Done::StartAgain(turn) => {
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
                        failed(stream, Failure::Unreadable(error))
                    });
                }
            },
            Effect::OpenFallback(stream) => match self.load_transcript().await {
                Ok(()) => self.open_fallback(stream).await,
                Err(error) => {
                    self.spawn(turn, stream, async move {
                        failed(stream, Failure::Unreadable(error))
                    });
                }
            },
            Effect::Wait(stream, pause) => {
                self.spawn(turn, stream, perform::wait(stream, pause, token));
            }
            Effect::Judge { owing, approved } => {
                let judged = self.judge(&owing, approved);
                if self.ask_for_opinion(&owing, approved, &judged) {
                    return;
                }
                let judged = self.bound(&owing, approved, judged).await;
                let judged = self.in_their_order(judged);
                if let Some(active) = &mut self.turn {
                    let step = active.hear(Input::Judged(judged));
                    self.use_up(&step);
                    Box::pin(self.take_step(step)).await;
                }
            }
            Effect::CallTool { call, go } => {
                self.note_action(None);
                let tools = self.tools();
                let started = call::Started {
                    conversation: self.id,
                    head: self.state.last_seq,
                    call,
                    cwd: self.state.cwd.clone(),
                    needs: self.around.policy.borrow().needs(&go.tool),
                    go: *go,
                    tools,
                    store: self.around.store.clone(),
                    broker: self.around.broker.clone(),
                    max_chars: self.around.policy.borrow().max_result_chars,
                    token,
                    doing: self.publisher.teller(),
                    forms: self.forms.sender(),
                    purse: self.purse.clone(),
                    turn,
                };
                self.io
                    .spawn(async move { Done::Turn(turn, Box::new(call::run(started).await)) });
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
        work: impl Future<Output = Input> + Send + 'static,
    ) -> AbortHandle {
        let span = tracing::info_span!("turn", %turn);
        let work = async move {
            let ended = AssertUnwindSafe(work).catch_unwind().await;
            let broke = |_panic| failed(stream, Failure::Transport("internal error".to_owned()));
            Done::Turn(turn, Box::new(ended.unwrap_or_else(broke)))
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
async fn idle(publisher: &Publisher, time: Duration) {
    publisher.unwatched().await;
    tokio::time::sleep(time).await;
}

/// What helps where nothing was sent.
fn hint(failure: &Failure) -> Option<String> {
    matches!(failure, Failure::TooLong(_)).then(|| {
        "ask with less at once, or raise context.max_tokens; aishctl context preview shows what takes how much".to_owned()
    })
}

fn failed(stream: StreamId, failure: Failure) -> Input {
    let partial = Reply::default();
    let hint = hint(&failure);
    let broken = Broken {
        failure,
        partial,
        hint,
    };
    Input::ReplyFailed(stream, Box::new(broken), None)
}

fn finished(stop: Stop) -> Event {
    Event::TurnFinished {
        stop,
        text: Arc::default(),
        usage: None,
        error: None,
        merged_into: None,
    }
}
