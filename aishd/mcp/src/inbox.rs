//! Where everything arrives that a server says: answers find their questions here, progress its call, and the rest the
//! session's actor.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aishd_mcp_messages::bounded_text::{cut, one_line};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::elicitation::PeopleLink;
use super::error::{ExchangeError, WireFailure};
use super::message::{ResponseId, ServerMessage};
use super::resource_cache::ResourceCache;
use super::server_requests::{AnsweringRequest, ServerRequests};
use super::stderr_ring::StderrRing;

/// Of a server, in each second.
const NOTIFICATIONS: u32 = 100;
/// Ids of questions that nobody waits for any more; a late answer to one of them is no mistake.
const ABANDONED: usize = 256;
const MAX_NOTE_CHARS: usize = 2000;

/// Something about a call that runs; shown, never kept.
#[derive(Clone, Debug, PartialEq)]
pub enum CallNote {
    Progress {
        progress: f64,
        total: Option<f64>,
        message: Option<String>,
    },
    /// What a task says of itself, which has no number.
    Status { message: String },
    Log {
        level: String,
        logger: Option<String>,
        text: String,
    },
}

/// What the actor has to deal with.
#[derive(Debug)]
pub(super) enum InboundMessage {
    Request {
        id: Value,
        method: String,
        params: Value,
        /// The call that it belongs to, if one can be told.
        call: Option<u64>,
        /// Held while it is answered.
        answering: AnsweringRequest,
    },
    /// Nothing more will come.
    Closed(WireFailure),
}

/// Where a message came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageOrigin {
    /// The answer to this question's POST.
    Post(u64),
    /// A stream beside all questions, which may carry answers too.
    Stream,
    /// The one pipe of a child.
    Pipe,
}

#[derive(Debug)]
pub(super) struct Inbox {
    /// Numbers go on over reconnects, so that no late answer fits a new question.
    next_id: AtomicU64,
    asked: Mutex<AskedRequest>,
    rate: Mutex<NotificationRate>,
    to_actor: mpsc::Sender<InboundMessage>,
    /// How often the tools were said to have changed.
    tools_changed: watch::Sender<u64>,
    fresh: ResourceCache,
    /// What the server says of itself, beside its standard error where it has one.
    log: StderrRing,
    theirs: ServerRequests,
}

#[derive(Debug, Default)]
struct AskedRequest {
    waiting: HashMap<u64, ReplyWaiter>,
    abandoned: VecDeque<u64>,
}

#[derive(Debug)]
struct ReplyWaiter {
    reply: oneshot::Sender<Result<Value, ExchangeError>>,
    hears: CallHearer,
    purpose: QuestionPurpose,
}

/// Who hears of a call while it runs.
#[derive(Debug, Default)]
pub(super) struct CallHearer {
    pub(super) notes: Option<mpsc::Sender<CallNote>>,
    pub(super) people: Option<PeopleLink>,
}

/// What a question is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum QuestionPurpose {
    /// A call of a tool or the like, which a server's own requests can belong to.
    Call,
    /// Handshakes and lists.
    Upkeep,
    /// It stays open for what the server has to tell.
    Listen,
}

/// A question that was asked; dropped, nobody waits for its answer any more.
#[derive(Debug)]
pub(super) struct WaitingReply {
    pub(super) id: u64,
    pub(super) reply: oneshot::Receiver<Result<Value, ExchangeError>>,
    inbox: Arc<Inbox>,
}

impl Drop for WaitingReply {
    fn drop(&mut self) {
        let mut asked = self.inbox.asked.lock();
        if asked.waiting.remove(&self.id).is_some() {
            asked.abandoned.push_back(self.id);
            if asked.abandoned.len() > ABANDONED {
                asked.abandoned.pop_front();
            }
        }
    }
}

#[derive(Debug)]
struct NotificationRate {
    second: Instant,
    seen: u32,
    dropped: u64,
}

impl Inbox {
    pub(super) fn new(
        first_id: u64,
        to_actor: mpsc::Sender<InboundMessage>,
        tools_changed: watch::Sender<u64>,
        (fresh, log): (ResourceCache, StderrRing),
    ) -> Arc<Self> {
        let rate = NotificationRate {
            second: Instant::now(),
            seen: 0,
            dropped: 0,
        };
        Arc::new(Self {
            next_id: AtomicU64::new(first_id),
            asked: Mutex::default(),
            rate: Mutex::new(rate),
            to_actor,
            tools_changed,
            fresh,
            log,
            theirs: ServerRequests::default(),
        })
    }

    /// Who can answer what is asked during a call.
    pub(super) fn people(&self, call: u64) -> Option<PeopleLink> {
        let asked = self.asked.lock();
        asked.waiting.get(&call)?.hears.people.clone()
    }

