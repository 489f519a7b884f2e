//! `aishctl mcp …` against a real daemon and a real server, and the same grammar behind a colon.

use aish_testkit::pty::OnTerminal;
use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Daemon, Upstream, World, built, repository};

use crate::shell::shell;

fn script() -> String {
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    script.display().to_string()
}

/// A daemon with one server, `notes`, that is ready.
fn world() -> (World, Daemon) {
    let world = World::new();
    world.write_config(&format!(
        "[mcp.servers.notes]\ncommand = \"python3\"\nargs = [{:?}, \"example\"]\n",
        script()
    ));
    let daemon = world.daemon().spawn();
    until_true("notes is ready", || {
        said(&world, "mcp ls").contains("ready")
    });
    (world, daemon)
}

#[track_caller]
fn said(world: &World, line: &str) -> String {
    let finished = shell(world, &format!("aishctl {line}")).run().ok();
    assert_eq!("", finished.err(), "{}", finished.report());
    finished.out().to_owned()
}

#[track_caller]
fn refused(world: &World, line: &str, what: &str, next: &str) {
    let finished = shell(world, &format!("aishctl {line}")).run();
    assert_ne!(0, finished.code, "{}", finished.report());
    assert!(finished.err().contains(what), "{}", finished.report());
    assert!(finished.err().contains(next), "{}", finished.report());
}

#[test]
fn a_server_and_its_tools_are_shown() {
    let (world, _daemon) = world();
    let list = said(&world, "mcp");
    assert!(
        list.starts_with("alias  kind   state  tools  time"),
        "{list}"
    );
    assert!(list.contains("notes  stdio  ready  2 "), "{list}");
    assert!(list.contains("example 1 2025-11-25  python3 /"), "{list}");
    assert_eq!(
        "tool         says it  description\nnotes__add   writes   Keeps a note.\nnotes__list  reads    All notes.\n",
        said(&world, "mcp tools")
    );
    let tool = said(&world, "mcp tool notes__add");
    assert!(
        tool.starts_with("notes__add · Add a note\n  Keeps a note.\narguments:\n{"),
        "{tool}"
    );
    assert!(
        tool.contains("\"destructiveHint\": false") && tool.contains("digest: "),
        "{tool}"
    );
    refused(
        &world,
        "mcp tool notes__gone",
        "unknown tool notes__gone",
        "hint: aishctl mcp tools",
    );
    refused(
        &world,
        "mcp tools gone",
        "there is no MCP server gone",
        "hint: aishctl mcp list",
    );
}

#[test]
fn what_a_server_offers_besides_its_tools_is_read() {
    let (world, _daemon) = world();
    let resources = said(&world, "mcp resources notes");
    assert!(
        resources.contains("note://1         text/plain  first\n"),
        "{resources}"
    );
    assert!(
        resources.contains("note://{number}  –           a note\n"),
        "{resources}"
    );
    assert_eq!("buy milk\n", said(&world, "mcp read notes note://1"));
    let prompts = said(&world, "mcp prompts notes");
    assert!(
        prompts.contains("review  number     Look over a note.\n"),
        "{prompts}"
    );
    let prompt = said(&world, "mcp prompt notes review number=1");
    assert_eq!("user › Look over note 1.\n", prompt);
}

/// A prompt is asked, and a resource that is named in a question goes along.
#[test]
fn prompts_and_resources_of_a_server_reach_the_model() {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&format!(
        "{}\n[mcp.servers.notes]\ncommand = \"python3\"\nargs = [{:?}, \"example\"]\n",
        upstream.config("test"),
        script()
    ));
    let _daemon = world.daemon().spawn();
    until_true("notes is ready", || {
        said(&world, "mcp ls").contains("ready")
    });
    upstream.answer(Answer::text("all good"));
    assert_eq!("all good\n", said(&world, "mcp ask notes review number=1"));
    let last = || {
        upstream
            .requests()
            .last()
            .unwrap()
            .messages()
            .last()
            .unwrap()
            .clone()
    };
    assert_eq!(("user".to_owned(), "Look over note 1.".to_owned()), last());
    upstream.answer(Answer::text("milk"));
    let asked = "ask --no-stdin 'what is in @notes:note://1, not in @nobody:x:y?'";
    assert_eq!("milk\n", said(&world, asked));
    let (_, text) = last();
    assert!(
        text.contains("<attachment name=\"@notes:note://1\">\nbuy milk\n</attachment>"),
        "{text}"
    );
    refused(
        &world,
        "mcp ask nobody review",
        "there is no MCP server nobody",
        "hint: aishctl mcp list",
    );
    assert_eq!("@notes:note://1\n", said(&world, "mcp pin notes note://1"));
    upstream.answer(Answer::text("still milk"));
    said(&world, "ask --no-stdin --last 'and now?'");
    let (_, text) = last();
    assert!(
        text.contains("<pinned name=\"@notes:note://1\">\nbuy milk\n</pinned>"),
        "{text}"
    );
    assert_eq!("@notes:note://1\n", said(&world, "mcp pinned"));
    assert_eq!(
        "nothing is pinned here\n",
        said(&world, "mcp unpin notes note://1")
    );
    // The window asks in its own conversation.
    upstream.answer(Answer::text("seen"));
    let typed = "printf ':mcp ask notes review number=1\n' | aishctl attach";
    let finished = shell(&world, typed).run().ok();
    assert!(
        finished.out().contains("Look over note 1."),
        "{}",
        finished.report()
    );
}

