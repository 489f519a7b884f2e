//! What the configuration says of calls: how many, how they run, what they need, and rules that speak of nothing

use std::fs;
use std::num::NonZeroU32;

use aish_proto::confirm::Decision;
use aish_proto::daemon::Reload;
use aish_proto::event::{Status, ToolResult};
use aish_proto::method::Empty;
use aish_proto::permission::{
    Check, List, PermissionCheckParams, PermissionParams, PolicyRule, RuleEffect, Rules,
};
use aish_proto::turn::{AgainParams, Retry, Send, SendParams, StopReason};
use aish_testkit::client::question;
use aish_testkit::wait::until_true;
use serde_json::json;

use crate::consent::{self, pending};
use crate::tools::{Scene, answer, events};

/// A model that never stops calling is stopped, and what it said last is kept.
#[test]
fn a_turn_has_so_many_rounds_of_calls() {
    for key in ["[tools]\nmax_depth = 2\n", "[mcp]\nmax_tool_depth = 2\n"] {
        let approve = "[mcp.auto_approve]\n\"c__*\" = true\n";
        let Some(scene) = Scene::new(&format!("{key}{approve}")) else {
            return;
        };
        scene.model_never_stops_calling("c__count");
        let client = scene.world.client();
        let conversation = client.create();
        let record = client.wait_turn(client.ask(conversation, "count"));
        assert_eq!(Some(StopReason::ToolDepth), record.stop_reason, "{key}");
        assert_eq!("Once more.", record.text);
        assert_eq!((2, 2), (scene.count(), scene.upstream.requests().len()));
        let said = events::<Status>(&client, conversation);
        assert!(
            said.iter()
                .any(|it| it.text == "tool-call depth limit reached (2)"),
            "{said:?}"
        );
    }
}

/// An asker may want fewer rounds than the configuration allows, gets never more, and none is a mistake; what
/// was wanted is kept with the question, also for the daemon after this one.
#[test]
fn an_asker_may_want_fewer_rounds_of_calls() {
    let Some(mut scene) =
        Scene::new("[tools]\nmax_depth = 3\n[mcp.auto_approve]\n\"c__look\" = true\n")
    else {
        return;
    };
    let rounds = |wanted: u32| {
        move |conversation| SendParams {
            max_tool_depth: NonZeroU32::new(wanted),
            ..question(conversation, "go on")
        }
    };
    scene.model_never_stops_calling("c__look");
    let client = scene.world.client();
    let conversation = client.create();
    for (wanted, given) in [(1, 1), (2, 2), (9, 3)] {
        let turn = client.done::<Send>(rounds(wanted)(conversation)).turn;
        let record = client.wait_turn(turn);
        assert_eq!(Some(StopReason::ToolDepth), record.stop_reason);
        let said = events::<Status>(&client, conversation).pop().unwrap();
        let expected = format!("tool-call depth limit reached ({given})");
        assert_eq!(expected, said.text, "{wanted}");
    }
    // Asked again, it is wanted as before.
    let fewest = client.done::<Send>(rounds(1)(conversation)).turn;
    client.wait_turn(fewest);
    let again = AgainParams {
        conversation,
        turn: Some(fewest),
        idempotency_key: "again".to_owned(),
        model: None,
        accept_cost: false,
    };
    client.wait_turn(client.done::<Retry>(again).turn);
    let said = events::<Status>(&client, conversation).pop().unwrap();
    assert_eq!("tool-call depth limit reached (1)", said.text);
    let none = json!({"conversation": conversation, "text": "go on", "idempotencyKey": "k", "maxToolDepth": 0});
    let refused = client.call_raw("turn/send", &none).unwrap_err();
    assert!(refused.to_string().contains("nonzero"), "{refused}");
    scene.model_never_stops_calling("c__count");
    let turn = client.done::<Send>(rounds(2)(conversation)).turn;
    let first = pending(&client, conversation);
    drop(client);
    assert_eq!(0, scene.daemon.terminate());
    scene.daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    answer(&client, &first, Decision::AllowOnce);
    answer(
        &client,
        &pending(&client, conversation),
        Decision::AllowOnce,
    );
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::ToolDepth), record.stop_reason);
    assert_eq!(2, scene.count());
}

#[test]
fn how_much_of_a_result_the_model_sees_is_configured() {
    let more = "[tools]\nmax_result_chars = 2000\n[mcp.auto_approve]\n\"c__*\" = true\n";
    let Some(scene) = Scene::new(more) else {
        return;
    };
    scene.model_calls(&[("c__long", "{}")]);
    let client = scene.world.client();
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "much"));
    let result = events::<ToolResult>(&client, conversation).remove(0);
    let chars = result.content.chars().count();
    assert!((2000..2300).contains(&chars), "{chars}");
    assert!(result.kept.is_some_and(|it| it.bytes > 100_000));
    scene.upstream.finish();
}

