//! One actor for each server (architecture, decision 2). `select` picks what is next and may be dropped;
//! what is done then runs to its end and waits for no server, only for the end of a session (`down`): whatever else takes
//! time is a task of the actor.

mod listing;
mod phases;
mod watching;

use std::collections::VecDeque;
use std::sync::Arc;

use aishd_log::tool_name::Alias;
use aishd_mcp_messages::server::{ServerEntry, ServerPhase};
use aishd_mcp_messages::settings::{ServerEndpoint, ServerSettings};
use aishd_mcp_messages::tool::ListedTools;
use aishd_platform::clock;
use aishd_signin::SignInNeed;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::listing::ListingPace;
use self::phases::{SessionPhase, UpSession};
use super::backoff::Backoff;
use super::capability_cache::RememberSchedule;
use super::elicitation::PeopleLink;
use super::era::Era;
use super::error::WireFailure;
use super::inbox::InboundMessage;
use super::lifecycle::LiveSession;
use super::message::INTERNAL_ERROR;
use super::request_task::{self, PerformedWork, RequestedWork};
use super::resource_cache::{FreshUntil, ResourceCache};
use super::server_requests::{AnsweringRequest, RequestRoom};
use super::shared::SharedCell;
use super::stderr_ring::StderrRing;

/// Requests of a server that wait for the actor; a server that sends more is not read until some are answered.
const INBOUND: usize = 64;
/// Calls that wait for a session that is connecting.
const WAITING: usize = 64;

/// What others want of the actor.
#[derive(Debug)]
pub(super) enum SessionCommand {
    Ask(Box<RequestedWork>),
    /// Lists the tools again; connects first where there is no session.
    Refresh(oneshot::Sender<Result<(), WireFailure>>),
    /// Ends the session and begins another at once.
    Restart(oneshot::Sender<Result<(), WireFailure>>),
}

/// What others read of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionView {
    /// The last words of a child.
    pub(super) log: StderrRing,
    /// What was read of resources.
    pub(super) fresh: ResourceCache,
    /// How long the list of tools is to be believed.
    pub(super) listed: FreshUntil,
}

/// How a session is told that it is not wanted any more.
#[derive(Clone, Debug)]
pub(super) struct SessionEnd {
    /// At once, calls in flight included.
    pub(super) stop: CancellationToken,
    /// When what was begun is done.
    pub(super) retire: CancellationToken,
}

pub(super) struct McpSession {
    alias: Alias,
    server: Arc<ServerSettings>,
    shared: Arc<SharedCell>,
    mailbox: mpsc::Receiver<SessionCommand>,
    ends: SessionEnd,
    /// Another session has its place; it finishes what was begun.
    retiring: bool,
    phase: SessionPhase,
    status: ServerEntry,
    tasks: JoinSet<SessionDone>,
    /// Calls for the session that is being made.
    waiting: VecDeque<RequestedWork>,
    /// Who wants to know when the tools were listed.
    refreshing: Vec<oneshot::Sender<Result<(), WireFailure>>>,
    backoff: Backoff,
    pace: ListingPace,
    keeping: RememberSchedule,
    /// Told once; the same failure again is no news.
    reported: Option<String>,
    next_id: u64,
    log: StderrRing,
    fresh: ResourceCache,
    holds: FreshUntil,
    /// Sessions that are being ended; another is begun behind them.
    leaving: Vec<LiveSession>,
    /// Ends what is still in flight on sessions that their server forgot.
    forgotten: CancellationToken,
    /// A child that died of a question from 2026 is not asked it at its next start.
    guess: Option<Era>,
    /// Nothing goes on before a person signs in; with how many sign-ins there had been then.
    need: Option<(SignInNeed, u64)>,
}

/// What ended by itself.
enum SessionDone {
    Connected(Box<Result<UpSession, WireFailure>>),
    /// A call; what has to be done again comes back, with the reason and the session that was lost.
    Asked(Option<(Box<RequestedWork>, String, u64)>),
    /// The server of this session knows nobody of us any more.
    SignedOut(SignInNeed, u64),
    /// With the session that was asked.
    Listed(u64, Result<ListedTools, WireFailure>),
    Told,
}

/// What the actor does next.
enum SessionAction {
    Command(SessionCommand),
    Done(SessionDone),
    Inbound(Option<InboundMessage>),
    Changed,
    /// A time has come.
    Tick,
    Retire,
    Stop,
}

