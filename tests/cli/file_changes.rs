//! A change of a file at a terminal: the difference stands on the screen before anybody can say yes to it.

use std::fs;
use std::time::{Duration, Instant};

use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer, Daemon, Screen, Upstream, World, built};
use serde_json::json;

use crate::terminal::open;

/// The model writes this into a new file, and then says "Noted.". `None`, and said why: nothing is held here.
fn world(content: &str) -> Option<(Upstream, World, Daemon)> {
    let upstream = Upstream::start();
    let world = World::new();
    world.write("machine/aish/config.toml", "");
    world.write_config(&upstream.config("test"));
    let arguments = json!({"file_path": "notes.md", "content": content}).to_string();
    upstream.answer_with(move |request| match request.messages().last() {
        Some((role, _)) if role == "user" => {
            Answer::stream().then_call(0, "call_1", "files__write", &arguments)
        }
        Some(_) | None => Answer::text("Noted."),
    });
    let daemon = world.daemon().spawn();
    let doctor = world.ctl(&["doctor"]).run().stdout;
    let doctor = String::from_utf8_lossy(&doctor).into_owned();
    if !doctor.contains("a command can be tried in layers") {
        println!("skipped: {doctor}");
        return None;
    }
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    Some((upstream, world, daemon))
}

fn written(world: &World) -> Option<String> {
    fs::read_to_string(world.work().join("notes.md")).ok()
}

fn times(rows: &[String], text: &str) -> usize {
    rows.iter().filter(|it| it.contains(text)).count()
}

/// What is typed sooner after a question was drawn is no answer.
const GUARD: Duration = Duration::from_millis(400);

fn answer(screen: &mut Screen, word: &str) {
    let seen = Instant::now();
    until("the end of the guard", PATIENCE, || {
        (seen.elapsed() >= GUARD).then_some(())
    });
    screen.key(word);
}

/// Answers the question that stands.
fn say(screen: &mut Screen, word: &str, then: &str) {
    answer(screen, word);
    screen.wait_for(then);
}

#[test]
fn ask_shows_the_difference_and_a_yes_makes_it_real() {
    let Some((_upstream, world, _daemon)) = world("we greet everybody\n") else {
        return;
    };
    let line = ["ask", "-C", "proj", "write it down"];
    let mut screen = Screen::spawn(&world, &built("aishctl"), &line, 100, 30);
    screen.wait_for("+we greet everybody");
    screen.wait_for("[y]es, keep");
    assert_eq!(1, times(&screen.rows(), "+we greet everybody"));
    assert_eq!(None, written(&world));
    say(&mut screen, "y\r", "Noted.");
    assert_eq!(Some("we greet everybody\n".to_owned()), written(&world));
}

#[test]
fn who_watches_all_questions_is_shown_it_too() {
    let Some((_upstream, world, _daemon)) = world("we greet everybody\n") else {
        return;
    };
    let mut screen = Screen::spawn(&world, &built("aishctl"), &["confirm", "watch"], 100, 30);
    let asking = world.ctl_spawn(&["ask", "--no-stdin", "--confirm=ask", "-C", "proj", "do it"]);
    screen.wait_for("+we greet everybody");
    screen.wait_for("[y]es, keep");
    answer(&mut screen, "t\r");
    screen.wait_rows("another trial, and the question below it", |rows| {
        times(rows, "+we greet everybody") >= 2 && times(rows, "[y]es, keep") >= 2
    });
    assert_eq!(2, times(&screen.rows(), "+we greet everybody"));
    say(&mut screen, "y\r", "kept");
    drop(asking.wait().ok());
    assert_eq!(Some("we greet everybody\n".to_owned()), written(&world));
}

/// Of a long one the beginning stands beside the question, and a yes is to all of it.
#[test]
fn a_long_difference_is_looked_at_before_a_yes_counts() {
    let lines: String = (0..300).map(|it| format!("line {it}\n")).collect();
    let Some((_upstream, world, _daemon)) = world(&lines) else {
        return;
    };
    let mut screen = open(&world, 100, 40);
    screen.key("write it down\r");
    screen.wait_for("lines more: d");
    screen.wait_for("[y]es, keep");
    say(&mut screen, "y\r", "look at all of it first: d");
    assert_eq!(None, written(&world));
    screen.key("d\r");
    screen.wait_for("shows all");
    say(&mut screen, "y\r", "Noted.");
    assert_eq!(Some(lines), written(&world));
}
