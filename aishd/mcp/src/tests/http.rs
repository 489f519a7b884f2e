//! Servers over HTTP of the revisions with `initialize`.

use super::*;

/// Seed 000: pinned to 2025-03-26, a bearer token, 202 without a body, a GET that announces and closes.
#[tokio::test]
async fn a_minimal_server_is_used_as_it_is() {
    let server = serve("minimal", 0);
    let endpoint = ServerEndpoint::Http(HttpServerSettings {
        auth: BearerSource::Env("LMCP_TOKEN".to_owned()),
        ..url(server.port)
    });
    let mut bench = Bench::with(endpoint, limits(), People::None).await;
    bench.server = Some(server);
    let status = bench.ready().await;
    assert_eq!("2025-03-26", status.about.protocol);
    // An older revision that we speak is nothing odd.
    assert!(status.remarks.is_empty(), "{:?}", status.remarks);
    assert_eq!(vec!["echo", "fail"], bench.tools());
    let echoed = bench.outcome("echo", json!({"text": "hé"})).await;
    assert_eq!("hé", said(echoed));
    // A result that only reads like an error is passed on as it is.
    assert_eq!("Error: no such file", bench.call("fail").await);
    let methods = bench.methods().await;
    let expected = [
        "server/discover",
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
        "tools/call",
    ];
    assert_eq!(expected, *methods);
}

/// The failure names the server and the variable, and the body is no JSON-RPC.
#[tokio::test]
async fn a_refused_token_is_an_auth_failure() {
    let check = async |auth, why: &str, hint: &str| {
        let server = serve("minimal", 0);
        let endpoint = ServerEndpoint::Http(HttpServerSettings {
            auth,
            ..url(server.port)
        });
        let bench = Bench::with(endpoint, limits(), People::None).await;
        let failed = bench.failed().await;
        assert_eq!((why.to_owned(), Some(hint.to_owned())), failed);
    };
    let none = "authentication failed: HTTP 401, and no token is configured";
    let set = "aishctl mcp login a signs in, or set mcp.servers.a.auth_env to the variable that holds its token";
    check(BearerSource::None, none, set).await;
    let wrong = "authentication failed: HTTP 401, with the token auth_token";
    let check_it = "check mcp.servers.a.auth_token";
    check(BearerSource::Token("wrong".to_owned()), wrong, check_it).await;
    let unset = "authentication failed: HTTP 401, and the variable GONE is not set";
    let start = "start aishd with GONE in its environment";
    check(BearerSource::Env("GONE".to_owned()), unset, start).await;
}

/// The design's rows 1 and 2.
#[tokio::test]
async fn one_bad_tool_or_block_costs_itself_only() {
    let bench = Bench::http("odd").await;
    let status = bench.ready().await;
    let tools = [
        "json_block",
        "no_schema",
        "null_schema",
        "empty",
        "null",
        "is_error",
        "odd_hint",
    ];
    assert_eq!(tools, *bench.tools());
    // The nameless ones, and what is no object.
    assert_eq!(3, status.remarks.len(), "{:?}", status.remarks);
    assert_eq!("[block json 30 B]", bench.call("json_block").await);
    assert_eq!("", bench.call("empty").await);
    assert_eq!("", bench.call("null").await);
    let wrong = "error result: it went wrong";
    assert_eq!(wrong, bench.call("is_error").await);
}

