//! The tasks that a model sets itself: written by a call, seen by everybody, there after kill -9 and in a fork.

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{ConversationParams, Fork, ForkParams, Todos};
use aish_proto::event::{Snapshot, TodosChanged, ToolResult};
use aish_proto::id::ConversationId;
use aish_proto::todo::{Todo, TodoStatus};
use aish_testkit::{Answer as Said, Client, Upstream, World};
use serde_json::{Value, json};

use crate::files::created;
use crate::tools::events;

/// A world in which models are offered the tools, as they are by default.
fn world(upstream: &Upstream, more: &str) -> World {
    let world = World::new();
    world.write("machine/aish/config.toml", "[tools]\nfiles = false\n");
    world.write_config(&format!("{}\n{more}", upstream.config("test")));
    world
}

/// The model answers the question with these calls, one after another, and then with a word.
fn model_calls(upstream: &Upstream, calls: &[(&str, Value)]) {
    let calls: Vec<(String, String)> = calls
        .iter()
        .map(|(tool, arguments)| (format!("todo__{tool}"), arguments.to_string()))
        .collect();
    upstream.answer_with(move |request| {
        let messages = request.messages();
        let asked = messages.iter().rposition(|(role, _)| role == "user");
        let after = asked.map_or(&[][..], |it| &messages[it..]);
        let done = after.iter().filter(|(role, _)| role == "tool").count();
        match calls.get(done) {
            Some((tool, arguments)) => {
                Said::stream().then_call(0, &format!("call-{}", messages.len()), tool, arguments)
            }
            None => Said::text("Done."),
        }
    });
}

fn task(content: &str, status: TodoStatus) -> Todo {
    Todo {
        content: content.to_owned(),
        status,
    }
}

fn listed(client: &Client, id: ConversationId) -> Vec<Todo> {
    client.done::<Todos>(ConversationParams { id }).todos
}

fn in_snapshot(client: &Client, id: ConversationId) -> Vec<Todo> {
    let mut follow = client.attach(id, ReplayStart::Now);
    let first = follow.until(|it| it.read::<Snapshot>().is_some());
    first.read::<Snapshot>().unwrap().todos
}

#[test]
fn a_list_is_written_unasked_and_everybody_sees_it() {
    let upstream = Upstream::start();
    let world = world(&upstream, "");
    let daemon = world.daemon().spawn();
    let client = world.client();
    let other = world.person("pts/7");
    model_calls(
        &upstream,
        &[
            (
                "write",
                json!({"todos": [
                    {"content": "read the log", "status": "completed", "activeForm": "Reading"},
                    {"content": "mend\u{1b}[2J\n  it\u{202e}", "status": "in_progress"},
                    {"content": "say so", "status": "pending"},
                ]}),
            ),
            ("read", json!({})),
            (
                "write",
                json!({"todos": [{"content": "x", "status": "done"}]}),
            ),
        ],
    );
    let id = created(&world, &client);
    let mut watching = other.attach(id, ReplayStart::Start);
    client.wait_turn(client.ask(id, "mend it"));
    let expected = vec![
        task("read the log", TodoStatus::Completed),
        task("mend[2J it", TodoStatus::InProgress),
        task("say so", TodoStatus::Pending),
    ];
    let heard = watching.until(|it| it.read::<TodosChanged>().is_some());
    assert_eq!(expected, heard.read::<TodosChanged>().unwrap().todos);
    let replies: Vec<String> = events::<ToolResult>(&client, id)
        .into_iter()
        .map(|it| it.content)
        .collect();
    assert_eq!(
        "The list is kept: 1 of 3 completed, 1 in progress.",
        replies[0]
    );
    assert_eq!(
        "1. [completed] read the log\n2. [in_progress] mend[2J it\n3. [pending] say so\n",
        replies[1]
    );
    assert!(replies[2].contains("do not fit"), "{}", replies[2]);
    assert_eq!(expected, listed(&client, id));
    assert_eq!(expected, in_snapshot(&client, id));
    // What comes before a question is the same bytes, whatever the list is.
    let requests = upstream.requests();
    let before = requests[0].json()["messages"].clone();
    for request in &requests[1..] {
        let now = request.json()["messages"].clone();
        let shared = before.as_array().unwrap().len();
        assert_eq!(
            before.as_array().unwrap()[..],
            now.as_array().unwrap()[..shared]
        );
    }

    // It was acknowledged, so a kill takes nothing of it.
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(expected, listed(&client, id));
    assert_eq!(expected, in_snapshot(&client, id));
    let fork = client.done::<Fork>(ForkParams { id, at_seq: None }).id;
    assert_eq!(expected, listed(&client, fork));
    // Each of the two has its own from then on.
    model_calls(&upstream, &[("write", json!({"todos": []}))]);
    client.wait_turn(client.ask(fork, "all is done"));
    assert_eq!(Vec::<Todo>::new(), listed(&client, fork));
    assert_eq!(expected, listed(&client, id));
}

#[test]
fn the_list_is_not_offered_where_that_is_configured_or_where_nobody_takes_tools() {
    for (config, offered) in [
        ("", true),
        ("[tools]\ntodo = false\n", false),
        ("[tools]\nbuiltin = true\ntodo = false\n", false),
    ] {
        let upstream = Upstream::start();
        let world = world(&upstream, config);
        let _daemon = world.daemon().spawn();
        let client = world.client();
        model_calls(&upstream, &[]);
        let id = created(&world, &client);
        client.wait_turn(client.ask(id, "what is there to do?"));
        let tools = upstream.requests()[0].json()["tools"].to_string();
        assert_eq!(offered, tools.contains("todo__write"), "{config}: {tools}");
    }
}
