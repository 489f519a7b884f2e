//! A daemon played by a test: a real socket, and lines that the test sends and expects one by one.

use std::path::PathBuf;

use aish_proto::envelope::Envelope;
use aish_proto::error::{ErrorData, ErrorKind};
use aish_proto::event::ClientEvent;
use aish_proto::id::{ClientId, ConversationId, Epoch, SubscriptionId, TurnId};
use aish_proto::limits;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixListener;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};

pub(crate) fn conversation() -> ConversationId {
    ConversationId::from_bytes([2; 16])
}

pub(crate) fn turn() -> TurnId {
    TurnId::from_bytes([3; 16])
}

pub(crate) fn epoch() -> Epoch {
    Epoch::from_bytes([1; 16])
}

fn subscription() -> SubscriptionId {
    SubscriptionId::from_bytes([4; 16])
}

pub(crate) struct GatewayPeer {
    listener: UnixListener,
    pub(crate) socket: PathBuf,
    _directory: tempfile::TempDir,
}

impl GatewayPeer {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("aishd.sock");
        Self {
            listener: UnixListener::bind(&socket).unwrap(),
            socket,
            _directory: directory,
        }
    }

    pub(crate) async fn accept(&self) -> PeerLink {
        let (stream, _) = self.listener.accept().await.unwrap();
        let (incoming, outgoing) = stream.into_split();
        PeerLink {
            lines: BufReader::new(incoming),
            outgoing,
        }
    }

    /// Accepts and answers hello.
    pub(crate) async fn greet(&self) -> PeerLink {
        let mut link = self.accept().await;
        let call = link.expect("daemon/hello").await;
        link.reply(&call, hello(&[])).await;
        link
    }
}

pub(crate) fn hello(wanted: &[&str]) -> Value {
    json!({
        "protocol": 2, "eventSchema": 1,
        "server": {"version": "9.9.9", "pid": 1, "startedAt": "2026-01-01T00:00:00Z"},
        "clientId": ClientId::from_bytes([5; 16]), "epoch": epoch(), "features": [],
        "limits": {"lineBytes": limits::LINE_TO_DAEMON_BYTES, "inputBytes": limits::INPUT_BYTES,
            "batchCalls": 16, "subscriptions": 32, "clients": 64, "queue": 16, "clientStallMs": 30000},
        "wantedSecrets": wanted,
    })
}

/// A request as it came.
#[derive(Debug)]
pub(crate) struct PeerRequest {
    id: Value,
    pub(crate) params: Value,
}

pub(crate) struct PeerLink {
    lines: BufReader<OwnedReadHalf>,
    outgoing: OwnedWriteHalf,
}

impl PeerLink {
    /// The next request, which must be of this method.
    #[track_caller]
    pub(crate) fn expect(&mut self, method: &str) -> impl Future<Output = PeerRequest> {
        let caller = std::panic::Location::caller();
        async move {
            let mut line = String::new();
            self.lines.read_line(&mut line).await.unwrap();
            let mut value: Value = serde_json::from_str(&line)
                .unwrap_or_else(|_| panic!("{caller}: {method} expected, the client hung up"));
            assert_eq!(method, value["method"], "{caller}: {line}");
            PeerRequest {
                id: value["id"].take(),
                params: value["params"].take(),
            }
        }
    }

    /// Waits until the client has gone; anything it still says is wrong.
    pub(crate) async fn expect_end(&mut self) {
        let mut line = String::new();
        // A client that leaves with events unread resets the connection.
        drop(self.lines.read_line(&mut line).await);
        assert_eq!("", line);
    }

    /// Answers nothing for as long as the client is there.
    pub(crate) async fn hang(&mut self) {
        let mut lines = Vec::new();
        drop(self.lines.read_to_end(&mut lines).await);
    }

    pub(crate) async fn line(&mut self, value: &Value) {
        let line = format!("{value}\n");
        // A client that has gone already is no failure of the script.
        drop(self.outgoing.write_all(line.as_bytes()).await);
    }

