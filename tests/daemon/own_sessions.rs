//! A conversation that keeps itself from something has sessions of its own with MCP servers.

use std::fs;

use aish_proto::conversation::{
    ConversationDeleteParams, ConversationLimits, ConversationParams, Delete, StatusOf,
};
use aish_proto::event::ToolResult;
use aish_proto::id::ConversationId;
use aish_proto::mcp::{List as ServerList, Restart, ServerParams};
use aish_proto::method::Empty;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer as Said, Client, Upstream, World, repository};

use crate::consent::call_id;
use crate::constraints::{roots, set};
use crate::tools::events;

/// Processes of the server of this world.
fn processes(world: &World) -> usize {
    let mark = world.path("work").to_string_lossy().into_owned();
    let all = fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|it| fs::read_to_string(it.path().join("cmdline")).ok());
    lines
        .filter(|it| it.contains("stdio_server.py") && it.contains(&mark))
        .count()
}

fn told(client: &Client, conversation: ConversationId) -> String {
    client.wait_turn(client.ask(conversation, "where are we?"));
    let mut results = events::<ToolResult>(client, conversation);
    results.pop().unwrap().content
}

#[test]
fn a_constrained_conversation_has_sessions_of_its_own() {
    if !std::path::Path::new("/usr/bin/python3").exists() {
        eprintln!("skipped: there is no python3");
        return;
    }
    let upstream = Upstream::start();
    let world = World::new();
    let (config, mark) = (upstream.config("test"), world.path("work"));
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    world.write_config(&format!(
        "{config}\n[mcp]\nroots = true\n[mcp.auto_approve]\n\"s__*\" = true\n[permissions.needs]\ns__roots_me = 1\n\
         [mcp.servers.s]\ncommand = \"python3\"\nargs = [{script:?}, \"plain\", {mark:?}]\n"
    ));
    let _daemon = world.daemon().spawn();
    let client = world.person("pts/3");
    until_true("the server's tools", || {
        let servers = client.done::<ServerList>(Empty {}).servers;
        servers.iter().any(|it| it.tools > 0)
    });
    upstream.answer_with(move |request| {
        let messages = request.messages();
        if messages.last().is_none_or(|(role, _)| role != "user") {
            return Said::text("There.");
        }
        Said::stream().then_call(0, &call_id(), "s__roots_me", "{}")
    });
    let (free, bound) = (client.create(), client.create());
    set(&client, bound, roots(&["/srv/in"]));
    assert_eq!(1, processes(&world), "nothing is begun before it is wanted");

    assert_eq!(
        r#"{"roots": [{"uri": "file:///srv/in"}]}"#,
        told(&client, bound)
    );
    assert_eq!(2, processes(&world));
    assert!(!told(&client, free).contains("/srv/in"));
    assert_eq!(
        r#"{"roots": [{"uri": "file:///srv/in"}]}"#,
        told(&client, bound)
    );
    assert_eq!(2, processes(&world), "it is warm");

    let alias = "s".to_owned();
    client.done::<Restart>(ServerParams { alias });
    assert!(told(&client, bound).contains("/srv/in"));
    set(&client, bound, ConversationLimits::default());
    until_true("its session ended", || processes(&world) == 1);
    assert!(!told(&client, bound).contains("/srv/in"));

    set(&client, bound, roots(&["/srv/out"]));
    assert!(told(&client, bound).contains("/srv/out"));
    assert_eq!(2, processes(&world));
    let status = client.done::<StatusOf>(ConversationParams { id: bound });
    client.done::<Delete>(ConversationDeleteParams {
        id: bound,
        confirm_title: status.title,
    });
    until_true("it ended with its conversation", || processes(&world) == 1);
}
