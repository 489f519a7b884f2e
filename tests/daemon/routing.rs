//! A question goes to the preset of its class, once decided for its whole turn, and people are told.

use aish_proto::attach::ReplayStart;
use aish_proto::audit::{AuditKind, AuditListParams as ListParamsOfTrail};
use aish_proto::config::{Show, ShowParams};
use aish_proto::confirm::{Answer as AnswerConfirm, Decision};
use aish_proto::conversation::{
    ConversationCreateParams, ConversationParams, Create, SetModel, SetModelParams, StatusOf,
};
use aish_proto::daemon::Status as DaemonStatus;
use aish_proto::envelope::Envelope;
use aish_proto::event::{ConfigReloaded, RouteDecided, Status};
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::route::{
    Check, Classes, ClassesParams, Get, RouteCheckParams, RouteClass, Set, SwitchParams,
};
use aish_proto::turn::{AgainParams, Continue, Retry, Send, StopReason};
use aish_testkit::client::question;
use aish_testkit::{Answer, Client, Upstream, World};

use crate::audit;
use crate::consent::{pending, with};

const CODE: &str = "what is wrong with src/main.rs";

/// Presets `fast`, which is the default, and `deep`, each a server of its own.
struct Scene {
    fast: Upstream,
    deep: Upstream,
    world: World,
}

impl Scene {
    fn new(routing: &str, more: &str) -> Self {
        let (fast, deep, world) = (Upstream::start(), Upstream::start(), World::new());
        world.write_config(&format!(
            "default_model = \"fast\"\n{}{}{more}\n[routing]\n{routing}\n",
            fast.preset("fast", ""),
            deep.preset("deep", "").replace("test-model", "deep-model"),
        ));
        Self { fast, deep, world }
    }

    /// Requests at `fast` and at `deep`.
    fn counts(&self) -> (usize, usize) {
        (self.fast.requests().len(), self.deep.requests().len())
    }
}

fn events(client: &Client, conversation: ConversationId) -> Vec<Envelope> {
    let mut follow = client.attach(conversation, ReplayStart::Start);
    follow.until_kind("replayComplete");
    follow.events_so_far().to_vec()
}

fn decisions(events: &[Envelope]) -> Vec<RouteDecided> {
    events.iter().filter_map(Envelope::read).collect()
}

fn statuses(events: &[Envelope]) -> Vec<String> {
    let texts = events.iter().filter_map(Envelope::read::<Status>);
    texts.map(|it| it.text).collect()
}