    /// What was read of resources.
    pub(super) fn fresh(&self) -> &ResourceCache {
        &self.fresh
    }

    /// A new question.
    pub(super) fn ask(
        self: &Arc<Self>,
        purpose: QuestionPurpose,
        hears: CallHearer,
    ) -> WaitingReply {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (sender, reply) = oneshot::channel();
        let waiter = ReplyWaiter {
            reply: sender,
            hears,
            purpose,
        };
        self.asked.lock().waiting.insert(id, waiter);
        WaitingReply {
            id,
            reply,
            inbox: self.clone(),
        }
    }

    /// Whether the question has no answer yet.
    pub(super) fn is_waiting(&self, id: u64) -> bool {
        self.asked.lock().waiting.contains_key(&id)
    }

    pub(super) fn end(&self, id: u64, result: Result<Value, ExchangeError>) {
        if let Some(waiter) = self.asked.lock().waiting.remove(&id) {
            // Who asked may have left.
            let _gone = waiter.reply.send(result);
        }
    }

    /// Every question ends so, and the actor is told.
    pub(super) async fn close(&self, failure: WireFailure) {
        let waiting = std::mem::take(&mut self.asked.lock().waiting);
        for waiter in waiting.into_values() {
            let _gone = waiter.reply.send(Err(failure.clone().into()));
        }
        let _gone = self.to_actor.send(InboundMessage::Closed(failure)).await;
    }

    /// Waits while the actor has enough to do; a flood of notifications is thinned out instead.
    pub(super) async fn take(&self, message: ServerMessage, origin: MessageOrigin) {
        match message {
            ServerMessage::Response { id, body } => {
                self.answer(id, body.map_err(ExchangeError::Rpc), origin);
            }
            ServerMessage::Request { id, method, params } => {
                let Some(answering) = self.theirs.begin(&id) else {
                    tracing::trace!("a request of a server is dropped: it asks too much at once");
                    return;
                };
                let request = InboundMessage::Request {
                    answering,
                    id,
                    method,
                    params,
                    call: self.belongs_to(origin),
                };
                let _gone = self.to_actor.send(request).await;
            }
            ServerMessage::Notification { method, params } => {
                self.notified(&method, &params, origin);
            }
        }
    }

    fn answer(&self, id: ResponseId, body: Result<Value, ExchangeError>, origin: MessageOrigin) {
        let (known, abandoned) = match id {
            ResponseId::Ours(id) => {
                let asked = self.asked.lock();
                let known = asked.waiting.contains_key(&id).then_some(id);
                (known, asked.abandoned.contains(&id))
            }
            ResponseId::Foreign | ResponseId::Missing => (None, false),
        };
        if let Some(id) = known {
            self.end(id, body);
            return;
        }
        if abandoned {
            return;
        }
        // An answer with a wrong or missing id ends its call at once, where it can be told which that is.
        let call = match origin {
            MessageOrigin::Post(id) => Some(id),
            MessageOrigin::Pipe => self.only_one(),
            MessageOrigin::Stream => None,
        };
        let Some(call) = call else {
            tracing::debug!("an answer to no question");
            return;
        };
        let body = match (id, body) {
            (ResponseId::Missing, Err(error)) => Err(error),
            (ResponseId::Missing, Ok(_)) => unreadable("it has no id"),
            (ResponseId::Ours(_) | ResponseId::Foreign, _) => {
                unreadable("its id is that of no question")
            }
        };
        self.end(call, body);
    }

    fn only_one(&self) -> Option<u64> {
        let asked = self.asked.lock();
        let waiting = asked.waiting.iter();
        let mut waiting = waiting.filter(|(_, it)| it.purpose != QuestionPurpose::Listen);
        match (waiting.next(), waiting.next()) {
            (Some((only, _)), None) => Some(*only),
            (Some(_) | None, _) => None,
        }
    }

    /// The one question in flight on a pipe was answered with something unusable.
    pub(super) fn spoiled(&self, failure: WireFailure) {
        if let Some(id) = self.only_one() {
            self.end(id, Err(failure.into()));
        }
    }

    fn belongs_to(&self, origin: MessageOrigin) -> Option<u64> {
        if let MessageOrigin::Post(id) = origin {
            return Some(id);
        }
        let asked = self.asked.lock();
        let mut calls = asked
            .waiting
            .iter()
            .filter(|(_, it)| it.purpose == QuestionPurpose::Call);
        match (calls.next(), calls.next()) {
            (Some((only, _)), None) => Some(*only),
            (Some(_) | None, _) => None,
        }
    }

