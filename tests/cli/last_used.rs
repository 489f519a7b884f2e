//! Which conversation a window opens that is given no name.

use std::path::Path;

use aish_testkit::{Answer, Screen, World, built};

use crate::shell::{in_shell, shell};
use crate::terminal;

/// A window without a name, opened in this directory, that says what it is attached to.
#[track_caller]
fn attached_in(world: &World, directory: &str, to: &str) -> Screen {
    let text = in_shell(&format!("cd {directory} && exec aish"));
    let screen = Screen::spawn(world, Path::new("/bin/sh"), &["-c", &text], 100, 24);
    screen.wait_for(&format!("[aish] attached to {to} ("));
    screen.wait_rows("the prompt", |rows| {
        rows.last().is_some_and(|it| it.ends_with('○'))
    });
    screen
}

#[track_caller]
fn leave(mut screen: Screen) {
    screen.key("\u{4}");
    assert_eq!(0, screen.wait_end());
}

#[test]
fn it_is_the_one_that_a_window_used_last_here_and_never_a_scripts() {
    let (upstream, world, daemon) = terminal::world();
    upstream.answer_with(|_| Answer::text("yes"));
    for file in ["work/one/.aish/keep", "work/two/.aish/keep"] {
        world.write(file, "");
    }
    let script = |text: &str| drop(shell(&world, text).run().ok());
    // A script was here, and a window never.
    script("cd one && aishctl ask 'a script asks'");
    leave(attached_in(&world, "one", "default"));
    script("cd one && aishctl conv new plan && aishctl conv new other");
    // It is switched to in one window.
    let mut window = attached_in(&world, "one", "default");
    window.key(":switch plan\r");
    window.wait_for("[aish] attached to plan (");
    leave(window);
    script("cd one && aishctl ask -C other 'a script asks' && aishctl ask 'and once more'");
    // Lines from a pipe are a script's.
    script("cd one && echo 'and another' | aish other");
    leave(attached_in(&world, "one", "plan"));
    // Another project has one of its own, and the place in the first does not matter.
    leave(attached_in(&world, "two", "two"));
    world.write("work/one/deep/file", "");
    leave(attached_in(&world, "one/deep", "plan"));
    // It is known over a kill, and what is gone is passed over.
    daemon.kill9();
    let _daemon = world.daemon().spawn();
    leave(attached_in(&world, "one", "plan"));
    script("aishctl conv rm plan --yes");
    leave(attached_in(&world, "one", "default"));
    leave(attached_in(&world, "two", "two"));
}

/// What was begun in a window is what the next one opens, under the title that its first question gave it.
#[test]
fn a_window_begins_a_new_conversation() {
    let (upstream, world, _daemon) = terminal::world();
    upstream.answer_with(|_| Answer::text("yes"));
    world.write("work/one/.aish/keep", "");
    let mut window = attached_in(&world, "one", "default");
    window.key(":new\r");
    window.wait_for("[aish] attached to untitled (");
    window.key("why is it so slow?\r");
    window.wait_for("yes");
    leave(window);
    leave(attached_in(&world, "one", "why is it so slow?"));
    let mut window = attached_in(&world, "one", "why is it so slow?");
    window.key(":new the build\r");
    window.wait_for("[aish] attached to the build (");
    leave(window);
    let screen = Screen::spawn(&world, &built("aish"), &["--new", "the tests"], 100, 30);
    screen.wait_for("[aish] attached to the tests (");
    let listed = world.ctl(&["conv", "ls"]).run().ok();
    for title in ["why is it so slow?", "the build", "the tests"] {
        assert!(listed.out().contains(title), "{}", listed.out());
    }
}

/// Lines from a pipe are noted nowhere, and make one conversation all the same; and a project within a directory is another one.
#[test]
fn without_a_name_there_is_one_for_each_project() {
    let (upstream, world, _daemon) = terminal::world();
    upstream.answer_with(|_| Answer::text("yes"));
    for file in ["work/one/.aish/keep", "work/two/.aish/keep"] {
        world.write(file, "");
    }
    leave(attached_in(&world, "one", "default"));
    for _ in 0..2 {
        drop(
            shell(&world, "cd two && echo 'a question' | aish")
                .run()
                .ok(),
        );
    }
    leave(attached_in(&world, ".", "work"));
    let all = world.ctl(&["conv", "ls", "--json"]).run().ok();
    let mut titles: Vec<&str> = all.out().split("\"title\":\"").skip(1).collect();
    titles
        .iter_mut()
        .for_each(|it| *it = it.split('"').next().unwrap());
    titles.sort_unstable();
    assert_eq!(vec!["default", "proj", "two", "work"], titles);
}
