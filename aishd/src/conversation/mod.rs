//! One actor per conversation, the only writer of its log.
//!
//! `select` only picks what comes next and may be dropped; `apply` runs to its end. Every change goes the
//! same way: store the facts, then let everybody see them, then do the work (architecture, decision 5).

mod ask;
pub mod directory;
pub mod follow;
pub mod handle;
pub mod live;
mod perform;
pub mod record;
mod recover;
pub mod view;

use std::sync::Arc;
use std::time::Duration;

use aish_proto::id::{ClientId, ConversationId, Seq, TurnId};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::directory::Registration;
use self::handle::{Change, QueueChange, Request, RequestError, Stopper};
use self::live::Live;
use self::view::{LiveChange, Loading, Publisher};
use crate::broker::{Broker, Discovery};
use crate::clock;
use crate::core::event::{Event, Record, Stop};
use crate::core::preset::{Models, Preset};
use crate::core::request;
use crate::core::state::State;
use crate::core::transcript::Transcript;
use crate::core::turn::{Effect, Input, Step, StreamId, Turn};
use crate::failpoint;
use crate::store::{Commit, CommitError, Store};

/// Rounds of tool calls in one turn (`tools.max_depth`).
const MAX_TOOL_DEPTH: u32 = 8;

/// How long a commit that the store refused waits before it is tried again: first, and at most.
const RETRY_FIRST: Duration = Duration::from_millis(200);
const RETRY_LONGEST: Duration = Duration::from_secs(2);

/// What every actor is given.
#[derive(Clone, Debug)]
pub struct Surroundings {
    pub store: Store,
    pub broker: Broker,
    pub models: tokio::sync::watch::Receiver<Arc<Models>>,
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
    turn: Option<Active>,
    /// A turn whose preset is being looked for.
    resolving: Option<TurnId>,
    /// Facts that the store would not take; nothing else changes until it does.
    unstored: Option<Unstored>,
    mailbox: mpsc::Receiver<Request>,
    io: JoinSet<Done>,
    publisher: Publisher,
    stopper: Stopper,
    registration: Registration,
}

/// The running turn.
#[derive(Debug)]
struct Active {
    id: TurnId,
    machine: Turn,
    preset: Arc<Preset>,
    token: CancellationToken,
    /// Who cancelled it.
    stopped_by: Option<ClientId>,
}

/// A step that waits for the store.
#[derive(Debug)]
struct Unstored {
    step: Step,
    retry_in: Duration,
}

/// What a task of this conversation came to.
#[derive(Debug)]
enum Done {
    Turn(TurnId, Box<Input>),
    Resolved(TurnId, Box<Discovery>),
    /// A waiting turn that the store would not let start.
    StartAgain(TurnId),
}

/// What can wake the actor.
#[derive(Debug)]
enum Action {
    Request(Request),
    Done(Done),
    RetryCommit,
    /// Nobody has wanted anything for a while.
    Idle,
    Stop,
}

/// A fact before it has its place in the log.
#[derive(Debug)]
struct Fact {
    turn: Option<TurnId>,
    client: Option<ClientId>,
    event: Event,
}

impl Conversation {
    async fn run(mut self) {
        if !self.load().await {
            self.registration.remove();
            return;
        }
        self.start_next().await;
        loop {
            match self.select().await {
                Action::Request(Request::Delete(reply)) => {
                    self.abandon().await;
                    let result = self.around.store.delete(self.id).await;
                    self.registration.remove();
                    self.publisher.loaded(Loading::Missing, &State::default());
                    let _client_left = reply.send(result.map_err(RequestError::from));
                    return;
                }
                Action::Request(request) => self.apply_request(request).await,
                Action::Done(done) => self.apply_done(done).await,
                Action::RetryCommit => self.retry_commit().await,
                Action::Idle => {
                    if self.may_close() && self.registration.remove_if(|| self.mailbox.is_empty()) {
                        return;
                    }
                }
                Action::Stop => break,
            }
        }
        self.finish().await;
        self.registration.remove();
    }

