//! A blocking connection to `aishd` that speaks the wire by hand: lines out, lines in.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use aish_proto::attach::{Attach, AttachParams, ReplayStart};
use aish_proto::conversation::{ConversationCreateParams, Create};
use aish_proto::daemon::{ClientInfo, ClientKind, Hello, HelloParams};
use aish_proto::id::ConversationId;
use aish_proto::method::{ClientRole, Method};
use aish_proto::turn::{Send, SendMode, SendParams};
use aish_proto::version::ProtocolRange;
use anyhow::Context as _;
use serde_json::{Value, json};
use ulid::Ulid;

#[derive(Debug)]
pub(crate) struct Link {
    lines: BufReader<UnixStream>,
}

impl Link {
    /// Connects and says hello.
    pub(crate) fn open(socket: &Path) -> anyhow::Result<Self> {
        let stream = UnixStream::connect(socket).context("connect to aishd")?;
        let mut link = Self {
            lines: BufReader::with_capacity(64 << 10, stream),
        };
        link.call::<Hello>(&HelloParams {
            protocol: ProtocolRange::OURS,
            client: ClientInfo {
                name: "bench".to_owned(),
                version: "0".to_owned(),
                kind: ClientKind::Script,
                tty: None,
            },
            role: ClientRole::Driver,
            secrets: BTreeMap::new(),
            environment: BTreeMap::new(),
            umask: None,
            tentative: false,
        })?;
        Ok(link)
    }

    /// The same without waiting for the reply, which is a line among others then.
    pub(crate) fn send_call<M: Method>(&mut self, params: &M::Params) -> anyhow::Result<()> {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": M::NAME, "params": params});
        let stream = self.lines.get_mut();
        Ok(stream.write_all(format!("{call}\n").as_bytes())?)
    }

    pub(crate) fn call<M: Method>(&mut self, params: &M::Params) -> anyhow::Result<M::Result> {
        self.send_call::<M>(params)?;
        loop {
            let line = self.line()?;
            let mut reply: Value = serde_json::from_str(&line)?;
            if reply.get("id").is_some() {
                let result = reply.get_mut("result").map(Value::take);
                let result = result.with_context(|| format!("{} was refused: {line}", M::NAME))?;
                return Ok(serde_json::from_value(result)?);
            }
        }
    }

    pub(crate) fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line)?;
        anyhow::ensure!(read > 0, "aishd closed the connection");
        Ok(line)
    }

    pub(crate) fn create(&mut self) -> anyhow::Result<ConversationId> {
        let (title, model, cwd) = (None, None, "/".to_owned());
        Ok(self
            .call::<Create>(&ConversationCreateParams {
                title,
                model,
                cwd,
                constraints: None,
                budget: None,
                temporary: false,
            })?
            .id)
    }

    /// Attaches, and reads until everything that there was has come.
    pub(crate) fn attach(&mut self, id: ConversationId, since: ReplayStart) -> anyhow::Result<()> {
        let deltas = true;
        self.call::<Attach>(&AttachParams { id, since, deltas })?;
        while !self.line()?.contains("\"kind\":\"replayComplete\"") {}
        Ok(())
    }

    pub(crate) fn send(&mut self, id: ConversationId, model: &str) -> anyhow::Result<()> {
        self.call::<Send>(&SendParams {
            conversation: id,
            text: "Say ok.".to_owned(),
            new: None,
            idempotency_key: Ulid::new().to_string(),
            mode: SendMode::Queue,
            expected_turn: None,
            model: Some(model.to_owned()),
            attachments: vec![],
            on_confirm: None,
            max_tool_depth: None,
            accept_cost: false,
        })?;
        Ok(())
    }

    /// The socket, for who goes on by himself. Whatever has been read already is dropped.
    pub(crate) fn into_stream(self) -> UnixStream {
        self.lines.into_inner()
    }
}
