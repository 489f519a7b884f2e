//! An MCP client's end of a gateway's pipes, and the worlds that gateways are tried in.

use aish_proto::confirm::{Answer, AnswerParams, ConfirmListParams, ConfirmRecord, Decision, List};
use aish_proto::conversation::{self, ListState};
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{Client, Daemon, Running, World, repository};
use serde_json::{Value, json};

use crate::shell::shell;

pub(crate) const STATED: &str = "io.modelcontextprotocol/protocolVersion";

pub(crate) fn data(name: &str) -> String {
    let script = repository::top().join("tests/data/mcp").join(name);
    script.display().to_string()
}

/// Servers as the configuration has them: alias, script, mode.
pub(crate) fn servers(all: &[(&str, &str, &str)]) -> String {
    let tables = all.iter().map(|(alias, script, mode)| {
        format!(
            "[mcp.servers.{alias}]\ncommand = \"python3\"\nargs = [{:?}, {mode:?}]\n",
            data(script)
        )
    });
    tables.collect()
}

pub(crate) const NOTES: (&str, &str, &str) = ("notes", "stdio_server.py", "example");
pub(crate) const PLAIN: (&str, &str, &str) = ("plain", "stdio_server.py", "plain");

pub(crate) fn world(all: &[(&str, &str, &str)], more: &str) -> (World, Daemon) {
    let world = World::new();
    world.write_config(&format!("{more}\n{}", servers(all)));
    let daemon = world.daemon().spawn();
    ready(&world, all.len());
    (world, daemon)
}

pub(crate) fn ready(world: &World, count: usize) {
    until_true("the servers are ready", || {
        let list = shell(world, "aishctl mcp ls").run();
        list.out().matches(" ready ").count() == count
    });
}

/// A gateway, and an MCP client's end of its pipes.
pub(crate) struct Gateway {
    pub(crate) program: Running,
    /// What came before somebody asked for it.
    pub(crate) early: Vec<Value>,
}

impl Gateway {
    pub(crate) fn start(world: &World, args: &[&str]) -> Self {
        let args: Vec<&str> = ["mcp", "serve"].iter().chain(args).copied().collect();
        Self {
            program: world.ctl_spawn(&args),
            early: vec![],
        }
    }

    /// The handshake of the older era.
    pub(crate) fn session(world: &World, args: &[&str]) -> Self {
        let mut gateway = Self::start(world, args);
        gateway.send(
            &json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "a client", "version": "1"}}}),
        );
        let said = gateway.answer(&json!(0));
        assert_eq!("2025-06-18", said["result"]["protocolVersion"], "{said}");
        assert_eq!(
            json!(true),
            said["result"]["capabilities"]["tools"]["listChanged"]
        );
        assert_eq!("aish", said["result"]["serverInfo"]["name"]);
        gateway.tell("notifications/initialized", &json!({}));
        gateway
    }

    #[track_caller]
    pub(crate) fn send(&mut self, message: &Value) {
        self.program.write(&format!("{message}\n"));
    }

    pub(crate) fn ask(&mut self, id: impl Into<Value>, method: &str, params: &Value) {
        let id: Value = id.into();
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
    }

    pub(crate) fn tell(&mut self, method: &str, params: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    pub(crate) fn call(&mut self, id: i64, name: &str, arguments: &Value) {
        self.ask(
            id,
            "tools/call",
            &json!({"name": name, "arguments": arguments}),
        );
    }

    /// The next message that is wanted; what comes before it is kept.
    #[track_caller]
    pub(crate) fn until(&mut self, wanted: impl Fn(&Value) -> bool) -> Value {
        if let Some(at) = self.early.iter().position(&wanted) {
            return self.early.remove(at);
        }
        loop {
            let line = self.program.line().expect("the gateway has gone");
            let message: Value = serde_json::from_str(&line).expect("only JSON is said");
            if wanted(&message) {
                return message;
            }
            self.early.push(message);
        }
    }

    #[track_caller]
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        self.until(|it| it.get("method").is_none() && it["id"] == *id)
    }

    #[track_caller]
    pub(crate) fn told(&mut self, method: &str) -> Value {
        self.until(|it| it["method"] == method)
    }

    #[track_caller]
    pub(crate) fn names(&mut self, id: i64, params: &Value) -> Vec<String> {
        self.ask(id, "tools/list", params);
        let said = self.answer(&json!(id));
        let tools = said["result"]["tools"].as_array().expect("a list");
        let names = tools
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned());
        names.collect()
    }

    /// The end of its input; it leaves, and has said each of its answers once.
    #[track_caller]
    pub(crate) fn end(mut self) {
        self.program.close_stdin();
        let finished = self.program.wait().ok();
        let mut ids: Vec<Value> = vec![];
        for line in finished.out().lines() {
            let message: Value = serde_json::from_str(line).unwrap();
            if message.get("method").is_none() {
                let id = message["id"].clone();
                assert!(
                    id.is_null() || !ids.contains(&id),
                    "{id} was answered twice"
                );
                ids.push(id);
            }
        }
    }
}

/// The questions that wait.
pub(crate) fn asked(client: &Client, count: usize) -> Vec<ConfirmRecord> {
    until("a question", PATIENCE, || {
        let found = client
            .done::<List>(ConfirmListParams { conversation: None })
            .confirms;
        (found.len() == count).then_some(found)
    })
}

pub(crate) fn decide(client: &Client, confirm: &ConfirmRecord, decision: Decision) {
    client.done::<Answer>(AnswerParams {
        confirm: confirm.request.confirm,
        decision,
        digest: confirm.request.digest.clone(),
        arguments: None,
        reason: (decision == Decision::Deny).then(|| "not today".to_owned()),
        changes: None,
        only: vec![],
        hunks: None,
        content: None,
    });
}

/// Says that all of a provider may run here, at the one question that waits.
pub(crate) fn allow_all(client: &Client) {
    let confirm = asked(client, 1).remove(0);
    decide(client, &confirm, Decision::AllowProvider);
}

pub(crate) fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"]
        .as_str()
        .unwrap_or_default()
}

pub(crate) fn conversations(client: &Client) -> Vec<String> {
    let params = conversation::ConversationListParams {
        state: ListState::All,
        ..conversation::ConversationListParams::default()
    };
    let list = client.done::<conversation::List>(params).conversations;
    list.into_iter().map(|it| it.title).collect()
}
