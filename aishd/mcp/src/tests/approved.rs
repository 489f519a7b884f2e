//! What runs is what was approved, and it runs once.

use super::*;

/// Of a tool, as [`Bench::call`].
async fn call(hub: &Hub, approved: ApprovedTool) -> String {
    let never = CancellationToken::new();
    let call = hub.call(
        approved,
        serde_json::Map::new(),
        CallListener::default(),
        &never,
    );
    said(tokio::time::timeout(PATIENCE, call).await.unwrap())
}

fn tool(name: &str) -> ToolName {
    ToolName::new(alias(), name).unwrap()
}

/// How often the server was asked to run this.
async fn asked(bench: &Bench, tool: &str) -> usize {
    let sent = bench.sent().await.into_iter();
    sent.filter(|it| it.0 == "tools/call" && it.2["name"] == tool)
        .count()
}

const CHANGED: &str =
    "dispatch failed: a__look changed after the call was let through; nothing ran";
const GONE: &str =
    "dispatch failed: a__first was taken away after the call was let through; nothing ran";

#[tokio::test]
async fn a_call_that_is_sent_again_runs_nothing_else() {
    for (name, expected) in [
        ("look", CHANGED),
        ("first", GONE),
        ("same", "same in session-3"),
    ] {
        let bench = Bench::http("turns").await;
        bench.ready().await;
        assert_eq!(expected, bench.call(name).await);
        let times = if name == "same" { 2 } else { 1 };
        assert_eq!(times, asked(&bench, name).await, "{name}");
    }
}

#[tokio::test]
async fn a_call_that_waited_for_its_server_runs_nothing_else() {
    let mut bench = Bench::http("turns").await;
    bench.ready().await;
    let before = ["look", "first", "same"].map(|it| approved(&bench.hub, &tool(it)));
    bench.hub.stop().await;
    let (again, _) = hub(&bench.kept, People::None);
    bench.hub = again;
    bench.hub.configure(bench.settings.clone()).await;
    let calls = before.map(|it| call(&bench.hub, it));
    let ran = futures_util::future::join_all(calls).await;
    assert_eq!(vec![CHANGED, GONE, "same in session-3"], ran);
}

#[tokio::test]
async fn a_session_of_a_conversations_own_runs_nothing_else() {
    let bench = Bench::http("turns").await;
    bench.ready().await;
    let own = bench.hub.with_own_roots(vec![]);
    let call = async |name| call(&own, approved(&bench.hub, &tool(name))).await;
    assert_eq!(CHANGED, call("look").await);
    assert_eq!(GONE, call("first").await);
    assert_eq!("same in session-3", call("same").await);
}

/// What one call finds out about its session is no reason to run another one twice.
#[tokio::test]
async fn only_the_call_that_was_refused_is_sent_again() {
    let bench = Bench::http("turns").await;
    bench.ready().await;
    let ran = tokio::join!(bench.call("busy"), async {
        while asked(&bench, "busy").await == 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        bench.call("same").await
    });
    assert_eq!(
        ("busy in session-2", "same in session-3"),
        (ran.0.as_str(), ran.1.as_str())
    );
    assert_eq!(1, asked(&bench, "busy").await);
}

#[tokio::test]
async fn an_error_that_only_speaks_of_a_session_is_one() {
    let bench = Bench::http("turns").await;
    bench.ready().await;
    let crashed = "dispatch failed: the browser session crashed after paying";
    assert_eq!(crashed, bench.call("crash").await);
    assert_eq!(1, asked(&bench, "crash").await);
}

/// It was sent, so nobody knows what it did.
#[tokio::test]
async fn a_call_whose_server_is_taken_away_may_have_happened() {
    let check = async |restart: bool, why: &str| {
        let bench = Bench::stdio("plain").await;
        bench.ready().await;
        let (outcome, ()) = tokio::join!(bench.outcome("silent", json!({})), async {
            let logged = || bench.hub.log(&alias()).unwrap().0.contains("silent ");
            while !logged() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if restart {
                bench.hub.restart(&alias()).await.unwrap();
            } else {
                bench.hub.disconnect(&alias()).await.unwrap();
            }
        });
        let error = outcome.unwrap_err();
        assert!(error.may_have_happened(), "{error:?}");
        let broke = "MCP server a: the connection broke before the answer";
        assert_eq!(format!("{broke}: {why}"), error.to_string());
    };
    check(true, "it was restarted").await;
    check(false, "it was disconnected").await;
}

/// A server that lets itself be asked for the rest of an answer is not asked in a tight loop.
#[tokio::test]
async fn a_stream_that_is_always_cut_is_taken_up_again_now_and_then() {
    let server = serve("polls", 0);
    let limits = SessionLimits {
        call: Duration::from_secs(1),
        ..limits()
    };
    let mut bench = Bench::with(ServerEndpoint::Http(url(server.port)), limits, People::None).await;
    bench.server = Some(server);
    bench.ready().await;
    let late = "transport error: MCP server a gave no answer within 1 s";
    assert_eq!(late, bench.call("poll").await);
    let asked = bench.methods().await;
    let asked = asked.iter().filter(|it| *it == "GET").count();
    assert!((2..=11).contains(&asked), "{asked}");
}
