//! What an attached client lets run unasked: for as long as it is there, shown to all, and never more than the rules
//! above it let.

use std::fs;
use std::num::NonZeroU32;

use aish_proto::attach::{Detach, DetachParams, ReplayStart};
use aish_proto::audit::{AuditKind, AuditListParams as AuditParams};
use aish_proto::confirm::{ConfirmListParams, Decision, List};
use aish_proto::event::{Presence, PresentClient, Snapshot, ToolCall};
use aish_proto::id::ConversationId;
use aish_proto::mcp::{Restart, ServerParams};
use aish_proto::method::ClientRole;
use aish_proto::permission::{
    self, AutoApproveParams, AutoApproveScope, Check, PermissionCheckParams, PermissionParams,
    PolicyVerdict, SetAutoApprove,
};
use aish_proto::turn::{Cancel, OnConfirm, Send, StopReason, TurnParams, UnattendedAction};
use aish_testkit::client::question;
use aish_testkit::{Asked as _, Client, Follow};

use crate::audit::records;
use crate::consent::{Scene, pending};
use crate::tools::{self, answer, events};

pub(crate) fn wants(conversation: ConversationId, patterns: &[&str]) -> AutoApproveParams {
    AutoApproveParams {
        conversation,
        patterns: patterns.iter().map(|it| (*it).to_owned()).collect(),
        scope: AutoApproveScope::Client,
        count: None,
    }
}

/// A client at this terminal that lets these run unasked in a new conversation.
#[track_caller]
fn allowing(scene: &Scene, patterns: &[&str]) -> (Client, ConversationId, Follow) {
    let client = scene.world.person("pts/7");
    let conversation = client.create();
    let follow = client.attach(conversation, ReplayStart::Start);
    let result = client.done::<SetAutoApprove>(wants(conversation, patterns));
    assert!(result.warnings.is_empty(), "{:?}", result.warnings);
    (client, conversation, follow)
}

/// A turn whose calls are asked about; it is ended.
#[track_caller]
fn asks(client: &Client, conversation: ConversationId) {
    let turn = client.ask(conversation, "what time is it?");
    pending(client, conversation);
    client.done::<Cancel>(TurnParams { turn });
    client.wait_turn(turn);
}

/// A turn that nobody is asked about.
#[track_caller]
fn runs(client: &Client, conversation: ConversationId) {
    let turn = client.ask(conversation, "what time is it?");
    let record = client.wait_turn(turn);
    assert_eq!(
        (Some(StopReason::End), 0),
        (record.stop_reason, record.denied)
    );
}

fn rules(client: &Client, conversation: ConversationId) -> Vec<String> {
    let started = events::<ToolCall>(client, conversation);
    started.into_iter().map(|it| it.rule).collect()
}

/// What the client at this terminal lets run, as somebody else sees it.
fn seen(clients: &[PresentClient]) -> Option<(String, Option<u32>)> {
    let client = clients.iter().find(|it| it.tty.as_deref() == Some("pts/7"));
    let allows = client?.auto_approves.as_ref()?;
    Some((allows.patterns.join(" "), allows.left.map(NonZeroU32::get)))
}

/// Waits until a follower is told that.
#[track_caller]
fn until_seen(follow: &mut Follow, expected: Option<(&str, Option<u32>)>) {
    let expected = expected.map(|(patterns, left)| (patterns.to_owned(), left));
    follow.until(|it| {
        let presence = it.read::<Presence>();
        presence.is_some_and(|it| seen(&it.clients) == expected)
    });
}

#[test]
fn what_a_client_allows_runs_unasked_and_says_by_whose_word() {
    let scene = Scene::new("");
    scene.model_calls(&["{}"]);
    let (client, conversation, _follow) = allowing(&scene, &["aish__*"]);
    runs(&client, conversation);
    let rule = rules(&client, conversation).remove(0);
    assert!(
        rule.starts_with("allowed by pts/7, client ") && rule.ends_with(": aish__*"),
        "{rule}"
    );
    let check = client.done::<Check>(PermissionCheckParams {
        conversation,
        tool: "aish__time".to_owned(),
        arguments: None,
    });
    assert_eq!(
        (PolicyVerdict::Allow, &rule),
        (check.verdict, &check.because)
    );
    // Of another conversation nothing was said.
    let other = client.create();
    asks(&client, other);
    client.done::<SetAutoApprove>(wants(conversation, &[]));
    asks(&client, conversation);
    let told = records(&client, &AuditParams::default());
    let told: Vec<_> = told
        .iter()
        .filter(|it| it.kind == AuditKind::AutoApproveSet)
        .map(|it| {
            let tty = it.by.as_ref().and_then(|it| it.tty.as_deref());
            (it.because.as_deref(), it.approved.join(" "), tty)
        })
        .collect();
    assert_eq!(
        vec![
            (
                Some("while the client is attached"),
                "aish__*".to_owned(),
                Some("pts/7")
            ),
            (Some("taken back"), String::new(), Some("pts/7")),
        ],
        told
    );
    let started = records(&client, &AuditParams::default());
    let started = started.iter().find(|it| it.kind == AuditKind::CallStarted);
    assert_eq!(Some(rule), started.unwrap().because);
    scene.upstream.finish();
}