    /// Waits for the next thing. Cancel-safe: nothing is taken and then lost.
    async fn select(&mut self) -> Action {
        let retry_in = self.unstored.as_ref().map(|it| it.retry_in);
        let idle_in = self.registration.idle_time();
        tokio::select! {
            biased;
            () = self.around.stopping.cancelled() => Action::Stop,
            () = tokio::time::sleep(retry_in.unwrap_or_default()), if retry_in.is_some() => Action::RetryCommit,
            Some(done) = self.io.join_next(), if !self.io.is_empty() && retry_in.is_none() => match done {
                Ok(done) => Action::Done(done),
                // Tasks catch their own panics, so this one was aborted with its turn.
                Err(_aborted) => Action::Idle,
            },
            request = self.mailbox.recv() => request.map_or(Action::Stop, Action::Request),
            () = tokio::time::sleep(idle_in), if self.may_close() => Action::Idle,
        }
    }

    fn may_close(&self) -> bool {
        self.turn.is_none()
            && self.resolving.is_none()
            && self.unstored.is_none()
            && self.publisher.is_unwatched()
    }

    async fn apply_request(&mut self, request: Request) {
        if let Some(why) = self
            .unstored
            .as_ref()
            .map(|_| "an earlier change still waits for the store")
        {
            request.refuse(RequestError::Storage(why.to_owned()));
            return;
        }
        match request {
            Request::Send(ask, reply) => {
                let result = self.accept(*ask).await;
                let _client_left = reply.send(result);
            }
            Request::Again(again, reply) => {
                let result = self.accept_again(*again).await;
                let _client_left = reply.send(result);
            }
            Request::Cancel {
                turn,
                client,
                reply,
            } => {
                let result = self.cancel(turn, client).await;
                let _client_left = reply.send(result);
            }
            Request::Change(change, client, reply) => {
                let result = self.change(change, client).await;
                let _client_left = reply.send(result);
            }
            Request::Queue(change, client, reply) => {
                let result = self.change_queue(change, client).await;
                let _client_left = reply.send(result);
            }
            Request::Delete(reply) => {
                let _handled_by_run = reply.send(Err(RequestError::Closed));
            }
        }
    }

