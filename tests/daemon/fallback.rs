//! FBK-1 to FBK-5 against real servers that misbehave: what goes to the other preset, what does not, and how often each
//! server is asked.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use aish_proto::attach::Since;
use aish_proto::conversation::{ConversationParams, StatusOf};
use aish_proto::daemon::{Metrics, Status};
use aish_proto::event::{Envelope, FallbackUsed, TurnFinished};
use aish_proto::id::TurnId;
use aish_proto::method::Empty;
use aish_proto::route::{FallbackGet, FallbackSet, SwitchParams};
use aish_proto::turn::{FailureClass, Send, StopReason, TurnRecord};
use aish_testkit::client::question;
use aish_testkit::{Answer, Client, Upstream, World};

const TIMEOUTS: &str = "timeouts = { connect = \"400ms\", first_byte = \"600ms\", idle = \"300ms\", content_idle = \"400ms\" }";

/// Two servers: `fast` is asked first, `cloud` is what there is besides.
struct Scene {
    local: Upstream,
    cloud: Upstream,
    world: World,
}

impl Scene {
    /// `more` are further tables.
    fn new(fallback: bool, more: &str) -> Self {
        let (local, cloud, world) = (Upstream::start(), Upstream::start(), World::new());
        world.write_config(&format!(
            "default_model = \"fast\"\n{}{}{more}\n[routing]\nfallback = {fallback}\n",
            local.preset("fast", TIMEOUTS),
            cloud.preset("cloud", TIMEOUTS).replace("test-model", "cloud-model"),
        ));
        Self {
            local,
            cloud,
            world,
        }
    }

    fn counts(&self) -> (usize, usize) {
        (self.local.requests().len(), self.cloud.requests().len())
    }
}

/// What becomes of one question.
struct Told {
    record: TurnRecord,
    events: Vec<Envelope>,
}

impl Told {
    fn of(client: &Client, model: Option<&str>) -> Self {
        let conversation = client.create();
        let mut follow = client.attach(conversation, Since::Start);
        let mut params = question(conversation, "hello");
        params.model = model.map(str::to_owned);
        let turn = client.done::<Send>(params).turn;
        follow.until_finished(turn);
        Self {
            record: client.wait_turn(turn),
            events: follow.events_so_far().to_vec(),
        }
    }

    fn all<E: aish_proto::event::EventData>(&self) -> Vec<E> {
        self.events.iter().filter_map(Envelope::read).collect()
    }

    fn place(&self, kind: &str) -> Option<usize> {
        self.events.iter().position(|it| it.kind == kind)
    }

    fn statuses(&self) -> Vec<String> {
        let texts = self.all::<aish_proto::event::Status>();
        texts.into_iter().map(|it| it.text).collect()
    }
}

/// Takes no connection, because its queue is full.
struct Backlog {
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
    address: SocketAddr,
}

impl Backlog {
    fn new() -> Self {
        let socket = rustix::net::socket(
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
            None,
        )
        .unwrap();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        rustix::net::bind(&socket, &any).unwrap();
        rustix::net::listen(&socket, 1).unwrap();
        let listener = TcpListener::from(socket);
        let address = listener.local_addr().unwrap();
        let mut waiting = vec![];
        while waiting.len() < 16 {
            match TcpStream::connect_timeout(&address, Duration::from_millis(50)) {
                Ok(stream) => waiting.push(stream),
                Err(_full) => break,
            }
        }
        Self {
            _listener: listener,
            _waiting: waiting,
            address,
        }
    }
}

/// One way in which a server fails.
struct Case {
    name: &'static str,
    /// The preset; absent: `fast`, whose server answers like this.
    model: Option<&'static str>,
    answers: Vec<Answer>,
    /// `None`: nothing goes to the other preset.
    switched: Option<Switched>,
}

struct Switched {
    reason: &'static str,
    status: Option<u16>,
}

