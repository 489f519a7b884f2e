//! Tools of manifests and the rest of the conversation: the shared context that they read and write, and the packages
//! that a person sees before they are fetched.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use aish_proto::confirm::Decision;
use aish_proto::id::ConversationId;
use aish_proto::permission::{Set, SetParams};
use aish_proto::resource::Create;
use aish_proto::tool::Run;
use aish_testkit::wait::until_true;
use aish_testkit::{Asked as _, Client, Upstream, World};
use serde_json::{Value, json};

use crate::consent::pending;
use crate::lists::{call, result, run};
use crate::registry::{started, started_by};
use crate::resources::{allowed, creating, get, names};
use crate::tools::answer;

const BUILD: &str = "name = \"build\"\nruntime = \"process\"\ncommand = \"sh\"\nscript = \"build.sh\"\n\
                     reads = [\"build-config\", \"missing\"]\n\
                     [[capability]]\nname = \"look\"\nlevel = 1\n\
                     [[capability]]\nname = \"sneak\"\nlevel = 1\n\
                     [[capability]]\nname = \"save\"\nlevel = 2\n\
                     [[capability]]\nname = \"wrong\"\nlevel = 2\n";
const SCRIPT: &str = "case $AISH_CAPABILITY in\nlook) cat ;;\n\
                      wrong) echo '{\"content\":[],\"resources\":{\"fine\":1,\"not so\":2}}' ;;\n\
                      *) echo '{\"content\":[],\"resources\":{\"build-config\":{\"n\":2},\"log\":[1]}}' ;;\nesac\n";

/// What one call says for which nobody has to be asked.
fn said(client: &Client, conversation: ConversationId, tool: &str) -> String {
    let id = ulid::Ulid::new().to_string();
    let calls = [call(&id, tool, json!({}))];
    let sent = client.done::<Run>(allowed(conversation, &calls, tool));
    client.wait_turn(sent.turn);
    result(client, conversation, &id).content
}

/// The fourth and the sixth act.
#[test]
fn a_program_is_given_what_it_reads_and_writes_where_its_level_is_enough() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    world.write("config/aish/tools/build.sh", SCRIPT);
    world.write("config/aish/tools/build.toml", BUILD);
    let _daemon = started(&world);
    let client = world.client();
    let id = client.create();
    let look = || said(&client, id, "build__look");
    assert_eq!(r#"{"arguments":{},"context":{}}"#, look());
    client.done::<Create>(creating(id, "build-config", json!({"n": 1})));
    assert_eq!(
        r#"{"arguments":{},"context":{"build-config":{"n":1}}}"#,
        look()
    );
    let refused =
        "[aish] nothing was changed: writing to the shared context needs level 2 of build";
    assert_eq!(refused, said(&client, id, "build__sneak"));
    assert_eq!(
        "[aish] tool build failed: resource \"not so\" of its result: a resource's name has 1 to 128 letters, digits and . _ - \
         /, and does not begin with -",
        said(&client, id, "build__wrong")
    );
    assert_eq!(vec!["build-config"], names(&client, id));
    assert_eq!(json!({"n": 1}), get(&client, id, "build-config").data);
    let written = |config: u64, change: &str, log: u64| {
        let one = |bytes, change, name, revision| json!({"bytes": bytes, "change": change, "name": name, "revision": revision});
        Value::from(vec![
            one(7, "updated", "build-config", config),
            one(3, change, "log", log),
        ])
        .to_string()
    };
    assert_eq!(written(2, "created", 1), said(&client, id, "build__save"));
    let by = get(&client, id, "log").resource.created_by.provider;
    assert_eq!(Some("build"), by.as_deref());
    client.done::<Set>(SetParams {
        conversation: id,
        provider: "build".to_owned(),
        level: 2,
    });
    assert_eq!(written(3, "updated", 2), said(&client, id, "build__sneak"));
    assert_eq!(
        r#"{"arguments":{},"context":{"build-config":{"n":2}}}"#,
        look()
    );
    upstream.finish();
}