    async fn apply_done(&mut self, done: Done) {
        match done {
            Done::Turn(turn, input) => {
                let input = match *input {
                    Input::ReplyFailed(stream, broken, _) => {
                        let evictable = self.transcript.as_ref().and_then(Transcript::evictable);
                        Input::ReplyFailed(stream, broken, evictable)
                    }
                    other @ (Input::ReplyFinished(..)
                    | Input::ReplyAbandoned(..)
                    | Input::WaitElapsed(_)
                    | Input::ToolReturned { .. }
                    | Input::Stopped(_)) => other,
                };
                let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) else {
                    return;
                };
                let step = active.machine.handle(input);
                self.take_step(step).await;
            }
            Done::Resolved(turn, discovery) => {
                if self.resolving == Some(turn) {
                    self.resolving = None;
                    self.resolved(turn, *discovery).await;
                }
            }
            Done::StartAgain(turn) => {
                if self.resolving == Some(turn) {
                    self.resolving = None;
                    Box::pin(self.start_next()).await;
                }
            }
        }
    }

    /// Stores what a step says, lets everybody see it, then does what it asks for.
    async fn take_step(&mut self, step: Step) {
        let Some(active) = &self.turn else { return };
        let (turn, ends) = (active.id, step.ends_turn());
        let opens = step
            .effects
            .iter()
            .any(|it| matches!(it, Effect::OpenStream(_)));
        let mut facts: Vec<Fact> = step
            .events
            .iter()
            .map(|event| Fact {
                turn: Some(turn),
                client: active
                    .stopped_by
                    .filter(|_| matches!(event, Event::TurnFinished { .. })),
                event: event.clone(),
            })
            .collect();
        if opens && !step.events.is_empty() {
            facts.extend(self.steering(turn));
        }
        let live = if step
            .events
            .iter()
            .any(|it| matches!(it, Event::AssistantMessage { .. }))
            || ends
        {
            LiveChange::End
        } else {
            LiveChange::Keep
        };
        if !facts.is_empty() {
            if ends {
                failpoint::pass("turn.before_commit");
            }
            if let Err(error) = self.commit(facts, live).await {
                tracing::error!(conversation = %self.id, %turn, %error, "a turn's result waits for the store");
                self.publisher.stuck(error.to_string());
                let retry_in = match self.unstored.take() {
                    Some(before) => (before.retry_in * 2).min(RETRY_LONGEST),
                    None => RETRY_FIRST,
                };
                self.unstored = Some(Unstored { step, retry_in });
                return;
            }
            if ends {
                failpoint::pass("turn.after_commit");
            }
        }
        self.unstored = None;
        for effect in step.effects {
            self.perform(effect).await;
        }
        if ends {
            self.turn = None;
            self.stopper.set(None);
            Box::pin(self.start_next()).await;
        }
    }

    async fn retry_commit(&mut self) {
        if let Some(unstored) = &mut self.unstored {
            let step = std::mem::take(&mut unstored.step);
            self.take_step(step).await;
        }
    }

    /// Makes facts durable, then visible. On an error nothing has changed.
    async fn commit(&mut self, facts: Vec<Fact>, live: LiveChange) -> Result<Seq, CommitError> {
        let (records, state) = self.number(facts);
        self.around
            .store
            .commit(Commit {
                conversation: self.id,
                records: records.clone(),
                state: state.clone(),
            })
            .await?;
        self.publish(records, state, live);
        Ok(self.state.last_seq)
    }

    /// Gives facts their places after the last one stored.
    fn number(&self, facts: Vec<Fact>) -> (Vec<Record>, State) {
        let at = clock::now();
        let mut state = self.state.clone();
        let mut records = Vec::with_capacity(facts.len());
        for fact in facts {
            let record = Record {
                seq: state.last_seq.next(),
                at,
                turn: fact.turn,
                client: fact.client,
                event: fact.event,
            };
            state.apply(&record);
            records.push(record);
        }
        (records, state)
    }

    fn publish(&mut self, records: Vec<Record>, state: State, live: LiveChange) {
        if let Some(transcript) = &mut self.transcript {
            for record in &records {
                transcript.apply(record);
            }
        }
        self.state = state;
        self.publisher.advance(records, &self.state, live);
    }

    async fn perform(&mut self, effect: Effect) {
        let Some(active) = &self.turn else { return };
        let (turn, token) = (active.id, active.token.clone());
        match effect {
            Effect::OpenStream(stream) => {
                if let Err(error) = self.load_transcript().await {
                    tracing::error!(conversation = %self.id, error, "the log cannot be read");
                }
                self.open_stream(stream);
            }
            Effect::Wait(stream, pause) => {
                self.io.spawn(async move {
                    Done::Turn(turn, Box::new(perform::wait(stream, pause, token).await))
                });
            }
            Effect::CallTool(call) => {
                self.io
                    .spawn(async move { Done::Turn(turn, Box::new(perform::call_unknown(&call))) });
            }
            Effect::Abandon => token.cancel(),
        }
    }

    /// Sends the transcript to the model; the text shows after the log as it stands.
    fn open_stream(&mut self, stream: StreamId) {
        let (Some(active), Some(transcript)) = (&self.turn, &self.transcript) else {
            return;
        };
        let live = Arc::new(Live::new(
            active.id,
            active.machine.item(),
            self.state.last_seq,
        ));
        let body = request::body(&active.preset, transcript);
        self.spawn_stream(stream, body, live.clone());
        self.publisher.begin_live(live);
    }

    fn spawn_stream(&mut self, stream: StreamId, body: String, live: Arc<Live>) {
        let Some(active) = &self.turn else { return };
        let turn = active.id;
        let request = perform::Request {
            conversation: self.id,
            stream,
            preset: active.preset.clone(),
            body,
            live,
            sender: self.publisher.live_sender(),
            broker: self.around.broker.clone(),
            store: self.around.store.clone(),
            token: active.token.clone(),
        };
        self.io.spawn(async move {
            Done::Turn(turn, Box::new(Box::pin(perform::stream(request)).await))
        });
    }

    async fn cancel(&mut self, turn: TurnId, client: ClientId) -> Result<bool, RequestError> {
        if let Some(active) = self.turn.as_mut().filter(|it| it.id == turn) {
            active.stopped_by.get_or_insert(client);
            let step = active.machine.handle(Input::Stopped(Stop::Cancelled));
            self.take_step(step).await;
            self.until_over(turn).await;
            return Ok(true);
        }
        if self.state.queue.iter().any(|it| it.turn == turn) {
            self.remove_queued(turn, client).await?;
            return Ok(true);
        }
        match self.around.store.find_turn(turn)? {
            Some(place) if place.conversation == self.id => Ok(false),
            Some(_) | None => Err(RequestError::UnknownTurn(turn)),
        }
    }

    /// Lets the stopped turn say what it still owes; its work was dropped, so this takes no time.
    async fn until_over(&mut self, turn: TurnId) {
        while self.turn.as_ref().is_some_and(|it| it.id == turn) && self.unstored.is_none() {
            match self.io.join_next().await {
                Some(Ok(done)) => Box::pin(self.apply_done(done)).await,
                Some(Err(_aborted)) => {}
                None => return,
            }
        }
    }

    async fn change(&mut self, change: Change, client: ClientId) -> Result<Seq, RequestError> {
        let event = match change {
            Change::Title(title) => Event::Renamed { title },
            Change::Model(model) => {
                if let Some(name) = &model {
                    self.check_model(name)?;
                }
                Event::ModelChanged { model }
            }
            Change::Archived(archived) => Event::ArchivedChanged { archived },
        };
        let fact = Fact {
            turn: None,
            client: Some(client),
            event,
        };
        Ok(self.commit(vec![fact], LiveChange::Keep).await?)
    }

    async fn change_queue(
        &mut self,
        change: QueueChange,
        client: ClientId,
    ) -> Result<(), RequestError> {
        match change {
            QueueChange::Remove(turn) => self.remove_queued(turn, client).await,
            QueueChange::Move(turn, position) => {
                let queued = self.state.queue.iter().find(|it| it.turn == turn);
                let steer = queued.ok_or(RequestError::UnknownTurn(turn))?.steer;
                let last = u32::try_from(self.state.queue.len()).unwrap_or(u32::MAX);
                let position = position.clamp(1, last);
                let fact = Fact {
                    turn: Some(turn),
                    client: Some(client),
                    event: Event::TurnQueued { position, steer },
                };
                self.commit(vec![fact], LiveChange::Keep).await?;
                Ok(())
            }
            QueueChange::Resume => {
                self.start_first().await;
                Ok(())
            }
        }
    }

    async fn remove_queued(&mut self, turn: TurnId, client: ClientId) -> Result<(), RequestError> {
        if !self.state.queue.iter().any(|it| it.turn == turn) {
            return Err(RequestError::UnknownTurn(turn));
        }
        let fact = Fact {
            turn: Some(turn),
            client: Some(client),
            event: finished(Stop::Cancelled),
        };
        self.commit(vec![fact], LiveChange::Keep).await?;
        if self.resolving == Some(turn) {
            self.resolving = None;
            self.start_next().await;
        }
        Ok(())
    }

    /// The daemon stops: what runs ends as interrupted, with what it has said.
    async fn finish(&mut self) {
        if let Some(active) = &mut self.turn {
            let turn = active.id;
            let step = active.machine.handle(Input::Stopped(Stop::Interrupted));
            self.take_step(step).await;
            self.until_over(turn).await;
        }
        self.io.shutdown().await;
    }

    /// Drops whatever runs, without a word in the log.
    async fn abandon(&mut self) {
        self.turn = None;
        self.resolving = None;
        self.stopper.set(None);
        self.io.shutdown().await;
    }
}

fn finished(stop: Stop) -> Event {
    Event::TurnFinished {
        stop,
        text: String::new(),
        usage: None,
        error: None,
        merged_into: None,
    }
}

impl Request {
    fn refuse(self, error: RequestError) {
        match self {
            Self::Send(_, reply) | Self::Again(_, reply) => drop(reply.send(Err(error))),
            Self::Cancel { reply, .. } => drop(reply.send(Err(error))),
            Self::Change(_, _, reply) => drop(reply.send(Err(error))),
            Self::Queue(_, _, reply) | Self::Delete(reply) => drop(reply.send(Err(error))),
        }
    }
}
