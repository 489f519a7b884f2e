//! One connection: lines over the Unix socket, calls through jsonrpsee's client, events through a
//! bounded queue beside it. jsonrpsee never sees an event: its own buffer would end the subscription
//! where ours makes the daemon wait.

use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use aish_proto::envelope::{EventParams, NOTIFICATION};
use aish_proto::error::{ErrorData, ErrorKind};
use aish_proto::event::ClientEvent;
use aish_proto::id::SubscriptionId;
use aish_proto::limits;
use aish_proto::method::Method;
use interprocess::local_socket::GenericFilePath;
use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::tokio::prelude::*;
use jsonrpsee::core::client::async_client::{Client, ClientBuilder};
use jsonrpsee::core::client::{
    ClientT as _, Error, ReceivedMessage, TransportReceiverT, TransportSenderT,
};
use jsonrpsee::core::traits::ToRpcParams;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc};

use crate::exit::{self, Exit};
use crate::failure::Failure;

/// How long a call may take when nobody said otherwise.
pub const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// Events read ahead of what shows them. Few: the daemon holds the rest and makes larger pieces of it.
const EVENTS_AHEAD: usize = 64;
/// Events that are read past that while a reply is waited for, at most.
const EVENTS_HELD: usize = 1024;
/// Read at once, at most. It is filled by reading alone: a short answer touches little of it.
const PAGE_BYTES: usize = 32 << 10;
/// What stands around the params of a request line, at most.
const ENVELOPE_BYTES: usize = 256;

/// One event, and its envelope as the daemon wrote it.
#[derive(Clone, Debug)]
pub struct WireEvent {
    pub subscription: SubscriptionId,
    pub event: ClientEvent,
    /// The envelope unchanged, with fields that this build does not know.
    pub raw: Box<RawValue>,
}

/// Events in the order of the wire; `None` means that the connection is gone.
pub type DaemonEvents = mpsc::Receiver<WireEvent>;

/// Why a call gave no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallFailure {
    /// The daemon answered with an error of ours.
    Refused(ErrorKind),
    /// The daemon answered with an error of JSON-RPC, or with what we do not understand.
    Protocol(i32),
    /// No answer in time; the daemon may be hung.
    Deadline,
    /// The connection ended before the answer.
    Lost,
    /// The request is over the line limit and was not sent.
    TooLarge,
}

#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct RpcCallError {
    pub kind: CallFailure,
    pub message: String,
    pub hint: Option<String>,
    pub retryable: bool,
}

impl RpcCallError {
    fn ours(kind: CallFailure, message: String, hint: &str) -> Self {
        let hint = Some(hint.to_owned()).filter(|it| !it.is_empty());
        let retryable = matches!(kind, CallFailure::Lost | CallFailure::Deadline);
        Self {
            kind,
            message,
            hint,
            retryable,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.kind == CallFailure::Refused(ErrorKind::NotFound)
    }

    /// The daemon is going or gone: the same call may succeed on the next connection.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            CallFailure::Lost | CallFailure::Refused(ErrorKind::Draining)
        )
    }
}

/// Makes calls; cheap to clone. Calls of one connection may overtake each other.
#[derive(Clone, Debug)]
pub struct Caller {
    client: Arc<Client>,
    waiting: Arc<PendingCalls>,
    line_bytes: usize,
    deadline: Duration,
}

/// Connects without saying hello.
pub async fn connect(socket: &Path, deadline: Duration) -> io::Result<(Caller, DaemonEvents)> {
    let stream = Stream::connect(socket.to_fs_name::<GenericFilePath>()?).await?;
    // Before a word is said: a socket in a directory of everybody's may be anybody's.
    let theirs = stream.peer_creds()?.euid();
    if theirs != Some(rustix::process::geteuid().as_raw()) {
        return Err(io::Error::other("the daemon there is another user's"));
    }
    let stream = Arc::new(stream);
    let (into_events, events) = mpsc::channel(EVENTS_AHEAD);
    let waiting = Arc::<PendingCalls>::default();
    let receiver = EventReceiver {
        lines: LineStream {
            stream: Arc::clone(&stream),
            page: Vec::with_capacity(PAGE_BYTES),
            unread: 0,
            line: Vec::new(),
        },
        events: into_events,
        ahead: VecDeque::new(),
        waiting: Arc::clone(&waiting),
    };
    // Deadlines are ours, one for each call; jsonrpsee's would be one for all.
    let client = ClientBuilder::default()
        .request_timeout(Duration::from_secs(365 * 86_400))
        .max_concurrent_requests(limits::CALLS_IN_FLIGHT)
        .build_with_tokio(LineSender(stream), receiver);
    let caller = Caller {
        client: Arc::new(client),
        waiting,
        line_bytes: limits::LINE_TO_DAEMON_BYTES,
        deadline,
    };
    Ok((caller, events))
}

