//! Lists of calls that depend on each other: a real server, the same gate, the same log, and kill -9 in the middle.

use std::collections::BTreeMap;

use aish_proto::confirm::{Decision, Denial};
use aish_proto::conversation::ConversationCreateParams;
use aish_proto::event::{AssistantMessage, ToolCall, ToolResult, UserMessage};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::model::ModelSource;
use aish_proto::tool::{Run, ToolRunParams};
use aish_proto::turn::{
    AgainParams, Cancel, Continue, OnConfirm, Retry, Send, SendMode, StopReason, TurnParams,
    UnattendedAction,
};
use aish_testkit::client::question;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer as Said, Asked as _, Client};
use serde_json::{Value, json};
use ulid::Ulid;

use crate::consent::pending;
use crate::tools::{Scene, answer, events};

/// Everything of the server runs unasked.
pub(crate) const ALL: &str = "[mcp.auto_approve]\n\"c__*\" = true\n\"aish__*\" = true\n";

#[expect(
    clippy::needless_pass_by_value,
    reason = "a call is read with its arguments in it"
)]
pub(crate) fn call(id: &str, tool: &str, arguments: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": arguments}})
}

fn after(id: &str, tool: &str, ids: &[&str]) -> Value {
    let mut call = call(id, tool, json!({}));
    call["after"] = json!(ids);
    call
}

pub(crate) fn params(conversation: ConversationId, calls: &[Value]) -> ToolRunParams {
    ToolRunParams {
        conversation,
        calls: calls.to_vec(),
        new: None,
        idempotency_key: Ulid::new().to_string(),
        mode: SendMode::Queue,
        on_confirm: None,
    }
}

/// A conversation of its own.
pub(crate) fn here() -> ConversationCreateParams {
    ConversationCreateParams {
        cwd: "/".to_owned(),
        ..ConversationCreateParams::default()
    }
}

#[track_caller]
pub(crate) fn run(client: &Client, conversation: ConversationId, calls: &[Value]) -> TurnId {
    client.done::<Run>(params(conversation, calls)).turn
}

pub(crate) fn again(conversation: ConversationId, turn: TurnId) -> AgainParams {
    AgainParams {
        conversation,
        turn: Some(turn),
        idempotency_key: Ulid::new().to_string(),
        model: None,
        accept_cost: false,
    }
}

/// Ids of the calls, a message each.
fn waves(client: &Client, conversation: ConversationId) -> Vec<Vec<String>> {
    let messages = events::<AssistantMessage>(client, conversation);
    let ids = |it: AssistantMessage| it.tool_calls.into_iter().map(|it| it.id).collect();
    messages.into_iter().map(ids).collect()
}

pub(crate) fn result(client: &Client, conversation: ConversationId, call: &str) -> ToolResult {
    let results = events::<ToolResult>(client, conversation);
    let mut own = results.into_iter().filter(|it| it.call == call);
    let first = own.next().expect("a reply");
    assert!(own.next().is_none(), "one reply");
    first
}

/// What a call was started with, each time.
pub(crate) fn started(client: &Client, conversation: ConversationId, call: &str) -> Vec<Value> {
    let calls = events::<ToolCall>(client, conversation);
    let own = calls.into_iter().filter(|it| it.call == call);
    own.map(|it| serde_json::from_str(&it.arguments).unwrap())
        .collect()
}

