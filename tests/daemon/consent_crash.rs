//! kill -9 around a confirm and around a call: a question that was shown is there again with the same id
//! and the same bytes, a call that was started is never started again, every call has exactly one reply, and the next
//! request is valid, which the upstream examines.
//!
//! `AISH_TEST_KILLS` says how many kills there are at each point.

use std::panic::{AssertUnwindSafe, catch_unwind};

use aish_proto::attach::ReplayStart;
use aish_proto::audit::{AuditKind, AuditListParams as ListParamsOfTrail};
use aish_proto::confirm::{
    Answer, AnswerOutcome, ConfirmListParams, ConfirmRecord, Decision, List,
};
use aish_proto::envelope::Envelope;
use aish_proto::event::{AssistantMessage, ToolCall, ToolResult};
use aish_proto::id::{ConversationId, TurnId};
use aish_proto::turn::{Send, SendParams, StopReason, TurnStatus};
use aish_testkit::client::question;
use aish_testkit::surroundings::kills;
use aish_testkit::{Client, Follow};

use crate::audit;
use crate::consent::{Scene, pending, with};

/// What must be true after the daemon died at this point while two calls were asked about and run.
struct Point {
    name: &'static str,
    /// The passing that kills: the calls pass it one after the other.
    nth: usize,
    /// Whether the turn goes on after the restart.
    goes_on: bool,
}

/// At the passing of the first call, and at that of the second.
#[track_caller]
fn check(name: &'static str, goes_on: bool) {
    for nth in [1, 2] {
        check_at(&Point { name, nth, goes_on });
    }
}

#[track_caller]
fn check_at(point: &Point) {
    for _ in 0..kills() {
        let Scene {
            upstream,
            world,
            daemon,
        } = Scene::new("");
        assert_eq!(0, daemon.terminate());
        let armed = format!("{}=kill@{}", point.name, point.nth);
        let daemon = world.daemon().failpoint(&armed).spawn();
        let mut scene = Scene {
            upstream,
            world,
            daemon,
        };
        let params = until_it_dies(&mut scene);
        let _daemon = scene.world.daemon().spawn();
        let client = scene.world.client();
        let conversation = params.conversation;
        let sent = client.done::<Send>(params);
        assert!(sent.duplicate, "{}: the question was stored", point.name);
        let turn = sent.turn;
        let open = client.done::<List>(ConfirmListParams::default()).confirms;
        assert_eq!(usize::from(point.goes_on), open.len(), "{}", point.name);
        finish(&client, conversation, turn);
        let record = client.wait_turn(turn);
        let expected = if point.goes_on {
            StopReason::End
        } else {
            StopReason::Interrupted
        };
        assert_eq!(Some(expected), record.stop_reason, "{}", point.name);
        let mut follow = client.attach(conversation, ReplayStart::Start);
        follow.until_kind("replayComplete");
        follow.recording().assert_sound();
        every_call_has_one_reply(follow.events_so_far());
        every_call_has_its_record(&client, follow.events_so_far());
        scene
            .upstream
            .answer(aish_testkit::Answer::text("after the crash"));
        let after = client.wait_turn(client.ask(conversation, "and after?"));
        assert_eq!(Some(StopReason::End), after.stop_reason);
        scene.upstream.finish();
    }
}

/// Asks, and says yes to whatever is asked, until the daemon is gone.
fn until_it_dies(scene: &mut Scene) -> SendParams {
    scene.model_calls(&["{\"n\":1}", "{\"n\":2}"]);
    let client = scene.world.client();
    let answering = scene.world.client();
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let params = question(conversation, "what time is it?");
    // The daemon may die before it has said that it took the question; what it had told by then is still read.
    let asking = scene.world.client();
    let asked = params.clone();
    let _sent = catch_unwind(AssertUnwindSafe(|| asking.call::<Send>(asked)));
    while let Some(confirm) = next_question(&mut follow, &answering) {
        let yes = with(&confirm, Decision::AllowOnce);
        let answered = catch_unwind(AssertUnwindSafe(|| answering.call::<Answer>(yes)));
        if !matches!(answered, Ok(Ok(_))) {
            break;
        }
    }
    scene.daemon.wait_exit();
    params
}

