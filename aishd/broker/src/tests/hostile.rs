//! Servers that are slow, dead, mad or malicious: every request ends in time, with the right failure and with what
//! had arrived, and the key goes nowhere.

use std::time::{Duration, Instant};

use aishd_log::turn_error::FailureClass;
use aishd_model::preset::{Backend, KeySource, Preset, Timeouts};
use aishd_model::reply::{Delta, Reply, RequestFailure};

use super::scripted::{Server, Step, events, head, impatient, preset, text, within, write};
use super::{with_key, without_keys};

const BODY: &str = r#"{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}"#;
const FINISH: &str = "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
/// No request may take longer: what ends by itself does not wait for the times of its preset, and what gives up has
/// times below half a second.
const AT_MOST: Duration = Duration::from_secs(25);

pub(super) async fn ask(preset: &Preset) -> (Result<Reply, RequestFailure>, String) {
    let broker = without_keys();
    let mut streamed = String::new();
    let started = Instant::now();
    let reply = broker
        .stream(preset, BODY.to_owned(), |delta| {
            if let Delta::Text(text) = delta {
                streamed.push_str(text);
            }
        })
        .await;
    assert!(started.elapsed() < AT_MOST, "{:?}", started.elapsed());
    match reply {
        Ok(reply) => {
            assert_eq!(streamed, reply.text);
            keeps_the_key(&reply);
            (Ok(reply), streamed)
        }
        Err(broken) => {
            assert_eq!(streamed, broken.partial.text);
            let shown = format!("{broken:?} {}", broken.failure);
            assert!(!shown.contains("sk-secret"), "{shown}");
            (Err(broken.failure), streamed)
        }
    }
}

/// What is told of an answer, and stored, has no key in it.
fn keeps_the_key(reply: &Reply) {
    let shown = format!("{:?}", (&reply.notes, &reply.served_by, &reply.cured.told));
    assert!(!shown.contains("sk-secret"), "{shown}");
}

/// The failure's text, its class, and the text that had arrived.
async fn check(steps: Vec<Step>, failure: &str, class: FailureClass, arrived: &str) {
    let server = Server::start(steps).await;
    check_at(&preset(&server.url()), failure, class, arrived).await;
}

/// As [`check`], where the server is waited for in vain.
async fn check_timeout(steps: Vec<Step>, failure: &str, arrived: &str) {
    let server = Server::start(steps).await;
    let preset = impatient(&server.url());
    check_at(&preset, failure, FailureClass::Unreachable, arrived).await;
}

async fn check_at(preset: &Preset, failure: &str, class: FailureClass, arrived: &str) {
    let (reply, streamed) = ask(preset).await;
    let got = reply.expect_err("a failure");
    assert_eq!(
        (failure, class, arrived),
        (got.to_string().as_str(), got.class(), streamed.as_str())
    );
}

/// All is well in the end.
async fn check_ok(steps: Vec<Step>, arrived: &str) {
    check_ok_within(Timeouts::LOOPBACK, steps, arrived).await;
}

async fn check_ok_within(timeouts: Timeouts, steps: Vec<Step>, arrived: &str) {
    let server = Server::start(steps).await;
    let (reply, streamed) = ask(&within(&server.url(), timeouts)).await;
    assert_eq!(arrived, streamed);
    reply.unwrap();
}

#[tokio::test]
async fn a_request_carries_what_it_should_and_nothing_else() {
    let server = Server::start(vec![events(), text("hi"), write(FINISH)]).await;
    let (reply, _) = ask(&preset(&server.url())).await;
    assert_eq!("hi", reply.unwrap().text);
    let seen = server.seen.lock()[0].to_lowercase();
    assert!(
        seen.starts_with("post /v1/chat/completions http/1.1\r\n"),
        "{seen}"
    );
    for line in [
        "authorization: bearer sk-secret-1234",
        "x-extra: 1",
        "content-type: application/json",
        "accept: text/event-stream",
    ] {
        assert!(seen.contains(&format!("{line}\r\n")), "{line}: {seen}");
    }
    assert!(seen.ends_with(BODY), "{seen}");

    let mut without_key = preset(&server.url());
    if let Backend::Http(endpoint) = &mut without_key.backend {
        endpoint.key = KeySource::None;
    }
    ask(&without_key).await.0.unwrap();
    let seen = server.seen.lock()[1].to_lowercase();
    assert!(!seen.contains("authorization"), "{seen}");
}

