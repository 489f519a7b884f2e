//! A level that somebody wants raised is a question of the conversation: everybody who is attached sees it, one answer
//! counts, and no turn waits.

use aish_proto::attach::ReplayStart;
use aish_proto::audit::{AuditDecision, AuditKind, AuditListParams as Trail};
use aish_proto::confirm::{
    Answer, AnswerOutcome, AnswerParams, ConfirmListParams, ConfirmParams, ConfirmRecord,
    ConfirmState, Decision, Denial, Get, List,
};
use aish_proto::conversation::{
    Activity, Archive, ConversationDeleteParams, ConversationParams, Delete, Fork, ForkParams,
    StatusOf,
};
use aish_proto::daemon::Reload;
use aish_proto::error::ErrorKind;
use aish_proto::event::{ConfirmRequested, ConfirmResolved, PermissionChanged, Snapshot};
use aish_proto::id::{ConfirmId, ConversationId};
use aish_proto::intent::{Negotiate, NegotiateParams, NegotiateResult};
use aish_proto::method::{ClientRole, Empty};
use aish_proto::permission::{
    self, History, PermissionChange, PermissionParams, RevokeParams, SetParams,
};
use aish_proto::turn::{OnConfirm, StopReason, UnattendedAction};
use aish_testkit::Asked as _;
use aish_testkit::Client;
use aish_testkit::wait::until_true;
use serde_json::{Map, json};
use ulid::Ulid;

use crate::audit::{records, whole};
use crate::consent::{Scene, pending, with};
use crate::tools::answer;

pub(crate) fn upgrade(conversation: ConversationId, provider: &str, level: u8) -> NegotiateParams {
    NegotiateParams {
        conversation,
        action: format!("upgrade:{provider}:level-{level}"),
        arguments: Map::new(),
        tool: None,
        idempotency_key: Ulid::new().to_string(),
        on_confirm: None,
        wait_ms: None,
    }
}

/// Wants a level, and has it asked for.
#[track_caller]
pub(crate) fn wanted(
    client: &Client,
    conversation: ConversationId,
    provider: &str,
    level: u8,
) -> ConfirmId {
    let result = client.done::<Negotiate>(upgrade(conversation, provider, level));
    check_asked(&result)
}

/// What an action without a name is answered with.
#[track_caller]
fn check_asked(result: &NegotiateResult) -> ConfirmId {
    assert_eq!(
        (false, true, None, None),
        (
            result.success,
            result.requires_approval,
            result.turn,
            result.denied
        ),
        "{result:?}"
    );
    let reason = result.approval_reason.as_deref().unwrap();
    assert!(
        reason.starts_with("Permission upgrade required for "),
        "{reason}"
    );
    assert!(
        result.output.starts_with("To upgrade: "),
        "{}",
        result.output
    );
    result.confirm.unwrap()
}

pub(crate) fn open(client: &Client, conversation: ConversationId) -> Vec<ConfirmRecord> {
    let conversation = Some(conversation);
    client
        .done::<List>(ConfirmListParams { conversation })
        .confirms
}

pub(crate) fn get(client: &Client, confirm: ConfirmId) -> ConfirmRecord {
    client.done::<Get>(ConfirmParams { confirm })
}

pub(crate) fn level(client: &Client, conversation: ConversationId, provider: &str) -> u8 {
    let params = PermissionParams { conversation };
    let all = client.done::<permission::List>(params).permissions;
    all.iter().find(|it| it.provider == provider).unwrap().level
}

pub(crate) fn history(client: &Client, conversation: ConversationId) -> Vec<PermissionChange> {
    client
        .done::<History>(PermissionParams { conversation })
        .changes
}

