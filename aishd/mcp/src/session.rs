//! One actor for each server (architecture, decision 2). `select` picks what is next and may be dropped; `apply` runs to
//! its end and waits for nobody: whatever takes time is a task of the actor.

mod listing;
mod phases;

use serde_json::Value;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::listing::Pace;
use self::phases::{Phase, Up};
use super::backoff::Backoff;
use super::elicit::People;
use super::era::Era;
use super::error::Failure;
use super::fresh::{Fresh, Holds};
use super::inbox::Inbound;
use super::lifecycle::Live;
use super::message::INTERNAL_ERROR;
use super::remembered::Keeping;
use super::ring::Ring;
use super::shared::Shared;
use super::theirs::{Answering, Room};
use super::work::{self, Work};
use aishd_log::tool_name::Alias;
use aishd_mcp_messages::server::{ServerStatus, State};
use aishd_mcp_messages::settings::{Endpoint, Server};
use aishd_mcp_messages::tool::Listed;
use aishd_platform::clock;

/// Requests of a server that wait for the actor; a server that sends more is not read until some are answered.
const INBOUND: usize = 64;
/// Calls that wait for a session that is connecting.
const WAITING: usize = 64;

/// What others want of the actor.
#[derive(Debug)]
pub(super) enum Command {
    Ask(Work),
    /// Lists the tools again; connects first where there is no session.
    Refresh(oneshot::Sender<Result<(), Failure>>),
    /// Ends the session and begins another at once.
    Restart(oneshot::Sender<Result<(), Failure>>),
}

/// What others read of a session.
#[derive(Clone, Debug, Default)]
pub(super) struct Kept {
    /// The last words of a child.
    pub(super) log: Ring,
    /// What was read of resources.
    pub(super) fresh: Fresh,
    /// How long the list of tools is to be believed.
    pub(super) listed: Holds,
}

/// How a session is told that it is not wanted any more.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// At once, calls in flight included.
    pub(super) stop: CancellationToken,
    /// When what was begun is done.
    pub(super) retire: CancellationToken,
}

pub(super) struct Session {
    alias: Alias,
    server: Arc<Server>,
    shared: Arc<Shared>,
    mailbox: mpsc::Receiver<Command>,
    ends: Ends,
    /// Another session has its place; it finishes what was begun.
    retiring: bool,
    phase: Phase,
    status: ServerStatus,
    tasks: JoinSet<Done>,
    /// Calls for the session that is being made.
    waiting: VecDeque<Work>,
    /// Who wants to know when the tools were listed.
    refreshing: Vec<oneshot::Sender<Result<(), Failure>>>,
    backoff: Backoff,
    pace: Pace,
    keeping: Keeping,
    /// Told once; the same failure again is no news.
    reported: Option<String>,
    next_id: u64,
    log: Ring,
    fresh: Fresh,
    holds: Holds,
    /// Sessions that are being ended; another is begun behind them.
    leaving: Vec<Live>,
    /// Ends what is still in flight on sessions that their server forgot.
    forgotten: CancellationToken,
    /// A child that died of a question from 2026 is not asked it at its next start.
    guess: Option<Era>,
}

/// What ended by itself.
enum Done {
    Connected(Box<Result<Up, Failure>>),
    /// A call; what has to be done again comes back, with the reason and the session that was lost.
    Asked(Option<(Work, String, u64)>),
    /// With the session that was asked.
    Listed(u64, Result<Listed, Failure>),
    Told,
}

/// What the actor does next.
enum Action {
    Command(Command),
    Done(Done),
    Inbound(Option<Inbound>),
    Changed,
    /// A time has come.
    Tick,
    Retire,
    Stop,
}

impl Session {
    pub(super) fn new(
        alias: Alias,
        server: Arc<Server>,
        shared: Arc<Shared>,
        mailbox: mpsc::Receiver<Command>,
        ends: Ends,
        kept: Kept,
    ) -> Self {
        let identity = shared.identity(&server.endpoint);
        let remembered = shared.recall(&server.endpoint, &identity);
        let state = match &server.off {
            Some(why) => State::Off(why.clone()),
            None => State::Connecting,
        };
        let offered = match server.off {
            None => remembered.tools.clone(),
            Some(_) => Arc::default(),
        };
        let status = ServerStatus {
            alias: alias.clone(),
            endpoint: server.endpoint.shown(),
            kind: server.endpoint.kind(),
            identity,
            state,
            since: clock::now(),
            about: remembered.about.clone(),
            tools: offered,
            remarks: Arc::default(),
            connect_ms: None,
        };
        Self {
            alias,
            server,
            shared,
            mailbox,
            ends,
            retiring: false,
            phase: Phase::Down { retry_at: None },
            status,
            tasks: JoinSet::new(),
            waiting: VecDeque::new(),
            refreshing: vec![],
            backoff: Backoff::default(),
            pace: Pace::default(),
            keeping: Keeping::of(&remembered),
            reported: None,
            next_id: 1,
            log: kept.log,
            fresh: kept.fresh,
            holds: kept.listed,
            leaving: vec![],
            forgotten: CancellationToken::new(),
            guess: None,
        }
    }

