//! A call of the model waits for a person: what is asked, who may answer, and what comes of each answer.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{
    Answer, AnswerOutcome, AnswerParams, AnswerResult, ConfirmListParams, ConfirmParams,
    ConfirmRecord, ConfirmState, Decision, Denial, Get, List, Watch,
};
use aish_proto::conversation::{Activity, ConversationParams, StatusOf};
use aish_proto::event::{ConfirmResolved, Snapshot, ToolResult};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::method::{ClientRole, Empty};
use aish_proto::turn::{
    Cancel, OnConfirm, Send, StopReason, TurnParams, TurnStatus, UnattendedAction,
};
use aish_testkit::client::question;
use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer as Said, Asked as _, Client, Daemon, Upstream, World, surroundings};
use serde_json::{Value, json};

use crate::tools::events;

/// A daemon whose model calls a tool that is asked about.
pub(crate) struct Scene {
    pub(crate) upstream: Upstream,
    pub(crate) world: World,
    pub(crate) daemon: Daemon,
}

impl Scene {
    pub(crate) fn new(more: &str) -> Self {
        let upstream = Upstream::start();
        let world = World::new();
        let config = upstream.config("test");
        world.write_config(&format!("{config}\n[tools]\nbuiltin = true\n{more}"));
        let daemon = world.daemon().spawn();
        Self {
            upstream,
            world,
            daemon,
        }
    }

    /// To a question the model answers with one call for each of these, and to their results with a text.
    pub(crate) fn model_calls(&self, arguments: &[&str]) {
        let arguments: Vec<String> = arguments.iter().map(|it| (*it).to_owned()).collect();
        self.upstream.answer_with(move |request| {
            let messages = request.messages();
            if messages.last().is_none_or(|(role, _)| role != "user") {
                return Said::text("So late already.");
            }
            let mut answer = Said::stream();
            for (index, arguments) in (0..).zip(&arguments) {
                answer = answer.then_call(index, &call_id(), "aish__time", arguments);
            }
            answer
        });
    }

    /// Asks, and waits for the confirm that comes of it.
    pub(crate) fn asked(&self, client: &Client) -> (ConversationId, TurnId, ConfirmRecord) {
        self.model_calls(&["{}"]);
        let conversation = client.create();
        let turn = client.ask(conversation, "what time is it?");
        (conversation, turn, pending(client, conversation))
    }
}

