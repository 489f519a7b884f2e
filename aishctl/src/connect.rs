//! One connection: lines over the Unix socket. Two tasks serve it: one writes the calls, as many at once as
//! wait; one reads, gives each reply to its call and each event to a bounded queue that it waits for.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aish_proto::error::{ErrorData, ErrorKind};
use aish_proto::event::{self, EventParams};
use aish_proto::id::SubscriptionId;
use aish_proto::limits;
use aish_proto::method::Method;
use interprocess::local_socket::GenericFilePath;
use interprocess::local_socket::tokio::Stream;
use interprocess::local_socket::tokio::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinSet;

/// How long a call may take when nobody said otherwise.
pub const CALL_DEADLINE: Duration = Duration::from_secs(10);
/// Events read ahead of what shows them. Few: the daemon holds the rest and makes larger pieces of it.
const EVENTS_AHEAD: usize = 64;
/// Events that are read past that while a reply is waited for, at most.
const EVENTS_HELD: usize = 1024;
/// What stands around the params of a request line, at most.
const ENVELOPE_BYTES: usize = 256;
/// Read at once, at most. It is filled by reading alone: a short answer touches little of it.
const PAGE_BYTES: usize = 32 << 10;

/// One event, and its envelope as the daemon wrote it.
#[derive(Clone, Debug)]
pub struct Event {
    pub params: EventParams,
    /// The envelope unchanged, with fields that this build does not know.
    pub raw: Box<RawValue>,
}

/// Events in the order of the wire; `None` means that the connection is gone.
pub type Events = mpsc::Receiver<Event>;

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
pub struct CallError {
    pub kind: CallFailure,
    pub message: String,
    pub hint: Option<String>,
    pub retryable: bool,
}

impl CallError {
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

    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.kind == CallFailure::Refused(ErrorKind::NotFound)
    }

    /// The daemon is going or gone: the same call may succeed on the next connection.
    #[must_use]
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
    connection: Arc<Connection>,
    line_bytes: usize,
    deadline: Duration,
}

/// Its end is the end of the connection.
#[derive(Debug)]
struct Connection {
    lines: mpsc::Sender<String>,
    pending: Arc<Pending>,
    ids: AtomicU64,
    _tasks: JoinSet<()>,
}

/// Connects without saying hello.
pub async fn connect(socket: &Path, deadline: Duration) -> io::Result<(Caller, Events)> {
    let stream = Stream::connect(socket.to_fs_name::<GenericFilePath>()?).await?;
    let stream = Arc::new(stream);
    let (into_events, events) = mpsc::channel(EVENTS_AHEAD);
    let (lines, to_write) = mpsc::channel(limits::CALLS_IN_FLIGHT);
    let pending = Arc::<Pending>::default();
    let mut tasks = JoinSet::new();
    tasks.spawn(write(Arc::clone(&stream), to_write));
    let reader = Reader {
        stream,
        page: Vec::with_capacity(PAGE_BYTES),
        unread: 0,
        line: Vec::new(),
    };
    tasks.spawn(read(reader, Arc::clone(&pending), into_events));
    let caller = Caller {
        connection: Arc::new(Connection {
            lines,
            pending,
            ids: AtomicU64::new(1),
            _tasks: tasks,
        }),
        line_bytes: limits::LINE_TO_DAEMON_BYTES,
        deadline,
    };
    Ok((caller, events))
}

impl Caller {
    /// Calls with this connection's deadline.
    pub async fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, CallError> {
        self.call_within::<M>(params, Some(self.deadline)).await
    }

    /// Calls with a deadline of its own, or none.
    pub async fn call_within<M: Method>(
        &self,
        params: M::Params,
        deadline: Option<Duration>,
    ) -> Result<M::Result, CallError> {
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
    ) -> Result<Box<RawValue>, CallError> {
        let bytes = params.get().len() + method.len() + ENVELOPE_BYTES;
        if bytes > self.line_bytes {
            let message = format!(
                "the request is {bytes} bytes, the daemon takes {}",
                self.line_bytes
            );
            return Err(CallError::ours(CallFailure::TooLarge, message, ""));
        }
        let call = self.exchange(method, &params);
        let answer = match deadline {
            None => call.await,
            Some(deadline) => tokio::time::timeout(deadline, call).await.map_err(|_| {
                let message = format!("aishd does not answer {method} within {deadline:?}");
                CallError::ours(CallFailure::Deadline, message, "aishctl status")
            })?,
        };
        answer.ok_or_else(lost)?.map_err(translate)
    }

    /// One call and its answer; none when the connection is gone.
    async fn exchange(&self, method: &str, params: &RawValue) -> Option<Answer> {
        let connection = &*self.connection;
        let id = connection.ids.fetch_add(1, Ordering::Relaxed);
        let call = Call {
            jsonrpc: "2.0",
            id,
            method,
            params,
        };
        let mut line = serde_json::to_string(&call).ok()?;
        line.push('\n');
        let waiting = connection.pending.wait_for(id)?;
        connection.lines.send(line).await.ok()?;
        waiting.await
    }

