//! More tools than a model's server was known to take: the question is answered all the same, with as many as there is room for;
//! that is told once and remembered, and from then on tools are chosen.

use std::collections::BTreeSet;

use aish_proto::method::Empty;
use aish_proto::tool::Reload;
use aish_testkit::upstream::Request;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Client, Daemon, Upstream, World};
use serde_json::json;

use crate::context::{asked, log, preview, statuses};

/// A provider with so many tools.
fn provider(world: &World, name: &str, count: usize) {
    let capabilities =
        (0..count).map(|it| format!("[[capability]]\nname = \"t{it}\"\nlevel = 1\n"));
    let manifest = format!(
        "name = \"{name}\"\nversion = \"1.0.0\"\nruntime = \"process\"\ncommand = \"true\"\n{}",
        capabilities.collect::<String>()
    );
    world.write(format!("config/aish/tools/{name}.toml"), &manifest);
}

fn world(more: &str) -> (Upstream, World) {
    let (upstream, world) = (Upstream::start(), World::new());
    let preset = upstream.preset("plain", more);
    world.write_config(&format!(
        "default_model = \"plain\"\n{preset}[tools]\nbuiltin = false\n"
    ));
    provider(&world, "large", 60);
    provider(&world, "small", 2);
    (upstream, world)
}

fn started(world: &World) -> (Daemon, Client) {
    let daemon = world.daemon().spawn();
    let client = world.client();
    until_true("the manifests", || {
        client.done::<Reload>(Empty {}).read == 2
    });
    (daemon, client)
}

/// The tools of a request, by name.
fn offered(request: &Request) -> BTreeSet<String> {
    let body = request.json();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let names = tools.iter().map(|it| it["function"]["name"].as_str());
    names.map(|it| it.unwrap().to_owned()).collect()
}

/// As OpenAI does it.
fn takes(most: usize, request: &Request) -> Answer {
    let count = offered(request).len();
    if count <= most {
        return Answer::text("fine");
    }
    let message = format!(
        "Invalid 'tools': array too long. Expected an array with maximum length {most}, but got an array with length {count} instead."
    );
    let error = json!({"error": {"message": message, "type": "invalid_request_error", "param": "tools", "code": "array_above_max_length"}});
    Answer::status(400, &error.to_string())
}

const CUT: &str = "test-model takes at most 20 tools: 43 of 63 are left out (43 of large)";
const CHOSEN: &str = "not all 63 tools are sent to test-model, for it takes at most 20: aish's own are, and those that are pinned, named or were used; it finds others by a search";

#[test]
fn a_server_that_takes_fewer_tools_answers_and_what_it_takes_is_remembered() {
    let (upstream, world) = world("");
    upstream.answer_with(|request| takes(20, request));
    let (daemon, client) = started(&world);
    let conversation = client.create();
    asked(&client, conversation, "hello");
    asked(&client, conversation, "hello again");
    assert_eq!(vec![CUT, CHOSEN], statuses(&log(&client, conversation)));
    let counts: Vec<usize> = upstream
        .requests()
        .iter()
        .map(|it| offered(it).len())
        .collect();
    assert_eq!(vec![63, 20, 2], counts);
    let sent = offered(&upstream.requests()[1]);
    assert!(
        sent.contains("small__t0") && sent.contains("small__t1"),
        "{sent:?}"
    );
    let sent = offered(&upstream.requests()[2]);
    let own = ["aish__find_tools", "aish__read_result"];
    assert!(sent.iter().eq(own), "{sent:?}");
    // Known to the next daemon too, which says it to whoever asks in another conversation; a preview is what is sent.
    drop(client);
    daemon.kill9();
    let (_daemon, client) = started(&world);
    let other = client.create();
    let shown = preview(&client, other, Some("and now")).body;
    asked(&client, other, "and now");
    assert_eq!(vec![CHOSEN], statuses(&log(&client, other)));
    let requests = upstream.requests();
    assert_eq!(4, requests.len());
    assert_eq!(shown, String::from_utf8_lossy(&requests[3].body));
    assert_eq!(sent, offered(&requests[3]));
    upstream.finish();
}

#[test]
fn what_a_preset_says_is_not_tried_beyond() {
    let (upstream, world) = world("max_tools = 5");
    upstream.answer_with(|request| takes(5, request));
    let (_daemon, client) = started(&world);
    let conversation = client.create();
    asked(
        &client,
        conversation,
        "what do large__t3, large__t4 and the large__t5 do?",
    );
    let told = CHOSEN.replace("at most 20", "at most 5");
    assert_eq!(vec![told], statuses(&log(&client, conversation)));
    assert_eq!(
        vec![5],
        upstream
            .requests()
            .iter()
            .map(|it| offered(it).len())
            .collect::<Vec<_>>()
    );
    upstream.finish();
}

/// One that never has enough is asked a few times, and then that is an error.
#[test]
fn a_server_that_takes_fewer_each_time_is_not_asked_for_ever() {
    let (upstream, world) = world("");
    upstream.answer_with(|_| Answer::status(400, "{\"error\":{\"message\":\"too many tools\"}}"));
    let (_daemon, client) = started(&world);
    let record = client.wait_turn(client.ask(client.create(), "hello"));
    let error = record.error.unwrap();
    assert!(error.hint.unwrap().contains("models.plain.tools = false"));
    let counts: Vec<usize> = upstream
        .requests()
        .iter()
        .map(|it| offered(it).len())
        .collect();
    assert_eq!(vec![63, 31, 15, 7], counts);
}
