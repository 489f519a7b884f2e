//! What is sent, to whom and how often, what people are told, and what a crash leaves. Every way in which a
//! server fails is in `fallback_table`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{ConversationParams, StatusOf};
use aish_proto::daemon::Status;
use aish_proto::envelope::Envelope;
use aish_proto::event::{FallbackUsed, TurnFinished};
use aish_proto::id::TurnId;
use aish_proto::method::Empty;
use aish_proto::route::{FallbackGet, FallbackSet, SwitchParams};
use aish_proto::turn::{FailureClass, Send, StopReason, TurnRecord};
use aish_testkit::client::question;
use aish_testkit::surroundings::kills;
use aish_testkit::{Answer, Client, Upstream, World};

pub(crate) const TIMEOUTS: &str = "timeouts = { connect = \"400ms\", first_byte = \"600ms\", idle = \"300ms\", content_idle = \"400ms\" }";

/// Two servers: `fast` is asked first, `cloud` is what there is besides.
pub(crate) struct Scene {
    pub(crate) local: Upstream,
    pub(crate) cloud: Upstream,
    pub(crate) world: World,
}

impl Scene {
    /// `more` are further tables.
    pub(crate) fn new(fallback: bool, more: &str) -> Self {
        let (local, cloud, world) = (Upstream::start(), Upstream::start(), World::new());
        world.write_config(&format!(
            "default_model = \"fast\"\n{}{}{more}\n[routing]\nfallback = {fallback}\n",
            local.preset("fast", TIMEOUTS),
            cloud
                .preset("cloud", TIMEOUTS)
                .replace("test-model", "cloud-model"),
        ));
        Self {
            local,
            cloud,
            world,
        }
    }

    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.local.requests().len(), self.cloud.requests().len())
    }
}

/// What becomes of one question.
pub(crate) struct Told {
    pub(crate) record: TurnRecord,
    pub(crate) events: Vec<Envelope>,
}

impl Told {
    pub(crate) fn of(client: &Client, model: Option<&str>) -> Self {
        let conversation = client.create();
        let mut follow = client.attach(conversation, ReplayStart::Start);
        let mut params = question(conversation, "hello");
        params.model = model.map(str::to_owned);
        let turn = client.done::<Send>(params).turn;
        follow.until_finished(turn);
        Self {
            record: client.wait_turn(turn),
            events: follow.events_so_far().to_vec(),
        }
    }

    pub(crate) fn all<E: aish_proto::envelope::EventData>(&self) -> Vec<E> {
        self.events.iter().filter_map(Envelope::read).collect()
    }

    pub(crate) fn place(&self, kind: &str) -> Option<usize> {
        self.events.iter().position(|it| it.kind == kind)
    }

    pub(crate) fn statuses(&self) -> Vec<String> {
        let texts = self.all::<aish_proto::event::Status>();
        texts.into_iter().map(|it| it.text).collect()
    }
}

pub(crate) fn error(message: &str) -> String {
    serde_json::json!({"error": {"message": message}}).to_string()
}