    pub(crate) async fn reply(&mut self, to: &PeerRequest, result: Value) {
        self.line(&json!({"jsonrpc": "2.0", "id": to.id, "result": result}))
            .await;
    }

    pub(crate) async fn refuse(
        &mut self,
        to: &PeerRequest,
        kind: ErrorKind,
        message: &str,
        hint: Option<&str>,
    ) {
        let data = ErrorData {
            kind,
            retryable: kind == ErrorKind::Overloaded,
            side_effect_possible: false,
            hint: hint.map(str::to_owned),
        };
        let error = json!({"code": kind.code(), "message": message, "data": data});
        self.line(&json!({"jsonrpc": "2.0", "id": to.id, "error": error}))
            .await;
    }

    /// An event of [`conversation`] and, where the kind has one, of [`turn`].
    pub(crate) async fn event(&mut self, seq: Option<u64>, kind: &str, data: Value) {
        let event = envelope(seq, kind, data);
        let params = json!({"subscription": subscription(), "event": event});
        self.line(&json!({"jsonrpc": "2.0", "method": "event", "params": params}))
            .await;
    }

    pub(crate) async fn flood(&mut self, bytes: usize) {
        for _ in 0..bytes.div_ceil(1 << 16) {
            if self.outgoing.write_all(&[b'x'; 1 << 16]).await.is_err() {
                return;
            }
        }
    }

    /// Answers `conversation/attach` and sends what comes first; gives back `since`.
    pub(crate) async fn attach(&mut self, last_seq: u64, running: Value) -> Value {
        let call = self.expect("conversation/attach").await;
        self.attached(&call, last_seq, running).await;
        call.params["since"].clone()
    }

    pub(crate) async fn attached(&mut self, call: &PeerRequest, last_seq: u64, running: Value) {
        self.reply(call, json!({"subscription": subscription()}))
            .await;
        self.event(None, "snapshot", snapshot(last_seq, running))
            .await;
    }

    /// Answers `turn/send` with [`turn`] at this position.
    pub(crate) async fn sent(&mut self, seq: u64, position: u32) -> Value {
        let call = self.expect("turn/send").await;
        let result = json!({"turn": turn(), "seq": seq, "position": position, "duplicate": false});
        self.reply(&call, result).await;
        call.params
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it reads as the json! that is given"
)]
pub(crate) fn envelope(seq: Option<u64>, kind: &str, data: Value) -> Value {
    let of_turn = !matches!(
        kind,
        "snapshot" | "presence" | "state" | "replayComplete" | "resyncRequired"
    );
    let mut event = json!({"v": 1, "epoch": epoch(), "conversation": conversation(), "seq": seq,
        "ts": "2026-01-01T00:00:00Z", "kind": kind, "data": data});
    if of_turn {
        event["turn"] = json!(turn());
    }
    event
}

/// The same, as a client reads it.
pub(crate) fn event(envelope: Value) -> ClientEvent {
    serde_json::from_value::<Envelope>(envelope).unwrap().into()
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "it reads as the json! that is given"
)]
pub(crate) fn snapshot(last_seq: u64, running: Value) -> Value {
    json!({"title": "t", "state": "running", "model": null, "cwd": "/", "lastSeq": last_seq,
        "running": running, "queue": [], "held": false, "pendingConfirms": [],
        "presence": [{"clientId": ClientId::from_bytes([5; 16]), "name": "aish", "tty": "pts/3", "pid": 1, "role": "driver"}]})
}

pub(crate) fn status(title: &str, byte: u8) -> Value {
    json!({"id": ConversationId::from_bytes([byte; 16]), "title": title, "state": "idle", "queued": 0,
        "turn": null, "model": null, "cwd": "/", "archived": false, "lastSeq": 1, "turns": 1, "attached": 0,
        "usage": {}, "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z"})
}
