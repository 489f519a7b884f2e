//! A store of the layout in which a conversation had one level for all its providers is read, and each level goes to the
//! providers that the conversation had used: once, whatever happens meanwhile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use aish_proto::audit::{AuditKind, AuditListParams};
use aish_proto::id::ConversationId;
use aish_proto::permission::{History, List, PermissionParams};
use aish_testkit::{Client, World, repository, surroundings};

use crate::audit::{records, whole};

/// Four conversations of it: two providers used at level 2; level 3 and none used; raised, used, and lowered again; and one
/// whose provider is not there any more.
const KEPT: &str = "tests/data/store/one-level/journal/00000000000000000001.jsonl";

fn world() -> World {
    let world = World::new();
    let text = fs::read_to_string(repository::top().join(KEPT)).unwrap();
    let at = "state/aish/store/journal/00000000000000000001.jsonl";
    world.write(at, &text);
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(world.state(), private).unwrap();
    world
}

fn conversation(n: u32) -> ConversationId {
    format!("0000000000003G{n:012}").parse().unwrap()
}

/// Providers above the first level, and every change in the order in which it was made.
fn granted(client: &Client, n: u32) -> (Vec<String>, Vec<String>) {
    let params = PermissionParams {
        conversation: conversation(n),
    };
    let levels = client.done::<List>(params).permissions;
    let levels = levels.iter().filter(|it| it.level > 1);
    let changes = client.done::<History>(params).changes;
    let changes = changes.iter();
    (
        levels
            .map(|it| format!("{} {}", it.provider, it.level))
            .collect(),
        changes
            .map(|it| format!("{} {}-{}", it.provider, it.from, it.to))
            .collect(),
    )
}

#[track_caller]
fn check(client: &Client) {
    for (n, levels, changes) in [
        (
            1,
            &["data-tool 2", "example-tool 2"][..],
            &["* 1-2", "data-tool 1-2", "example-tool 1-2", "* 2-1"][..],
        ),
        (2, &[], &["* 1-3", "* 3-1"]),
        (3, &[], &["* 1-3", "* 3-1"]),
        (4, &["gone 3"], &["* 1-3", "gone 1-3", "* 3-1"]),
    ] {
        let (found, made) = granted(client, n);
        assert_eq!(levels, found, "conversation {n}");
        assert_eq!(changes, made, "conversation {n}");
    }
    let told = records(client, &AuditListParams::default());
    let told: Vec<String> = told
        .into_iter()
        .filter(|it| it.kind == AuditKind::PermissionChanged)
        .map(|it| {
            assert!(it.by.is_none() && it.conversation.is_some());
            let (from, to) = (it.from.unwrap(), it.to.unwrap());
            format!("{} {from}-{to}", it.provider.unwrap())
        })
        .collect();
    let expected = [
        "data-tool 1-2",
        "example-tool 1-2",
        "* 2-1",
        "* 3-1",
        "gone 1-3",
        "* 3-1",
    ];
    assert_eq!(expected[..], told, "of what was handed out, each once");
    whole(client);
}

#[test]
fn one_level_goes_to_the_providers_that_were_used_and_to_no_other() {
    let world = world();
    let daemon = world.daemon().spawn();
    check(&world.client());
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    check(&world.client());
    let said = "one level went to the providers that it had used";
    assert_eq!(3, world.log_text().matches(said).count(), "once each");
}

#[test]
fn a_daemon_that_dies_while_it_hands_out_levels_leaves_each_as_it_was_or_done() {
    let kills = surroundings::kills();
    for point in ["migrate.before_commit", "migrate.after_commit"] {
        for round in 0..kills {
            let world = world();
            let armed = format!("{point}=kill@{}", round % 3 + 1);
            let died = world.daemon().failpoint(&armed).spawn_or_exit();
            assert!(died.is_err(), "{armed}: it dies before it is ready");
            let _daemon = world.daemon().spawn();
            check(&world.client());
        }
    }
}
