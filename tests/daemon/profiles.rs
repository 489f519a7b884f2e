//! Programs of servers and manifests under profiles: what the kernel holds them to, and what is told where it cannot.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use aish_proto::audit::{AuditKind, AuditListParams, AuditRecord, List as AuditList};
use aish_proto::conversation::{ConversationCreateParams, Create};
use aish_proto::doctor::{CheckOutcome, Doctor, DoctorCheck};
use aish_proto::id::ConversationId;
use aish_proto::mcp::{List, Logs, McpServerStatus, Profile, Restart, ServerParams, ServerState};
use aish_proto::method::Empty;
use aish_proto::tool::{List as ToolList, Reload, ToolListParams};
use aish_testkit::process::wait_gone;
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{Client, Daemon, World, repository};
use serde_json::json;

use crate::registry::called_in;

const KEY: &str = "sekret-of-a-person";

/// Whether this machine can hold anything; where it cannot, that is said.
pub(crate) fn is_held(client: &Client) -> bool {
    let check = doctor(client);
    let is_held = check.outcome == CheckOutcome::Ok;
    if !is_held {
        println!("skipped: {}", check.detail);
    }
    is_held
}

fn doctor(client: &Client) -> DoctorCheck {
    let mut checks = client.done::<Doctor>(Empty {}).checks.into_iter();
    checks.find(|it| it.check == "profiles").unwrap()
}

/// A server that runs what it is asked to, in the directory `work`, and a key in the home.
fn world(contain: &str) -> World {
    let world = World::new();
    let script = repository::top().join("tests/data/mcp/shell_server.py");
    fs::copy(script, world.work().join("server.py")).unwrap();
    world.write("home/.ssh/key", KEY);
    world.write("cache/there", "");
    let (work, cache) = (world.work(), world.path("cache"));
    world.write_config(&format!(
        "[mcp.servers.box]\ncommand = \"python3\"\nargs = [\"server.py\"]\ncwd = {work:?}\nenv = {{ MINE = \"1\", \
         SSH_AUTH_SOCK = \"/named\" }}\n{}\n",
        contain.replace("CACHE", &format!("{cache:?}"))
    ));
    world
}

fn status(client: &Client) -> McpServerStatus {
    client.done::<List>(Empty {}).servers.remove(0)
}

fn wait_ready(client: &Client) {
    until_true("the server is there", || {
        status(client).state == ServerState::Ready
    });
}

fn of_box() -> ServerParams {
    ServerParams {
        alias: "box".to_owned(),
    }
}

/// What a line of shell came to in the server: its status, and what it printed.
fn sh(client: &Client, conversation: ConversationId, line: &str) -> String {
    called_in(client, conversation, "box__sh", &json!({ "line": line }))
}

fn audited(client: &Client) -> Vec<AuditRecord> {
    let records = client.done::<AuditList>(AuditListParams::default()).records;
    let held = |it: &AuditRecord| it.kind == AuditKind::ProgramHeld;
    records.into_iter().filter(held).collect()
}

#[test]
fn a_server_in_a_workspace_writes_there_and_reaches_nothing_else() {
    let world = world("contain = \"workspace\"\nwrite = [CACHE]");
    let _daemon = world
        .daemon()
        .env("DBUS_SESSION_BUS_ADDRESS", "unix:path=/x")
        .spawn();
    let client = world.client();
    if !is_held(&client) {
        return;
    }
    wait_ready(&client);
    assert_eq!(Some(Profile::Workspace), status(&client).contain);
    let conversation = client.create();
    let sh = |line: &str| sh(&client, conversation, line);
    let home = world.path("home").display().to_string();
    assert!(world.work().join("began").exists());
    let cache = world.path("cache").display().to_string();
    assert_eq!(
        "0 ",
        sh(&format!(
            "echo a >made && echo b >{cache}/made && echo c >/tmp/own"
        ))
    );
    let made = |path: &Path| fs::read_to_string(path).unwrap();
    assert_eq!("a\n", made(&world.work().join("made")));
    assert_eq!("b\n", made(&world.path("cache/made")));

    let outside = sh(&format!("echo a >{home}/made"));
    assert!(outside.contains("Read-only"), "{outside}");
    assert!(!world.path("home/made").exists());
    for line in [
        format!("cat {home}/.ssh/key"),
        format!("ls -A {home}/.ssh"),
        format!("cat {}", world.config_file().display()),
        format!("ls {}", world.socket().display()),
    ] {
        let seen = sh(&line);
        assert!(
            !seen.contains(KEY) && !seen.contains("key\n"),
            "{line}: {seen}"
        );
        assert!(
            line.starts_with("ls -A") || !seen.starts_with("0 "),
            "{line}: {seen}"
        );
    }

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!(
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port})).send(b\"x\")'"
    );
    let reached = sh(&connect);
    assert!(reached.contains("refused"), "{reached}");
    listener.set_nonblocking(true).unwrap();
    assert!(listener.accept().is_err());

    // What leads out is not passed on, and what the configuration names is.
    let told = sh("echo \"$MINE $SSH_AUTH_SOCK $TMPDIR ${DBUS_SESSION_BUS_ADDRESS-none}\"");
    assert_eq!("0 1 /named /tmp none\n", told);
    let records = audited(&client);
    let held = records.first().unwrap();
    assert_eq!(Some("box"), held.provider.as_deref());
    let because = held.because.clone().unwrap();
    assert!(because.starts_with("workspace, by namespaces"), "{because}");
}

