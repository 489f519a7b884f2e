//! What wakes the actor, and what it does then. To wait for the next thing may be dropped; to do it runs to its end.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use aish_proto::id::TurnId;
use aishd_log::server_task::ServerTask;
use aishd_model::reply::RequestFailure;
use aishd_rules::gate::AdmittedCall;
use aishd_tools::builtin;
use aishd_turn::turn::{CallReturn, Effect, Step, StreamId, TurnInput};
use futures_util::FutureExt as _;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use crate::actor::{ActorStart, Conversation, TaskOutcome, failed};
use crate::open_actors::IDLE_TEMPORARY;
use crate::questions::elicitation::ElicitNews;
use crate::questions::hosts::HostNews;
use crate::requests::ActorRequest;
use crate::turns::active_turn::ActiveTurn;
use crate::turns::{call, turn_tasks};
use crate::view::ViewPublisher;

/// What can wake the actor.
#[derive(Debug)]
pub(crate) enum ActorAction {
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
    Host(HostNews),
    /// The transcript has waited long enough for a question.
    Cooled,
    /// Nobody has wanted anything for a while.
    Idle,
    Stop,
}

impl Conversation {
    pub(crate) async fn run(mut self, start: ActorStart) {
        let begun = match start {
            ActorStart::Stored => self.load().await,
            ActorStart::OrNew(new) => self.load_or_new(new).await,
        };
        if !begun {
            return;
        }
        self.start_next().await;
        loop {
            // What goes on in the background needs no transcript.
            let is_quiet = self.is_quiet();
            self.transcript.keep_warm(is_quiet, &self.services.warm);
            self.settle_changes();
            self.note_change().await;
            self.try_unasked();
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
                ActorAction::Host(news) => self.take_host_news(news).await,
                // The transcript is let go of before the next wait, above.
                ActorAction::Cooled => {}
                ActorAction::Idle => {
                    if self.goes_now().await {
                        return;
                    }
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
    pub(crate) async fn select(&mut self) -> ActorAction {
        let retry_at = self.stalled.as_ref().map(|it| it.retry_at);
        let expiry_at = self.expiry.due().filter(|_| retry_at.is_none());
        let time_over_at = self
            .turn
            .as_ref()
            .and_then(ActiveTurn::time_over_at)
            .filter(|_| retry_at.is_none());
        let cools_at = self.transcript.cools_at();
        let idle_in = if self.state.temporary {
            IDLE_TEMPORARY
        } else {
            self.registration.idle_time()
        };
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
            news = self.hosts.next(), if retry_at.is_none() => ActorAction::Host(news),
            () = sleep_until(cools_at.unwrap_or_else(Instant::now)), if cools_at.is_some() => ActorAction::Cooled,
            request = self.mailbox.recv() => request.map_or(ActorAction::Stop, ActorAction::Request),
            () = idle(&self.publisher, idle_in), if idle_for_now => ActorAction::Idle,
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.is_quiet() && !self.jobs.any_runs()
    }

    /// No turn and no command that somebody waits for is under way.
    fn is_quiet(&self) -> bool {
        let works = self.turn.is_some()
            || self.resolving.is_some()
            || self.stalled.is_some()
            || self.proposing
            || self.titling
            || self.state.has_changes_to_settle()
            || self.part.is_some()
            || !self.summing.is_idle()
            || !self.commands.is_empty();
        // Silence has to be counted while a person is asked.
        !works && !self.state.counts_silence()
    }

    pub(crate) fn may_close(&self) -> bool {
        self.is_idle() && self.publisher.is_unwatched() && self.mailbox.is_empty()
    }

    pub(crate) async fn apply_done(&mut self, done: TaskOutcome) {
        match done {
            TaskOutcome::Turn(turn, input) => self.turn_went_on(turn, input).await,
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
            TaskOutcome::JobEnded(job, ended) => self.job_ended(job, *ended).await,
            TaskOutcome::FoundOut => {}
            TaskOutcome::SignedIn(confirm) => self.signed_in(confirm).await,
            TaskOutcome::TriedFirst(turn, tried) => self.tried_first(turn, *tried).await,
            TaskOutcome::Tried(confirm, ended) => self.tried(confirm, *ended).await,
            TaskOutcome::Changes(turn, step) => self.changes_went_on(turn, *step).await,
            TaskOutcome::Part(step) => self.part_went_on(*step).await,
            TaskOutcome::PartBroke(turn, why) => self.part_broke(turn, &why).await,
            TaskOutcome::Proposed(by, outcome) => self.proposed(&by, outcome).await,
            TaskOutcome::Titled(titled) => self.titled(*titled).await,
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

    async fn turn_went_on(&mut self, turn: TurnId, mut input: Box<TurnInput>) {
        if let TurnInput::CommandEnded { call, ended } = &mut *input {
            self.stop_unheard_job(turn, ended.ending);
            self.commands.end_of_turn(turn, call);
            self.note_end_inside(turn, ended.within);
            let stopped = |it: &ActiveTurn| it.id != turn || it.token.is_cancelled();
            if self.turn.as_ref().is_none_or(stopped)
                && let Some(left) = &mut ended.left
            {
                // Its end is that somebody stopped it, which moves nothing.
                left.directory = None;
            }
            self.take_left(ended).await;
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
                let reply = match &self.turn {
                    Some(active) => active.with_real_names(reply),
                    None => reply,
                };
                TurnInput::ReplyFinished(stream, reply)
            }
            TurnInput::ToolReturned { call, returned } => {
                self.call_returned(call, returned, is_ours)
            }
            other => other,
        };
        let may_fall_back = self.may_fall_back();
        let (stop, by) = (self.stop_of_token(), self.stopper.stopped_by());
        if is_ours && self.is_left_to_servers() {
            return Box::pin(self.came_before_leaving(input, paid)).await;
        }
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
            crate::commands::proposed_command::fill(&mut step, &input);
        }
        step.append(active.hear(input));
        if let Some(paid) = paid {
            crate::actor::usage_records::note(paid, &mut step.events);
        }
        self.name_tasks(&mut step);
        self.take_step(step).await;
    }

    /// What the turn hears of a call that came back: its reply, or that a person has to sign in first.
    fn call_returned(
        &mut self,
        call: String,
        mut returned: Box<CallReturn>,
        is_ours: bool,
    ) -> TurnInput {
        let asked = is_ours.then(|| self.sign_in_question(&mut returned));
        if let Some(confirm) = asked.flatten() {
            return TurnInput::SignInAsked { call, confirm };
        }
        self.remark_on_blocks(&mut returned);
        self.check_changes(&call, &mut returned);
        TurnInput::ToolReturned { call, returned }
    }

    pub(crate) async fn perform(&mut self, effect: Effect) {
        let Some(active) = &mut self.turn else { return };
        let (turn, token) = (active.id, active.token.clone());
        match effect {
            Effect::OpenStream(stream) => match self.load_transcript().await {
                Ok(()) => {
                    self.find_out_what_holds();
                    self.open_stream_of(stream).await;
                }
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
                let judged = self.without_failed_changes(&owing, judged);
                if self.try_change_first(&owing, &judged) {
                    return;
                }
                self.changes.retain(|it| it.came.is_ok());
                let judged = self.bound(&owing, approved, judged).await;
                let judged = self.in_their_order(judged);
                if let Some(active) = &mut self.turn {
                    let step = active.hear(TurnInput::Judged(judged));
                    self.use_up(&step);
                    Box::pin(self.take_step(step)).await;
                }
            }
            Effect::CallTool {
                call,
                go,
                keeps: Some(confirm),
            } => {
                active.note_action(None);
                self.start_keeping_change(turn, (call, *go), confirm);
            }
            Effect::CallTool { call, go, .. } => {
                active.note_action(None);
                self.start_call(turn, call, (*go, None), token);
            }
            Effect::RunCommand {
                call,
                keeps: Some(confirm),
                ..
            } => {
                active.note_action(None);
                self.start_keeping(turn, call, confirm);
            }
            Effect::RunCommand { call, run, .. } => {
                active.note_action(Some(&run));
                if run.setting.background {
                    Box::pin(self.start_job(turn, call, *run, token)).await;
                } else {
                    self.start_command(turn, call, *run, token);
                }
            }
            Effect::Abandon => token.cancel(),
        }
    }

    pub(crate) fn start_call(
        &mut self,
        turn: TurnId,
        call: String,
        (go, task): (AdmittedCall, Option<ServerTask>),
        token: CancellationToken,
    ) {
        // It reads the store, which no other call needs.
        let is_for_files = builtin::is_for_files(&go.tool.name);
        let files = is_for_files.then(|| self.file_ground());
        let reads_web = builtin::reads_web(&go.tool.name);
        let network = reads_web.then(|| self.network_for_call(turn, &go));
        let tools = self.tools();
        let offered = self.turn.as_ref().and_then(|it| it.offer.clone());
        let offer = offered.unwrap_or_else(|| self.offer().into());
        let started = call::StartedCall {
            conversation: self.id,
            head: self.state.last_seq,
            todos: self.state.todos_seq,
            call,
            place: self.call_place(),
            files,
            network,
            jobs: (self.jobs.clone(), self.state.shell.ended_jobs.clone()),
            offer,
            needs: self.services.policy.borrow().needs(&go.tool),
            go,
            task,
            stopping: self.services.stopping.clone(),
            tools,
            store: self.services.store.clone(),
            broker: self.services.broker.clone(),
            max_chars: self.services.policy.borrow().max_result_chars,
            token,
            doing: self.publisher.teller(),
            forms: self.forms.sender(),
            budget: self.budget.clone(),
            turn,
        };
        self.io
            .spawn(async move { TaskOutcome::Turn(turn, Box::new(call::run(started).await)) });
    }

    /// Starts work of a turn; a panic in it is a failed request and nothing worse.
    pub(crate) fn spawn(
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
}

/// Waits until nobody has looked for a while.
pub(crate) async fn idle(publisher: &ViewPublisher, time: Duration) {
    publisher.unwatched().await;
    tokio::time::sleep(time).await;
}
