//! MCP servers as clients of the daemon meet them: configured, reloaded, remembered, gone with it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use aish_proto::attach::ReplayStart;
use aish_proto::daemon::Reload;
use aish_proto::event::{McpStatus, ToolsChanged};
use aish_proto::mcp::{
    Connect, ConnectParams, Disconnect, List, Logs, McpServerStatus, ServerParams, ServerState,
    Tools, ToolsParams,
};
use aish_proto::method::Empty;
use aish_testkit::wait::until_true;
use aish_testkit::{Client, World, repository};

fn server(mode: &str) -> String {
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    format!("command = \"python3\"\nargs = [{script:?}, {mode:?}]\n")
}

fn servers(client: &Client) -> Vec<McpServerStatus> {
    client.done::<List>(Empty {}).servers
}

fn tools(client: &Client) -> Vec<String> {
    let tools = client.done::<Tools>(ToolsParams::default()).tools;
    tools.into_iter().map(|it| it.name).collect()
}

#[track_caller]
fn wait_for(client: &Client, state: ServerState) {
    until_true("the server does so", || servers(client)[0].state == state);
}

/// A daemon that was killed knows the tools of a server that is not up yet.
#[test]
fn the_tools_of_the_last_session_are_there_before_the_server_is() {
    let world = World::new();
    world.write_config(&format!("[mcp.servers.slow]\n{}", server("slow_start")));
    let daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(Vec::<String>::new(), tools(&client));
    wait_for(&client, ServerState::Ready);
    let before = tools(&client);
    assert!(before.contains(&"slow__echo".to_owned()), "{before:?}");
    // What is remembered is written down soon, and before anything that comes later.
    client.create();
    daemon.kill9();
    drop(client);
    let _daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(before, tools(&client));
    let status = &servers(&client)[0];
    assert_eq!(ServerState::Connecting, status.state);
    assert_eq!("2026-07-28", status.protocol);
}

/// Ten servers that hang cost the start nothing, and nothing else either.
#[test]
fn servers_that_hang_delay_nobody() {
    let world = World::new();
    let hanging = server("hangs");
    let configured: Vec<String> = (0..10)
        .map(|it| format!("[mcp.servers.s{it}]\n{hanging}"))
        .collect();
    world.write_config(&configured.concat());
    let _daemon = world.daemon().spawn();
    let client = world.client();
    // Ready came before any of them could be given up, and the demo answers meanwhile.
    let states: Vec<ServerState> = servers(&client).iter().map(|it| it.state).collect();
    assert_eq!(vec![ServerState::Connecting; 10], states);
    let answer = world.ctl(&["ask", "--no-stdin", "hello"]).run().ok();
    assert!(!answer.out().is_empty());
}

/// A reload begins and ends sessions, and a wrong file changes nothing.
#[test]
fn a_reload_brings_servers_and_takes_them_away() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    assert!(servers(&client).is_empty());
    world.write_config(&format!("[mcp.servers.a]\n{}", server("plain")));
    // The daemon may have seen the file change by itself already.
    client.done::<Reload>(Empty {});
    until_true("it is connected to", || {
        servers(&client)
            .iter()
            .any(|it| it.state == ServerState::Ready)
    });
    world.write_config("[mcp.servers.a]\nurl = \"http://127.0.0.1:1\"\ncommand = \"x\"\n");
    let errors = client.done::<Reload>(Empty {}).errors;
    assert!(
        errors[0].contains("`mcp.servers.a` has a url and a command"),
        "{errors:?}"
    );
    assert_eq!(ServerState::Ready, servers(&client)[0].state);
    world.write_config("");
    client.done::<Reload>(Empty {});
    until_true("it is gone", || servers(&client).is_empty());
}