#[test]
fn a_server_that_only_reads_writes_nowhere_and_sees_no_keys_of_a_project() {
    let world = world("contain = \"read\"");
    world.write("work/.env", KEY);
    world.write("work/text", "text\n");
    let _daemon = world.daemon().spawn();
    let client = world.client();
    if !is_held(&client) {
        return;
    }
    wait_ready(&client);
    assert!(!world.work().join("began").exists());
    let conversation = client.create();
    assert_eq!("0 text\n", sh(&client, conversation, "cat text"));
    let env = sh(&client, conversation, "cat .env");
    assert!(!env.contains(KEY) && !env.starts_with("0 "), "{env}");
}

/// What is so of every server is so of one that is held: its last words, a restart, its end with the daemon.
#[test]
fn a_held_server_is_restarted_heard_and_ended_like_others() {
    let world = world("contain = \"workspace\"");
    let daemon = world.daemon().spawn();
    let client = world.client();
    if !is_held(&client) {
        return;
    }
    wait_ready(&client);
    let logs = || client.done::<Logs>(of_box()).text;
    until_true("its errors are heard", || logs().contains("it begins"));
    assert!(logs().contains("under the profile workspace"), "{}", logs());
    client.done::<Restart>(of_box());
    wait_ready(&client);
    assert_eq!(2, logs().matches("started as process").count());
    assert_eq!(2, audited(&client).len());
    let pid = pid(&logs());
    // Its only ways out of the pipe are its own.
    let conversation = client.create();
    let left = "(sleep 600 >/dev/null 2>&1 & echo $! >left); true";
    assert_eq!("0 ", sh(&client, conversation, left));
    let sleeping = sleeping(&world);
    daemon.kill9();
    wait_gone(pid);
    sleeping.into_iter().for_each(wait_gone);
}

/// The process of the newest start, as it is seen from here.
fn pid(logs: &str) -> u32 {
    let started = logs.rsplit("started as process ").next().unwrap();
    let number: String = started.chars().take_while(char::is_ascii_digit).collect();
    number.parse().unwrap()
}

fn sleeping(world: &World) -> Vec<u32> {
    until("what was left is there", PATIENCE, || {
        let all = world.running("sleep");
        (!all.is_empty()).then_some(all)
    })
}

#[test]
fn where_the_kernel_holds_nothing_no_server_is_started_and_it_is_said_why() {
    let world = world("contain = \"workspace\"");
    let _daemon = world.daemon().failpoint("profile=miss").spawn();
    let client = world.client();
    until_true("it has failed", || {
        status(&client).state == ServerState::Failed
    });
    let status = status(&client);
    let why = "not started: the profile `workspace` cannot be held here: it is switched off";
    assert_eq!(Some(why), status.why.as_deref());
    let hint = status.hint.unwrap();
    assert!(
        hint.contains("[mcp.servers.box]") && hint.contains("contain = \"open\""),
        "{hint}"
    );
    assert!(!world.work().join("began").exists());
    let check = doctor(&client);
    assert_eq!(CheckOutcome::Fail, check.outcome);
    assert!(
        check.detail.contains("workspace: mcp box") && check.detail.contains("switched off"),
        "{}",
        check.detail
    );
    let listed = world.ctl(&["mcp", "list"]).run().ok();
    assert!(
        listed.out().contains("workspace") && listed.out().contains(why),
        "{}",
        listed.out()
    );
}

#[test]
fn a_place_that_write_names_has_to_be_there() {
    let world = world("contain = \"workspace\"\nwrite = [\"/gone/away\"]");
    let _daemon = world.daemon().spawn();
    let client = world.client();
    if !is_held(&client) {
        return;
    }
    until_true("it has failed", || {
        status(&client).state == ServerState::Failed
    });
    let why = status(&client).why.unwrap();
    assert_eq!(
        "not started: /gone/away is not there, and `write` names it",
        why
    );
}

