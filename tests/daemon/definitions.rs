//! A rule lets a tool through as it was when the rule first did. What its server makes of it later is asked about, with the
//! difference, until a person has said yes to it; whoever allowed the name, however often anything was started anew.

use std::fs;

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{ConfirmRecord, Decision};
use aish_proto::event::ToolCall;
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::mcp::{List as ServerList, Restart, ServerParams};
use aish_proto::method::Empty;
use aish_proto::permission::SetAutoApprove;
use aish_proto::turn::{OnConfirm, Send, UnattendedAction};
use aish_testkit::client::question;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer as Said, Asked as _, Client, Follow};
use serde_json::json;

use crate::allowances::wants;
use crate::consent::pending;
use crate::tools::{Scene, answer, events};

const DEBUG: &str = "[logging]\nlevel = \"debug\"\n";
const AUTO: &str = "[mcp.auto_approve]\n\"c__*\" = true\n";

/// From now on `look` is described in other words.
fn change(scene: &Scene) {
    fs::write(scene.world.path("work/marks.new"), "").unwrap();
}

fn change_back(scene: &Scene) {
    fs::remove_file(scene.world.path("work/marks.new")).unwrap();
}

fn restart_server(client: &Client) {
    client.done::<Restart>(ServerParams {
        alias: "c".to_owned(),
    });
}

fn connected(client: &Client) {
    until_true("the server's tools", || {
        let servers = client.done::<ServerList>(Empty {}).servers;
        let ready = |it: &aish_proto::mcp::McpServerStatus| it.tools > 0 && it.connect_ms.is_some();
        servers.iter().any(ready)
    });
}

fn ran(client: &Client, conversation: ConversationId) -> usize {
    events::<ToolCall>(client, conversation).len()
}

/// Asks, and waits until it has run unasked.
#[track_caller]
fn runs_unasked(client: &Client, conversation: ConversationId) {
    let before = ran(client, conversation);
    client.wait_turn(client.ask(conversation, "look"));
    assert_eq!(before + 1, ran(client, conversation));
}

#[track_caller]
fn shows_the_difference(confirm: &ConfirmRecord, [before, now]: [&str; 2]) {
    let request = &confirm.request;
    assert_eq!(
        "the tool's definition changed since it was allowed",
        request.why
    );
    let approved = request.tool_call().approved_definition.as_ref();
    let approved = approved.map(|it| it["description"].clone());
    assert_eq!(
        (Some(before.into()), now),
        (
            approved,
            request.tool_call().definition["description"]
                .as_str()
                .unwrap()
        )
    );
}

#[track_caller]
fn is_asked(
    client: &Client,
    conversation: ConversationId,
    words: [&str; 2],
) -> (TurnId, ConfirmRecord) {
    let turn = client.ask(conversation, "look");
    let confirm = pending(client, conversation);
    shows_the_difference(&confirm, words);
    (turn, confirm)
}

#[test]
fn a_configured_rule_is_bound_to_the_definition_that_it_first_let_through() {
    let Some(mut scene) = Scene::new(AUTO) else {
        return;
    };
    let client = scene.world.person("pts/2");
    scene.model_calls(&[("c__look", "{}")]);
    let conversation = client.create();
    runs_unasked(&client, conversation);
    // Between two starts of the server, and in a conversation where nobody allowed anything.
    change(&scene);
    restart_server(&client);
    let other = client.create();
    let (turn, confirm) = is_asked(&client, other, ["Looks.", "Looks closer."]);
    answer(&client, &confirm, Decision::Deny);
    client.wait_turn(turn);
    let (turn, _waits) = is_asked(&client, conversation, ["Looks.", "Looks closer."]);
    // With the daemon killed the question waits, and a yes makes the rule count again: everywhere, and over another kill.
    drop(client);
    scene.daemon.kill9();
    scene.daemon = scene.world.daemon().spawn();
    let client = scene.world.person("pts/2");
    connected(&client);
    let confirm = pending(&client, conversation);
    shows_the_difference(&confirm, ["Looks.", "Looks closer."]);
    answer(&client, &confirm, Decision::AllowOnce);
    client.wait_turn(turn);
    runs_unasked(&client, other);
    // Between two starts of the daemon.
    change_back(&scene);
    drop(client);
    scene.daemon.kill9();
    scene.daemon = scene.world.daemon().spawn();
    let client = scene.world.person("pts/2");
    connected(&client);
    let (turn, confirm) = is_asked(&client, other, ["Looks closer.", "Looks."]);
    answer(&client, &confirm, Decision::AllowOnce);
    client.wait_turn(turn);
    runs_unasked(&client, conversation);
}

