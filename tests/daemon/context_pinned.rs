//! What pinned resources hold is known before a request is made to fit.

use aish_proto::mcp::{Pin, Unpin};
use aish_proto::turn::{Cancel, FailureClass, StopReason, TurnParams};
use aish_testkit::Client;

use crate::context::{asked, log, preview};
use crate::pinned::{Scene, pin};

#[test]
fn pinned_resources_count_from_the_first_request_on() {
    // In the middle of what one of them and both of them need: what else a model is told changes.
    let scene = Scene::of("watched", "context_tokens = 9600");
    let client = scene.world.client();
    let conversation = client.create();
    for uri in ["note://big-1", "note://big-2"] {
        client.done::<Pin>(pin(conversation, uri));
    }
    let before = preview(&client, conversation, Some("first"));
    let why = before.too_long.unwrap();
    assert!(
        why.contains("the 2 pinned resources (unpin \"@n:note://big-"),
        "{why}"
    );
    assert!(before.tokens.pinned > 6_000, "{:?}", before.tokens);
    let record = client.wait_turn(client.ask(conversation, "first"));
    assert_eq!(Some(StopReason::Upstream), record.stop_reason);
    let error = record.error.unwrap();
    assert_eq!(FailureClass::ContextOverflow, error.class);
    assert_eq!(error.message.strip_prefix("broker: "), Some(why.as_str()));
    assert_eq!(0, scene.upstream.requests().len(), "nothing was sent");
    // Whoever takes one of them out is heard.
    client.done::<Unpin>(pin(conversation, "note://big-1"));
    let before = preview(&client, conversation, Some("second"));
    asked(&client, conversation, "second");
    let sent = String::from_utf8(scene.upstream.requests().pop().unwrap().body).unwrap();
    assert_eq!(sent, before.body);
    assert!(sent.contains("note://big-2") && !sent.contains("note://big-1"));
    assert_eq!(before.bytes, sent.len() as u64);
    let log = log(&client, conversation);
    assert!(!log.iter().any(|it| it.kind == "evicted"), "{log:?}");
    scene.upstream.finish();
}

/// They are read by a task, so that the conversation can be stopped meanwhile.
#[test]
fn a_turn_that_waits_for_a_pinned_resource_is_cancelled_at_once() {
    let scene = Scene::of("watched", "");
    let client: Client = scene.world.client();
    let conversation = client.create();
    client.done::<Pin>(pin(conversation, "note://1"));
    for _ in 0..8 {
        let turn = client.ask(conversation, "and?");
        client.done::<Cancel>(TurnParams { turn });
        let record = client.wait_turn(turn);
        let stop = record.stop_reason;
        assert!(
            matches!(stop, Some(StopReason::Cancelled | StopReason::End)),
            "{record:?}"
        );
    }
    asked(&client, conversation, "still there?");
    scene.upstream.finish();
}
