//! `aishctl mcp serve`: the real program over its pipes, in both eras of MCP, with a real daemon and real servers behind
//! it.

use std::fs;

use aish_proto::confirm::Decision;
use aish_proto::daemon::Reload;
use aish_proto::method::Empty;
use aish_proto::tool::{self, ToolDescription};
use aish_testkit::Asked as _;
use aish_testkit::World;
use aish_testkit::process::wait_gone;
use aish_testkit::wait::until_true;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::gateway_client::{
    Gateway, NOTES, PLAIN, STATED, allow_all, asked, conversations, decide, ready, servers, text,
    world,
};
use crate::shell::shell;

#[test]
fn a_call_waits_for_a_person_and_gives_what_its_server_gave() {
    let (world, _daemon) = world(&[NOTES], "");
    let client = world.client();
    let mut gateway = Gateway::session(&world, &[]);
    assert_eq!(
        vec!["notes__add", "notes__list"],
        gateway.names(1, &json!({}))
    );
    assert_eq!(
        0,
        conversations(&client).len(),
        "a list makes no conversation"
    );
    // What looks like a reference of ours is the client's data.
    let arguments = json!({"text": "milk", "more": {"$result": "x"}});
    let meta = json!({"progressToken": "t"});
    let params = json!({"name": "notes__add", "arguments": arguments, "_meta": meta});
    gateway.ask(2, "tools/call", &params);
    let confirm = asked(&client, 1).remove(0);
    assert!(confirm.request.call().arguments.contains("$result"));
    let waits = gateway.told("notifications/progress");
    assert_eq!("t", waits["params"]["progressToken"]);
    assert!(
        waits["params"]["message"]
            .as_str()
            .unwrap()
            .contains("waits for a person")
    );
    decide(&client, &confirm, Decision::AllowProvider);
    let said = gateway.answer(&json!(2));
    assert_eq!(
        ("kept: milk", &json!(false)),
        (text(&said), &said["result"]["isError"])
    );
    assert_eq!(vec!["mcp a client"], conversations(&client));
    // The other blocks are what they were.
    gateway.call(3, "notes__list", &json!({}));
    let said = gateway.answer(&json!(3));
    let content = said["result"]["content"].as_array().unwrap();
    assert_eq!("1 note, with a picture", content[0]["text"], "{said}");
    assert_eq!("buy milk", content[1]["resource"]["text"], "{said}");
    assert_eq!("image/gif", content[2]["mimeType"], "{said}");
    assert!(content[2]["data"].as_str().unwrap().starts_with("R0lGODlh"));
    gateway.end();
    assert_eq!(1, conversations(&client).len());
}

#[test]
fn what_is_denied_is_an_error_that_the_client_can_read() {
    let (world, daemon) = world(&[NOTES], "[permissions]\ndeny = [\"notes__list\"]\n");
    let client = world.client();
    let mut gateway = Gateway::session(&world, &[]);
    assert_eq!(vec!["notes__add"], gateway.names(1, &json!({})));
    gateway.call(2, "notes__list", &json!({}));
    let said = gateway.answer(&json!(2));
    assert_eq!(json!(true), said["result"]["isError"]);
    assert!(
        text(&said).contains("denied by policy: permissions.deny notes__list"),
        "{said}"
    );
    gateway.call(3, "notes__add", &json!({"text": "x"}));
    let confirm = asked(&client, 1).remove(0);
    decide(&client, &confirm, Decision::Deny);
    let said = gateway.answer(&json!(3));
    assert_eq!(json!(true), said["result"]["isError"]);
    assert!(text(&said).contains("denied by user: not today"), "{said}");
    gateway.call(4, "notes__gone", &json!({}));
    assert_eq!(-32602, gateway.answer(&json!(4))["error"]["code"]);
    gateway.call(5, "notes__add", &json!([]));
    assert_eq!(-32602, gateway.answer(&json!(5))["error"]["code"]);
    // A rule that is gone shows the tool again, and the client is told.
    world.write_config(&servers(&[NOTES]));
    client.done::<Reload>(Empty {});
    gateway.told("notifications/tools/list_changed");
    assert_eq!(
        vec!["notes__add", "notes__list"],
        gateway.names(6, &json!({}))
    );
    gateway.end();
    assert_eq!(0, daemon.terminate());
}

