//! A window lets tools run unasked for as long as it is there, and the others are told.

use aish_proto::conversation::{ConversationCreateParams, Create};
use aish_testkit::process::kill9;
use aish_testkit::{Answer, Daemon, Running, Upstream, World};

use crate::shell::shell;

struct Scene {
    _upstream: Upstream,
    world: World,
    _daemon: Daemon,
}

/// The model calls a tool for each question, and then says "Noted.".
fn scene() -> Scene {
    let upstream = Upstream::start();
    let world = World::new();
    let config = upstream.config("test");
    world.write_config(&format!("{config}\n[tools]\nbuiltin = true\n"));
    upstream.answer_with(|request| {
        let messages = request.messages();
        if messages.last().is_some_and(|(role, _)| role == "user") {
            let id = format!("call_{}", messages.len());
            Answer::stream().then_call(0, &id, "aish__time", "{}")
        } else {
            Answer::text("Noted.")
        }
    });
    let daemon = world.daemon().spawn();
    world.client().done::<Create>(ConversationCreateParams {
        title: Some("here".to_owned()),
        model: None,
        cwd: "/".to_owned(),
        constraints: None,
        budget: None,
        temporary: false,
    });
    Scene {
        _upstream: upstream,
        world,
        _daemon: daemon,
    }
}

#[track_caller]
fn window(world: &World) -> Running {
    let mut window = world.ctl_spawn(&["attach", "here"]);
    window.line_with("attached to here (");
    window
}

#[test]
fn a_window_lets_a_tool_run_and_the_others_are_told() {
    let scene = scene();
    let mut other = window(&scene.world);
    let mut window = window(&scene.world);
    window.write(":perm auto aish__time fs__* --count 2\n");
    window.line_with("runs unasked in here until this window leaves: aish__time fs__* (2 calls)");
    window.line_with("fs__* is no tool that is known now");
    other.line_with("[aish] aish lets run unasked: aish__time fs__* (2 calls)");
    let mut late = scene.world.ctl_spawn(&["attach", "here"]);
    late.line_with("[aish] aish lets run unasked: aish__time fs__* (2 calls)");
    other.write("what time is it?\n");
    other.line_with("Noted.");
    other.write(":perm ls\n");
    other.line_with("lets run unasked while attached: aish__time fs__* (1 call)");
    other.write("and now?\n");
    window.line_with("[aish] what you let run unasked is asked about again");
    other.line_with("[aish] aish lets nothing run unasked any more");
    other.line_with("Noted.");
    other.write("and now?\n");
    other.line_with(":confirm allow c1 --digest ");
}

#[test]
fn a_window_takes_it_back_and_one_that_is_killed_takes_it_along() {
    let scene = scene();
    let mut other = window(&scene.world);
    let mut window = window(&scene.world);
    window.write(":perm auto --turn aish__*\n");
    window.line_with("runs unasked in here until the turn ends: aish__*");
    other.line_with("[aish] aish lets run unasked: aish__*, for one turn");
    window.write(":perm auto --off\n");
    window.line_with("every call is asked about again");
    other.line_with("[aish] aish lets nothing run unasked any more");
    window.write(":perm auto aish__*\n");
    other.line_with("[aish] aish lets run unasked: aish__*");
    kill9(window.pid());
    other.line_with("[aish] aish left (1 here)");
    other.write("what time is it?\n");
    other.line_with(":confirm allow c1 --digest ");
}

/// What is gone at once lets nothing run, and says what does.
#[test]
fn a_command_that_ends_at_once_says_so() {
    let scene = scene();
    let line = "aishctl -C here perm auto aish__time";
    let finished = shell(&scene.world, line).run().code(2);
    let said = finished.err();
    assert!(said.contains("would be gone at once"), "{said}");
    assert!(
        said.contains("ask --confirm=allow:NAME") && said.contains("mcp.auto_approve"),
        "{said}"
    );
}