/// Who is attached is told of servers and tools, and need not attach again.
#[test]
fn attached_clients_hear_of_servers_and_tools() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let mut follow = client.attach(client.create(), ReplayStart::Now);
    follow.until_kind("replayComplete");
    let connected = client.done::<Connect>(example_server());
    assert_eq!("python3", connected.server.alias);
    let is_ready = |it: &McpStatus| it.server.state == ServerState::Ready;
    let ready = follow.until(|it| it.read::<McpStatus>().as_ref().is_some_and(is_ready));
    assert_eq!(2, ready.read::<McpStatus>().unwrap().server.tools);
    let changed: ToolsChanged = follow.until_kind("toolsChanged").read().unwrap();
    assert_eq!(vec!["python3__add", "python3__list"], changed.added);
    let alias = connected.server.alias;
    client.done::<Disconnect>(ServerParams { alias });
    let changed: ToolsChanged = follow.until_kind("toolsChanged").read().unwrap();
    assert_eq!(2, changed.removed.len());
}

/// A server with two tools, which is called `python3`.
pub(crate) fn example_server() -> ConnectParams {
    let words = ["python3", &script(), "example"].map(str::to_owned);
    ConnectParams {
        alias: None,
        url: None,
        auth_env: None,
        command: words.to_vec(),
        env: BTreeMap::new(),
        cwd: None,
        contain: None,
        write: vec![],
        hosts: vec![],
        revision: None,
    }
}

fn script() -> String {
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    script.display().to_string()
}

/// Servers that repeat their secrets, to a daemon that logs all it has to log.
#[test]
fn secrets_of_servers_are_in_no_log_and_no_list() {
    const SECRETS: [&str; 5] = [
        "t0ken-n0body-sees",
        "h3ader-n0body-sees",
        "v4riable-n0body-sees",
        "arg0ment-n0body-sees",
        "ref3rence-n0body-sees",
    ];
    let [token, header, variable, argument, reference] = SECRETS;
    let (_running, port) = over_http("repeats");
    let world = World::new();
    let near = format!("url = \"http://127.0.0.1:{port}/mcp\"\nauth_env = \"TEST_TOKEN\"\n");
    let headers = format!("headers = {{ X-Api-Key = \"{header}\", X-Project = \"notes\" }}\n");
    let env = format!("env = {{ API_TOKEN = \"{variable}\", LEVEL = \"attention\" }}\n");
    let words = format!("\"repeats\", \"--password={argument}\", \"-k\", \"${{NOTES_KEY}}\"");
    let child = server("repeats").replace("\"repeats\"", &words);
    world.write_config(&format!(
        "[mcp.servers.far]\n{near}{headers}[mcp.servers.near]\n{child}{env}"
    ));
    let daemon = world
        .daemon()
        .env("TEST_TOKEN", token)
        .env("NOTES_KEY", reference)
        .env("AISH_LOG", "trace")
        .spawn();
    let client = world.client();
    until_true("both have refused", || {
        let servers = servers(&client);
        servers.iter().all(|it| it.state == ServerState::Failed)
    });
    let whys: Vec<String> = servers(&client)
        .into_iter()
        .filter_map(|it| it.why)
        .collect();
    assert!(
        whys[0].contains("no entry with Bearer [key], [key], [key]"),
        "{whys:?}"
    );
    assert!(
        whys[1].contains("no entry with [key] at attention, --password=[key] -k [key]"),
        "{whys:?}"
    );
    let shown = world.ctl(&["config", "show"]).run().ok();
    let listed = world.ctl(&["mcp", "list", "--json"]).run().ok();
    assert!(
        listed.out().contains("--password=[key] -k ${NOTES_KEY}"),
        "{}",
        listed.out()
    );
    let said = || world.ctl(&["mcp", "logs", "near"]).run().ok();
    // What a server writes may come later than its answer.
    until_true("its words are there", || said().out().contains("no entry"));
    let said = said();
    assert!(
        said.out().contains("no entry with [redacted] at"),
        "{}",
        said.out()
    );
    assert_eq!(0, daemon.terminate());
    let log = world.log_text();
    assert_eq!(2, log.matches("no entry with").count(), "{log}");
    for text in [
        log,
        whys.concat(),
        shown.out().to_owned(),
        listed.out().to_owned(),
        said.out().to_owned(),
    ] {
        for secret in SECRETS {
            let found = text.lines().find(|it| it.contains(secret));
            assert_eq!(None, found, "{secret}");
        }
    }
}

/// Ends a server with its test.
pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ended = self.0.kill();
        let _reaped = self.0.wait();
    }
}

