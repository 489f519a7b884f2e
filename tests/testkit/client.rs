//! A raw client: lines of JSON-RPC over the socket, written and read by hand, so that a test sees what is
//! really there. A client belongs to one thread; it reads only when it is asked to.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aish_proto::attach::{Attach, AttachParams, ReplayStart};
use aish_proto::conversation::{ConversationCreateParams, Create};
use aish_proto::daemon::{ClientInfo, ClientKind, Hello, HelloParams, HelloResult};
use aish_proto::id::{ConversationId, SubscriptionId, TurnId};
use aish_proto::method::{ClientRole, Method};
use aish_proto::turn::{Send as SendTurn, SendMode, SendParams, TurnRecord, Wait, WaitParams};
use aish_proto::version::ProtocolRange;
use serde_json::Value;
use ulid::Ulid;

use crate::follow::Follow;
use crate::wait::PATIENCE;
use crate::wire::{RpcError, Sent, Wire};

/// One connection.
#[derive(Clone, Debug)]
pub struct Client {
    wire: Arc<Mutex<Wire>>,
}

impl Client {
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
        self.hello_as("test", ClientRole::Driver)
    }

    #[track_caller]
    pub fn hello_as(&self, name: &str, role: ClientRole) -> HelloResult {
        self.introduce(name, role, None)
    }

    /// Makes itself known as a person at a terminal.
    #[track_caller]
    pub fn hello_at(&self, tty: &str) -> HelloResult {
        self.introduce("test", ClientRole::Driver, Some(tty))
    }

    #[track_caller]
    fn introduce(&self, name: &str, role: ClientRole, tty: Option<&str>) -> HelloResult {
        self.introduce_with(name, role, tty, BTreeMap::new())
    }

    /// Makes itself known as a person at a terminal whose programs have these variables.
    #[track_caller]
    pub fn hello_with(&self, tty: &str, environment: &[(&str, &str)]) -> HelloResult {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let environment = environment.iter().map(own).collect();
        self.introduce_with("test", ClientRole::Driver, Some(tty), environment)
    }

    #[track_caller]
    fn introduce_with(
        &self,
        name: &str,
        role: ClientRole,
        tty: Option<&str>,
        environment: BTreeMap<String, String>,
    ) -> HelloResult {
        let params = HelloParams {
            protocol: ProtocolRange::OURS,
            client: ClientInfo {
                name: name.to_owned(),
                version: "0".to_owned(),
                kind: ClientKind::Script,
                tty: tty.map(str::to_owned),
            },
            role,
            secrets: BTreeMap::new(),
            environment,
            umask: Some(0o022),
            tentative: false,
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

    /// A subscription of this connection that was begun by hand.
    pub fn follow(&self, subscription: SubscriptionId) -> Follow {
        Follow {
            wire: Arc::clone(&self.wire),
            subscription,
            seen: vec![],
        }
    }

    /// Attaches with deltas.
    #[track_caller]
    pub fn attach(&self, id: ConversationId, since: ReplayStart) -> Follow {
        self.attach_with(AttachParams {
            id,
            since,
            deltas: true,
        })
    }

    #[track_caller]
    pub fn attach_with(&self, params: AttachParams) -> Follow {
        self.follow(self.done::<Attach>(params).subscription)
    }

    /// A new conversation.
    #[track_caller]
    pub fn create(&self) -> ConversationId {
        let params = ConversationCreateParams {
            title: None,
            model: None,
            cwd: "/".to_owned(),
            constraints: None,
            budget: None,
            temporary: false,
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
pub fn question(conversation: ConversationId, text: &str) -> SendParams {
    SendParams {
        conversation,
        text: text.to_owned(),
        new: None,
        idempotency_key: Ulid::new().to_string(),
        mode: SendMode::Queue,
        expected_turn: None,
        model: None,
        attachments: vec![],
        on_confirm: None,
        max_tool_depth: None,
        accept_cost: false,
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
    pub fn read_again(self) -> Client {
        Client { wire: self.wire }
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
