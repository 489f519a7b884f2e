//! Consent while things change under it: an answer never allows what nobody saw, and never lowers a level.

use std::collections::BTreeMap;
use std::fs;

use aish_proto::confirm::{Answer, AnswerOutcome, Decision};
use aish_proto::daemon::Reload;
use aish_proto::id::ConversationId;
use aish_proto::mcp::{
    Connect, ConnectParams, Disconnect, List, McpServerStatus, Restart, ServerParams,
};
use aish_proto::method::Empty;
use aish_proto::permission::{
    Check, History, PermissionCheckParams, PermissionParams, PolicyVerdict, Set, SetParams,
};
use aish_testkit::Asked as _;
use aish_testkit::Client;
use aish_testkit::wait::until_true;

use crate::consent::{pending, with};
use crate::tools::{Scene, answer};

/// Calls of `look` need level 2.
const LOOK_WRITES: &str = "[permissions.needs]\nc__look = 2\n";

fn verdict(client: &Client, conversation: ConversationId, tool: &str) -> PolicyVerdict {
    let params = PermissionCheckParams {
        conversation,
        tool: tool.to_owned(),
        arguments: None,
    };
    client.done::<Check>(params).verdict
}

fn history(client: &Client, conversation: ConversationId) -> Vec<(u8, u8)> {
    let changes = client.done::<History>(PermissionParams { conversation });
    let changes = changes.changes.iter();
    changes.map(|it| (it.from, it.to)).collect()
}

/// From now on `look` is described in other words.
fn change(scene: &Scene, client: &Client) {
    fs::write(scene.world.path("work/marks.new"), "").unwrap();
    client.done::<Restart>(ServerParams {
        alias: "c".to_owned(),
    });
}

#[test]
fn an_answer_never_lowers_a_level() {
    let Some(scene) = Scene::new(LOOK_WRITES) else {
        return;
    };
    let client = scene.world.person("pts/2");
    let (conversation, turn, confirm) = scene.asked(&client, "c__look");
    assert_eq!(Some(2), confirm.request.tool_call().raise_to);
    client.done::<Set>(SetParams {
        conversation,
        provider: "c".to_owned(),
        level: 3,
    });
    answer(&client, &confirm, Decision::AllowConversation);
    client.wait_turn(turn);
    assert_eq!(vec![(1, 3)], history(&client, conversation));
}

#[test]
fn all_of_a_provider_leaves_out_what_changed_since_it_was_approved() {
    let Some(scene) = Scene::new("") else { return };
    let client = scene.world.person("pts/2");
    let (conversation, turn, confirm) = scene.asked(&client, "c__look");
    answer(&client, &confirm, Decision::AllowConversation);
    client.wait_turn(turn);
    change(&scene, &client);
    scene.model_calls(&[("c__count", "{}")]);
    let turn = client.ask(conversation, "count");
    let confirm = pending(&client, conversation);
    answer(&client, &confirm, Decision::AllowProvider);
    client.wait_turn(turn);
    assert_eq!(
        PolicyVerdict::Allow,
        verdict(&client, conversation, "c__echo")
    );
    assert_eq!(
        PolicyVerdict::Ask,
        verdict(&client, conversation, "c__look")
    );
}

#[test]
fn all_of_a_provider_is_what_it_was_when_it_was_asked() {
    let Some(scene) = Scene::new("") else { return };
    let client = scene.world.person("pts/2");
    let (conversation, turn, confirm) = scene.asked(&client, "c__count");
    change(&scene, &client);
    let outcome = client.done::<Answer>(with(&confirm, Decision::AllowProvider));
    assert_eq!(AnswerOutcome::ArgsChanged, outcome.outcome);
    assert_eq!(0, scene.count(), "nothing ran");
    // It is asked anew, and that can be answered.
    let again = pending(&client, conversation);
    assert_ne!(confirm.request.confirm, again.request.confirm);
    answer(&client, &again, Decision::AllowProvider);
    client.wait_turn(turn);
    assert_eq!(1, scene.count());
}

/// Where it runs is part of what was approved, and the difference says so.
#[test]
fn another_server_under_the_same_name_is_seen_in_the_difference() {
    let Some(scene) = Scene::new("") else { return };
    let client = scene.world.person("pts/2");
    let (conversation, turn, confirm) = scene.asked(&client, "c__look");
    answer(&client, &confirm, Decision::AllowConversation);
    client.wait_turn(turn);
    let config = scene.world.path("config/aish/config.toml");
    let before = fs::read_to_string(&config).unwrap();
    let marks = scene.world.path("work/marks");
    let other = before.replace(&format!("{marks:?}]"), &format!("{marks:?}, \"other\"]"));
    assert_ne!(before, other);
    fs::write(&config, other).unwrap();
    client.done::<Reload>(Empty {});
    until_true("the other server's tools", || {
        let servers = client.done::<List>(Empty {}).servers;
        let other = |it: &McpServerStatus| it.endpoint.contains("other") && it.tools > 0;
        servers.iter().any(other)
    });
    client.ask(conversation, "look");
    let asked = pending(&client, conversation).request;
    let approved = asked.tool_call().approved_definition.as_ref().unwrap();
    let (before, now) = (&approved["server"], &asked.tool_call().definition["server"]);
    assert!(!before.to_string().contains("other"), "{before}");
    assert!(now.to_string().contains("other"), "{now}");
}

/// An alias that rules speak of cannot be taken over by whoever connects.
#[test]
fn no_other_server_gets_a_name_that_rules_speak_of() {
    let Some(scene) = Scene::new("[mcp.auto_approve]\n\"c__*\" = true\n\"d__x\" = true\n") else {
        return;
    };
    let client = scene.world.person("pts/2");
    client.done::<Disconnect>(ServerParams {
        alias: "c".to_owned(),
    });
    for alias in ["c", "d"] {
        let refused = client.refused::<Connect>(ConnectParams {
            alias: Some(alias.to_owned()),
            url: None,
            auth_env: None,
            command: vec!["true".to_owned()],
            env: BTreeMap::new(),
            cwd: None,
            contain: None,
            write: vec![],
            hosts: vec![],
            revision: None,
        });
        assert_eq!("denied", refused.kind(), "{alias}");
    }
}