#[test]
fn results_go_into_arguments_and_no_model_is_asked() {
    let Some(scene) = Scene::new(ALL) else { return };
    let client = scene.world.client();
    let conversation = client.create();
    let calls = [
        call(
            "sum",
            "c__echo",
            json!({"all": {"$result": "a"}, "part": [{"$result": "a", "pointer": "/list/1"}]}),
        ),
        call("a", "c__echo", json!({"list": [1, {"x": "two"}]})),
        after("last", "c__count", &["sum"]),
    ];
    let turn = run(&client, conversation, &calls);
    let record = client.wait_turn(turn);
    assert_eq!(
        (Some(StopReason::End), "all 3 calls succeeded", None),
        (record.stop_reason, record.text.as_str(), record.model)
    );
    let waves = waves(&client, conversation);
    assert_eq!(vec![vec!["a"], vec!["sum"], vec!["last"]], waves);
    assert_eq!(
        vec![json!({"all": "{\"list\": [1, {\"x\": \"two\"}]}", "part": [{"x": "two"}]})],
        started(&client, conversation, "sum")
    );
    assert_eq!((1, 0), (scene.count(), scene.upstream.requests().len()));
    let asked = events::<UserMessage>(&client, conversation).remove(0);
    assert_eq!("run 3 calls: c__echo, c__echo, c__count", asked.text);
    let written: Vec<&str> = asked.calls.iter().map(|it| it.id.as_str()).collect();
    assert_eq!(vec!["sum", "a", "last"], written);
    let begun = events::<aish_proto::event::TurnStarted>(&client, conversation).remove(0);
    assert_eq!(ModelSource::None, begun.source);
    // It is an exchange like any other: the next request holds it, and the upstream examines each request.
    scene.upstream.answer(Said::text("I see."));
    let next = client.wait_turn(client.ask(conversation, "what was that?"));
    assert_eq!("I see.", next.text);
    let request = scene.upstream.requests().remove(0);
    let roles: Vec<String> = request.messages().into_iter().map(|it| it.0).collect();
    let roles: Vec<&str> = roles.iter().map(String::as_str).collect();
    assert!(
        roles.ends_with(&[
            "user",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "assistant",
            "tool",
            "user"
        ]),
        "{roles:?}"
    );
    let offered = request.json()["tools"].to_string();
    assert!(
        !offered.contains("read_resource"),
        "a model is not offered what is for lists: {offered}"
    );
    scene.upstream.finish();
}

/// An argument gets the whole of a result that the context gets the ends of.
#[test]
fn a_long_result_goes_into_an_argument_whole() {
    let Some(scene) = Scene::new(ALL) else { return };
    let client = scene.world.client();
    let conversation = client.create();
    let calls = [
        call("long", "c__long", json!({})),
        call("b", "c__echo", json!({"text": {"$result": "long"}})),
        call(
            "c",
            "c__echo",
            json!({"x": {"$result": "long", "pointer": ""}}),
        ),
    ];
    let record = client.wait_turn(run(&client, conversation, &calls));
    assert_eq!("2 of 3 calls succeeded; not: c", record.text);
    let whole: String = (0..20_000).map(|it| format!("line {it}\n")).collect();
    assert_eq!(
        vec![json!({"text": whole})],
        started(&client, conversation, "b")
    );
    let reply = result(&client, conversation, "c");
    assert!(
        reply
            .content
            .starts_with("[aish] not run: the result of \"long\" is not JSON: "),
        "{}",
        reply.content
    );
    assert!(started(&client, conversation, "c").is_empty());
}

/// The same gate: who is asked, what a no does, and what then becomes of the rest.
#[test]
fn people_are_asked_about_the_calls_of_a_list() {
    let Some(scene) = Scene::new("") else { return };
    let client = scene.world.person("pts/3");
    let conversation = client.create();
    let calls = [
        call("a", "c__echo", json!({"n": 7})),
        call(
            "b",
            "c__count",
            json!({"of": {"$result": "a", "pointer": "/n"}}),
        ),
        after("c", "c__count", &["b"]),
        call("d", "c__fail", json!({})),
    ];
    let turn = run(&client, conversation, &calls);
    answer(
        &client,
        &pending(&client, conversation),
        Decision::AllowOnce,
    );
    let fails = pending(&client, conversation);
    assert_eq!("d", fails.request.call().id);
    answer(&client, &fails, Decision::AllowOnce);
    let count = pending(&client, conversation);
    assert_eq!(
        ("c__count", "{\"of\":7}"),
        (
            count.request.call().tool.as_str(),
            count.request.call().arguments.as_str()
        )
    );
    answer(&client, &count, Decision::Deny);
    let record = client.wait_turn(turn);
    assert_eq!(
        (
            Some(StopReason::End),
            1,
            "1 of 4 calls succeeded; not: b, c, d"
        ),
        (record.stop_reason, record.denied, record.text.as_str())
    );
    let reply = |id| result(&client, conversation, id);
    assert_eq!(Some(Denial::Person), reply("b").denied);
    assert_eq!(
        "[aish] not run: it needs \"b\", which did not succeed",
        reply("c").content
    );
    assert_eq!("it did not work", reply("d").content);
    assert_eq!(0, scene.count());
    let nobody = OnConfirm {
        then: UnattendedAction::Deny,
        allow: vec!["c__echo".to_owned()],
        timeout_ms: None,
    };
    let params = ToolRunParams {
        on_confirm: Some(nobody),
        ..params(conversation, &calls[..2])
    };
    let record = client.wait_turn(client.done::<Run>(params).turn);
    assert_eq!(
        (1, "1 of 2 calls succeeded; not: b"),
        (record.denied, record.text.as_str())
    );
    assert_eq!(0, scene.count());
}

