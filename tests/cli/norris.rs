//! Runs on the command line and in windows: what a launch says, the lines of its progress, who leads it from another
//! terminal, and how it ends for scripts.

use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Daemon, Running, Upstream, World};
use rustix::process::Signal;

use crate::terminal::open;
use crate::terminal_asked::wait_asked;

/// A model that says one of these after the other.
fn world(script: &'static [&'static str]) -> (Upstream, World, Daemon) {
    world_of(script, "contain = \"workspace\"\n")
}

/// `norris` is more of its table of the configuration.
pub(crate) fn world_of(script: &'static [&'static str], norris: &str) -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&format!(
        "{}[norris]\nsecond_opinion = false\n{norris}",
        upstream.config("test")
    ));
    upstream.answer_with(move |request| {
        let messages = request.messages();
        let said = messages.iter().filter(|(role, _)| role == "assistant");
        Answer::text(
            script
                .get(said.count())
                .unwrap_or(&"HALT: the script is over"),
        )
    });
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

fn launched(world: &World, args: &[&str]) -> Running {
    let mut all = vec!["norris", "--yes", "--level", "2"];
    all.extend(args);
    let mut run = world.ctl_spawn(&all);
    run.close_stdin();
    run
}

#[test]
fn a_run_is_followed_step_by_step_and_its_end_is_the_exit_code() {
    let (upstream, world, _daemon) = world(&[
        "First I look.\nCMD: ls",
        "CMD: mkdir tidy",
        "DONE: all is tidy",
    ]);
    let run = launched(&world, &["put", "it", "in", "order"]).wait().ok();
    let said: Vec<&str> = run
        .err()
        .lines()
        .filter(|it| it.contains("norris: "))
        .collect();
    assert_eq!(4, said.len(), "{}", run.report());
    assert_eq!(
        "[aish] norris: launched; calls and commands up to level 2 run unasked unless they are destructive; at most 25 steps, 60 min, without a second opinion",
        said[0]
    );
    assert!(
        said[1].starts_with("[aish] norris: step 2, 12 tokens, "),
        "{}",
        said[1]
    );
    assert!(
        said[2].starts_with("[aish] norris: step 3, 24 tokens, "),
        "{}",
        said[2]
    );
    assert!(
        said[3].starts_with("[aish] norris: done: all is tidy (step 3, 36 tokens, "),
        "{}",
        said[3]
    );
    assert!(run.err().contains("  ┌ mkdir tidy"), "{}", run.report());
    assert!(
        run.out().ends_with("DONE: all is tidy\n"),
        "{}",
        run.report()
    );
    assert!(world.work().join("tidy").is_dir());
    assert_eq!(3, upstream.requests().len());
}

#[test]
fn how_a_run_ends_is_told_to_scripts() {
    let check = |script: &'static [&'static str], args: &[&str], code: i32, says: &str| {
        let (_upstream, world, _daemon) = world(script);
        let run = launched(&world, args).wait().code(code);
        assert!(run.err().contains(says), "{says}: {}", run.report());
    };
    check(
        &["HALT: there is no key"],
        &["open", "it"],
        1,
        "the goal was not reached: there is no key",
    );
    check(
        &["CMD: ls", "CMD: ls", "CMD: ls"],
        &["--steps", "2", "look"],
        7,
        "the run met a limit: 2 steps",
    );
    check(
        &["CMD: ls", "CMD: ls"],
        &["--steps", "1", "look"],
        7,
        "--steps, --time, --tokens and --max-cost allow it more",
    );
    check(&["DONE:"], &["--level", "4", "look"], 2, "--level 4");
    check(&["DONE:"], &["--max-cost", "much", "look"], 2, "US dollars");
}

/// The launch is the consent: without a person who agrees nothing is launched, and what it would grant is said.
#[test]
fn without_a_yes_nothing_is_launched() {
    let (upstream, world, _daemon) = world(&["DONE:"]);
    let run = world
        .ctl(&["norris", "--level", "2", "tidy", "up"])
        .run()
        .code(3);
    assert!(
        run.err().contains("nothing was launched. A model would work on its own towards: tidy up. Calls and commands up to level 2"),
        "{}",
        run.report()
    );
    assert_eq!(0, upstream.requests().len());
}

