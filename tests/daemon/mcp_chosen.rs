//! `tools` and `without_tools` of a server: what they leave out is there for nobody.

use aish_proto::daemon::Reload;
use aish_proto::mcp::{List, McpServerStatus, ServerState, Tool, ToolParams, Tools, ToolsParams};
use aish_proto::method::Empty;
use aish_proto::tool::{Describe, DescribeParams, Run};
use aish_testkit::wait::until_true;
use aish_testkit::{Client, World, repository};
use serde_json::json;

use crate::lists::{call, params, run};

const ALLOWED: &str = "[mcp.auto_approve]\n\"c__*\" = true\n";

fn config(mode: &str, keys: &str) -> String {
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    format!(
        "{ALLOWED}[mcp.servers.c]\ncommand = \"python3\"\nargs = [{script:?}, {mode:?}]\n{keys}"
    )
}

fn status(client: &Client) -> McpServerStatus {
    client.done::<List>(Empty {}).servers.remove(0)
}

fn names(client: &Client) -> Vec<String> {
    let tools = client.done::<Tools>(ToolsParams::default()).tools;
    tools.into_iter().map(|it| it.name).collect()
}

#[track_caller]
fn left_out(client: &Client, name: &str, key: &str) {
    let expected = format!("unknown tool {name}: `{key}` in [mcp.servers.c] leaves it out");
    let name = name.to_owned();
    let params_of = || name.clone();
    let shown = client.call::<Tool>(ToolParams { name: params_of() });
    let described = client.call::<Describe>(DescribeParams {
        name: params_of(),
        conversation: None,
    });
    let calls = [call("x", &name, json!({}))];
    let ran = client.call::<Run>(params(client.create(), &calls));
    for failed in [shown.unwrap_err(), described.unwrap_err(), ran.unwrap_err()] {
        assert!(failed.message.contains(&expected), "{}", failed.message);
    }
}

/// Also when the server says that its tools have changed, and when the configuration does.
#[test]
fn a_tool_that_is_not_named_is_not_there() {
    let world = World::new();
    let keys = "tools = [\"echo\", \"g*\", \"t1\", \"gone\"]\n";
    world.write_config(&config("plain", keys));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    until_true("it is ready", || {
        status(&client).state == ServerState::Ready
    });
    assert_eq!(vec!["c__echo", "c__grow"], names(&client));
    let before = status(&client);
    assert_eq!((2, 14), (before.tools, before.left_out));
    let unmet = "`tools` names \"gone\", and the server has no such tool";
    assert!(
        before.remarks.contains(&unmet.to_owned()),
        "{:?}",
        before.remarks
    );
    left_out(&client, "c__die", "tools");
    let told = client.done::<Tools>(ToolsParams::default()).left_out;
    let die = told.iter().find(|it| it.name == "c__die");
    assert_eq!(Some("tools"), die.map(|it| it.key.as_str()));

    // Two more, one of which is named.
    for _ in 0..2 {
        let grow = [call("g", "c__grow", json!({}))];
        client.wait_turn(run(&client, client.create(), &grow));
    }
    until_true("the other one is taken in", || names(&client).len() == 3);
    assert_eq!(vec!["c__echo", "c__grow", "c__t1"], names(&client));
    left_out(&client, "c__t0", "tools");
    assert_eq!(15, status(&client).left_out);

    world.write_config(&config("plain", "without_tools = [\"die\", \"*_me\"]\n"));
    client.done::<Reload>(Empty {});
    until_true("the other list counts", || names(&client).len() == 12);
    left_out(&client, "c__die", "without_tools");
    left_out(&client, "c__ping_me", "without_tools");
    assert_eq!(4, status(&client).left_out);
}

/// What was remembered of it was listed before the configuration said so.
#[test]
fn what_is_remembered_is_left_out_too() {
    let world = World::new();
    world.write_config(&config("slow_start", ""));
    let daemon = world.daemon().spawn();
    let client = world.client();
    until_true("it is ready", || {
        status(&client).state == ServerState::Ready
    });
    assert_eq!(16, names(&client).len());
    // It is written down before what comes later.
    client.create();
    daemon.kill9();
    drop(client);
    world.write_config(&config("slow_start", "tools = [\"echo\"]\n"));
    let _daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(vec!["c__echo"], names(&client));
    assert_eq!(ServerState::Connecting, status(&client).state);
}