/// An id for a call that no other has.
pub(crate) fn call_id() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("call_{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The confirm that waits in a conversation, once there is one.
#[track_caller]
pub(crate) fn pending(client: &Client, conversation: ConversationId) -> ConfirmRecord {
    let params = ConfirmListParams {
        conversation: Some(conversation),
    };
    until("a confirm", PATIENCE, || {
        client.done::<List>(params).confirms.pop()
    })
}

pub(crate) fn with(confirm: &ConfirmRecord, decision: Decision) -> AnswerParams {
    AnswerParams {
        confirm: confirm.request.confirm,
        decision,
        digest: confirm.request.digest.clone(),
        arguments: None,
        reason: None,
        changes: None,
        only: vec![],
        hunks: None,
        content: None,
    }
}

fn answer(client: &Client, confirm: &ConfirmRecord, decision: Decision) -> AnswerResult {
    client.done::<Answer>(with(confirm, decision))
}

/// What the model was told of its calls in its last request.
fn told(scene: &Scene) -> Vec<String> {
    let requests = scene.upstream.requests();
    let messages = requests.last().unwrap().messages();
    let results = messages.into_iter().filter(|(role, _)| role == "tool");
    results.map(|(_, content)| content).collect()
}

#[test]
fn a_call_waits_for_a_yes_and_then_runs_once() {
    let scene = Scene::new("");
    let client = scene.world.person("pts/5");
    let (conversation, turn, confirm) = scene.asked(&client);
    let request = &confirm.request;
    assert_eq!(ConfirmState::Pending, confirm.state);
    assert_eq!(
        ("aish__time", "{}", "/", 1, 1),
        (
            request.call().tool.as_str(),
            request.call().arguments.as_str(),
            request.call().cwd.as_str(),
            request.number,
            request.tool_call().level_required
        )
    );
    let id = conversation;
    let status = client.done::<StatusOf>(ConversationParams { id });
    assert_eq!(Activity::RequiresAction, status.state);
    let mut other = with(&confirm, Decision::AllowOnce);
    other.digest = "0".repeat(64);
    let refused = client.done::<Answer>(other);
    assert_eq!(AnswerOutcome::ArgsChanged, refused.outcome);
    assert_eq!(1, scene.upstream.requests().len(), "nothing ran");
    let first = answer(&client, &confirm, Decision::AllowOnce);
    assert_eq!(AnswerOutcome::Resolved, first.outcome);
    let second = answer(&scene.world.client(), &confirm, Decision::Deny);
    assert_eq!(AnswerOutcome::AlreadyResolved, second.outcome);
    assert_eq!(Some(Decision::AllowOnce), second.decision);
    let by = second.by.unwrap();
    assert_eq!(
        (Some("pts/5"), Some(std::process::id())),
        (by.tty.as_deref(), by.pid)
    );
    let record = client.wait_turn(turn);
    assert_eq!(
        (Some(StopReason::End), "So late already.", 0),
        (record.stop_reason, record.text.as_str(), record.denied)
    );
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    let recording = follow.recording();
    recording.assert_sound();
    let kinds: Vec<&str> = recording.stored().iter().map(|it| it.1).collect();
    assert_eq!(
        vec![
            "created",
            "userMessage",
            "turnStarted",
            "assistantMessage",
            "confirmRequested",
            "confirmResolved",
            "toolCall",
            "toolResult",
            "assistantMessage",
            "turnFinished"
        ],
        kinds
    );
    let confirm = client.done::<Get>(ConfirmParams {
        confirm: request.confirm,
    });
    assert_eq!(ConfirmState::Allowed, confirm.state);
    assert_eq!(*request, confirm.request, "it stays what it was");
    scene.upstream.finish();
}

/// What each answer does, and what the model hears of it.
#[test]
fn every_answer_has_its_own_effect() {
    #[track_caller]
    fn check(params: impl FnOnce(&mut AnswerParams), told_as: &str, denied: u32, stop: StopReason) {
        let scene = Scene::new("");
        let client = scene.world.client();
        let (conversation, turn, confirm) = scene.asked(&client);
        let mut answer = with(&confirm, Decision::Deny);
        params(&mut answer);
        let outcome = client.done::<Answer>(answer).outcome;
        assert_eq!(AnswerOutcome::Resolved, outcome);
        let record = client.wait_turn(turn);
        assert_eq!((Some(stop), denied), (record.stop_reason, record.denied));
        let mut follow = client.attach(conversation, ReplayStart::Start);
        let result = follow.until_kind("toolResult");
        let result: ToolResult = result.read().unwrap();
        assert!(result.content.starts_with(told_as), "{}", result.content);
        if stop == StopReason::End {
            assert_eq!(vec![result.content], told(&scene));
        }
        scene.upstream.finish();
    }
    let end = StopReason::End;
    check(|_| {}, "[aish] denied by user", 1, end);
    check(
        |it| it.reason = Some("not on a Friday".to_owned()),
        "[aish] denied by user: not on a Friday",
        1,
        end,
    );
    check(
        |it| {
            it.decision = Decision::Edit;
            it.arguments = Some("{ \"b\": 1.0, \"a\": 2 }".to_owned());
        },
        "[aish] the user changed the arguments to {\"a\":2,\"b\":1}; this is the result of that call\n",
        0,
        end,
    );
    check(
        |it| it.decision = Decision::Abort,
        "[aish] denied by user",
        1,
        StopReason::Denied,
    );
}

/// "Always" is for this tool in this conversation.
#[test]
fn always_is_for_this_conversation() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client);
    answer(&client, &confirm, Decision::AllowConversation);
    client.wait_turn(turn);
    scene.model_calls(&["{}"]);
    let again = client.wait_turn(client.ask(conversation, "and now?"));
    assert_eq!(Some(StopReason::End), again.stop_reason);
    let (_, other, confirm) = scene.asked(&client);
    answer(&client, &confirm, Decision::Deny);
    assert_eq!(1, client.wait_turn(other).denied);
    // Also after a restart.
    assert_eq!(0, scene.daemon.terminate());
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    scene
        .upstream
        .answer(Said::stream().then_call(0, &call_id(), "aish__time", "{}"));
    scene.upstream.answer(Said::text("Later."));
    let after = client.wait_turn(client.ask(conversation, "and now?"));
    assert_eq!("Later.", after.text);
}