#[tokio::test]
async fn every_wrong_answer_ends_its_call_at_once() {
    let bench = Bench::http("ids").await;
    bench.ready().await;
    let unreadable = "transport error: MCP server a: the answer is not understood: ";
    for (tool, expected) in [
        ("wrong_id", format!("{unreadable}its id is that of no question")),
        ("missing_id", format!("{unreadable}it has no id")),
        ("string_id", "fine".to_owned()),
        ("error_without_id", "dispatch failed: bad".to_owned()),
        ("html", format!("{unreadable}text/html <html>hello</html>")),
        ("nothing", format!("{unreadable}HTTP 200 without a body")),
        ("accepted", format!("{unreadable}HTTP 202 without a body")),
        (
            "teapot",
            "transport error: MCP server a: HTTP 418: I am a teapot with sesame".to_owned(),
        ),
        (
            "cut",
            "transport error: MCP server a: the connection broke before the answer: the stream ended".to_owned(),
        ),
        ("batch", "in a batch".to_owned()),
        (
            "huge",
            "transport error: MCP server a: the answer is longer than 16 MiB".to_owned(),
        ),
        // A redirect could carry the token away.
        ("redirect", "transport error: MCP server a: HTTP 307".to_owned()),
        ("unknown", "dispatch failed: Unknown tool: unknown".to_owned()),
    ] {
        assert_eq!(expected, bench.call(tool).await, "{tool}");
    }
    let reset = bench.call("reset").await;
    assert!(
        reset.starts_with("transport error: MCP server a: the connection broke"),
        "{reset}"
    );
    assert_eq!(
        "dispatch failed: unknown tool a__gone",
        bench.call("gone").await
    );
}

/// What a server repeats of our token is not shown.
#[tokio::test]
async fn a_token_in_a_servers_words_is_cut_out() {
    let server = serve("ids", 0);
    let endpoint = ServerEndpoint::Http(HttpServerSettings {
        auth: BearerSource::Env("LMCP_TOKEN".to_owned()),
        ..url(server.port)
    });
    let bench = Bench::with(endpoint, limits(), People::None).await;
    bench.ready().await;
    let teapot = "transport error: MCP server a: HTTP 418: I am a teapot with [key]";
    assert_eq!(teapot, bench.call("teapot").await);
}

/// The design's rows 5 and 6.
#[tokio::test]
async fn the_era_is_found_out_where_servers_make_it_hard() {
    for mode in ["silent_discover", "discover_500", "discover_empty"] {
        let bench = Bench::http(mode).await;
        let status = bench.ready().await;
        assert_eq!("2025-03-26", status.about.protocol, "{mode}");
        assert_eq!("here", bench.call("echo").await, "{mode}");
    }
}

/// A machine with much to do makes a server slow, and not older.
#[tokio::test]
async fn a_slow_server_of_the_newest_era_is_not_taken_for_an_older_one() {
    let server = serve("late_discover", 0);
    let patient = SessionLimits {
        connect: Duration::from_secs(30),
        ..limits()
    };
    let bench = Bench::with(
        ServerEndpoint::Http(url(server.port)),
        patient,
        People::None,
    )
    .await;
    let status = bench.ready().await;
    assert_eq!("2026-07-28", status.about.protocol);
}

/// The era costs its question once, and the tools are there before the server is.
#[tokio::test]
async fn era_and_tools_are_remembered() {
    let mut bench = Bench::http("discover_500").await;
    bench.ready().await;
    bench.hub.stop().await;
    let before = bench.methods().await;
    let (again, _) = hub(&bench.kept, People::None);
    bench.hub = again;
    bench.hub.configure(bench.settings.clone()).await;
    let connecting =
        bench.until(|it| it.state == ServerPhase::Connecting || it.state == ServerPhase::Ready);
    assert_eq!("echo", connecting.await.tools[0].name);
    // It waits until the session is there.
    assert_eq!("here", bench.call("echo").await);
    let after = bench.methods().await.split_off(before.len());
    let expected = [
        "initialize",
        "notifications/initialized",
        "tools/list",
        "tools/call",
    ];
    assert_eq!(expected, *after);
}

#[tokio::test]
async fn an_endless_list_ends() {
    let bench = Bench::http("pages").await;
    let status = bench.ready().await;
    assert_eq!(100, bench.tools().len());
    assert!(
        status.remarks[0].contains("more than 100 pages"),
        "{:?}",
        status.remarks
    );
}

