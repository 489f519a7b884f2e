//! What a person lets the store keep: how much, and for how long.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{ConversationListParams, List, ListState};
use aish_proto::daemon::{Reload, Status};
use aish_proto::id::ConversationId;
use aish_proto::method::Empty;
use aish_proto::store::Stat;
use aish_proto::turn;
use aish_testkit::client::question;
use aish_testkit::{Client, Upstream, World, repository, wait};
use aishd_log::audit::AuditDraft;
use aishd_log::budget::BudgetLimits;
use aishd_log::constraints::Constraints;
use aishd_log::event::{Event, Record};
use aishd_log::state::ConversationState;
use aishd_log::time::Timestamp;
use aishd_store::{Commit, Store};
use ulid::Ulid;

/// `what is a crab?`, settled long ago, and another one that was answered when its daemon was killed.
const KEPT: &str = "tests/data/store/v1/journal";

fn world(upstream: &Upstream) -> World {
    let world = World::with(upstream);
    for entry in fs::read_dir(repository::top().join(KEPT)).unwrap() {
        let entry = entry.unwrap();
        let text = fs::read_to_string(entry.path()).unwrap();
        let name = entry.file_name().into_string().unwrap();
        world.write(format!("state/aish/store/journal/{name}"), &text);
    }
    let private = fs::Permissions::from_mode(0o700);
    fs::set_permissions(world.state(), private).unwrap();
    world
}

fn titles(client: &Client) -> Vec<String> {
    let all = ConversationListParams {
        state: ListState::All,
        ..ConversationListParams::default()
    };
    let listed = client.done::<List>(all).conversations;
    listed.into_iter().map(|it| it.title).collect()
}

fn of_title(client: &Client, title: &str) -> ConversationId {
    let named = ConversationListParams {
        title: Some(title.to_owned()),
        ..ConversationListParams::default()
    };
    client.done::<List>(named).conversations[0].id
}

/// What is in each file.
fn files_below(dir: &Path) -> Box<dyn Iterator<Item = Vec<u8>>> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    Box::new(entries.flat_map(|it| -> Box<dyn Iterator<Item = Vec<u8>>> {
        if it.path().is_dir() {
            return files_below(&it.path());
        }
        Box::new(fs::read(it.path()).into_iter())
    }))
}

fn set(world: &World, client: &Client, before: &str, table: &str) {
    world.write_config(&format!("{before}\n[store]\n{table}\n"));
    drop(client.done::<Reload>(Empty {}));
}

#[test]
fn what_nobody_has_used_for_long_enough_goes_unless_somebody_is_attached() {
    let upstream = Upstream::start();
    let world = world(&upstream);
    let before = fs::read_to_string(world.config_file()).unwrap();
    let daemon = world.daemon().spawn();
    let (client, window) = (world.client(), world.client());
    let old = "what is a crab?".to_owned();
    let all = titles(&client);
    assert!(all.len() == 2 && all.contains(&old), "{all:?}");
    let id = of_title(&client, &old);
    let attached = window.attach(id, ReplayStart::Now);
    set(&world, &client, &before, "keep_days = 2");
    // The half of an answer ended with this start, so that it was used today.
    assert_eq!(2, titles(&client).len());
    drop((attached, window));
    let clients = || client.done::<Status>(Empty {}).clients;
    wait::until_true("the window has gone", || clients() == 1);
    set(&world, &client, &before, "keep_days = 1");
    wait::until_true("it is deleted", || !titles(&client).contains(&old));
    assert_eq!(1, titles(&client).len());
    wait::until_true("it has left every file", || {
        let store = world.path("state/aish/store");
        files_below(&store).all(|it| !String::from_utf8_lossy(&it).contains(&old))
    });
    drop(daemon);
}

