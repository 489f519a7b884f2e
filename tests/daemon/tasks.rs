//! Calls that their MCP server goes on with by itself: they outlive the daemon, are called once, and called off.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{Answer as AnswerConfirm, Decision};
use aish_proto::event::{Status, ToolProgress, ToolResult};
use aish_proto::form::FormContent;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::mcp::List as ServerList;
use aish_proto::method::Empty;
use aish_proto::turn::{Cancel, StopReason, TurnParams};
use aish_testkit::wait::until_true;
use aish_testkit::{Answer as Said, Client, Daemon, Upstream, World, repository};
use serde_json::{Value, json};

use crate::consent::{call_id, pending, with};
use crate::tools::events;

/// A server that outlives the daemon.
struct TaskServer {
    child: Child,
    port: u16,
}

impl Drop for TaskServer {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _reaped = self.child.wait();
    }
}

impl TaskServer {
    fn start() -> Self {
        let script = repository::top().join("tests/data/mcp/http_server.py");
        let mut child = Command::new("python3")
            .arg(script)
            .arg("tasks")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let port = line.trim().parse().unwrap();
        Self { child, port }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// How often it was asked for this.
    fn count(&self, method: &str) -> usize {
        let log: Vec<(Value, Value, Value)> = serde_json::from_str(&self.get("/log")).unwrap();
        log.iter().filter(|(it, ..)| *it == json!(method)).count()
    }
}

struct Scene {
    server: TaskServer,
    upstream: Upstream,
    world: World,
    daemon: Option<Daemon>,
}

impl Scene {
    fn new() -> Self {
        let (server, upstream, world) = (TaskServer::start(), Upstream::start(), World::new());
        let (config, port) = (upstream.config("test"), server.port);
        world.write_config(&format!(
            "{config}\n[mcp.auto_approve]\n\"t__*\" = true\n[mcp.servers.t]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"
        ));
        let daemon = Some(world.daemon().spawn());
        let client = world.client();
        until_true("the server's tools", || {
            let servers = client.done::<ServerList>(Empty {}).servers;
            servers.iter().any(|it| it.tools > 0)
        });
        Self {
            server,
            upstream,
            world,
            daemon,
        }
    }

    /// The daemon dies, and another one begins.
    fn killed(&mut self) {
        self.daemon.take().unwrap().kill9();
        self.daemon = Some(self.world.daemon().spawn());
    }

    fn model_calls(&self, tool: &str) {
        let tool = tool.to_owned();
        self.upstream.answer_with(move |request| {
            let messages = request.messages();
            if messages.last().is_none_or(|(role, _)| role != "user") {
                return Said::text("So be it.");
            }
            Said::stream().then_call(0, &call_id(), &tool, "{}")
        });
    }

    /// The model calls this tool, and the turn waits for its task.
    fn asks(&self, client: &Client, tool: &str) -> (ConversationId, TurnId) {
        self.model_calls(tool);
        let conversation = client.create();
        let mut follow = client.attach(conversation, ReplayStart::Start);
        let turn = client.ask(conversation, "do it");
        let told = follow.until(|it| {
            let status = it.read::<Status>();
            status.is_some_and(|it| it.text.contains("works on it as task"))
        });
        let told = told.read::<Status>().unwrap();
        assert_eq!("its server works on it as task t1", told.text);
        (conversation, turn)
    }

    fn result(&self, client: &Client, conversation: ConversationId) -> ToolResult {
        let mut results = events::<ToolResult>(client, conversation);
        assert_eq!(1, results.len(), "a call has one reply");
        results.remove(0)
    }
}

/// What happens to a daemon between the beginning of a task and its end.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Stopped,
    Killed,
    KilledTwice,
}