/// A person at a terminal is asked what a program may reach; Enter is what it was before.
#[test]
fn who_connects_a_program_at_a_terminal_is_asked_what_it_may_reach() {
    let (world, _daemon) = world();
    let command = format!("true {}", script());
    for (typed, held) in [("\r", None), ("x\rw\r", Some("workspace"))] {
        let connect = ["mcp", "connect", &command, "more"];
        let mut terminal = OnTerminal::spawn(&world, &built("aishctl"), &connect);
        terminal.wait_for("[O/w/r] ");
        terminal.key(typed);
        assert_ne!(0, terminal.wait(), "it is no server");
        let list = said(&world, "mcp list");
        let row = list.lines().find(|it| it.starts_with("more ")).unwrap();
        assert_eq!(held.is_some(), row.contains("workspace"), "{row}");
        said(&world, "mcp disconnect more");
    }
    refused(
        &world,
        "mcp connect --contain read http://127.0.0.1:1/mcp",
        "contain goes with a command",
        "aishctl: ",
    );
}

#[test]
fn servers_come_and_go_at_run_time() {
    let (world, _daemon) = world();
    let command = format!("'python3 {} plain' more", script());
    let connected = said(&world, &format!("mcp connect {command}"));
    assert_eq!(
        "more is connected: 16 tools; aishctl mcp tools more\n",
        connected
    );
    refused(
        &world,
        &format!("mcp connect {command}"),
        "there is an MCP server more already",
        "hint: another alias",
    );
    said(&world, "mcp restart more");
    assert_eq!("the tools are those of now\n", said(&world, "mcp refresh"));
    let logs = said(&world, "mcp logs more");
    assert!(
        logs.contains("[aish] ") && logs.contains(" ended: "),
        "{logs}"
    );
    assert!(logs.contains("told notifications/initialized"), "{logs}");
    assert_eq!(
        "more is disconnected\n",
        said(&world, "mcp disconnect more")
    );
    assert!(!said(&world, "mcp tools").contains("more__"));
    // What cannot be reached says why, is listed, and is tried again until it is disconnected.
    refused(
        &world,
        "mcp connect http://127.0.0.1:1/mcp",
        "MCP server 127-0-0-1: cannot be reached: Connection refused",
        "aishctl: ",
    );
    let list = said(&world, "mcp list");
    assert!(
        list.contains("[aish] mcp 127-0-0-1: cannot be reached"),
        "{list}"
    );
    said(&world, "mcp disconnect 127-0-0-1");
}

