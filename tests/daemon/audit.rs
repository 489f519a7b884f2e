//! The audit trail as clients see it: every decision and every call, who answered, what became of it; no words of
//! anybody in it, and whole.

use std::fs;

use aish_proto::audit::{
    AuditDecision, AuditExportParams, AuditKind, AuditListParams, AuditOutcome, AuditRecord,
    Export, List, Verify, VerifyParams, VerifyResult,
};
use aish_proto::confirm::{Answer, AnswerOutcome, Decision};
use aish_proto::conversation::{ConversationDeleteParams, Delete};
use aish_proto::daemon::Reload;
use aish_proto::method::Empty;
use aish_proto::permission::{self, RevokeParams, SetParams};
use aish_testkit::Client;

use crate::consent::{Scene, pending, with};

/// Everything that fits, read in small pages.
pub(crate) fn records(client: &Client, filter: &AuditListParams) -> Vec<AuditRecord> {
    let mut all = vec![];
    let mut cursor = None;
    loop {
        let page = client.done::<List>(AuditListParams {
            cursor,
            limit: Some(3),
            ..filter.clone()
        });
        all.extend(page.records);
        cursor = page.next_cursor;
        if cursor.is_none() {
            return all;
        }
    }
}

fn all(client: &Client) -> Vec<AuditRecord> {
    records(client, &AuditListParams::default())
}

pub(crate) fn verify(client: &Client) -> VerifyResult {
    client.done::<Verify>(VerifyParams::default())
}

#[track_caller]
pub(crate) fn whole(client: &Client) -> String {
    let result = verify(client);
    assert!(result.whole, "{:?}", result.findings);
    result.head
}

fn kinds(records: &[AuditRecord]) -> Vec<AuditKind> {
    records.iter().map(|it| it.kind).collect()
}

#[test]
fn a_call_that_a_person_allowed_is_told_from_the_question_to_the_outcome() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client);
    let yes = with(&confirm, Decision::AllowOnce);
    assert_eq!(AnswerOutcome::Resolved, client.done::<Answer>(yes).outcome);
    client.wait_turn(turn);
    let told = records(
        &client,
        &AuditListParams {
            conversation: Some(conversation),
            ..AuditListParams::default()
        },
    );
    assert_eq!(
        vec![
            AuditKind::TurnAsked,
            AuditKind::ModelChosen,
            AuditKind::ConfirmRequested,
            AuditKind::ConfirmResolved,
            AuditKind::CallStarted,
            AuditKind::CallEnded,
        ],
        kinds(&told)
    );
    assert!(told.iter().all(|it| it.turn == Some(turn)));
    let [_, model, asked, answered, started, ended] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(Some("test"), model.model.as_deref());
    let digest = Some(confirm.request.digest.as_str());
    for it in [asked, answered, started, ended] {
        assert_eq!(
            (Some("aish__time"), digest),
            (it.tool.as_deref(), it.digest.as_deref())
        );
    }
    assert_eq!(
        (
            Some(AuditDecision::Ask),
            Some("every call is asked about"),
            Some("{}")
        ),
        (
            asked.decision,
            asked.because.as_deref(),
            asked.arguments.as_deref()
        )
    );
    assert_eq!(
        (Some(AuditDecision::Allow), Some(Decision::AllowOnce)),
        (answered.decision, answered.answer)
    );
    let by = answered.by.as_ref().unwrap();
    assert_eq!(Some(std::process::id()), by.pid);
    assert_eq!(
        (
            Some("approved by a person"),
            Some(confirm.request.confirm),
            &ended.call
        ),
        (started.because.as_deref(), started.confirm, &started.call)
    );
    assert_eq!(Some(AuditOutcome::Ok), ended.outcome);
    assert!(ended.bytes.is_some() && ended.ms.is_some());
    whole(&client);
}

#[test]
fn what_did_not_run_says_which_rule_forbade_it() {
    let scene = Scene::new("[permissions]\ndeny = [\"aish__time\"]\n");
    let client = scene.world.client();
    scene.model_calls(&["{}", "[]"]);
    client.wait_turn(client.ask(client.create(), "x"));
    let denied = records(
        &client,
        &AuditListParams {
            decision: Some(AuditDecision::Deny),
            tool: Some("aish__*".to_owned()),
            ..AuditListParams::default()
        },
    );
    let [denied] = &denied[..] else {
        panic!("{denied:?}")
    };
    assert_eq!(
        (
            AuditKind::CallRefused,
            Some("permissions.deny aish__time"),
            true
        ),
        (
            denied.kind,
            denied.because.as_deref(),
            denied.digest.is_some()
        )
    );
    let refused = all(&client)
        .into_iter()
        .rfind(|it| it.kind == AuditKind::CallRefused);
    let because = refused.unwrap().because.unwrap();
    assert_eq!("its arguments are no JSON object", because);
    whole(&client);
}