#[test]
fn a_number_of_calls_is_used_up() {
    let scene = Scene::new("");
    scene.model_calls(&["{}"]);
    let (client, conversation, _follow) = allowing(&scene, &["aish__time"]);
    let other = scene.world.client();
    let mut others = other.attach(conversation, ReplayStart::Now);
    let snapshot: Snapshot = others.until_kind("snapshot").read().unwrap();
    let whole = ("aish__time".to_owned(), None);
    assert_eq!(Some(whole), seen(&snapshot.presence));
    client.done::<SetAutoApprove>(AutoApproveParams {
        count: NonZeroU32::new(2),
        ..wants(conversation, &["aish__time"])
    });
    until_seen(&mut others, Some(("aish__time", Some(2))));
    let listed = other.done::<permission::List>(PermissionParams { conversation });
    let listed = &listed.auto_approves[0];
    assert_eq!(
        (Some("pts/7"), NonZeroU32::new(2)),
        (listed.by.tty.as_deref(), listed.auto_approves.left)
    );
    runs(&client, conversation);
    until_seen(&mut others, Some(("aish__time", Some(1))));
    runs(&client, conversation);
    until_seen(&mut others, None);
    asks(&client, conversation);
}

/// Two calls of one message are two calls.
#[test]
fn two_calls_at_once_do_not_share_the_last_one() {
    let scene = Scene::new("");
    scene.model_calls(&["{}", "{}"]);
    let (client, conversation, _follow) = allowing(&scene, &["aish__time"]);
    client.done::<SetAutoApprove>(AutoApproveParams {
        count: NonZeroU32::new(1),
        ..wants(conversation, &["aish__time"])
    });
    let turn = client.ask(conversation, "what time is it?");
    let confirm = pending(&client, conversation);
    assert_eq!(1, rules(&client, conversation).len());
    answer(&client, &confirm, Decision::AllowOnce);
    client.wait_turn(turn);
    let rules = rules(&client, conversation);
    assert!(rules[0].starts_with("allowed by pts/7"), "{rules:?}");
    assert_eq!("approved by a person", rules[1]);
    assert_eq!(2, rules.len());
}

/// An answer costs nobody a call that was allowed beforehand.
#[test]
fn who_allows_while_a_question_waits_does_not_answer_it() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/7");
    let (conversation, turn, confirm) = scene.asked(&client);
    let mut follow = client.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    client.done::<SetAutoApprove>(AutoApproveParams {
        count: NonZeroU32::new(1),
        ..wants(conversation, &["aish__time"])
    });
    let open = ConfirmListParams {
        conversation: Some(conversation),
    };
    assert_eq!(1, client.done::<List>(open).confirms.len());
    answer(&client, &confirm, Decision::AllowOnce);
    client.wait_turn(turn);
    assert_eq!(vec!["approved by a person"], rules(&client, conversation));
    runs(&client, conversation);
    asks(&client, conversation);
}

#[test]
fn it_is_gone_with_its_client() {
    let scene = Scene::new("");
    scene.model_calls(&["{}"]);
    let (client, conversation, follow) = allowing(&scene, &["aish__*"]);
    let other = scene.world.client();
    let mut others = other.attach(conversation, ReplayStart::Now);
    others.until_kind("replayComplete");
    // With its last place there, not with the first.
    let again = client.attach(conversation, ReplayStart::Now);
    let leave = |follow: &Follow| {
        let subscription = follow.subscription();
        client.done::<Detach>(DetachParams { subscription });
    };
    leave(&follow);
    runs(&other, conversation);
    leave(&again);
    asks(&other, conversation);
    let refused = client.refused::<SetAutoApprove>(wants(conversation, &["aish__*"]));
    assert_eq!("notFound", refused.kind());
    let back = client.attach(conversation, ReplayStart::Now);
    asks(&other, conversation);
    client.done::<SetAutoApprove>(wants(conversation, &["aish__*"]));
    until_seen(&mut others, Some(("aish__*", None)));
    drop((client, follow, again, back));
    others.until(|it| {
        let presence = it.read::<Presence>();
        presence.is_some_and(|it| it.clients.len() == 1)
    });
    asks(&other, conversation);
}

#[test]
fn it_is_gone_with_the_daemon() {
    let scene = Scene::new("");
    scene.model_calls(&["{}"]);
    let (_client, conversation, _follow) = allowing(&scene, &["aish__*"]);
    scene.daemon.kill9();
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.person("pts/7");
    let _follow = client.attach(conversation, ReplayStart::Start);
    asks(&client, conversation);
}

