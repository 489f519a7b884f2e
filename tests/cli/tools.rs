//! `aishctl tools run`: lists of calls against a real daemon and a real server.

use aish_testkit::wait::until_true;
use aish_testkit::{Daemon, World, repository};
use serde_json::Value;

use crate::shell::shell;

/// Needs a resource, keeps what it says, and keeps what it was told of that.
const LIST: &str = r#"[
  {"id": "again", "method": "tools/call", "params": {"name": "notes__add", "arguments": {"text": {"$result": "keep"}}}},
  {"id": "keep", "method": "tools/call", "params": {"name": "notes__add", "arguments": {"text": {"$result": "note"}}}},
  {"id": "note", "method": "resources/read", "params": {"server": "notes", "uri": "note://1"}}
]"#;
const ALLOW: &str = "--confirm=allow:notes__* --confirm=allow:aish__read_resource";

fn world() -> (World, Daemon) {
    let world = World::new();
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    world.write_config(&format!(
        "[mcp.servers.notes]\ncommand = \"python3\"\nargs = [{script:?}, \"example\"]\n"
    ));
    world.write("work/list.json", LIST);
    let daemon = world.daemon().spawn();
    until_true("notes is ready", || {
        shell(&world, "aishctl mcp ls")
            .run()
            .out()
            .contains("ready")
    });
    (world, daemon)
}

#[test]
fn alone_it_lists_the_tools() {
    let (world, _daemon) = world();
    let alone = world.ctl(&["tools"]).run().ok();
    assert!(alone.out().contains("notes__add"), "{}", alone.report());
    assert_eq!(alone.out(), world.ctl(&["tools", "list"]).run().ok().out());
}

