//! Actions without a tool's name: what they mean, what is against them, and doing them through the gate.

use aish_proto::audit::{AuditDecision, AuditKind, AuditListParams, AuditRecord};
use aish_proto::confirm::{Decision, Denial};
use aish_proto::error::ErrorKind;
use aish_proto::id::ConversationId;
use aish_proto::intent::{
    AlignmentClass, Negotiate, NegotiateParams, NegotiateResult, Route, RouteParams, RoutingOutcome,
};
use aish_proto::method::Empty;
use aish_proto::permission::{self, SetParams};
use aish_proto::tool::Reload;
use aish_proto::turn::{Cancel, OnConfirm, TurnParams, UnattendedAction};
use aish_testkit::Asked as _;
use aish_testkit::Client;
use aish_testkit::wait::until_true;
use serde_json::{Value, json};
use ulid::Ulid;

use crate::audit::{records, whole};
use crate::consent::pending;
use crate::tools::{Scene, answer};

const MANIFEST: &str = "name = \"sheet\"\nversion = \"1.0.0\"\nruntime = \"process\"\ncommand = \"sh\"\nscript = \"data.sh\"\n\
    [[capability]]\nname = \"gather\"\nlevel = 2\ninput = { text = \"string?\" }\n\
    [[capability]]\nname = \"look\"\nlevel = 1\ninput = { text = \"string?\" }\n";
const BUILTIN: &str = "[tools]\nbuiltin = true\n";

/// A server, a manifest and the daemon's own tools.
fn scene(more: &str) -> Option<Scene> {
    let scene = Scene::new(&format!("{BUILTIN}{more}"))?;
    scene.world.write("config/aish/tools/data.sh", "cat\n");
    scene.world.write("config/aish/tools/data.toml", MANIFEST);
    let client = scene.world.client();
    until_true("the manifest", || client.done::<Reload>(Empty {}).read > 0);
    Some(scene)
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "an action is read with its arguments in it"
)]
fn wanted(conversation: ConversationId, action: &str, arguments: Value) -> NegotiateParams {
    NegotiateParams {
        conversation,
        action: action.to_owned(),
        arguments: arguments.as_object().cloned().unwrap(),
        tool: None,
        idempotency_key: Ulid::new().to_string(),
        on_confirm: None,
        wait_ms: None,
    }
}

fn allowed(tool: &str) -> OnConfirm {
    OnConfirm {
        allow: vec![tool.to_owned()],
        ..OnConfirm::default()
    }
}

fn of(client: &Client, kind: AuditKind) -> Vec<AuditRecord> {
    let mut all = records(client, &AuditListParams::default());
    all.retain(|it| it.kind == kind);
    all
}

/// Nothing ran, and nobody was asked.
#[track_caller]
fn check_stopped(result: &NegotiateResult, class: AlignmentClass) {
    assert_eq!(
        (false, false, None, class),
        (
            result.success,
            result.requires_approval,
            result.turn,
            result.alignment.class
        ),
        "{result:?}"
    );
}

