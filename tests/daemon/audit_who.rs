//! One record for each decision and for each call's begin and end, and by whom: what a conversation keeps itself
//! from, edited arguments, answers of who watches, silence, cancels, crashes, prompts, pinned resources, notices.

use std::collections::BTreeMap;

use aish_proto::audit::{AuditExportParams, AuditListParams, AuditRecord, Export};
use aish_proto::confirm::{Answer, Decision, Watch};
use aish_proto::conversation::{
    ConversationCreateParams, ConversationLimits, Create, Fork, ForkParams,
};
use aish_proto::id::ConversationId;
use aish_proto::mcp::{CallPrompt, CallPromptParams, GetPrompt, GetPromptParams, Pin, Unpin};
use aish_proto::method::Empty;
use aish_proto::turn::{Cancel, SendMode, TurnParams};
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{Answer as Said, Client};

use crate::audit::{records, whole};
use crate::consent::{Scene, pending, with};
use crate::constraints::{roots, set};
use crate::{notify, pinned, tools};

/// A record in one line: what, of which tool, how, why or with what, and by whom.
fn line(it: &AuditRecord) -> String {
    fn word(value: impl serde::Serialize) -> String {
        serde_json::json!(value).as_str().unwrap().to_owned()
    }
    let mut words = vec![word(it.kind)];
    words.extend(it.tool.clone().or_else(|| it.provider.clone()));
    words.extend(it.decision.map(word));
    words.extend(it.answer.map(word));
    words.extend(it.outcome.map(word));
    words.extend(it.added.iter().map(|it| format!("+{it}")));
    words.extend(it.removed.iter().map(|it| format!("-{it}")));
    words.extend(it.because.as_ref().map(|it| format!("({it})")));
    words.extend(it.arguments.clone());
    let by = it.by.as_ref();
    words.extend(by.map(|it| format!("by {}", it.tty.as_ref().unwrap_or(&it.name))));
    words.join(" ")
}

/// What is told of a conversation, without its questions and models.
pub(crate) fn told(client: &Client, conversation: ConversationId) -> Vec<String> {
    let filter = AuditListParams {
        conversation: Some(conversation),
        ..AuditListParams::default()
    };
    let lines = records(client, &filter)
        .iter()
        .map(line)
        .collect::<Vec<_>>();
    let plain = |it: &String| it.starts_with("turnAsked") || it.starts_with("modelChosen");
    lines.into_iter().filter(|it| !plain(it)).collect()
}

#[track_caller]
fn check(client: &Client, conversation: ConversationId, expected: &[&str]) {
    assert_eq!(expected, told(client, conversation));
    whole(client);
}