#[test]
fn everybody_who_is_attached_is_asked_and_one_answer_counts() {
    let scene = Scene::new("");
    let script = scene.world.client();
    let conversation = script.create();
    let (here, there) = (scene.world.person("pts/1"), scene.world.person("pts/2"));
    let mut window = here.attach(conversation, ReplayStart::Now);
    window.until_kind("replayComplete");
    let confirm = wanted(&script, conversation, "data-tool", 2);
    let asked = window.until_kind("confirmRequested");
    assert_eq!(None, asked.turn, "no turn waits for it");
    let request: ConfirmRequested = asked.read().unwrap();
    assert_eq!(confirm, request.confirm);
    let wants = request.level();
    assert_eq!(
        ("data-tool", 1, 2, None, "test"),
        (
            wants.provider.as_str(),
            wants.from,
            wants.to,
            wants.wanted_for.as_deref(),
            wants.by.name.as_str()
        )
    );
    assert_eq!(vec![Decision::RaiseOnly, Decision::Deny], request.options);
    let record = pending(&there, conversation);
    assert_eq!(
        (ConfirmState::Pending, &request),
        (record.state, &record.request)
    );
    assert_eq!(record, get(&there, confirm));
    // Who comes later is asked too.
    let mut late = there.attach(conversation, ReplayStart::Now);
    let snapshot: Snapshot = late.until_kind("snapshot").read().unwrap();
    assert_eq!(vec![record.clone()], snapshot.pending_confirms);
    assert_eq!(Activity::Idle, snapshot.state);
    assert_eq!(1, level(&script, conversation, "data-tool"));

    answer(&there, &record, Decision::RaiseOnly);
    let end: ConfirmResolved = window.until_kind("confirmResolved").read().unwrap();
    assert_eq!(
        (confirm, ConfirmState::Allowed, Some(Decision::RaiseOnly)),
        (end.confirm, end.state, end.decision)
    );
    assert_eq!(Some("pts/2"), end.by.unwrap().tty.as_deref());
    let change: PermissionChanged = window.until_kind("permissionChanged").read().unwrap();
    assert_eq!(
        ("data-tool", 1, 2, Some(confirm)),
        (
            change.provider.as_str(),
            change.from,
            change.to,
            change.confirm
        )
    );
    let late = here.done::<Answer>(with(&record, Decision::Deny));
    assert_eq!(
        (AnswerOutcome::AlreadyResolved, Some(Decision::RaiseOnly)),
        (late.outcome, late.decision)
    );
    assert_eq!(Some("pts/2"), late.by.unwrap().tty.as_deref());
}

/// Tool, from, to, in which conversation, who asked, who allowed it and when.
#[test]
fn a_level_that_was_raised_is_in_the_history_and_on_the_trail() {
    let scene = Scene::new("");
    let script = scene.world.client();
    let conversation = script.create();
    let confirm = wanted(&script, conversation, "data-tool", 2);
    let there = scene.world.person("pts/2");
    answer(&there, &get(&there, confirm), Decision::RaiseOnly);
    assert_eq!(2, level(&script, conversation, "data-tool"));
    let changes = history(&script, conversation);
    assert_eq!(1, changes.len());
    let change = &changes[0];
    assert_eq!(
        ("data-tool", 1, 2, false, Some(confirm)),
        (
            change.provider.as_str(),
            change.from,
            change.to,
            change.revoked,
            change.confirm
        )
    );
    let by = change.by.as_ref().unwrap();
    assert_eq!(Some("pts/2"), by.tty.as_deref());
    assert!(change.at.ends_with('Z'));
    let other = script.create();
    assert_eq!(
        (1, 0),
        (
            level(&script, other, "data-tool"),
            history(&script, other).len()
        )
    );

    let told = records(&script, &Trail::default());
    let told: Vec<_> = told
        .iter()
        .filter(|it| it.confirm == Some(confirm))
        .collect();
    let kinds: Vec<_> = told.iter().map(|it| (it.kind, it.decision)).collect();
    assert_eq!(
        vec![
            (AuditKind::ConfirmRequested, Some(AuditDecision::Ask)),
            (AuditKind::ConfirmResolved, Some(AuditDecision::Allow)),
            (AuditKind::PermissionChanged, None),
        ],
        kinds
    );
    for it in &told {
        assert_eq!(
            (Some("data-tool"), Some(1), Some(2)),
            (it.provider.as_deref(), it.from, it.to)
        );
    }
    let asker = told[0].by.as_ref().unwrap();
    assert_eq!((None, "test"), (asker.tty.as_deref(), asker.name.as_str()));
    whole(&script);
}