/// One terminal launches, another looks, pauses, resumes and halts.
#[test]
fn another_terminal_leads_it() {
    let (_upstream, world, _daemon) =
        world(&["CMD: echo begun >> marks; sleep 7051", "CMD: sleep 7052"]);
    let run = launched(&world, &["wait"]);
    until_true("the command runs", || world.work().join("marks").exists());
    let stands = world.ctl(&["norris"]).run().ok();
    assert!(
        stands.out().starts_with("norris: step 1 of 25, ")
            && stands.out().ends_with(", runs a command\n"),
        "{}",
        stands.report()
    );
    let paused = world.ctl(&["norris", "pause"]).run().ok();
    assert!(paused.out().contains("paused"), "{}", paused.report());
    let resumed = world.ctl(&["norris", "resume"]).run().ok();
    assert!(
        resumed.out().contains("runs a command"),
        "{}",
        resumed.report()
    );
    let halted = world.ctl(&["norris", "halt"]).run().ok();
    assert_eq!("halted\n", halted.out());
    let ended = run.wait().code(1);
    for says in [
        "[aish] norris: paused",
        "[aish] norris: resumed",
        "  └ cancelled",
        "[aish] norris: stopped: a person stopped it",
        "the run was stopped",
    ] {
        assert!(ended.err().contains(says), "{says}: {}", ended.report());
    }
    drop(world.ctl(&["norris", "halt"]).run().code(8));
    let none = world.ctl(&["norris"]).run().ok();
    assert_eq!("no autonomous run goes on here\n", none.out());
}

#[test]
fn ctrl_c_halts_what_is_followed() {
    let (_upstream, world, _daemon) = world(&["CMD: echo begun >> marks; sleep 7053"]);
    let run = launched(&world, &["wait"]);
    until_true("the command runs", || world.work().join("marks").exists());
    run.signal(Signal::INT);
    let ended = run.wait().code(130);
    assert!(
        ended.err().contains("norris: stopped"),
        "{}",
        ended.report()
    );
    until_true("the command ends", || world.running("sleep").is_empty());
}

#[test]
fn a_goal_that_is_typed_in_a_window_is_launched_and_halts_at_the_destructive() {
    let (_upstream, world, _daemon) =
        world(&["I look.\nCMD: ls", "CMD: rm -rf gone", "DONE: it's gone"]);
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let mut screen = open(&world, 110, 40);
    screen.key(":norris --level 2 \"remove what's gone\"\r");
    screen.wait_for("norris: launched; calls and commands up to level 2 run unasked");
    screen.wait_for("norris: step 2");
    wait_asked(&screen, "c1", "");
    screen.wait_for("CMD  rm -rf gone");
    screen.wait_for("! HALT: the command deletes directories and all that is in them");
    screen.key(":norris\r");
    screen.wait_for("waits for a person: a command");
    screen.key("y\r");
    screen.wait_for("yes");
    screen.key("yes\r");
    screen.wait_for("  └ exit 0");
    screen.wait_for("norris: done: it's gone (step 3");
}

/// A window on a run that another one launched: it sees the same, and halts it.
#[test]
fn a_second_window_halts_it() {
    let (_upstream, world, _daemon) = world(&["CMD: echo begun >> marks; sleep 7054"]);
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let mut first = open(&world, 110, 30);
    let mut second = open(&world, 110, 30);
    first.key(":norris --level 2 wait for it\r");
    until_true("the command runs", || world.work().join("marks").exists());
    second.wait_for("norris: launched");
    second.key(":norris halt\r");
    first.wait_for("norris: stopped: a person stopped it");
    second.wait_for("norris: stopped: a person stopped it");
    until_true("the command ends", || world.running("sleep").is_empty());
}
