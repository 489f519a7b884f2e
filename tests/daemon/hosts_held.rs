//! Hosts of programs under a profile: what is listed is reached, nobody is asked about the rest, and it is told which line would
//! allow it.

use std::fs;

use aish_proto::audit::AuditKind;
use aish_proto::mcp::{
    Connect, ConnectParams, Import, List as ServerList, McpImportParams, ServerState,
};
use aish_proto::method::Empty;
use aish_testkit::wait::until_true;
use aish_testkit::{World, repository};
use serde_json::json;

use crate::hosts::{FETCH, Outside, audited, counts, doctor, has_all, hosts_open};
use crate::registry::{called, called_in, started_by};

/// A server under a profile has its own list; nobody is asked about the rest, and who looks sees what it wanted.
#[test]
fn a_server_under_a_profile_reaches_its_hosts_and_others_are_told_with_the_line_that_allows_them() {
    let outside = Outside::start();
    let world = World::new();
    let script = repository::top().join("tests/data/mcp/shell_server.py");
    fs::copy(script, world.work().join("server.py")).unwrap();
    let work = world.work();
    world.write_config(&format!(
        "[mcp.servers.box]\ncommand = \"python3\"\nargs = [\"server.py\"]\ncwd = {work:?}\ncontain = \"workspace\"\n\
         hosts = [\"good.example\"]\n"
    ));
    let _daemon = world
        .daemon()
        .env("https_proxy", format!("http://{}", outside.address))
        .spawn();
    let client = world.client();
    if !has_all(&client, "profiles") {
        return;
    }
    let status = || client.done::<ServerList>(Empty {}).servers.remove(0);
    until_true("the server is there", || {
        status().state == ServerState::Ready
    });
    let conversation = client.create();
    let sh = |line: &str| called_in(&client, conversation, "box__sh", &json!({ "line": line }));
    let reached = sh(&format!("{FETCH} http://good.example/a"));
    assert!(reached.contains("page of"), "{reached}");
    let refused = sh(&format!("{FETCH} -i http://other.example/"));
    assert!(
        refused.contains("403 aish: other.example:80 is not allowed"),
        "{refused}"
    );
    assert!(hosts_open(&client, conversation).is_empty());
    let network = status().network.unwrap();
    let (reached, refused) = counts(Some(&network));
    assert_eq!(
        (vec![("good.example:80", 1)], vec![("other.example:80", 1)]),
        (reached, refused)
    );
    let check = doctor(&client, "hosts of box").unwrap();
    assert_eq!(
        Some("hosts = [\"other.example\"] in [mcp.servers.box] allows them"),
        check.fix.as_deref()
    );
    let listed = world.ctl(&["mcp", "list"]).run().ok();
    let allows = "hosts = [\"other.example\"] in [mcp.servers.box]";
    assert!(
        listed.out().contains("refused other.example 1×") && listed.out().contains(allows),
        "{}",
        listed.out()
    );
}

#[test]
fn hosts_of_a_server_go_with_a_profile_and_are_read_at_once() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let connect = |contain: &str, host: &str| {
        let params = json!({
            "alias": "box", "command": ["true"], "contain": contain, "hosts": [host],
        });
        let params: ConnectParams = serde_json::from_value(params).unwrap();
        client.refused::<Connect>(params).message
    };
    let open = connect("open", "good.example");
    assert!(open.contains("hosts goes with contain"), "{open}");
    let wrong = connect("workspace", "https://good.example/");
    assert!(wrong.contains("hosts: "), "{wrong}");
}

/// The same for a tool, by its manifest.
#[test]
fn a_tool_under_a_profile_reaches_the_hosts_of_its_manifest() {
    let outside = Outside::start();
    let (world, _upstream) = crate::registry::world(
        "printf '\"%s %s\"\\n' \"$(curl -sS http://good.example/a)\" \"$(curl -sS http://other.example/)\"\n",
    );
    let manifest = crate::registry::manifest("1.0.0", &["read"]);
    let hosts = "hosts = [\"good.example\"]";
    world.write(crate::registry::FILE, &format!("{hosts}\n{manifest}"));
    let daemon = world
        .daemon()
        .env("https_proxy", format!("http://{}", outside.address));
    let _daemon = started_by(&world, daemon);
    let client = world.client();
    if !has_all(&client, "profiles") {
        return;
    }
    let said = called(&client, "note-tool__read", &json!({}));
    assert!(
        said.contains("page of http://good.example/a")
            && said.contains("aish: other.example:80 is not allowed"),
        "{said}"
    );
    let told = audited(&client, AuditKind::ProgramReached);
    let network = told[0].network.as_ref().unwrap();
    assert_eq!(Some("note-tool"), told[0].provider.as_deref());
    assert!(
        network.line.ends_with("refused other.example 1×"),
        "{network:?}"
    );
    let check = doctor(&client, "hosts of note-tool").unwrap();
    assert_eq!(
        Some("hosts = [\"other.example\"] in the manifest of note-tool allows them"),
        check.fix.as_deref()
    );
}

#[test]
fn an_import_keeps_the_hosts_beside_the_profile() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let import = |contain: Option<&str>| {
        let params = json!({
            "path": "/a/.mcp.json",
            "text": "{\"mcpServers\": {\"p\": {\"command\": \"x\"}}}",
            "contain": contain,
            "hosts": ["registry.example"],
        });
        let params: McpImportParams = serde_json::from_value(params).unwrap();
        client.call::<Import>(params)
    };
    let toml = import(Some("workspace")).unwrap().servers.remove(0).toml;
    assert!(
        toml.contains("contain = \"workspace\"\nhosts = [\"registry.example\"]"),
        "{toml}"
    );
    let refused = import(None).unwrap_err();
    assert!(
        refused.message.contains("hosts goes with contain"),
        "{refused:?}"
    );
}