/// 404, and the 400 of the usual servers after a restart.
#[tokio::test]
async fn a_forgotten_session_is_made_anew_and_the_call_succeeds() {
    for mode in ["forgets_404", "forgets_400"] {
        let bench = Bench::http(mode).await;
        bench.ready().await;
        assert_eq!("session-2", bench.call("forget").await, "{mode}");
        let calls = [
            bench.call("which"),
            bench.call("which"),
            bench.call("which"),
        ];
        for which in futures_util::future::join_all(calls).await {
            assert!(
                which.starts_with("session-") && which != "session-2",
                "{mode}: {which}"
            );
        }
        bench.hub.stop().await;
        assert!(
            bench.methods().await.contains(&"DELETE".to_owned()),
            "{mode}"
        );
    }
}

#[tokio::test]
async fn progress_is_passed_on_and_extends_the_time() {
    let server = serve("progress", 0);
    let limits = SessionLimits {
        call: Duration::from_millis(1000),
        ..limits()
    };
    let endpoint = ServerEndpoint::Http(url(server.port));
    let mut bench = Bench::with(endpoint, limits, People::None).await;
    bench.server = Some(server);
    bench.ready().await;
    let (sender, mut notes) = mpsc::channel(64);
    let name = "a__slow".parse::<ToolName>().unwrap();
    let cancel = CancellationToken::new();
    let slow = bench.hub.call(
        approved(&bench.hub, &name),
        serde_json::Map::new(),
        hears(sender),
        &cancel,
    );
    assert_eq!("done", said(slow.await));
    let noted = noted(&mut notes);
    assert_eq!(8, noted.len(), "{noted:?}");
    assert_eq!("1/Some(4.0) Some(\"step 1\")", noted[0]);
    assert_eq!("info: did 1", noted[1]);
    let late = "transport error: MCP server a gave no answer within 1 s";
    assert_eq!(late, bench.call("silent").await);
    // A server is told that nobody waits any more.
    wait_for(&bench, "notifications/cancelled", "timed out").await;
}

