//! The tasks of a model at a terminal: a checklist in place of the call that wrote it, and a command that shows it.

use aish_testkit::{Answer, Daemon, Screen, Upstream, World, built};
use serde_json::json;

use crate::terminal::open;

/// The model writes a list of three, and then says "Noted.".
fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::new();
    world.write("machine/aish/config.toml", "[tools]\nfiles = false\n");
    world.write_config(&upstream.config("test"));
    let arguments = json!({"todos": [
        {"content": "read the log", "status": "completed"},
        {"content": "mend\u{1b}[2J it", "status": "in_progress"},
        {"content": "say so", "status": "pending"},
    ]});
    upstream.answer_with(move |request| match request.messages().last() {
        Some((role, _)) if role == "user" => {
            let id = format!("call-{}", request.messages().len());
            Answer::stream().then_call(0, &id, "todo__write", &arguments.to_string())
        }
        Some(_) | None => Answer::text("Noted."),
    });
    let daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    (upstream, world, daemon)
}

#[test]
fn the_tasks_stand_as_a_checklist_and_not_as_the_json_of_a_call() {
    let (_upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    screen.key("mend it\r");
    screen.wait_for("Noted.");
    let rows = screen.rows().join("\n");
    let list = "  tasks: 1 of 3 done\n  ☑ read the log\n  ▶ mend[2J it\n  ☐ say so\n";
    assert!(rows.contains(list), "{rows}");
    assert!(!rows.contains("todo__write"), "{rows}");
    screen.key(":todo\r");
    screen.wait_rows("the list again", |rows| {
        rows.iter().filter(|it| it.contains("☐ say so")).count() == 2
    });
    let printed = world.ctl(&["todo", "-C", "proj"]).run().ok();
    assert_eq!(list.trim_start(), printed.out());
    let value = world.ctl(&["todo", "proj", "--json"]).run().ok().json();
    assert_eq!("inProgress", value["todos"][1]["status"]);
    let mut screen = Screen::spawn(
        &world,
        &built("aishctl"),
        &["ask", "-C", "proj", "and now"],
        80,
        24,
    );
    screen.wait_for("tasks: 1 of 3 done: mend[2J it");
    assert_eq!(0, screen.wait_end());
}
