//! What a client of the gateway hears of: resources of the daemon's servers and of the shared context, and lists that change,
//! in both eras, through restarts of the server and of the daemon.

use aish_proto::mcp::{Restart, ServerParams};
use aish_proto::resource;
use aish_testkit::{Client, World};
use serde_json::{Value, json};

use crate::gateway_client::{Gateway, STATED, allow_all, ready, servers, text, world};

const TRIPS: (&str, &str, &str) = ("trips", "offering.py", "session");
const MODERN: (&str, &str, &str) = ("modern", "offering.py", "modern");
const BARE: (&str, &str, &str) = ("bare", "offering.py", "bare");
/// Calls of these servers need nobody.
const ALLOWED: &str = "[mcp]\nauto_approve = { \"trips__*\" = true, \"modern__*\" = true }\n";
const UPDATED: &str = "notifications/resources/updated";

fn uri(alias: &str, of: &str) -> String {
    format!("aish://mcp/{alias}/{of}")
}

/// What a server was asked about its resources and subscriptions.
fn asked(gateway: &mut Gateway, id: i64, alias: &str, method: &str) -> Vec<Value> {
    gateway.call(id, &format!("{alias}__asked"), &json!({}));
    let said = gateway.answer(&json!(id));
    let all: Vec<Value> = serde_json::from_str(text(&said)).unwrap();
    all.into_iter().filter(|it| it[0] == method).collect()
}

#[track_caller]
fn done(gateway: &mut Gateway, id: i64, method: &str, params: &Value) -> Value {
    gateway.ask(id, method, params);
    let mut said = gateway.answer(&json!(id));
    assert!(said.get("error").is_none(), "{said}");
    said["result"].take()
}

fn touch(gateway: &mut Gateway, id: i64, alias: &str, of: &str) {
    gateway.call(id, &format!("{alias}__touch"), &json!({ "uri": of }));
    assert_eq!("touched", text(&gateway.answer(&json!(id))));
}

#[test]
fn resources_of_servers_are_listed_and_read_behind_the_gate() {
    let (world, _daemon) = world(&[TRIPS, BARE], "");
    let client = world.client();
    let mut gateway = Gateway::session(&world, &[]);
    let listed = done(&mut gateway, 1, "resources/list", &json!({}));
    let uris: Vec<&str> = listed["resources"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["uri"].as_str().unwrap())
        .collect();
    let expected = ["bare", "trips"].map(|it| [uri(it, "note://1"), uri(it, "note://2")]);
    assert_eq!(expected.concat(), uris, "{listed}");
    let templates = done(&mut gateway, 2, "resources/templates/list", &json!({}));
    assert_eq!(
        json!({"uriTemplate": uri("bare", "note://{number}"), "name": "bare__a note"}),
        templates["resourceTemplates"][0]
    );
    let number = json!({"ref": {"type": "ref/resource", "uri": uri("trips", "note://{number}")}, "argument": {"name": "number", "value": "1"}});
    let completed = done(&mut gateway, 3, "completion/complete", &number);
    assert_eq!(json!(["1", "12"]), completed["completion"]["values"]);
    // Somebody is asked, as about a call.
    gateway.ask(
        4,
        "resources/read",
        &json!({"uri": uri("trips", "note://1")}),
    );
    allow_all(&client);
    let said = gateway.answer(&json!(4));
    assert_eq!(
        json!([{"uri": uri("trips", "note://1"), "mimeType": "text/plain", "text": "note://1 version 0"}]),
        said["result"]["contents"],
        "{said}"
    );
    for (id, uri, code) in [
        (5, uri("trips", "file:///x"), -32603),
        (6, uri("nobody", "note://1"), -32002),
        (7, "aish://mcp/trips".to_owned(), -32002),
    ] {
        gateway.ask(id, "resources/read", &json!({ "uri": uri }));
        let said = gateway.answer(&json!(id));
        assert_eq!(code, said["error"]["code"], "{said}");
    }
    gateway.end();
    let mut less = Gateway::session(&world, &["--tools", "trips__*"]);
    let listed = done(&mut less, 1, "resources/list", &json!({}));
    assert_eq!(2, listed["resources"].as_array().unwrap().len(), "{listed}");
    less.end();
    // What a rule denies is not listed, and says so.
    world.write_config(&format!(
        "[permissions]\ndeny = [\"aish__read_resource\"]\n{}",
        servers(&[TRIPS])
    ));
    client.done::<aish_proto::daemon::Reload>(aish_proto::method::Empty {});
    ready(&world, 1);
    let mut denied = Gateway::session(&world, &[]);
    let listed = done(&mut denied, 1, "resources/list", &json!({}));
    assert_eq!(json!([]), listed["resources"]);
    denied.end();
}