    fn notified(&self, method: &str, params: &Value, origin: MessageOrigin) {
        let too_many = !self.rate.lock().admits();
        match method {
            // Only told that it is so, however often, so a flood can lose none of them. Lists of resources and prompts are
            // not kept: who wants them asks.
            "notifications/resources/list_changed" => self.fresh.resources_changed(),
            "notifications/prompts/list_changed" => self.fresh.prompts_changed(),
            "notifications/tools/list_changed" => self.tools_changed.send_modify(|it| *it += 1),
            "notifications/resources/updated" => {
                if let Some(uri) = params.get("uri").and_then(Value::as_str) {
                    self.fresh.changed(uri);
                }
            }
            "notifications/subscriptions/acknowledged" => {
                let taken = params.get("notifications");
                let taken = taken.and_then(|it| it.get("resourceSubscriptions")?.as_array());
                let uris = taken.into_iter().flatten().filter_map(Value::as_str);
                self.fresh.is_told(uris);
            }
            // A form that nobody wants filled in any more must not stay before people.
            "notifications/cancelled" => {
                if let Some(id) = params.get("requestId") {
                    self.theirs.take_back(id);
                }
            }
            _ if too_many => {}
            "notifications/progress" => {
                let call = match params.get("progressToken") {
                    Some(Value::Number(number)) => number.as_u64(),
                    Some(Value::String(text)) => text.parse().ok(),
                    _other => None,
                };
                if let (Some(call), Some(progress)) = (call, number(params, "progress")) {
                    let message = params.get("message").and_then(Value::as_str);
                    let note = CallNote::Progress {
                        progress,
                        total: number(params, "total"),
                        message: message.map(|it| one_line(it, MAX_NOTE_CHARS)),
                    };
                    self.note(call, note);
                }
            }
            "notifications/message" => {
                let text = |name| params.get(name).and_then(Value::as_str);
                let data = params.get("data").unwrap_or(&Value::Null);
                let said = data
                    .as_str()
                    .map_or_else(|| data.to_string(), str::to_owned);
                let level = one_line(text("level").unwrap_or("info"), 20);
                let logger = text("logger").map(|it| one_line(it, 80));
                let from = logger.as_deref().unwrap_or("server");
                let line = one_line(&said, MAX_NOTE_CHARS);
                self.log.said(&format!("{level} {from}: {line}"));
                let note = CallNote::Log {
                    level,
                    logger,
                    text: cut(&said, MAX_NOTE_CHARS),
                };
                if let Some(call) = self.belongs_to(origin) {
                    self.note(call, note);
                }
            }
            other => tracing::trace!(method = other, "a notification that means nothing here"),
        }
    }

    /// A call whose reader is slow loses notes, never its answer.
    fn note(&self, call: u64, note: CallNote) {
        let asked = self.asked.lock();
        if let Some(notes) = asked
            .waiting
            .get(&call)
            .and_then(|it| it.hears.notes.as_ref())
        {
            let _slow = notes.try_send(note);
        }
    }
}

impl NotificationRate {
    fn admits(&mut self) -> bool {
        let now = Instant::now();
        if now.duration_since(self.second) >= Duration::from_secs(1) {
            if self.dropped > 0 {
                tracing::warn!(
                    dropped = self.dropped,
                    "a server sends too many notifications"
                );
            }
            (self.second, self.seen, self.dropped) = (now, 0, 0);
        }
        self.seen += 1;
        let admitted = self.seen <= NOTIFICATIONS;
        self.dropped += u64::from(!admitted);
        admitted
    }
}

fn unreadable(why: &str) -> Result<Value, ExchangeError> {
    Err(WireFailure::Unreadable(why.to_owned()).into())
}

