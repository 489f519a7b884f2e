//! What a conversation keeps itself from: denied before anything allows it, not offered where no call could
//! keep to it, and asked about where nobody knows.

use aish_proto::confirm::Decision;
use aish_proto::conversation::{
    Constraints, ConversationCreateParams, ConversationLimits, ConversationParams, Create, Fork,
    ForkParams, SetConstraints, SetConstraintsParams, StatusOf,
};
use aish_proto::event::{PolicyChanged, ToolResult};
use aish_proto::id::ConversationId;
use aish_proto::permission::{Check, PermissionCheckParams, PolicyVerdict};
use aish_testkit::Client;

use crate::consent::pending;
use crate::tools::{Scene, answer, events};

/// Everything runs unasked, and `look` writes.
const FREE: &str =
    "[mcp.auto_approve]\n\"c__*\" = true\n[permissions.needs]\nc__look = 2\nc__fail = 1\n";

pub(crate) fn set(client: &Client, id: ConversationId, constraints: ConversationLimits) {
    client.done::<SetConstraints>(SetConstraintsParams { id, constraints });
}

pub(crate) fn roots(roots: &[&str]) -> ConversationLimits {
    ConversationLimits {
        roots: roots.iter().map(|it| (*it).to_owned()).collect(),
        ..ConversationLimits::default()
    }
}

fn now(client: &Client, id: ConversationId) -> Option<Constraints> {
    client
        .done::<StatusOf>(ConversationParams { id })
        .constraints
}

/// The names that the last request offered, but for the one that reads on in results, which is beside all others.
fn offered(scene: &Scene) -> Vec<String> {
    let requests = scene.upstream.requests();
    let body = requests.last().unwrap().json();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let name = |it: &serde_json::Value| it["function"]["name"].as_str().unwrap().to_owned();
    let names = tools.iter().map(name);
    names.filter(|it| it != "aish__read_result").collect()
}

#[test]
fn a_conversation_that_only_reads_denies_the_rest() {
    let Some(scene) = Scene::new(FREE) else {
        return;
    };
    let client = scene.world.person("pts/3");
    let conversation = client.create();
    scene.model_calls(&[("c__count", "{}"), ("c__look", "{}"), ("c__fail", "{}")]);
    client.wait_turn(client.ask(conversation, "freely"));
    assert_eq!(1, scene.count());
    let read_only = ConversationLimits {
        read_only: true,
        ..ConversationLimits::default()
    };
    set(&client, conversation, read_only);
    client.wait_turn(client.ask(conversation, "and now?"));
    assert_eq!(1, scene.count(), "nothing ran");
    let said: Vec<String> = events::<ToolResult>(&client, conversation)
        .into_iter()
        .skip(3)
        .map(|it| it.content)
        .collect();
    let denied = |level| {
        format!(
            "[aish] denied by policy: this conversation only reads, and the call needs level {level}"
        )
    };
    assert_eq!(
        vec![denied(3), denied(2), "it did not work".to_owned()],
        said
    );
    assert_eq!(vec!["c__echo", "c__fail", "c__long"], offered(&scene));
    let told = events::<PolicyChanged>(&client, conversation).remove(0);
    assert!(told.constraints.read_only);
    assert_eq!(Some("pts/3"), told.by.unwrap().tty.as_deref());
    // Not said again is not kept any more.
    set(&client, conversation, ConversationLimits::default());
    client.wait_turn(client.ask(conversation, "freely again"));
    assert_eq!((2, None), (scene.count(), now(&client, conversation)));
    scene.upstream.finish();
}

/// That a server says of its tool that it only reads lets nothing run where only that may.
#[test]
fn a_hint_keeps_to_no_limit() {
    let Some(scene) = Scene::new("[mcp.auto_approve]\n\"c__*\" = true\n") else {
        return;
    };
    let client = scene.world.person("pts/3");
    let conversation = client.create();
    let read_only = ConversationLimits {
        read_only: true,
        ..ConversationLimits::default()
    };
    for limits in [read_only, roots(&["/srv"])] {
        set(&client, conversation, limits);
        scene.model_calls(&[("c__echo", "{}")]);
        let turn = client.ask(conversation, "echo");
        let confirm = pending(&client, conversation);
        assert!(
            confirm
                .request
                .why
                .starts_with("only its server says that it keeps to the limits"),
            "{}",
            confirm.request.why
        );
        answer(&client, &confirm, Decision::Deny);
        client.wait_turn(turn);
    }
    // A person says so, of this definition and here.
    let turn = client.ask(conversation, "echo");
    answer(
        &client,
        &pending(&client, conversation),
        Decision::AllowConversation,
    );
    client.wait_turn(turn);
    client.wait_turn(client.ask(conversation, "again"));
    let ran = events::<ToolResult>(&client, conversation);
    assert_eq!(2, ran.iter().filter(|it| it.ok).count());
}