#[test]
fn who_asks_can_say_what_happens_where_a_person_would_be_asked() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let ask = |conversation, on_confirm: OnConfirm| {
        scene.model_calls(&["{}"]);
        let mut params = question(conversation, "what time is it?");
        params.on_confirm = Some(on_confirm);
        client.done::<Send>(params).turn
    };
    let on = |then, allow: &[&str]| OnConfirm {
        then,
        allow: allow.iter().map(|it| (*it).to_owned()).collect(),
        timeout_ms: None,
    };
    let conversation = client.create();
    for (on_confirm, denied) in [
        (on(UnattendedAction::Deny, &[]), 1),
        (on(UnattendedAction::AskAttended, &[]), 1),
        (on(UnattendedAction::Deny, &["aish__time"]), 0),
        (on(UnattendedAction::AskAttended, &["aish__*"]), 0),
        (on(UnattendedAction::Deny, &["aish__date", "fs__*"]), 1),
    ] {
        let shown = format!("{on_confirm:?}");
        let record = client.wait_turn(ask(conversation, on_confirm));
        assert_eq!(denied, record.denied, "{shown}");
        assert_eq!(Some(StopReason::End), record.stop_reason);
    }
    // Somebody at a terminal can be asked.
    let person = scene.world.person("pts/7");
    let mut follow = person.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    let turn = ask(conversation, on(UnattendedAction::AskAttended, &[]));
    follow.until_kind("confirmRequested");
    let confirm = pending(&person, conversation);
    answer(&person, &confirm, Decision::AllowOnce);
    assert_eq!(0, client.wait_turn(turn).denied);
    let mut params = question(conversation, "x");
    params.on_confirm = Some(on(UnattendedAction::Ask, &["fs__r*"]));
    assert_eq!(-32602, client.refused::<Send>(params).code);
}

/// Policy comes before everything, and what it denies is not offered.
#[test]
fn policy_decides_before_anybody_is_asked() {
    let scene = Scene::new("[permissions]\ndeny = [\"aish__time\"]\n");
    let client = scene.world.client();
    scene.model_calls(&["{}"]);
    let record = client.wait_turn(client.ask(client.create(), "x"));
    assert_eq!(1, record.denied);
    assert_eq!(
        vec!["[aish] denied by policy: permissions.deny aish__time"],
        told(&scene)
    );
    let offered = scene.upstream.requests()[0].json()["tools"].to_string();
    assert!(!offered.contains("aish__time"), "{offered}");
    drop(scene);
    let scene = Scene::new("[mcp.auto_approve]\n\"aish__*\" = true\n");
    let client = scene.world.client();
    scene.model_calls(&["{}", "{}"]);
    let record = client.wait_turn(client.ask(client.create(), "x"));
    assert_eq!((0, 2), (record.denied, told(&scene).len()));
}

/// What is no call of a tool that was offered is answered in words.
#[test]
fn a_call_that_cannot_be_one_is_told_so() {
    let scene = Scene::new("");
    let client = scene.world.client();
    scene.upstream.answer(
        Said::stream()
            .then_call(0, "a", "aish__tiem", "{}")
            .then_call(1, "b", "aish__time", "[1]"),
    );
    let record = client.wait_turn(client.ask(client.create(), "x"));
    assert_eq!(
        (Some(StopReason::End), 0),
        (record.stop_reason, record.denied)
    );
    let told = told(&scene);
    assert_eq!(
        "[aish] tool dispatch failed: unknown tool aish__tiem",
        told[0]
    );
    assert!(
        told[1].starts_with("[aish] tool arguments not parseable as JSON: "),
        "{told:?}"
    );
    scene.upstream.finish();
}

#[test]
fn a_cancel_takes_the_question_back() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let (_, turn, confirm) = scene.asked(&client);
    assert!(client.done::<Cancel>(TurnParams { turn }).cancelled);
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Cancelled), record.stop_reason);
    let late = answer(&client, &confirm, Decision::AllowOnce);
    assert_eq!(AnswerOutcome::Cancelled, late.outcome);
    assert!(
        client
            .done::<List>(ConfirmListParams::default())
            .confirms
            .is_empty()
    );
    assert_eq!(1, scene.upstream.requests().len());
}