    /// Longest request line that the daemon takes.
    #[must_use]
    pub fn line_bytes(&self) -> usize {
        self.line_bytes
    }

    /// What the daemon said at hello.
    pub(crate) fn set_line_bytes(&mut self, bytes: usize) {
        self.line_bytes = bytes;
    }

    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.deadline
    }
}

fn unreadable(error: &serde_json::Error) -> CallError {
    let message = format!("aishd and this program do not understand each other: {error}");
    CallError::ours(
        CallFailure::Protocol(-32603),
        message,
        "restart aishd after an upgrade",
    )
}

fn lost() -> CallError {
    CallError::ours(
        CallFailure::Lost,
        "lost the connection to aishd".to_owned(),
        "aishctl status",
    )
}

fn translate(error: Refused) -> CallError {
    let Refused {
        code,
        message,
        data,
    } = error;
    match data.and_then(|it| serde_json::from_str::<ErrorData>(it.get()).ok()) {
        Some(data) => CallError {
            kind: CallFailure::Refused(data.kind),
            message,
            hint: data.hint,
            retryable: data.retryable,
        },
        None => CallError::ours(CallFailure::Protocol(code), message, ""),
    }
}

/// A request line.
#[derive(Serialize)]
struct Call<'a> {
    jsonrpc: &'static str,
    id: u64,
    method: &'a str,
    params: &'a RawValue,
}

/// What a reply says.
type Answer = Result<Box<RawValue>, Refused>;

/// A JSON-RPC error.
#[derive(Debug, Deserialize)]
struct Refused {
    code: i32,
    message: String,
    data: Option<Box<RawValue>>,
}

/// The calls that have no answer yet; none can be added once the connection is gone.
#[derive(Debug, Default)]
struct Pending {
    calls: Mutex<Calls>,
    added: Notify,
}

#[derive(Debug)]
enum Calls {
    Waiting(HashMap<u64, oneshot::Sender<Answer>>),
    Gone,
}

impl Default for Calls {
    fn default() -> Self {
        Self::Waiting(HashMap::new())
    }
}

impl Pending {
    /// The answer to come. A call that is given up takes itself out.
    fn wait_for(self: &Arc<Self>, id: u64) -> Option<impl Future<Output = Option<Answer>> + use<>> {
        let (answer, answered) = oneshot::channel();
        match &mut *self.lock() {
            Calls::Waiting(calls) => calls.insert(id, answer),
            Calls::Gone => return None,
        };
        self.added.notify_one();
        let place = Place(Arc::clone(self), id);
        Some(async move {
            let answer = answered.await.ok();
            drop(place);
            answer
        })
    }

    fn is_waited_for(&self) -> bool {
        matches!(&*self.lock(), Calls::Waiting(calls) if !calls.is_empty())
    }