/// The times of a run, taken out.
fn timeless(text: &str) -> String {
    let words = text.split(' ').map(|it| {
        let number = it.bytes().all(|it| it.is_ascii_digit()) && !it.is_empty();
        if number { "N" } else { it }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_list_is_run_and_its_results_are_printed_in_its_order() {
    let (world, _daemon) = world();
    let ran = shell(&world, &format!("aishctl tools run list.json {ALLOW}"))
        .run()
        .ok();
    assert_eq!(
        "again notes__add · N ms\nkept: kept: buy milk\n\nkeep notes__add · N ms\nkept: buy milk\n\nnote aish__read_resource · N ms\nbuy milk\n",
        timeless(ran.out())
    );
    assert!(
        ran.err()
            .contains("  ┌ notes__add text=\"buy milk\" · allowed for this turn notes__*\n"),
        "{}",
        ran.report()
    );
    let piped = format!("aishctl tools run - -q --json {ALLOW} < list.json");
    let ran = shell(&world, &piped).run().ok();
    assert_eq!("", ran.err());
    let report: Value = serde_json::from_str(ran.out()).unwrap();
    assert_eq!(
        (1, 3, 0),
        (
            report["v"].as_u64().unwrap(),
            report["succeeded"].as_u64().unwrap(),
            report["denied"].as_u64().unwrap(),
        )
    );
    assert_eq!("kept: kept: buy milk", report["results"][0]["content"]);
    assert_eq!(
        (&Value::Null, "end"),
        (&report["error"], report["stop_reason"].as_str().unwrap())
    );
    // The conversation has it, as an exchange, under the list's own words.
    let conversation = report["conversation"].as_str().unwrap();
    let log = shell(&world, &format!("aishctl log {conversation}"))
        .run()
        .ok();
    assert!(
        log.out()
            .contains("run 3 calls: notes__add, notes__add, aish__read_resource")
            && log.out().contains("all 3 calls succeeded"),
        "{}",
        log.out()
    );
    let events = format!("aishctl tools run list.json --jsonl {ALLOW}");
    let ran = shell(&world, &events).run().ok();
    assert!(
        ran.out()
            .lines()
            .all(|it| serde_json::from_str::<Value>(it).is_ok())
    );
    assert!(ran.out().contains("\"kind\":\"turnFinished\""));
}

/// What was not permitted is 3, what failed is 1.
#[test]
fn the_exit_code_says_how_the_list_ended() {
    let (world, _daemon) = world();
    world.write(
        "work/fails.json",
        r#"[{"id": "x", "method": "tools/call", "params": {"name": "notes__add", "arguments": {"text": ""}}}, {"id": "y", "after": ["x"], "method": "tools/call", "params": {"name": "notes__list"}}]"#,
    );
    let check = |line: &str, code: i32, out: &str, err: &str| {
        let ran = shell(&world, &format!("aishctl tools run {line}")).run();
        assert_eq!(code, ran.code, "{}", ran.report());
        assert!(timeless(ran.out()).contains(out), "{}", ran.report());
        assert!(ran.err().contains(err), "{}", ran.report());
    };
    check(
        "list.json --confirm=deny",
        3,
        "keep notes__add · no result\n[aish] not run: it needs \"note\", which did not succeed\n\nnote aish__read_resource · denied\n",
        "aishctl: 0 of 3 calls succeeded; not: again, keep, note\nhint: aishctl log ",
    );
    check(
        "fails.json --confirm=allow:notes__*",
        1,
        "x notes__add · failed after N ms\n[aish] tool dispatch failed: ",
        "aishctl: 0 of 2 calls succeeded; not: x, y\n",
    );
    let detached = shell(
        &world,
        &format!("aishctl tools run list.json --detach {ALLOW}"),
    )
    .run()
    .ok();
    assert_eq!(26, detached.out().trim().len(), "{}", detached.out());
}

#[test]
fn a_list_that_cannot_run_says_what_and_where_and_what_next() {
    let (world, _daemon) = world();
    let check = |list: &str, code: i32, err: &str, hint: &str| {
        world.write("work/bad.json", list);
        let ran = shell(&world, "aishctl tools run bad.json").run();
        assert_eq!(code, ran.code, "{}", ran.report());
        assert_eq!("", ran.out());
        assert!(ran.err().contains(err), "{}", ran.report());
        assert!(
            ran.err().contains(&format!("hint: {hint}")),
            "{}",
            ran.report()
        );
    };
    let help = "aishctl help tools run";
    check(
        "[{]",
        2,
        "aishctl: bad.json: not JSON: key must be a string at line 1 column 3",
        help,
    );
    check("{}", 2, "bad.json: a list of calls is a JSON array", help);
    check("[]", 2, "bad.json: the list has no calls", help);
    check(
        r#"[{"id": "a"}]"#,
        2,
        "bad.json: call 1 (\"a\"): it has no \"params\"",
        help,
    );
    let uses = |id: &str, of: &str| {
        format!(
            r#"{{"id": "{id}", "method": "tools/call", "params": {{"name": "notes__add", "arguments": {{"text": {{"$result": "{of}"}}}}}}}}"#
        )
    };
    check(
        &format!("[{},{}]", uses("a", "b"), uses("b", "a")),
        2,
        "these calls wait for each other: a → b → a",
        help,
    );
    check(
        &format!("[{}]", uses("a", "c")),
        2,
        "call 1 (\"a\"): no call of the list has the id \"c\"",
        help,
    );
    check(
        &format!("[{0},{0}]", uses("a", "a")),
        2,
        "call 2 (\"a\"): the id is that of call 1 already",
        help,
    );
    check(
        r#"[{"id": "a", "method": "tools/call", "params": {"name": "notes__ad"}}]"#,
        8,
        "bad.json: call 1 (\"a\"): unknown tool notes__ad; nothing ran",
        "aishctl mcp tools",
    );
    let many: Vec<String> = (0..129).map(|it| uses(&format!("c{it}"), "c0")).collect();
    check(
        &format!("[{}]", many.join(",")),
        7,
        "bad.json: the list has 129 calls; at most 128 are taken",
        help,
    );
    let gone = shell(&world, "aishctl tools run gone.json --json").run();
    assert_eq!(2, gone.code, "{}", gone.report());
    assert!(
        gone.err().starts_with("aishctl: cannot read gone.json: "),
        "{}",
        gone.report()
    );
    let helped = shell(&world, help).run().ok();
    assert!(
        helped.out().contains("{\"$result\": \"src\", \"pointer\""),
        "{}",
        helped.out()
    );
    // Nothing of all this made a conversation.
    let list = shell(&world, "aishctl conv ls --all --json").run().ok();
    assert!(!list.out().contains("run "), "{}", list.out());
}

/// What is wrong with a manifest has its line, and what is right is a file of one's own.
#[test]
fn a_tool_is_written_down_read_again_and_taken_away() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    world.write("work/mine/up.sh", "cat\n");
    let head = "name = \"up\"\nversion = \"1.0.0\"\nruntime = \"process\"\ncommand = \"sh\"\n";
    let manifest = format!("{head}script = \"up.sh\"\n[[capability]]\nname = \"say\"\nlevel = 1\n");
    world.write("work/mine/up.toml", &manifest);
    let added = world.ctl(&["tools", "add", "mine/up.toml"]).run().ok();
    assert!(
        added
            .out()
            .ends_with("/aish/tools/up.toml\nup 1.0.0 (+ say)\n"),
        "{}",
        added.out()
    );
    world.write("config/aish/tools/bad.toml", "nmae = \"x\"\n");
    let read = world.ctl(&["tools", "reload"]).run().code(1);
    let fault = "bad.toml:1:1: unknown key `nmae`; did you mean `name`?";
    assert!(
        read.out().starts_with("2 read\n") && read.out().contains(fault),
        "{}",
        read.out()
    );
    let doctor = world.ctl(&["doctor"]).run();
    assert!(doctor.out().contains(fault), "{}", doctor.out());
    let refused = world
        .ctl(&["tools", "add", "../config/aish/tools/bad.toml"])
        .run();
    assert!(
        refused.err().contains("unknown key `nmae`"),
        "{}",
        refused.err()
    );
    let removed = world.ctl(&["tools", "remove", "up"]).run().ok();
    assert!(
        removed.out().ends_with("up 1.0.0 is gone\n"),
        "{}",
        removed.out()
    );
    assert!(!world.path("config/aish/tools/up.toml").exists());
}

#[test]
fn an_action_is_done_if_it_is_sure() {
    let (world, _daemon) = world();
    let run = |command: &str| shell(&world, command).run();
    let _made = run("aishctl conv new proj").ok();
    let routed = run("aishctl tools route list --tool notes").ok();
    assert_eq!("notes__list 1.00, it was named\n", routed.out());
    let unknown = run("aishctl tools route xyzzy").code(8);
    assert!(
        unknown.out().starts_with("unknown action"),
        "{}",
        unknown.report()
    );
    let negotiate = "aishctl -C proj tools negotiate";
    let done = format!("{negotiate} notes__add '{{\"text\": \"x\"}}' --confirm=allow:notes__add");
    assert_eq!("kept: x\n", run(&done).ok().out());
    let denied = run(&format!("{negotiate} notes__list --confirm=deny")).code(3);
    assert!(
        denied.out().starts_with("[aish] denied by policy"),
        "{}",
        denied.report()
    );
    let asked = run(&format!("{negotiate} notes__list")).code(3);
    assert!(
        asked.out().contains("aishctl confirm allow "),
        "{}",
        asked.report()
    );
    let status = run(&format!("{negotiate} conversation:status")).ok();
    assert!(status.out().contains(" proj: "), "{}", status.report());
}