impl Caller {
    /// Calls with this connection's deadline.
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, RpcCallError> {
        self.call_within::<M>(params, Some(self.deadline)).await
    }

    /// Calls with a deadline of its own, or none.
    pub async fn call_within<M: Method>(
        &self,
        params: M::Params,
        deadline: Option<Duration>,
    ) -> Result<M::Result, RpcCallError> {
        let params = serde_json::value::to_raw_value(&params).map_err(|it| unreadable(&it))?;
        let result = self.raw(M::NAME, params, deadline).await?;
        serde_json::from_str(result.get()).map_err(|it| unreadable(&it))
    }

    /// Calls a method by its name, for `aishctl rpc`.
    pub async fn raw(
        &self,
        method: &str,
        params: Box<RawValue>,
        deadline: Option<Duration>,
    ) -> Result<Box<RawValue>, RpcCallError> {
        let bytes = params.get().len() + method.len() + ENVELOPE_BYTES;
        if bytes > self.line_bytes {
            let message = format!(
                "the request is {bytes} bytes, the daemon takes {}",
                self.line_bytes
            );
            return Err(RpcCallError::ours(CallFailure::TooLarge, message, ""));
        }
        let _place = self.waiting.place();
        // jsonrpsee's future is large, and every call would carry it.
        let call = self
            .client
            .request::<Box<RawValue>, _>(method, RpcParams(params));
        let call = Box::pin(call);
        let answer = match deadline {
            None => call.await,
            Some(deadline) => tokio::time::timeout(deadline, call).await.map_err(|_| {
                let message = format!("aishd does not answer {method} within {deadline:?}");
                RpcCallError::ours(CallFailure::Deadline, message, "aishctl status")
            })?,
        };
        answer.map_err(|error| {
            let error = translate(error);
            let lost = error.kind == CallFailure::Lost;
            let said = self.waiting.turned_away.get().filter(|_| lost);
            said.cloned().unwrap_or(error)
        })
    }

    /// Longest request line that the daemon takes.
    pub fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// What the daemon said at hello.
    pub(crate) fn set_line_bytes(&mut self, bytes: usize) {
        self.line_bytes = bytes;
    }

    pub fn deadline(&self) -> Duration {
        self.deadline
    }
}

fn unreadable(error: &serde_json::Error) -> RpcCallError {
    let message = format!("aishd and this program do not understand each other: {error}");
    RpcCallError::ours(
        CallFailure::Protocol(-32603),
        message,
        "restart aishd after an upgrade",
    )
}

#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "every other error of jsonrpsee ends its client"
)]
fn translate(error: Error) -> RpcCallError {
    match error {
        Error::Call(error) => refused(error.code(), error.message(), error.data()),
        Error::ParseError(error) => unreadable(&error),
        _ => RpcCallError::ours(
            CallFailure::Lost,
            "lost the connection to aishd".to_owned(),
            "aishctl status",
        ),
    }
}

fn refused(code: i32, message: &str, data: Option<&RawValue>) -> RpcCallError {
    let data = data.and_then(|it| serde_json::from_str::<ErrorData>(it.get()).ok());
    let message = message.to_owned();
    match data {
        Some(data) => RpcCallError {
            kind: CallFailure::Refused(data.kind),
            message,
            hint: data.hint,
            retryable: data.retryable,
        },
        None => RpcCallError::ours(CallFailure::Protocol(code), message, ""),
    }
}

struct RpcParams(Box<RawValue>);

impl ToRpcParams for RpcParams {
    fn to_rpc_params(self) -> Result<Option<Box<RawValue>>, serde_json::Error> {
        Ok(Some(self.0))
    }
}

struct LineSender(Arc<Stream>);

impl TransportSenderT for LineSender {
    type Error = io::Error;

    async fn send(&mut self, mut message: String) -> io::Result<()> {
        message.push('\n');
        (&*self.0).write_all(message.as_bytes()).await
    }
}

/// The calls whose replies are waited for.
#[derive(Debug, Default)]
struct PendingCalls {
    calls: AtomicUsize,
    added: Notify,
    /// Why none will come, where the daemon said so.
    turned_away: OnceLock<RpcCallError>,
}

impl PendingCalls {
    /// One more, until its place is dropped.
    fn place(&self) -> PendingCall<'_> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.added.notify_one();
        PendingCall(self)
    }
}