#[test]
fn a_no_changes_nothing_and_the_same_wish_is_one_question() {
    let scene = Scene::new("");
    let (script, person) = (scene.world.client(), scene.world.person("pts/1"));
    let conversation = script.create();
    let confirm = wanted(&script, conversation, "data-tool", 2);
    assert_eq!(confirm, wanted(&person, conversation, "data-tool", 2));
    // Also when it is an action that lacks the level.
    let create = |key: &str| NegotiateParams {
        action: "create-resource".to_owned(),
        arguments: json!({"name": "a", "data": 1})
            .as_object()
            .cloned()
            .unwrap(),
        idempotency_key: key.to_owned(),
        ..upgrade(conversation, "data-tool", 2)
    };
    assert_eq!(
        confirm,
        check_asked(&script.done::<Negotiate>(create("one")))
    );
    assert_eq!(1, open(&script, conversation).len());
    let other = script.create();
    assert_ne!(confirm, wanted(&script, other, "data-tool", 2));
    let higher = wanted(&script, conversation, "data-tool", 3);
    assert_ne!(confirm, higher);

    let no = AnswerParams {
        reason: Some("not today".to_owned()),
        ..with(&get(&person, confirm), Decision::Deny)
    };
    assert_eq!(AnswerOutcome::Resolved, person.done::<Answer>(no).outcome);
    assert_eq!(1, level(&script, conversation, "data-tool"));
    assert!(history(&script, conversation).is_empty());
    let end = get(&script, confirm).resolution.unwrap();
    assert_eq!(
        (ConfirmState::Denied, Some("not today")),
        (end.state, end.reason.as_deref())
    );
    assert_eq!(
        vec![higher],
        open(&script, conversation)
            .iter()
            .map(|it| it.request.confirm)
            .collect::<Vec<_>>()
    );
    // Who asks again is asking anew, and it says what it is for.
    let again = check_asked(&script.done::<Negotiate>(create("one")));
    assert_ne!(confirm, again);
    let request = get(&script, again).request;
    let wants = request.level();
    assert_eq!(
        Some("data-tool__create-resource"),
        wants.wanted_for.as_deref()
    );
    assert_eq!(3, request.number);
    // A copy of the conversation asks nothing.
    let id = conversation;
    let copy = script.done::<Fork>(ForkParams { id, at_seq: None }).id;
    assert!(open(&script, copy).is_empty());
    assert_ne!(again, wanted(&script, copy, "data-tool", 2));
}

/// It holds up no turn, and a turn's own question stands beside it.
#[test]
fn turns_go_on_while_a_level_is_asked_for() {
    let scene = Scene::new("");
    let (script, person) = (scene.world.client(), scene.world.person("pts/1"));
    let conversation = script.create();
    let raise = wanted(&script, conversation, "data-tool", 2);
    let id = conversation;
    let state = || script.done::<StatusOf>(ConversationParams { id }).state;
    assert_eq!(Activity::Idle, state());
    scene.upstream.answer(aish_testkit::Answer::text("Well."));
    let turn = script.ask(conversation, "how are you?");
    assert_eq!(Some(StopReason::End), script.wait_turn(turn).stop_reason);

    scene.model_calls(&["{}"]);
    let turn = script.ask(conversation, "what time is it?");
    until_true("both questions", || open(&script, conversation).len() == 2);
    assert_eq!(Activity::RequiresAction, state());
    let mut late = person.attach(conversation, ReplayStart::Now);
    let snapshot: Snapshot = late.until_kind("snapshot").read().unwrap();
    let asked: Vec<_> = snapshot
        .pending_confirms
        .iter()
        .map(|it| (it.request.subject.call().is_some(), it.turn))
        .collect();
    assert_eq!(vec![(false, None), (true, Some(turn))], asked);
    // Each answer is for its own.
    answer(&person, &get(&person, raise), Decision::RaiseOnly);
    assert_eq!(Activity::RequiresAction, state());
    answer(
        &person,
        &pending(&person, conversation),
        Decision::AllowOnce,
    );
    let record = script.wait_turn(turn);
    assert_eq!(
        (Some(StopReason::End), 0),
        (record.stop_reason, record.denied)
    );
    assert_eq!(2, level(&script, conversation, "data-tool"));
    let mut all = script.attach(conversation, ReplayStart::Start);
    all.until_kind("replayComplete");
    all.recording().assert_sound();
    scene.upstream.finish();
}

