//! kill -9 around a change of the shared context: it is there together with the result of its call, or not at all.

use aish_proto::event::ResourceChanged;
use aish_proto::id::ConversationId;
use aish_proto::resource::Create;
use aish_proto::tool::{Run, ToolRunParams};
use aish_testkit::surroundings;
use aish_testkit::wait::{PATIENCE, until};
use serde_json::json;
use ulid::Ulid;

use crate::audit::whole;
use crate::consent::Scene;
use crate::lists::{call, here, result};
use crate::resources::{allowed, creating, get, names};
use crate::tools::events;

#[test]
fn a_change_and_the_result_of_its_call_are_both_there_or_neither_is() {
    let kills = surroundings::kills();
    for (point, is_there) in [
        ("tool.before_start_mark", false),
        ("tool.after_start_mark", false),
        ("resource.before_store", false),
        ("resource.after_store", true),
        ("tool.after_result", true),
        // The turn ends with it.
        ("turn.before_commit", false),
        ("turn.after_commit", true),
    ] {
        for _ in 0..kills.div_ceil(5) {
            let Scene {
                upstream,
                world,
                daemon,
            } = Scene::new("");
            assert_eq!(0, daemon.terminate());
            let mut daemon = world.daemon().failpoint(&format!("{point}=kill")).spawn();
            let write = json!({"name": "build-config", "data": {"n": 1}});
            let calls = [call("w", "data-tool__create-resource", write)];
            let sent = ToolRunParams {
                new: Some(here()),
                ..allowed(ConversationId(Ulid::new()), &calls, "data-tool__*")
            };
            let id = sent.conversation;
            let client = world.client();
            let _unanswered = client.send::<Run>(sent.clone());
            daemon.wait_exit();
            let daemon = world.daemon().spawn();
            let client = world.client();
            let twice = until("the list", PATIENCE, || {
                client.call::<Run>(sent.clone()).ok()
            });
            client.wait_turn(twice.turn);
            let reply = result(&client, id, "w");
            let changed = events::<ResourceChanged>(&client, id).len();
            assert_eq!(
                (is_there, usize::from(is_there)),
                (reply.ok, changed),
                "{point}: {}",
                reply.content
            );
            if is_there {
                assert_eq!(json!({"n": 1}), get(&client, id, "build-config").data);
            } else {
                assert!(names(&client, id).is_empty(), "{point}");
                let made = client.done::<Create>(creating(id, "build-config", json!(2)));
                assert_eq!(1, made.revision, "{point}");
            }
            whole(&client);
            drop((upstream, daemon));
        }
    }
}

#[test]
fn what_a_person_was_told_is_there_after_kill_nine() {
    let scene = Scene::new("");
    let client = scene.world.client();
    let id = client.create();
    for number in 0..20 {
        client.done::<Create>(creating(id, &format!("r{number:02}"), json!(number)));
    }
    let Scene {
        upstream,
        world,
        daemon,
    } = scene;
    daemon.kill9();
    let daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(20, names(&client, id).len());
    assert_eq!(json!(19), get(&client, id, "r19").data);
    drop((upstream, daemon));
}