#[tokio::test]
async fn a_preset_that_cannot_be_used_never_reaches_the_network() {
    for (url, model, failure) in [
        ("", "m", "broker: the preset has no endpoint"),
        (
            "not a url",
            "m",
            "broker: the endpoint is no URL: relative URL without a base",
        ),
        (
            "ftp://h",
            "m",
            "broker: the endpoint is no http:// or https:// URL",
        ),
        (
            "http://127.0.0.1:1",
            "",
            "broker: the preset test has no model",
        ),
    ] {
        let mut preset = preset(url);
        preset.model = model.to_owned();
        let (reply, _) = ask(&preset).await;
        assert_eq!(failure, reply.unwrap_err().to_string());
    }
}

#[tokio::test]
async fn before_the_head() {
    let closed = "transport: connection closed before the answer";
    check(vec![Step::Reset], closed, FailureClass::Unreachable, "").await;
    check(vec![], closed, FailureClass::Unreachable, "").await;
    let slow = "transport: Operation timed out (waiting for the first byte)";
    check_timeout(vec![Step::Hang], slow, "").await;
    let drip: Vec<Step> = "HTTP/1.1 200 OK\r\nx: "
        .bytes()
        .chain(std::iter::repeat_n(b'x', 200))
        .flat_map(|byte| [write([byte]), Step::Pause(Duration::from_millis(20))])
        .collect();
    check_timeout(drip, slow, "").await;
    check_timeout(vec![events(), Step::Hang], slow, "").await;
}

#[tokio::test]
async fn in_the_middle_of_the_answer() {
    let cut = "transport: the stream was cut before its end";
    check(vec![events(), text("ab")], cut, FailureClass::Cut, "ab").await;
    check(
        vec![
            events(),
            text("ab"),
            Step::Pause(Duration::from_millis(50)),
            Step::Reset,
        ],
        cut,
        FailureClass::Cut,
        "ab",
    )
    .await;
    check(
        vec![
            events(),
            text("ab"),
            write("data: {\"choices\":[{\"delta\":{\"con"),
        ],
        cut,
        FailureClass::Cut,
        "ab",
    )
    .await;
    let chunked = head(
        "200 OK",
        "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n",
    );
    check(
        vec![
            chunked,
            write("20\r\ndata: {\"choices\":[{\"delta\":{\"con"),
        ],
        cut,
        FailureClass::Cut,
        "",
    )
    .await;
    let idle = "transport: Operation timed out (no byte arrived)";
    check_timeout(vec![events(), text("ab"), Step::Hang], idle, "ab").await;
}

/// Limits that a busy machine keeps between two steps, and no answer keeps that is as long as one of these tests.
const BETWEEN: Timeouts = Timeouts {
    idle: Duration::from_secs(1),
    ..Timeouts::LOOPBACK
};

#[tokio::test]
async fn comments_keep_a_stream_alive_but_not_for_ever() {
    let comment = [
        write(": still here\n\n"),
        Step::Pause(Duration::from_millis(50)),
    ];
    // 1.5 s without content, which is longer than the idle limit.
    let mut steps = vec![events(), text("a")];
    steps.extend(comment.iter().cycle().take(60).cloned());
    steps.extend([text("b"), write(FINISH)]);
    check_ok_within(BETWEEN, steps, "ab").await;

    let mut steps = vec![events(), text("a")];
    steps.extend(comment.iter().cycle().take(60).cloned());
    let only_content_counts = Timeouts {
        content_idle: Duration::from_millis(400),
        ..BETWEEN
    };
    let server = Server::start(steps).await;
    let preset = within(&server.url(), only_content_counts);
    let idle = "transport: Operation timed out (no content arrived)";
    check_at(&preset, idle, FailureClass::Unreachable, "a").await;
}