fn switches(name: &'static str, answer: Answer, reason: &'static str) -> Case {
    Case {
        name,
        model: None,
        answers: vec![answer],
        switched: Some(Switched {
            reason,
            status: None,
        }),
    }
}

fn with_status(code: u16, reason: &'static str) -> Case {
    with_body(code, "{\"error\":{\"message\":\"no\"}}", reason)
}

fn with_body(code: u16, body: &str, reason: &'static str) -> Case {
    Case {
        name: reason,
        model: None,
        answers: vec![Answer::status(code, body)],
        switched: Some(Switched {
            reason,
            status: Some(code),
        }),
    }
}

fn nowhere(model: &'static str, reason: &'static str) -> Case {
    Case {
        name: model,
        model: Some(model),
        answers: vec![],
        switched: Some(Switched {
            reason,
            status: None,
        }),
    }
}

fn stays(name: &'static str, answer: Answer) -> Case {
    Case {
        name,
        model: None,
        answers: vec![answer],
        switched: None,
    }
}

fn error(message: &str) -> String {
    serde_json::json!({"error": {"message": message}}).to_string()
}

fn comments(count: usize) -> Answer {
    let mut answer = Answer::stream();
    for _ in 0..count {
        answer = answer
            .then_bytes(*b": still here\n\n")
            .then_pause(Duration::from_millis(100));
    }
    answer
}

/// Every pattern and non-pattern of FBK-2, and FBK-3.
fn cases() -> Vec<Case> {
    let missing = r#"{"error":{"message":"no","code":"model_not_found"}}"#;
    let ollama = &error("model \"m\" not found, try pulling it first");
    let full = r#"{"error":{"message":"too long","type":"exceed_context_size_error","n_ctx":8}}"#;
    let in_stream = serde_json::json!({"error": {"message": "HTTP 503: Connection refused"}});
    let first_byte = "timed out waiting for the first byte";
    let closed = "connection closed before the answer";
    vec![
        nowhere("nobody", "connection refused"),
        nowhere("unknown", "host not found"),
        nowhere("backlog", "timed out connecting"),
        switches("reset", Answer::reset(), closed),
        switches("silence", Answer::silence(), first_byte),
        switches("a head and silence", Answer::stream().then_stall(), first_byte),
        switches("a comment and silence", comments(1).then_stall(), "timed out, no byte arrived"),
        switches("only comments", comments(40), "timed out, no content arrived"),
        with_status(500, "HTTP 500"),
        with_status(502, "HTTP 502"),
        with_status(503, "HTTP 503"),
        with_status(504, "HTTP 504"),
        with_status(529, "HTTP 529"),
        with_status(408, "HTTP 408"),
        with_body(404, missing, "HTTP 404, no such model"),
        with_body(404, ollama, "HTTP 404, no such model"),
        stays("404", Answer::status(404, &error("File Not Found"))),
        stays("400", Answer::status(400, &error("bad request"))),
        stays("400 of a missing model", Answer::status(400, missing)),
        stays("401", Answer::status(401, &error("bad key"))),
        stays("402", Answer::status(402, &error("no credit"))),
        stays("403", Answer::status(403, &error("forbidden"))),
        stays("422", Answer::status(422, &error("unprocessable"))),
        stays("429", Answer::status(429, &error("HTTP 500: Connection refused"))),
        stays("500 of a full context", Answer::status(500, full)),
        stays("an error in the stream", Answer::stream().then_frame(in_stream.clone())),
        stays("comments, then an error", comments(2).then_frame(in_stream)),
        stays("an error in place of a stream", Answer::status(200, &error("HTTP 500"))),
        stays("a web page", Answer::html()),
        stays("no HTTP", Answer::garbage()),
        stays("a cut before any delta", Answer::stream().then_cut()),
        stays("a cut after one delta", Answer::stream().then_text("a").then_cut()),
        stays("a reset after one delta", Answer::stream().then_text("a").then_reset()),
        stays("silence after one delta", Answer::stream().then_text("a").then_stall()),
        stays("silence after reasoning", Answer::stream().then_reasoning("a").then_stall()),
        stays("silence after a blank", Answer::stream().then_text(" ").then_stall()),
        stays(
            "silence after arguments",
            Answer::stream().then_call(0, "c", "t__x", "{\"a\":1}").then_stall(),
        ),
    ]
}

