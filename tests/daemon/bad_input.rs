//! What a client may do wrong: each is answered as the spec says, and the connection and the daemon live.

use std::time::Duration;

use aish_proto::daemon::Ping;
use aish_proto::limits::{BATCH_CALLS, LINE_TO_DAEMON_BYTES, SUBSCRIPTIONS};
use aish_proto::method::Empty;
use aish_testkit::document::{self, Document, SENT};
use aish_testkit::{Client, Upstream, World, fuzz, repository};
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_secs(20);

#[track_caller]
fn answer(client: &Client, line: impl AsRef<[u8]>) -> Value {
    client.raw_line(line);
    let reply = client.next_line(PATIENCE).expect("the daemon answers");
    serde_json::from_str(&reply).expect("an answer is JSON")
}

/// The line is answered with this id and code, and the connection goes on.
#[track_caller]
fn check(client: &Client, line: impl AsRef<[u8]>, id: impl Into<Value>, code: i64) {
    let id = id.into();
    let reply = answer(client, line);
    assert_eq!(
        (&id, &json!(code)),
        (&reply["id"], &reply["error"]["code"]),
        "{reply}"
    );
    client.done::<Ping>(Empty {});
}

#[test]
fn malformed_requests_get_their_standard_errors() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    for line in [
        "{",
        "nonsense",
        "{\"jsonrpc\":\"2.0\",}",
        "[1,",
        "\"half",
        "\u{feff}{}",
    ] {
        check(&client, line, Value::Null, -32700);
    }
    check(&client, b"\xff\xfe\x00", Value::Null, -32700);
    for line in [
        "5",
        "null",
        "[]",
        "{}",
        r#"{"jsonrpc":"2.0","id":{},"method":"a"}"#,
    ] {
        check(&client, line, Value::Null, -32600);
    }
    check(
        &client,
        r#"{"id":3,"method":"daemon/ping"}"#,
        json!(3),
        -32600,
    );
    check(
        &client,
        r#"{"jsonrpc":"2.0","id":3,"method":"daemon/ping","extra":1}"#,
        json!(3),
        -32600,
    );
    check(
        &client,
        r#"{"jsonrpc":"2.0","id":3,"method":"daemon/ping","params":4}"#,
        json!(3),
        -32600,
    );
    client.done::<Ping>(Empty {});
}

#[test]
fn wrong_methods_and_params_get_their_standard_errors() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    check(
        &client,
        r#"{"jsonrpc":"2.0","id":"x","method":"no/such"}"#,
        json!("x"),
        -32601,
    );
    check(
        &client,
        r#"{"jsonrpc":"2.0","id":1,"method":"mcp/none"}"#,
        json!(1),
        -32601,
    );
    check(
        &client,
        r#"{"jsonrpc":"2.0","id":1,"method":"daemon/ping","params":[]}"#,
        json!(1),
        -32602,
    );
    check(
        &client,
        r#"{"jsonrpc":"2.0","id":1,"method":"daemon/ping","params":{"x":1}}"#,
        json!(1),
        -32602,
    );
    check(
        &client,
        r#"{"jsonrpc":"2.0","id":1,"method":"turn/wait","params":{"turn":"?"}}"#,
        json!(1),
        -32602,
    );
    check(
        &client,
        r#"{"jsonrpc":"2.0","id":1,"method":"turn/wait","params":{}}"#,
        json!(1),
        -32602,
    );
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    check(
        &client,
        format!("{{\"jsonrpc\":{deep}}}"),
        Value::Null,
        -32600,
    );
    let reply = answer(&client, deep);
    assert_eq!(
        json!(-32600),
        reply[0]["error"]["code"],
        "a batch of one thing that is no request: {reply}"
    );
    client.done::<Ping>(Empty {});
}

#[test]
fn a_line_that_is_too_long_is_skipped_and_the_next_one_served() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    for bytes in [LINE_TO_DAEMON_BYTES, 5 * LINE_TO_DAEMON_BYTES] {
        check(&client, "x".repeat(bytes), Value::Null, -31012);
    }
    let fits = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"daemon/ping"{}}}"#,
        " ".repeat(LINE_TO_DAEMON_BYTES - 100)
    );
    assert_eq!(json!({}), answer(&client, fits)["result"]);
}

#[test]
fn notifications_are_dropped_and_batches_answered_together() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    client.raw_line(r#"{"jsonrpc":"2.0","method":"daemon/shutdown"}"#);
    client.raw_line("");
    client.done::<Ping>(Empty {});
    let ping = |id: usize| json!({"jsonrpc": "2.0", "id": id, "method": "daemon/ping"});
    let batch: Vec<Value> = (0..BATCH_CALLS).map(ping).collect();
    let replies = answer(&client, json!(batch).to_string());
    assert_eq!(BATCH_CALLS, replies.as_array().unwrap().len());
    let over: Vec<Value> = (0..=BATCH_CALLS).map(ping).collect();
    check(&client, json!(over).to_string(), Value::Null, -32600);
    let conversation = client.create();
    let attach = json!({"jsonrpc": "2.0", "id": 7, "method": "conversation/attach",
        "params": {"id": conversation, "since": "now"}});
    let replies = answer(&client, json!([attach, ping(8)]).to_string());
    let code = replies
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["id"] == 7)
        .map(|it| it["error"]["code"].clone());
    assert_eq!(Some(json!(-32600)), code, "{replies}");
    let quiet = json!([{"jsonrpc": "2.0", "method": "daemon/ping"}]);
    client.raw_line(quiet.to_string());
    client.done::<Ping>(Empty {});
}

