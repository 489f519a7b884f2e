//! A raw client: lines of JSON-RPC over the socket, written and read by hand, so that a test sees what is
//! really there. A client belongs to one thread; it reads only when it is asked to.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aish_proto::attach::{Attach, AttachParams, Since};
use aish_proto::conversation::{Create, CreateParams};
use aish_proto::daemon::{ClientInfo, ClientKind, Hello, HelloParams, HelloResult};
use aish_proto::event::{Envelope, EventParams, NOTIFICATION};
use aish_proto::id::{ConversationId, SubscriptionId, TurnId};
use aish_proto::method::{Method, Role};
use aish_proto::turn::{Send as SendTurn, SendMode, SendParams, TurnRecord, Wait, WaitParams};
use aish_proto::version::ProtocolRange;
use serde_json::{Value, json};
use ulid::Ulid;

use crate::recording::Recording;
use crate::wait::{PATIENCE, left};

/// An error reply.
#[derive(Clone, Debug, PartialEq)]
pub struct RpcError {
    pub code: i64,
    pub message: String,
    pub data: Value,
}

impl RpcError {
    /// `data.kind`; empty where JSON-RPC has a code of its own.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.data["kind"].as_str().unwrap_or_default()
    }
}

impl fmt::Display for RpcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.code, self.message, self.data)
    }
}

/// A call that was sent and not waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent(u64);

/// One connection.
#[derive(Clone, Debug)]
pub struct Client {
    wire: Arc<Mutex<Wire>>,
}

impl Client {
    #[must_use]
    #[track_caller]
    pub fn connect(socket: &Path) -> Self {
        Self::try_connect(socket)
            .unwrap_or_else(|error| panic!("connect to {}: {error}", socket.display()))
    }

    pub fn try_connect(socket: &Path) -> io::Result<Self> {
        let stream = UnixStream::connect(socket)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Self {
            wire: Arc::new(Mutex::new(Wire::new(stream))),
        })
    }

    /// Makes itself known as a script that may do all.
    #[track_caller]
    pub fn hello(&self) -> HelloResult {
        self.hello_as("test", Role::Driver)
    }

    #[track_caller]
    pub fn hello_as(&self, name: &str, role: Role) -> HelloResult {
        let params = HelloParams {
            protocol: ProtocolRange::OURS,
            client: ClientInfo {
                name: name.to_owned(),
                version: "0".to_owned(),
                kind: ClientKind::Script,
                tty: None,
            },
            role,
            secrets: BTreeMap::new(),
        };
        self.done::<Hello>(params)
    }

    /// Calls and waits for the reply. Events that come before it are kept for their followers.
    #[track_caller]
    pub fn call<M: Method>(&self, params: M::Params) -> Result<M::Result, RpcError> {
        let sent = self.send::<M>(params);
        self.reply::<M>(sent)
    }

    /// As [`Client::call`], where an error fails the test.
    #[track_caller]
    pub fn done<M: Method>(&self, params: M::Params) -> M::Result {
        self.call::<M>(params)
            .unwrap_or_else(|error| panic!("{} failed: {error}", M::NAME))
    }

    /// As [`Client::call`], where success fails the test.
    #[track_caller]
    pub fn refused<M: Method>(&self, params: M::Params) -> RpcError {
        match self.call::<M>(params) {
            Err(error) => error,
            Ok(_) => panic!("{} should have been refused", M::NAME),
        }
    }

    /// Sends a call and does not wait; [`Client::reply`] does.
    #[track_caller]
    pub fn send<M: Method>(&self, params: M::Params) -> Sent {
        let params = serde_json::to_value(params).expect("params have a JSON form");
        self.lock().send(M::NAME, &params)
    }

    /// Waits for the reply to a call that was sent.
    #[track_caller]
    pub fn reply<M: Method>(&self, sent: Sent) -> Result<M::Result, RpcError> {
        let value = self.lock().reply(sent)?;
        let shown = value.to_string();
        Ok(serde_json::from_value(value)
            .unwrap_or_else(|error| panic!("{} answered {shown}: {error}", M::NAME)))
    }

    /// Calls a method by name, for what the types cannot say.
    #[track_caller]
    pub fn call_raw(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        let mut wire = self.lock();
        let sent = wire.send(method, params);
        wire.reply(sent)
    }

    /// Writes these bytes and a line feed.
    #[track_caller]
    pub fn raw_line(&self, line: impl AsRef<[u8]>) {
        let mut bytes = line.as_ref().to_vec();
        bytes.push(b'\n');
        self.raw(&bytes).expect("the daemon takes the line");
    }

    /// Writes these bytes as they are.
    pub fn raw(&self, bytes: &[u8]) -> io::Result<()> {
        self.lock().stream.write_all(bytes)
    }

    /// The next line as it comes, without its line feed; `None` when the daemon closed the connection or the
    /// time is over.
    #[must_use]
    pub fn next_line(&self, limit: Duration) -> Option<String> {
        self.lock().next_line(Instant::now() + limit).ok().flatten()
    }

    /// Waits until the daemon closes the connection; what still came before is thrown away.
    #[track_caller]
    pub fn wait_closed(&self) {
        let deadline = Instant::now() + PATIENCE;
        let mut wire = self.lock();
        loop {
            match wire.next_line(deadline) {
                Ok(Some(_line)) => {}
                Ok(None) => return,
                Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                    panic!("the connection is still open after {PATIENCE:?}")
                }
                Err(_reset) => return,
            }
        }
    }

    /// Attaches with deltas.
    #[track_caller]
    pub fn attach(&self, id: ConversationId, since: Since) -> Follow {
        self.attach_with(AttachParams {
            id,
            since,
            deltas: true,
        })
    }

    #[track_caller]
    pub fn attach_with(&self, params: AttachParams) -> Follow {
        let subscription = self.done::<Attach>(params).subscription;
        Follow {
            wire: Arc::clone(&self.wire),
            subscription,
            seen: vec![],
        }
    }

    /// A new conversation.
    #[track_caller]
    pub fn create(&self) -> ConversationId {
        let params = CreateParams {
            title: None,
            model: None,
            cwd: "/".to_owned(),
        };
        self.done::<Create>(params).id
    }

    /// Asks, with a key that nobody else has.
    #[track_caller]
    pub fn ask(&self, conversation: ConversationId, text: &str) -> TurnId {
        self.done::<SendTurn>(question(conversation, text)).turn
    }

    /// Waits for the end of a turn.
    #[track_caller]
    pub fn wait_turn(&self, turn: TurnId) -> TurnRecord {
        let timeout_ms = u64::try_from(PATIENCE.as_millis()).ok();
        self.done::<Wait>(WaitParams { turn, timeout_ms })
    }

    /// Never reads again, but keeps the connection until the value is dropped.
    pub fn stop_reading(self) -> Silent {
        Silent { wire: self.wire }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Wire> {
        self.wire
            .lock()
            .expect("no call of this client panicked before")
    }
}