/// What is printed is what the configuration takes.
#[test]
fn servers_of_other_programs_are_taken_over() {
    let (world, daemon) = world();
    world.write(
        "work/.vscode/mcp.json",
        "{\"servers\": {\"my.web\": {\"url\": \"http://127.0.0.1:1/mcp\"}, /* no */}}",
    );
    let looked = said(&world, "mcp import");
    assert!(
        looked.contains(
            ".vscode/mcp.json\n  my-web  http://127.0.0.1:1/mcp\n  aishctl mcp import --write /"
        ),
        "{looked}"
    );
    let tables = said(&world, "mcp import .vscode/mcp.json");
    assert!(
        tables.contains("# \"my.web\" is called my-web here\n[mcp.servers.my-web]\n"),
        "{tables}"
    );
    assert!(!said(&world, "mcp list").contains("my-web"));
    world.write(
        "work/more.json",
        "{\"mcpServers\": {\"p\": {\"command\": \"x\"}}}",
    );
    let offered = said(&world, "mcp import more.json");
    assert!(offered.contains("\n# contain = \"workspace\""), "{offered}");
    let held = said(&world, "mcp import --contain read more.json");
    assert!(held.contains("\ncontain = \"read\"\n"), "{held}");
    refused(
        &world,
        "mcp import --contain all more.json",
        "it is read, workspace or open",
        "--help",
    );
    let written = said(&world, "mcp import --write .vscode/mcp.json");
    assert!(written.ends_with("config.toml\n"), "{written}");
    until_true("it is configured", || {
        said(&world, "mcp list").contains("my-web  http")
    });
    assert!(said(&world, "mcp list").contains("notes   stdio"));
    refused(
        &world,
        "mcp import --write .vscode/mcp.json",
        "mcp.servers.my-web is in the file already",
        "aishd: ",
    );
    drop(daemon);
}

/// One grammar, two doors.
#[test]
fn the_same_words_work_behind_a_colon() {
    let (world, _daemon) = world();
    let typed = "printf ':mcp tools\\n:mcp tool notes__list\\n:quit\\n' | aishctl attach";
    let finished = shell(&world, typed).run().ok();
    assert!(
        finished.out().contains("notes__list  reads    All notes."),
        "{}",
        finished.report()
    );
    assert!(finished.out().contains("digest: "), "{}", finished.report());
}

#[test]
fn one_server_is_shown_with_all_that_is_known_of_it() {
    let (world, _daemon) = world();
    let added = said(
        &world,
        &format!(
            "mcp add --contain open --tools 'l*,gone' lists -- python3 {} example --token=hush-hush",
            script()
        ),
    );
    assert!(
        added.ends_with("lists is connected: 1 tools; aishctl mcp tools lists\n"),
        "{added}"
    );
    let file = std::fs::read_to_string(world.path("config/aish/config.toml")).unwrap();
    assert!(file.contains("tools = [\"l*\", \"gone\"]\n"), "{file}");
    let list = said(&world, "mcp list");
    let row = list.lines().find(|it| it.starts_with("lists ")).unwrap();
    assert!(row.contains("ready  1 of 2 "), "{row}");
    refused(
        &world,
        "mcp tool lists__add",
        "unknown tool lists__add: `tools` in [mcp.servers.lists] leaves it out",
        "hint: aishctl config edit",
    );

    let shown = said(&world, "mcp show lists");
    assert!(!shown.contains("hush-hush"), "{shown}");
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let unbroken = shown.replace("\n            ", " ");
    for part in [
        "server      lists (stdio)\nwhere       python3 /",
        "stdio_server.py example --token=[key]\n",
        "\nstate       ready since 2",
        "\nit is       example 1\nrevision    2025-11-25\n",
        "\nit has      tools, resources, prompts, completions\n",
        "\nprompts     1\nresources   2, 1 of them to be filled in\n",
        "\ntools       1\n  1 read    list\nleft out    1 by `tools`: add\n",
        "\nremark      `tools` names \"gone\", and the server has no such tool\n",
    ] {
        assert!(unbroken.contains(part), "{part}: {unbroken}");
    }
    let json = said(&world, "--json mcp show lists");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!("lists", json["server"]["alias"]);
    assert_eq!(
        ("lists__add", "tools", 1),
        (
            json["leftOut"][0]["name"].as_str().unwrap(),
            json["leftOut"][0]["key"].as_str().unwrap(),
            json["prompts"].as_u64().unwrap()
        )
    );
    refused(
        &world,
        "mcp show nobody",
        "there is no MCP server nobody",
        "hint: aishctl mcp list",
    );
    let typed = "printf ':mcp show notes\\n:quit\\n' | aishctl attach";
    let seen = shell(&world, typed).run().ok();
    assert!(
        seen.out().contains("server      notes (stdio)"),
        "{}",
        seen.report()
    );

    // One that is not there says why, and what to do.
    refused(
        &world,
        "mcp connect 'http://127.0.0.1:1/mcp?key=hush-hush' away",
        "cannot be reached",
        "aishctl: ",
    );
    let away = said(&world, "mcp show away");
    assert!(
        away.contains("where       http://127.0.0.1:1/mcp\nstate       failed since 2"),
        "{away}"
    );
    assert!(
        away.contains("\nwhy         cannot be reached: ") && away.contains("\nnext        "),
        "{away}"
    );
}
