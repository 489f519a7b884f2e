//! The tools for files: what a model reads, lists and finds, by a program behind a boundary.

use std::fs;

use aish_proto::conversation::{ConversationCreateParams, Create};
use aish_proto::doctor::Doctor;
use aish_proto::event::ToolResult;
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_testkit::{Answer as Said, Client, Upstream, World};
use serde_json::{Value, json};

use crate::consent::pending;
use crate::context::{log, statuses};
use crate::norris;
use crate::profiles::is_held;
use crate::registry::started;
use crate::shell::allow;
use crate::tools::events;

/// A world in which models are offered the tools, as they are by default.
pub(crate) fn world(upstream: &Upstream, more: &str) -> World {
    let world = World::new();
    world.write(
        "machine/aish/config.toml",
        "[tools]\ntodo = false\nweb = false\n",
    );
    world.write_config(&format!("{}\n{more}", upstream.config("test")));
    world
}

/// The model answers the question with these calls, and their results with a word.
fn model_calls(upstream: &Upstream, calls: &[(&str, Value)]) {
    let calls: Vec<(String, String)> = calls
        .iter()
        .map(|(tool, arguments)| (format!("files__{tool}"), arguments.to_string()))
        .collect();
    upstream.answer_with(move |request| {
        if request
            .messages()
            .last()
            .is_none_or(|(role, _)| role != "user")
        {
            return Said::text("Done.");
        }
        let calls = (0..).zip(&calls);
        calls.fold(Said::stream(), |answer, (index, (tool, arguments))| {
            answer.then_call(index, &format!("call-{index}"), tool, arguments)
        })
    });
}

/// A conversation in the directory of the world.
pub(crate) fn created(world: &World, client: &Client) -> ConversationId {
    let params = ConversationCreateParams {
        title: None,
        model: None,
        cwd: world.work().display().to_string(),
        constraints: None,
        budget: None,
        temporary: false,
    };
    client.done::<Create>(params).id
}

/// What each call gave, in the order of the calls; those that only read end in any.
fn asked(world: &World, client: &Client) -> Vec<String> {
    let conversation = created(world, client);
    client.wait_turn(client.ask(conversation, "look"));
    results(client, conversation)
}

fn results(client: &Client, conversation: ConversationId) -> Vec<String> {
    let mut results = events::<ToolResult>(client, conversation);
    results.sort_by(|one, other| one.call.cmp(&other.call));
    results.into_iter().map(|it| it.content).collect()
}

#[test]
fn a_model_reads_lists_and_finds_files_of_its_directory_unasked() {
    let upstream = Upstream::start();
    let world = world(&upstream, "");
    world.write("work/src/main.rs", "fn main() {\n    greet();\n}\n");
    world.write("work/notes.md", "# Notes\n");
    let _daemon = world.daemon().spawn();
    let client = world.client();
    if !is_held(&client) {
        return;
    }
    model_calls(
        &upstream,
        &[
            ("read", json!({"file_path": "src/main.rs"})),
            ("list", json!({"glob": "**/*.rs"})),
            ("search", json!({"pattern": "greet"})),
            ("read", json!({"file_path": "src/mian.rs"})),
        ],
    );
    let results = asked(&world, &client);
    let [read, listed, found, missed] = &results[..] else {
        panic!("{results:?}");
    };
    assert!(read.contains("2\t    greet();"), "{read}");
    assert!(
        listed.contains("src/main.rs") && !listed.contains("notes"),
        "{listed}"
    );
    assert!(found.contains("greet();"), "{found}");
    assert!(missed.contains("did you mean src/main.rs?"), "{missed}");
    let offered = upstream.requests()[0].json()["tools"].to_string();
    assert!(offered.contains("\"files__read\""), "{offered}");
}

#[test]
fn keys_are_hidden_from_what_reads_for_a_model() {
    let upstream = Upstream::start();
    // Nobody is asked about what lies elsewhere.
    let world = world(&upstream, "[mcp.auto_approve]\n\"files__*\" = true\n");
    world.write("home/.ssh/id", "a key of a person\n");
    world.write("work/plain", "plain\n");
    let link = world.work().join("link");
    std::os::unix::fs::symlink(world.path("home/.ssh/id"), link).unwrap();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    if !is_held(&client) {
        return;
    }
    let key = world.path("home/.ssh/id");
    model_calls(
        &upstream,
        &[
            ("read", json!({"file_path": key})),
            ("read", json!({"file_path": "link"})),
            (
                "search",
                json!({"pattern": "a key", "path": world.path("home"), "all": true}),
            ),
            ("read", json!({"file_path": "plain"})),
        ],
    );
    let results = asked(&world, &client);
    assert_eq!(4, results.len(), "{results:?}");
    for result in &results[..3] {
        assert!(!result.contains("of a person"), "{result}");
    }
    assert!(results[3].contains("plain"), "{results:?}");
}

