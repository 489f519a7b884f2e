//! `aishctl memory`, `remember` and `forget`: facts that people keep for all conversations (MEM-1).

use aish_testkit::{Upstream, World};

use crate::shell::shell;

#[test]
fn facts_are_kept_listed_pinned_moved_and_forgotten() {
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&upstream.config("test"));
    let _daemon = world.daemon().spawn();
    let run = |line: &str| shell(&world, line).run();
    let nothing = run("aishctl memory").ok();
    assert_eq!("nothing is kept: aishctl remember TEXT\n", nothing.out());

    let kept = run("aishctl remember the server is boltzmann").ok();
    assert_eq!("m1 is kept: (fact) the server is boltzmann\n", kept.out());
    let again = run("aishctl remember the server is boltzmann").ok();
    assert!(
        again.out().starts_with("m1 is kept already"),
        "{}",
        again.report()
    );
    let _ok = run("aishctl remember --kind preference --pin 'answer in German'").ok();
    let listed = run("aishctl memory").ok();
    let rows: Vec<Vec<&str>> = listed
        .out()
        .lines()
        .map(|it| it.split_whitespace().collect())
        .collect();
    assert_eq!(
        ["m2", "pinned", "(preference)", "answer", "in", "German"],
        *rows[2]
    );

    let _ok = run("aishctl memory export > facts.jsonl").ok();
    let _ok = run("aishctl forget 1 m2").ok();
    assert!(run("aishctl memory").ok().out().starts_with("nothing"));
    let back = run("aishctl memory import facts.jsonl").ok();
    assert_eq!("2 facts, 2 of them new\n", back.out());
    let twice = run("aishctl memory import - < facts.jsonl").ok();
    assert_eq!("2 facts, 0 of them new\n", twice.out());
    let listed = run("aishctl memory ls --json").ok().json();
    assert_eq!("preference", listed["memories"][1]["kind"]);
    assert_eq!(true, listed["memories"][1]["pinned"]);

    let unknown = run("aishctl forget m1").code(8);
    assert!(
        unknown.err().contains("there is no fact m1") && unknown.err().contains("memory ls"),
        "{}",
        unknown.report()
    );
    upstream.finish();
}

#[test]
fn a_file_that_is_none_keeps_nothing_of_it() {
    let world = World::new();
    world.write_config("");
    let _daemon = world.daemon().spawn();
    let run = |line: &str| shell(&world, line).run();
    let broken = "printf '{\"text\":\"one\"}\\n\\n{\"text\":2}\\n' | aishctl memory import -";
    let refused = run(broken).code(2);
    assert!(
        refused.err().contains("stdin, line 3: ") || refused.err().contains("-, line 3: "),
        "{}",
        refused.report()
    );
    let unknown = "printf '{\"text\":\"one\",\"colour\":\"red\"}' | aishctl memory import -";
    let refused = run(unknown).code(2);
    assert!(
        refused.err().contains("unknown field `colour`"),
        "{}",
        refused.report()
    );
    assert!(run("aishctl memory").ok().out().starts_with("nothing"));
}
