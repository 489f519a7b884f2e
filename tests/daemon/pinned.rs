//! Resources that a conversation has pinned, and what running calls say of themselves.

use aish_proto::attach::ReplayStart;
use aish_proto::event::ToolProgress;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::mcp::{
    List, Logs, McpConversationParams, Pin, Pinned, ResourcePinParams, ServerParams, ServerState,
    Unpin,
};
use aish_proto::method::Empty;
use aish_proto::turn::{Cancel, OnConfirm, Send, SendParams, StopReason, TurnParams};
use aish_testkit::client::question;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer as Said, Client, Daemon, Upstream, World, repository};

use crate::consent::call_id;

pub(crate) struct Scene {
    pub(crate) upstream: Upstream,
    pub(crate) world: World,
    pub(crate) daemon: Daemon,
}

impl Scene {
    fn new() -> Self {
        Self::with("watched")
    }

    /// With a server that does as this mode of the script says.
    pub(crate) fn with(mode: &str) -> Self {
        Self::of(mode, "")
    }

    /// The same with such a preset.
    pub(crate) fn of(mode: &str, preset: &str) -> Self {
        let (upstream, world) = (Upstream::start(), World::new());
        let script = repository::top().join("tests/data/mcp/stdio_server.py");
        world.write_config(&format!(
            "default_model = \"test\"\n{}\n[mcp.servers.n]\ncommand = \"python3\"\nargs = [{script:?}, {mode:?}]\n",
            upstream.preset("test", preset)
        ));
        let daemon = world.daemon().spawn();
        ready(&world.client());
        Self {
            upstream,
            world,
            daemon,
        }
    }

    /// The model calls this tool when it is asked, and says something of the result.
    fn model_calls(&self, tool: &'static str) {
        self.upstream.answer_with(move |request| {
            if request
                .messages()
                .last()
                .is_none_or(|(role, _)| role != "user")
            {
                return Said::text("done");
            }
            Said::stream().then_call(0, &call_id(), tool, "{}")
        });
    }
}

/// The newest question of the request that was sent last.
fn sent(upstream: &Upstream) -> String {
    let request = upstream.requests().pop().unwrap();
    let messages = request.messages();
    let user = messages.iter().rev().find(|(role, _)| role == "user");
    user.unwrap().1.clone()
}

fn ready(client: &Client) {
    until_true("the server is ready", || {
        let servers = client.done::<List>(Empty {}).servers;
        servers.iter().all(|it| it.state == ServerState::Ready)
    });
}

fn allowing(conversation: ConversationId, text: &str, tool: &str) -> SendParams {
    SendParams {
        on_confirm: Some(OnConfirm {
            allow: vec![tool.to_owned()],
            ..OnConfirm::default()
        }),
        ..question(conversation, text)
    }
}

fn asked(client: &Client, params: SendParams) -> TurnId {
    let turn = client.done::<Send>(params).turn;
    assert_eq!(Some(StopReason::End), client.wait_turn(turn).stop_reason);
    turn
}

pub(crate) fn pin(conversation: ConversationId, uri: &str) -> ResourcePinParams {
    ResourcePinParams {
        conversation,
        alias: "n".to_owned(),
        uri: uri.to_owned(),
    }
}

/// How often the server was asked so.
fn count(client: &Client, what: &str) -> usize {
    let alias = "n".to_owned();
    let log = client.done::<Logs>(ServerParams { alias }).text;
    log.lines().filter(|it| *it == what).count()
}