#[test]
fn what_is_sure_runs_through_the_gate_of_every_other_call() {
    let Some(scene) = scene("") else { return };
    let client = scene.world.client();
    let conversation = client.create();
    let params = NegotiateParams {
        on_confirm: Some(allowed("sheet__gather")),
        ..wanted(conversation, "gather", json!({"text": {"$result": "x"}}))
    };
    // What looks like a reference is none, so that the schema has something to say.
    let misfit = client.done::<Negotiate>(params);
    assert!(
        misfit
            .output
            .starts_with("[aish] tool arguments do not fit: /text"),
        "{}",
        misfit.output
    );
    assert_eq!((false, true), (misfit.success, misfit.is_error));
    let params = NegotiateParams {
        on_confirm: Some(allowed("sheet__gather")),
        ..wanted(conversation, "gather", json!({"text": "a"}))
    };
    let done = client.done::<Negotiate>(params.clone());
    assert_eq!(
        (true, r#"{"arguments":{"text":"a"}}"#, false),
        (done.success, done.output.as_str(), done.is_error)
    );
    assert_eq!(AlignmentClass::Aligned, done.alignment.class);
    let routing = done.routing.as_ref().unwrap();
    assert_eq!(
        (RoutingOutcome::Found, Some("sheet__gather")),
        (routing.outcome, routing.name.as_deref())
    );
    // The same key is the same turn, also when the tool is gone.
    std::fs::remove_file(scene.world.path("config/aish/tools/data.toml")).unwrap();
    until_true("the tool is gone", || {
        let routed = client.done::<Route>(RouteParams {
            action: "gather".to_owned(),
            ..RouteParams::default()
        });
        routed.outcome == RoutingOutcome::Unknown
    });
    let again = client.done::<Negotiate>(params.clone());
    assert_eq!(
        (done.turn, done.output, true),
        (again.turn, again.output, again.success)
    );
    let other = NegotiateParams {
        action: "count".to_owned(),
        ..params
    };
    assert_eq!(-32602, client.refused::<Negotiate>(other).code);
    let turn = done.turn;
    let mut told = records(&client, &AuditListParams::default());
    told.retain(|it| it.turn == turn);
    let kinds: Vec<AuditKind> = told.iter().map(|it| it.kind).collect();
    assert_eq!(
        vec![
            AuditKind::TurnAsked,
            AuditKind::ModelChosen,
            AuditKind::CallStarted,
            AuditKind::CallEnded
        ],
        kinds
    );
    assert_eq!(0, scene.upstream.requests().len());
    whole(&client);
}

#[test]
fn what_is_not_sure_runs_nothing_and_says_what_may_be_meant() {
    let Some(scene) = scene("[mcp.auto_approve]\n\"c__*\" = true\n\"sheet__*\" = true\n") else {
        return;
    };
    let client = scene.world.client();
    let conversation = client.create();
    let ambiguous = client.done::<Negotiate>(wanted(conversation, "look", json!({})));
    check_stopped(&ambiguous, AlignmentClass::Unknown);
    let routing = ambiguous.routing.unwrap();
    let names: Vec<&str> = routing
        .candidates
        .iter()
        .map(|it| it.name.as_str())
        .collect();
    assert_eq!(
        (RoutingOutcome::Ambiguous, vec!["c__look", "sheet__look"]),
        (routing.outcome, names)
    );
    assert_eq!(
        "nothing ran; any of these may be meant: c__look, sheet__look",
        ambiguous.output
    );
    let unknown = client.done::<Negotiate>(wanted(conversation, "xyzzy", json!({})));
    check_stopped(&unknown, AlignmentClass::Unknown);
    let routing = unknown.routing.unwrap();
    assert_eq!(RoutingOutcome::Unknown, routing.outcome, "{routing:?}");
    let likely = client.done::<Negotiate>(wanted(conversation, "count my beans", json!({})));
    check_stopped(&likely, AlignmentClass::Unknown);
    let routing = likely.routing.unwrap();
    assert_eq!(Some("c__count"), routing.name.as_deref(), "{routing:?}");
    assert!(routing.confidence < 1.0, "{routing:?}");
    assert_eq!(0, scene.count());
    // Whoever names the provider is sure.
    let named = NegotiateParams {
        tool: Some("c".to_owned()),
        ..wanted(conversation, "look", json!({}))
    };
    let named = client.done::<Negotiate>(named);
    assert_eq!(
        (true, "look done"),
        (named.success, named.output.as_str()),
        "{named:?}"
    );
    let routed = of(&client, AuditKind::Routed);
    let told: Vec<(Option<&str>, Option<&str>)> = routed
        .iter()
        .map(|it| (it.tool.as_deref(), it.because.as_deref()))
        .collect();
    assert_eq!(
        vec![
            (None, Some("ambiguous, confidence 0.800")),
            (None, Some("unknown")),
        ],
        told[..2]
    );
    assert_eq!((Some("c__look"), Some("found, confidence 1.000")), told[3]);
    let digests_only = serde_json::to_string(&routed).unwrap();
    assert!(!digests_only.contains("beans"), "{digests_only}");
    assert!(routed.iter().all(|it| it.digest.is_some()));
}

#[test]
fn what_a_rule_denies_contradicts_for_every_provider_alike() {
    let rules = "[permissions]\ndeny = [\"aish__time\", \"c__count\", \"sheet__gather\"]\n[mcp.auto_approve]\n\"c__*\" = true\n";
    let Some(scene) = scene(rules) else { return };
    let client = scene.world.client();
    let conversation = client.create();
    for tool in ["aish__time", "c__count", "sheet__gather"] {
        let result = client.done::<Negotiate>(wanted(conversation, tool, json!({})));
        check_stopped(&result, AlignmentClass::Contradiction);
        let rule = format!("permissions.deny {tool}");
        assert_eq!(Some(&rule), result.alignment.reason.as_ref());
        assert_eq!(format!("denied by policy: {rule}"), result.output);
        let told = of(&client, AuditKind::Routed).pop().unwrap();
        assert_eq!(
            (Some(tool), Some(AuditDecision::Deny)),
            (told.tool.as_deref(), told.decision)
        );
        assert_eq!(
            Some(format!("found, confidence 1.000; contradicts {rule}")),
            told.because
        );
    }
    assert_eq!(0, scene.count());
    assert!(of(&client, AuditKind::TurnAsked).is_empty());
}

/// First the level, for which nothing waits, and then the call. A level is no consent.
#[test]
fn what_lacks_the_level_asks_for_it_and_then_for_the_call() {
    let Some(scene) = scene("") else { return };
    let client = scene.world.client();
    let conversation = client.create();
    let params = wanted(conversation, "count", json!({}));
    let waits = client.done::<Negotiate>(params.clone());
    assert_eq!(
        (false, true, None, false),
        (
            waits.success,
            waits.requires_approval,
            waits.turn,
            waits.is_error
        )
    );
    assert_eq!(
        Some("Permission upgrade required for c: level 1 → 3"),
        waits.approval_reason.as_deref()
    );
    let routing = waits.routing.as_ref().unwrap();
    assert_eq!(Some("c__count"), routing.name.as_deref());
    let raise = pending(&client, conversation);
    assert_eq!(
        (Some(raise.request.confirm), 3, None),
        (waits.confirm, raise.request.level().to, raise.turn)
    );
    assert_eq!(
        format!(
            "To upgrade: aishctl confirm allow {} or aishctl perm grant c 3 -C {conversation}",
            raise.request.confirm
        ),
        waits.output
    );
    let other = scene.world.person("pts/7");
    answer(&other, &raise, Decision::RaiseOnly);
    assert_eq!(0, scene.count(), "a level runs nothing");
    // The same again, with the same key.
    let waits = client.done::<Negotiate>(params.clone());
    assert_eq!(
        (true, Some("every call is asked about")),
        (waits.requires_approval, waits.approval_reason.as_deref())
    );
    let confirm = pending(&client, conversation);
    let id = confirm.request.confirm;
    assert_eq!((Some(id), waits.turn), (waits.confirm, confirm.turn));
    assert_eq!(
        format!("To go on: aishctl confirm allow {id}, or aishctl confirm deny {id}"),
        waits.output
    );
    answer(&other, &confirm, Decision::AllowOnce);
    let done = client.done::<Negotiate>(params);
    assert_eq!(
        (true, "count done", waits.turn),
        (done.success, done.output.as_str(), done.turn)
    );
    assert_eq!(1, scene.count());
    let resolved = of(&client, AuditKind::ConfirmResolved);
    let answers: Vec<_> = resolved.iter().map(|it| it.answer).collect();
    assert_eq!(
        vec![Some(Decision::RaiseOnly), Some(Decision::AllowOnce)],
        answers
    );
    // The way to the model is the same: a no is the reply.
    let params = wanted(conversation, "c__echo", json!({"a": 1}));
    client.done::<Negotiate>(params.clone());
    answer(&other, &pending(&client, conversation), Decision::Deny);
    let refused = client.done::<Negotiate>(params);
    assert_eq!(
        (false, Some(Denial::Person)),
        (refused.success, refused.denied)
    );
}

#[test]
fn who_is_not_asked_is_told_how_to_be_allowed() {
    let Some(scene) = scene("") else { return };
    let client = scene.world.client();
    let conversation = client.create();
    let denied = NegotiateParams {
        on_confirm: Some(OnConfirm {
            then: UnattendedAction::Deny,
            ..OnConfirm::default()
        }),
        ..wanted(conversation, "count", json!({}))
    };
    let denied = client.done::<Negotiate>(denied);
    assert_eq!(
        (false, true, Some(Denial::NoApprover)),
        (denied.success, denied.is_error, denied.denied)
    );
    assert!(
        denied.output.contains("aishctl perm grant c 3"),
        "{}",
        denied.output
    );
}

/// What lets a call run unasked gives it the level for that call, so that no level is asked for.
#[test]
fn what_runs_unasked_asks_for_no_level() {
    let Some(scene) = scene("[mcp.auto_approve]\n\"c__*\" = true\n") else {
        return;
    };
    let client = scene.world.client();
    let conversation = client.create();
    let done = client.done::<Negotiate>(wanted(conversation, "count", json!({})));
    assert_eq!((true, "count done"), (done.success, done.output.as_str()));
    let params = NegotiateParams {
        on_confirm: Some(allowed("sheet__gather")),
        ..wanted(conversation, "gather", json!({}))
    };
    assert!(client.done::<Negotiate>(params).success);
    assert!(of(&client, AuditKind::ConfirmRequested).is_empty());
}

#[test]
fn a_wait_that_is_over_leaves_the_turn_to_go_on() {
    let Some(scene) = scene("[mcp.auto_approve]\n\"c__*\" = true\n") else {
        return;
    };
    let client = scene.world.client();
    let conversation = client.create();
    let params = NegotiateParams {
        wait_ms: Some(1),
        ..wanted(conversation, "slow", json!({}))
    };
    let error = client.refused::<Negotiate>(params.clone());
    assert_eq!(i64::from(ErrorKind::Timeout.code()), error.code);
    until_true("it began", || scene.count() == 1);
    let again = client.refused::<Negotiate>(params);
    assert_eq!(i64::from(ErrorKind::Timeout.code()), again.code);
    let asked = of(&client, AuditKind::TurnAsked);
    assert_eq!(1, asked.len());
    let turn = asked[0].turn.unwrap();
    assert!(client.done::<Cancel>(TurnParams { turn }).cancelled);
}

#[test]
fn the_daemon_itself_speaks_of_conversations() {
    let Some(scene) = scene("") else { return };
    let client = scene.world.client();
    let (here, there) = (client.create(), client.create());
    let ask = |action: &str| client.done::<Negotiate>(wanted(here, action, json!({})));
    let result = ask("conversation:status");
    let status = result.status.unwrap();
    assert_eq!(
        (true, here, 0, Some("test")),
        (
            result.success,
            status.conversation.id,
            status.resources,
            status.preset.as_deref()
        )
    );
    let levels: Vec<(&str, u8)> = status
        .providers
        .iter()
        .map(|it| (it.provider.as_str(), it.level))
        .collect();
    assert_eq!(
        vec![
            ("aish", 1),
            ("c", 1),
            ("data-tool", 1),
            ("example-tool", 1),
            ("files", 1),
            ("sheet", 1),
            ("shell", 1),
            ("todo", 1),
            ("web", 1)
        ],
        levels
    );
    assert!(result.routing.is_none());
    let listed = ask("conversation:list").conversations;
    assert_eq!(2, listed.len());
    let switched = ask(&format!("conversation:switch {there}")).status.unwrap();
    assert_eq!(there, switched.conversation.id);
    let nowhere = format!("conversation:switch {}", Ulid::new());
    let error = client.refused::<Negotiate>(wanted(here, &nowhere, json!({})));
    assert_eq!(i64::from(ErrorKind::NotFound.code()), error.code);
    let error = client.refused::<Negotiate>(wanted(here, "conversation:leave", json!({})));
    assert_eq!(-32602, error.code);
    assert!(of(&client, AuditKind::Routed).is_empty());
}

/// What asks for a level never changes one.
#[test]
fn an_upgrade_is_a_persons_to_give() {
    let Some(scene) = scene("[permissions.tools]\nc = { max_level = 2 }\n") else {
        return;
    };
    let client = scene.world.client();
    let conversation = client.create();
    let ask = |action: &str| wanted(conversation, action, json!({}));
    let same = client.done::<Negotiate>(ask("upgrade:data-tool:level-1"));
    assert_eq!(
        (true, "data-tool is already at level 1"),
        (same.success, same.output.as_str())
    );
    let above = client.done::<Negotiate>(ask("upgrade:c:level-3"));
    check_stopped(&above, AlignmentClass::Contradiction);
    assert_eq!(
        Some("max_level of c is 2"),
        above.alignment.reason.as_deref()
    );
    let asked = client.done::<Negotiate>(ask("upgrade:data-tool:level-2"));
    assert_eq!(
        (
            true,
            Some("Permission upgrade required for data-tool: level 1 → 2")
        ),
        (asked.requires_approval, asked.approval_reason.as_deref())
    );
    for (action, code) in [
        ("upgrade:data-tool:level-4", -32602),
        ("upgrade:data-tool:level-0", -32602),
        ("upgrade:data-tool", -32602),
        (
            "upgrade:nobody:level-2",
            i64::from(ErrorKind::NotFound.code()),
        ),
    ] {
        assert_eq!(
            code,
            client.refused::<Negotiate>(ask(action)).code,
            "{action}"
        );
    }
    assert!(of(&client, AuditKind::PermissionChanged).is_empty());
    client.done::<permission::Set>(SetParams {
        conversation,
        provider: "data-tool".to_owned(),
        level: 2,
    });
    let lower = client.done::<Negotiate>(ask("upgrade:data-tool:level-1"));
    assert_eq!("data-tool is already at level 2", lower.output);
}
