//! Files of manifests that are edited, linked, taken away and put back while the daemon runs: what counts, and
//! what people are told.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use aish_proto::attach::ReplayStart;
use aish_proto::doctor::Doctor;
use aish_proto::envelope::Envelope;
use aish_proto::event::{McpStatus, ToolsChanged};
use aish_proto::mcp::{Connect, ServerState};
use aish_proto::method::Empty;
use aish_proto::tool::Reload;
use aish_testkit::Answer;
use aish_testkit::wait::until_true;
use serde_json::json;

use crate::mcp::example_server;
use crate::registry::{
    FILE, SCRIPT, attached, called, called_once_allowed, changed, manifest, started, world,
};

const NONE: [String; 0] = [];

#[test]
fn a_new_version_is_told_where_nothing_else_has_changed() {
    let (world, _upstream) = world("echo 1\n");
    let _daemon = started(&world);
    let client = world.client();
    let mut follow = attached(&client);
    world.write(FILE, &manifest("1.0.1", &["read"]));
    let told = changed(&mut follow);
    assert_eq!(vec!["note-tool 1.0.0 → 1.0.1"], told.changes);
    assert_eq!(
        (&NONE[..], &NONE[..], &NONE[..]),
        (&told.added[..], &told.removed[..], &told.updated[..])
    );
    assert_eq!("1", called(&client, "note-tool__read", &json!({})));
}

#[test]
fn a_broken_edit_is_told_once_to_those_who_watch_and_in_doctor() {
    let (world, _upstream) = world("echo 1\n");
    let _daemon = started(&world);
    let client = world.client();
    let mut follow = attached(&client);
    let broken = format!("more = 1\n{}", manifest("1.0.0", &["read"]));
    world.write(FILE, &broken);
    let told = changed(&mut follow);
    let fault = "data.toml:1:1: unknown key `more`";
    assert_eq!((1, &NONE[..]), (told.broken.len(), &told.changes[..]));
    assert!(told.broken[0].contains(fault), "{told:?}");
    let found = client.done::<Doctor>(Empty {});
    let found = serde_json::to_string(&found).unwrap();
    assert!(found.contains(fault), "{found}");
    assert_eq!("1", called(&client, "note-tool__read", &json!({})));
    // Read again it is as broken as before, which nobody needs to be told; right again, it is what it was.
    let again = client.done::<Reload>(Empty {});
    assert_eq!((1, &NONE[..]), (again.errors.len(), &again.changes[..]));
    world.write(FILE, &manifest("1.0.0", &["read"]));
    until_true("the manifest is right", || {
        client.done::<Reload>(Empty {}).errors.is_empty()
    });
    world.write(FILE, &manifest("2.0.0", &["read"]));
    let next = changed(&mut follow);
    assert_eq!(
        (vec!["note-tool 1.0.0 → 2.0.0".to_owned()], &NONE[..]),
        (next.changes, &next.broken[..])
    );
}

#[test]
fn a_tool_that_is_taken_away_and_put_back_is_there_again() {
    let (world, _upstream) = world("echo 1\n");
    let _daemon = started(&world);
    let client = world.person("pts/2");
    let mut follow = attached(&client);
    for _ in 0..3 {
        fs::remove_file(world.path(FILE)).unwrap();
        assert_eq!(vec!["note-tool__read"], changed(&mut follow).removed);
        world.write(FILE, &manifest("1.0.0", &["read"]));
        assert_eq!(vec!["note-tool__read"], changed(&mut follow).added);
        assert_eq!("1", called(&client, "note-tool__read", &json!({})));
    }
    // Its script alone: what was read still runs, and without it the manifest is broken, not gone.
    fs::remove_file(world.path(SCRIPT)).unwrap();
    let told = changed(&mut follow);
    assert_eq!((1, &NONE[..]), (told.broken.len(), &told.removed[..]));
    assert_eq!("1", called(&client, "note-tool__read", &json!({})));
    world.write(SCRIPT, "echo 2\n");
    assert_eq!(vec!["note-tool__read"], changed(&mut follow).updated);
    assert_eq!("2", called_once_allowed(&client, "note-tool__read"));
}