/// What is asked for changes no level by itself, and a yes raises none further than it may be.
#[test]
fn what_cannot_be_raised_or_needs_no_raise_asks_nobody() {
    let scene = Scene::new("[permissions.tools]\ndata-tool = { max_level = 2 }\n");
    let client = scene.world.client();
    let conversation = client.create();
    let ask = |provider: &str, level| upgrade(conversation, provider, level);
    let above = client.done::<Negotiate>(ask("data-tool", 3));
    assert_eq!(
        (
            false,
            false,
            "denied by policy: max_level of data-tool is 2"
        ),
        (
            above.success,
            above.requires_approval,
            above.output.as_str()
        )
    );
    let same = client.done::<Negotiate>(ask("data-tool", 1));
    assert_eq!(
        (true, "data-tool is already at level 1"),
        (same.success, same.output.as_str())
    );
    assert_eq!(
        -32602,
        client.refused::<Negotiate>(ask("data-tool", 4)).code
    );
    let unknown = client.refused::<Negotiate>(ask("nobody", 2));
    assert_eq!(i64::from(ErrorKind::NotFound.code()), unknown.code);
    // Nobody is to be asked, or nobody is there.
    for then in [UnattendedAction::Deny, UnattendedAction::AskAttended] {
        let on_confirm = Some(OnConfirm {
            then,
            ..OnConfirm::default()
        });
        let unasked = client.done::<Negotiate>(NegotiateParams {
            on_confirm,
            ..ask("data-tool", 2)
        });
        assert_eq!(
            (false, false, true, Some(Denial::NoApprover)),
            (
                unasked.success,
                unasked.requires_approval,
                unasked.is_error,
                unasked.denied
            )
        );
        assert!(
            unasked.output.contains("aishctl perm grant data-tool 2"),
            "{}",
            unasked.output
        );
    }
    assert!(open(&client, conversation).is_empty());
    // It was bounded after it was asked for.
    let confirm = wanted(&client, conversation, "data-tool", 2);
    let record = get(&client, confirm);
    let config = std::fs::read_to_string(scene.world.config_file()).unwrap();
    scene
        .world
        .write_config(&config.replace("max_level = 2", "max_level = 1"));
    client.done::<Reload>(Empty {});
    until_true("the bound", || {
        let again = client.done::<Negotiate>(ask("data-tool", 2));
        again.output.contains("max_level of data-tool is 1")
    });
    let outcome = client
        .done::<Answer>(with(&record, Decision::RaiseOnly))
        .outcome;
    assert_eq!(AnswerOutcome::Cancelled, outcome);
    assert_eq!(ConfirmState::Cancelled, get(&client, confirm).state);
    assert_eq!(1, level(&client, conversation, "data-tool"));
}

/// The rules of every other confirm.
#[test]
fn only_who_may_answer_does_and_only_what_was_asked() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let conversation = client.create();
    let confirm = wanted(&client, conversation, "data-tool", 2);
    let record = get(&client, confirm);
    let observer = scene.world.stranger();
    observer.hello_as("looks", ClientRole::Observer);
    assert_eq!(record, get(&observer, confirm));
    let error = observer.refused::<Answer>(with(&record, Decision::RaiseOnly));
    assert_eq!(i64::from(ErrorKind::ForbiddenRole.code()), error.code);
    let error = observer.refused::<Negotiate>(upgrade(conversation, "data-tool", 3));
    assert_eq!(i64::from(ErrorKind::ForbiddenRole.code()), error.code);
    for decision in [
        Decision::AllowOnce,
        Decision::AllowConversation,
        Decision::AllowProvider,
        Decision::Edit,
        Decision::Abort,
    ] {
        let error = client.refused::<Answer>(with(&record, decision));
        assert_eq!(-32602, error.code, "{decision:?}");
    }
    let edited = AnswerParams {
        arguments: Some("{\"level\":3}".to_owned()),
        ..with(&record, Decision::RaiseOnly)
    };
    assert_eq!(-32602, client.refused::<Answer>(edited).code);
    let other = get(&client, wanted(&client, conversation, "data-tool", 3));
    let mixed = AnswerParams {
        digest: other.request.digest,
        ..with(&record, Decision::RaiseOnly)
    };
    let outcome = client.done::<Answer>(mixed).outcome;
    assert_eq!(AnswerOutcome::ArgsChanged, outcome);
    assert_eq!(1, level(&client, conversation, "data-tool"));
    assert_eq!(2, open(&client, conversation).len());
    // A script that asked may answer, if it is nobody that the daemon started.
    answer(&client, &record, Decision::RaiseOnly);
}

