//! Asking a server: one question, its deadlines, its progress, and how it is called off.

use std::sync::Arc;
use std::time::Duration;

use aishd_mcp_messages::log_level::LogLevel;
use aishd_mcp_messages::mirrored_headers::encoded;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::call_clock::SessionClock;
use super::elicitation::PeopleLink;
use super::era::{self, ClientAbilities, Era};
use super::error::{ExchangeError, WireFailure};
use super::http::RequestFrame;
use super::inbox::{CallHearer, CallNote, Inbox, QuestionPurpose, WaitingReply};
use super::message;
use super::transport::ServerTransport;
use crate::call_clock::ReplyPatience;
use crate::call_listener::CallListener;

/// Notes of one call that wait for their reader.
const NOTES: usize = 64;
/// Saying that a question is called off is a courtesy.
const COURTESY: Duration = Duration::from_secs(2);

/// A server that can be asked.
#[derive(Clone, Debug)]
pub(super) struct ServerClient {
    pub(super) link: Arc<ServerTransport>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) era: Era,
    pub(super) abilities: ClientAbilities,
    /// How much it is to say.
    pub(super) log_level: LogLevel,
}

/// What is asked, and how long an answer may take.
#[derive(Debug)]
pub(super) struct PeerQuestion<'a> {
    pub(super) method: &'a str,
    pub(super) params: Map<String, Value>,
    /// What it is about, for the header of 2026-07-28: a tool, a prompt, a URI.
    pub(super) about: Option<&'a str>,
    /// Arguments that go into headers as well.
    pub(super) mirrored: &'a [(String, String)],
    pub(super) patience: ReplyPatience,
    pub(super) kind: PeerQuestionKind<'a>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum PeerQuestionKind<'a> {
    /// It reports progress and can be called off.
    Call(PeerCall<'a>),
    Upkeep,
    /// It has no answer until the server wants to end it, or we do.
    Listen(&'a CancellationToken),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PeerCall<'a> {
    pub(super) ears: &'a CallListener,
    pub(super) cancel: &'a CancellationToken,
}

/// Why a question got no answer, and the question, if the server has to be told that nobody waits any more.
#[derive(Debug)]
pub(super) struct UnansweredReason {
    pub(super) broken: ExchangeError,
    pub(super) abandoned: Option<AbandonedQuestion>,
}

/// A question that was called off.
#[derive(Clone, Debug)]
pub(super) struct AbandonedQuestion {
    id: u64,
    reason: &'static str,
}

impl ServerClient {
    /// Asks, and waits for the answer until a deadline or until it is called off.
    pub(super) async fn ask(&self, question: PeerQuestion<'_>) -> Result<Value, UnansweredReason> {
        let started = Instant::now();
        let (sender, mut notes) = mpsc::channel(NOTES);
        let call = match question.kind {
            PeerQuestionKind::Call(call) => Some(call),
            PeerQuestionKind::Upkeep | PeerQuestionKind::Listen(_) => None,
        };
        let over = match question.kind {
            PeerQuestionKind::Call(call) => Some(call.cancel),
            PeerQuestionKind::Listen(over) => Some(over),
            PeerQuestionKind::Upkeep => None,
        };
        let purpose = match question.kind {
            PeerQuestionKind::Call(_) => QuestionPurpose::Call,
            PeerQuestionKind::Upkeep => QuestionPurpose::Upkeep,
            PeerQuestionKind::Listen(_) => QuestionPurpose::Listen,
        };
        let people = call.and_then(|it| PeopleLink::of(it.ears));
        let mut asked_people = people.as_ref().map(PeopleLink::waiting);
        let hears = CallHearer {
            notes: call.map(|_| sender),
            people,
        };
        let mut waiting = self.inbox.ask(purpose, hears);
        let frame = self.frame(waiting.id, &question);
        let carry = self.link.carry(waiting.id, frame);
        tokio::pin!(carry);
        let mut carried = false;
        let mut clock = SessionClock::start(started, question.patience);
        let cancelled = async {
            match over {
                Some(over) => over.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::pin!(cancelled);
        loop {
            tokio::select! {
                biased;
                () = &mut cancelled => {
                    return Err(self.called_off(&waiting, ExchangeError::Cancelled, "cancelled"));
                }
                answer = &mut waiting.reply => {
                    let answer = answer.unwrap_or_else(|_closed| Err(session_gone()));
                    // What came before the answer is shown before it.
                    while let Ok(note) = notes.try_recv() {
                        pass_on(call, note);
                    }
                    return self.answered(answer);
                }
                end = &mut carry, if !carried => {
                    carried = true;
                    if let Err(broken) = end {
                        // The answer may have come on another stream just before.
                        let answer = waiting.reply.try_recv();
                        return self.answered(answer.unwrap_or(Err(broken)));
                    }
                }
                Some(note) = notes.recv() => {
                    if matches!(note, CallNote::Progress { .. }) {
                        clock.on_progress(Instant::now());
                    }
                    pass_on(call, note);
                }
                waiting = changed(&mut asked_people) => clock.people(waiting, Instant::now()),
                () = tokio::time::sleep_until(clock.end()), if !clock.is_paused() => {
                    return Err(self.called_off(&waiting, ExchangeError::TimedOut, "timed out"));
                }
            }
        }
    }

    /// Without what the server may have repeated of its secrets.
    fn answered(&self, answer: Result<Value, ExchangeError>) -> Result<Value, UnansweredReason> {
        let mut answer = answer.map_err(|it| self.unanswered(it))?;
        self.link.secrets().redact_answer(&mut answer);
        Ok(answer)
    }

    /// As [`ServerClient::answered`].
    fn unanswered(&self, broken: ExchangeError) -> UnansweredReason {
        let broken = match broken {
            ExchangeError::Rpc(mut error) => {
                error.message = self.link.secrets().redact(&error.message);
                ExchangeError::Rpc(error)
            }
            other @ (ExchangeError::Failure(_)
            | ExchangeError::TimedOut
            | ExchangeError::Cancelled) => other,
        };
        UnansweredReason {
            broken,
            abandoned: None,
        }
    }

    fn called_off(
        &self,
        waiting: &WaitingReply,
        broken: ExchangeError,
        reason: &'static str,
    ) -> UnansweredReason {
        // In 2026-07-28 over HTTP the closed stream says it.
        let silent = self.era == Era::Stateless && matches!(*self.link, ServerTransport::Http(_));
        UnansweredReason {
            broken,
            abandoned: (!silent).then_some(AbandonedQuestion {
                id: waiting.id,
                reason,
            }),
        }
    }

    /// Tells the server that nobody waits for an answer any more.
    pub(super) async fn call_off(&self, abandoned: AbandonedQuestion) {
        let AbandonedQuestion { id, reason } = abandoned;
        let params = json!({"requestId": id, "reason": reason});
        self.notify("notifications/cancelled", params).await;
    }

    /// Sends a notification, if that is possible soon.
    pub(super) async fn notify(&self, method: &str, params: Value) {
        let mut params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        if self.era == Era::Stateless {
            params.insert("_meta".to_owned(), era::meta(self.abilities).into());
        }
        self.send(message::notification(method, &params)).await;
    }

    /// Sends our answer to a request of the server's.
    pub(super) async fn respond(&self, id: &Value, body: Result<Value, (i64, String)>) {
        self.send(message::response(id, body)).await;
    }

    async fn send(&self, text: String) {
        let told = tokio::time::timeout(COURTESY, self.link.send_notification(text)).await;
        if !matches!(told, Ok(Ok(()))) {
            tracing::debug!(?told, "a message to a server was not taken");
        }
    }

    fn frame(&self, id: u64, question: &PeerQuestion<'_>) -> RequestFrame {
        let mut params = question.params.clone();
        let mut meta = match params.remove("_meta") {
            Some(Value::Object(meta)) => meta,
            _none => Map::new(),
        };
        if self.era == Era::Stateless {
            // Each request says what can be asked on its way. Lists say it too: a server may leave out of them
            // what could not be called.
            let (forms, models) = match question.kind {
                PeerQuestionKind::Call(call) => {
                    (call.ears.forms.is_some(), call.ears.models.is_some())
                }
                PeerQuestionKind::Upkeep | PeerQuestionKind::Listen(_) => (true, true),
            };
            let abilities = ClientAbilities {
                elicitation: self.abilities.elicitation && forms,
                sampling: self.abilities.sampling && models,
                ..self.abilities
            };
            meta.extend(era::meta(abilities));
        }
        if matches!(question.kind, PeerQuestionKind::Call(_)) {
            if self.era == Era::Stateless {
                meta.insert(era::LOG_LEVEL.to_owned(), json!(self.log_level.name()));
            }
            meta.insert("progressToken".to_owned(), json!(id));
        }
        if !meta.is_empty() {
            params.insert("_meta".to_owned(), Value::Object(meta));
        }
        RequestFrame {
            body: message::request(id, question.method, &params),
            headers: self.headers(question),
        }
    }

    fn headers(&self, question: &PeerQuestion<'_>) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if self.era != Era::Stateless {
            return headers;
        }
        let mut add = |name: &str, value: &str| {
            // Names were checked when the tool was listed, and values are encoded.
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::try_from(value))
            {
                headers.insert(name, value);
            }
        };
        add("mcp-method", question.method);
        if let Some(about) = question.about {
            add("mcp-name", &encoded(about));
        }
        for (name, value) in question.mirrored {
            add(&format!("mcp-param-{name}"), value);
        }
        headers
    }
}

fn pass_on(call: Option<PeerCall<'_>>, note: CallNote) {
    if let Some(notes) = call.and_then(|it| it.ears.notes.as_ref()) {
        // Who looks on too slowly misses some of it.
        let _slow = notes.try_send(note);
    }
}

/// How many questions wait for a person, when that changes.
async fn changed(waiting: &mut Option<watch::Receiver<usize>>) -> usize {
    if let Some(waiting) = waiting
        && waiting.changed().await.is_ok()
    {
        return *waiting.borrow_and_update();
    }
    std::future::pending().await
}

fn session_gone() -> ExchangeError {
    WireFailure::Cut("the session ended".to_owned()).into()
}
