//! More tools than a request may have: a few are sent, and the model finds the others. What it found stays, and nothing that
//! a server has read of the list changes.

use std::fs;

use aish_proto::context::ChosenTools;
use aish_proto::event::{ToolResult, ToolsChosen};
use aish_proto::mcp::List as ServerList;
use aish_proto::method::Empty;
use aish_testkit::repository;
use aish_testkit::upstream::Request;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Client, Daemon, Upstream, World};
use ulid::Ulid;

use crate::context::{asked, log, preview, statuses};
use crate::tools::events;

struct Scene {
    upstream: Upstream,
    world: World,
    daemon: Daemon,
}

impl Scene {
    /// With a server of so many tools. `None`: there is no Python here.
    fn new(count: usize, preset: &str, more: &str) -> Option<Self> {
        if !std::path::Path::new("/usr/bin/python3").exists() {
            return None;
        }
        let (upstream, world) = (Upstream::start(), World::new());
        let script = repository::top().join("tests/data/mcp/many_tools.py");
        let (count, marks) = (count.to_string(), world.path("work/marks"));
        world.write_config(&format!(
            "default_model = \"test\"\n{}\n{more}\n[mcp.auto_approve]\n\"big__*\" = true\n\
[mcp.servers.big]\ncommand = \"python3\"\nargs = [{script:?}, {count:?}, {marks:?}]\n",
            upstream.preset("test", preset)
        ));
        let daemon = world.daemon().spawn();
        let scene = Self {
            upstream,
            world,
            daemon,
        };
        scene.connected();
        Some(scene)
    }

    fn connected(&self) -> Client {
        let client = self.world.person("pts/3");
        until_true("the server's tools", || {
            let servers = client.done::<ServerList>(Empty {}).servers;
            servers.iter().any(|it| it.tools > 0)
        });
        client
    }

    /// The model answers each of its requests with one of these calls, in turn, and then with a text.
    fn model_calls(&self, calls: &[(&str, &str)]) {
        let mut calls: Vec<(String, String)> = calls
            .iter()
            .rev()
            .map(|(name, arguments)| ((*name).to_owned(), (*arguments).to_owned()))
            .collect();
        self.upstream.answer_with(move |_| match calls.pop() {
            Some((name, arguments)) => {
                let id = format!("call-{}", Ulid::new());
                Answer::stream().then_call(0, &id, &name, &arguments)
            }
            None => Answer::text("So be it."),
        });
    }