#[tokio::test]
async fn content_now_and_then_is_enough() {
    // Twice the limit for content in all, a quarter of it between two pieces.
    let mut steps = vec![events()];
    for _ in 0..8 {
        steps.extend([text("x"), Step::Pause(Duration::from_millis(300))]);
    }
    steps.push(write(FINISH));
    let timeouts = Timeouts {
        content_idle: Duration::from_millis(1200),
        ..Timeouts::LOOPBACK
    };
    check_ok_within(timeouts, steps, "xxxxxxxx").await;
}

#[tokio::test]
async fn a_slow_but_living_stream_may_take_its_time() {
    let body = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"h\u{e9}\"}}]}\n\n";
    let mut steps = vec![events()];
    steps.extend(
        body.bytes()
            .flat_map(|byte| [write([byte]), Step::Pause(Duration::from_millis(25))]),
    );
    steps.push(write("data: [DONE]\n\n"));
    check_ok_within(BETWEEN, steps, "hé").await;
}

#[tokio::test]
async fn a_finished_answer_is_whole_however_the_connection_ends() {
    check_ok(vec![events(), text("ab"), write(FINISH)], "ab").await;
    check_ok(vec![events(), text("ab"), write(FINISH), Step::Hang], "ab").await;
    check_ok(
        vec![
            events(),
            text("ab"),
            write(FINISH),
            Step::Pause(Duration::from_millis(50)),
            Step::Reset,
        ],
        "ab",
    )
    .await;
    check_ok(
        vec![events(), text("ab"), write("data: [DONE]\n\n"), Step::Hang],
        "ab",
    )
    .await;
}

#[tokio::test]
async fn statuses_keep_the_servers_words_without_the_key() {
    let error = |message: &str| write(format!("{{\"error\":{{\"message\":\"{message}\"}}}}"));
    let status = |line: &str, message: &str| vec![head(line, ""), error(message)];
    check(
        status("401 Unauthorized", "bad key sk-secret-1234 given"),
        "transport: HTTP 401: bad key [key] given",
        FailureClass::Unauthorized,
        "",
    )
    .await;
    check(
        status("403 Forbidden", "your key has expired"),
        "transport: HTTP 403: your key has expired",
        FailureClass::Unauthorized,
        "",
    )
    .await;
    check(
        status("403 Forbidden", "no"),
        "transport: HTTP 403: no",
        FailureClass::Rejected,
        "",
    )
    .await;
    check(
        status("404 Not Found", "model m not found"),
        "transport: HTTP 404: model m not found",
        FailureClass::Rejected,
        "",
    )
    .await;
    check(
        status("408 Request Timeout", "late"),
        "transport: HTTP 408: late",
        FailureClass::Unreachable,
        "",
    )
    .await;
    check(
        status("500 Internal Server Error", "boom"),
        "transport: HTTP 500: boom",
        FailureClass::Unreachable,
        "",
    )
    .await;
    check(
        status("503 Service Unavailable", "busy"),
        "transport: HTTP 503: busy",
        FailureClass::Unreachable,
        "",
    )
    .await;
    check(
        status(
            "400 Bad Request",
            "This model's maximum context length is 8192 tokens",
        ),
        "transport: HTTP 400: This model's maximum context length is 8192 tokens",
        FailureClass::ContextOverflow,
        "",
    )
    .await;

    let server = Server::start(vec![
        head("429 Too Many Requests", "retry-after: 2\r\n"),
        write("slow down"),
    ])
    .await;
    let failure = ask(&preset(&server.url())).await.0.unwrap_err();
    assert_eq!(FailureClass::RateLimited, failure.class());
    let RequestFailure::Http {
        retry_after_ms,
        message,
        ..
    } = failure
    else {
        panic!()
    };
    assert_eq!(
        (Some(2000), "slow down"),
        (retry_after_ms, message.as_str())
    );
}