/// Nothing of a list that cannot run is kept, the conversation that it would have made included.
#[test]
fn a_list_that_cannot_run_leaves_no_trace() {
    let Some(scene) = Scene::new(ALL) else { return };
    let client = scene.world.client();
    let conversation = client.create();
    let uses = |id: &str| json!({"x": {"$result": id}});
    let cycle = [
        call("a", "c__echo", uses("b")),
        call("b", "c__echo", uses("a")),
    ];
    let many: Vec<Value> = (0..129)
        .map(|it| call(&it.to_string(), "c__echo", json!({})))
        .collect();
    let long = call("a", "c__echo", json!({"x": "x".repeat(600 << 10)}));
    for (calls, code, why) in [
        (
            &cycle[..],
            -32602,
            "these calls wait for each other: a → b → a",
        ),
        (&cycle[..1], -32602, "no call of the list has the id \"b\""),
        (
            &[many[1].clone(), many[1].clone()],
            -32602,
            "the id is that of call 1",
        ),
        (
            &[json!({"id": 1})],
            -32602,
            "call 1 (\"1\"): it has no \"params\"",
        ),
        (&[], -32602, "the list has no calls"),
        (
            &many[..],
            0,
            "the list has 129 calls; at most 128 are taken",
        ),
        (&[long], 0, "bytes long; at most 524288"),
        (
            &[many[1].clone(), call("b", "c__ehco", json!({}))],
            0,
            "call 2 (\"b\"): unknown tool c__ehco; nothing ran",
        ),
        (
            &[call("b", "nobody__x", json!({}))],
            0,
            "unknown tool nobody__x",
        ),
        (&[call("b", "x", json!({}))], 0, "unknown tool x"),
    ] {
        let refused = client.refused::<Run>(params(conversation, calls));
        assert!(refused.message.contains(why), "{refused}");
        match code {
            0 => assert!(
                ["tooLarge", "notFound"].contains(&refused.kind()),
                "{refused}"
            ),
            code => assert_eq!(code, refused.code, "{refused}"),
        }
    }
    let steer = ToolRunParams {
        mode: SendMode::Steer,
        ..params(conversation, &many[..1])
    };
    assert_eq!(-32602, client.refused::<Run>(steer).code);
    let nowhere = ConversationId(Ulid::new());
    let new = ToolRunParams {
        new: Some(here()),
        ..params(nowhere, &cycle)
    };
    client.refused::<Run>(new);
    let unknown = client.refused::<Run>(params(nowhere, &many[..1]));
    assert_eq!("notFound", unknown.kind());
    assert!(events::<UserMessage>(&client, conversation).is_empty());
    assert_eq!(0, scene.count());
}

/// The same key with the same calls is the same turn, also where its tools are gone by then.
#[test]
fn a_list_is_taken_once() {
    let Some(scene) = Scene::new(ALL) else { return };
    let client = scene.world.client();
    let first = ToolRunParams {
        new: Some(here()),
        ..params(
            ConversationId(Ulid::new()),
            &[call("a", "c__count", json!({}))],
        )
    };
    let sent = client.done::<Run>(first.clone());
    client.wait_turn(sent.turn);
    let alias = "c".to_owned();
    client.done::<aish_proto::mcp::Disconnect>(aish_proto::mcp::ServerParams { alias });
    let twice = client.done::<Run>(first.clone());
    assert_eq!((sent.turn, true), (twice.turn, twice.duplicate));
    let other = ToolRunParams {
        calls: vec![call("b", "c__count", json!({}))],
        ..first.clone()
    };
    assert!(
        client
            .refused::<Run>(other)
            .message
            .contains("idempotency key")
    );
    let mut asked = question(first.conversation, "a question");
    asked.idempotency_key = first.idempotency_key;
    client.refused::<Send>(asked);
    assert_eq!(1, scene.count());
}