struct PendingCall<'a>(&'a PendingCalls);

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::Relaxed);
    }
}

struct EventReceiver {
    lines: LineStream,
    events: mpsc::Sender<WireEvent>,
    /// Events for which there is no room yet. They are forgotten with the connection: the next one begins behind the
    /// last that was taken.
    ahead: VecDeque<WireEvent>,
    waiting: Arc<PendingCalls>,
}

impl TransportReceiverT for EventReceiver {
    type Error = io::Error;

    /// The next reply. May be dropped: what was read is kept.
    async fn receive(&mut self) -> io::Result<ReceivedMessage> {
        loop {
            // Where nobody takes events the socket fills, and the daemon sends less often: that is the back-pressure.
            // Only for a reply that somebody waits for some events are read ahead, because who waits takes none.
            let waited_for = self.waiting.calls.load(Ordering::Relaxed) > 0;
            let may_read = self.ahead.is_empty() || (waited_for && self.ahead.len() < EVENTS_HELD);
            let line = tokio::select! {
                biased;
                room = self.events.reserve(), if !self.ahead.is_empty() => {
                    let room = room.map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted))?;
                    if let Some(event) = self.ahead.pop_front() {
                        room.send(event);
                    }
                    continue;
                }
                line = self.lines.next(), if may_read => line?,
                () = self.waiting.added.notified(), if !may_read => continue,
            };
            match sort(&line) {
                WireLine::Reply => return Ok(ReceivedMessage::Bytes(line)),
                WireLine::TurnedAway(why) => {
                    let _first = self.waiting.turned_away.set(*why);
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                WireLine::Event(event) => self.ahead.push_back(*event),
                WireLine::Unknown => {}
            }
        }
    }
}

struct LineStream {
    stream: Arc<Stream>,
    page: Vec<u8>,
    /// From where on the page belongs to no line yet.
    unread: usize,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
}

impl LineStream {
    /// May be dropped: what was read is kept.
    async fn next(&mut self) -> io::Result<Vec<u8>> {
        loop {
            if self.unread == self.page.len() {
                self.page.clear();
                self.unread = 0;
                if (&*self.stream).read_buf(&mut self.page).await? == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            let bytes = self.page.get(self.unread..).unwrap_or_default();
            let end = bytes.iter().position(|it| *it == b'\n');
            let taken = end.unwrap_or(bytes.len());
            if self.line.len() + taken >= limits::LINE_FROM_DAEMON_BYTES {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "line over the limit",
                ));
            }
            self.line
                .extend_from_slice(bytes.get(..taken).unwrap_or_default());
            self.unread += taken + usize::from(end.is_some());
            if end.is_some() && !self.line.is_empty() {
                return Ok(std::mem::take(&mut self.line));
            }
        }
    }
}

enum WireLine {
    Reply,
    /// An error that answers no request: nothing more will be answered.
    TurnedAway(Box<RpcCallError>),
    Event(Box<WireEvent>),
    /// A notification of a later protocol, or an event in a form we cannot read.
    Unknown,
}

fn sort(line: &[u8]) -> WireLine {
    #[derive(Deserialize)]
    struct Peek<'a> {
        #[serde(borrow)]
        method: Option<std::borrow::Cow<'a, str>>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct RawEvent<'a> {
        #[serde(borrow)]
        event: &'a RawValue,
    }
    let Ok(Peek {
        method: Some(method),
        params,
    }) = serde_json::from_slice::<Peek<'_>>(line)
    else {
        return reply(line);
    };
    if method != NOTIFICATION {
        return WireLine::Unknown;
    }
    let read = params.and_then(|it| {
        let params = serde_json::from_str::<EventParams>(it.get()).ok()?;
        let raw = serde_json::from_str::<RawEvent<'_>>(it.get())
            .ok()?
            .event
            .to_owned();
        Some(WireEvent {
            subscription: params.subscription,
            event: params.event.into(),
            raw,
        })
    });
    read.map_or(WireLine::Unknown, |it| WireLine::Event(Box::new(it)))
}

fn reply(line: &[u8]) -> WireLine {
    #[derive(Deserialize)]
    struct Unasked<'a> {
        #[serde(rename = "id")]
        _id: (),
        #[serde(borrow)]
        error: Why<'a>,
    }
    #[derive(Deserialize)]
    struct Why<'a> {
        code: i32,
        message: String,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    match serde_json::from_slice::<Unasked<'_>>(line) {
        Ok(Unasked { error, .. }) => {
            let why = refused(error.code, &error.message, error.data);
            WireLine::TurnedAway(Box::new(why))
        }
        Err(_is_asked_for) => WireLine::Reply,
    }
}