#[test]
fn an_always_of_another_conversation_and_a_later_rule_are_bound_too() {
    let Some(scene) = Scene::new("") else { return };
    let client = scene.world.person("pts/2");
    let (_conversation, turn, confirm) = scene.asked(&client, "c__look");
    answer(&client, &confirm, Decision::AllowConversation);
    client.wait_turn(turn);
    change(&scene);
    restart_server(&client);
    // A client's word, in another conversation.
    let other = client.create();
    let _follow = client.attach(other, ReplayStart::Now);
    client.done::<SetAutoApprove>(wants(other, &["c__*"]));
    let (turn, confirm) = is_asked(&client, other, ["Looks.", "Looks closer."]);
    answer(&client, &confirm, Decision::Deny);
    client.wait_turn(turn);
    // A turn's.
    let third = client.create();
    let mut asked = question(third, "look");
    asked.on_confirm = Some(OnConfirm {
        then: UnattendedAction::Ask,
        allow: vec!["c__look".to_owned()],
        timeout_ms: None,
    });
    let turn = client.done::<Send>(asked.clone()).turn;
    let confirm = pending(&client, third);
    shows_the_difference(&confirm, ["Looks.", "Looks closer."]);
    answer(&client, &confirm, Decision::AllowOnce);
    client.wait_turn(turn);
    // Now all of them count again.
    asked.idempotency_key = "again".to_owned();
    client.wait_turn(client.done::<Send>(asked).turn);
    assert_eq!(2, ran(&client, third));
    runs_unasked(&client, other);
}

/// Who wrote or said the rule meant the tool as it was then.
#[track_caller]
fn is_asked_though_it_never_ran(
    more: &str,
    says: impl FnOnce(&Scene, &Client, ConversationId) -> Option<Follow>,
) {
    let Some(scene) = Scene::new(more) else {
        return;
    };
    let client = scene.world.person("pts/2");
    scene.model_calls(&[("c__look", "{}")]);
    let conversation = client.create();
    let _attached = says(&scene, &client, conversation);
    change(&scene);
    restart_server(&client);
    let (turn, confirm) = is_asked(&client, conversation, ["Looks.", "Looks closer."]);
    answer(&client, &confirm, Decision::AllowOnce);
    client.wait_turn(turn);
    client.wait_turn(client.ask(conversation, "look"));
    assert_eq!(2, ran(&client, conversation));
}

#[test]
fn a_tool_that_changes_between_the_rule_and_its_first_call_is_asked_about() {
    is_asked_though_it_never_ran(&format!("{DEBUG}{AUTO}"), |scene, _, _| {
        until_rules_count(scene);
        None
    });
    is_asked_though_it_never_ran("", |_, client, conversation| {
        let attached = client.attach(conversation, ReplayStart::Now);
        client.done::<SetAutoApprove>(wants(conversation, &["c__look"]));
        Some(attached)
    });
}

fn until_rules_count(scene: &Scene) {
    until_true("the rule counts", || {
        let log = scene.world.log_text();
        log.contains("rules count for tools as they are now")
    });
}

/// The tool changes while the model is thinking.
#[test]
fn a_rule_of_a_turn_counts_from_its_beginning() {
    let Some(scene) = Scene::new(DEBUG) else {
        return;
    };
    let client = scene.world.person("pts/2");
    let (said, model) = Said::by_hand();
    scene.upstream.answer(said);
    let conversation = client.create();
    let mut asked = question(conversation, "look");
    asked.on_confirm = Some(OnConfirm {
        then: UnattendedAction::Ask,
        allow: vec!["c__look".to_owned()],
        timeout_ms: None,
    });
    let turn = client.done::<Send>(asked).turn;
    model.wait_request();
    until_rules_count(&scene);
    change(&scene);
    restart_server(&client);
    let call = json!({"index": 0, "id": "call-1", "type": "function", "function": {"name": "c__look", "arguments": "{}"}});
    model.delta(&json!({"tool_calls": [call]}));
    scene.upstream.answer(Said::text("So be it."));
    model.finish();
    let confirm = pending(&client, conversation);
    shows_the_difference(&confirm, ["Looks.", "Looks closer."]);
    answer(&client, &confirm, Decision::Deny);
    client.wait_turn(turn);
    assert_eq!(0, ran(&client, conversation));
}