#[tokio::test]
async fn an_endless_or_stuck_error_body_is_not_waited_for() {
    let server = Server::start(vec![
        head("500 Oh", ""),
        Step::WriteEndlessly(vec![b'x'; 65_536]),
    ])
    .await;
    let failure = ask(&preset(&server.url())).await.0.unwrap_err();
    let RequestFailure::Http { message, .. } = failure else {
        panic!("{failure:?}")
    };
    assert!(
        message.len() < 2100 && message.ends_with('…'),
        "{}",
        message.len()
    );
    // The key at the border of what is shown does not leak in part.
    let server = Server::start(vec![
        head("500 Oh", ""),
        write(format!("{}sk-secret-1234 more", "y".repeat(2040))),
    ])
    .await;
    let failure = ask(&preset(&server.url())).await.0.unwrap_err();
    assert!(!failure.to_string().contains("sk-"), "{failure}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let target = Server::start(vec![events(), text("stolen"), write(FINISH)]).await;
    for status in [
        "301 Moved",
        "302 Found",
        "307 Temporary Redirect",
        "308 Permanent Redirect",
    ] {
        let to = format!("location: {}/chat/completions\r\n", target.url());
        let server = Server::start(vec![head(status, &to)]).await;
        let failure = ask(&preset(&server.url())).await.0.unwrap_err();
        assert!(
            failure.to_string().contains("redirects are not followed"),
            "{failure}"
        );
        assert_eq!(FailureClass::Rejected, failure.class());
    }
    assert!(target.seen.lock().is_empty());
}

/// Also where all goes well in the end: a server may name its model by the key, or say it when it refuses a field.
#[tokio::test]
async fn what_is_told_beside_an_answer_has_no_key() {
    let named =
        r#"data: {"model":"of sk-secret-1234","choices":[{"index":0,"delta":{"content":"a"}}]}"#;
    let steps = vec![
        events(),
        write(format!("{named}\n\n")),
        write("data: [DONE]\n\n"),
    ];
    let server = Server::start(steps).await;
    let (reply, _) = ask(&preset(&server.url())).await;
    assert_eq!(Some("of [key]"), reply.unwrap().served_by.as_deref());

    let server = Server::answering(|request| {
        if request.contains("\"temperature\"") {
            let refusal = "Unsupported parameter: 'temperature' for key sk-secret-1234";
            let error =
                format!("{{\"error\":{{\"message\":\"{refusal}\",\"param\":\"temperature\"}}}}");
            vec![head("400 Bad Request", ""), write(error)]
        } else {
            vec![events(), text("a"), write("data: [DONE]\n\n")]
        }
    })
    .await;
    let body = BODY.replace("\"stream\"", "\"temperature\":0.2,\"stream\"");
    let (broker, preset) = (without_keys(), preset(&server.url()));
    let reply = broker.stream(&preset, body, |_| {}).await.unwrap();
    assert_eq!(1, reply.cured.told.len(), "{:?}", reply.cured.told);
    keeps_the_key(&reply);
}

#[tokio::test]
async fn what_is_no_stream_is_an_error_of_the_api() {
    let page = "api: the server answered with no event stream: a web page, \"Login\"";
    check(
        vec![
            head("200 OK", "content-type: text/html\r\n"),
            write("<html><title>Login</title>"),
        ],
        page,
        FailureClass::Rejected,
        "",
    )
    .await;
    check(
        vec![
            events(),
            write("data: {\"error\":{\"message\":\"sk-secret-1234 overloaded\"}}\n\n"),
        ],
        "api: [key] overloaded",
        FailureClass::Rejected,
        "",
    )
    .await;
    check(
        vec![
            events(),
            write("event: error\ndata: {\"message\":\"odd\"}\n\n"),
        ],
        "api: odd",
        FailureClass::Rejected,
        "",
    )
    .await;
    let json = head("200 OK", "content-type: application/json\r\n");
    check(
        vec![json.clone(), write("{\"error\":{\"message\":\"no\"}}")],
        "api: no",
        FailureClass::Rejected,
        "",
    )
    .await;
    check(
        vec![json, write("{\"model\":\"m\"}")],
        "api: the server answered with no event stream: {\"model\":\"m\"}",
        FailureClass::Rejected,
        "",
    )
    .await;
}

#[tokio::test]
async fn what_never_ends_is_cut_off() {
    let line = "api: a line of the answer is longer than 16384 KiB";
    check(
        vec![
            events(),
            text("a"),
            Step::WriteEndlessly(vec![b'x'; 65_536]),
        ],
        line,
        FailureClass::Rejected,
        "a",
    )
    .await;
    let long = "z".repeat(60_000);
    let Step::Write(endless) = text(&long) else {
        panic!()
    };
    let server = Server::start(vec![events(), Step::WriteEndlessly(endless)]).await;
    let (reply, streamed) = ask(&preset(&server.url())).await;
    assert_eq!(
        "api: the answer is longer than 4 MiB",
        reply.unwrap_err().to_string()
    );
    assert_eq!(69 * 60_000, streamed.len());
}

#[tokio::test]
async fn bad_bytes_cost_a_character_and_not_the_stream() {
    let bad = b"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\xffb\"}}]}\n\n";
    check_ok(
        vec![events(), write(bad), text("c"), write(FINISH)],
        "a\u{fffd}bc",
    )
    .await;
}

#[tokio::test]
async fn cancelling_closes_the_connection_at_once() {
    for steps in [
        vec![Step::Hang],
        vec![events(), Step::Hang],
        vec![events(), text("a"), Step::Hang],
    ] {
        let server = Server::start(steps).await;
        let preset = preset(&server.url());
        let broker = without_keys();
        let asked = broker.stream(&preset, BODY.to_owned(), |_| {});
        assert!(
            tokio::time::timeout(Duration::from_millis(150), asked)
                .await
                .is_err()
        );
        let dropped = Instant::now();
        while server.left.lock().is_none() {
            assert!(dropped.elapsed() < AT_MOST, "the server still waits");
            tokio::task::yield_now().await;
        }
        assert_eq!(1, server.seen.lock().len());
    }
}

#[tokio::test]
async fn a_lent_key_is_used_and_nothing_prints_it() {
    let server = Server::start(vec![events(), text("a"), write(FINISH)]).await;
    let mut preset = preset(&server.url());
    if let Backend::Http(endpoint) = &mut preset.backend {
        endpoint.key = KeySource::Env("SOME_KEY".to_owned());
    }
    let broker = with_key(|name| (name == "SOME_KEY").then(|| "sk-old".to_owned()));
    assert_eq!(Some(true), broker.has_key(&preset).await);
    assert_eq!(Some(false), without_keys().has_key(&preset).await);
    broker.lend([("SOME_KEY".to_owned(), "sk-lent-99".to_owned())].into());
    let asked = broker.stream(&preset, BODY.to_owned(), |_| {});
    may_move_between_threads(&asked);
    asked.await.unwrap();
    let seen = server.seen.lock()[0].to_lowercase();
    assert!(
        seen.contains("authorization: bearer sk-lent-99\r\n"),
        "{seen}"
    );
    assert!(!format!("{broker:?} {preset:?}").contains("sk-"));
}

/// A turn's task is spawned, so this has to compile.
fn may_move_between_threads(_: &impl Send) {}
