//! `changes` from any terminal and behind a colon: of a run that goes on, of one that is over, and of a command that was tried.

use aish_testkit::World;
use aish_testkit::wait::until_true;

use crate::norris::world_of;
use crate::terminal::open;

fn said(world: &World, args: &[&str]) -> String {
    world.ctl(args).run().ok().out().to_owned()
}

/// Whether this machine holds no layers; says so.
fn lacks_layers(world: &World) -> bool {
    let doctor = world.ctl(&["doctor"]).run();
    let lacks = doctor.out().contains("nothing holds their commands");
    if lacks {
        println!("skipped: this machine holds no layers");
    }
    lacks
}

/// The first id of the list.
fn id(world: &World) -> String {
    let listed = said(world, &["changes"]);
    let row = listed.lines().nth(1).unwrap_or_default();
    row.split_whitespace().next().unwrap_or_default().to_owned()
}

#[test]
fn what_a_run_changed_is_listed_shown_kept_in_part_and_taken_back_by_commands() {
    let (_upstream, world, _daemon) = world_of(
        &[
            "CMD: printf 'one\\ntwo\\n' > kept; mkdir made; echo x > made/f",
            "DONE: it is made",
        ],
        "",
    );
    if lacks_layers(&world) {
        return;
    }
    assert_eq!(
        "nothing waits, and nothing was kept that could be undone\n",
        said(&world, &["changes"])
    );
    let args = ["norris", "--yes", "--level", "2", "make", "it"];
    let run = world.ctl(&args).run().ok();
    assert!(
        run.err().contains("commands work in a copy of the files"),
        "{}",
        run.report()
    );
    let id = id(&world);
    assert!(
        run.err().contains("[aish] what the run changed waits")
            && run.err().contains(&format!("aishctl changes show {id}")),
        "{}",
        run.report()
    );
    assert!(!world.work().join("kept").exists());
    let listed = said(&world, &["changes"]);
    assert!(listed.contains("c1, the run is over  3 +3"), "{listed}");
    let stands = said(&world, &["norris"]);
    assert!(
        stands.starts_with("no autonomous run goes on here\nwhat the run changed waits: 3 files +3; aishctl changes show "),
        "{stands}"
    );
    let shown = said(&world, &["changes", "show", "c1"]);
    assert!(
        shown.starts_with("the run is over: make it\n3 files would change\n")
            && shown.contains("/kept  +2\n")
            && shown.ends_with(&format!(
                "c1 asks: changes keep {id}, or changes drop {id}\n"
            )),
        "{shown}"
    );
    let diff = said(&world, &["changes", "diff", &id, "kept"]);
    assert!(diff.contains("+two") && !diff.contains("made"), "{diff}");
    let end = &id[id.len() - 6..];
    let unnamed = world.ctl(&["changes", "keep", end]).run().code(2);
    assert!(
        unnamed
            .err()
            .contains("nobody here can see what would be kept"),
        "{}",
        unnamed.report()
    );
    let kept = said(&world, &["changes", "keep", &id, "--only", "made/f"]);
    assert_eq!("c1 kept\n", kept);
    until_true("it is kept and can be undone", || {
        let listed = said(&world, &["changes"]);
        listed.contains("kept") && listed.contains("c1") && !listed.contains("waits")
    });
    assert!(world.work().join("made/f").exists());
    assert!(!world.work().join("kept").exists());
    assert!(said(&world, &["undo"]).contains("as before: "));
    assert!(!world.work().join("made").exists());
}

