//! What a server cannot answer just now is asked again, before anybody has seen a word of an answer.

use aish_proto::turn::StopReason;
use aish_testkit::{Answer, Upstream, World};

#[test]
fn a_request_that_fails_for_a_moment_is_answered_in_the_end() {
    let upstream = Upstream::start();
    let world = World::new();
    let preset = upstream.preset("fast", "retries = 2");
    world.write_config(&format!("default_model = \"fast\"\n{preset}"));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();

    upstream.answer(Answer::status(503, "{\"error\":{\"message\":\"loading\"}}"));
    upstream.answer(Answer::reset());
    upstream.answer(Answer::text("here I am"));
    let turn = client.wait_turn(client.ask(conversation, "are you there?"));
    assert_eq!("here I am", turn.text);
    let sent: Vec<_> = upstream
        .requests()
        .iter()
        .map(|it| it.body.clone())
        .collect();
    assert_eq!((3, &sent[0], &sent[0]), (sent.len(), &sent[1], &sent[2]));

    // What was shown once is not asked for again.
    upstream.answer(Answer::stream().then_text("half").then_reset());
    let turn = client.wait_turn(client.ask(conversation, "and now?"));
    assert_eq!(
        ("half", Some(StopReason::Upstream)),
        (&*turn.text, turn.stop_reason)
    );
    assert_eq!(4, upstream.requests().len());
}