impl From<RpcCallError> for Failure {
    fn from(error: RpcCallError) -> Self {
        let exit = match error.kind {
            CallFailure::Refused(kind) => exit::of_refusal(kind),
            CallFailure::Protocol(_) => Exit::FAILED,
            CallFailure::Deadline | CallFailure::Lost => Exit::NO_DAEMON,
            CallFailure::TooLarge => Exit::LIMIT,
        };
        let transient = error.is_transient();
        let refused = if let CallFailure::Refused(kind) = error.kind {
            Some(kind)
        } else {
            None
        };
        let busy = refused == Some(ErrorKind::Busy);
        let hint = error.hint.or_else(|| {
            busy.then(|| "aishctl conv wait waits for it, aishctl cancel stops it".to_owned())
        });
        Self {
            exit,
            message: error.message,
            hint,
            transient,
            refused,
        }
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::conversation::{self as conversation, ConversationListParams};
    use aish_proto::daemon::Ping;
    use aish_proto::method::Empty;
    use serde_json::json;

    use super::*;
    use crate::test_daemon::GatewayPeer;

    #[tokio::test]
    async fn a_reply_comes_past_events_that_nobody_takes_and_they_keep_their_order_and_fields() {
        let peer = GatewayPeer::new();
        let (mut link, connected) =
            tokio::join!(peer.accept(), connect(&peer.socket, CALL_DEADLINE));
        let (caller, mut events) = connected.unwrap();
        let script = async {
            let call = link.expect("daemon/ping").await;
            for n in 1..=400u64 {
                link.event(Some(n), "madeUp", json!({"n": n, "later": true}))
                    .await;
            }
            link.line(&json!({"jsonrpc": "2.0", "method": "laterThing", "params": {}}))
                .await;
            link.reply(&call, json!({})).await;
        };
        let (answer, ()) = tokio::join!(caller.call::<Ping>(Empty {}), script);
        answer.unwrap();
        for n in 1..=400u64 {
            let event = events.recv().await.unwrap();
            assert_eq!(n, event.event.seq.unwrap().0);
            assert!(event.raw.get().contains("\"later\":true"));
        }
    }

    #[tokio::test]
    async fn a_refusal_keeps_kind_hint_and_retryable() {
        let peer = GatewayPeer::new();
        let (mut link, connected) =
            tokio::join!(peer.accept(), connect(&peer.socket, CALL_DEADLINE));
        let (caller, _events) = connected.unwrap();
        let script = async {
            let call = link.expect("conversation/list").await;
            link.refuse(&call, ErrorKind::Overloaded, "queue is full", Some("wait"))
                .await;
        };
        let (answer, ()) = tokio::join!(
            caller.call::<conversation::List>(ConversationListParams::default()),
            script
        );
        let error = answer.unwrap_err();
        assert_eq!(CallFailure::Refused(ErrorKind::Overloaded), error.kind);
        assert_eq!(
            ("queue is full", Some("wait")),
            (error.message.as_str(), error.hint.as_deref())
        );
        assert!(error.retryable);
    }

    #[tokio::test]
    async fn a_silent_daemon_is_a_deadline_a_gone_one_is_lost_and_a_huge_request_is_not_sent() {
        let peer = GatewayPeer::new();
        let (mut link, connected) = tokio::join!(
            peer.accept(),
            connect(&peer.socket, Duration::from_millis(20))
        );
        let (caller, _events) = connected.unwrap();
        let error = caller.call::<Ping>(Empty {}).await.unwrap_err();
        assert_eq!(CallFailure::Deadline, error.kind);

        let huge = ConversationListParams {
            title: Some("x".repeat(2 << 20)),
            ..ConversationListParams::default()
        };
        let error = caller.call::<conversation::List>(huge).await.unwrap_err();
        assert_eq!(CallFailure::TooLarge, error.kind);

        link.expect("daemon/ping").await;
        drop(link);
        let error = caller
            .call_within::<Ping>(Empty {}, None)
            .await
            .unwrap_err();
        assert_eq!(CallFailure::Lost, error.kind);
    }

    #[tokio::test]
    async fn a_line_over_the_limit_ends_the_connection_and_not_the_memory() {
        let peer = GatewayPeer::new();
        let (mut link, connected) =
            tokio::join!(peer.accept(), connect(&peer.socket, CALL_DEADLINE));
        let (_caller, mut events) = connected.unwrap();
        let script = async { link.flood(limits::LINE_FROM_DAEMON_BYTES + 1).await };
        let (event, ()) = tokio::join!(events.recv(), script);
        assert!(event.is_none());
    }
}
