//! What goes to the other preset, what does not, and how often each
//! server is asked.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use aish_proto::daemon::{Metrics, Status};
use aish_proto::event::FallbackUsed;
use aish_proto::method::Empty;
use aish_proto::turn::StopReason;
use aish_testkit::{Answer, Upstream};

use crate::fallback::{Scene, TIMEOUTS, Told, error};

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

fn comments(count: usize) -> Answer {
    let mut answer = Answer::stream();
    for _ in 0..count {
        answer = answer
            .then_bytes(*b": still here\n\n")
            .then_pause(Duration::from_millis(100));
    }
    answer
}

/// Everything that another preset is asked after.
fn gone_round() -> Vec<Case> {
    let missing = r#"{"error":{"message":"no","code":"model_not_found"}}"#;
    let ollama = &error("model \"m\" not found, try pulling it first");
    let first_byte = "timed out waiting for the first byte";
    let closed = "connection closed before the answer";
    vec![
        nowhere("nobody", "connection refused"),
        nowhere("unknown", "host not found"),
        nowhere("backlog", "timed out connecting"),
        switches("reset", Answer::reset(), closed),
        switches("silence", Answer::silence(), first_byte),
        switches(
            "a head and silence",
            Answer::stream().then_stall(),
            first_byte,
        ),
        switches(
            "a comment and silence",
            comments(1).then_stall(),
            "timed out, no byte arrived",
        ),
        switches(
            "only comments",
            comments(40),
            "timed out, no content arrived",
        ),
        with_status(500, "HTTP 500"),
        with_status(502, "HTTP 502"),
        with_status(503, "HTTP 503"),
        with_status(504, "HTTP 504"),
        with_status(529, "HTTP 529"),
        with_status(408, "HTTP 408"),
        with_body(404, missing, "HTTP 404, no such model"),
        with_body(404, ollama, "HTTP 404, no such model"),
    ]
}

/// Everything that no other preset is asked after.
fn left_alone() -> Vec<Case> {
    let missing = r#"{"error":{"message":"no","code":"model_not_found"}}"#;
    let full = r#"{"error":{"message":"too long","type":"exceed_context_size_error","n_ctx":8}}"#;
    let in_stream = serde_json::json!({"error": {"message": "HTTP 503: Connection refused"}});
    vec![
        stays("404", Answer::status(404, &error("File Not Found"))),
        stays("400", Answer::status(400, &error("bad request"))),
        stays("400 of a missing model", Answer::status(400, missing)),
        stays("401", Answer::status(401, &error("bad key"))),
        stays("402", Answer::status(402, &error("no credit"))),
        stays("403", Answer::status(403, &error("forbidden"))),
        stays("422", Answer::status(422, &error("unprocessable"))),
        stays(
            "429",
            Answer::status(429, &error("HTTP 500: Connection refused")),
        ),
        stays("500 of a full context", Answer::status(500, full)),
        stays(
            "an error in the stream",
            Answer::stream().then_frame(in_stream.clone()),
        ),
        stays("comments, then an error", comments(2).then_frame(in_stream)),
        stays(
            "an error in place of a stream",
            Answer::status(200, &error("HTTP 500")),
        ),
        stays("a web page", Answer::html()),
        stays("no HTTP", Answer::garbage()),
        stays("a cut before any delta", Answer::stream().then_cut()),
        stays(
            "a cut after one delta",
            Answer::stream().then_text("a").then_cut(),
        ),
        stays(
            "a reset after one delta",
            Answer::stream().then_text("a").then_reset(),
        ),
        stays(
            "silence after one delta",
            Answer::stream().then_text("a").then_stall(),
        ),
        stays(
            "silence after reasoning",
            Answer::stream().then_reasoning("a").then_stall(),
        ),
        stays(
            "silence after a blank",
            Answer::stream().then_text(" ").then_stall(),
        ),
        stays(
            "silence after arguments",
            Answer::stream()
                .then_call(0, "c", "t__x", "{\"a\":1}")
                .then_stall(),
        ),
    ]
}

/// What people and programs are told of one case.
#[track_caller]
fn case_is_told((name, first): &(&str, &str), switched: Option<&Switched>, told: &Told) {
    let used = told.all::<FallbackUsed>();
    let Some(switched) = switched else {
        assert!(used.is_empty(), "{name}");
        let (stop, to) = (told.record.stop_reason, &told.record.fell_back_to);
        assert_eq!((Some(StopReason::Upstream), &None), (stop, to), "{name}");
        return;
    };
    assert_eq!(1, used.len(), "{name}");
    let FallbackUsed {
        from,
        to,
        reason,
        cause,
        status,
        to_model_id,
        before_first_delta,
    } = &used[0];
    assert_eq!((*first, "cloud"), (from.as_str(), to.as_str()), "{name}");
    let expected = (switched.reason, switched.status);
    assert_eq!(expected, (reason.as_str(), *status), "{name}");
    assert_eq!(Some("cloud-model"), to_model_id.as_deref(), "{name}");
    assert!(
        cause.starts_with("transport: ") && *before_first_delta,
        "{name}: {cause}"
    );
    let line = format!("local {first} failed ({reason}); retrying via cloud");
    assert_eq!(vec![line], told.statuses(), "{name}");
    let record = &told.record;
    assert_eq!(
        (
            Some(StopReason::End),
            "Hello from the model.",
            Some("cloud")
        ),
        (
            record.stop_reason,
            record.text.as_str(),
            record.fell_back_to.as_deref()
        ),
        "{name}"
    );
    // It was told before anything was shown.
    let delta = told.place("textDelta").unwrap_or(usize::MAX);
    assert!(told.place("fallbackUsed").unwrap() < delta, "{name}");
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
    for case in gone_round().into_iter().chain(left_alone()) {
        let (local, cloud) = scene.counts();
        let at_local = case.answers.len();
        for answer in case.answers {
            scene.local.answer(answer);
        }
        // A connection has room for 32 subscriptions.
        let told = Told::of(&scene.world.client(), case.model);
        let name = case.name;
        let (now_local, now_cloud) = scene.counts();
        let at_cloud = usize::from(case.switched.is_some());
        println!(
            "{name}: switched {}, asked {} and {}",
            at_cloud == 1,
            now_local - local,
            now_cloud - cloud
        );
        assert_eq!(
            (at_local, at_cloud),
            (now_local - local, now_cloud - cloud),
            "{name}"
        );
        fell_back += at_cloud as u64;
        let first = case.model.unwrap_or("fast");
        case_is_told(&(name, first), case.switched.as_ref(), &told);
        if at_cloud == 1 {
            let sent = scene.cloud.requests().last().unwrap().json();
            assert_eq!("cloud-model", sent["model"], "{name}");
        }
    }
    let status = client.done::<Status>(Empty {}).routing;
    assert_eq!((fell_back, 0), (status.fallbacks, status.fallbacks_failed));
    let text = client.done::<Metrics>(Empty {}).text;
    assert!(
        text.contains(&format!("aish_fallbacks_total {fell_back}\n")),
        "{text}"
    );
}