#[test]
fn a_question_goes_to_the_preset_of_its_class_and_the_active_one_stays() {
    let scene = Scene::new("auto = true", "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let conversation = client.create();
    let record = client.wait_turn(client.ask(conversation, CODE));
    assert_eq!(Some("deep"), record.model.as_deref());
    let routed = record.routed.unwrap();
    assert_eq!(
        (RouteClass::Code, "sourceFile", true),
        (routed.class, routed.rule.as_str(), routed.replaced)
    );
    assert_eq!("deep-model", scene.deep.requests()[0].json()["model"]);
    let status = client.done::<StatusOf>(ConversationParams { id: conversation });
    assert_eq!(
        (None, "deep"),
        (status.model, status.last_turn.unwrap().model.as_str())
    );

    let record = client.wait_turn(client.ask(conversation, "thanks"));
    assert_eq!(Some("fast"), record.model.as_deref());
    let routed = record.routed.unwrap();
    assert_eq!(
        (RouteClass::Default, false),
        (routed.class, routed.replaced)
    );
    assert_eq!((1, 1), scene.counts());

    let events = events(&client, conversation);
    assert_eq!(
        vec!["routed to deep (code: a source file)"],
        statuses(&events)
    );
    let told = decisions(&events);
    assert_eq!(
        vec!["deep", "fast"],
        told.iter().map(|it| it.model.as_str()).collect::<Vec<_>>()
    );
    let place = |kind: &str| events.iter().position(|it| it.kind == kind).unwrap();
    assert!(
        place("turnStarted") < place("routeDecided")
            && place("routeDecided") < place("assistantMessage")
    );
    let trail = audit::records(&client, &ListParamsOfTrail::default());
    let trail = trail
        .iter()
        .filter(|it| it.kind == AuditKind::QuestionRouted);
    let trail: Vec<_> = trail.filter_map(|it| it.model.as_deref()).collect();
    assert_eq!(vec!["deep", "fast"], trail);
    assert_eq!(1, client.done::<DaemonStatus>(Empty {}).routing.routed);
}

#[test]
fn it_is_off_until_somebody_switches_it_on_and_everybody_is_told() {
    let scene = Scene::new("", "");
    let daemon = scene.world.daemon().spawn();
    let person = scene.world.person("pts/3");
    let client = scene.world.client();
    let conversation = client.create();
    client.wait_turn(client.ask(conversation, CODE));
    assert_eq!((1, 0), scene.counts());
    assert!(decisions(&events(&client, conversation)).is_empty());

    // Each connection is told once, in one of its subscriptions.
    let watcher = scene.world.client();
    let mut follow = watcher.attach(conversation, ReplayStart::Now);
    follow.until_kind("replayComplete");
    let state = person.done::<Set>(SwitchParams { on: Some(true) });
    assert!(state.on && !state.configured, "{state:?}");
    let told: ConfigReloaded = follow.until_kind("configReloaded").read().unwrap();
    assert_eq!(vec!["routing.auto"], told.changed);
    assert_eq!("true", told.values["routing.auto"]);
    assert_eq!(Some("pts/3"), told.by.unwrap().tty.as_deref());
    let shown = client.done::<Show>(ShowParams { cwd: None }).settings;
    let shown = shown.iter().find(|it| it.key == "routing.auto").unwrap();
    assert_eq!(
        ("true", "(runtime, by pts/3)"),
        (shown.value.as_str(), shown.origin.as_str())
    );
    client.wait_turn(client.ask(conversation, CODE));
    assert_eq!((1, 1), scene.counts());

    // Over a restart, and over what is configured.
    daemon.kill9();
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let state = client.done::<Get>(Empty {});
    assert_eq!(
        Some("pts/3"),
        state.switched.and_then(|it| it.by.tty).as_deref()
    );
    client.wait_turn(client.ask(conversation, CODE));
    client.done::<Set>(SwitchParams { on: None });
    client.wait_turn(client.ask(conversation, CODE));
    assert_eq!((2, 2), scene.counts());
    let trail = audit::records(&client, &ListParamsOfTrail::default());
    let trail = trail
        .iter()
        .filter(|it| it.kind == AuditKind::RoutingSwitched);
    let trail: Vec<_> = trail.filter_map(|it| it.because.as_deref()).collect();
    assert_eq!(vec!["routing.auto on", "routing.auto as configured"], trail);
}

#[test]
fn a_model_that_was_named_by_hand_beats_it() {
    let scene = Scene::new("auto = true", "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let conversation = client.create();
    let mut params = question(conversation, CODE);
    params.model = Some("fast".to_owned());
    client.wait_turn(client.done::<Send>(params).turn);
    client.done::<SetModel>(SetModelParams {
        id: conversation,
        model: Some("fast".to_owned()),
    });
    client.wait_turn(client.ask(conversation, CODE));
    assert_eq!((2, 0), scene.counts());
    let check = RouteCheckParams {
        text: CODE.to_owned(),
        conversation: Some(conversation),
    };
    let checked = client.done::<Check>(check);
    assert!(checked.by_hand, "{checked:?}");
    client.done::<SetModel>(SetModelParams {
        id: conversation,
        model: None,
    });
    client.wait_turn(client.ask(conversation, CODE));
    assert_eq!((2, 1), scene.counts());
}

/// Decided once; every request of the turn goes there, also after a kill -9 in its middle.
#[test]
fn a_turn_keeps_its_preset_over_a_restart() {
    let scene = Scene::new("auto = true", "[tools]\nbuiltin = true\n");
    let daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let conversation = client.create();
    scene
        .deep
        .answer(Answer::stream().then_call(0, "call_1", "aish__time", "{}"));
    let turn = client.ask(conversation, CODE);
    pending(&client, conversation);
    // What is switched meanwhile is for the next question.
    client.done::<Set>(SwitchParams { on: Some(false) });
    daemon.kill9();
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let confirm = pending(&client, conversation);
    client.done::<AnswerConfirm>(with(&confirm, Decision::AllowOnce));
    let record = client.wait_turn(turn);
    assert_eq!(
        (Some(StopReason::End), Some("deep")),
        (record.stop_reason, record.model.as_deref())
    );
    assert_eq!((0, 2), scene.counts());
    assert_eq!(1, decisions(&events(&client, conversation)).len());
    client.wait_turn(client.ask(conversation, CODE));
    assert_eq!((1, 2), scene.counts());
}

/// `continue` is not what was asked: the answer goes on where it began.
#[test]
fn a_continuation_goes_where_its_question_went_and_a_retry_is_decided_anew() {
    let scene = Scene::new("auto = true", "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let conversation = client.create();
    scene
        .deep
        .answer(Answer::stream().then_text("half").then_cut());
    client.wait_turn(client.ask(conversation, CODE));
    let again = |key: &str| AgainParams {
        conversation,
        turn: None,
        idempotency_key: key.to_owned(),
        model: None,
        accept_cost: false,
    };
    client.wait_turn(client.done::<Continue>(again("a")).turn);
    client.wait_turn(client.done::<Retry>(again("b")).turn);
    assert_eq!((0, 3), scene.counts());
}

/// Questions that wait are decided when their turn starts.
#[test]
fn a_question_that_waits_is_decided_when_it_starts() {
    let scene = Scene::new("", "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let conversation = client.create();
    let (answer, gate) = Answer::by_hand();
    scene.fast.answer(answer);
    let running = client.ask(conversation, CODE);
    gate.wait_request();
    let waiting = client.ask(conversation, CODE);
    client.done::<Set>(SwitchParams { on: Some(true) });
    gate.text("so");
    gate.finish();
    client.wait_turn(running);
    client.wait_turn(waiting);
    assert_eq!((1, 1), scene.counts());
}

#[test]
fn a_class_whose_preset_is_not_there_keeps_the_active_one_and_says_so_once() {
    let scene = Scene::new("auto = true\nclasses = { code = \"dep\" }", "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let conversation = client.create();
    for _ in 0..3 {
        client.wait_turn(client.ask(conversation, CODE));
    }
    assert_eq!((3, 0), scene.counts());
    let told = statuses(&events(&client, conversation));
    assert_eq!(1, told.len(), "{told:?}");
    assert!(
        told[0].contains("routing.classes.code names \"dep\""),
        "{told:?}"
    );
    let checked = client.done::<Check>(RouteCheckParams {
        text: CODE.to_owned(),
        conversation: None,
    });
    assert_eq!(
        (Some("dep"), false, Some("fast")),
        (
            checked.model.as_deref(),
            checked.known,
            checked.active.as_deref()
        )
    );
}

#[test]
fn a_text_can_be_tried_without_asking_it() {
    let scene = Scene::new("classes = { reasoning = \"deep\" }", "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    for (text, class, rule, model) in [
        ("why", RouteClass::Reasoning, "why", Some("deep")),
        (CODE, RouteClass::Code, "sourceFile", Some("deep")),
        ("hello", RouteClass::Default, "none", None),
    ] {
        let checked = client.done::<Check>(RouteCheckParams {
            text: text.to_owned(),
            conversation: None,
        });
        assert_eq!(
            (class, rule, model),
            (
                checked.class,
                checked.rule.as_str(),
                checked.model.as_deref()
            ),
            "{text}"
        );
        assert_eq!(
            (false, Some("fast")),
            (checked.enabled, checked.active.as_deref()),
            "{text}"
        );
    }
    let classes = client.done::<Classes>(ClassesParams::default());
    let presets: Vec<_> = classes
        .classes
        .iter()
        .map(|it| (it.class, it.model.as_deref()))
        .collect();
    let expected = vec![
        (RouteClass::Code, Some("deep")),
        (RouteClass::Reasoning, Some("deep")),
        (RouteClass::Default, None),
    ];
    assert_eq!((expected, false), (presets, classes.enabled));
    assert_eq!((0, 0), scene.counts());
}

/// A conversation that was made with a model has it by hand, too.
#[test]
fn a_conversation_of_a_model_is_not_routed() {
    let scene = Scene::new("auto = true", "");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let conversation = client
        .done::<Create>(ConversationCreateParams {
            title: None,
            model: Some("fast".to_owned()),
            cwd: "/".to_owned(),
            constraints: None,
            budget: None,
            temporary: false,
        })
        .id;
    client.wait_turn(client.ask(conversation, CODE));
    assert_eq!((1, 0), scene.counts());
}
