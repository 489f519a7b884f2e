//! kill -9 in the middle of a list of calls: every call has one reply, none is started twice, and what can go
//! on goes on.

use aish_proto::attach::ReplayStart;
use aish_proto::confirm::{Answer, AnswerParams, ConfirmListParams, ConfirmRecord, Decision, List};
use aish_proto::event::{ConfirmRequested, ToolCall};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::tool::{Run, ToolRunParams};
use aish_proto::turn::{Continue, Get, StopReason, TurnParams, TurnStatus};
use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer as Said, Asked as _, Client, surroundings};
use serde_json::json;
use ulid::Ulid;

use crate::consent::{pending, with};
use crate::lists::{ALL, again, call, chain, here, params, result, run, started};
use crate::tools::{Scene, events};

/// Says yes to whatever is asked until the turn is over.
fn finish(client: &Client, conversation: ConversationId, turn: TurnId) {
    while client.done::<Get>(TurnParams { turn }).status == TurnStatus::Running {
        let params = ConfirmListParams {
            conversation: Some(conversation),
        };
        let Some(confirm) = client.done::<List>(params).confirms.pop() else {
            std::thread::yield_now();
            continue;
        };
        let _somebody_was_first = client.call::<Answer>(with(&confirm, Decision::AllowOnce));
    }
}

/// Killed at any of these points, every call has one reply, none was started twice, and going on runs exactly
/// those that never began. `AISH_TEST_KILLS` says how often at each.
#[test]
fn no_call_of_a_list_runs_twice_over_a_crash() {
    let kills = surroundings::kills();
    for (point, passing) in [
        ("ask.after_store", 1),
        ("tool.before_start_mark", 1),
        ("tool.before_start_mark", 2),
        ("tool.after_start_mark", 2),
        ("tool.after_result", 1),
        ("tool.after_result", 3),
        ("turn.before_commit", 1),
    ] {
        for _ in 0..kills.div_ceil(2) {
            let Some(scene) = Scene::new(ALL) else { return };
            let (mut scene, sent) = killed(scene, point, passing);
            scene.daemon = scene.world.daemon().spawn();
            let client = scene.world.client();
            let (conversation, key) = (sent.conversation, sent.idempotency_key.clone());
            let twice = until("the list", PATIENCE, || {
                client.call::<Run>(sent.clone()).ok()
            });
            assert!(twice.duplicate, "{point} {passing}: {key}");
            let record = client.wait_turn(twice.turn);
            let whole = ["a", "b", "c"].map(|it| result(&client, conversation, it));
            let begun = events::<ToolCall>(&client, conversation).len();
            let marks = scene.count();
            assert!(marks <= begun, "{point}");
            let rest = again(conversation, twice.turn);
            if begun == 3 {
                let refused = client.refused::<Continue>(rest);
                assert!(refused.message.contains("has begun"), "{refused}");
                continue;
            }
            assert_eq!(Some(StopReason::Interrupted), record.stop_reason, "{point}");
            let known = whole.iter().filter(|it| it.ok).count();
            let turn = client.done::<Continue>(rest).turn;
            let record = client.wait_turn(turn);
            assert_eq!(Some(StopReason::End), record.stop_reason, "{point}");
            for call in ["a", "b", "c"] {
                let times = started(&client, conversation, call).len();
                assert!(
                    times <= 1,
                    "{point} {passing}: {call} was started {times} times"
                );
            }
            // What needs a call whose effect is unknown does not run.
            let ran = if begun == known { 3 } else { marks };
            assert_eq!(ran, scene.count(), "{point} {passing}");
            scene.upstream.answer(Said::text("after the crash"));
            let after = client.wait_turn(client.ask(conversation, "and after?"));
            assert_eq!(Some(StopReason::End), after.stop_reason);
            scene.upstream.finish();
        }
    }
}

/// Runs the chain in a daemon that dies at this point.
fn killed(scene: Scene, point: &str, passing: usize) -> (Scene, ToolRunParams) {
    let Scene {
        upstream,
        world,
        daemon,
    } = scene;
    assert_eq!(0, daemon.terminate());
    let daemon = world
        .daemon()
        .failpoint(&format!("{point}=kill@{passing}"))
        .spawn();
    let mut scene = Scene {
        upstream,
        world,
        daemon,
    };
    let client = scene.world.client();
    let sent = ToolRunParams {
        new: Some(here()),
        ..params(ConversationId(Ulid::new()), &chain())
    };
    // The new daemon waits for its server by itself, and dies before or after it has answered.
    let _unanswered = client.send::<Run>(sent.clone());
    scene.daemon.wait_exit();
    (scene, sent)
}

/// A list whose only open work is a confirm waits for the next daemon, and goes on there with what the calls before
/// it gave, those that are kept whole and those that a person edited included.
#[test]
fn a_list_that_waits_for_a_person_goes_on_after_a_crash() {
    for _ in 0..surroundings::kills().div_ceil(2) {
        let Some(scene) =
            Scene::new("[mcp.auto_approve]\n\"c__echo\" = true\n\"c__long\" = true\n")
        else {
            return;
        };
        let client = scene.world.client();
        let conversation = client.create();
        let calls = [
            call("a", "c__echo", json!({"n": 1})),
            call("long", "c__long", json!({})),
            call(
                "b",
                "c__look",
                json!({"x": {"$result": "a", "pointer": "/n"}}),
            ),
            call(
                "c",
                "c__echo",
                json!({"a": {"$result": "a"}, "b": {"$result": "b"}, "long": {"$result": "long"}}),
            ),
        ];
        let turn = run(&client, conversation, &calls);
        let before = pending(&client, conversation);
        assert_eq!("{\"x\":1}", before.request.call().arguments);
        let Scene {
            upstream,
            world,
            daemon,
        } = scene;
        daemon.kill9();
        let daemon = world.daemon().spawn();
        let scene = Scene {
            upstream,
            world,
            daemon,
        };
        let client = scene.world.client();
        assert_eq!(before, pending(&client, conversation));
        let edited = edit(&before, "{\"x\":2}");
        client.done::<Answer>(edited);
        finish(&client, conversation, turn);
        assert_eq!("all 4 calls succeeded", client.wait_turn(turn).text);
        let whole: String = (0..20_000).map(|it| format!("line {it}\n")).collect();
        assert_eq!(
            vec![json!({"a": "{\"n\": 1}", "b": "look done", "long": whole})],
            started(&client, conversation, "c")
        );
        assert_eq!(1, started(&client, conversation, "a").len());
        assert_eq!(1, events::<ConfirmRequested>(&client, conversation).len());
        let mut follow = client.attach(conversation, ReplayStart::Start);
        follow.until_kind("replayComplete");
        follow.recording().assert_sound();
    }
}

fn edit(confirm: &ConfirmRecord, arguments: &str) -> AnswerParams {
    let mut edit = with(confirm, Decision::Edit);
    edit.arguments = Some(arguments.to_owned());
    edit
}