#[test]
fn nothing_but_hello_and_ping_comes_before_hello() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.stranger();
    client.done::<Ping>(Empty {});
    let refused = client.call_raw("daemon/status", &json!({})).unwrap_err();
    assert_eq!(("notInitialized", -31000), (refused.kind(), refused.code));
    let hello = json!({
        "protocol": {"min": 7, "max": 9},
        "client": {"name": "future", "version": "9", "kind": "script"},
        "role": "driver",
    });
    let refused = client.call_raw("daemon/hello", &hello).unwrap_err();
    assert_eq!(("versionMismatch", -31001), (refused.kind(), refused.code));
    let hint = refused.data["hint"].as_str().unwrap();
    assert!(hint.contains("the daemon is older"), "{refused}");
    assert!(
        refused.message.contains("speaks protocol 2") && refused.message.contains("7 to 9"),
        "{refused}"
    );
    client.hello();
    assert!(client.call_raw("daemon/status", &json!({})).is_ok());
}

/// Who says nothing is not kept, and who says too much does not harm the others.
#[test]
fn connections_and_subscriptions_have_limits() {
    let world = World::new();
    world.write_config("[limits]\nmax_clients = 3\n");
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let follows: Vec<_> = (0..SUBSCRIPTIONS)
        .map(|_| client.attach(conversation, aish_proto::attach::ReplayStart::Now))
        .collect();
    let attach = json!({"id": conversation, "since": "now"});
    let refused = client.call_raw("conversation/attach", &attach).unwrap_err();
    assert_eq!("overloaded", refused.kind());
    let detach = json!({"subscription": follows[0].subscription()});
    client.call_raw("conversation/detach", &detach).unwrap();
    assert_eq!(
        "notFound",
        client
            .call_raw("conversation/detach", &detach)
            .unwrap_err()
            .kind()
    );
    client.call_raw("conversation/attach", &attach).unwrap();
    let silent = world.stranger();
    let _third = world.client();
    let fourth = world.stranger();
    let line = fourth.next_line(PATIENCE).expect("it is told why");
    assert!(line.contains("-31006"), "{line}");
    fourth.wait_closed();
    // The silent one is closed after 5 s, and its place is free.
    silent.wait_closed();
    world.client().done::<Ping>(Empty {});
}

/// A peer that says anything at all: each line is answered or dropped, and the daemon serves on.
#[test]
fn damaged_lines_harm_nobody() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let mut daemon = world.daemon().spawn();
    let other = world.client();
    let conversation = other.create().to_string();
    let documents: Vec<Document> = document::pages()
        .iter()
        .map(|it| Document::parse(&repository::text(it).expect("it is text")))
        .collect();
    let lines = documents
        .iter()
        .flat_map(|it| &it.blocks)
        .flat_map(|it| &it.lines);
    let sent = lines.filter_map(|it| it.strip_prefix(SENT));
    // What ends the daemon, or starts programs and reaches for servers, is left to tests of its own.
    let harmless = sent.filter(|it| !it.contains("\"mcp/") && !it.contains("daemon/shutdown"));
    let corpus: Vec<String> = harmless
        .map(|it| it.replace("<conversation>", &conversation))
        .collect();
    assert!(corpus.len() > 30, "{}", corpus.len());
    let mut client = world.client();
    let mut inputs = 0;
    fuzz(corpus, |input| {
        // Calls that wait for something fill a connection.
        if inputs % 16 == 0 {
            client = world.client();
        }
        inputs += 1;
        let ping = format!(r#"{{"jsonrpc":"2.0","id":"ping {inputs}","method":"daemon/ping"}}"#);
        let mut bytes = input.to_vec();
        bytes.extend_from_slice(format!("\n{ping}\n").as_bytes());
        if client.raw(&bytes).is_err() {
            inputs = 0;
            return "closed".to_owned();
        }
        let own = json!(format!("ping {inputs}"));
        let mut became = vec![];
        while let Some(line) = client.next_line(PATIENCE) {
            let reply: Value = serde_json::from_str(&line).expect("an answer is JSON");
            if reply["id"] == own {
                assert_eq!(json!({}), reply["result"], "{line}");
                return became.join(" ");
            }
            became.push(match (&reply["error"]["code"], &reply["method"]) {
                (Value::Null, Value::Null) => "a result".to_owned(),
                (Value::Null, _) => "an event".to_owned(),
                (code, _) => code.to_string(),
            });
            became.truncate(3);
        }
        inputs = 0;
        "closed".to_owned()
    });
    other.done::<Ping>(Empty {});
    assert!(daemon.is_running());
}