/// The next daemon asks for the task, the model hears what came of it, and the server was called once.
#[test]
fn a_task_outlives_the_daemon() {
    for fate in [Fate::Stopped, Fate::Killed, Fate::KilledTwice] {
        let mut scene = Scene::new();
        let client = scene.world.client();
        let (conversation, turn) = scene.asks(&client, "t__long");
        drop(client);
        let times = match fate {
            Fate::Stopped | Fate::Killed => 1,
            Fate::KilledTwice => 2,
        };
        for _ in 0..times {
            if matches!(fate, Fate::Stopped) {
                assert_eq!(0, scene.daemon.take().unwrap().terminate());
                scene.daemon = Some(scene.world.daemon().spawn());
            } else {
                scene.killed();
            }
            let asked = scene.server.count("tasks/get");
            until_true("the next daemon asks for it", || {
                scene.server.count("tasks/get") > asked
            });
        }
        let client = scene.world.client();
        scene.server.get("/finish");
        let record = client.wait_turn(turn);
        assert_eq!(Some(StopReason::End), record.stop_reason, "{fate:?}");
        let result = scene.result(&client, conversation);
        assert!(result.ok, "{fate:?} {result:?}");
        assert!(result.content.starts_with("done after "), "{result:?}");
        assert_eq!(1, scene.server.count("tools/call"), "{fate:?}");
        assert_eq!(0, scene.server.count("tasks/cancel"), "{fate:?}");
        // Nothing is left of it that the conversation would go on with.
        let next = client.wait_turn(client.ask(conversation, "and?"));
        assert_eq!(Some(StopReason::End), next.stop_reason);
    }
}

#[test]
fn a_cancelled_turn_calls_its_task_off() {
    let mut scene = Scene::new();
    let client = scene.world.client();
    let (conversation, turn) = scene.asks(&client, "t__long");
    // Also one that another daemon began.
    drop(client);
    scene.killed();
    let client = scene.world.client();
    let asked = scene.server.count("tasks/get");
    until_true("the next daemon asks for it", || {
        scene.server.count("tasks/get") > asked
    });
    client.done::<Cancel>(TurnParams { turn });
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Cancelled), record.stop_reason);
    let result = scene.result(&client, conversation);
    assert!(result.content.contains("effect of this call is unknown"));
    until_true("it is called off", || {
        scene.server.count("tasks/cancel") == 1
    });
}

/// A person is asked again by the next daemon, and the first question is over.
#[test]
fn what_a_task_wants_to_know_is_asked_over_a_crash() {
    let mut scene = Scene::new();
    let client = scene.world.person("pts/1");
    let (conversation, turn) = scene.asks(&client, "t__asks");
    let first = pending(&client, conversation);
    drop(client);
    scene.killed();
    let client = scene.world.person("pts/1");
    let again = pending(&client, conversation);
    assert_ne!(first.request.confirm, again.request.confirm);
    let mut answer = with(&again, Decision::AllowOnce);
    let name = json!({"name": "Ada"});
    answer.content = Some(FormContent(name.as_object().unwrap().clone()));
    client.done::<AnswerConfirm>(answer);
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::End), record.stop_reason);
    let result = scene.result(&client, conversation);
    let hello = "hello {'action': 'accept', 'content': {'name': 'Ada'}}";
    assert_eq!(hello, result.content);
    assert_eq!(1, scene.server.count("tools/call"));
}

/// Where a server is another one by then, the model and the person are told the task's id and that nobody knows.
#[test]
fn a_task_of_a_server_that_has_gone_is_told_by_its_id() {
    let mut scene = Scene::new();
    let client = scene.world.client();
    let (conversation, turn) = scene.asks(&client, "t__long");
    drop(client);
    scene.daemon.take().unwrap().kill9();
    let config = fs::read_to_string(scene.world.config_file()).unwrap();
    let port = scene.server.port.to_string();
    scene.world.write_config(&config.replace(&port, "1"));
    scene.daemon = Some(scene.world.daemon().spawn());
    let client = scene.world.client();
    client.wait_turn(turn);
    let result = scene.result(&client, conversation);
    assert_eq!(
        "[aish] tool transport error: MCP server t, task t1: t is another MCP server by now; the effect of this call is unknown",
        result.content
    );
}

/// What it says of itself is a row of its call.
#[test]
fn what_a_task_says_of_itself_is_shown() {
    let scene = Scene::new();
    let client = scene.world.client();
    scene.model_calls("t__long");
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let turn = client.ask(conversation, "do it");
    let said: ToolProgress = follow.until_kind("toolProgress").read().unwrap();
    assert_eq!(Some("begun"), said.message.as_deref());
    let said: ToolProgress = follow.until_kind("toolProgress").read().unwrap();
    assert_eq!(Some("still at it"), said.message.as_deref());
    scene.server.get("/finish");
    client.wait_turn(turn);
}