/// Who limits a conversation, and what that forbids. No path of a call is named.
#[test]
fn what_a_conversation_keeps_itself_from_is_told_with_who_said_so() {
    let Some(scene) = tools::Scene::new("[mcp.auto_approve]\n\"c__*\" = true\n") else {
        return;
    };
    let client = scene.world.person("pts/4");
    let made = client.done::<Create>(ConversationCreateParams {
        cwd: "/".to_owned(),
        constraints: Some(roots(&["/srv"])),
        ..ConversationCreateParams::default()
    });
    scene.model_calls(&[
        ("c__look", r#"{"path":"/hunter2"}"#),
        ("c__look", r#"{"path":"hunter2"}"#),
    ]);
    let turn = client.ask(made.id, "look");
    let confirm = pending(&client, made.id);
    tools::answer(&client, &confirm, Decision::Deny);
    client.wait_turn(turn);
    let limits = ConversationLimits {
        read_only: true,
        ..roots(&["/opt"])
    };
    set(&client, made.id, limits);
    let because =
        "where a path leads is not known, and paths are kept to the conversation's directories";
    check(
        &client,
        made.id,
        &[
            "constraintsChanged +root /srv by pts/4",
            "callRefused c__look deny (a path is outside of the directories of this conversation)",
            &format!("confirmRequested c__look ask ({because}) {{\"path\":\"hunter2\"}}"),
            "confirmResolved c__look deny deny by pts/4",
            "callRefused c__look deny (denied by a person) by pts/4",
            "constraintsChanged +read only +root /opt -root /srv by pts/4",
        ],
    );
    let exported = client.done::<Export>(AuditExportParams::default()).sealed;
    assert!(!exported.concat().contains("hunter2"), "{exported:#?}");
    // A copy has them, and the trail says since when.
    let at_seq = None;
    let copy = client
        .done::<Fork>(ForkParams {
            id: made.id,
            at_seq,
        })
        .id;
    let limits = "constraintsChanged +read only +root /opt by pts/4";
    check(&client, copy, &[limits]);
    // One that its first question makes.
    let new = ConversationCreateParams {
        cwd: "/".to_owned(),
        constraints: Some(roots(&["/srv"])),
        ..ConversationCreateParams::default()
    };
    let mut params = aish_testkit::client::question(ConversationId::from_bytes([7; 16]), "hello");
    params.new = Some(new);
    scene.upstream.answer(Said::text("hello"));
    let id = params.conversation;
    client.wait_turn(client.done::<aish_proto::turn::Send>(params).turn);
    check(&client, id, &["constraintsChanged +root /srv by pts/4"]);
}

/// What a person makes of a call is what began, and its digest is another.
#[test]
fn an_edited_call_is_told_as_it_was_asked_and_as_it_ran() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/4");
    let (conversation, turn, confirm) = scene.asked(&client);
    let mut edit = with(&confirm, Decision::Edit);
    edit.arguments = Some("{\"zone\":\"utc\"}".to_owned());
    client.done::<Answer>(edit);
    client.wait_turn(turn);
    check(
        &client,
        conversation,
        &[
            "confirmRequested aish__time ask (every call is asked about) {}",
            "confirmResolved aish__time allow edit {\"zone\":\"utc\"} by pts/4",
            "callStarted aish__time allow (approved by a person) {\"zone\":\"utc\"}",
            "callEnded aish__time ok",
        ],
    );
    let digests: Vec<Option<String>> = records(&client, &AuditListParams::default())
        .into_iter()
        .filter(|it| it.tool.is_some())
        .map(|it| it.digest)
        .collect();
    assert_eq!((&digests[0], &digests[2]), (&digests[1], &digests[3]));
    assert_ne!(digests[0], digests[2]);
}

/// Who watches all conversations answers for one of them.
#[test]
fn an_answer_of_who_watches_is_theirs() {
    let scene = Scene::new("");
    let asker = scene.world.client();
    let watcher = scene.world.person("pts/9");
    let subscription = watcher.done::<Watch>(Empty {}).subscription;
    let mut follow = watcher.follow(subscription);
    follow.until_kind("replayComplete");
    let (conversation, turn, confirm) = scene.asked(&asker);
    follow.until_kind("confirmRequested");
    watcher.done::<Answer>(with(&confirm, Decision::AllowOnce));
    asker.wait_turn(turn);
    let told = told(&asker, conversation);
    assert_eq!(
        "confirmResolved aish__time allow allowOnce by pts/9",
        told[1]
    );
}

/// Nobody answered, or the question was taken back: that is a decision, too.
#[test]
fn silence_and_a_cancel_are_told() {
    let scene = Scene::new("[permissions]\nconfirm_timeout = \"1s\"\n");
    let client = scene.world.client();
    let (conversation, turn, _) = scene.asked(&client);
    client.wait_turn(turn);
    let asked = "confirmRequested aish__time ask (every call is asked about) {}";
    check(
        &client,
        conversation,
        &[
            asked,
            "confirmResolved aish__time expire",
            "callRefused aish__time expire (nobody answered in time)",
        ],
    );
    let person = scene.world.person("pts/2");
    let (conversation, turn, _) = scene.asked(&client);
    person.done::<Cancel>(TurnParams { turn });
    check(
        &client,
        conversation,
        &[
            asked,
            "confirmResolved aish__time cancel by pts/2",
            "callRefused (cancelled by the user) by pts/2",
        ],
    );
}

/// What ran when it was cancelled began once and ended once, and nobody knows how.
#[test]
fn a_call_that_was_left_ended_all_the_same() {
    let Some(scene) = tools::Scene::new("[mcp.auto_approve]\n\"c__*\" = true\n") else {
        return;
    };
    scene.model_calls(&[("c__slow", "{}"), ("c__count", "{}")]);
    let person = scene.world.person("pts/2");
    let conversation = person.create();
    let turn = person.ask(conversation, "slowly");
    until_true("the tool runs", || scene.count() == 1);
    person.done::<Cancel>(TurnParams { turn });
    check(
        &person,
        conversation,
        &[
            "callStarted c__slow allow (mcp.auto_approve c__*) {}",
            "callEnded c__slow unknown by pts/2",
            "callRefused (cancelled by the user) by pts/2",
        ],
    );
}

/// So does what ran when the daemon died, when the next one looks.
#[test]
fn a_call_that_a_crash_left_ended_all_the_same() {
    let Some(scene) = tools::Scene::new("[mcp.auto_approve]\n\"c__*\" = true\n") else {
        return;
    };
    scene.model_calls(&[("c__slow", "{}"), ("c__count", "{}")]);
    let client = scene.world.client();
    let conversation = client.create();
    client.ask(conversation, "slowly");
    until_true("the tool runs", || scene.count() == 1);
    drop(client);
    scene.daemon.kill9();
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    // Whoever opens it ends what the last daemon left.
    until("the end", PATIENCE, || {
        (told(&client, conversation).len() == 3).then_some(())
    });
    check(
        &client,
        conversation,
        &[
            "callStarted c__slow allow (mcp.auto_approve c__*) {}",
            "callEnded c__slow unknown",
            "callRefused (interrupted by a restart)",
        ],
    );
}

/// What a person has a server say, once or in every request.
#[test]
fn prompts_and_pinned_resources_are_told_with_who_wanted_them() {
    let scene = pinned::Scene::with("example");
    let client = scene.world.person("pts/4");
    let conversation = client.create();
    scene.upstream.answer(Said::text("Looked."));
    let name = |name: &str| GetPromptParams {
        alias: "n".to_owned(),
        name: name.to_owned(),
        arguments: BTreeMap::new(),
    };
    client.done::<GetPrompt>(name("review"));
    let params = CallPromptParams {
        conversation,
        alias: "n".to_owned(),
        name: "review".to_owned(),
        arguments: [("number".to_owned(), "1".to_owned())].into(),
        new: None,
        idempotency_key: "once".to_owned(),
        mode: SendMode::default(),
        model: None,
        on_confirm: None,
        accept_cost: false,
    };
    let turn = client.done::<CallPrompt>(params.clone()).turn;
    client.wait_turn(turn);
    // Asked again it is the same question, and no server is asked.
    assert_eq!(turn, client.done::<CallPrompt>(params).turn);
    client.done::<Pin>(pinned::pin(conversation, "note://1"));
    client.done::<Unpin>(pinned::pin(conversation, "note://1"));
    check(
        &client,
        conversation,
        &[
            "promptAsked n__review ok by pts/4",
            "resourcePinned n note://1 by pts/4",
            "resourceUnpinned n note://1 by pts/4",
        ],
    );
    let prompts: Vec<AuditRecord> = records(&client, &AuditListParams::default())
        .into_iter()
        .filter(|it| it.provider.as_deref() == Some("n"))
        .collect();
    assert_eq!("promptAsked n__review ok by pts/4", line(&prompts[0]));
    assert_ne!(prompts[0].digest, prompts[1].digest, "other arguments");
    drop(scene.daemon);
}

/// A program that is started because of a question, and that it is another one from now on.
#[test]
fn notices_are_told_with_the_program_that_gives_them() {
    let scene = notify::place(notify::scene(""));
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client);
    let notice = "noticeGiven aish__time ok";
    until_true("the notice", || {
        told(&client, conversation).iter().any(|it| it == notice)
    });
    client.done::<Answer>(with(&confirm, Decision::Deny));
    client.wait_turn(turn);
    whole(&client);
    let rules: Vec<String> = records(&client, &AuditListParams::default())
        .iter()
        .map(line)
        .filter(|it| it.starts_with("policyChanged"))
        .collect();
    let [first, second] = &rules[..] else {
        panic!("{rules:#?}")
    };
    for rule in [
        "+permissions.default_level = 1",
        "+permissions.on_timeout = deny",
        "+tools.max_depth = 50",
    ] {
        assert!(first.contains(rule), "{first}");
    }
    assert!(second.contains("+notify.command sh "), "{second}");
    assert!(!second.contains("urgent"), "{second}");
}
