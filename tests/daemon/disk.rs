//! A full disk: requests fail with a clear error, reading works, the daemon lives and goes on by itself.

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{
    ConversationCreateParams, ConversationDeleteParams, ConversationParams, Create, Delete,
    StatusOf,
};
use aish_proto::daemon::Status;
use aish_proto::method::Empty;
use aish_proto::shell::{Run, ShellEnding, ShellRunParams};
use aish_proto::turn::{Cancel, Send, StopReason, TurnParams};
use aish_testkit::client::question;
use aish_testkit::{Answer, Upstream, World, disk, wait};

#[test]
fn a_full_disk_is_said_and_outlived() {
    let Some((_upstream, world, small)) = on_a_small_disk() else {
        return;
    };
    let mut daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let first = client.wait_turn(client.ask(conversation, "while there is room"));
    small.fill();
    let refused = wait::until("a refusal", wait::PATIENCE, || {
        client.call::<Send>(question(conversation, "no room")).err()
    });
    assert_eq!(
        ("storage", -31014),
        (refused.kind(), refused.code),
        "{refused}"
    );
    let status = client.done::<Status>(Empty {});
    assert!(
        !status.store.writable && status.store.problem.is_some(),
        "{status:?}"
    );
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    assert!(
        follow
            .recording()
            .final_texts()
            .values()
            .any(|it| *it == first.text),
        "reading works"
    );
    assert!(client.call::<Create>(create()).is_err());
    small.free();
    let turn = wait::until("it goes on by itself", wait::PATIENCE, || {
        client
            .call::<Send>(question(conversation, "room again"))
            .ok()
    });
    client.wait_turn(turn.turn);
    assert!(daemon.is_running());
    wait::until_true("the store is well again", || {
        client.done::<Status>(Empty {}).store.writable
    });
}

fn create() -> ConversationCreateParams {
    ConversationCreateParams {
        cwd: "/".to_owned(),
        ..ConversationCreateParams::default()
    }
}

#[test]
fn a_start_on_a_full_disk_works() {
    let Some((_upstream, world, small)) = on_a_small_disk() else {
        return;
    };
    let daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, "before"));
    daemon.kill9();
    small.fill();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let status = client.done::<StatusOf>(ConversationParams { id: conversation });
    assert_eq!(1, status.turns, "reading works on a full disk");
    small.free();
    let sent = wait::until("it goes on by itself", wait::PATIENCE, || {
        client.call::<Send>(question(conversation, "after")).ok()
    });
    client.wait_turn(sent.turn);
}

/// A world whose store lies on a disk of its own; none where only root could make one.
fn on_a_small_disk() -> Option<(Upstream, World, disk::Small)> {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let small = disk::Small::mount(&world.path("state"), 40 << 20)?;
    Some((upstream, world, small))
}

/// What a full disk does to a question it does to nothing else.
#[test]
fn a_question_that_finds_no_room_ends_no_command() {
    let Some((_upstream, world, small)) = on_a_small_disk() else {
        return;
    };
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let mut follow = client.attach(conversation, ReplayStart::Start);
    let command = "echo begun; while ! test -e go; do sleep 0.05; done; echo done";
    let params = ShellRunParams {
        conversation,
        command: command.to_owned(),
        cwd: Some(world.work().display().to_string()),
        into_context: true,
    };
    let began = client.done::<Run>(params);
    follow.until_kind("shellOutput");
    small.fill();
    for _ in 0..3 {
        let refused = wait::until("a refusal", wait::PATIENCE, || {
            client.call::<Send>(question(conversation, "no room")).err()
        });
        assert_eq!("storage", refused.kind());
    }
    small.free();
    std::fs::write(world.work().join("go"), "").unwrap();
    let end = crate::shell::finished(&mut follow, &began.call);
    assert_eq!(
        (ShellEnding::Exited, "begun\ndone\n"),
        (end.ending, end.output.as_str())
    );
    let sent = wait::until("it goes on by itself", wait::PATIENCE, || {
        client
            .call::<Send>(question(conversation, "room again"))
            .ok()
    });
    client.wait_turn(sent.turn);
}

/// The reserve is for ends: an answer that was under way is stored, and so is a delete.
#[test]
fn what_was_under_way_when_the_disk_became_full_is_ended() {
    let Some((upstream, world, small)) = on_a_small_disk() else {
        return;
    };
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = client.ask(conversation, "look");
    gate.wait_request();
    small.fill();
    gate.text("seen");
    gate.finish();
    assert_eq!("seen", client.wait_turn(turn).text);
    let status = client.done::<Status>(Empty {});
    let problem = status.store.problem.unwrap_or_default();
    assert!(
        !status.store.writable && problem.contains("MiB more are free"),
        "an end that was stored is not room for more: {problem}"
    );
    let refused = client.refused::<Send>(question(conversation, "no room"));
    assert_eq!("storage", refused.kind());
    client.done::<Delete>(ConversationDeleteParams {
        id: conversation,
        confirm_title: "look".to_owned(),
    });
    let gone = client.refused::<StatusOf>(ConversationParams { id: conversation });
    assert_eq!("notFound", gone.kind());
}

