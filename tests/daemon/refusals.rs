//! What a person can do about it stands beside what was refused.

use aish_proto::method::ClientRole;
use aish_testkit::{Client, Upstream, World};
use serde_json::{Value, json};

/// The call is refused, and says this of what comes next.
#[track_caller]
fn check(client: &Client, method: &str, params: &Value, says: &str) {
    let refused = client.call_raw(method, params).unwrap_err();
    let hint = refused.data["hint"].as_str();
    let told = hint.unwrap_or(&refused.message);
    assert!(told.contains(says), "{method}: {refused:?}");
}

#[test]
fn a_refusal_names_what_to_do_next() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let conversation = client.create();
    let other = conversation.to_string();
    let plan = json!({"conversation": conversation, "name": "plan", "data": 1});
    client.call_raw("resource/create", &plan).unwrap();
    let stale =
        json!({"conversation": conversation, "name": "plan", "data": 2, "expectedRevision": 7});
    for (method, params, says) in [
        (
            "conversation/detach",
            json!({"subscription": other}),
            "conversation/attach",
        ),
        (
            "blob/put",
            json!({"blob": other, "text": "x"}),
            "blob/put without `blob`",
        ),
        (
            "mcp/import",
            json!({"path": "/p/a.json", "text": "{}"}),
            "aishctl mcp import lists",
        ),
        (
            "mcp/import",
            json!({"path": "/p/a.json", "text": "{\"a"}),
            "TOML where its name ends in .toml",
        ),
        (
            "resource/create",
            plan,
            "aishctl resource get plan shows it",
        ),
        ("resource/update", stale, "aishctl resource get plan"),
        (
            "tool/unregister",
            json!({"name": "nobody"}),
            "aishctl tools list",
        ),
        (
            "norris/halt",
            json!({"conversation": conversation}),
            "aishctl norris GOAL",
        ),
    ] {
        check(&client, method, &params, says);
    }
    let observer = world.stranger();
    let send = json!({"conversation": conversation, "text": "hm", "idempotencyKey": "k"});
    check(&observer, "turn/send", &send, "aishctl rpc METHOD");
    observer.hello_as("looks", ClientRole::Observer);
    check(
        &observer,
        "turn/send",
        &send,
        "a window without --read-only",
    );
    upstream.finish();
}
