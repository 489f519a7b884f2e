//! The upstream against requests that are written by hand.

use std::io::{BufReader, Read as _, Write as _};
use std::net::TcpStream;

use super::*;

const GOOD: &str = r#"{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}"#;
const BAD: &str = r#"{"model":"m","stream":true,"tools":[],"messages":[{"role":"system","content":"s"},{"role":"user","content":"hi"}]}"#;

fn post(upstream: &Upstream, body: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(upstream.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k3y\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    BufReader::new(stream)
}

/// Reads up to this text.
fn read_to(from: &mut BufReader<TcpStream>, text: &str) -> String {
    let mut all = String::new();
    while !all.contains(text) {
        let mut byte = [0];
        let read = from.read(&mut byte).unwrap();
        assert_ne!(0, read, "{text:?} not in {all}");
        all.push(char::from(byte[0]));
    }
    all
}

#[test]
fn an_answer_is_a_stream_of_frames() {
    let upstream = Upstream::start();
    upstream.answer(Answer::pieces(["one ", "two"]).then_call(0, "c1", "f", "{\"a\":1}"));
    let text = read_to(&mut post(&upstream, GOOD), "[DONE]");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"));
    let deltas: Vec<Value> = text
        .lines()
        .filter_map(|it| it.strip_prefix("data: {"))
        .map(|it| serde_json::from_str(&format!("{{{it}")).unwrap())
        .collect();
    assert_eq!("one ", deltas[0]["choices"][0]["delta"]["content"]);
    assert_eq!("m", deltas[0]["model"]);
    let arguments: String = deltas
        .iter()
        .filter_map(|it| {
            it["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str()
        })
        .collect();
    assert_eq!("{\"a\":1}", arguments);
    assert_eq!(
        "tool_calls",
        deltas[deltas.len() - 2]["choices"][0]["finish_reason"]
    );
    assert_eq!(12, deltas[deltas.len() - 1]["usage"]["total_tokens"]);
    let request = upstream.wait_requests(1);
    assert_eq!(Some("Bearer k3y"), request.header("Authorization"));
    assert_eq!("hi", request.question());
    upstream.finish();
}

#[test]
#[should_panic(expected = "`tools` is there and empty")]
fn a_request_that_breaks_a_rule_fails_the_test() {
    let upstream = Upstream::start();
    read_to(&mut post(&upstream, BAD), "[DONE]");
    drop(upstream);
}

#[test]
fn the_test_opens_the_gate_and_sees_the_hang_up() {
    let upstream = Upstream::start();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut stream = post(&upstream, GOOD);
    gate.wait_request();
    gate.text("first");
    read_to(&mut stream, "first");
    assert!(!gate.hung_up());
    drop(stream);
    gate.wait_hang_up();
    upstream.wait_hang_ups(1);
    upstream.finish();
}

#[test]
fn a_whole_answer_is_no_hang_up() {
    let upstream = Upstream::start();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut stream = post(&upstream, GOOD);
    gate.text("all");
    gate.finish();
    read_to(&mut stream, "[DONE]");
    gate.wait_written();
    let mut rest = String::new();
    stream
        .get_mut()
        .shutdown(std::net::Shutdown::Write)
        .unwrap();
    stream.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "{rest:?}");
    assert_eq!(0, upstream.hang_ups());
    upstream.finish();
}

#[test]
fn faults_are_what_they_are_called() {
    let upstream = Upstream::start();
    upstream.answer(Answer::busy(3));
    upstream.answer(Answer::text("half").then_cut());
    upstream.answer(Answer::reset());
    upstream.answer(Answer::garbage());
    let busy = read_to(&mut post(&upstream, GOOD), "too many requests");
    assert!(busy.starts_with("HTTP/1.1 429") && busy.contains("retry-after: 3\r\n"));
    let mut cut = String::new();
    post(&upstream, GOOD).read_to_string(&mut cut).unwrap();
    assert!(cut.contains("half") && !cut.contains("[DONE]") && !cut.ends_with("0\r\n\r\n"));
    let error = post(&upstream, GOOD).read_to_string(&mut cut).unwrap_err();
    assert_eq!(std::io::ErrorKind::ConnectionReset, error.kind());
    let mut garbage = vec![];
    post(&upstream, GOOD).read_to_end(&mut garbage).unwrap();
    assert!(garbage.starts_with(b"\0\xff"));
    let refused = TcpStream::connect(Upstream::nobody().split('/').nth(2).unwrap()).unwrap_err();
    assert_eq!(std::io::ErrorKind::ConnectionRefused, refused.kind());
    upstream.finish();
}

#[test]
fn a_probe_is_answered_apart_from_the_script() {
    let upstream = Upstream::start();
    upstream.answer(Answer::text("for the conversation"));
    let probe = r#"{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}"#;
    let text = read_to(&mut post(&upstream, probe), "\"role\"");
    assert!(text.contains("\"content\":\"y\""), "{text}");
    read_to(&mut post(&upstream, GOOD), "for the conversation");
    assert_eq!((1, 1), (upstream.probes(), upstream.requests().len()));
    upstream.finish();
}