#[test]
fn the_same_is_sent_and_the_next_question_begins_with_the_turns_own_preset() {
    let scene = Scene::new(/*fallback*/ true, "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let conversation = client.create();
    scene.local.answer(Answer::status(503, "{}"));
    client.wait_turn(client.ask(conversation, "first"));
    let (local, cloud) = (scene.local.requests(), scene.cloud.requests());
    assert_eq!(local[0].messages(), cloud[0].messages());
    let status = client.done::<StatusOf>(ConversationParams { id: conversation });
    let last = status.last_turn.unwrap();
    assert_eq!(
        ("fast", Some("cloud")),
        (last.model.as_str(), last.fell_back_to.as_deref())
    );
    assert_eq!(None, status.model);
    client.wait_turn(client.ask(conversation, "second"));
    assert_eq!((2, 1), scene.counts());
}

/// A request is one request of the model, not a turn.
#[test]
fn each_request_of_a_turn_may_fall_back_once() {
    let scene = Scene::new(
        /*fallback*/ true,
        "[tools]\nbuiltin = true\n[mcp.auto_approve]\n\"aish__time\" = true\n",
    );
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    scene.local.answer(Answer::status(500, "{}"));
    scene
        .cloud
        .answer(Answer::stream().then_call(0, "call_1", "aish__time", "{}"));
    scene.local.answer(Answer::status(500, "{}"));
    let told = Told::of(&client, None);
    assert_eq!((2, 2), scene.counts());
    assert_eq!(2, told.all::<FallbackUsed>().len());
    assert_eq!(Some(StopReason::End), told.record.stop_reason);
    let last = scene.cloud.requests()[1].messages();
    assert_eq!("tool", last.last().unwrap().0);
}

#[test]
fn if_the_other_one_fails_too_its_error_is_shown_with_the_first_as_its_cause() {
    let scene = Scene::new(/*fallback*/ true, "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    for (second, class) in [
        (
            Answer::status(503, &error("busy")),
            FailureClass::Unreachable,
        ),
        (Answer::busy(1), FailureClass::RateLimited),
        (
            Answer::status(401, &error("no key")),
            FailureClass::Unauthorized,
        ),
        (
            Answer::stream().then_text("half").then_cut(),
            FailureClass::Cut,
        ),
        (Answer::reset(), FailureClass::Unreachable),
    ] {
        let before = scene.counts();
        scene
            .local
            .answer(Answer::status(502, &error("bad gateway")));
        scene.cloud.answer(second);
        let told = Told::of(&client, None);
        let error = told.record.error.unwrap();
        assert_eq!(class, error.class, "{error:?}");
        assert_eq!(
            Some("transport: HTTP 502: bad gateway"),
            error.cause.as_deref()
        );
        assert_ne!(error.cause.as_deref(), Some(error.message.as_str()));
        assert_eq!((before.0 + 1, before.1 + 1), scene.counts(), "{class:?}");
    }
    let status = client.done::<Status>(Empty {}).routing;
    assert_eq!((5, 5), (status.fallbacks, status.fallbacks_failed));
}

#[test]
fn a_pause_that_the_server_asks_for_comes_first() {
    let scene = Scene::new(/*fallback*/ true, "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let busy = || Answer::status(503, &error("loading")).header("retry-after", "1");
    scene.local.answer(busy());
    scene.local.answer(busy());
    let told = Told::of(&client, None);
    assert_eq!((2, 1), scene.counts());
    let statuses = told.statuses();
    assert!(statuses[0].ends_with("trying again in 1 s"), "{statuses:?}");
    assert!(
        statuses[1].starts_with("local fast failed (HTTP 503)"),
        "{statuses:?}"
    );
}

#[test]
fn who_has_it_off_is_told_so_and_can_switch_it_on() {
    let scene = Scene::new(/*fallback*/ false, "");
    let daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let down = || scene.local.answer(Answer::status(503, "{}"));
    down();
    let told = Told::of(&client, None);
    assert_eq!((1, 0), scene.counts());
    let statuses = told.statuses();
    assert_eq!(1, statuses.len(), "{statuses:?}");
    assert!(
        statuses[0].starts_with("routing.fallback is off: fast is not answering (HTTP 503);"),
        "{statuses:?}"
    );
    assert!(statuses[0].contains(":fallback on"), "{statuses:?}");
    let end: TurnFinished = told.all().pop().unwrap();
    assert_eq!(FailureClass::Unreachable, end.error.unwrap().class);
    // Where it would not help, nothing is said of it.
    scene.local.answer(Answer::status(401, "{}"));
    assert!(Told::of(&client, None).statuses().is_empty());

    let state = client.done::<FallbackSet>(SwitchParams { on: Some(true) });
    assert!(state.on && !state.configured && state.known, "{state:?}");
    down();
    assert_eq!(
        Some(StopReason::End),
        Told::of(&client, None).record.stop_reason
    );
    // Over a restart too; and what is switched off is off.
    daemon.kill9();
    let daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    down();
    assert_eq!(
        Some(StopReason::End),
        Told::of(&client, None).record.stop_reason
    );
    assert_eq!((4, 2), scene.counts());
    client.done::<FallbackSet>(SwitchParams { on: Some(false) });
    down();
    assert_eq!(
        Some(StopReason::Upstream),
        Told::of(&client, None).record.stop_reason
    );
    client.done::<FallbackSet>(SwitchParams { on: None });
    assert_eq!(0, daemon.terminate());
    let _daemon = scene.world.daemon().spawn();
    let state = scene.world.client().done::<FallbackGet>(Empty {});
    assert_eq!((false, None), (state.on, state.switched));
    assert_eq!((5, 2), scene.counts());
}

#[test]
fn what_is_switched_off_while_a_request_runs_does_not_happen() {
    let scene = Scene::new(/*fallback*/ true, "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    scene.local.answer(answer);
    let turn = client.ask(conversation, "hello");
    gate.wait_request();
    client.done::<FallbackSet>(SwitchParams { on: Some(false) });
    let record = client.wait_turn(turn);
    assert_eq!(Some(StopReason::Upstream), record.stop_reason);
    assert_eq!((1, 0), scene.counts());
    drop(gate);
}

#[test]
fn without_another_preset_nothing_is_said_or_done() {
    let (local, world) = (Upstream::start(), World::new());
    world.write_config(&format!(
        "{}\n[routing]\nfallback = true\n",
        local.config("fast")
    ));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    local.answer(Answer::status(503, "{}"));
    let told = Told::of(&client, None);
    assert_eq!(
        (Some(StopReason::Upstream), 0),
        (told.record.stop_reason, told.statuses().len())
    );
    assert!(!client.done::<FallbackGet>(Empty {}).known);
    assert_eq!(1, local.requests().len());
}

/// kill -9 between the first failure and the second request, and while the second is answered: nobody asks a third time.
#[test]
fn a_crash_between_the_two_asks_nobody_again() {
    let kills = kills();
    for (point, at_cloud) in [
        ("fallback.before_store", 0),
        ("fallback.after_store", 0),
        ("stream.mid", 1),
    ] {
        for _ in 0..kills {
            let scene = Scene::new(/*fallback*/ true, "");
            let mut daemon = scene
                .world
                .daemon()
                .failpoint(&format!("{point}=kill"))
                .spawn();
            let client = scene.world.client();
            let conversation = client.create();
            scene.local.answer(Answer::status(503, "{}"));
            let params = question(conversation, "hello");
            // It may die before it has said that it took the question.
            let asked = params.clone();
            let _sent = catch_unwind(AssertUnwindSafe(|| client.call::<Send>(asked)));
            daemon.wait_exit();
            assert_eq!((1, at_cloud), scene.counts(), "{point}");
            let _daemon = scene.world.daemon().spawn();
            let client = scene.world.client();
            let sent = client.done::<Send>(params);
            assert!(sent.duplicate, "{point}");
            let turn = sent.turn;
            let record = client.wait_turn(turn);
            assert_eq!(Some(StopReason::Interrupted), record.stop_reason, "{point}");
            let stored = (point != "fallback.before_store").then_some("cloud");
            assert_eq!(stored, record.fell_back_to.as_deref(), "{point}");
            assert_eq!((1, at_cloud), scene.counts(), "{point}");
            // A new turn is a new turn.
            let again: TurnId = client.ask(conversation, "and now?");
            assert_eq!(Some(StopReason::End), client.wait_turn(again).stop_reason);
            assert_eq!((2, at_cloud), scene.counts(), "{point}");
        }
    }
}