fn next_question(follow: &mut Follow, client: &Client) -> Option<ConfirmRecord> {
    loop {
        let event = follow.next()?;
        if event.kind == "confirmRequested" {
            let listed = catch_unwind(AssertUnwindSafe(|| {
                client.call::<List>(ConfirmListParams::default())
            }));
            return listed.ok()?.ok()?.confirms.pop();
        }
    }
}

/// Says yes to what is still asked.
fn finish(client: &Client, conversation: ConversationId, turn: TurnId) {
    let get = || client.done::<aish_proto::turn::Get>(aish_proto::turn::TurnParams { turn });
    while get().status == TurnStatus::Running {
        let params = ConfirmListParams {
            conversation: Some(conversation),
        };
        let Some(confirm) = client.done::<List>(params).confirms.pop() else {
            std::thread::yield_now();
            continue;
        };
        assert_eq!(confirm, pending(client, conversation));
        let outcome = client
            .done::<Answer>(with(&confirm, Decision::AllowOnce))
            .outcome;
        assert_eq!(AnswerOutcome::Resolved, outcome);
    }
}

/// Whatever ran is told of, and nothing else is.
#[track_caller]
fn every_call_has_its_record(client: &Client, events: &[Envelope]) {
    let verdict = audit::verify(client);
    assert!(verdict.whole, "{:?}", verdict.findings);
    let told = audit::records(client, &ListParamsOfTrail::default());
    let told = told.iter().filter(|it| it.kind == AuditKind::CallStarted);
    let mut told: Vec<_> = told.filter_map(|it| it.seq).collect();
    told.sort_unstable();
    let ran = events.iter().filter(|it| it.read::<ToolCall>().is_some());
    let ran: Vec<_> = ran.filter_map(|it| it.seq).collect();
    assert_eq!(ran, told);
}

#[track_caller]
fn every_call_has_one_reply(events: &[Envelope]) {
    let calls: Vec<String> = events
        .iter()
        .filter_map(|it| it.read::<AssistantMessage>())
        .flat_map(|it| it.tool_calls.into_iter().map(|it| it.id))
        .collect();
    for call in calls {
        let started = events.iter().filter_map(|it| it.read::<ToolCall>());
        let started = started.filter(|it| it.call == call).count();
        let replies = events.iter().filter_map(|it| it.read::<ToolResult>());
        let replies: Vec<ToolResult> = replies.filter(|it| it.call == call).collect();
        assert_eq!(1, replies.len(), "{call}: {replies:?}");
        assert!(started <= 1, "{call} was started {started} times");
        let unknown = replies[0]
            .content
            .contains("the effect of this call is unknown");
        assert!(!unknown || started == 1, "{replies:?}");
    }
}

#[test]
fn before_a_question_is_stored() {
    check("confirm.before_store", false);
}

#[test]
fn after_a_question_is_stored() {
    check("confirm.after_store", true);
}

#[test]
fn after_an_answer_is_stored() {
    check("confirm.after_answer_store", false);
}

#[test]
fn before_the_mark_that_a_call_started() {
    check("tool.before_start_mark", false);
}

#[test]
fn after_the_mark_that_a_call_started() {
    check("tool.after_start_mark", false);
}

#[test]
fn after_a_result_is_stored() {
    check("tool.after_result", false);
}

/// Also where it was shown long ago, and nobody is attached any more.
#[test]
fn while_a_question_is_open() {
    for _ in 0..kills() {
        let scene = Scene::new("");
        let client = scene.world.client();
        let (conversation, turn, before) = scene.asked(&client);
        drop(client);
        let Scene {
            upstream,
            world,
            daemon,
        } = scene;
        daemon.kill9();
        world.daemon().spawn().kill9();
        let daemon = world.daemon().spawn();
        let scene = Scene {
            upstream,
            world,
            daemon,
        };
        let client = scene.world.client();
        assert_eq!(before, pending(&client, conversation));
        assert_eq!(
            1,
            scene.upstream.requests().len(),
            "nothing ran or was sent"
        );
        finish(&client, conversation, turn);
        assert_eq!(Some(StopReason::End), client.wait_turn(turn).stop_reason);
        scene.upstream.finish();
    }
}