impl McpSession {
    pub(super) fn new(
        alias: Alias,
        server: Arc<ServerSettings>,
        shared: Arc<SharedCell>,
        mailbox: mpsc::Receiver<SessionCommand>,
        ends: SessionEnd,
        kept: SessionView,
    ) -> Self {
        let identity = shared.identity(&server.endpoint);
        let remembered = shared.recall(&server.endpoint, &identity);
        let remembered = remembered.chosen(&server.tools);
        let state = match &server.off {
            Some(why) => ServerPhase::Off(why.clone()),
            None => ServerPhase::Connecting,
        };
        let offered = match server.off {
            None => remembered.tools.clone(),
            Some(_) => Arc::default(),
        };
        let status = ServerEntry {
            alias: alias.clone(),
            endpoint: server.endpoint.display(),
            kind: server.endpoint.kind(),
            contain: server.endpoint.contain(),
            identity,
            state,
            since: clock::now(),
            about: remembered.about.clone(),
            tools: offered,
            left_out: Arc::default(),
            remarks: Arc::default(),
            connect_ms: None,
            revision: server.revision,
        };
        Self {
            alias,
            server,
            shared,
            mailbox,
            ends,
            retiring: false,
            phase: SessionPhase::Down { retry_at: None },
            status,
            tasks: JoinSet::new(),
            waiting: VecDeque::new(),
            refreshing: vec![],
            backoff: Backoff::default(),
            pace: ListingPace::default(),
            keeping: RememberSchedule::of(&remembered),
            reported: None,
            next_id: 1,
            log: kept.log,
            fresh: kept.fresh,
            holds: kept.listed,
            leaving: vec![],
            forgotten: CancellationToken::new(),
            guess: None,
            need: None,
        }
    }

    /// Lives until it is stopped; its children and streams end with it.
    pub(super) async fn run(&mut self) {
        if self.server.off.is_none() && matches!(self.phase, SessionPhase::Down { .. }) {
            self.connect();
        }
        loop {
            match self.select().await {
                SessionAction::Command(command) => self.commanded(command).await,
                SessionAction::Done(done) => self.done(done).await,
                SessionAction::Inbound(Some(InboundMessage::Request {
                    id,
                    method,
                    params,
                    call,
                    answering,
                })) => self.requested(id, method, params, call, answering),
                SessionAction::Inbound(Some(InboundMessage::Closed(failure))) => {
                    self.fell(failure).await;
                }
                SessionAction::Inbound(None) => {
                    self.fell(WireFailure::Cut("it ended".to_owned())).await;
                }
                SessionAction::Changed => self.changed(),
                SessionAction::Tick => self.tick(),
                SessionAction::Retire => self.retiring = true,
                SessionAction::Stop => break,
            }
            if self.retiring && self.tasks.is_empty() {
                break;
            }
        }
        let ended = WireFailure::NotConnected("it was disconnected".to_owned());
        self.down(&ended).await;
        // What nobody has looked at was not begun.
        self.mailbox.close();
        while let Ok(command) = self.mailbox.try_recv() {
            match command {
                SessionCommand::Ask(work) => work.answer(&self.alias, Err(ended.clone().into())),
                SessionCommand::Refresh(told) | SessionCommand::Restart(told) => {
                    let _gone = told.send(Err(ended.clone()));
                }
            }
        }
        self.keep(/*at_once*/ true);
        for live in std::mem::take(&mut self.leaving) {
            live.end().await;
        }
        // What else is being ended is waited for, and whatever else still runs is not.
        self.tasks.shutdown().await;
    }

    /// A bug in here must not leave a server that looks alive.
    pub(super) async fn broke(&mut self) {
        let failure = WireFailure::NotConnected("its session failed inside aishd".to_owned());
        self.fell(failure).await;
    }

