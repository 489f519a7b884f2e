//! `store`, `backup` and `restore`, with a daemon and without one.

use std::fs;

use aish_testkit::{World, repository};
use serde_json::Value;

use crate::doctor::{segment, stop};
use crate::shell::shell;

/// Three conversations, `one` to `three`, each with a question that says its name.
fn told() -> World {
    let world = World::new();
    for name in ["one", "two", "three"] {
        drop(world.ctl(&["conv", "new", name]).run().ok());
        let question = format!("what is {name}?");
        drop(world.ctl(&["ask", "-C", name, &question]).run().ok());
    }
    world
}

#[track_caller]
fn json(world: &World, args: &[&str]) -> Value {
    let finished = world.ctl(&[&["--json"], args].concat()).run().ok();
    serde_json::from_str(finished.out()).unwrap()
}

#[track_caller]
fn says(world: &World, args: &[&str], expected: &str) {
    let finished = world.ctl(args).run().ok();
    assert!(finished.out().contains(expected), "{}", finished.report());
}

#[test]
fn its_size_and_that_it_is_whole_are_told_with_a_daemon_and_without() {
    let world = told();
    let open = json(&world, &["store", "stat"]);
    assert_eq!(
        (3, 1),
        (
            open["conversations"].as_u64().unwrap(),
            open["segments"].as_u64().unwrap()
        )
    );
    assert!(open["liveBytes"].as_u64().unwrap() > 1_000, "{open}");
    says(
        &world,
        &["store", "check"],
        "journal, index and audit trail are whole",
    );
    drop(world.ctl(&["store", "compact"]).run().ok());
    stop(&world);
    let lying = json(&world, &["store", "stat"]);
    assert_eq!(
        (None, &open["epoch"]),
        (lying.get("liveBytes"), &lying["epoch"])
    );
    let checked = json(&world, &["store", "check"]);
    assert_eq!(Some(true), checked["whole"].as_bool(), "{checked}");
    assert!(checked["records"].as_u64().unwrap() > 20, "{checked}");
    drop(world.ctl(&["store", "compact"]).run().ok());
    says(&world, &["store", "repair"], "nothing was changed");
    fs::remove_dir_all(world.path("state/aish/store/db")).unwrap();
    drop(world.ctl(&["store", "check"]).run().code(1));
    says(&world, &["store", "repair"], "the index was made anew");
    says(&world, &["store", "check"], "are whole");
    drop(world.ctl(&["ask", "-C", "two", "and now?"]).run().ok());
    says(&world, &["log", "two"], "what is two?");
}

#[test]
fn a_damaged_store_is_repaired_but_for_what_is_said_to_be_lost() {
    let world = told();
    let refused = world.ctl(&["store", "repair"]).run().code(9);
    assert!(
        refused.err().contains("aishctl rpc daemon/shutdown"),
        "{}",
        refused.report()
    );
    stop(&world);
    let (path, mut bytes) = segment(&world);
    let text = b"what is two?";
    let at = bytes.windows(text.len()).position(|it| it == text).unwrap();
    bytes[at] = b'W';
    fs::write(&path, &bytes).unwrap();

    let found = world.ctl(&["store", "check"]).run().code(1);
    let place = path.to_str().unwrap();
    assert!(
        found.out().contains(place) && found.out().contains("aishctl store repair"),
        "{}",
        found.report()
    );
    let done = world.ctl(&["store", "repair"]).run().ok();
    assert!(
        done.out().contains("lost 1 record, and says where")
            && done.out().contains("the damaged bytes are in"),
        "{}",
        done.report()
    );
    says(&world, &["store", "check"], "are whole");
    drop(world.ctl(&["ask", "-C", "two", "and now?"]).run().ok());
    says(&world, &["log", "one"], "what is one?");
    says(
        &world,
        &["log", "two"],
        "could not be read any more and is lost",
    );
    says(&world, &["audit", "verify"], "all as they were written");
    let kept = fs::read_dir(world.state()).unwrap();
    let aside = kept
        .map(|it| it.unwrap().path())
        .find(|it| it.display().to_string().contains("damaged-"))
        .unwrap();
    let file = fs::read_dir(aside).unwrap().next().unwrap().unwrap();
    assert!(
        fs::read_to_string(file.path())
            .unwrap()
            .contains("What is two?")
    );
}

#[test]
fn a_backup_is_made_while_the_daemon_runs_and_becomes_the_store_again() {
    let world = told();
    let backup = world.path("backup");
    let backup = backup.to_str().unwrap();
    let first = json(&world, &["backup", backup]);
    assert_eq!(first["bytes"], first["copiedBytes"]);
    assert_eq!(0, json(&world, &["backup", backup])["copiedBytes"]);
    drop(world.ctl(&["ask", "-C", "one", "said later"]).run().ok());
    let refused = world.ctl(&["restore", backup]).run().code(9);
    assert!(refused.err().contains("aishd runs"), "{}", refused.report());
    stop(&world);
    let refused = world.ctl(&["restore", backup]).run().code(1);
    assert!(refused.err().contains("--replace"), "{}", refused.report());
    says(
        &world,
        &["restore", "--replace", backup],
        "what was there before is in",
    );
    says(&world, &["store", "check"], "are whole");
    drop(world.ctl(&["ask", "-C", "one", "and now?"]).run().ok());
    says(&world, &["log", "one"], "what is one?");
    let log = world.ctl(&["log", "one"]).run().ok();
    assert!(!log.out().contains("said later"), "{}", log.report());
    // A directory with something else in it is left alone.
    world.write("work/letter", "dear");
    let refused = world
        .ctl(&["backup", world.work().to_str().unwrap()])
        .run()
        .code(1);
    assert!(
        refused.err().contains("other files"),
        "{}",
        refused.report()
    );
}

/// The commands of docs/BACKUP.md that need nothing but tar.
#[test]
fn the_recipe_of_the_page_about_backups_works() {
    let page = fs::read_to_string(repository::top().join("docs/BACKUP.md")).unwrap();
    let blocks: Vec<&str> = page
        .split("```sh tested\n")
        .skip(1)
        .map(|it| it.split("```").next().unwrap())
        .collect();
    let [save, restore] = blocks[..] else {
        panic!("{blocks:?}");
    };
    let world = told();
    drop(shell(&world, save).run().ok());
    drop(world.ctl(&["ask", "-C", "one", "said later"]).run().ok());
    stop(&world);
    drop(shell(&world, restore).run().ok());
    drop(world.ctl(&["ask", "-C", "two", "and now?"]).run().ok());
    let log = world.ctl(&["log", "one"]).run().ok();
    assert!(
        log.out().contains("what is one?") && !log.out().contains("said later"),
        "{}",
        log.report()
    );
}