    /// What ran, in its order.
    fn ran(&self) -> Vec<String> {
        let text = fs::read_to_string(self.world.path("work/marks")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

fn offered(request: &Request) -> Vec<String> {
    let body = request.json();
    let tools = body["tools"].as_array().cloned().unwrap_or_default();
    let names = tools.iter().map(|it| it["function"]["name"].as_str());
    names.map(|it| it.unwrap().to_owned()).collect()
}

/// The tools of a request as they went out, without the end of the list.
fn tool_bytes(request: &Request) -> String {
    let body = String::from_utf8(request.body.clone()).unwrap();
    let (_, tools) = body.split_once("\"tools\":[").unwrap();
    tools.strip_suffix("]}").unwrap().to_owned()
}

const FIND: (&str, &str) = ("aish__find_tools", "{\"query\":\"brew a cup\"}");
const COFFEE: (&str, &str) = ("big__make_coffee", "{\"sugar\":false}");

#[test]
fn a_model_finds_what_was_not_sent_and_calls_it_also_after_a_restart() {
    let Some(scene) = Scene::new(300, "max_tools = 128", "") else {
        return;
    };
    let client = scene.connected();
    let conversation = client.create();
    scene.model_calls(&[FIND, COFFEE]);
    asked(&client, conversation, "I want something hot to drink");
    assert_eq!(vec!["make_coffee"], scene.ran());
    let requests = scene.upstream.requests();
    let before = vec!["aish__find_tools", "aish__read_result"];
    assert_eq!(before, offered(&requests[0])[..2]);
    assert!(
        !offered(&requests[0])
            .iter()
            .any(|it| it.starts_with("big__"))
    );
    let description = requests[0].json()["tools"][0]["function"]["description"].to_string();
    assert!(
        description.contains("There are tools of big (300)."),
        "{description}"
    );
    // What was found stands behind the others, and stays there.
    let lists: Vec<String> = requests.iter().map(tool_bytes).collect();
    assert!(lists[1].starts_with(&lists[0]) && lists[1].len() > lists[0].len());
    assert_eq!(lists[1], lists[2]);
    assert_eq!(
        Some("big__make_coffee"),
        offered(&requests[1]).last().map(String::as_str)
    );
    let chosen = events::<ToolsChosen>(&client, conversation);
    let added: Vec<_> = chosen.into_iter().flat_map(|it| it.added).collect();
    assert_eq!(vec!["big__make_coffee"], added);
    let found = events::<ToolResult>(&client, conversation)
        .remove(0)
        .content;
    assert!(
        found.contains("big__make_coffee: Brews a cup in the kitchen.\n")
            && !found.contains("Ignore"),
        "{found}"
    );
    let told = statuses(&log(&client, conversation));
    assert_eq!(1, told.len(), "{told:?}");
    assert!(
        told[0].contains("tools are sent to test-model, for it takes at most 128"),
        "{told:?}"
    );
    // The next daemon sends the same.
    drop(client);
    scene.daemon.kill9();
    let daemon = scene.world.daemon().spawn();
    let scene = Scene { daemon, ..scene };
    let client = scene.connected();
    scene.model_calls(&[COFFEE]);
    let shown = preview(&client, conversation, Some("another one"));
    let sent = u64::try_from(offered(&requests[2]).len()).unwrap();
    let expected = ChosenTools {
        sent,
        available: 300 + sent - 2,
        because: "it takes at most 128".to_owned(),
    };
    assert_eq!(Some(expected), shown.chosen_tools);
    asked(&client, conversation, "another one");
    let requests = scene.upstream.requests();
    assert_eq!(shown.body, String::from_utf8_lossy(&requests[3].body));
    assert_eq!(lists[1], tool_bytes(&requests[3]));
    assert_eq!(vec!["make_coffee", "make_coffee"], scene.ran());
    scene.upstream.finish();
}

#[test]
fn what_a_question_names_is_sent_and_what_nobody_chose_does_not_run() {
    let Some(scene) = Scene::new(
        300,
        "max_tools = 128",
        "[tools]\npinned = [\"big__task_001\"]\n",
    ) else {
        return;
    };
    let client = scene.connected();
    let conversation = client.create();
    scene.model_calls(&[("big__task_007", "{}"), COFFEE]);
    asked(
        &client,
        conversation,
        "call big__task_007, or task_123 if it fails",
    );
    assert_eq!(vec!["task_007"], scene.ran());
    let requests = scene.upstream.requests();
    let theirs = |it: &Request| -> Vec<String> {
        let names = offered(it).into_iter();
        names.filter(|it| it.starts_with("big__")).collect()
    };
    let chosen = ["big__task_001", "big__task_007", "big__task_123"];
    assert_eq!(chosen.to_vec(), theirs(&requests[0]));
    let refused = events::<ToolResult>(&client, conversation).remove(1);
    assert_eq!(
        (
            false,
            "[aish] tool dispatch failed: unknown tool big__make_coffee; it is none of those that this request had: search for it first"
        ),
        (refused.ok, refused.content.as_str())
    );
    // What it wanted by name is at hand then. Another question names nothing, and all are where they were.
    scene.model_calls(&[COFFEE]);
    asked(&client, conversation, "thanks");
    assert_eq!(vec!["task_007", "make_coffee"], scene.ran());
    let requests = scene.upstream.requests();
    let lists: Vec<String> = requests.iter().map(tool_bytes).collect();
    assert_eq!(lists[0], lists[1]);
    assert!(lists[2].starts_with(&lists[0]) && lists[2].contains("make_coffee"));
    assert_eq!((&lists[2], &lists[2]), (&lists[3], &lists[4]));
    scene.upstream.finish();
}

#[test]
fn below_the_limit_all_are_sent_and_nothing_searches() {
    let Some(scene) = Scene::new(40, "max_tools = 50\ncontext_tokens = 100000", "") else {
        return;
    };
    let client = scene.connected();
    let conversation = client.create();
    asked(&client, conversation, "hello");
    let offered = offered(&scene.upstream.requests()[0]);
    assert_eq!(
        40,
        offered.iter().filter(|it| it.starts_with("big__")).count()
    );
    assert!(!offered.contains(&"aish__find_tools".to_owned()));
    assert!(events::<ToolsChosen>(&client, conversation).is_empty());
    assert_eq!(None, preview(&client, conversation, None).chosen_tools);
    scene.upstream.finish();
}

#[test]
fn descriptions_that_would_fill_a_small_context_are_searched_too() {
    let Some(scene) = Scene::new(120, "context_tokens = 16000", "") else {
        return;
    };
    let client = scene.connected();
    let conversation = client.create();
    scene.model_calls(&[FIND, COFFEE]);
    asked(&client, conversation, "hello");
    assert_eq!(vec!["make_coffee"], scene.ran());
    let shown = preview(&client, conversation, None).chosen_tools.unwrap();
    assert_eq!(
        "all would take more than 25 % of its context, 4000 tokens",
        shown.because
    );
    scene.upstream.finish();
}