/// A tool with a capability of each level, which runs `tool.sh`.
pub(crate) fn tools(more: &str) -> World {
    let world = World::new();
    world.write("home/.ssh/key", KEY);
    world.write("work/text", "text\n");
    world.write("config/aish/tools/t.sh", SCRIPT);
    let capabilities: String = (1..=3)
        .map(|it| format!("[[capability]]\nname = \"l{it}\"\nlevel = {it}\n"))
        .collect();
    world.write(
        "config/aish/tools/t.toml",
        &format!(
            "name = \"t\"\nruntime = \"process\"\ncommand = \"sh\"\nscript = \"t.sh\"\ncwd = \"conversation\"\n{more}\n{capabilities}"
        ),
    );
    world
}

/// Says what it could do, a letter each: read here, write here, write at home, see the key, write a temporary file.
pub(crate) const SCRIPT: &str = "\
can=; try() { name=$1; shift; \"$@\" >/dev/null 2>&1 && can=$can$name; }
try r cat text
try w touch \"made-$AISH_CAPABILITY\"
try h touch \"$HOME/made-$AISH_CAPABILITY\"
try k cat \"$HOME/.ssh/key\"
try t touch \"${TMPDIR:-/tmp}/own\"
rm -f \"${TMPDIR:-/tmp}/own\"
echo \"\\\"$can\\\"\"
";

pub(crate) fn ready(
    world: &World,
    daemon: aish_testkit::daemon::DaemonBuilder<'_>,
) -> (Daemon, Client) {
    let daemon = daemon.spawn();
    let client = world.client();
    until_true("the manifests", || client.done::<Reload>(Empty {}).read > 0);
    (daemon, client)
}

pub(crate) fn call(world: &World, client: &Client, level: u8) -> String {
    let created = client.done::<Create>(ConversationCreateParams {
        title: None,
        model: None,
        cwd: world.work().display().to_string(),
        constraints: None,
        budget: None,
        temporary: false,
    });
    let conversation = created.id;
    let said = called_in(client, conversation, &format!("t__l{level}"), &json!({}));
    said.trim_matches('"').to_owned()
}

#[test]
fn the_level_of_a_tool_says_what_it_can_do() {
    let world = tools("");
    let (_daemon, client) = ready(&world, world.daemon());
    if !is_held(&client) {
        return;
    }
    assert_eq!("rt", call(&world, &client, 1));
    assert_eq!("rwt", call(&world, &client, 2));
    assert_eq!("rwhkt", call(&world, &client, 3));
    let is_made = |path: &str| world.path(path).exists();
    assert!(!is_made("work/made-l1") && is_made("work/made-l2") && is_made("work/made-l3"));
    assert!(!is_made("home/made-l2") && is_made("home/made-l3"));
    let listed = client.done::<ToolList>(ToolListParams {
        conversation: None,
        cursor: None,
    });
    let of_tool = listed.tools.iter().filter(|it| it.provider == "t");
    let held: Vec<_> = of_tool.map(|it| it.contain).collect();
    assert_eq!(
        vec![Some(Profile::Read), Some(Profile::Workspace), None],
        held
    );
    let shown = world.ctl(&["tools", "list", "t"]).run().ok();
    assert!(shown.out().contains("workspace"), "{}", shown.out());
    assert_eq!(2, audited(&client).len());
}

#[test]
fn a_manifest_can_say_otherwise_and_that_is_part_of_what_is_agreed_to() {
    let world = tools("contain = \"open\"");
    let (_daemon, client) = ready(&world, world.daemon());
    assert_eq!("rwhkt", call(&world, &client, 1));
    let narrow = tools("contain = \"read\"");
    let (_daemon, client) = ready(&narrow, narrow.daemon());
    if is_held(&client) {
        assert_eq!("rt", call(&narrow, &client, 3));
    }
}

#[test]
fn where_the_kernel_holds_nothing_no_tool_runs_that_is_to_be_held() {
    let world = tools("");
    let (_daemon, client) = ready(&world, world.daemon().failpoint("profile=miss"));
    for level in [1, 2] {
        let said = call(&world, &client, level);
        assert!(
            said.contains("cannot be held here: it is switched off")
                && said.contains("`contain = \"open\"`"),
            "{said}"
        );
    }
    assert!(!world.path("work/made-l2").exists());
    assert_eq!("rwhkt", call(&world, &client, 3));
}
