//! What changes while a program of a manifest runs: its manifest, its conversation, the resources that it was given.

use std::fs;

use aish_proto::conversation::ConversationLimits;
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::permission::{Set, SetParams};
use aish_proto::resource::{Create, Update, UpdateParams, Validate, ValidateParams};
use aish_proto::tool::{Register, RegisterParams, Reload, Run};
use aish_testkit::wait::until_true;
use aish_testkit::{Client, Upstream, World};
use serde_json::{Value, json};

use crate::constraints;
use crate::lists::{call, result};
use crate::registry::started;
use crate::resources::{allowed, creating, get, names};

const FILE: &str = "config/aish/tools/w.toml";

/// It begins, waits until it may go on, and wants two resources written.
fn manifest(level: u8) -> String {
    format!(
        "name = \"w\"\nruntime = \"process\"\ncommand = \"sh\"\nscript = \"w.sh\"\ncontain = \"open\"\nreads = [\"seen\"]\n\
         [[capability]]\nname = \"go\"\nlevel = {level}\n"
    )
}

fn world(upstream: &Upstream, level: u8) -> World {
    let world = World::with(upstream);
    let place = world.path("work").display().to_string();
    let script = format!(
        "touch {place}/began; until [ -e {place}/on ]; do sleep 0.02; done\n\
         echo '{{\"content\":[],\"resources\":{{\"seen\":2,\"other\":3}}}}'\n"
    );
    world.write("config/aish/tools/w.sh", &script);
    world.write(FILE, &manifest(level));
    world
}

/// What the call says for itself, when this happened while it ran.
fn said(world: &World, client: &Client, id: ConversationId, meanwhile: impl FnOnce()) -> String {
    let name = ulid::Ulid::new().to_string();
    let calls = [call(&name, "w__go", json!({}))];
    let sent = client.done::<Run>(allowed(id, &calls, "w__go"));
    until_true("the program runs", || world.path("work/began").exists());
    meanwhile();
    world.write("work/on", "");
    client.wait_turn(sent.turn);
    result(client, id, &name).content
}

fn grant(client: &Client, conversation: ConversationId) {
    client.done::<Set>(SetParams {
        conversation,
        provider: "w".to_owned(),
        level: 2,
    });
}

/// Its level is enough, and the conversation only reads all the same.
#[test]
fn a_conversation_that_only_reads_is_not_written_to() {
    let upstream = Upstream::start();
    let world = world(&upstream, 1);
    let _daemon = started(&world);
    let client = world.client();
    let id = client.create();
    grant(&client, id);
    let only_reads = ConversationLimits {
        read_only: true,
        ..ConversationLimits::default()
    };
    constraints::set(&client, id, only_reads);
    assert_eq!(
        "[aish] nothing was changed: this conversation only reads",
        said(&world, &client, id, || {})
    );
    assert!(names(&client, id).is_empty());
}

/// An edit of the manifest gives a running call nothing and takes nothing from it.
#[test]
fn what_a_call_may_write_is_settled_when_it_begins() {
    let upstream = Upstream::start();
    for (began, became, expected) in [
        (
            1,
            Some(2),
            "[aish] nothing was changed: writing to the shared context needs level 2 of w",
        ),
        (2, Some(1), ""),
        (2, None, ""),
    ] {
        let world = world(&upstream, began);
        let _daemon = started(&world);
        let client = world.client();
        let id = client.create();
        let said = said(&world, &client, id, || {
            match became {
                Some(level) => world.write(FILE, &manifest(level)),
                None => fs::remove_file(world.path(FILE)).unwrap(),
            }
            client.done::<Reload>(Empty {});
        });
        if expected.is_empty() {
            assert_eq!(vec!["other", "seen"], names(&client, id), "{said}");
        } else {
            assert_eq!(expected, said);
            assert!(names(&client, id).is_empty());
        }
    }
    upstream.finish();
}

/// What a person was told is written is not replaced by who has not seen it.
#[test]
fn a_call_does_not_write_over_what_it_was_not_given() {
    let upstream = Upstream::start();
    let world = world(&upstream, 2);
    let _daemon = started(&world);
    let client = world.client();
    let id = client.create();
    client.done::<Create>(creating(id, "seen", json!(0)));
    let said = said(&world, &client, id, || {
        let changed = client.done::<Update>(UpdateParams {
            conversation: id,
            name: "seen".to_owned(),
            data: Some(json!("mine")),
            blob: None,
            expected_revision: Some(1),
            create: false,
        });
        assert_eq!(2, changed.revision);
    });
    assert_eq!(
        "[aish] nothing was changed: resource \"seen\" is at revision 2, not 1",
        said
    );
    assert_eq!(json!("mine"), get(&client, id, "seen").data);
    assert_eq!(vec!["seen"], names(&client, id));
    upstream.finish();
}

/// A chain of references, each to the next.
fn chain(length: usize) -> Value {
    let mut schema = serde_json::Map::new();
    for at in 0..length {
        let next = json!({"$ref": format!("#/i{}", at + 1)});
        schema.insert(format!("i{at}"), next);
    }
    schema.insert(format!("i{length}"), json!({"type": "object"}));
    schema.insert("$ref".to_owned(), json!("#/i0"));
    Value::Object(schema)
}

/// A schema goes down on a stack, and a stack that ends takes every conversation with it.
#[test]
fn a_schema_or_a_kind_without_end_is_refused_and_the_daemon_lives() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    client.done::<Create>(creating(id, "a", json!({})));
    let refused = client.refused::<Validate>(ValidateParams {
        conversation: id,
        name: "a".to_owned(),
        schema: chain(1_500),
    });
    assert!(
        refused.message.contains("it is too deep"),
        "{}",
        refused.message
    );
    let large = client.refused::<Validate>(ValidateParams {
        conversation: id,
        name: "a".to_owned(),
        schema: json!({"description": "x".repeat(64 << 10)}),
    });
    assert!(
        large.message.contains("it has more than 65536 bytes"),
        "{}",
        large.message
    );
    let kind = "[]".repeat(100_000);
    let manifest = format!(
        "name = \"w\"\nruntime = \"process\"\ncommand = \"sh\"\n[[capability]]\nname = \"go\"\nlevel = 1\ninput = {{ a = \"string{kind}\" }}\n"
    );
    let refused = client.refused::<Register>(RegisterParams {
        manifest,
        base: None,
    });
    assert!(
        refused.message.contains("at most 8 times []"),
        "{}",
        refused.message
    );
    assert_eq!(daemon.pid(), client.hello().server.pid);
    upstream.finish();
}