#[test]
fn where_nothing_holds_the_program_nobody_is_offered_it() {
    let upstream = Upstream::start();
    let world = world(&upstream, "");
    world.write("work/plain", "content\n");
    let _daemon = world.daemon().failpoint("profile=miss").spawn();
    let client = world.client();
    // What the kernel holds is found out beside the first request.
    client.done::<Doctor>(Empty {});
    model_calls(&upstream, &[("read", json!({"file_path": "plain"}))]);
    let results = asked(&world, &client);
    let offered = upstream.requests()[0].json()["tools"].to_string();
    assert!(!offered.contains("files__"), "{offered}");
    assert!(!results[0].contains("content"), "{results:?}");
}

#[test]
fn what_lies_elsewhere_is_asked_about_and_no_link_leads_there_unasked() {
    let upstream = Upstream::start();
    let world = world(&upstream, "");
    world.write("elsewhere/notes", "from elsewhere\n");
    std::os::unix::fs::symlink(world.path("elsewhere"), world.work().join("link")).unwrap();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    if !is_held(&client) {
        return;
    }
    model_calls(
        &upstream,
        &[
            ("read", json!({"file_path": "link/notes"})),
            ("read", json!({"file_path": "../elsewhere/notes"})),
        ],
    );
    let conversation = created(&world, &client);
    let turn = client.ask(conversation, "look");
    let confirm = pending(&client, conversation);
    let place = world.work().display().to_string();
    assert_eq!(
        format!(
            "it reads ../elsewhere/notes, which is outside of the conversation's directories ({place})"
        ),
        confirm.request.why
    );
    allow(&client, &confirm);
    client.wait_turn(turn);
    let results = results(&client, conversation);
    let [through, named] = &results[..] else {
        panic!("{results:?}");
    };
    assert!(!through.contains("from elsewhere"), "{through}");
    assert!(named.contains("from elsewhere"), "{named}");
}

/// Its server refuses a request that has any, whatever they are.
#[test]
fn a_model_that_takes_no_tools_is_asked_without_them_from_then_on() {
    let upstream = Upstream::start();
    let world = world(&upstream, "");
    let _daemon = world.daemon().spawn();
    let client = world.client();
    upstream.answer_with(|request| {
        if request.json().get("tools").is_some() {
            let why = r#"{"error":{"message":"registry.ollama.ai/library/gemma:2b does not support tools"}}"#;
            return Said::status(400, why);
        }
        Said::text("hello")
    });
    let conversation = created(&world, &client);
    for question in ["hi", "and again"] {
        client.wait_turn(client.ask(conversation, question));
    }
    let with_tools = upstream.requests().into_iter();
    let with_tools = with_tools.map(|it| it.json().get("tools").is_some());
    assert_eq!(vec![true, false, false], with_tools.collect::<Vec<_>>());
    assert_eq!(
        vec!["test-model takes no tools: asked again without them"],
        statuses(&log(&client, conversation))
    );
}

#[test]
fn nobody_is_offered_them_who_does_not_want_them() {
    let upstream = Upstream::start();
    let world = world(&upstream, "[tools]\nfiles = false\n");
    fs::write(world.work().join("plain"), "content\n").unwrap();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    model_calls(&upstream, &[("read", json!({"file_path": "plain"}))]);
    let results = asked(&world, &client);
    let offered = upstream.requests()[0].json()["tools"].to_string();
    assert!(!offered.contains("files__"), "{offered}");
    assert!(results[0].contains("unknown tool"), "{results:?}");
}

/// In layers they would read the files as they are, and not as the run has changed them.
#[test]
fn a_run_has_none_of_them() {
    let scene = norris::Scene::new("[tools]\nfiles = true\n");
    let _daemon = started(&scene.world);
    scene.model_says(&["DONE: there is nothing to do"]);
    let mut run = norris::launch(&scene.world, |_| {});
    let _ended = norris::outcome(&mut run);
    let offered = scene.upstream.requests()[0].json()["tools"].to_string();
    assert!(!offered.contains("files__"), "{offered}");
}
