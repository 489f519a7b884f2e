//! `aishctl resource`: the shared context by hand, from files and pipes, shown safely.

use std::fs;

use aish_testkit::{Daemon, World};

use crate::shell::{shell, shell_on_terminal};

fn here() -> (World, Daemon) {
    let world = World::new();
    world.write_config("");
    let daemon = world.daemon().spawn();
    let _made = shell(&world, "aishctl conv new shared").run().ok();
    (world, daemon)
}

#[test]
fn a_resource_is_put_listed_read_and_deleted() {
    let (world, _daemon) = here();
    let run = |line: &str| shell(&world, line).run();
    world.write(
        "work/config.json",
        "{ \"target\": \"wasm\",\n \"n\": [1, 2] }\n",
    );
    let put = run("aishctl -C shared resource put build-config config.json").ok();
    assert_eq!("build-config created, revision 1\n", put.out());
    let got = run("aishctl -C shared resource get build-config").ok();
    assert_eq!(
        "{\n  \"n\": [\n    1,\n    2\n  ],\n  \"target\": \"wasm\"\n}\n",
        got.out()
    );
    let whole = run("aishctl -C shared resource get build-config --json").ok();
    assert!(whole.out().contains("\"revision\":1"), "{}", whole.report());
    let put =
        run("echo '[true]' | aishctl -C shared resource put build-config - --revision 1").ok();
    assert_eq!("build-config updated, revision 2\n", put.out());
    let stale = run("echo 1 | aishctl -C shared resource put build-config - --revision 1").code(1);
    assert!(
        stale.err().contains("is at revision 2, not 1"),
        "{}",
        stale.report()
    );
    let there = run("echo 1 | aishctl -C shared resource put build-config - --revision 0");
    assert!(
        there.err().contains("already, at revision 2"),
        "{}",
        there.report()
    );
    let listed = run("aishctl -C shared resource").ok();
    let row = listed.out().lines().nth(1).unwrap().to_owned();
    assert!(
        row.starts_with("build-config  2         6 "),
        "{}",
        listed.report()
    );
    let removed = run("aishctl -C shared resource rm build-config").ok();
    assert_eq!("build-config deleted, revision 3\n", removed.out());
    let missing = run("aishctl -C shared resource get build-config");
    assert!(
        missing.err().contains("no resource \"build-config\""),
        "{}",
        missing.report()
    );
    assert!(
        missing.err().contains("hint: aishctl resource ls"),
        "{}",
        missing.report()
    );
    let bad = run("echo '{' | aishctl -C shared resource put a -").code(2);
    assert!(bad.err().contains("- is not JSON"), "{}", bad.report());
}

#[test]
fn a_large_one_goes_in_pieces_and_one_that_is_too_large_is_refused() {
    let (world, _daemon) = here();
    let fits = format!("\"{}\"", "x".repeat((1 << 20) - 2));
    fs::write(world.path("work/fits"), &fits).unwrap();
    fs::write(world.path("work/more"), format!("\"y{}", &fits[1..])).unwrap();
    let run = |line: &str| shell(&world, line).run();
    let _put = run("aishctl -C shared resource put large fits").ok();
    let got = run("aishctl -C shared resource get large").ok();
    assert_eq!(fits.len() + 1, got.out().len());
    let refused = run("aishctl -C shared resource put large more");
    assert!(
        refused.err().contains("1048577 bytes of JSON"),
        "{}",
        refused.report()
    );
}

/// What tools write is not to be trusted: no escape byte comes to the screen, and the text survives.
#[test]
fn what_a_resource_holds_is_shown_with_its_escapes() {
    let (world, _daemon) = here();
    world.write("work/wild", "[\"\\u001b[31mred\\u202e and \\u009bmore\"]");
    let _put = shell(&world, "aishctl -C shared resource put wild wild")
        .run()
        .ok();
    let wild = |it: char| it.is_control() && it != '\n';
    for json in ["", " --json"] {
        let line = format!("aishctl -C shared resource get wild{json}");
        let piped = shell(&world, &line).run().ok();
        let piped = piped.out();
        assert!(!piped.contains(wild), "{piped:?}");
        assert!(piped.contains("red") && piped.contains("more"), "{piped:?}");
        let screen = shell_on_terminal(&world, &format!("{line}; echo ended $?"));
        screen.wait_for("ended 0");
        let seen = screen.seen();
        assert!(
            seen.contains(r"\u001b[31mred\u202e and \u009bmore"),
            "{seen}"
        );
    }
}
