//! Streamable HTTP: a POST for each message, answered with JSON or with a stream; a session id where the server gives
//! one; a stream taken up again where it was cut.

use std::sync::Arc;
use std::time::Duration;

use aishd_mcp_messages::bounded_text::one_line;
use futures_util::StreamExt as _;
use parking_lot::{Mutex, MutexGuard};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode};

use super::client::ServerAddress;
use super::era::{CAPABILITY_MISSING, HEADER_MISMATCH, STATELESS, VERSION_UNSUPPORTED};
use super::error::{ExchangeError, WireFailure};
use super::inbox::{Inbox, MessageOrigin};
use super::message::{self, METHOD_NOT_FOUND, RpcError, ServerMessage};
use super::secrets::ServerSecrets;
use super::sse::{ResumePoint, SseEvents};

const SESSION_ID: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";
const LAST_EVENT_ID: &str = "last-event-id";
/// A result is kept whole up to here.
pub(super) const MAX_BODY_BYTES: usize = 16 << 20;
/// What is read of an error's body.
const ERROR_BODY_BYTES: usize = 64 << 10;
const ERROR_BODY_LIMIT: Duration = Duration::from_secs(5);
const MAX_SAID_CHARS: usize = 300;
/// A pause before a cut stream is taken up again, when the server names none.
const RETRY: Duration = Duration::from_secs(1);
/// No server has a reason to be asked for the rest of a stream more often than that.
const SHORTEST_RETRY: Duration = Duration::from_millis(100);
/// Streams of one answer that may be cut without anything new in them.
const EMPTY_STREAMS: u32 = 5;
/// Those that may be cut one after another without a message in them, however new their events are.
const WORDLESS_STREAMS: u32 = 500;
/// What servers say with 400 who never had our session, or have it no more; they have done nothing then. Anything else
/// may be about a session of their own, and of a call that ran.
const NO_SESSION: [&str; 7] = [
    "no valid session id provided",
    "no valid session id",
    "missing session id",
    "invalid session id",
    "invalid or expired session id",
    "session not found",
    "session expired",
];
/// The longest session id; a longer one is somebody's attempt.
const MAX_SESSION_ID: usize = 1024;

/// A request of ours on its way.
#[derive(Debug)]
pub(super) struct RequestFrame {
    pub(super) body: String,
    /// Beyond those that every message has.
    pub(super) headers: HeaderMap,
}

#[derive(Debug)]
pub(super) struct HttpTransport {
    client: Client,
    address: ServerAddress,
    inbox: Arc<Inbox>,
    state: Mutex<HttpState>,
}

#[derive(Clone, Debug, Default)]
struct HttpState {
    session: Option<HeaderValue>,
    version: Option<HeaderValue>,
}

/// How the stream beside the questions ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ListenEnd {
    /// The server has none.
    Refused,
    /// It ended; `fruitful` when it had said anything.
    Ended { fruitful: bool },
}

impl HttpTransport {
    pub(super) fn new(client: Client, address: ServerAddress, inbox: Arc<Inbox>) -> Self {
        Self {
            client,
            address,
            inbox,
            state: Mutex::default(),
        }
    }

    /// The revision that every later message names; none before `initialize`.
    pub(super) fn speak(&self, version: Option<&str>) {
        let version = version.and_then(|it| HeaderValue::try_from(it).ok());
        self.state().version = version;
    }

    pub(super) fn secrets(&self) -> &ServerSecrets {
        &self.address.secrets
    }

    pub(super) fn has_session(&self) -> bool {
        self.state().session.is_some()
    }

    /// Sends a request and feeds the inbox until its answer has come.
    pub(super) async fn carry(&self, id: u64, frame: RequestFrame) -> Result<(), ExchangeError> {
        let request = self.post(frame.body).headers(frame.headers);
        let response = self.send(request).await?;
        self.keep_session(&response);
        let status = response.status();
        if !status.is_success() {
            return Err(self.refusal(response, status).await);
        }
        match FrameKind::of(&response) {
            FrameKind::Events => self.follow(id, response).await,
            FrameKind::Json | FrameKind::Other => self.read_whole(id, response).await,
        }
    }

