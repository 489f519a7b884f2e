//! What is set for a server: the revision that is spoken with it, and how much it says.

use aishd_mcp_messages::log_level::LogLevel;
use aishd_mcp_messages::revision::Revision;

use super::*;

async fn over_http(mode: &str, change: impl FnOnce(&mut ServerSettings)) -> Bench {
    let server = serve(mode, 0);
    let mut settings = ServerSettings::of(ServerEndpoint::Http(url(server.port)));
    change(&mut settings);
    let mut bench = Bench::of(settings, limits(), People::None).await;
    bench.server = Some(server);
    bench
}

/// Nothing else is asked, and a server that answers with another one is told of.
#[tokio::test]
async fn a_revision_that_is_set_is_spoken_and_nothing_is_found_out() {
    let bench = over_http("minimal", |it| {
        it.revision = Some(Revision::Of20250618);
        let ServerEndpoint::Http(http) = &mut it.endpoint else {
            unreachable!("it is one");
        };
        http.auth = BearerSource::Env("LMCP_TOKEN".to_owned());
    })
    .await;
    let status = bench.ready().await;
    assert_eq!(Some(Revision::Of20250618), status.revision);
    assert_eq!("2025-03-26", status.about.protocol);
    let remark = "protocol version mismatch (sent 2025-06-18, got 2025-03-26); proceeding";
    assert_eq!(remark, status.remarks[0]);
    let sent = bench.sent().await;
    assert_eq!("initialize", sent[0].0);
    assert_eq!("2025-06-18", sent[0].2["protocolVersion"]);
    assert!(!sent.iter().any(|(method, ..)| method == "server/discover"));
    let newest = over_http("modern", |it| it.revision = Some(Revision::Of20260728)).await;
    assert_eq!("2026-07-28", newest.ready().await.about.protocol);
    let oldest = over_http("old", |it| it.revision = Some(Revision::Of20241105)).await;
    assert_eq!("2024-11-05", oldest.ready().await.about.protocol);
    assert_eq!("initialize", oldest.sent().await[0].0);
}

#[tokio::test]
async fn a_server_that_does_not_speak_what_is_set_says_so() {
    let bench = over_http("progress", |it| it.revision = Some(Revision::Of20260728)).await;
    let mut servers = bench.hub.servers();
    let failed = |all: &Arc<aishd_mcp_messages::server::ServerSnapshot>| {
        let state = all.list.first().map(|it| it.state.clone());
        matches!(state, Some(ServerPhase::Failed { .. }))
    };
    let all = tokio::time::timeout(PATIENCE, servers.wait_for(failed)).await;
    let all = all.unwrap().unwrap().clone();
    let ServerPhase::Failed { why, .. } = &all.list[0].state else {
        unreachable!("it was waited for");
    };
    let expected =
        "the answer is not understood: it does not speak 2026-07-28, which `revision` sets";
    assert_eq!(expected, why);
}

/// By itself a server is asked for what people who wait for it want to read.
#[tokio::test]
async fn a_server_is_told_how_much_to_say_and_its_log_is_kept() {
    for (level, word) in [(None, "info"), (Some(LogLevel::Warning), "warning")] {
        let set = |it: &mut ServerSettings| it.log_level = level.unwrap_or_default();
        let bench = over_http("progress", set).await;
        bench.ready().await;
        let sent = bench.sent().await;
        let told = sent.iter().find(|it| it.0 == "logging/setLevel");
        assert_eq!(json!({"level": word}), told.unwrap().2);
        assert_eq!("done", bench.call("slow").await);
        let (log, lost) = bench.hub.log(&alias()).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!((4, 0), (lines.len(), lost), "{log}");
        assert!(lines[0].starts_with("[log] 20"), "{log}");
        assert!(lines[3].ends_with("Z info slow: did 4"), "{log}");
        let newest = over_http("modern", set).await;
        newest.ready().await;
        newest.call("where").await;
        let sent = newest.sent().await;
        let call = sent.iter().find(|it| it.0 == "tools/call").unwrap();
        let level = &call.2["_meta"]["io.modelcontextprotocol/logLevel"];
        assert_eq!(word, level);
        assert!(!sent.iter().any(|it| it.0 == "logging/setLevel"));
    }
}