#[test]
fn beyond_its_limit_nothing_begins_and_what_to_do_is_said() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let before = fs::read_to_string(world.config_file()).unwrap();
    let _daemon = world.daemon().spawn();
    let client = world.client();
    let id = client.create();
    client.wait_turn(client.ask(id, "first"));
    let stat = client.done::<Stat>(Empty {});
    assert_eq!(None, stat.max_bytes);
    set(&world, &client, &before, "max_bytes = 1");
    let refused = client.refused::<turn::Send>(question(id, "second"));
    assert!(refused.message.contains("store.max_bytes"), "{refused:?}");
    assert_eq!(Some(1), client.done::<Stat>(Empty {}).max_bytes);
    let problem = client.done::<Status>(Empty {}).store.problem;
    assert!(problem.unwrap().contains("store.max_bytes"));
    set(&world, &client, &before, "max_bytes = 0");
    client.wait_turn(client.ask(id, "third"));
}

/// A store with so many conversations that nobody has used since 1970; each is called `the secret of N.`.
fn write_old_conversations(store: &Path, count: u64) {
    let store = Store::open(store).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for number in 1..=count {
        let id = ConversationId(Ulid(u128::from(number)));
        let created = Event::Created {
            title: Some(format!("old {number}")),
            model: None,
            cwd: "/".to_owned(),
            forked_from: None,
            constraints: Constraints::default(),
            importing: false,
            temporary: false,
            budget: BudgetLimits::default(),
        };
        let named = Event::Renamed {
            title: format!("the secret of {number}."),
        };
        let mut state = ConversationState::default();
        let mut audit = vec![];
        let records = [created, named].map(|event| {
            let record = Record {
                seq: state.last_seq.next(),
                at: Timestamp(i64::try_from(number).unwrap()),
                turn: None,
                client: None,
                event,
            };
            audit.extend(AuditDraft::of(id, &state, &record));
            state.apply(&record);
            record
        });
        let commit = Commit::new(id, records.to_vec(), state, audit);
        runtime.block_on(store.commit(commit)).unwrap();
    }
    store.close();
}

/// Turns a bit of what a conversation is called, and takes the index away, which does not know of that.
fn damage(store: &Path, number: u64) {
    let text = format!("the secret of {number}.");
    for entry in fs::read_dir(store.join("journal")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        let at = bytes
            .windows(text.len())
            .position(|it| it == text.as_bytes());
        if let Some(at) = at {
            bytes[at] ^= 1;
            fs::write(path, bytes).unwrap();
        }
    }
    fs::remove_dir_all(store.join("db")).unwrap();
}

/// It is said of which that is, and it stays for somebody to see to it.
#[test]
fn a_conversation_that_cannot_be_read_keeps_no_other_from_going() {
    const OLD: u64 = 70;
    const DAMAGED: u64 = 65;
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let store = world.path("state/aish/store");
    write_old_conversations(&store, OLD);
    damage(&store, DAMAGED);
    let before = fs::read_to_string(world.config_file()).unwrap();
    let daemon = world.daemon().spawn();
    let client = world.client();
    assert_eq!(usize::try_from(OLD).unwrap(), titles(&client).len());
    let repairs = client.done::<Status>(Empty {}).store.repairs.join("; ");
    assert!(repairs.contains("is damaged at byte"), "{repairs}");
    set(&world, &client, &before, "keep_days = 30");
    // The record with its last name is the damaged one.
    let left = vec![format!("old {DAMAGED}")];
    wait::until_true("the others are deleted", || titles(&client) == left);
    let id = ConversationId(Ulid(u128::from(DAMAGED)));
    let is_said = |line: &str| line.contains("it is not deleted") && line.contains(&id.to_string());
    let said = daemon.log_text();
    assert!(said.lines().any(is_said), "{said}");
    wait::until_true("they have left every file", || {
        let is_clean = |number: u64| {
            let text = format!("the secret of {number}.");
            files_below(&store).all(|it| !String::from_utf8_lossy(&it).contains(&text))
        };
        (1..=OLD).all(is_clean)
    });
}