/// `turn/send` with a key that nobody else has.
#[must_use]
pub fn question(conversation: ConversationId, text: &str) -> SendParams {
    SendParams {
        conversation,
        text: text.to_owned(),
        idempotency_key: Ulid::new().to_string(),
        mode: SendMode::Queue,
        expected_turn: None,
        model: None,
        attachments: vec![],
    }
}

/// A connection whose client does not read.
#[derive(Debug)]
#[must_use = "dropped, the connection is closed"]
pub struct Silent {
    wire: Arc<Mutex<Wire>>,
}

impl Silent {
    /// Begins to read again.
    #[must_use]
    pub fn read_again(self) -> Client {
        Client { wire: self.wire }
    }
}

/// The events of one subscription, in the order they came.
#[derive(Debug)]
pub struct Follow {
    wire: Arc<Mutex<Wire>>,
    subscription: SubscriptionId,
    seen: Vec<Envelope>,
}

impl Follow {
    #[must_use]
    pub fn subscription(&self) -> SubscriptionId {
        self.subscription
    }

    /// All that was taken so far.
    #[must_use]
    pub fn events_so_far(&self) -> &[Envelope] {
        &self.seen
    }

    /// The next event; `None` when the connection is closed or `limit` is over.
    pub fn next_within(&mut self, limit: Duration) -> Option<Envelope> {
        let mut wire = self.wire.lock().expect("no call of this client panicked");
        let event = wire.next_event(self.subscription, Instant::now() + limit)?;
        self.seen.push(event.clone());
        Some(event)
    }

    /// Takes events up to the first that is wanted, and returns that one.
    #[track_caller]
    pub fn until(&mut self, wanted: impl Fn(&Envelope) -> bool) -> Envelope {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let limit = left(deadline).unwrap_or(Duration::from_millis(1));
            match self.next_within(limit) {
                Some(event) if wanted(&event) => return event,
                Some(_) => {}
                None => {
                    let kinds: Vec<&str> = self.seen.iter().map(|it| it.kind.as_str()).collect();
                    panic!("the event did not come; what came: {kinds:?}");
                }
            }
        }
    }

    /// Takes events up to the first of this kind.
    #[track_caller]
    pub fn until_kind(&mut self, kind: &str) -> Envelope {
        self.until(|it| it.kind == kind)
    }

    /// Takes events up to the end of this turn.
    #[track_caller]
    pub fn until_finished(&mut self, turn: TurnId) -> Envelope {
        self.until(|it| it.kind == "turnFinished" && it.turn == Some(turn))
    }

    /// What was taken so far, to be looked at or compared.
    #[must_use]
    pub fn recording(&self) -> Recording {
        Recording::of(self.seen.clone())
    }
}

impl Iterator for Follow {
    type Item = Envelope;

    fn next(&mut self) -> Option<Envelope> {
        self.next_within(PATIENCE)
    }
}