/// A list waits behind a running turn, over a restart too, and can be cancelled.
#[test]
fn a_list_stands_in_the_queue_like_a_question() {
    let Some(scene) = Scene::new(ALL) else { return };
    let client = scene.world.client();
    let conversation = client.create();
    let slow = run(
        &client,
        conversation,
        &[
            call("slow", "c__slow", json!({})),
            after("next", "c__count", &["slow"]),
        ],
    );
    until_true("the tool runs", || scene.count() == 1);
    let waits = client.done::<Run>(params(conversation, &[call("a", "aish__time", json!({}))]));
    assert_eq!(1, waits.position);
    let reject = ToolRunParams {
        mode: SendMode::Reject,
        ..params(conversation, &[call("a", "aish__time", json!({}))])
    };
    assert_eq!("busy", client.refused::<Run>(reject).kind());
    assert!(client.done::<Cancel>(TurnParams { turn: slow }).cancelled);
    let record = client.wait_turn(waits.turn);
    assert_eq!("the call succeeded", record.text);
    assert_eq!(1, scene.count());
    let next = result(&client, conversation, "next");
    assert_eq!("[aish] cancelled by the user", next.content);
    let unknown = result(&client, conversation, "slow").content;
    assert!(unknown.contains("the effect of this call is unknown"));
}

/// A resource is read through the gate too, and its text is a result like any other.
#[test]
fn a_call_of_a_list_may_read_a_resource() {
    let Some(scene) = Scene::new(ALL) else { return };
    let script = aish_testkit::repository::top().join("tests/data/mcp/stdio_server.py");
    let client = scene.world.client();
    client.done::<aish_proto::mcp::Connect>(aish_proto::mcp::ConnectParams {
        alias: Some("notes".to_owned()),
        url: None,
        auth_env: None,
        command: ["python3", script.to_str().unwrap(), "example"]
            .map(str::to_owned)
            .to_vec(),
        env: BTreeMap::new(),
        cwd: None,
        contain: None,
        write: vec![],
        hosts: vec![],
        revision: None,
    });
    let conversation = client.create();
    let read = json!({"id": 1, "method": "resources/read", "params": {"server": "notes", "uri": "note://1"}});
    let gone = json!({"id": 2, "method": "resources/read", "params": {"server": "gone", "uri": "note://1"}});
    let calls = [
        read,
        gone,
        call("b", "c__echo", json!({"x": {"$result": 1}})),
    ];
    client.wait_turn(run(&client, conversation, &calls));
    assert_eq!(
        vec![json!({"x": "buy milk"})],
        started(&client, conversation, "b")
    );
    let gone = result(&client, conversation, "2");
    assert!(
        !gone.ok && gone.content.starts_with("[aish] tool"),
        "{gone:?}"
    );
}

/// One call after the other, each with the result of the one before; each leaves a mark when it runs.
pub(crate) fn chain() -> Vec<Value> {
    let uses = |id: &str| json!({"x": {"$result": id}});
    vec![
        call("a", "c__count", json!({})),
        call("b", "c__count", uses("a")),
        call("c", "c__count", uses("b")),
    ]
}

/// `turn/retry` is a person's word: then all of it runs again.
#[test]
fn a_list_is_run_again_when_a_person_says_so() {
    let Some(scene) = Scene::new(ALL) else { return };
    let client = scene.world.client();
    let conversation = client.create();
    let turn = run(&client, conversation, &chain());
    client.wait_turn(turn);
    let retried = client.done::<Retry>(again(conversation, turn)).turn;
    assert_eq!("all 3 calls succeeded", client.wait_turn(retried).text);
    assert_eq!(6, scene.count());
    let refused = client.refused::<Continue>(again(conversation, retried));
    assert_eq!("notFound", refused.kind());
}