/// Silence is a no after a while.
#[test]
fn silence_is_a_no_in_the_end() {
    let scene = Scene::new("[permissions]\nconfirm_timeout = \"1s\"\n");
    let client = scene.world.client();
    let (conversation, turn, confirm) = scene.asked(&client);
    let record = client.wait_turn(turn);
    assert_eq!(
        (Some(StopReason::End), 1),
        (record.stop_reason, record.denied)
    );
    let late = answer(&client, &confirm, Decision::AllowOnce);
    assert_eq!(AnswerOutcome::Expired, late.outcome);
    assert_eq!(vec!["[aish] denied: nobody answered in time"], told(&scene));
    // Who asks can be less patient, whoever is attached.
    let person = scene.world.person("pts/1");
    let mut follow = person.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    scene.model_calls(&["{}"]);
    let mut params = question(conversation, "again");
    params.on_confirm = Some(OnConfirm {
        timeout_ms: Some(200),
        ..OnConfirm::default()
    });
    let turn = client.done::<Send>(params).turn;
    follow.until_finished(turn);
    let result = follow.events_so_far().iter().find_map(|it| it.read());
    let result: ToolResult = result.unwrap();
    assert_eq!(Some(Denial::Expired), result.denied);
}

/// Detaching and an ordered restart lose nothing: the same id, the same bytes.
#[test]
fn a_question_outlives_its_daemon() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let (conversation, turn, before) = scene.asked(&client);
    drop(client);
    assert_eq!(0, scene.daemon.terminate());
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let after = pending(&client, conversation);
    assert_eq!(before, after);
    let mut follow = client.attach(conversation, ReplayStart::Now);
    let snapshot: Snapshot = follow.until_kind("snapshot").read().unwrap();
    assert_eq!(vec![before.clone()], snapshot.pending_confirms);
    assert_eq!(
        TurnStatus::Running,
        client
            .done::<aish_proto::turn::Get>(TurnParams { turn })
            .status
    );
    assert_eq!(
        AnswerOutcome::Resolved,
        answer(&client, &before, Decision::AllowOnce).outcome
    );
    let record = client.wait_turn(turn);
    assert_eq!("So late already.", record.text);
    let late = answer(&client, &before, Decision::AllowOnce);
    assert_eq!(AnswerOutcome::AlreadyResolved, late.outcome);
    scene.upstream.finish();
}

/// A client that watches all conversations learns of every question and every end.
#[test]
fn all_confirms_can_be_watched_at_once() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let (_, _, first) = scene.asked(&client);
    let watching = scene.world.client();
    let subscription = watching.done::<Watch>(Empty {}).subscription;
    let mut follow = watching.follow(subscription);
    let asked = follow.until_kind("confirmRequested");
    assert_eq!(json!(first.request), asked.data);
    follow.until_kind("replayComplete");
    let (conversation, _, second) = scene.asked(&client);
    let asked = follow.until_kind("confirmRequested");
    assert_eq!(
        (Some(conversation), json!(second.request)),
        (asked.conversation, asked.data)
    );
    answer(&client, &first, Decision::Deny);
    let ended: ConfirmResolved = follow.until_kind("confirmResolved").read().unwrap();
    assert_eq!(
        (first.request.confirm, ConfirmState::Denied),
        (ended.confirm, ended.state)
    );
    let listed = client.done::<List>(ConfirmListParams::default()).confirms;
    assert_eq!(vec![second], listed);
}

/// Where a question wants somebody who is there, whoever watches all of them is, at a terminal or not.
#[test]
fn who_watches_all_confirms_counts_as_somebody_who_may_answer() {
    let scene = Scene::new("");
    scene.model_calls(&["{}"]);
    let asker = scene.world.client();
    let denied = |watches: bool| {
        let conversation = asker.create();
        let on_confirm = OnConfirm {
            then: UnattendedAction::AskAttended,
            ..OnConfirm::default()
        };
        let mut asked = question(conversation, "what time is it?");
        asked.on_confirm = Some(on_confirm);
        let turn = asker.done::<Send>(asked).turn;
        if watches {
            answer(&asker, &pending(&asker, conversation), Decision::Deny);
        }
        asker.wait_turn(turn);
        let results = events::<ToolResult>(&asker, conversation);
        results[0].content.clone()
    };
    assert!(denied(false).contains("nobody is attached"));
    let looking = scene.world.stranger();
    looking.hello_as("looks", ClientRole::Observer);
    looking.done::<Watch>(Empty {});
    assert!(
        denied(false).contains("nobody is attached"),
        "it may not answer"
    );
    let watching = scene.world.stranger();
    watching.hello_as("answers", ClientRole::Approver);
    watching.done::<Watch>(Empty {});
    assert!(denied(true).contains("denied by user"));
}