/// The connection, and what was read of it while somebody waited for something else.
#[derive(Debug)]
struct Wire {
    stream: UnixStream,
    unread: Vec<u8>,
    last_id: u64,
    replies: BTreeMap<u64, Value>,
    events: VecDeque<EventParams>,
}

impl Wire {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            unread: vec![],
            last_id: 0,
            replies: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    #[track_caller]
    fn send(&mut self, method: &str, params: &Value) -> Sent {
        self.last_id += 1;
        let id = self.last_id;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.stream
            .write_all(format!("{line}\n").as_bytes())
            .unwrap_or_else(|error| panic!("send {method}: {error}"));
        Sent(id)
    }

    #[track_caller]
    fn reply(&mut self, sent: Sent) -> Result<Value, RpcError> {
        let deadline = Instant::now() + PATIENCE;
        let reply = loop {
            if let Some(reply) = self.replies.remove(&sent.0) {
                break reply;
            }
            match self.next_line(deadline) {
                Ok(Some(line)) => self.sort(&line),
                Ok(None) => panic!("the daemon closed the connection before it answered"),
                Err(error) => panic!("no answer from the daemon: {error}"),
            }
        };
        assert_eq!("2.0", reply["jsonrpc"], "in {reply}");
        match reply.get("error") {
            None => Ok(reply["result"].clone()),
            Some(error) => Err(RpcError {
                code: error["code"].as_i64().expect("an error has a code"),
                message: error["message"].as_str().unwrap_or_default().to_owned(),
                data: error["data"].clone(),
            }),
        }
    }

    fn next_event(&mut self, of: SubscriptionId, deadline: Instant) -> Option<Envelope> {
        loop {
            if let Some(at) = self.events.iter().position(|it| it.subscription == of) {
                return self.events.remove(at).map(|it| it.event);
            }
            let line = self.next_line(deadline).ok()??;
            self.sort(&line);
        }
    }

    /// Puts a line where the one who waits for it looks.
    #[track_caller]
    fn sort(&mut self, line: &str) {
        let value: Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("not JSON from the daemon: {error}\n{line}"));
        if let Some(id) = value["id"].as_u64() {
            self.replies.insert(id, value);
        } else if value["method"] == NOTIFICATION {
            let event = serde_json::from_value(value["params"].clone())
                .unwrap_or_else(|error| panic!("not an event: {error}\n{line}"));
            self.events.push_back(event);
        } else {
            panic!("neither a reply to a call of ours nor an event: {line}");
        }
    }

    fn next_line(&mut self, deadline: Instant) -> io::Result<Option<String>> {
        let mut searched = 0;
        loop {
            if let Some(at) = self.unread[searched..].iter().position(|it| *it == b'\n') {
                let rest = self.unread.split_off(searched + at + 1);
                let mut line = std::mem::replace(&mut self.unread, rest);
                line.pop();
                return String::from_utf8(line)
                    .map(Some)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error));
            }
            searched = self.unread.len();
            let left = left(deadline).ok_or(io::ErrorKind::TimedOut)?;
            self.stream.set_read_timeout(Some(left))?;
            let mut piece = [0; 64 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return Ok(None),
                Ok(count) => self.unread.extend(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::thread;

    use aish_proto::daemon::Ping;
    use aish_proto::method::Empty;

    use super::*;

    /// A far side that answers each line it reads with the lines of `script`.
    fn against(script: &'static [&'static str]) -> Client {
        let (ours, theirs) = UnixStream::pair().unwrap();
        thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            for answer in script {
                lines.next().unwrap().unwrap();
                (&theirs).write_all(answer.as_bytes()).unwrap();
            }
        });
        Client {
            wire: Arc::new(Mutex::new(Wire::new(ours))),
        }
    }

    #[test]
    fn replies_find_their_calls_in_any_order() {
        let client = against(&[
            "",
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"error\":{\"code\":-31003,\"message\":\"no\",\"data\":{\"kind\":\"busy\"}}}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n",
        ]);
        let first = client.send::<Ping>(Empty {});
        let second = client.send::<Ping>(Empty {});
        assert_eq!(Ok(Empty {}), client.reply::<Ping>(first));
        let error = client.reply::<Ping>(second).unwrap_err();
        assert_eq!((-31003, "busy"), (error.code, error.kind()));
    }

    #[test]
    fn a_closed_connection_ends_the_lines() {
        let client = against(&["x\nhalf"]);
        client.raw_line("go");
        assert_eq!(Some("x"), client.next_line(PATIENCE).as_deref());
        assert_eq!(None, client.next_line(PATIENCE));
        client.wait_closed();
    }

    #[test]
    #[should_panic(expected = "neither a reply to a call of ours nor an event")]
    fn a_stray_line_fails_the_test() {
        let client = against(&["{\"jsonrpc\":\"2.0\",\"id\":null,\"result\":{}}\n"]);
        drop(client.call::<Ping>(Empty {}));
    }
}