#[test]
fn both_eras_are_spoken_and_changes_are_told_in_both() {
    let (world, _daemon) = world(&[PLAIN], "");
    let client = world.client();
    let mut old = Gateway::session(&world, &["--tools", "plain__*"]);
    let mut new = Gateway::start(&world, &[]);
    let stated = json!({STATED: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let meta = json!({"_meta": stated});
    new.ask(1, "server/discover", &meta);
    let said = new.answer(&json!(1));
    let result = &said["result"];
    assert_eq!(
        ("2026-07-28", "complete"),
        (
            result["supportedVersions"][0].as_str().unwrap(),
            result["resultType"].as_str().unwrap()
        )
    );
    assert_eq!(
        "aish",
        result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"]
    );
    new.ask(2, "tools/list", &meta);
    let said = new.answer(&json!(2));
    assert_eq!(
        (&json!(0), &json!("private")),
        (&said["result"]["ttlMs"], &said["result"]["cacheScope"])
    );
    new.ask("listen", "subscriptions/listen", &json!({"_meta": stated, "notifications": {"toolsListChanged": true, "promptsListChanged": true}}));
    let acknowledged = new.told("notifications/subscriptions/acknowledged");
    assert_eq!(
        json!({"toolsListChanged": true, "promptsListChanged": true}),
        acknowledged["params"]["notifications"]
    );
    let before = old.names(1, &json!({}));
    assert!(!before.contains(&"plain__t0".to_owned()));
    let meta = json!({"name": "plain__grow", "_meta": stated});
    new.ask(3, "tools/call", &meta);
    allow_all(&client);
    let said = new.answer(&json!(3));
    assert_eq!(
        ("grown", "complete"),
        (text(&said), said["result"]["resultType"].as_str().unwrap()),
        "{said}"
    );
    let changed = new.told("notifications/tools/list_changed");
    assert_eq!(
        "listen",
        changed["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"]
    );
    old.told("notifications/tools/list_changed");
    assert!(old.names(2, &json!({})).contains(&"plain__t0".to_owned()));
    // What belongs to the other era, or to none, is refused with the codes of its own.
    for (id, method, params, code) in [
        (10, "initialize", json!({"_meta": stated}), -32601),
        (11, "ping", json!({"_meta": stated}), -32601),
        (12, "tools/list", json!({}), -32602),
        (
            13,
            "server/discover",
            json!({"_meta": {STATED: "2027-01-01"}}),
            -32022,
        ),
        (
            14,
            "server/discover",
            json!({"_meta": {STATED: "2026-07-28"}}),
            -32602,
        ),
    ] {
        new.ask(id, method, &params);
        assert_eq!(code, new.answer(&json!(id))["error"]["code"], "{method}");
    }
    old.end();
    new.program.close_stdin();
    let goodbye = new.answer(&json!("listen"));
    assert_eq!("complete", goodbye["result"]["resultType"]);
    new.end();
}

#[test]
fn a_question_that_nobody_answers_holds_up_no_other_call() {
    let (world, _daemon) = world(&[PLAIN], "");
    let client = world.client();
    let mut gateway = Gateway::session(&world, &[]);
    gateway.call(1, "plain__echo", &json!({"n": 1}));
    let first = asked(&client, 1).remove(0);
    gateway.call(2, "plain__echo", &json!({"n": 2}));
    let both = asked(&client, 2);
    let second = both
        .iter()
        .find(|it| it.request.confirm != first.request.confirm)
        .unwrap();
    decide(&client, second, Decision::AllowOnce);
    assert_eq!("{\"n\": 2}", text(&gateway.answer(&json!(2))));
    let mut titles = conversations(&client);
    titles.sort();
    assert_eq!(vec!["mcp a client", "mcp a client (2)"], titles);
    // The client calls the first one off, and nobody is asked any more; it gets no answer.
    gateway.tell("notifications/cancelled", &json!({"requestId": 1}));
    assert!(asked(&client, 0).is_empty());
    gateway.ask(3, "ping", &json!({}));
    gateway.answer(&json!(3));
    assert!(gateway.early.iter().all(|it| it["id"] != 1));
    // The end of its input calls the rest off.
    gateway.call(4, "plain__echo", &json!({}));
    asked(&client, 1);
    gateway.end();
    assert!(asked(&client, 0).is_empty());
}

#[test]
fn what_a_call_says_meanwhile_is_passed_on_and_a_running_call_can_be_called_off() {
    let (world, _daemon) = world(&[PLAIN], "");
    let client = world.client();
    let mut gateway = Gateway::session(&world, &[]);
    gateway.ask(1, "logging/setLevel", &json!({"level": "warning"}));
    assert_eq!(json!({}), gateway.answer(&json!(1))["result"]);
    gateway.ask(
        2,
        "tools/call",
        &json!({"name": "plain__steps", "_meta": {"progressToken": 7}}),
    );
    allow_all(&client);
    let step = gateway.until(|it| it["params"]["message"] == "step three");
    assert_eq!(
        (&json!(7), &json!(3.0)),
        (
            &step["params"]["progressToken"],
            &step["params"]["progress"]
        )
    );
    let line = gateway.told("notifications/message");
    assert_eq!(
        json!({"level": "warning", "logger": "s", "data": "slow"}),
        line["params"]
    );
    gateway.tell("notifications/cancelled", &json!({"requestId": 2}));
    // Its conversation is free again, and what was allowed there still is.
    gateway.call(3, "plain__echo", &json!({"n": 3}));
    assert_eq!("{\"n\": 3}", text(&gateway.answer(&json!(3))));
    assert_eq!(vec!["mcp a client"], conversations(&client));
    gateway.end();
}

#[test]
fn nonsense_is_answered_and_the_gateway_lives() {
    let (world, _daemon) = world(&[NOTES], "");
    let mut gateway = Gateway::start(&world, &[]);
    for (line, code) in [
        ("{", -32700),
        ("\u{1}\u{2}", -32700),
        ("7", -32600),
        ("[]", -32600),
        (
            "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]",
            -32600,
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}",
            -32600,
        ),
    ] {
        gateway.program.write(&format!("{line}\n"));
        assert_eq!(
            code,
            gateway.answer(&Value::Null)["error"]["code"],
            "{line}"
        );
    }
    gateway
        .program
        .write(&format!("\"{}\"\n", "x".repeat(5 << 20)));
    assert_eq!(-32600, gateway.answer(&Value::Null)["error"]["code"]);
    gateway.ask(1, "ping", &json!({}));
    assert_eq!(json!({}), gateway.answer(&json!(1))["result"]);
    let old = json!({"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "b", "version": "1"}});
    gateway.ask(2, "initialize", &old);
    assert_eq!(
        "2025-03-26",
        gateway.answer(&json!(2))["result"]["protocolVersion"]
    );
    // That revision has batches, whose answers are one line.
    gateway.program.write("[{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\"},{\"jsonrpc\":\"2.0\",\"method\":\"x\"},{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"nonsense\"}]\n");
    let batch = gateway.until(Value::is_array);
    let mut ids: Vec<i64> = batch
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["id"].as_i64().unwrap())
        .collect();
    ids.sort_unstable();
    assert_eq!(vec![3, 4], ids);
    gateway.ask(5, "resources/subscribe", &json!({}));
    assert_eq!(-32602, gateway.answer(&json!(5))["error"]["code"]);
    gateway.ask(6, "tools/list", &json!({"cursor": "nonsense"}));
    assert_eq!(-32602, gateway.answer(&json!(6))["error"]["code"]);
    gateway.end();
}

/// What was begun is not begun again, and the gateway goes on with the next daemon.
#[test]
fn a_daemon_that_is_killed_during_a_call_costs_the_call_and_nothing_else() {
    let world = World::new();
    let marks = world.path("marks");
    let marks_text = marks.display().to_string();
    let counter = ("counter", "counter.py", marks_text.as_str());
    world.write_config(&servers(&[counter]));
    let daemon = world.daemon().spawn();
    ready(&world, 1);
    let mut gateway = Gateway::session(&world, &[]);
    gateway.call(1, "counter__slow", &json!({}));
    let client = world.client();
    let confirm = asked(&client, 1).remove(0);
    decide(&client, &confirm, Decision::AllowOnce);
    until_true("it runs", || marks.exists());
    daemon.kill9();
    // Whoever needs the next daemon starts it, and the gateway does.
    let said = gateway.answer(&json!(1));
    assert_eq!(json!(true), said["result"]["isError"]);
    assert!(
        text(&said).contains("the effect of this call is unknown"),
        "{said}"
    );
    assert_eq!("slow\n", fs::read_to_string(&marks).unwrap());
    // A question waits over a restart, and so does the call.
    ready(&world, 1);
    gateway.call(2, "counter__count", &json!({}));
    asked(&world.client(), 1);
    end(only_daemon(&world), Signal::KILL);
    ready(&world, 1);
    let client = world.client();
    let confirm = asked(&client, 1).remove(0);
    decide(&client, &confirm, Decision::AllowOnce);
    assert_eq!("count done", text(&gateway.answer(&json!(2))));
    assert_eq!("slow\ncount\n", fs::read_to_string(&marks).unwrap());
    gateway.end();
    end(only_daemon(&world), Signal::TERM);
}

#[test]
fn a_conversation_can_be_named_and_one_gateway_is_not_its_own_server() {
    let (world, daemon) = world(&[NOTES], "");
    let client = world.client();
    let _made = shell(&world, "aishctl conv new proj").run().ok();
    let mut gateway = Gateway::session(&world, &["-C", "proj"]);
    gateway.call(1, "notes__add", &json!({"text": "x"}));
    allow_all(&client);
    gateway.answer(&json!(1));
    assert_eq!(vec!["proj"], conversations(&client));
    gateway.end();
    // A signal ends it too.
    let mut gateway = Gateway::session(&world, &[]);
    gateway.call(2, "notes__add", &json!({"text": "x"}));
    asked(&client, 1);
    gateway.program.signal(Signal::TERM);
    let _left = gateway.program.wait().code(143);
    assert!(asked(&client, 0).is_empty());
    let unknown = shell(&world, "aishctl mcp serve -C nobody").run();
    assert!(
        unknown.code != 0 && unknown.out().is_empty(),
        "{}",
        unknown.report()
    );
    // A daemon that has its own gateway among its servers.
    let ctl = aish_testkit::built("aishctl").display().to_string();
    let own = format!(
        "[mcp.servers.self]\ncommand = {ctl:?}\nargs = [\"mcp\", \"serve\", \"--socket\", {:?}]\n",
        world.socket()
    );
    world.write_config(&format!("{}{own}", servers(&[NOTES])));
    client.done::<Reload>(Empty {});
    until_true("it refused", || {
        let logs = shell(&world, "aishctl mcp logs self").run();
        logs.out()
            .contains("was started by the aishd that it would serve")
    });
    let tools = client
        .done::<tool::List>(tool::ToolListParams::default())
        .tools;
    assert!(
        tools
            .iter()
            .all(|it: &ToolDescription| it.provider != "self")
    );
    assert_eq!(0, daemon.terminate());
}

/// Whoever put the gateway into a client's configuration has no daemon to care for.
#[test]
fn without_a_daemon_one_is_started() {
    let world = World::new();
    world.write_config(&servers(&[NOTES]));
    let mut gateway = Gateway::session(&world, &[]);
    ready(&world, 1);
    let mut id = 0;
    until_true("its tools", || {
        id += 1;
        gateway
            .names(id, &json!({}))
            .contains(&"notes__add".to_owned())
    });
    drop(gateway);
    end(only_daemon(&world), Signal::TERM);
}

#[track_caller]
fn only_daemon(world: &World) -> u32 {
    let daemons = world.daemon_pids();
    assert_eq!(1, daemons.len(), "{daemons:?}");
    daemons[0]
}

fn end(pid: u32, signal: Signal) {
    kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), signal).unwrap();
    wait_gone(pid);
}