/// Where even the reserve is used up, what waits is said to whoever looks on, and is stored when there is room. A cancel in
/// that time is not lost.
#[test]
fn what_a_full_disk_held_back_is_said_and_stored_when_there_is_room() {
    let Some((upstream, world, small)) = on_a_small_disk() else {
        return;
    };
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = client.ask(conversation, "look twice");
    let mut follow = client.attach(conversation, ReplayStart::Now);
    gate.text("looking");
    // Or it would be cancelled before anything was said.
    let _said = follow.until_kind("textDelta");
    fill_with_the_reserve(&small, &world);
    gate.delta(&serde_json::json!({"tool_calls": [
        {"index": 0, "id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    ]}));
    gate.finish();
    let waits = follow.until(|it| it.data["waits"].is_string());
    assert_eq!("state", waits.kind);
    // Who comes later is told too.
    let mut late = client.attach(conversation, ReplayStart::Now);
    let snapshot = late.until_kind("snapshot");
    assert!(snapshot.data["waits"].is_string(), "{}", snapshot.data);
    let refused = client.refused::<Cancel>(TurnParams { turn });
    assert_eq!(
        "storage",
        refused.kind(),
        "nothing that is not stored is acknowledged"
    );
    small.free();
    // Who tries again and again does not keep the daemon from it.
    let sent = wait::until("it goes on by itself", wait::PATIENCE, || {
        client.call::<Send>(question(conversation, "again")).ok()
    });
    let stopped = client.wait_turn(turn);
    assert_eq!(
        (Some(StopReason::Cancelled), "looking"),
        (stopped.stop_reason, stopped.text.as_str())
    );
    assert_eq!(
        Some(StopReason::End),
        client.wait_turn(sent.turn).stop_reason
    );
    let _stored = follow.until(|it| it.kind == "state" && it.data["waits"].is_null());
}

/// What waits for the store goes with its conversation.
#[test]
fn a_conversation_that_waits_for_room_can_be_deleted() {
    let Some((upstream, world, small)) = on_a_small_disk() else {
        return;
    };
    let daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let _turn = client.ask(conversation, "much");
    let mut follow = client.attach(conversation, ReplayStart::Now);
    small.fill();
    // More than the reserve takes.
    for _ in 0..64 {
        gate.text(&"much ".repeat(13_000));
    }
    gate.finish();
    let _waits = follow.until(|it| it.data["waits"].is_string());
    client.done::<Delete>(ConversationDeleteParams {
        id: conversation,
        confirm_title: "much".to_owned(),
    });
    let gone = client.refused::<StatusOf>(ConversationParams { id: conversation });
    assert_eq!("notFound", gone.kind());
    daemon.terminate();
}

/// Not one byte is left, the reserve of the store included.
fn fill_with_the_reserve(small: &disk::Small, world: &World) {
    std::fs::remove_file(world.state().join("store/reserve")).unwrap();
    small.fill();
}

/// An interrupted turn on a disk that is full at the next start: reading works, and its end comes with the room.
#[test]
fn an_interrupted_turn_is_ended_when_there_is_room() {
    let Some((upstream, world, small)) = on_a_small_disk() else {
        return;
    };
    let daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = client.ask(conversation, "for ever");
    gate.wait_request();
    daemon.kill9();
    small.fill();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let params = ConversationParams { id: conversation };
    assert_eq!(1, client.done::<StatusOf>(params).turns, "reading works");
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    small.free();
    assert_eq!(
        Some(StopReason::Interrupted),
        client.wait_turn(turn).stop_reason
    );
}

/// A delete that the store refuses changes nothing for the turn that runs.
#[test]
fn a_refused_delete_leaves_the_turn_alone() {
    let Some((upstream, world, small)) = on_a_small_disk() else {
        return;
    };
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let turn = client.ask(conversation, "keep me");
    gate.text("kept");
    fill_with_the_reserve(&small, &world);
    let delete = || ConversationDeleteParams {
        id: conversation,
        confirm_title: "keep me".to_owned(),
    };
    let refused = wait::until("a refusal", wait::PATIENCE, || {
        client.call::<Create>(create()).err()
    });
    assert_eq!("storage", refused.kind());
    assert_eq!("storage", client.refused::<Delete>(delete()).kind());
    small.free();
    gate.finish();
    assert_eq!("kept", client.wait_turn(turn).text);
    client.done::<Delete>(delete());
    let gone = client.refused::<StatusOf>(ConversationParams { id: conversation });
    assert_eq!("notFound", gone.kind());
}

#[test]
fn a_read_only_directory_is_a_clear_error_and_changes_nothing() {
    let world = World::new();
    let Some(small) = disk::Small::mount(&world.path("state"), 40 << 20) else {
        return;
    };
    world.daemon().spawn().terminate();
    small.read_only();
    let refused = world.daemon().spawn_or_exit();
    assert_eq!(Err(74), refused.map(|it| it.pid()));
    let log = world.log_text();
    assert!(log.contains(&world.state().display().to_string()), "{log}");
}