#[test]
fn levels_rules_and_deletions_are_told_with_who_made_them() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client);
    let always = with(&confirm, Decision::AllowConversation);
    client.done::<Answer>(always);
    client.wait_turn(turn);
    client.done::<permission::Set>(SetParams {
        conversation,
        provider: "aish".to_owned(),
        level: 2,
    });
    client.done::<permission::Revoke>(RevokeParams {
        conversation,
        provider: "aish".to_owned(),
    });
    let config = scene.world.config_file();
    let text = fs::read_to_string(&config).unwrap();
    let text = format!("{text}\n[permissions]\ndeny = [\"fs__*\"]\n");
    scene.world.write("config/aish/config.toml", &text);
    client.done::<Reload>(Empty {});
    let status = client.done::<aish_proto::conversation::StatusOf>(
        aish_proto::conversation::ConversationParams { id: conversation },
    );
    client.done::<Delete>(ConversationDeleteParams {
        id: conversation,
        confirm_title: status.title,
    });
    let told = all(&client);
    assert_eq!(AuditKind::PolicyChanged, told[0].kind, "what it began with");
    let always = told.iter().find(|it| !it.approved.is_empty()).unwrap();
    assert_eq!(vec!["aish__time"], always.approved);
    let [.., raised, revoked, rules, deleted] = &told[..] else {
        panic!("{told:?}")
    };
    let levels = |it: &AuditRecord| (it.kind, it.from, it.to, it.by.is_some());
    assert_eq!(
        (AuditKind::PermissionChanged, Some(1), Some(2), true),
        levels(raised)
    );
    assert_eq!(
        (AuditKind::PermissionChanged, Some(2), Some(1), true),
        levels(revoked)
    );
    assert_eq!(vec!["permissions.deny fs__*"], rules.added);
    assert_eq!(
        (AuditKind::ConversationDeleted, Some(conversation), true),
        (deleted.kind, deleted.conversation, deleted.by.is_some())
    );
    // The log is gone, and what was told of it stays; what ran is known by its digest only.
    let started = told.iter().find(|it| it.kind == AuditKind::CallStarted);
    let started = started.unwrap();
    assert_eq!(
        (true, None),
        (started.digest.is_some(), started.arguments.as_deref())
    );
    let head = whole(&client);
    // The same rules at the next start are no change.
    drop(client);
    let Scene {
        world,
        daemon,
        upstream,
    } = scene;
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    assert_eq!(head, whole(&world.client()));
    drop(upstream);
}

#[test]
fn nothing_that_anybody_said_stands_in_it() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let secret = "correct-horse-battery";
    scene.model_calls(&[&format!("{{\"password\":\"{secret}\"}}")]);
    let conversation = client.create();
    let turn = client.ask(conversation, &format!("my password is {secret}"));
    let mut no = with(&pending(&client, conversation), Decision::Deny);
    no.reason = Some(format!("not with {secret}"));
    client.done::<Answer>(no);
    client.wait_turn(turn);
    scene.upstream.answer(
        aish_testkit::Answer::stream()
            .then_call(0, secret, secret, &format!("\"{secret}\""))
            .then_call(1, "b", &format!("aish__{secret}"), "{}"),
    );
    client.wait_turn(client.ask(conversation, "and now?"));
    let exported = client.done::<Export>(AuditExportParams::default()).sealed;
    assert!(exported.len() > 6);
    assert!(!exported.concat().contains(secret), "{exported:#?}");
    let listed = serde_json::to_string(&all(&client)).unwrap();
    assert!(
        listed.contains("[redacted]") && !listed.contains(secret),
        "{listed}"
    );
}

#[test]
fn an_end_that_was_noted_elsewhere_is_looked_for() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let head = whole(&client);
    client.wait_turn(client.ask(client.create(), "x"));
    let noted = |noted: &str| {
        client.done::<Verify>(VerifyParams {
            noted: Some(noted.to_owned()),
        })
    };
    assert!(noted(&head).whole);
    let (n, hash) = head.split_once(':').unwrap();
    let later = noted(&format!("900:{hash}"));
    assert_eq!((false, Some(900)), (later.whole, later.findings[0].n));
    let other = noted(&format!("{n}:{}", "0".repeat(64)));
    assert_eq!(
        "it is not the record that was noted elsewhere",
        other.findings[0].what
    );
    let nonsense = VerifyParams {
        noted: Some("x".to_owned()),
    };
    assert_eq!(-32602, client.refused::<Verify>(nonsense).code);
    let nonsense = AuditListParams {
        since: Some("yesterday".to_owned()),
        ..AuditListParams::default()
    };
    assert_eq!(-32602, client.refused::<List>(nonsense).code);
}