    fn answer(&self, id: u64, answer: Answer) {
        if let Calls::Waiting(calls) = &mut *self.lock()
            && let Some(waiting) = calls.remove(&id)
        {
            let _given_up = waiting.send(answer);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A call's place among those that wait.
struct Place(Arc<Pending>, u64);

impl Drop for Place {
    fn drop(&mut self) {
        if let Calls::Waiting(calls) = &mut *self.0.lock() {
            calls.remove(&self.1);
        }
    }
}

/// Writes whole lines, all that wait in one go. A call that is given up halfway does not tear its line.
async fn write(stream: Arc<Stream>, mut lines: mpsc::Receiver<String>) {
    while let Some(mut text) = lines.recv().await {
        while let Ok(more) = lines.try_recv() {
            text.push_str(&more);
        }
        if (&*stream).write_all(text.as_bytes()).await.is_err() {
            // The reader finds out by itself; what is sent from here on finds nobody.
            return;
        }
    }
}

/// Reads to the end of the connection.
async fn read(mut reader: Reader, pending: Arc<Pending>, events: mpsc::Sender<Event>) {
    let mut ahead = VecDeque::new();
    loop {
        // Where nobody takes events the socket fills, and the daemon sends less often: that is the back-pressure.
        // Only for a reply that somebody waits for some events are read ahead, because who waits takes none.
        let may_read = ahead.is_empty() || (ahead.len() < EVENTS_HELD && pending.is_waited_for());
        let line = tokio::select! {
            biased;
            room = events.reserve(), if !ahead.is_empty() => match (room, ahead.pop_front()) {
                (Ok(room), Some(event)) => {
                    room.send(event);
                    continue;
                }
                (Ok(_), None) => continue,
                (Err(_nobody_listens), _) => break,
            },
            line = reader.next_line(), if may_read => line,
            () = pending.added.notified(), if !may_read => continue,
        };
        match line.map(|it| sort(&it)) {
            Ok(Line::Reply(id, answer)) => pending.answer(id, answer),
            Ok(Line::Event(event)) => ahead.push_back(*event),
            Ok(Line::Unknown) => {}
            Err(_over) => break,
        }
    }
    *pending.lock() = Calls::Gone;
    for event in ahead {
        if events.send(event).await.is_err() {
            break;
        }
    }
}

struct Reader {
    stream: Arc<Stream>,
    page: Vec<u8>,
    /// From where on the page belongs to no line yet.
    unread: usize,
    /// The beginning of a line whose end has not come.
    line: Vec<u8>,
}

impl Reader {
    /// May be dropped: what was read is kept.
    async fn next_line(&mut self) -> io::Result<Vec<u8>> {
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

enum Line {
    Reply(u64, Answer),
    Event(Box<Event>),
    /// A notification of a later protocol, or an event in a form we cannot read.
    Unknown,
}

fn sort(line: &[u8]) -> Line {
    #[derive(Deserialize)]
    struct Incoming<'a> {
        #[serde(borrow)]
        method: Option<Cow<'a, str>>,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
        id: Option<u64>,
        result: Option<Box<RawValue>>,
        error: Option<Refused>,
    }
    let Ok(incoming) = serde_json::from_slice::<Incoming<'_>>(line) else {
        return Line::Unknown;
    };
    match (incoming.method.as_deref(), incoming.id) {
        (Some(event::NOTIFICATION), None) => incoming
            .params
            .and_then(|it| read_event(it.get()))
            .map_or(Line::Unknown, |it| Line::Event(Box::new(it))),
        (None, Some(id)) => match (incoming.error, incoming.result) {
            (Some(error), _) => Line::Reply(id, Err(error)),
            (None, Some(result)) => Line::Reply(id, Ok(result)),
            (None, None) => Line::Unknown,
        },
        (Some(_), _) | (None, None) => Line::Unknown,
    }
}

fn read_event(params: &str) -> Option<Event> {
    #[derive(Deserialize)]
    struct RawEvent {
        subscription: SubscriptionId,
        event: Box<RawValue>,
    }
    let RawEvent {
        subscription,
        event,
    } = serde_json::from_str(params).ok()?;
    let params = EventParams {
        subscription,
        event: serde_json::from_str(event.get()).ok()?,
    };
    Some(Event { params, raw: event })
}

#[cfg(test)]
mod tests {
    use aish_proto::conversation::{self as conversation, ListParams};
    use aish_proto::daemon::Ping;
    use aish_proto::method::Empty;
    use serde_json::json;

    use super::*;
    use crate::peer::Peer;

    #[tokio::test]
    async fn events_keep_their_order_and_unknown_fields() {
        let peer = Peer::new();
        let (mut link, connected) =
            tokio::join!(peer.accept(), connect(&peer.socket, CALL_DEADLINE));
        let (caller, mut events) = connected.unwrap();
        let script = async {
            let call = link.expect("daemon/ping").await;
            for n in 1..=40u64 {
                link.event(Some(n), "madeUp", json!({"n": n, "later": true}))
                    .await;
            }
            link.line(&json!({"jsonrpc": "2.0", "method": "laterThing", "params": {}}))
                .await;
            link.reply(&call, json!({})).await;
        };
        let (answer, ()) = tokio::join!(caller.call::<Ping>(Empty {}), script);
        answer.unwrap();
        for n in 1..=40u64 {
            let event = events.recv().await.unwrap();
            assert_eq!(n, event.params.event.seq.unwrap().0);
            assert!(event.raw.get().contains("\"later\":true"));
        }
    }

    #[tokio::test]
    async fn a_refusal_keeps_kind_hint_and_retryable() {
        let peer = Peer::new();
        let (mut link, connected) =
            tokio::join!(peer.accept(), connect(&peer.socket, CALL_DEADLINE));
        let (caller, _events) = connected.unwrap();
        let script = async {
            let call = link.expect("conversation/list").await;
            link.refuse(&call, ErrorKind::Overloaded, "queue is full", Some("wait"))
                .await;
        };
        let (answer, ()) = tokio::join!(
            caller.call::<conversation::List>(ListParams::default()),
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
        let peer = Peer::new();
        let (mut link, connected) = tokio::join!(
            peer.accept(),
            connect(&peer.socket, Duration::from_millis(20))
        );
        let (caller, _events) = connected.unwrap();
        let error = caller.call::<Ping>(Empty {}).await.unwrap_err();
        assert_eq!(CallFailure::Deadline, error.kind);

        let huge = ListParams {
            title: Some("x".repeat(2 << 20)),
            ..ListParams::default()
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
        let peer = Peer::new();
        let (mut link, connected) =
            tokio::join!(peer.accept(), connect(&peer.socket, CALL_DEADLINE));
        let (_caller, mut events) = connected.unwrap();
        let script = async { link.flood(limits::LINE_FROM_DAEMON_BYTES + 1).await };
        let (event, ()) = tokio::join!(events.recv(), script);
        assert!(event.is_none());
    }
}