/// What happens between the attaching of a client and the end of what it is sent then is news to it too.
#[test]
fn a_client_that_still_reads_the_past_is_told_of_what_changes_meanwhile() {
    let (world, upstream) = world("echo 1\n");
    let _daemon = started(&world);
    let client = world.client();
    let id = client.create();
    let mut follow = client.attach(id, ReplayStart::Now);
    for _ in 0..3 {
        upstream.answer(Answer::text(&"x".repeat(1 << 20)));
        follow.until_finished(client.ask(id, "much"));
    }
    // It takes the reply, and nothing more: the daemon is still writing when a server comes and a tool goes.
    let slow = world.client();
    let mut slow = slow.attach(id, ReplayStart::Start);
    client.done::<Connect>(example_server());
    let ready = |it: &McpStatus| it.server.state == ServerState::Ready;
    let is_ready = |it: &Envelope| it.read().as_ref().is_some_and(ready);
    follow.until(is_ready);
    fs::remove_file(world.path(FILE)).unwrap();
    let gone = |it: &ToolsChanged| it.removed == ["note-tool__read"];
    let is_gone = |it: &Envelope| it.read().as_ref().is_some_and(gone);
    follow.until(is_gone);
    slow.until(is_ready);
    slow.until(is_gone);
}

#[test]
fn a_link_that_is_swapped_for_another_target_is_another_tool() {
    let (world, _upstream) = world("echo 1\n");
    let other = world.path("work/other.sh");
    world.write("work/other.sh", "echo 2\n");
    world.write("work/first.toml", &manifest("1.0.0", &["read"]));
    world.write("work/second.toml", &manifest("2.0.0", &["read", "more"]));
    let _daemon = started(&world);
    let client = world.person("pts/2");
    let mut follow = attached(&client);
    let swap = |link: &str, to: &str| {
        let new = world.path("work/link");
        symlink(world.path(to), &new).unwrap();
        fs::rename(&new, world.path(link)).unwrap();
    };
    // The manifest itself, from a file to a link and from one target to another.
    swap(FILE, "work/first.toml");
    swap(FILE, "work/second.toml");
    let mut told = changed(&mut follow);
    while told.added.is_empty() {
        told = changed(&mut follow);
    }
    assert_eq!(vec!["note-tool__more"], told.added);
    // The script: what ran under the old consent is not what runs now.
    assert_eq!("1", called(&client, "note-tool__read", &json!({})));
    swap(SCRIPT, "work/other.sh");
    let told = changed(&mut follow);
    assert_eq!(
        vec!["note-tool__more", "note-tool__read"],
        told.updated,
        "{other:?}"
    );
    assert_eq!("2", called_once_allowed(&client, "note-tool__read"));
}

/// Consent is to the program that a link led to.
#[test]
fn a_program_behind_a_link_that_leads_elsewhere_does_not_run() {
    let (world, _upstream) = world("");
    for (name, says) in [("one", 1), ("two", 2)] {
        let below = format!("work/{name}");
        world.write(&below, &format!("#!/bin/sh\necho {says}\n"));
        let executable = fs::Permissions::from_mode(0o700);
        fs::set_permissions(world.path(&below), executable).unwrap();
    }
    let link = world.path("work/program");
    symlink(world.path("work/one"), &link).unwrap();
    let text = format!(
        "name = \"note-tool\"\nversion = \"1\"\nruntime = \"binary\"\npath = {:?}\n[[capability]]\nname = \"read\"\nlevel = 1\n",
        link.display().to_string()
    );
    world.write(FILE, &text);
    let _daemon = started(&world);
    let client = world.person("pts/2");
    assert_eq!("1", called(&client, "note-tool__read", &json!({})));
    fs::remove_file(&link).unwrap();
    symlink(world.path("work/two"), &link).unwrap();
    let refused = called(&client, "note-tool__read", &json!({}));
    assert!(
        refused
            .contains("is another program than when its manifest was read: aishctl tools reload"),
        "{refused}"
    );
    let changes = client.done::<Reload>(Empty {}).changes;
    assert_eq!(vec!["note-tool 1 (what runs has changed)"], changes);
    assert_eq!("2", called_once_allowed(&client, "note-tool__read"));
    fs::remove_file(&link).unwrap();
    let gone = called(&client, "note-tool__read", &json!({}));
    assert!(gone.starts_with("[aish] tool note-tool failed: "), "{gone}");
}