/// An observer looks, an approver answers, and only a driver asks. What is no decision is an error.
#[test]
fn a_role_says_who_may_answer() {
    let scene = Scene::new("");
    let (_, _, confirm) = scene.asked(&scene.world.client());
    let observer = scene.world.stranger();
    observer.hello_as("looks", ClientRole::Observer);
    let refused = observer.refused::<Answer>(with(&confirm, Decision::AllowOnce));
    assert_eq!("forbiddenRole", refused.kind());
    let approver = scene.world.stranger();
    approver.hello_as("answers", ClientRole::Approver);
    for params in [
        json!({"confirm": confirm.request.confirm, "decision": "yes", "digest": confirm.request.digest}),
        json!({"confirm": confirm.request.confirm, "decision": "allowOnce", "digest": "abc"}),
        json!({"confirm": confirm.request.confirm, "decision": "allowOnce"}),
        json!({"confirm": confirm.request.confirm, "decision": "edit", "digest": confirm.request.digest}),
        json!({"confirm": confirm.request.confirm, "decision": "edit", "digest": confirm.request.digest, "arguments": "[]"}),
        json!({"confirm": confirm.request.confirm, "decision": "raiseOnly", "digest": confirm.request.digest}),
    ] {
        let refused = approver.call_raw("confirm/answer", &params).unwrap_err();
        assert_eq!(-32602, refused.code, "{params}");
    }
    let unknown = AnswerParams {
        confirm: aish_proto::id::ConfirmId::from_bytes([7; 16]),
        ..with(&confirm, Decision::AllowOnce)
    };
    assert_eq!(
        AnswerOutcome::Unknown,
        approver.done::<Answer>(unknown).outcome
    );
    assert_eq!(
        AnswerOutcome::Resolved,
        answer(&approver, &confirm, Decision::AllowOnce).outcome
    );
}

/// Of two answers one counts, whoever gives them; the other is told who won. 1,000 races in all by default.
#[test]
fn of_two_answers_exactly_one_counts() {
    let races = surroundings::races();
    let scene = Scene::new("");
    scene.model_calls(&["{}"]);
    let people: Vec<Client> = (0..2)
        .map(|it| scene.world.person(&format!("pts/{it}")))
        .collect();
    for first in (0..races).step_by(RACES_IN_ONE) {
        let conversation = people[0].create();
        let count = RACES_IN_ONE.min(races - first);
        for race in first..first + count {
            run_race(&people, conversation, race);
        }
        let mut follow = people[0].attach(conversation, ReplayStart::Start);
        follow.until_kind("replayComplete");
        let counted = |kind: &str, state: &Value| {
            let events = follow.events_so_far().iter();
            let of_kind = events.filter(|it| it.kind == kind);
            of_kind
                .filter(|it| state.is_null() || it.data["state"] == *state)
                .count()
        };
        assert_eq!(count, counted("confirmResolved", &Value::Null));
        assert_eq!(count, counted("toolResult", &Value::Null));
        let allowed = counted("confirmResolved", &json!("allowed"));
        assert_eq!(allowed, counted("toolCall", &Value::Null));
    }
}

/// So many races have one conversation, so that its transcript stays short.
const RACES_IN_ONE: usize = 50;

#[track_caller]
fn run_race(people: &[Client], conversation: ConversationId, race: usize) {
    let turn = people[0].ask(conversation, "what time is it?");
    let confirm = pending(&people[0], conversation);
    let start = Barrier::new(2);
    let outcomes: Vec<AnswerResult> = thread::scope(|scope| {
        let answers = people.iter().zip([Decision::AllowOnce, Decision::Deny]);
        let answers: Vec<_> = answers
            .map(|(person, decision)| {
                let (confirm, start) = (&confirm, &start);
                scope.spawn(move || {
                    start.wait();
                    answer(person, confirm, decision)
                })
            })
            .collect();
        answers.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let won: Vec<usize> = (0..2)
        .filter(|it| outcomes[*it].outcome == AnswerOutcome::Resolved)
        .collect();
    assert_eq!(1, won.len(), "race {race}: {outcomes:?}");
    let lost = &outcomes[1 - won[0]];
    assert_eq!(AnswerOutcome::AlreadyResolved, lost.outcome);
    let winner = lost.by.as_ref().and_then(|it| it.tty.clone());
    assert_eq!(Some(format!("pts/{}", won[0])), winner);
    let denied = people[0].wait_turn(turn).denied;
    let no_won = u32::try_from(won[0]).unwrap();
    assert_eq!(no_won, denied, "what won is what happened");
}