    async fn select(&mut self) -> SessionAction {
        let wake = self.wake();
        let timer = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let from_server = async {
            match &mut self.phase {
                SessionPhase::Up(up) => {
                    tokio::select! {
                        inbound = up.inbound.recv() => SessionAction::Inbound(inbound),
                        Ok(()) = up.changes.changed() => SessionAction::Changed,
                    }
                }
                SessionPhase::Down { .. } | SessionPhase::Connecting(_) => {
                    std::future::pending().await
                }
            }
        };
        tokio::select! {
            biased;
            () = self.ends.stop.cancelled() => SessionAction::Stop,
            () = self.ends.retire.cancelled(), if !self.retiring => SessionAction::Retire,
            Some(done) = self.tasks.join_next() => match done {
                Ok(done) => SessionAction::Done(done),
                Err(error) if error.is_cancelled() => SessionAction::Done(SessionDone::Told),
                Err(error) => {
                    tracing::error!(mcp = %self.alias, %error, "a task of a session failed");
                    SessionAction::Done(SessionDone::Told)
                }
            },
            action = from_server => action,
            command = self.mailbox.recv() => command.map_or(SessionAction::Stop, SessionAction::Command),
            () = timer => SessionAction::Tick,
        }
    }

    /// The next moment at which something is due.
    fn wake(&self) -> Option<Instant> {
        let phase = match &self.phase {
            SessionPhase::Down { retry_at } => *retry_at,
            SessionPhase::Connecting(_) => None,
            SessionPhase::Up(up) => up.list_again_at,
        };
        let waiting = self.waiting.iter().map(|it| it.wait_until).min();
        let due = [phase, waiting, self.keeping.due()];
        due.into_iter().flatten().min()
    }

    fn tick(&mut self) {
        let now = Instant::now();
        let connecting = WireFailure::NotConnected("it is still connecting".to_owned());
        for work in std::mem::take(&mut self.waiting) {
            if work.wait_until <= now {
                work.answer(&self.alias, Err(connecting.clone().into()));
            } else {
                self.waiting.push_back(work);
            }
        }
        self.keep(/*at_once*/ false);
        match &mut self.phase {
            SessionPhase::Down { retry_at } if retry_at.is_some_and(|it| it <= now) => {
                self.connect();
            }
            SessionPhase::Up(up) if up.list_again_at.is_some_and(|it| it <= now) => {
                up.list_again_at = None;
                self.list();
            }
            SessionPhase::Down { .. } | SessionPhase::Connecting(_) | SessionPhase::Up(_) => {}
        }
    }

    async fn commanded(&mut self, command: SessionCommand) {
        match command {
            SessionCommand::Ask(work) if work.is_unwanted() => {}
            SessionCommand::Ask(work) => self.asked(*work),
            SessionCommand::Refresh(told) => match &self.phase {
                SessionPhase::Up(_) => {
                    self.refreshing.push(told);
                    self.list();
                }
                SessionPhase::Connecting(_) => self.refreshing.push(told),
                SessionPhase::Down { .. } => self.restart(told),
            },
            SessionCommand::Restart(told) => {
                self.down(&WireFailure::NotConnected("it was restarted".to_owned()))
                    .await;
                self.restart(told);
            }
        }
    }

    fn asked(&mut self, work: RequestedWork) {
        let Some(work) = work.for_server(&self.status) else {
            return;
        };
        match &self.phase {
            SessionPhase::Up(_) => self.ask(work),
            SessionPhase::Connecting(_) if self.waiting.len() < WAITING => {
                self.waiting.push_back(work);
            }
            SessionPhase::Connecting(_) => {
                let full = "too many calls wait for it".to_owned();
                work.answer(&self.alias, Err(WireFailure::NotConnected(full).into()));
            }
            SessionPhase::Down { retry_at } => {
                // On demand, and yet never in a tight loop: not right after it failed.
                let http = matches!(self.server.endpoint, ServerEndpoint::Http(_));
                let may = retry_at.is_some() || self.somebody_signed_in();
                if http && may && self.backoff.may_try() {
                    self.waiting.push_back(work);
                    self.connect();
                } else {
                    let why = match &self.need {
                        Some((need, _)) => WireFailure::SignIn(need.clone()),
                        None => WireFailure::NotConnected(self.why()),
                    };
                    work.answer(&self.alias, Err(why.into()));
                }
            }
        }
    }

    fn restart(&mut self, told: oneshot::Sender<Result<(), WireFailure>>) {
        if let Some(why) = &self.server.off {
            let _gone = told.send(Err(WireFailure::NotConnected(why.clone())));
            return;
        }
        self.backoff = Backoff::default();
        self.refreshing.push(told);
        if !matches!(self.phase, SessionPhase::Connecting(_)) {
            self.connect();
        }
    }