#[test]
fn a_session_hears_of_what_it_subscribed_to() {
    let (world, daemon) = world(&[TRIPS, MODERN, BARE], ALLOWED);
    let mut gateway = Gateway::session(&world, &[]);
    let mut other = Gateway::session(&world, &[]);
    for (id, alias) in [(20, "trips"), (30, "modern")] {
        let params = json!({"uri": uri(alias, "note://1")});
        done(&mut gateway, id, "resources/subscribe", &params);
        done(&mut other, id, "resources/subscribe", &params);
        touch(&mut gateway, id + 1, alias, "note://1");
        for it in [&mut gateway, &mut other] {
            assert_eq!(params, it.told(UPDATED)["params"], "{alias}");
        }
    }
    // Its server was asked once for both.
    let once = asked(&mut gateway, 3, "trips", "resources/subscribe");
    assert_eq!(1, once.len(), "{once:?}");
    // What a server does not tell of, and what there is not, nobody hears of.
    for (id, uri, code) in [
        (4, uri("bare", "note://1"), -32602),
        (5, uri("trips", "file:///x"), -32602),
        (6, uri("nobody", "note://1"), -32002),
        (7, "aish://context/x/y".to_owned(), -32002),
        (8, "x".repeat(2049), -32602),
    ] {
        gateway.ask(id, "resources/subscribe", &json!({ "uri": uri }));
        let said = gateway.answer(&json!(id));
        assert_eq!(code, said["error"]["code"], "{said}");
    }
    // Lists are told of without being asked for.
    gateway.call(9, "trips__grow", &json!({}));
    gateway.answer(&json!(9));
    gateway.told("notifications/prompts/list_changed");
    gateway.told("notifications/resources/list_changed");
    // A server that begins anew is asked again, and what it holds may be another.
    world.client().done::<Restart>(ServerParams {
        alias: "trips".to_owned(),
    });
    let params = json!({"uri": uri("trips", "note://1")});
    gateway.until(|it| it["method"] == UPDATED && it["params"] == params);
    touch(&mut gateway, 10, "trips", "note://1");
    gateway.until(|it| it["method"] == UPDATED && it["params"] == params);
    // So is one of a daemon that begins anew.
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    ready(&world, 3);
    gateway.until(|it| it["method"] == UPDATED && it["params"] == params);
    touch(&mut gateway, 11, "trips", "note://1");
    gateway.until(|it| it["method"] == UPDATED && it["params"] == params);
    // When the last one has gone the server is told.
    other.end();
    done(&mut gateway, 12, "resources/unsubscribe", &params);
    let mut id = 100;
    aish_testkit::wait::until_true("the server hears that nobody listens", || {
        id += 1;
        !asked(&mut gateway, id, "trips", "resources/unsubscribe").is_empty()
    });
    gateway.end();
}