#[test]
fn a_pinned_resource_is_in_each_request_as_it_is_then() {
    let scene = Scene::new();
    let client = scene.world.client();
    let conversation = client.create();
    let refused = client.refused::<Pin>(pin(conversation, "gone://1"));
    assert_eq!(
        ("mcpFailed", "no resource gone://1"),
        (refused.kind(), refused.message.as_str())
    );
    let pinned = client.done::<Pin>(pin(conversation, "note://1")).pinned;
    assert_eq!("note://1", pinned[0].uri);
    let block =
        |version: u32| format!("<pinned name=\"@n:note://1\">\nversion {version}\n</pinned>\n\n");
    scene.upstream.answer(Said::text("one"));
    scene.upstream.answer(Said::text("two"));
    asked(&client, question(conversation, "first"));
    assert_eq!(block(0) + "first", sent(&scene.upstream));
    asked(&client, question(conversation, "second"));
    assert_eq!(block(0) + "second", sent(&scene.upstream));
    // The server would have told: it was not asked again.
    assert_eq!(1, count(&client, "resources/subscribe note://1"));
    assert_eq!(1, count(&client, "resources/read note://1"));
    // It changes while the turn runs, and the next request of the turn has it as it is.
    scene.model_calls("n__grow");
    asked(&client, allowing(conversation, "third", "n__grow"));
    assert_eq!(block(1) + "third", sent(&scene.upstream));
    assert_eq!(2, count(&client, "resources/read note://1"));
    // Other conversations have their own.
    scene.upstream.answer(Said::text("other"));
    asked(&client, question(client.create(), "elsewhere"));
    assert_eq!("elsewhere", sent(&scene.upstream));
    let left = client.done::<Unpin>(pin(conversation, "note://1")).pinned;
    assert!(left.is_empty());
    assert_eq!(1, count(&client, "resources/unsubscribe note://1"));
    scene.upstream.answer(Said::text("none"));
    asked(&client, question(conversation, "fourth"));
    assert_eq!("fourth", sent(&scene.upstream));
    let refused = client.refused::<Unpin>(pin(conversation, "note://1"));
    assert_eq!("notFound", refused.kind());
    scene.upstream.finish();
}

#[test]
fn a_pinned_resource_stays_over_a_restart_and_says_when_it_cannot_be_read() {
    let scene = Scene::new();
    let client = scene.world.client();
    let conversation = client.create();
    client.done::<Pin>(pin(conversation, "note://1"));
    scene.daemon.kill9();
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    scene.world.write_config(&format!(
        "{}\n[mcp.servers.n]\ncommand = \"python3\"\nargs = [{script:?}, \"dies_at_start\"]\n",
        scene.upstream.config("test")
    ));
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let params = McpConversationParams { conversation };
    assert_eq!(1, client.done::<Pinned>(params).pinned.len());
    scene.upstream.answer(Said::text("hm"));
    asked(&client, question(conversation, "why"));
    let said = sent(&scene.upstream);
    assert!(
        said.contains("[aish] it cannot be read now: MCP server n:") && said.ends_with("why"),
        "{said}"
    );
    scene.upstream.finish();
}

/// What a running call says is shown to whoever is attached, and kept nowhere.
#[test]
fn a_running_call_is_heard_by_all_who_are_attached() {
    let scene = Scene::new();
    let client = scene.world.client();
    let conversation = client.create();
    let other = scene.world.client();
    let mut follows = [&client, &other].map(|it| it.attach(conversation, ReplayStart::Now));
    scene.model_calls("n__steps");
    let turn = client
        .done::<Send>(allowing(conversation, "go", "n__steps"))
        .turn;
    for follow in &mut follows {
        let said: ToolProgress = follow.until_kind("toolProgress").read().unwrap();
        assert_eq!(
            ("n__steps", Some(3.0), Some(10.0)),
            (said.name.as_str(), said.progress, said.total)
        );
        assert_eq!(Some("step three"), said.message.as_deref());
        let said: ToolProgress = follow.until_kind("toolProgress").read().unwrap();
        assert_eq!(
            (Some("warning"), Some("slow")),
            (said.level.as_deref(), said.message.as_deref())
        );
    }
    client.done::<Cancel>(TurnParams { turn });
    client.wait_turn(turn);
    let mut late = client.attach(conversation, ReplayStart::Start);
    late.until_kind("replayComplete");
    let kinds = late.events_so_far().iter().map(|it| it.kind.clone());
    assert!(
        !kinds
            .collect::<Vec<_>>()
            .contains(&"toolProgress".to_owned())
    );
    scene.upstream.finish();
}