#[test]
fn a_run_that_goes_on_is_looked_into_kept_and_dropped_from_another_terminal() {
    let (_upstream, world, _daemon) = world_of(
        &[
            "CMD: echo x > kept; echo y > other",
            "CMD: touch /usr/made",
            "CMD: touch /usr/made",
            "CMD: ls",
            "DONE: it is made",
        ],
        "",
    );
    if lacks_layers(&world) {
        return;
    }
    let args = ["norris", "--yes", "--detach", "--level", "2", "make", "it"];
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    drop(world.ctl(&args).run().ok());
    until_true("a person is asked", || {
        said(&world, &["confirm", "ls"]).contains("c1")
    });
    let stands = said(&world, &["norris"]);
    assert!(
        stands.contains("\nwhat the run changed waits: 2 files +2; aishctl changes show "),
        "{stands}"
    );
    let id = id(&world);
    let unseen = world.ctl(&["changes", "keep", &id]).run().code(2);
    assert!(
        unseen.err().contains("--seen says it"),
        "{}",
        unseen.report()
    );
    let shown = said(&world, &["changes", "show", &id, "kept"]);
    assert!(
        shown.starts_with("the run goes on: make it\n1 file would change\n"),
        "{shown}"
    );
    let seen = shown.lines().last().unwrap();
    let seen = seen
        .split(' ')
        .nth(1)
        .unwrap()
        .trim_end_matches(':')
        .to_owned();
    let wrong = [
        "changes", "keep", &id, "--only", "kept", "--seen", "00000000",
    ];
    drop(world.ctl(&wrong).run().code(9));
    let args = ["changes", "keep", &id, "--only", "kept", "--seen", &seen];
    let kept = said(&world, &args);
    assert!(
        kept.starts_with("kept: 1 path, and the run goes on over them; aishctl undo "),
        "{kept}"
    );
    assert!(world.work().join("kept").exists());
    let dropped = said(&world, &["changes", "drop", &id, "--only", "other"]);
    assert_eq!(
        "dropped: 1 path, and the run goes on without them\n",
        dropped
    );
    let none = world.ctl(&["changes", "drop", &id]).run();
    assert!(
        none.err().contains("nothing was changed so far"),
        "{}",
        none.report()
    );
    drop(world.ctl(&["norris", "halt"]).run().ok());
    assert!(said(&world, &["undo"]).contains("as before: "));
    assert!(!world.work().join("kept").exists());
}

/// What waits in a conversation is seen and settled in its window, and nothing of other conversations is in the way.
#[test]
fn in_a_window_a_colon_shows_and_keeps_what_waits_there() {
    let (_upstream, world, _daemon) =
        world_of(&["CMD: printf 'a\\nb\\n' > made", "DONE: it is made"], "");
    if lacks_layers(&world) {
        return;
    }
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let mut screen = open(&world, 120, 40);
    screen.key(":changes\r");
    screen.wait_for("nothing waits, and nothing was kept that could be undone");
    screen.key(":norris --level 2 make it\r");
    screen
        .wait_for("norris: launched; commands work in a copy of the files, which you keep or drop");
    screen.wait_for("? c1  keep what the run changed? 1 file would change +2 (:changes show c1)");
    screen.key(":changes show c1\r");
    screen.wait_for("the run is over: make it");
    screen.wait_for("/made  +2");
    let id = id(&world);
    screen.key(&format!(":changes keep {id}\r"));
    screen.wait_for("changes of the run kept: 1 path; :undo takes it back");
    assert!(world.work().join("made").exists());
}

#[test]
fn a_command_that_was_tried_is_among_what_waits_and_dropping_it_is_a_no() {
    let (_upstream, world, _daemon) = world_of(&["CMD: echo x > made", "I see."], "");
    if lacks_layers(&world) {
        return;
    }
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let mut screen = open(&world, 120, 40);
    screen.key("make it\r");
    screen.wait_for("? c1  CMD");
    drop(world.ctl(&["confirm", "try", "c1"]).run().ok());
    let listed = said(&world, &["changes"]);
    assert!(
        listed.contains("c1, tried") && listed.contains("echo x > made"),
        "{listed}"
    );
    let shown = said(&world, &["changes", "show", "c1"]);
    assert!(
        shown.starts_with("tried: echo x > made\n1 file would change"),
        "{shown}"
    );
    let dropped = said(&world, &["changes", "drop", "c1"]);
    assert_eq!("c1 denied\n", dropped);
    assert!(!world.work().join("made").exists());
}