#[test]
fn tools_are_listed_and_shown_to_people() {
    let (world, _daemon) = world(&[NOTES], "[permissions]\ndeny = [\"notes__list\"]\n");
    let said = |line: &str| {
        shell(&world, &format!("aishctl {line}"))
            .run()
            .ok()
            .out()
            .to_owned()
    };
    assert_eq!(
        "tool         needs    here    description\nnotes__add   2 write  asks    Keeps a note.\nnotes__list  1 read   denied  All notes.\n",
        said("tools list notes")
    );
    assert!(said("tools ls").contains("aish__time"));
    let shown = said("tools show notes__list");
    assert!(
        shown.contains("denied: permissions.deny notes__list\n"),
        "{shown}"
    );
    let json: Value = serde_json::from_str(&said("tools show notes__add --json")).unwrap();
    assert_eq!(
        (&json!("notes"), &json!(2)),
        (&json["provider"], &json["levelRequired"])
    );
    said("conv new proj");
    said("perm grant notes 2 -C proj");
    // The level is enough, and a person is asked all the same: that is for allow-lists to say.
    let granted = said("tools list notes -C proj");
    assert!(granted.contains("notes__add   2 write  asks"), "{granted}");
    let shown = said("tools show notes__add -C proj");
    assert!(
        shown.contains("needs level 2 write; notes has 2 write\na person is asked about a call\n"),
        "{shown}"
    );
    said("config set mcp.auto_approve.notes__add true");
    said("reload");
    let allowed = said("tools list notes -C proj");
    assert!(allowed.contains("notes__add   2 write  runs"), "{allowed}");
    let shell_tool = shell(&world, "aishctl tools show shell__run").run();
    assert!(
        shell_tool.err().contains("how models propose commands"),
        "{}",
        shell_tool.report()
    );
    let unknown = shell(&world, "aishctl tools show notes__gone").run();
    assert!(
        unknown
            .err()
            .contains("unknown tool notes__gone\nhint: aishctl tools list"),
        "{}",
        unknown.report()
    );
    let typed = shell(&world, "printf ':tools list notes\n' | aishctl attach proj")
        .run()
        .ok();
    assert!(typed.out().contains("notes__add"), "{}", typed.report());
}