#[test]
fn a_question_ends_when_nobody_needs_it_any_more() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let conversation = client.create();
    let set = |level| {
        client.done::<permission::Set>(SetParams {
            conversation,
            provider: "data-tool".to_owned(),
            level,
        })
    };
    // Raised by hand as far as the first of them wants.
    let (two, three) = (
        wanted(&client, conversation, "data-tool", 2),
        wanted(&client, conversation, "data-tool", 3),
    );
    let record = get(&client, two);
    set(2);
    assert_eq!(ConfirmState::Cancelled, get(&client, two).state);
    assert_eq!(ConfirmState::Pending, get(&client, three).state);
    let late = client.done::<Answer>(with(&record, Decision::RaiseOnly));
    assert_eq!(AnswerOutcome::Cancelled, late.outcome);
    // A yes to the higher one; its history has where the level really stood.
    answer(&client, &get(&client, three), Decision::RaiseOnly);
    let steps: Vec<_> = history(&client, conversation)
        .iter()
        .map(|it| (it.from, it.to))
        .collect();
    assert_eq!(vec![(1, 2), (2, 3)], steps);
    let provider = "data-tool".to_owned();
    client.done::<permission::Revoke>(RevokeParams {
        conversation,
        provider,
    });

    // The conversation is put away, and what asked goes with it in the same moment.
    let confirm = wanted(&client, conversation, "data-tool", 2);
    let id = conversation;
    client.done::<Archive>(ConversationParams { id });
    assert!(open(&client, conversation).is_empty());
    assert_eq!(ConfirmState::Cancelled, get(&client, confirm).state);

    let gone = client.create();
    let confirm = wanted(&client, gone, "data-tool", 2);
    let confirm_title = client
        .done::<StatusOf>(ConversationParams { id: gone })
        .title;
    client.done::<Delete>(ConversationDeleteParams {
        id: gone,
        confirm_title,
    });
    assert!(open(&client, gone).is_empty());
    let error = client.refused::<Get>(ConfirmParams { confirm });
    assert_eq!(i64::from(ErrorKind::NotFound.code()), error.code);
    whole(&client);
}

/// Silence is a no, at the time that the asker gave or after a while without anybody.
#[test]
fn silence_is_a_no_to_a_level_too() {
    let scene = Scene::new("[permissions]\nconfirm_timeout = \"1s\"\n");
    let client = scene.world.client();
    let conversation = client.create();
    let unattended = wanted(&client, conversation, "data-tool", 2);
    let until_expired = |confirm| {
        until_true("the end of its time", || {
            get(&client, confirm).state == ConfirmState::Expired
        });
    };
    until_expired(unattended);
    let person = scene.world.person("pts/1");
    let mut window = person.attach(conversation, ReplayStart::Now);
    window.until_kind("replayComplete");
    let timed = NegotiateParams {
        on_confirm: Some(OnConfirm {
            timeout_ms: Some(200),
            ..OnConfirm::default()
        }),
        ..upgrade(conversation, "data-tool", 2)
    };
    let timed = check_asked(&client.done::<Negotiate>(timed));
    assert!(get(&client, timed).request.expires_at.is_some());
    until_expired(timed);
    let late = client.done::<Answer>(with(&get(&client, timed), Decision::RaiseOnly));
    assert_eq!(AnswerOutcome::Expired, late.outcome);
    assert_eq!(1, level(&client, conversation, "data-tool"));
    // Without an end of its own it waits for as long as somebody is there, also longer than others.
    let waits = wanted(&client, conversation, "data-tool", 2);
    let longer = NegotiateParams {
        on_confirm: Some(OnConfirm {
            timeout_ms: Some(1500),
            ..OnConfirm::default()
        }),
        ..upgrade(conversation, "data-tool", 3)
    };
    until_expired(check_asked(&client.done::<Negotiate>(longer)));
    assert_eq!(ConfirmState::Pending, get(&client, waits).state);
    drop((window, person));
    until_expired(waits);
}
