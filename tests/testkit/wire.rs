//! One connection to the daemon in lines: what is sent, and what was read while somebody waited for something else.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use aish_proto::envelope::{Envelope, EventParams, NOTIFICATION};
use aish_proto::id::SubscriptionId;
use serde_json::{Value, json};

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

/// The connection, and what was read of it while somebody waited for something else.
#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) stream: UnixStream,
    unread: Vec<u8>,
    last_id: u64,
    replies: BTreeMap<u64, Value>,
    events: VecDeque<EventParams>,
}

impl Wire {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            unread: vec![],
            last_id: 0,
            replies: BTreeMap::new(),
            events: VecDeque::new(),
        }
    }

    #[track_caller]
    pub(crate) fn send(&mut self, method: &str, params: &Value) -> Sent {
        self.last_id += 1;
        let id = self.last_id;
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.stream
            .write_all(format!("{line}\n").as_bytes())
            .unwrap_or_else(|error| panic!("send {method}: {error}"));
        Sent(id)
    }

    #[track_caller]
    pub(crate) fn reply(&mut self, sent: Sent) -> Result<Value, RpcError> {
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

    pub(crate) fn next_event(&mut self, of: SubscriptionId, deadline: Instant) -> Option<Envelope> {
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

    pub(crate) fn next_line(&mut self, deadline: Instant) -> io::Result<Option<String>> {
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