#[test]
fn only_a_server_that_looks_down_is_gone_round_and_only_once() {
    let backlog = Backlog::new();
    let preset = |name: &str, endpoint: &str| {
        format!("[models.{name}]\nendpoint = \"{endpoint}\"\nmodel = \"m\"\n{TIMEOUTS}\n")
    };
    let more = [
        preset("nobody", &Upstream::nobody()),
        preset("unknown", "http://no-such-host.invalid:1/v1"),
        preset("backlog", &format!("http://{}/v1", backlog.address)),
    ]
    .concat();
    let scene = Scene::new(/*fallback*/ true, &more);
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    let mut fell_back = 0;
    for case in cases() {
        let (local, cloud) = scene.counts();
        let at_local = case.answers.len();
        for answer in case.answers {
            scene.local.answer(answer);
        }
        let told = Told::of(&client, case.model);
        let name = case.name;
        let (now_local, now_cloud) = scene.counts();
        let at_cloud = usize::from(case.switched.is_some());
        println!("{name}: switched {}, asked {} and {}", at_cloud == 1, now_local - local, now_cloud - cloud);
        assert_eq!((at_local, at_cloud), (now_local - local, now_cloud - cloud), "{name}");
        let used = told.all::<FallbackUsed>();
        assert_eq!(at_cloud, used.len(), "{name}");
        let Some(switched) = case.switched else {
            assert_eq!(Some(StopReason::Upstream), told.record.stop_reason, "{name}: {:?}", told.record);
            assert_eq!(None, told.record.fell_back_to, "{name}");
            continue;
        };
        fell_back += 1;
        let FallbackUsed {
            from,
            to,
            reason,
            cause,
            status,
            before_first_delta,
        } = &used[0];
        let first = case.model.unwrap_or("fast");
        assert_eq!((first, "cloud"), (from.as_str(), to.as_str()), "{name}");
        assert_eq!((switched.reason, switched.status), (reason.as_str(), *status), "{name}");
        assert!(cause.starts_with("transport: ") && *before_first_delta, "{name}: {cause}");
        assert_eq!(
            vec![format!("local {first} failed ({reason}); retrying via cloud")],
            told.statuses(),
            "{name}"
        );
        assert_eq!(
            (Some(StopReason::End), "Hello from the model.", Some("cloud")),
            (told.record.stop_reason, told.record.text.as_str(), told.record.fell_back_to.as_deref()),
            "{name}"
        );
        // It was told before anything was shown.
        let delta = told.place("textDelta").unwrap_or(usize::MAX);
        assert!(told.place("fallbackUsed").unwrap() < delta, "{name}");
        let sent = scene.cloud.requests().last().unwrap().json();
        assert_eq!("cloud-model", sent["model"], "{name}");
    }
    let status = client.done::<Status>(Empty {}).routing;
    assert_eq!((fell_back, 0), (status.fallbacks, status.fallbacks_failed));
    let text = client.done::<Metrics>(Empty {}).text;
    assert!(text.contains(&format!("aish_fallbacks_total {fell_back}\n")), "{text}");
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
    assert_eq!(("fast", Some("cloud")), (last.model.as_str(), last.fell_back_to.as_deref()));
    assert_eq!(None, status.model);
    client.wait_turn(client.ask(conversation, "second"));
    assert_eq!((2, 1), scene.counts());
}

