//! How a form ends that nobody fills in: with its call, by silence, with the daemon.

use std::fs;

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{
    AnswerOutcome, ConfirmListParams, ConfirmParams, ConfirmState, Get, List,
};
use aish_proto::event::ToolResult;
use aish_proto::turn::{
    Cancel, OnConfirm, Send, SendParams, StopReason, TurnParams, UnattendedAction,
};
use aish_testkit::client::question;
use aish_testkit::{Answer as Said, Daemon};
use serde_json::json;

use crate::forms::{Scene, answered, ends, filled, pending, person_form, told, words};
use crate::tools::events;

/// A form belongs to its call: it goes with it, however it ends.
#[test]
fn a_form_ends_with_its_call() {
    let Some(scene) = Scene::new() else { return };
    let client = scene.world.person("pts/5");
    let (conversation, turn) = scene.asks(&client, "f__leave", &[person_form()]);
    client.wait_turn(turn);
    assert_eq!(vec!["left"], told(&scene));
    // The server may have left before anybody was asked.
    let left = ends(&client, conversation);
    assert!(
        left.iter().all(|it| *it == ConfirmState::Cancelled),
        "{left:?}"
    );
    let (conversation, turn) = scene.asks(&client, "f__take_back", &[person_form()]);
    let confirm = pending(&client, conversation, 1).remove(0);
    scene.now();
    client.wait_turn(turn);
    let late = answered(&client, filled(&confirm, json!({"name": "Ann"})));
    assert_eq!(AnswerOutcome::Cancelled, late.outcome);
    assert_eq!(vec!["taken back"], told(&scene));
    fs::remove_file(scene.world.path("work/now")).unwrap();
    let (conversation, turn) = scene.asks(&client, "f__die", &[person_form()]);
    pending(&client, conversation, 1);
    scene.now();
    client.wait_turn(turn);
    assert!(told(&scene)[0].starts_with("[aish] tool transport error: MCP server f"));
    assert_eq!(vec![ConfirmState::Cancelled], ends(&client, conversation));
    scene.connected();
    let (conversation, turn) = scene.asks(&client, "f__ask", &[person_form()]);
    pending(&client, conversation, 1);
    client.done::<Cancel>(TurnParams { turn });
    assert_eq!(vec![ConfirmState::Cancelled], ends(&client, conversation));
    assert_eq!(
        0,
        client
            .done::<List>(ConfirmListParams::default())
            .confirms
            .len()
    );
    let kinds: Vec<String> = {
        let mut follow = client.attach(conversation, ReplayStart::Start);
        follow.until_kind("replayComplete");
        follow.recording().assert_sound();
        let events = follow.events_so_far().iter().filter(|it| it.seq.is_some());
        events.map(|it| it.kind.clone()).collect()
    };
    let tail = [
        "confirmRequested",
        "confirmResolved",
        "toolResult",
        "turnFinished",
    ];
    assert_eq!(tail[..], kinds[kinds.len() - 4..]);
    scene.upstream.finish();
}

/// What is done where nobody can fill it in; a rule allows calls and fills in no form.
#[test]
fn nobody_there_is_no_answer() {
    let Some(scene) = Scene::new() else { return };
    let client = scene.world.client();
    for (then, timeout_ms, action, said, end) in [
        (
            UnattendedAction::Deny,
            None,
            "decline",
            Some("declined, --confirm=deny"),
            None,
        ),
        (
            UnattendedAction::AskAttended,
            None,
            "decline",
            Some("declined, nobody is attached who could allow it"),
            None,
        ),
        (
            UnattendedAction::Ask,
            Some(300),
            "cancel",
            None,
            Some(ConfirmState::Expired),
        ),
    ] {
        scene.model_calls(&[("f__ask", json!({"asks": [person_form()]}))]);
        let conversation = client.create();
        let on_confirm = OnConfirm {
            then,
            allow: vec!["f__ask".to_owned()],
            timeout_ms,
        };
        let sent = client.done::<Send>(SendParams {
            on_confirm: Some(on_confirm),
            ..question(conversation, "do it")
        });
        client.wait_turn(sent.turn);
        assert_eq!(
            vec![json!([{"action": action}]).to_string().replace(':', ": ")],
            told(&scene)
        );
        assert_eq!(
            end.into_iter().collect::<Vec<_>>(),
            ends(&client, conversation)
        );
        let words = words(&client, conversation);
        assert_eq!(
            said.is_some(),
            words.iter().any(|it| it.ends_with(said.unwrap_or("?"))),
            "{words:?}"
        );
    }
    scene.upstream.finish();
}

/// The server's question dies with the daemon. The form is closed, and the call's reply says why; nothing runs
/// again, and the conversation goes on.
#[track_caller]
fn check_end(end: impl Fn(Daemon), says: &str) {
    let Some(mut scene) = Scene::new() else {
        return;
    };
    let client = scene.world.person("pts/5");
    let (conversation, turn) = scene.asks(&client, "f__ask", &[person_form()]);
    let confirm = pending(&client, conversation, 1).remove(0);
    drop(client);
    end(scene.daemon.take().unwrap());
    scene.daemon = Some(scene.world.daemon().spawn());
    let client = scene.world.person("pts/5");
    assert_eq!(
        0,
        client
            .done::<List>(ConfirmListParams::default())
            .confirms
            .len()
    );
    let record = client.done::<Get>(ConfirmParams {
        confirm: confirm.request.confirm,
    });
    assert_eq!(ConfirmState::Cancelled, record.state);
    assert_eq!(confirm.request, record.request);
    let late = answered(&client, filled(&confirm, json!({"name": "Ann"})));
    assert_eq!(AnswerOutcome::Cancelled, late.outcome);
    let stop = client.wait_turn(turn).stop_reason;
    assert_eq!(Some(StopReason::Interrupted), stop);
    let replies = events::<ToolResult>(&client, conversation);
    assert_eq!(1, replies.len());
    assert!(replies[0].content.contains(says), "{}", replies[0].content);
    scene.upstream.answer(Said::text("after the crash"));
    let after = client.wait_turn(client.ask(conversation, "and after?"));
    assert_eq!("after the crash", after.text);
    scene.upstream.finish();
}

#[test]
fn a_form_is_closed_when_the_daemon_is_killed_or_stopped() {
    check_end(
        Daemon::kill9,
        "waited for a person's answer; the effect of this call is unknown",
    );
    check_end(
        |daemon| assert_eq!(0, daemon.terminate()),
        "the effect of this call is unknown",
    );
}