/// A server says nothing of the network, so nobody knows that its tools keep away from it.
#[test]
fn without_the_network_only_what_is_known_to_stay_here_runs() {
    let Some(scene) = Scene::new(FREE) else {
        return;
    };
    let client = scene.world.client();
    let conversation = client.create();
    let no_network = ConversationLimits {
        no_network: true,
        ..ConversationLimits::default()
    };
    set(&client, conversation, no_network);
    scene.model_calls(&[("c__count", "{}")]);
    client.wait_turn(client.ask(conversation, "x"));
    let result = events::<ToolResult>(&client, conversation).remove(0);
    assert_eq!(
        "[aish] denied by policy: this conversation uses no network, and the tool is not known to stay on this machine",
        result.content
    );
    assert_eq!((0, 0), (scene.count(), offered(&scene).len()));
}

#[test]
fn paths_are_kept_to_directories() {
    let Some(scene) = Scene::new(FREE) else {
        return;
    };
    let client = scene.world.person("pts/1");
    let conversation = client.create();
    set(&client, conversation, roots(&["/opt/../srv/"]));
    let kept = now(&client, conversation).unwrap();
    assert_eq!(vec!["/srv"], kept.roots);
    let check = |arguments: &str| {
        let arguments = serde_json::from_str(arguments).unwrap();
        let tool = "c__look".to_owned();
        let params = PermissionCheckParams {
            conversation,
            tool,
            arguments,
        };
        client.done::<Check>(params).verdict
    };
    assert_eq!(PolicyVerdict::Allow, check(r#"{"path":"/srv/a"}"#));
    assert_eq!(PolicyVerdict::Deny, check(r#"{"path":"/srv/../a"}"#));
    assert_eq!(PolicyVerdict::Ask, check(r#"{"path":"a"}"#));
    // What is not known is asked about, and a person's yes counts.
    scene.model_calls(&[
        ("c__look", r#"{"path":"a"}"#),
        ("c__look", r#"{"path":"/a"}"#),
    ]);
    let turn = client.ask(conversation, "look");
    let confirm = pending(&client, conversation);
    assert!(
        confirm
            .request
            .why
            .starts_with("where \"a\" leads is not known")
    );
    answer(&client, &confirm, Decision::AllowOnce);
    client.wait_turn(turn);
    let said: Vec<String> = events::<ToolResult>(&client, conversation)
        .into_iter()
        .map(|it| it.content)
        .collect();
    let outside =
        "[aish] denied by policy: \"/a\" is outside of the directories of this conversation";
    assert_eq!(vec!["look done", outside], said);
    scene.upstream.finish();
}

/// A constraint that is set while a person is asked counts for what the person says yes to.
#[test]
fn a_yes_comes_too_late_for_a_conversation_that_only_reads_now() {
    let Some(scene) = Scene::new("") else { return };
    let client = scene.world.person("pts/1");
    let (conversation, turn, confirm) = scene.asked(&client, "c__count");
    let read_only = ConversationLimits {
        read_only: true,
        ..ConversationLimits::default()
    };
    set(&client, conversation, read_only);
    answer(&client, &confirm, Decision::AllowConversation);
    client.wait_turn(turn);
    assert_eq!(0, scene.count());
}

/// They are made with the conversation, outlive the daemon, and a copy has them, of whatever part.
#[test]
fn constraints_stay() {
    let Some(scene) = Scene::new(FREE) else {
        return;
    };
    let client = scene.world.client();
    let made = client.done::<Create>(ConversationCreateParams {
        cwd: "/".to_owned(),
        constraints: Some(roots(&["/srv"])),
        ..ConversationCreateParams::default()
    });
    scene.model_calls(&[]);
    client.wait_turn(client.ask(made.id, "hello"));
    let before = client.done::<StatusOf>(ConversationParams { id: made.id });
    set(&client, made.id, roots(&["/srv/in"]));
    let copy = client.done::<Fork>(ForkParams {
        id: made.id,
        at_seq: Some(before.last_seq),
    });
    assert_eq!(0, scene.daemon.terminate());
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    for id in [made.id, copy.id] {
        assert_eq!(vec!["/srv/in"], now(&client, id).unwrap().roots);
    }
    for bad in [roots(&["srv"]), roots(&["/srv"; 33])] {
        let params = SetConstraintsParams {
            id: made.id,
            constraints: bad,
        };
        assert_eq!(-32602, client.refused::<SetConstraints>(params).code);
    }
}
