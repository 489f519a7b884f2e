//! Questions that a person has to know the price of: nothing is sent and nothing is kept until somebody accepts it.

use aish_proto::turn::{AgainParams, Retry, Send, SendParams};
use aish_testkit::client::question;
use aish_testkit::{Answer, Client, Daemon, Upstream, World};

use crate::context::log;
use crate::files::created;

/// Ten dollars for a million tokens that are sent.
const DEAR: &str = "price = { input = 10.0, output = 10.0 }";

struct Scene {
    upstream: Upstream,
    world: World,
    _daemon: Daemon,
    client: Client,
}

impl Scene {
    fn new(preset: &str, more: &str) -> Self {
        let upstream = Upstream::start();
        upstream.answer_with(|_| Answer::text("I see."));
        let world = World::new();
        let preset = upstream.preset("paid", preset);
        world.write_config(&format!("default_model = \"paid\"\n{preset}{more}"));
        let daemon = world.daemon().spawn();
        let client = world.client();
        Self {
            upstream,
            world,
            _daemon: daemon,
            client,
        }
    }
}

fn accepted(question: SendParams) -> SendParams {
    SendParams {
        accept_cost: true,
        ..question
    }
}

/// Three bytes are taken for a token until a server has counted.
#[test]
fn a_large_question_is_never_paid_for_without_a_word() {
    let scene = Scene::new(DEAR, "");
    let conversation = created(&scene.world, &scene.client);
    let large = question(conversation, &"a log line\n".repeat(60_000));
    let refused = scene.client.refused::<Send>(large.clone());
    assert_eq!("costly", refused.kind());
    assert!(
        refused
            .message
            .starts_with("this would send about 220k tokens to paid, for $2.2"),
        "{}",
        refused.message
    );
    assert_eq!(0, scene.upstream.requests().len());
    let before = log(&scene.client, conversation).len();

    // A yes sends the same question, under the same key.
    let turn = scene.client.done::<Send>(accepted(large)).turn;
    scene.client.wait_turn(turn);
    assert_eq!(1, scene.upstream.requests().len());
    assert!(log(&scene.client, conversation).len() > before);

    // It is in the context now: a short question would pay for it again, and so would a retry.
    let short = question(conversation, "and?");
    let refused = scene.client.refused::<Send>(short.clone());
    assert_eq!("costly", refused.kind());
    let again = AgainParams {
        conversation,
        turn: None,
        idempotency_key: "again".to_owned(),
        model: None,
        accept_cost: false,
    };
    let refused = scene.client.refused::<Retry>(again);
    assert_eq!("costly", refused.kind());
    assert_eq!(1, scene.upstream.requests().len());
    let turn = scene.client.done::<Send>(accepted(short)).turn;
    scene.client.wait_turn(turn);
    assert_eq!(2, scene.upstream.requests().len());
}

/// Whether a question of so many bytes is asked about.
#[track_caller]
fn check(preset: &str, more: &str, bytes: usize, is_asked: bool) {
    let scene = Scene::new(preset, more);
    let conversation = created(&scene.world, &scene.client);
    let params = question(conversation, &"x".repeat(bytes));
    if is_asked {
        let refused = scene.client.refused::<Send>(params);
        assert_eq!("costly", refused.kind());
    } else {
        let turn = scene.client.done::<Send>(params).turn;
        scene.client.wait_turn(turn);
    }
    assert_eq!(usize::from(!is_asked), scene.upstream.requests().len());
}

#[test]
fn what_is_asked_about_is_configured_and_what_costs_nothing_never_is() {
    // 33,334 tokens, for 34 cents.
    let bytes = 100_000;
    check(DEAR, "", bytes, false);
    check(DEAR, "[limits]\nask_above_usd = 0.3\n", bytes, true);
    check(DEAR, "[limits]\nask_above_usd = 0\n", 500_000, false);
    let half = format!("{DEAR}\ncontext_tokens = 50000");
    check(&half, "", bytes, true);
    check(
        "context_tokens = 50000\nprice = { input = 0.0, output = 0.0 }",
        "",
        bytes,
        false,
    );
}