async fn wait_for(bench: &Bench, method: &str, part: &str) {
    let seen = async {
        loop {
            let sent = bench.sent().await;
            let mut sent = sent.iter();
            if sent.any(|it| it.0 == method && it.2.to_string().contains(part)) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, seen).await;
    assert!(waited.is_ok(), "{method} with {part} was not sent");
}

/// At once for who waits, and the server is told.
#[tokio::test]
async fn a_cancelled_call_ends_at_once() {
    let bench = Bench::http("progress").await;
    bench.ready().await;
    let name = "a__silent".parse::<ToolName>().unwrap();
    let cancel = CancellationToken::new();
    let call = bench.hub.call(
        approved(&bench.hub, &name),
        serde_json::Map::new(),
        CallListener::default(),
        &cancel,
    );
    let cancelling = async {
        wait_for(&bench, "tools/call", "silent").await;
        cancel.cancel();
        std::time::Instant::now()
    };
    let (result, cancelled_at) = tokio::join!(call, cancelling);
    assert_eq!("cancelled", said(result));
    assert!(cancelled_at.elapsed() < Duration::from_secs(25));
    wait_for(
        &bench,
        "notifications/cancelled",
        "\"reason\":\"cancelled\"",
    )
    .await;
}

#[tokio::test]
async fn changed_tools_are_seen_without_asking() {
    let bench = Bench::http("changing").await;
    bench.ready().await;
    assert_eq!(vec!["more"], bench.tools());
    let toolset = bench.hub.servers().borrow().toolset;
    // The stream beside the questions is open when the session is there: the first call is enough.
    assert_eq!("more", bench.call("more").await);
    let mut servers = bench.hub.servers();
    let seen = servers.wait_for(|all| all.list.iter().any(|it| it.tools.len() > 1));
    tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
    assert!(bench.hub.servers().borrow().toolset > toolset);
}

/// Old HTTP+SSE servers are supported.
#[tokio::test]
async fn a_server_of_2024_is_spoken_to_over_its_stream() {
    let bench = Bench::http("old").await;
    let status = bench.ready().await;
    assert_eq!("2024-11-05", status.about.protocol);
    assert_eq!("on the stream", bench.call("echo").await);
}

/// A dead server costs its own tools, and is tried again when it is needed.
#[tokio::test]
async fn a_server_that_comes_back_is_used_again() {
    let server = serve("discover_500", 0);
    let port = server.port;
    let mut bench = Bench::with(ServerEndpoint::Http(url(port)), limits(), People::None).await;
    bench.ready().await;
    drop(server);
    let dead = bench.call("echo").await;
    assert!(
        dead.starts_with("transport error: MCP server a: "),
        "{dead}"
    );
    bench.server = Some(serve("discover_500", port));
    let back = async {
        while bench.call("echo").await != "here" {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, back).await.unwrap();
}

/// Whatever hangs ends.
#[tokio::test]
async fn a_server_that_hangs_is_given_up() {
    let server = serve("hang", 0);
    let limits = SessionLimits {
        connect: Duration::from_millis(300),
        ..limits()
    };
    let bench = Bench::with(ServerEndpoint::Http(url(server.port)), limits, People::None).await;
    let (why, _) = bench.failed().await;
    assert_eq!("did not answer initialize within 0.3 s", why);
    let call = bench.call("echo").await;
    assert!(
        call.starts_with("transport error: MCP server a: not connected"),
        "{call}"
    );
}

/// Only what differs is touched.
#[tokio::test]
async fn a_changed_configuration_touches_only_its_servers() {
    let bench = Bench::http("discover_500").await;
    bench.ready().await;
    let before = bench.methods().await.len();
    let mut settings = bench.settings.clone();
    let off = ServerSettings {
        off: Some("enabled = false".to_owned()),
        ..ServerSettings::of(ServerEndpoint::Http(url(1)))
    };
    let other: Alias = "b".parse().unwrap();
    settings.servers.insert(other.clone(), Arc::new(off));
    bench.hub.configure(settings).await;
    let all = bench.hub.servers().borrow().clone();
    let state = &all.get(&other).unwrap().state;
    assert_eq!(ServerPhase::Off("enabled = false".to_owned()), *state);
    assert_eq!(before, bench.methods().await.len());
    bench.hub.configure(McpSettings::default()).await;
    assert!(bench.hub.servers().borrow().list.is_empty());
    assert_eq!(
        "dispatch failed: unknown tool a__echo",
        bench.call("echo").await
    );
}

/// Calls in flight finish on the session that they began on.
#[tokio::test]
async fn a_call_in_flight_outlives_a_change_of_its_server() {
    let bench = Bench::http("progress").await;
    bench.ready().await;
    let (sender, mut notes) = mpsc::channel(64);
    let name = "a__slow".parse::<ToolName>().unwrap();
    let never = CancellationToken::new();
    let slow = bench.hub.call(
        approved(&bench.hub, &name),
        serde_json::Map::new(),
        hears(sender),
        &never,
    );
    let changing = async {
        notes.recv().await.unwrap();
        let mut settings = bench.settings.clone();
        let mut http = url(bench.server.as_ref().unwrap().port);
        http.headers.insert("X-New".to_owned(), "yes".to_owned());
        let changed = ServerSettings::of(ServerEndpoint::Http(http));
        settings.servers.insert(alias(), Arc::new(changed));
        bench.hub.configure(settings).await;
    };
    let (done, ()) = tokio::join!(slow, changing);
    assert_eq!("done", said(done));
    bench.ready().await;
    let sent = bench.sent().await;
    let initialized: Vec<bool> = sent
        .iter()
        .filter(|it| it.0 == "initialize")
        .map(|it| it.1.get("x-new").is_some())
        .collect();
    assert_eq!(vec![false, true], initialized);
}