    /// Sends what has no answer: a notification, or our answer to a request.
    pub(super) async fn post_notification(&self, body: String) -> Result<(), WireFailure> {
        let response = self.send(self.post(body)).await?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => match self.refusal(response, status).await {
                ExchangeError::Failure(failure) => Err(failure),
                ExchangeError::Rpc(error) => Err(WireFailure::Http {
                    status: status.as_u16(),
                    message: error.message,
                }),
                ExchangeError::TimedOut | ExchangeError::Cancelled => Ok(()),
            },
        }
    }

    /// Reads the stream beside the questions to its end. Tells when the server has answered, whatever it said.
    pub(super) async fn listen(
        &self,
        place: &mut ResumePoint,
        answered: impl FnOnce(),
    ) -> Result<ListenEnd, WireFailure> {
        let response = self.send(self.get(place)).await;
        answered();
        let response = response?;
        match response.status() {
            status if status.is_success() && FrameKind::of(&response) == FrameKind::Events => {}
            // It may be so only now, as with a proxy whose server is being restarted.
            status if status.is_server_error() || matches!(status.as_u16(), 408 | 429) => {
                return Err(WireFailure::Http {
                    status: status.as_u16(),
                    message: String::new(),
                });
            }
            _has_none => return Ok(ListenEnd::Refused),
        }
        let mut events = SseEvents::new(body(response));
        let mut fruitful = false;
        while let Some(event) = events.next(place).await {
            let event = event?;
            // The announcement of an old server's other endpoint is none of ours.
            fruitful |= event.kind == "message" && !event.data.is_empty();
            for message in message::read(event.data.as_bytes()).unwrap_or_default() {
                self.inbox.take(message, MessageOrigin::Stream).await;
            }
        }
        Ok(ListenEnd::Ended { fruitful })
    }

    /// Says goodbye to a session; a server need not care.
    pub(super) async fn leave(&self) {
        if self.has_session() {
            let request = self.with_state(self.client.delete(self.address.url.clone()));
            let _no_matter = self.send(request).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, HttpState> {
        self.state.lock()
    }

    fn with_state(&self, request: RequestBuilder) -> RequestBuilder {
        let HttpState { session, version } = self.state().clone();
        let headers = [(SESSION_ID, session), (VERSION, version)];
        let headers = headers
            .into_iter()
            .filter_map(|(name, value)| Some((name, value?)));
        headers.fold(
            request.headers(self.address.headers.clone()),
            |request, (name, value)| request.header(name, value),
        )
    }

    fn post(&self, body: String) -> RequestBuilder {
        self.with_state(self.client.post(self.address.url.clone()))
            .header(CONTENT_TYPE, "application/json")
            .header(ACCEPT, "application/json, text/event-stream")
            .body(body)
    }

    fn get(&self, place: &ResumePoint) -> RequestBuilder {
        let request = self.with_state(self.client.get(self.address.url.clone()));
        let request = request.header(ACCEPT, "text/event-stream");
        match &place.last_id {
            Some(id) => request.header(LAST_EVENT_ID, id),
            None => request,
        }
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, WireFailure> {
        self.address.send(request).await
    }

    fn keep_session(&self, response: &Response) {
        let given = response.headers().get(SESSION_ID);
        let given = given.filter(|it| !it.is_empty() && it.len() <= MAX_SESSION_ID);
        // What has no sessions may say an id, and it means nothing.
        let stateless = self
            .state()
            .version
            .as_ref()
            .is_some_and(|it| it == STATELESS);
        if let (Some(id), false) = (given, stateless) {
            let mut id = id.clone();
            id.set_sensitive(true);
            self.state().session = Some(id);
        }
    }

    /// What an answer other than 2xx means.
    async fn refusal(&self, response: Response, status: StatusCode) -> ExchangeError {
        let body = bounded(response).await;
        let said = self.address.secrets.redact(&String::from_utf8_lossy(&body));
        let error = message::read(said.as_bytes())
            .into_iter()
            .flatten()
            .find_map(|it| match it {
                ServerMessage::Response { body, .. } => body.err(),
                ServerMessage::Request { .. } | ServerMessage::Notification { .. } => None,
            });
        if matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            let token = self.address.token.clone();
            return WireFailure::Auth {
                status: status.as_u16(),
                token,
            }
            .into();
        }
        if let Some(why) = self.lost_session(status, error.as_ref()) {
            return WireFailure::SessionLost(why).into();
        }
        match error {
            // A body like {"error": "unauthorized"} is no error of JSON-RPC.
            Some(error) if error.code != 0 => ExchangeError::Rpc(error),
            Some(_) | None => WireFailure::Http {
                status: status.as_u16(),
                message: one_line(&said, MAX_SAID_CHARS),
            }
            .into(),
        }
    }

    /// 404, and the 400 that the usual servers send after a restart.
    fn lost_session(&self, status: StatusCode, error: Option<&RpcError>) -> Option<String> {
        if !self.has_session() {
            return None;
        }
        let modern = [
            METHOD_NOT_FOUND,
            HEADER_MISMATCH,
            CAPABILITY_MISSING,
            VERSION_UNSUPPORTED,
        ];
        let said = error.map_or_else(String::new, |it| it.message.clone());
        let lost = match status {
            StatusCode::NOT_FOUND => !error.is_some_and(|it| modern.contains(&it.code)),
            StatusCode::BAD_REQUEST => says_no_session(&said),
            _other => false,
        };
        lost.then(|| one_line(&format!("HTTP {} {said}", status.as_u16()), MAX_SAID_CHARS))
    }

    /// An answer that comes whole.
    async fn read_whole(&self, id: u64, response: Response) -> Result<(), ExchangeError> {
        let status = response.status();
        let kind = response.headers().get(CONTENT_TYPE).cloned();
        let mut body = body(response);
        let mut text = vec![];
        while let Some(bytes) = body.next().await {
            text.extend_from_slice(&bytes?);
            if text.len() > MAX_BODY_BYTES {
                return Err(WireFailure::TooLarge(MAX_BODY_BYTES >> 20).into());
            }
        }
        for message in message::read(&text).into_iter().flatten() {
            self.inbox.take(message, MessageOrigin::Post(id)).await;
        }
        if !self.inbox.is_waiting(id) {
            return Ok(());
        }
        let said = if text.is_empty() {
            format!("HTTP {} without a body", status.as_u16())
        } else {
            let kind = kind.as_ref().and_then(|it| it.to_str().ok());
            let said = self.address.secrets.redact(&String::from_utf8_lossy(&text));
            let said = one_line(&said, MAX_SAID_CHARS);
            format!("{} {said}", kind.unwrap_or("no content type"))
        };
        Err(WireFailure::Unreadable(said).into())
    }

    /// A stream of events with the answer in it. A server may close it before, and is asked for the rest.
    async fn follow(&self, id: u64, mut response: Response) -> Result<(), ExchangeError> {
        let mut place = ResumePoint::default();
        let (mut empty, mut wordless) = (0, 0);
        loop {
            let before = place.last_id.clone();
            wordless += 1;
            let read = self.read_events(id, response, &mut place, &mut wordless);
            let why = match read.await {
                Ok(()) if !self.inbox.is_waiting(id) => return Ok(()),
                Ok(()) => WireFailure::Cut("the stream ended".to_owned()),
                Err(failure @ WireFailure::TooLarge(_)) => return Err(failure.into()),
                Err(failure) => failure,
            };
            empty = if place.last_id == before {
                empty + 1
            } else {
                0
            };
            if place.last_id.is_none() || empty >= EMPTY_STREAMS || wordless >= WORDLESS_STREAMS {
                return Err(why.into());
            }
            let pause = place.retry.unwrap_or(RETRY).max(SHORTEST_RETRY);
            tokio::time::sleep(pause).await;
            if !self.inbox.is_waiting(id) {
                // It came on the stream beside the questions.
                return Ok(());
            }
            response = self.send(self.get(&place)).await?;
            if !response.status().is_success() || FrameKind::of(&response) != FrameKind::Events {
                return Err(why.into());
            }
        }
    }

    async fn read_events(
        &self,
        id: u64,
        response: Response,
        place: &mut ResumePoint,
        wordless: &mut u32,
    ) -> Result<(), WireFailure> {
        let mut events = SseEvents::new(body(response));
        while let Some(event) = events.next(place).await {
            for message in message::read(event?.data.as_bytes()).unwrap_or_default() {
                *wordless = 0;
                self.inbox.take(message, MessageOrigin::Post(id)).await;
            }
            if !self.inbox.is_waiting(id) {
                break;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Json,
    Events,
    Other,
}

impl FrameKind {
    pub(super) fn of(response: &Response) -> Self {
        let kind = response.headers().get(CONTENT_TYPE);
        let kind = kind.and_then(|it| it.to_str().ok()).unwrap_or_default();
        match kind.split(';').next().unwrap_or_default().trim() {
            "text/event-stream" => Self::Events,
            "application/json" => Self::Json,
            _other => Self::Other,
        }
    }
}

/// The bytes of a body.
pub(super) fn body(
    response: Response,
) -> impl futures_util::Stream<Item = Result<bytes::Bytes, WireFailure>> + Send + Unpin + 'static {
    let bytes = response.bytes_stream();
    Box::pin(bytes.map(|it| it.map_err(|error| WireFailure::Cut(cause(&error)))))
}

/// Whether this is one of the ways to say it, whole.
fn says_no_session(said: &str) -> bool {
    let said = said.to_lowercase();
    let said = said.trim().trim_end_matches(['.', '!']);
    let said = said.strip_prefix("bad request").unwrap_or(said);
    let said = said.trim_start_matches([':', ' ']);
    NO_SESSION.contains(&said)
}

/// The start of an error's body.
async fn bounded(response: Response) -> Vec<u8> {
    let mut text = vec![];
    let mut body = body(response);
    let read = async {
        while let Some(Ok(bytes)) = body.next().await {
            let room = ERROR_BODY_BYTES - text.len();
            text.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
            if text.len() >= ERROR_BODY_BYTES {
                break;
            }
        }
    };
    let _what_came_counts = tokio::time::timeout(ERROR_BODY_LIMIT, read).await;
    text
}

pub(super) fn unsent(error: &reqwest::Error) -> WireFailure {
    if error.is_connect() || error.is_builder() {
        WireFailure::Unreachable(cause(error))
    } else {
        WireFailure::Cut(cause(error))
    }
}

/// The innermost reason; the outer ones repeat the URL, which may hold a password.
fn cause(error: &reqwest::Error) -> String {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    if std::ptr::addr_eq(innermost, error) {
        return "the request failed".to_owned();
    }
    one_line(&innermost.to_string(), MAX_SAID_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call is sent again only where it cannot have run.
    #[test]
    fn only_whole_words_say_that_a_session_is_unknown() {
        for said in [
            "Bad Request: No valid session ID provided",
            "Bad Request: Missing session ID",
            "Session not found",
            "Invalid session ID.",
        ] {
            assert!(says_no_session(said), "{said}");
        }
        for said in [
            "the browser session crashed after paying",
            "Session not found in the shop; the order was placed",
            "session",
            "",
        ] {
            assert!(!says_no_session(said), "{said}");
        }
    }
}
