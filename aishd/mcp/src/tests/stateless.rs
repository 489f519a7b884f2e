//! Servers of 2026-07-28, which keep no session.

use super::*;

#[tokio::test]
async fn a_server_without_sessions_is_asked_with_everything_in_each_request() {
    let bench = Bench::http("modern").await;
    let status = bench.ready().await;
    assert_eq!("2026-07-28", status.about.protocol);
    assert_eq!("modern", status.about.name);
    // A tool whose annotation is wrong is left out, and the others are not.
    assert_eq!(vec!["where", "ask", "grow", "task", "sign"], bench.tools());
    assert!(
        status.remarks[0].contains("\"bad\" is left out"),
        "{:?}",
        status.remarks
    );
    let there = bench.outcome("where", json!({"region": "zürich"})).await;
    assert_eq!("=?base64?esO8cmljaA==?=", said(there));
    assert_eq!("no header", bench.call("where").await);
    let task = "transport error: MCP server a: the answer is not understood: a task without an id that could be sent again";
    assert_eq!(task, bench.call("task").await);
    for (method, headers, params) in bench.sent().await {
        let meta = &params["_meta"];
        assert_eq!(
            "2026-07-28", meta["io.modelcontextprotocol/protocolVersion"],
            "{method}"
        );
        // What is off is not announced.
        assert_eq!(
            json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
            meta["io.modelcontextprotocol/clientCapabilities"]
        );
        assert_eq!(None, headers.get("mcp-session-id"));
    }
}

/// The change is heard on the question that stays open.
#[tokio::test]
async fn changes_are_heard_where_there_is_no_stream_beside() {
    let bench = Bench::http("modern").await;
    bench.ready().await;
    let seen = async {
        while !bench.tools().contains(&"t1".to_owned()) {
            assert_eq!("grown", bench.call("grow").await);
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(PATIENCE, seen).await.unwrap();
}

/// A list whose time is over is asked for again when it is wanted, and not before.
#[tokio::test]
async fn a_list_is_believed_for_as_long_as_its_server_says() {
    let bench = Bench::http("lapses").await;
    bench.ready().await;
    assert_eq!(vec!["t0"], bench.tools());
    bench.hub.freshen();
    // The shortest time is a second.
    tokio::time::sleep(Duration::from_millis(1200)).await;
    assert_eq!(vec!["t0"], bench.tools(), "nobody has wanted it");
    bench.hub.freshen();
    let seen = async {
        let mut servers = bench.hub.servers();
        let more = servers.wait_for(|all| all.list.iter().any(|it| it.tools.len() > 1));
        more.await.map(drop)
    };
    tokio::time::timeout(PATIENCE, seen).await.unwrap().unwrap();
    assert_eq!(vec!["t0", "t1"], bench.tools());
}

/// A call that needs a person at a URL first is made again when the person has agreed, and else fails as it did.
#[tokio::test]
async fn a_call_that_needs_a_visit_first_is_made_again_after_it() {
    for (answer, expected) in [
        (ElicitationAnswer::Agreed, "signed in"),
        (
            ElicitationAnswer::Declined,
            "dispatch failed: sign in first",
        ),
    ] {
        let server = serve("modern", 0);
        let endpoint = ServerEndpoint::Http(url(server.port));
        let mut bench = Bench::with(endpoint, limits(), People::Some).await;
        bench.server = Some(server);
        bench.ready().await;
        let mut forms = bench.elicitations.take().unwrap();
        let person = async {
            let form = forms.recv().await.unwrap();
            assert_eq!("https://example.com/sign", form.params["url"]);
            form.answer.send(answer).unwrap();
        };
        let (said, ()) = tokio::join!(bench.call("sign"), person);
        assert_eq!(expected, said);
    }
    let nobody = Bench::http("modern").await;
    nobody.ready().await;
    assert_eq!("dispatch failed: sign in first", nobody.call("sign").await);
}

/// What a server wants to know goes to a person, and its state comes back as it was.
#[tokio::test]
async fn a_question_in_between_is_answered_by_a_person() {
    let server = serve("modern", 0);
    let endpoint = ServerEndpoint::Http(url(server.port));
    let mut bench = Bench::with(endpoint, limits(), People::Some).await;
    bench.server = Some(server);
    bench.ready().await;
    let mut forms = bench.elicitations.take().unwrap();
    let person = async {
        let form = forms.recv().await.unwrap();
        assert_eq!("who?", form.params["message"]);
        let content = json!({"name": "me"}).as_object().unwrap().clone();
        form.answer
            .send(ElicitationAnswer::Accepted(content))
            .unwrap();
    };
    let (answer, ()) = tokio::join!(bench.call("ask"), person);
    let expected = json!([{"q": {"action": "accept", "content": {"name": "me"}}}, "stäte"]);
    assert_eq!(expected, serde_json::from_str::<Value>(&answer).unwrap());
    // It is announced, but where nobody can be asked.
    bench.forms = None;
    bench.call("where").await;
    let mut sent = bench.sent().await;
    let announced =
        |params: &Value| params["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone();
    let (_, _, last) = sent.pop().unwrap();
    let tasks = json!({"io.modelcontextprotocol/tasks": {}});
    assert_eq!(json!({"extensions": tasks}), announced(&last));
    for (method, _, params) in sent {
        let forms = json!({"form": {}, "url": {}});
        let expected = json!({"elicitation": forms, "extensions": tasks});
        assert_eq!(expected, announced(&params), "{method}");
    }
}

#[tokio::test]
async fn without_people_a_question_in_between_ends_the_call() {
    let bench = Bench::http("modern").await;
    bench.ready().await;
    let asked = bench.call("ask").await;
    assert!(
        asked.contains("it wants \"elicitation/create\" of us"),
        "{asked}"
    );
}

/// What is watched is named on the question that stays open; what has a time of its own is not asked for again.
#[tokio::test]
async fn a_watched_resource_is_read_again_only_when_it_changed() {
    let bench = Bench::http("modern").await;
    bench.ready().await;
    let read = |uri: &'static str| {
        let hub = bench.hub.clone();
        async move {
            hub.current(&alias(), uri, &CancellationToken::new())
                .await
                .unwrap()
        }
    };
    let reads = |uri: &'static str| {
        let sent = bench.sent();
        async move {
            let sent = sent.await.into_iter();
            sent.filter(|it| it.0 == "resources/read" && it.2["uri"] == uri)
                .count()
        }
    };
    assert_eq!("version 0", read("note://1/long").await);
    assert_eq!("version 0", read("note://1").await);
    let watched = async {
        // Nobody would tell before it is acknowledged, so it is read each time until then.
        loop {
            let before = reads("note://1").await;
            read("note://1").await;
            if reads("note://1").await == before {
                break;
            }
        }
    };
    tokio::time::timeout(PATIENCE, watched).await.unwrap();
    assert_eq!("grown", bench.call("grow").await);
    let seen = async { while read("note://1").await != "version 1" {} };
    tokio::time::timeout(PATIENCE, seen).await.unwrap();
    let uris = bench.sent().await.into_iter();
    let mut uris = uris.filter(|it| it.0 == "subscriptions/listen");
    let last = uris.next_back().unwrap().2["notifications"].clone();
    assert_eq!(
        json!({"toolsListChanged": true, "resourceSubscriptions": ["note://1", "note://1/long"]}),
        last
    );
}