fn number(params: &Value, name: &str) -> Option<f64> {
    params.get(name).and_then(Value::as_f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message;

    struct Desk {
        inbox: Arc<Inbox>,
        actor: mpsc::Receiver<InboundMessage>,
        changes: watch::Receiver<u64>,
    }

    fn desk() -> Desk {
        let (to_actor, actor) = mpsc::channel(8);
        let (sender, changes) = watch::channel(0);
        Desk {
            inbox: Inbox::new(1, to_actor, sender, Default::default()),
            actor,
            changes,
        }
    }

    async fn receive(inbox: &Inbox, origin: MessageOrigin, text: &str) {
        for message in message::read(text.as_bytes()).unwrap() {
            inbox.take(message, origin).await;
        }
    }

    /// Two questions are in flight on a POST each; what is the first one's end after the text?
    async fn check(origin: MessageOrigin, questions: usize, text: &str, expected: &str) {
        let desk = desk();
        let mut waiting: Vec<_> = (0..questions)
            .map(|_| desk.inbox.ask(QuestionPurpose::Call, CallHearer::default()))
            .collect();
        receive(&desk.inbox, origin, text).await;
        let seen = match waiting[0].reply.try_recv() {
            Ok(Ok(result)) => result.to_string(),
            Ok(Err(ExchangeError::Rpc(error))) => format!("error {}", error.message),
            Ok(Err(ExchangeError::Failure(failure))) => failure.to_string(),
            Ok(Err(ExchangeError::TimedOut | ExchangeError::Cancelled)) => "?".to_owned(),
            Err(_nothing) => "waits".to_owned(),
        };
        assert_eq!(expected, seen, "{origin:?} {text}");
    }

    #[tokio::test]
    async fn a_wrong_or_missing_id_ends_the_call_that_it_must_be_meant_for() {
        let right = r#"{"id":1,"result":7}"#;
        let wrong = r#"{"id":9,"result":7}"#;
        let missing = r#"{"result":7}"#;
        let error = r#"{"id":null,"error":{"code":1,"message":"no"}}"#;
        for origin in [
            MessageOrigin::Post(1),
            MessageOrigin::Stream,
            MessageOrigin::Pipe,
        ] {
            check(origin, 2, right, "7").await;
        }
        let id = "the answer is not understood: its id is that of no question";
        let none = "the answer is not understood: it has no id";
        check(MessageOrigin::Post(1), 2, wrong, id).await;
        check(MessageOrigin::Post(1), 2, missing, none).await;
        check(MessageOrigin::Post(1), 2, error, "error no").await;
        check(MessageOrigin::Pipe, 1, wrong, id).await;
        check(MessageOrigin::Pipe, 1, missing, none).await;
        check(MessageOrigin::Pipe, 1, error, "error no").await;
        check(MessageOrigin::Pipe, 2, wrong, "waits").await;
        check(MessageOrigin::Stream, 1, wrong, "waits").await;
    }

    #[tokio::test]
    async fn a_late_answer_harms_nobody() {
        let desk = desk();
        drop(desk.inbox.ask(QuestionPurpose::Call, CallHearer::default()));
        let mut second = desk.inbox.ask(QuestionPurpose::Call, CallHearer::default());
        receive(&desk.inbox, MessageOrigin::Pipe, r#"{"id":1,"result":1}"#).await;
        assert!(second.reply.try_recv().is_err());
        receive(&desk.inbox, MessageOrigin::Pipe, r#"{"id":2,"result":2}"#).await;
        assert_eq!(Ok(Ok(Value::from(2))), second.reply.try_recv());
    }

    #[tokio::test]
    async fn a_request_belongs_to_its_stream_or_to_the_only_call() {
        let mut desk = desk();
        let ping = r#"{"id":"x","method":"ping"}"#;
        let _list = desk
            .inbox
            .ask(QuestionPurpose::Upkeep, CallHearer::default());
        receive(&desk.inbox, MessageOrigin::Pipe, ping).await;
        let first = desk.inbox.ask(QuestionPurpose::Call, CallHearer::default());
        receive(&desk.inbox, MessageOrigin::Pipe, ping).await;
        let _second = desk.inbox.ask(QuestionPurpose::Call, CallHearer::default());
        receive(&desk.inbox, MessageOrigin::Stream, ping).await;
        receive(&desk.inbox, MessageOrigin::Post(first.id), ping).await;
        for expected in [None, Some(first.id), None, Some(first.id)] {
            match desk.actor.recv().await {
                Some(InboundMessage::Request { call, .. }) => assert_eq!(expected, call),
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_thinned_and_no_change_is_lost() {
        let desk = desk();
        let (sender, mut notes) = mpsc::channel(1000);
        let hears = CallHearer {
            notes: Some(sender),
            people: None,
        };
        let call = desk.inbox.ask(QuestionPurpose::Call, hears);
        let progress =
            r#"{"method":"notifications/progress","params":{"progressToken":1,"progress":3}}"#;
        for _ in 0..500 {
            receive(&desk.inbox, MessageOrigin::Pipe, progress).await;
        }
        let changed = r#"{"method":"notifications/tools/list_changed"}"#;
        receive(&desk.inbox, MessageOrigin::Pipe, changed).await;
        assert_eq!(1, *desk.changes.borrow());
        assert_eq!(100, notes.len());
        tokio::time::advance(Duration::from_secs(1)).await;
        receive(&desk.inbox, MessageOrigin::Pipe, progress).await;
        assert_eq!(101, notes.len());
        let first = notes.recv().await;
        assert!(matches!(first, Some(CallNote::Progress { progress, .. }) if progress == 3.0));
        drop(call);
    }
}