/// What a call needs, and what a provider begins with.
#[test]
fn levels_are_what_the_configuration_says() {
    let more = "[permissions]\ndefault_level = 2\n[permissions.needs]\nc__count = 2\nc__look = 3\n";
    let Some(scene) = Scene::new(more) else {
        return;
    };
    let client = scene.world.client();
    let conversation = client.create();
    let check = |tool: &str| {
        let tool = tool.to_owned();
        let result = client.done::<Check>(PermissionCheckParams {
            conversation,
            tool,
            arguments: None,
        });
        (result.level_required, result.because)
    };
    assert_eq!(
        (2, "every call is asked about".to_owned()),
        check("c__count")
    );
    let raise = "Permission upgrade required for c: level 2 → 3".to_owned();
    assert_eq!((3, raise), check("c__look"));
    let listed = client.done::<List>(PermissionParams { conversation });
    let level = listed.permissions.iter().find(|it| it.provider == "c");
    assert_eq!(Some(2), level.map(|it| it.level));
}

/// A rule that matches nothing known is told, as soon as that can be known; and it is counted on demand.
#[test]
fn a_rule_about_nothing_is_told() {
    let more = "[permissions]\ndeny = [\"c__cuont\", \"w__*\"]\n[permissions.needs]\nc__long = 2\n\
        [mcp.auto_approve]\n\"c__*\" = true\n\"c__fail\" = false\n";
    let Some(scene) = Scene::new(more) else {
        return;
    };
    let client = scene.world.client();
    let rule = |pattern: &str, effect, level, tools| PolicyRule {
        pattern: pattern.to_owned(),
        effect,
        level,
        tools,
    };
    let expected = vec![
        rule("c__cuont", RuleEffect::Deny, None, 0),
        rule("w__*", RuleEffect::Deny, None, 0),
        rule("c__long", RuleEffect::Needs, Some(2), 1),
        rule("c__fail", RuleEffect::Ask, None, 1),
        rule("c__*", RuleEffect::Allow, None, 7),
    ];
    assert_eq!(expected, client.done::<Rules>(Empty {}).rules);
    let log = || scene.world.log_text();
    until_true("the log has the rule", || log().contains("rule=c__cuont"));
    assert!(!log().contains("rule=c__fail") && !log().contains("rule=c__*"));
    assert!(
        log().contains("no MCP server \"w\" is configured"),
        "{}",
        log()
    );
}

/// What failed on the way is told to people, too; what a tool answered is not, even if it is a failure.
#[test]
fn a_call_that_failed_on_the_way_is_told_to_people() {
    let Some(scene) = Scene::new("[mcp.auto_approve]\n\"c__*\" = true\n") else {
        return;
    };
    scene.model_calls(&[
        ("c__fail", "{}"),
        ("c__nothing", "{}"),
        ("c__look", "[]"),
        ("c__die", "{}"),
    ]);
    let client = scene.world.client();
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "try"));
    let said: Vec<String> = events::<Status>(&client, conversation)
        .into_iter()
        .map(|it| it.text)
        .collect();
    let results = events::<ToolResult>(&client, conversation);
    let (answered, results): (Vec<_>, Vec<_>) =
        results.into_iter().partition(|it| it.name == "c__fail");
    let results: Vec<String> = results.into_iter().map(|it| it.content).collect();
    let failed: Vec<String> = said.iter().map(|it| format!("[aish] {it}")).collect();
    assert_eq!("it did not work", answered[0].content);
    assert_eq!(results, failed);
    assert_eq!("tool dispatch failed: unknown tool c__nothing", said[0]);
    assert!(said[1].starts_with("tool arguments not parseable as JSON: "));
    assert!(said[2].starts_with("tool transport error: "), "{said:?}");
    scene.upstream.finish();
}

/// How long silence is none is what is configured now, also for questions that wait already.
#[test]
fn a_question_that_waits_ends_by_the_time_that_is_configured_meanwhile() {
    let scene = consent::Scene::new("[permissions]\nconfirm_timeout = \"1h\"\n");
    let client = scene.world.client();
    let (_, turn, _) = scene.asked(&client);
    let config = fs::read_to_string(scene.world.config_file()).unwrap();
    let config = config.replace("\"1h\"", "\"1s\"");
    scene.world.write("config/aish/config.toml", &config);
    client.done::<Reload>(Empty {});
    let record = client.wait_turn(turn);
    assert_eq!(
        (Some(StopReason::End), 1),
        (record.stop_reason, record.denied)
    );
}