    fn why(&self) -> String {
        match &self.status.state {
            ServerPhase::Off(why)
            | ServerPhase::Failed { why, .. }
            | ServerPhase::NeedsSignIn { why, .. } => why.clone(),
            ServerPhase::Connecting | ServerPhase::Ready => "it is connecting".to_owned(),
        }
    }

    /// Whether anybody has since a person was needed, wherever.
    fn somebody_signed_in(&self) -> bool {
        let bearer = self.shared.bearer(&self.server.endpoint);
        let now = bearer.map(|it| it.sign_ins());
        self.need
            .as_ref()
            .is_some_and(|(_, then)| now != Some(*then))
    }

    fn ask(&mut self, work: RequestedWork) {
        let SessionPhase::Up(up) = &self.phase else {
            return;
        };
        // The one door of all calls: those that come at once, that waited for a session, and that are sent again.
        let work = work.for_server(&self.status);
        let Some(mut work) = work.and_then(|it| it.still_approved(&self.status)) else {
            return;
        };
        let longest = self.shared.limits().longest_task;
        work.as_task(&up.live.peer, up.live.about.offers, longest);
        let (peer, shared) = (up.live.peer.clone(), self.shared.clone());
        let (alias, session, in_flight) = (self.alias.clone(), self.next_id, up.in_flight.clone());
        self.tasks.spawn(async move {
            let people = PeopleLink::of(&work.ears);
            let respondent = shared.respondent(&alias, peer.abilities, people);
            let performed = request_task::perform(&peer, respondent, work).await;
            drop(in_flight);
            match performed {
                PerformedWork::Answered => SessionDone::Asked(None),
                PerformedWork::Again(work, why) => SessionDone::Asked(Some((work, why, session))),
                PerformedWork::SignedOut(need) => SessionDone::SignedOut(need, session),
            }
        });
    }

    /// Answers a server's own request beside everything else.
    fn requested(
        &mut self,
        id: Value,
        method: String,
        params: Value,
        call: Option<u64>,
        answering: AnsweringRequest,
    ) {
        let SessionPhase::Up(up) = &self.phase else {
            return;
        };
        let (peer, shared, alias) = (
            up.live.peer.clone(),
            self.shared.clone(),
            self.alias.clone(),
        );
        let people = call.and_then(|it| peer.inbox.people(it));
        self.tasks.spawn(async move {
            if answering.room == RequestRoom::None {
                let full = Err((INTERNAL_ERROR, "too many requests at once".to_owned()));
                peer.respond(&id, full).await;
                return SessionDone::Told;
            }
            let respondent = shared.respondent(&alias, peer.abilities, people);
            let answer = respondent.answer(&method, params);
            // It wants no answer to what it has taken back.
            let answer = answering.taken_back.run_until_cancelled(answer).await;
            if let Some(answer) = answer {
                peer.respond(&id, answer).await;
            }
            SessionDone::Told
        });
    }

    async fn done(&mut self, done: SessionDone) {
        match done {
            SessionDone::Told | SessionDone::Asked(None) => {}
            SessionDone::SignedOut(need, session)
                if session == self.next_id && matches!(self.phase, SessionPhase::Up(_)) =>
            {
                self.fell(WireFailure::SignIn(need)).await;
            }
            SessionDone::SignedOut(..) => {}
            SessionDone::Asked(Some((mut work, why, session))) => {
                work.repeated = true;
                work.wait_until = Instant::now() + self.shared.limits().connect * 2;
                match &self.phase {
                    // Another call has found out before, and there is a new one.
                    SessionPhase::Up(_) if session != self.next_id => self.ask(*work),
                    SessionPhase::Up(_) => {
                        tracing::info!(mcp = %self.alias, why, "the server forgot our session");
                        self.waiting.push_back(*work);
                        self.was_forgotten();
                        self.connect();
                    }
                    SessionPhase::Connecting(_) => self.waiting.push_back(*work),
                    SessionPhase::Down { .. } => {
                        let failure = WireFailure::SessionLost(why);
                        work.answer(&self.alias, Err(failure.into()));
                    }
                }
            }
            SessionDone::Connected(result) => match *result {
                Ok(up) => self.came_up(up),
                Err(failure) => self.fell(failure).await,
            },
            SessionDone::Listed(session, result) if session == self.next_id => {
                self.on_listed(result);
            }
            SessionDone::Listed(..) => {}
        }
    }

    pub(super) fn publish(&self) {
        if !self.ends.retire.is_cancelled() {
            self.shared.publish(&self.status);
        }
    }
}