/// What uv does of what it is asked: its first lock is only half of one.
const UV: &str = r#"#!/bin/sh
verb=$1
if [ "$verb" = python ]; then
    echo /bin/sh
    exit
fi
while [ "$1" != --script ]; do
    if [ "$1" = --python ]; then python=$2; fi
    shift
done
if [ "$verb" = run ]; then
    read -r lock < "$2.lock"
    echo "\"$lock with $python\""
elif [ -e "$HOME/locks" ]; then
    echo lock >> "$HOME/locks"
    echo whole > "$2.lock"
else
    echo lock >> "$HOME/locks"
    echo half > "$2.lock"
    exit 2
fi
"#;

/// Whatever allows it beforehand, somebody sees what is fetched; then the lock holds.
#[test]
fn packages_are_seen_before_they_are_fetched_and_locked_once() {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&format!(
        "{}\n[mcp.auto_approve]\n\"fetches__*\" = true\n",
        upstream.config("test")
    ));
    world.write("bin/uv", UV);
    fs::set_permissions(world.path("bin/uv"), Permissions::from_mode(0o755)).unwrap();
    let script = "# /// script\n# dependencies = [\"rich>=13\"]\n# ///\n";
    world.write("config/aish/tools/fetches.py", script);
    world.write(
        "config/aish/tools/fetches.toml",
        "name = \"fetches\"\nruntime = \"python-uv-script\"\nscript = \"fetches.py\"\n[[capability]]\nname = \"go\"\nlevel = 1\n",
    );
    let path = format!(
        "{}:/usr/local/bin:/usr/bin:/bin",
        world.path("bin").display()
    );
    let _daemon = started_by(&world, world.daemon().env("PATH", path));
    let client = world.person("pts/2");
    let id = client.create();
    // With what a person says to the question that comes, if one does.
    let told = |name: &str, decision: Option<Decision>| {
        let turn = run(&client, id, &[call(name, "fetches__go", json!({}))]);
        if let Some(decision) = decision {
            let confirm = pending(&client, id);
            let request = &confirm.request;
            let why =
                "it fetches packages, and is asked about until it is always allowed here: rich>=13";
            assert_eq!(why, request.why);
            let asked = request.tool_call();
            let server = &asked.call.server;
            assert!(server.ends_with("with the packages rich>=13"), "{server}");
            assert_eq!(json!(["rich>=13"]), asked.definition["packages"]);
            answer(&client, &confirm, decision);
        }
        client.wait_turn(turn);
        result(&client, id, name).content
    };
    assert_eq!(
        "[aish] tool fetches failed: uv could not settle its packages",
        told("a", Some(Decision::AllowOnce))
    );
    assert_eq!(
        "whole with /bin/sh",
        told("b", Some(Decision::AllowOnce)).trim_matches('"')
    );
    assert_eq!(
        "whole with /bin/sh",
        told("c", Some(Decision::AllowConversation)).trim_matches('"')
    );
    assert_eq!("whole with /bin/sh", told("d", None).trim_matches('"'));
    let locks = || fs::read_to_string(world.path("home/locks")).unwrap();
    assert_eq!(2, locks().lines().count());
    let folders = fs::read_dir(world.path("state/aish/tools/scripts")).unwrap();
    let folder = folders.map(|it| it.unwrap().path()).next().unwrap();
    let mut left: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .collect();
    left.sort();
    assert_eq!(["python", "script.py", "script.py.lock"], left[..]);
    // Another script is another tool, whatever it fetches.
    world.write(
        "config/aish/tools/fetches.py",
        &format!("{script}print(1)\n"),
    );
    until_true("the new script", || {
        world
            .log_text()
            .contains("fetches  (what runs has changed)")
    });
    told("e", Some(Decision::AllowOnce));
    assert_eq!(3, locks().lines().count());
    upstream.finish();
}
