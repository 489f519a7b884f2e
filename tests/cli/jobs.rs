//! Commands in the background at a terminal: the card says what is asked for, a row says that one goes on and another one how it
//! ended, and they are listed, read and stopped from every terminal.

use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Daemon, Screen, Upstream, World};
use serde_json::json;

use crate::terminal::open;
use crate::terminal_asked::wait_asked;

/// The model has this run in the background, and then says a word.
fn world(command: &str) -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::new();
    world.write(
        "machine/aish/config.toml",
        "[tools]\nfiles = false\ntodo = false\n",
    );
    world.write_config(&upstream.config("test"));
    let arguments = json!({"command": command, "background": true}).to_string();
    upstream.answer_with(move |request| match request.messages().last() {
        Some((role, _)) if role == "user" => {
            let id = format!("call-{}", request.messages().len());
            Answer::stream().then_call(0, &id, "shell__run", &arguments)
        }
        Some(_) | None => Answer::text("It is up."),
    });
    let daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    (upstream, world, daemon)
}

fn allowed(world: &World) -> Screen {
    let mut screen = open(world, 100, 30);
    screen.key("start it\r");
    screen.wait_for("in the background until it ends or is stopped (:jobs); nothing holds it");
    wait_asked(&screen, "c1", "CMD");
    screen.key("y\r");
    screen.wait_for("It is up.");
    screen
}

#[test]
fn one_goes_on_is_seen_everywhere_and_is_stopped_from_elsewhere() {
    let (_upstream, world, _daemon) = world("printf 'up \\033[2Jat 3000\\n'; sleep 7401");
    let other = open(&world, 100, 30);
    let mut screen = allowed(&world);
    let row = "job-1 goes on in the background";
    screen.wait_for(row);
    other.wait_for(row);
    let rows = screen.rows().join("\n");
    assert!(rows.contains("up [2Jat 3000"), "{rows}");
    screen.key(":jobs\r");
    screen.wait_for("job    since  state  in    command");
    screen.key(":jobs output 1\r");
    screen.wait_for("job-1 runs — printf 'up \\033[2Jat 3000\\n'; sleep 7401");
    let listed = world.ctl(&["jobs"]).run().ok();
    assert_eq!(
        "job    since  state  in    command\njob-1  now    runs   proj  printf 'up \\033[2Jat 3000\\n'; sleep 7401\n",
        listed.out()
    );
    // Who wants it quiet is told that this is not.
    let cancelled = world.ctl(&["cancel", "proj"]).run().ok();
    assert_eq!(
        "no turn runs in proj\njob-1 goes on in the background: aishctl jobs stop job-1\n",
        cancelled.out()
    );
    let stopped = world.ctl(&["jobs", "stop", "job-1"]).run().ok();
    assert_eq!("stopped job-1\n", stopped.out());
    screen.wait_for("job-1 was stopped by");
    other.wait_for("job-1 was stopped by");
    assert!(world.running("sleep").is_empty());
    let nothing = world.ctl(&["jobs"]).run().ok();
    assert_eq!("nothing runs in the background\n", nothing.out());
    let here = world
        .ctl(&["jobs", "-C", "proj", "--json"])
        .run()
        .ok()
        .json();
    assert_eq!("person", here["jobs"][0]["ended"]["stoppedBy"]);
    let again = world.ctl(&["jobs", "stop", "1", "-C", "proj"]).run().ok();
    assert_eq!("job-1 had ended already\n", again.out());
    let unknown = world.ctl(&["jobs", "output", "9", "-C", "proj"]).run();
    assert!(
        unknown
            .err()
            .contains("there is no job-9 in this conversation"),
        "{}",
        unknown.report()
    );
}

#[test]
fn the_end_of_one_is_a_row_and_what_it_printed_is_kept() {
    let (_upstream, world, _daemon) =
        world("echo begun; while ! test -e go; do sleep 0.05; done; echo went; exit 3");
    let screen = allowed(&world);
    screen.wait_for("job-1 goes on in the background");
    world.write("work/go", "");
    screen.wait_for("job-1 ended: exit 3");
    until_true("it has ended", || {
        world.ctl(&["jobs"]).run().ok().out() == "nothing runs in the background\n"
    });
    let output = world.ctl(&["jobs", "output", "1", "-C", "proj"]).run().ok();
    assert!(
        output.out().starts_with("begun\nwent\njob-1 exit 3, "),
        "{}",
        output.out()
    );
}

#[test]
fn the_card_offers_no_trial_of_what_has_no_end() {
    let (_upstream, world, _daemon) = world("sleep 7402");
    let mut screen = open(&world, 100, 40);
    screen.key("start it\r");
    screen.wait_for("in the background until it ends or is stopped (:jobs); nothing holds it");
    wait_asked(&screen, "c1", "CMD");
    screen.key("?\r");
    screen.wait_for("it does not run, and the turn ends");
    let rows = screen.rows().join("\n");
    assert!(
        !rows.contains("t, try") && !rows.contains("[t]ry"),
        "{rows}"
    );
    screen.key("n\r");
    screen.wait_for("It is up.");
    assert!(world.running("sleep").is_empty());
}