fn stated() -> Value {
    json!({STATED: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}})
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "one question that stays open, from its beginning to its end"
)]
fn who_has_no_session_hears_by_a_question_that_stays_open() {
    const ID: &str = "io.modelcontextprotocol/subscriptionId";
    let (world, _daemon) = world(&[TRIPS, MODERN, BARE], ALLOWED);
    let client = world.client();
    let conversation = client.create();
    create(&client, conversation, "build", &json!(1));
    let own = format!("aish://context/{conversation}/build");
    let mut gateway = Gateway::start(&world, &["-C", &conversation.to_string()]);
    let trips = uri("trips", "note://1");
    let modern = uri("modern", "note://2");
    let unheard = [
        uri("bare", "note://1"),
        uri("nobody", "note://1"),
        "file:///x".to_owned(),
    ];
    let wanted: Vec<String> = [&own, &trips, &modern]
        .into_iter()
        .chain(&unheard)
        .cloned()
        .collect();
    let notifications = json!({"promptsListChanged": true, "resourceSubscriptions": wanted});
    gateway.ask(
        "one",
        "subscriptions/listen",
        &json!({"_meta": stated(), "notifications": notifications}),
    );
    // The first that is said of it; only what will be told of.
    let first = gateway.until(|it| it["params"]["_meta"][ID] == "one");
    assert_eq!(
        "notifications/subscriptions/acknowledged", first["method"],
        "{first}"
    );
    let taken = &first["params"]["notifications"];
    assert_eq!(
        json!([own, modern, trips]),
        taken["resourceSubscriptions"],
        "{first}"
    );
    assert_eq!(json!(true), taken["promptsListChanged"]);
    gateway.ask(
        "two",
        "subscriptions/listen",
        &json!({"_meta": stated(), "notifications": {"resourceSubscriptions": [trips]}}),
    );
    gateway.until(|it| it["params"]["_meta"][ID] == "two");
    let call = |gateway: &mut Gateway, id: i64, name: &str, arguments: Value| {
        gateway.ask(
            id,
            "tools/call",
            &json!({"_meta": stated(), "name": name, "arguments": arguments}),
        );
        gateway.answer(&json!(id));
    };
    call(&mut gateway, 1, "trips__touch", json!({"uri": "note://1"}));
    for id in ["one", "two"] {
        gateway.until(|it| {
            it["method"] == UPDATED && it["params"] == json!({"uri": trips, "_meta": {ID: id}})
        });
    }
    call(&mut gateway, 2, "modern__touch", json!({"uri": "note://2"}));
    gateway.until(|it| it["params"] == json!({"uri": modern, "_meta": {ID: "one"}}));
    let changed = resource::UpdateParams {
        conversation,
        name: "build".to_owned(),
        data: Some(json!(2)),
        expected_revision: None,
        blob: None,
        create: false,
    };
    client.done::<resource::Update>(changed);
    gateway.until(|it| it["params"] == json!({"uri": own, "_meta": {ID: "one"}}));
    call(&mut gateway, 3, "modern__grow", json!({}));
    gateway.until(|it| {
        it["method"] == "notifications/prompts/list_changed" && it["params"]["_meta"][ID] == "one"
    });
    // Subscribing is for sessions.
    gateway.ask(
        4,
        "resources/subscribe",
        &json!({"_meta": stated(), "uri": trips}),
    );
    assert_eq!(-32601, gateway.answer(&json!(4))["error"]["code"]);
    gateway.tell("notifications/cancelled", &json!({"requestId": "two"}));
    call(&mut gateway, 5, "trips__touch", json!({"uri": "note://1"}));
    gateway.until(|it| it["params"] == json!({"uri": trips, "_meta": {ID: "one"}}));
    let again = gateway
        .early
        .iter()
        .any(|it| it["method"] == UPDATED && it["params"]["_meta"][ID] == "two");
    assert!(!again, "{:?}", gateway.early);
    gateway.program.close_stdin();
    let end = gateway.answer(&json!("one"));
    assert_eq!(json!("one"), end["result"]["_meta"][ID], "{end}");
    gateway.end();
}

fn create(client: &Client, conversation: aish_proto::id::ConversationId, name: &str, data: &Value) {
    client.done::<resource::Create>(resource::ResourceCreateParams {
        conversation,
        name: name.to_owned(),
        data: Some(data.clone()),
        blob: None,
    });
}

#[test]
fn a_gateway_tells_of_so_many_resources_and_no_more() {
    let (world, _daemon): (World, _) = world(&[TRIPS], ALLOWED);
    let mut gateway = Gateway::session(&world, &[]);
    // A server is asked about 64 at most.
    for at in 0..64 {
        done(
            &mut gateway,
            1000 + at,
            "resources/subscribe",
            &json!({"uri": uri("trips", &format!("note://{at}"))}),
        );
    }
    gateway.ask(
        64,
        "resources/subscribe",
        &json!({"uri": uri("trips", "note://64")}),
    );
    let said = gateway.answer(&json!(64));
    assert!(
        said["error"]["message"]
            .as_str()
            .unwrap()
            .contains("no room"),
        "{said}"
    );
    touch(&mut gateway, 65, "trips", "note://63");
    gateway.until(|it| it["method"] == UPDATED && it["params"]["uri"] == uri("trips", "note://63"));
    gateway.end();
}