/// A server over HTTP, and its port.
pub(crate) fn over_http(mode: &str) -> (Running, u16) {
    let script = repository::top().join("tests/data/mcp/http_server.py");
    let mut child = Command::new("python3")
        .arg(script)
        .args([mode, "0"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is there");
    let mut line = String::new();
    let stdout = child.stdout.take().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    (Running(child), line.trim().parse().expect("a port"))
}

/// Issue 4: fifty servers that do not want to end, each with a child in a session of its own.
#[test]
fn nothing_is_left_of_fifty_servers() {
    let world = World::new();
    let configured: Vec<String> = (0..50)
        .map(|it| format!("[mcp.servers.s{it}]\n{}", server("stays")))
        .collect();
    world.write_config(&configured.concat());
    for ends in ["stop", "kill -9"] {
        let daemon = world.daemon().spawn();
        let client = world.client();
        let begun = |it: &McpServerStatus| of(&client, &it.alias).len() == 2;
        until_true("all have begun", || servers(&client).iter().all(begun));
        let pids: Vec<PathBuf> = servers(&client)
            .iter()
            .flat_map(|it| of(&client, &it.alias))
            .collect();
        assert_eq!(100, pids.len());
        match ends {
            "stop" => assert_eq!(0, daemon.terminate()),
            _ => daemon.kill9(),
        }
        until_true("all are gone", || !pids.iter().any(|it| it.exists()));
    }
}

/// The processes of a server of the kind that stays.
fn of(client: &Client, alias: &str) -> Vec<PathBuf> {
    let alias = alias.to_owned();
    let log = client.done::<Logs>(ServerParams { alias }).text;
    let line = log.lines().find(|it| it.starts_with("pids "));
    let pids = line.into_iter().flat_map(|it| it.split(' ').skip(1));
    pids.map(|it| PathBuf::from(format!("/proc/{it}")))
        .collect()
}

/// No orphan is left, even after kill -9 of the daemon; not a child's child in a session of its own either.
#[test]
fn no_child_outlives_a_daemon_that_was_killed() {
    let world = World::new();
    world.write_config(&format!("[mcp.servers.a]\n{}", server("stays")));
    let daemon = world.daemon().spawn();
    let client = world.client();
    wait_for(&client, ServerState::Ready);
    let pids = of(&client, "a");
    assert!(pids.iter().all(|it| it.exists()));
    daemon.kill9();
    let left = || pids.iter().any(|it| it.exists());
    until_true("all are gone", || !left());
}

/// The configuration sets it, a wrong one is refused with those that there are, and the list shows it.
#[test]
fn a_revision_is_set_and_shown() {
    let world = World::new();
    let set = |revision: &str, more: &str| {
        let server = server("plain");
        let text = format!("[mcp.servers.a]\n{server}revision = {revision:?}\n{more}");
        world.write_config(&text);
    };
    set("2025-06-18", "log_level = \"warning\"\n");
    let _daemon = world.daemon().spawn();
    let client = world.client();
    wait_for(&client, ServerState::Ready);
    let status = &servers(&client)[0];
    assert_eq!(Some("2025-06-18"), status.revision.as_deref());
    let listed = world.ctl(&["mcp", "list"]).run().ok();
    assert!(
        listed.out().contains("set: 2025-06-18)"),
        "{}",
        listed.out()
    );
    set("2025-06-31", "log_level = \"loud\"\n");
    let errors = client.done::<Reload>(Empty {}).errors.join("\n");
    for word in ["2024-11-05", "2025-11-25", "2026-07-28", "emergency"] {
        assert!(errors.contains(word), "{errors}");
    }
    let refused = client.refused::<Connect>(ConnectParams {
        alias: None,
        url: Some("http://127.0.0.1:1/mcp".to_owned()),
        auth_env: None,
        command: vec![],
        env: BTreeMap::new(),
        cwd: None,
        contain: None,
        write: vec![],
        hosts: vec![],
        revision: Some("2025".to_owned()),
    });
    assert!(
        refused.message.contains("there are 2024-11-05, "),
        "{refused}"
    );
}