#[test]
fn what_is_said_for_a_turn_ends_with_it() {
    let scene = Scene::new("");
    scene.model_calls(&["{}"]);
    let (client, conversation, mut follow) = allowing(&scene, &["aish__time"]);
    let for_a_turn = || AutoApproveParams {
        scope: AutoApproveScope::Turn,
        ..wants(conversation, &["aish__time"])
    };
    // Where none runs it is for the next one.
    client.done::<SetAutoApprove>(for_a_turn());
    runs(&client, conversation);
    until_seen(&mut follow, None);
    let turn = client.ask(conversation, "what time is it?");
    let confirm = pending(&client, conversation);
    // The one that runs has no other call, and takes it along all the same.
    client.done::<SetAutoApprove>(for_a_turn());
    answer(&client, &confirm, Decision::AllowOnce);
    client.wait_turn(turn);
    asks(&client, conversation);
}

#[test]
fn what_is_denied_stays_denied() {
    let scene = Scene::new("[permissions]\ndeny = [\"aish__time\"]\n");
    scene.model_calls(&["{}"]);
    let (client, conversation, _follow) = allowing(&scene, &["aish__time", "aish__*"]);
    let turn = client.ask(conversation, "what time is it?");
    client.wait_turn(turn);
    assert!(rules(&client, conversation).is_empty());
}

/// Who allows a name means the tool that somebody saw.
#[test]
fn a_tool_that_was_approved_and_changed_is_asked_about() {
    let Some(scene) = tools::Scene::new("") else {
        return;
    };
    let client = scene.world.person("pts/7");
    let (conversation, turn, confirm) = scene.asked(&client, "c__look");
    answer(&client, &confirm, Decision::AllowConversation);
    client.wait_turn(turn);
    fs::write(scene.world.path("work/marks.new"), "").unwrap();
    let alias = "c".to_owned();
    client.done::<Restart>(ServerParams { alias });
    let _follow = client.attach(conversation, ReplayStart::Now);
    client.done::<SetAutoApprove>(wants(conversation, &["c__*"]));
    let turn = client.ask(conversation, "and again");
    let again = pending(&client, conversation);
    assert_eq!(
        "the tool's definition changed since it was allowed",
        again.request.why
    );
    let approved = again.request.tool_call().approved_definition.as_ref();
    assert_eq!(
        Some("Looks."),
        approved.and_then(|it| it["description"].as_str())
    );
    answer(&client, &again, Decision::Deny);
    client.wait_turn(turn);
    // What the script of a turn allows is no more than that.
    let mut beforehand = question(conversation, "and for me");
    beforehand.on_confirm = Some(OnConfirm {
        then: UnattendedAction::Ask,
        allow: vec!["c__look".to_owned()],
        timeout_ms: None,
    });
    let turn = client.done::<Send>(beforehand).turn;
    let again = pending(&client, conversation);
    answer(&client, &again, Decision::AllowConversation);
    client.wait_turn(turn);
    // Approved as it is now, it runs again.
    client.wait_turn(client.ask(conversation, "once more"));
    let rules = rules(&client, conversation);
    assert_eq!("always, in this conversation", rules.last().unwrap());
}

#[test]
fn only_a_driver_allows_and_only_what_is_a_rule() {
    let scene = Scene::new("");
    let (client, conversation, _follow) = allowing(&scene, &["aish__time"]);
    let unknown = client.done::<SetAutoApprove>(wants(conversation, &["fs__*", "aish__time"]));
    assert_eq!(vec!["fs__* is no tool that is known now"], unknown.warnings);
    let check = |params: AutoApproveParams, expected: &str| {
        let refused = client.refused::<SetAutoApprove>(params);
        assert!(refused.message.contains(expected), "{}", refused.message);
    };
    check(
        wants(conversation, &["aish__t*"]),
        "\"aish__t*\" is no tool and no whole provider; a rule is a name like fs__read_file, or a whole provider like fs__*",
    );
    check(wants(conversation, &["*"]), "is no tool");
    let many: Vec<String> = (0..65).map(|it| format!("p{it}__*")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    check(wants(conversation, &many), "65 are too many; at most 64");
    let zero = serde_json::json!({"conversation": conversation, "patterns": ["a__*"], "count": 0});
    let refused = client.call_raw("autoApprove/set", &zero).unwrap_err();
    assert!(refused.message.contains("nonzero"), "{}", refused.message);
    // What was refused has changed nothing.
    let listed = client.done::<permission::List>(PermissionParams { conversation });
    assert_eq!(
        vec!["aish__time", "fs__*"],
        listed.auto_approves[0].auto_approves.patterns
    );
    for role in [ClientRole::Observer, ClientRole::Approver] {
        let other = scene.world.stranger();
        other.hello_as("other", role);
        let _follow = other.attach(conversation, ReplayStart::Now);
        let refused = other.refused::<SetAutoApprove>(wants(conversation, &["aish__*"]));
        assert_eq!("forbiddenRole", refused.kind());
    }
}

#[test]
fn who_says_hello_again_with_a_lower_role_has_allowed_nothing() {
    let scene = Scene::new("");
    scene.model_calls(&["{}"]);
    let (client, conversation, _follow) = allowing(&scene, &["aish__*"]);
    runs(&client, conversation);
    client.hello_as("aish", ClientRole::Approver);
    let other = scene.world.client();
    asks(&other, conversation);
    // Nor is it there again when the role is.
    client.hello_as("aish", ClientRole::Driver);
    asks(&other, conversation);
}