    /// Lives until it is stopped; its children and streams end with it.
    pub(super) async fn run(&mut self) {
        if self.server.off.is_none() && matches!(self.phase, Phase::Down { .. }) {
            self.connect();
        }
        loop {
            match self.select().await {
                Action::Command(command) => self.commanded(command).await,
                Action::Done(done) => self.done(done).await,
                Action::Inbound(Some(Inbound::Request {
                    id,
                    method,
                    params,
                    call,
                    answering,
                })) => self.requested(id, method, params, call, answering),
                Action::Inbound(Some(Inbound::Closed(failure))) => self.fell(failure).await,
                Action::Inbound(None) => self.fell(Failure::Cut("it ended".to_owned())).await,
                Action::Changed => self.changed(),
                Action::Tick => self.tick(),
                Action::Retire => self.retiring = true,
                Action::Stop => break,
            }
            if self.retiring && self.tasks.is_empty() {
                break;
            }
        }
        let ended = Failure::NotConnected("it was disconnected".to_owned());
        self.down(&ended).await;
        // What nobody has looked at was not begun.
        self.mailbox.close();
        while let Ok(command) = self.mailbox.try_recv() {
            match command {
                Command::Ask(work) => work.answer(&self.alias, Err(ended.clone().into())),
                Command::Refresh(told) | Command::Restart(told) => {
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
        let failure = Failure::NotConnected("its session failed inside aishd".to_owned());
        self.fell(failure).await;
    }

    async fn select(&mut self) -> Action {
        let wake = self.wake();
        let timer = async {
            match wake {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let from_server = async {
            match &mut self.phase {
                Phase::Up(up) => {
                    tokio::select! {
                        inbound = up.inbound.recv() => Action::Inbound(inbound),
                        Ok(()) = up.changes.changed() => Action::Changed,
                    }
                }
                Phase::Down { .. } | Phase::Connecting(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.ends.stop.cancelled() => Action::Stop,
            () = self.ends.retire.cancelled(), if !self.retiring => Action::Retire,
            Some(done) = self.tasks.join_next() => match done {
                Ok(done) => Action::Done(done),
                Err(error) if error.is_cancelled() => Action::Done(Done::Told),
                Err(error) => {
                    tracing::error!(mcp = %self.alias, %error, "a task of a session failed");
                    Action::Done(Done::Told)
                }
            },
            action = from_server => action,
            command = self.mailbox.recv() => command.map_or(Action::Stop, Action::Command),
            () = timer => Action::Tick,
        }
    }

    /// The next moment at which something is due.
    fn wake(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Down { retry_at } => *retry_at,
            Phase::Connecting(_) => None,
            Phase::Up(up) => up.list_again_at,
        };
        let waiting = self.waiting.iter().map(|it| it.wait_until).min();
        let due = [phase, waiting, self.keeping.due()];
        due.into_iter().flatten().min()
    }

    fn tick(&mut self) {
        let now = Instant::now();
        let connecting = Failure::NotConnected("it is still connecting".to_owned());
        for work in std::mem::take(&mut self.waiting) {
            if work.wait_until <= now {
                work.answer(&self.alias, Err(connecting.clone().into()));
            } else {
                self.waiting.push_back(work);
            }
        }
        self.keep(/*at_once*/ false);
        match &mut self.phase {
            Phase::Down { retry_at } if retry_at.is_some_and(|it| it <= now) => self.connect(),
            Phase::Up(up) if up.list_again_at.is_some_and(|it| it <= now) => {
                up.list_again_at = None;
                self.list();
            }
            Phase::Down { .. } | Phase::Connecting(_) | Phase::Up(_) => {}
        }
    }

    async fn commanded(&mut self, command: Command) {
        match command {
            Command::Ask(work) if work.is_unwanted() => {}
            Command::Ask(work) => match &self.phase {
                Phase::Up(_) => self.ask(work),
                Phase::Connecting(_) if self.waiting.len() < WAITING => {
                    self.waiting.push_back(work);
                }
                Phase::Connecting(_) => {
                    let full = "too many calls wait for it".to_owned();
                    work.answer(&self.alias, Err(Failure::NotConnected(full).into()));
                }
                Phase::Down { retry_at } => {
                    // On demand, and yet never in a tight loop: not right after it failed.
                    let http = matches!(self.server.endpoint, Endpoint::Http(_));
                    if http && retry_at.is_some() && self.backoff.may_try() {
                        self.waiting.push_back(work);
                        self.connect();
                    } else {
                        let why = Failure::NotConnected(self.why());
                        work.answer(&self.alias, Err(why.into()));
                    }
                }
            },
            Command::Refresh(told) => match &self.phase {
                Phase::Up(_) => {
                    self.refreshing.push(told);
                    self.list();
                }
                Phase::Connecting(_) => self.refreshing.push(told),
                Phase::Down { .. } => self.again(told),
            },
            Command::Restart(told) => {
                self.down(&Failure::NotConnected("it was restarted".to_owned()))
                    .await;
                self.again(told);
            }
        }
    }

    fn again(&mut self, told: oneshot::Sender<Result<(), Failure>>) {
        if let Some(why) = &self.server.off {
            let _gone = told.send(Err(Failure::NotConnected(why.clone())));
            return;
        }
        self.backoff = Backoff::default();
        self.refreshing.push(told);
        if !matches!(self.phase, Phase::Connecting(_)) {
            self.connect();
        }
    }

    fn why(&self) -> String {
        match &self.status.state {
            State::Off(why) | State::Failed { why, .. } => why.clone(),
            State::Connecting | State::Ready => "it is connecting".to_owned(),
        }
    }

    fn ask(&mut self, work: Work) {
        let Phase::Up(up) = &self.phase else { return };
        // The one door of all calls: those that come at once, that waited for a session, and that are sent again.
        let Some(work) = work.still_approved(&self.status) else {
            return;
        };
        let (peer, shared) = (up.live.peer.clone(), self.shared.clone());
        let (alias, session, in_flight) = (self.alias.clone(), self.next_id, up.in_flight.clone());
        self.tasks.spawn(async move {
            let people = People::of(&work.ears);
            let respondent = shared.respondent(&alias, peer.abilities, people);
            let again = work::perform(&peer, respondent, work).await;
            drop(in_flight);
            Done::Asked(again.map(|(work, why)| (work, why, session)))
        });
    }

    /// Answers a server's own request beside everything else.
    fn requested(
        &mut self,
        id: Value,
        method: String,
        params: Value,
        call: Option<u64>,
        answering: Answering,
    ) {
        let Phase::Up(up) = &self.phase else { return };
        let (peer, shared, alias) = (
            up.live.peer.clone(),
            self.shared.clone(),
            self.alias.clone(),
        );
        let people = call.and_then(|it| peer.inbox.people(it));
        self.tasks.spawn(async move {
            if answering.room == Room::None {
                let full = Err((INTERNAL_ERROR, "too many requests at once".to_owned()));
                peer.respond(&id, full).await;
                return Done::Told;
            }
            let respondent = shared.respondent(&alias, peer.abilities, people);
            let answer = respondent.answer(&method, params);
            // It wants no answer to what it has taken back.
            let answer = answering.taken_back.run_until_cancelled(answer).await;
            if let Some(answer) = answer {
                peer.respond(&id, answer).await;
            }
            Done::Told
        });
    }

    async fn done(&mut self, done: Done) {
        match done {
            Done::Told | Done::Asked(None) => {}
            Done::Asked(Some((mut work, why, session))) => {
                work.repeated = true;
                work.wait_until = Instant::now() + self.shared.limits().connect * 2;
                match &self.phase {
                    // Another call has found out before, and there is a new one.
                    Phase::Up(_) if session != self.next_id => self.ask(work),
                    Phase::Up(_) => {
                        tracing::info!(mcp = %self.alias, why, "the server forgot our session");
                        self.waiting.push_back(work);
                        self.was_forgotten();
                        self.connect();
                    }
                    Phase::Connecting(_) => self.waiting.push_back(work),
                    Phase::Down { .. } => {
                        let failure = Failure::SessionLost(why);
                        work.answer(&self.alias, Err(failure.into()));
                    }
                }
            }
            Done::Connected(result) => match *result {
                Ok(up) => self.came_up(up),
                Err(failure) => self.fell(failure).await,
            },
            Done::Listed(session, result) if session == self.next_id => self.listed(result),
            Done::Listed(..) => {}
        }
    }

    pub(super) fn publish(&self) {
        if !self.ends.retire.is_cancelled() {
            self.shared.publish(&self.status);
        }
    }
}
