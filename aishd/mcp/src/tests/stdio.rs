//! Servers that are children.

use super::*;

#[tokio::test]
async fn a_child_is_started_asked_and_ended() {
    let bench = Bench::stdio("plain").await;
    let status = bench.ready().await;
    assert_eq!("2025-11-25", status.about.protocol);
    assert!(status.remarks.is_empty(), "{:?}", status.remarks);
    let echoed = bench.outcome("echo", json!({"b": [1, "é"]})).await;
    assert_eq!(r#"{"b": [1, "\u00e9"]}"#, said(echoed));
    bench.hub.disconnect(&alias()).await.unwrap();
    assert!(bench.hub.servers().borrow().list.is_empty());
}

/// Nothing of the daemon's own environment.
#[tokio::test]
async fn a_child_has_a_clean_environment_and_its_own() {
    let mut server = python("plain");
    server.env = BTreeMap::from([("API_KEY".to_owned(), "${LMCP_TOKEN}".to_owned())]);
    let bench = Bench::with(ServerEndpoint::Stdio(server), limits(), People::None).await;
    bench.ready().await;
    let env: BTreeMap<String, String> = serde_json::from_str(&bench.call("env").await).unwrap();
    assert_eq!("sesame", env["API_KEY"]);
    assert!(!env.contains_key("CARGO_MANIFEST_DIR"), "{:?}", env.keys());
}

/// Each ends its own call, and the next one is answered.
#[tokio::test]
async fn bad_lines_cost_their_call_only() {
    let bench = Bench::stdio("plain").await;
    bench.ready().await;
    let unreadable = "transport error: MCP server a: the answer is not understood: ";
    for (tool, expected) in [
        (
            "long_line",
            "transport error: MCP server a: the answer is longer than 4 MiB".to_owned(),
        ),
        ("bad_utf8", "a\u{fffd}\u{fffd}b".to_owned()),
        (
            "wrong_id",
            format!("{unreadable}its id is that of no question"),
        ),
        ("missing_id", format!("{unreadable}it has no id")),
        ("batch", "batched".to_owned()),
        ("noise", "through the noise".to_owned()),
        ("flood", "flooded".to_owned()),
        ("ping_me", "{}".to_owned()),
        // It was not announced.
        (
            "ask_me",
            r#"{"code": -32601, "message": "this client shows no forms"}"#.to_owned(),
        ),
        // What is off is empty.
        ("roots_me", r#"{"roots": []}"#.to_owned()),
        ("echo", "{}".to_owned()),
    ] {
        assert_eq!(expected, bench.call(tool).await, "{tool}");
    }
    let (log, lost) = bench.hub.log(&alias()).unwrap();
    assert!(log.contains("the last line\n") && log.len() <= 64 << 10);
    assert!(lost > 200_000, "{lost}");
}

/// Calls in flight fail at once, and the server is started again.
#[tokio::test]
async fn a_child_that_dies_is_started_again() {
    let bench = Bench::stdio("plain").await;
    bench.ready().await;
    let both = tokio::join!(bench.call("silent"), async {
        in_log(&bench, "silent ").await;
        bench.call("die").await
    });
    let ended = "transport error: MCP server a: the server ended: exit status: 7: about to die";
    assert_eq!((ended, ended), (both.0.as_str(), both.1.as_str()));
    let (why, hint) = bench.failed().await;
    assert_eq!("the server ended: exit status: 7: about to die", why);
    assert_eq!(Some("aishctl mcp logs a".to_owned()), hint);
    assert!(bench.tools().is_empty());
    bench.ready().await;
    assert_eq!("{}", bench.call("echo").await);
}

/// It costs its own server only, and says which variable it is.
#[tokio::test]
async fn a_variable_that_is_not_set_is_named() {
    let mut server = python("plain");
    server.env = BTreeMap::from([("API_KEY".to_owned(), "${GONE}".to_owned())]);
    let bench = Bench::with(ServerEndpoint::Stdio(server), limits(), People::None).await;
    let (why, _) = bench.failed().await;
    assert_eq!(
        "not connected: env.API_KEY: the variable GONE is not set",
        why
    );
}

#[tokio::test]
async fn a_child_that_cannot_be_started_says_why() {
    let bench = Bench::stdio("dies_at_start").await;
    let (why, _) = bench.failed().await;
    assert_eq!("the server ended: exit status: 3: no such database", why);
    let mut server = python("plain");
    server.command = "no-such-program".to_owned();
    let bench = Bench::with(ServerEndpoint::Stdio(server), limits(), People::None).await;
    let (why, _) = bench.failed().await;
    assert_eq!(
        "not connected: find no-such-program: No such file or directory (os error 2)",
        why
    );
}

/// A child that knows 2026-07-28, one that dies of a question from it, and one that needs long for its first word.
#[tokio::test]
async fn the_era_of_a_child_is_found_out() {
    for (mode, protocol) in [
        ("modern", "2026-07-28"),
        ("dies_of_the_unknown", "2025-11-25"),
        ("slow_start", "2026-07-28"),
    ] {
        let bench = Bench::stdio(mode).await;
        let status = bench.ready().await;
        assert_eq!(protocol, status.about.protocol, "{mode}");
        assert_eq!(
            "{}",
            bench
                .call("echo")
                .await
                .split_whitespace()
                .collect::<String>(),
            "{mode}"
        );
    }
}

#[tokio::test]
async fn a_child_that_hangs_is_given_up() {
    let limits = SessionLimits {
        start: Duration::from_millis(400),
        connect: Duration::from_millis(300),
        ..limits()
    };
    let bench = Bench::with(ServerEndpoint::Stdio(python("hangs")), limits, People::None).await;
    let (why, _) = bench.failed().await;
    assert!(why.starts_with("did not answer"), "{why}");
}

#[tokio::test]
async fn changes_and_cancelled_calls_of_a_child() {
    let bench = Bench::stdio("plain").await;
    let tools = bench.ready().await.tools.len();
    assert_eq!("grown", bench.call("grow").await);
    bench.until(|it| it.tools.len() == tools + 1).await;
    let cancel = CancellationToken::new();
    let name = "a__silent".parse::<ToolName>().unwrap();
    let call = bench.hub.call(
        approved(&bench.hub, &name),
        serde_json::Map::new(),
        CallListener::default(),
        &cancel,
    );
    let cancelling = async {
        in_log(&bench, "silent ").await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(call, cancelling);
    assert_eq!("cancelled", said(result));
    in_log(&bench, "told notifications/cancelled").await;
}

async fn in_log(bench: &Bench, part: &str) {
    let seen = async {
        while !bench.hub.log(&alias()).unwrap().0.contains(part) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, seen).await;
    assert!(
        waited.is_ok(),
        "no {part:?} in {}",
        bench.hub.log(&alias()).unwrap().0
    );
}

/// Stdin closed, SIGTERM, SIGKILL; also what it started in a session of its own.
#[tokio::test]
async fn a_child_that_does_not_want_to_end_is_ended_with_all_that_it_started() {
    let bench = Bench::stdio("stays").await;
    bench.ready().await;
    in_log(&bench, "pids ").await;
    let (log, _) = bench.hub.log(&alias()).unwrap();
    let line = log.lines().find(|it| it.starts_with("pids ")).unwrap();
    let pids: Vec<&str> = line.split(' ').skip(1).collect();
    let alive = || {
        pids.iter()
            .filter(|it| PathBuf::from(format!("/proc/{it}")).exists())
    };
    assert_eq!(2, alive().count());
    bench.hub.stop().await;
    assert_eq!(0, alive().count(), "{pids:?}");
}

/// What the child is told when a person does this with its form, after the call's own time is over.
async fn check_form(answered: Option<ElicitationAnswer>, expected: &str) {
    let mut limits = limits();
    (limits.call, limits.longest_call) = (Duration::from_secs(1), Duration::from_secs(1));
    let mut bench = Bench::with(ServerEndpoint::Stdio(python("plain")), limits, People::Some).await;
    bench.ready().await;
    let mut forms = bench.elicitations.take().unwrap();
    let person = async {
        let form = forms.recv().await.unwrap();
        tokio::time::sleep(Duration::from_millis(1200)).await;
        match answered {
            Some(answered) => form.answer.send(answered).unwrap(),
            None => drop(form.answer),
        }
    };
    let (answer, ()) = tokio::join!(bench.call("ask_me"), person);
    assert_eq!(expected, answer);
}

/// A form goes to a person; the child waits meanwhile, and so does the clock of its call.
#[tokio::test]
async fn a_form_of_a_child_is_answered_by_a_person() {
    let filled = ElicitationAnswer::Accepted(serde_json::Map::new());
    let refused = ElicitationAnswer::Refused("too long".to_owned());
    tokio::join!(
        check_form(Some(filled), r#"{"action": "accept", "content": {}}"#),
        check_form(Some(ElicitationAnswer::Agreed), r#"{"action": "accept"}"#),
        check_form(
            Some(ElicitationAnswer::Declined),
            r#"{"action": "decline"}"#
        ),
        check_form(None, r#"{"action": "cancel"}"#),
        check_form(Some(refused), r#"{"code": -32602, "message": "too long"}"#),
    );
}

/// What belongs to no call that somebody looks at is declined.
#[tokio::test]
async fn a_form_that_nobody_can_see_is_declined_at_once() {
    let mut bench = Bench::with(
        ServerEndpoint::Stdio(python("plain")),
        limits(),
        People::Some,
    )
    .await;
    bench.ready().await;
    bench.forms = None;
    assert_eq!(r#"{"action": "decline"}"#, bench.call("ask_me").await);
    let bench = Bench::stdio("plain").await;
    bench.ready().await;
    let off = r#"{"code": -32601, "message": "this client shows no forms"}"#;
    assert_eq!(off, bench.call("ask_me").await);
}

/// Only when the configuration says so.
#[tokio::test]
async fn directories_are_told_where_that_is_switched_on() {
    let bench = Bench::stdio("plain").await;
    bench.ready().await;
    bench.hub.disconnect(&alias()).await.unwrap();
    let mut settings = bench.settings.clone();
    settings.roots = true;
    bench.hub.configure(settings).await;
    bench.ready().await;
    let expected = r#"{"roots": [{"uri": "file:///some%20where"}]}"#;
    assert_eq!(expected, bench.call("roots_me").await);
}