/// FBK-5: a request is one request of the model, not a turn.
#[test]
fn each_request_of_a_turn_may_fall_back_once() {
    let scene = Scene::new(/*fallback*/ true, "[tools]\nbuiltin = true\n[mcp.auto_approve]\n\"aish__time\" = true\n");
    let _daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    scene.local.answer(Answer::status(500, "{}"));
    scene.cloud.answer(Answer::stream().then_call(0, "call_1", "aish__time", "{}"));
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
        (Answer::status(503, &error("busy")), FailureClass::Unreachable),
        (Answer::busy(1), FailureClass::RateLimited),
        (Answer::status(401, &error("no key")), FailureClass::Unauthorized),
        (Answer::stream().then_text("half").then_cut(), FailureClass::Cut),
        (Answer::reset(), FailureClass::Unreachable),
    ] {
        let before = scene.counts();
        scene.local.answer(Answer::status(502, &error("bad gateway")));
        scene.cloud.answer(second);
        let told = Told::of(&client, None);
        let error = told.record.error.unwrap();
        assert_eq!(class, error.class, "{error:?}");
        assert_eq!(Some("transport: HTTP 502: bad gateway"), error.cause.as_deref());
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
    assert!(statuses[1].starts_with("local fast failed (HTTP 503)"), "{statuses:?}");
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
    assert!(statuses[0].starts_with("routing.fallback is off: fast is not answering (HTTP 503);"), "{statuses:?}");
    assert!(statuses[0].contains(":fallback on"), "{statuses:?}");
    let end: TurnFinished = told.all().pop().unwrap();
    assert_eq!(FailureClass::Unreachable, end.error.unwrap().class);
    // Where it would not help, nothing is said of it.
    scene.local.answer(Answer::status(401, "{}"));
    assert!(Told::of(&client, None).statuses().is_empty());

    let state = client.done::<FallbackSet>(SwitchParams { on: Some(true) });
    assert!(state.on && !state.configured && state.known, "{state:?}");
    down();
    assert_eq!(Some(StopReason::End), Told::of(&client, None).record.stop_reason);
    // Over a restart too; and what is switched off is off.
    daemon.kill9();
    let daemon = scene.world.daemon().spawn();
    let client = scene.world.client();
    down();
    assert_eq!(Some(StopReason::End), Told::of(&client, None).record.stop_reason);
    assert_eq!((4, 2), scene.counts());
    client.done::<FallbackSet>(SwitchParams { on: Some(false) });
    down();
    assert_eq!(Some(StopReason::Upstream), Told::of(&client, None).record.stop_reason);
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
    world.write_config(&format!("{}\n[routing]\nfallback = true\n", local.config("fast")));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    local.answer(Answer::status(503, "{}"));
    let told = Told::of(&client, None);
    assert_eq!((Some(StopReason::Upstream), 0), (told.record.stop_reason, told.statuses().len()));
    assert!(!client.done::<FallbackGet>(Empty {}).known);
    assert_eq!(1, local.requests().len());
}

/// kill -9 between the first failure and the second request, and while the second is answered: nobody asks a third time.
#[test]
fn a_crash_between_the_two_asks_nobody_again() {
    let kills = aish_testkit::surroundings::count("AISH_TEST_KILLS").unwrap_or(10);
    for (point, at_cloud) in [
        ("fallback.before_store", 0),
        ("fallback.after_store", 0),
        ("stream.mid", 1),
    ] {
        for _ in 0..kills {
            let scene = Scene::new(/*fallback*/ true, "");
            let mut daemon = scene.world.daemon().failpoint(&format!("{point}=kill")).spawn();
            let client = scene.world.client();
            let conversation = client.create();
            scene.local.answer(Answer::status(503, "{}"));
            let turn = client.ask(conversation, "hello");
            daemon.wait_exit();
            assert_eq!((1, at_cloud), scene.counts(), "{point}");
            let _daemon = scene.world.daemon().spawn();
            let client = scene.world.client();
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
