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

/// Three hunks, of which the second one is not wanted.
fn hunks() -> Option<(Upstream, World, Daemon, String)> {
    let before: String = (1..=30).map(|it| format!("line {it}\n")).collect();
    let upstream = Upstream::start();
    let world = World::new();
    world.write("machine/aish/config.toml", "");
    world.write_config(&upstream.config("test"));
    world.write("work/list", &before);
    let edit = |old: &str, new: &str| json!({"old_string": old, "new_string": new});
    let edits = json!({
        "file_path": "list",
        "edits": [edit("line 3\n", "three\n"), edit("line 15\n", ""), edit("line 28\n", "twenty-eight\n")],
    });
    upstream.answer_with(move |request| {
        let messages = request.messages();
        match messages.iter().filter(|(role, _)| role == "tool").count() {
            0 => Answer::stream().then_call(0, "call_1", "files__read", r#"{"file_path":"list"}"#),
            1 => Answer::stream().then_call(0, "call_2", "files__edit", &edits.to_string()),
            _ => Answer::text("Noted."),
        }
    });
    let daemon = world.daemon().spawn();
    let doctor = world.ctl(&["doctor"]).run().stdout;
    let doctor = String::from_utf8_lossy(&doctor).into_owned();
    if !doctor.contains("a command can be tried in layers") {
        println!("skipped: {doctor}");
        return None;
    }
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let kept = before
        .replace("line 3\n", "three\n")
        .replace("line 28\n", "twenty-eight\n");
    Some((upstream, world, daemon, kept))
}

fn list(world: &World) -> String {
    fs::read_to_string(world.work().join("list")).unwrap()
}

#[test]
fn hunks_are_chosen_one_by_one_where_a_question_is_put_on_a_terminal() {
    let Some((_upstream, world, _daemon, kept)) = hunks() else {
        return;
    };
    let line = ["ask", "-C", "proj", "write it down"];
    let mut screen = Screen::spawn(&world, &built("aishctl"), &line, 100, 60);
    screen.wait_for("[s]ome of it");
    say(&mut screen, "s\r", "hunk 1 of 3");
    // What is typed ahead answers nothing that was not there.
    answer(&mut screen, "y\ry\ry\r");
    screen.wait_for("hunk 2 of 3");
    say(&mut screen, "n not that line\r", "hunk 3 of 3");
    say(&mut screen, "y\r", "Noted.");
    assert_eq!(kept, list(&world));
}

#[test]
fn hunks_are_chosen_in_a_window_by_keys() {
    let Some((_upstream, world, _daemon, kept)) = hunks() else {
        return;
    };
    let mut window = open(&world, 100, 60);
    let other = open(&world, 40, 60);
    window.key("write it down\r");
    window.wait_for("[s]ome of it");
    other.wait_for("[s]ome");
    say(&mut window, "s\r", "hunk 1 of 3");
    say(&mut window, "y\r", "hunk 2 of 3");
    // Alt-n.
    say(&mut window, "\u{1b}n", "hunk 3 of 3");
    say(&mut window, "y\r", "Noted.");
    // The rest of the row depends on the name of the terminal.
    other.wait_for("hunks 1,");
    assert_eq!(kept, list(&world));
}

/// Forty columns: each hunk, and what can be said to it, is there.
#[test]
fn hunks_are_chosen_in_a_narrow_window_and_the_rest_at_once() {
    let Some((_upstream, world, _daemon, _)) = hunks() else {
        return;
    };
    let mut window = open(&world, 40, 60);
    window.key("write it down\r");
    window.wait_for("[s]ome of it");
    say(&mut window, "s\r", "hunk 1 of 3");
    window.wait_for("+three");
    // What was not decided is not decided.
    answer(&mut window, "q\r");
    window.wait_rows("the question again", |rows| {
        times(rows, "[s]ome of it") == 2
    });
    answer(&mut window, "s\r");
    window.wait_rows("its hunks again", |rows| times(rows, "hunk 1 of 3") == 2);
    say(&mut window, "n\r", "hunk 2 of 3");
    say(&mut window, "a\r", "hunks 2 to 3");
    window.wait_for("+twenty-eight");
    say(&mut window, "y\r", "Noted.");
    let kept = list(&world);
    assert!(
        kept.contains("line 3\n") && !kept.contains("line 15\n"),
        "{kept}"
    );
}

/// What cannot be undone wants whole words, for a part of it too.
#[test]
fn of_what_is_destructive_a_part_is_kept_by_whole_words() {
    let Some((upstream, world, _daemon, _)) = hunks() else {
        return;
    };
    for file in ["one", "two/a", "two/b/c"] {
        world.write(format!("work/{file}"), "kept\n");
    }
    upstream.answer_with(|_| Answer::text("CMD: rm -rf one two"));
    let mut window = open(&world, 100, 60);
    window.key("clean up\r");
    window.wait_for("[t]ry");
    say(&mut window, "t\r", "2 files would change");
    window.wait_for("[s]ome of it");
    say(&mut window, "s\r", "hunk 1 of 2: yes");
    say(
        &mut window,
        "y\r",
        "only the whole word yes makes this real",
    );
    say(&mut window, "yes\r", "hunk 2 of 2: yes");
    window.wait_for("(in it: a, b/)");
    answer(&mut window, "n\r");
    let work = world.work();
    until("what was chosen is gone", PATIENCE, || {
        (!work.join("one").exists()).then_some(())
    });
    assert!(work.join("two").exists());
}

#[test]
fn who_watches_all_questions_chooses_hunks_too() {
    let Some((_upstream, world, _daemon, kept)) = hunks() else {
        return;
    };
    let mut screen = Screen::spawn(&world, &built("aishctl"), &["confirm", "watch"], 100, 60);
    let asking = world.ctl_spawn(&["ask", "--no-stdin", "--confirm=ask", "-C", "proj", "do it"]);
    screen.wait_for("[s]ome of it");
    say(&mut screen, "s\r", "hunk 1 of 3");
    say(&mut screen, "y\r", "hunk 2 of 3");
    say(&mut screen, "n\r", "hunk 3 of 3");
    say(&mut screen, "y\r", "hunks 1, 3 of 3");
    drop(asking.wait().ok());
    assert_eq!(kept, list(&world));
}

#[test]
fn scripts_say_which_hunks_of_which_difference_are_kept() {
    let Some((_upstream, world, _daemon, kept)) = hunks() else {
        return;
    };
    let asking = world.ctl_spawn(&["ask", "--no-stdin", "--confirm=ask", "-C", "proj", "do it"]);
    until("a question with a difference", PATIENCE, || {
        let list = world.ctl(&["confirm", "ls", "--json"]).run();
        let list: serde_json::Value = serde_json::from_slice(&list.stdout).ok()?;
        (!list["confirms"].get(0)?["tried"].is_null()).then_some(())
    });
    let keep = ["confirm", "keep", "c1", "--hunks", "1,3"];
    // Nobody is asked here: what shows the hunks is said, and what keeps them.
    let run = world.ctl(&keep).run().code(2);
    let refused = run.err();
    assert!(
        refused.contains("--hunks numbers the hunks") && refused.contains("--difference NAME"),
        "{refused}"
    );
    let shown = world.ctl(&["changes", "diff", "c1", "--hunks"]).run().ok();
    let shown = shown.out();
    assert!(
        shown.contains("hunk 2 of 3\n=== ") && shown.contains("@@ -12,7 +12,6 @@"),
        "{shown}"
    );
    let last = shown.lines().last().unwrap();
    let name = last.split([' ', ':']).nth(1).unwrap();
    let with = |numbers: &str, name: &str| {
        let line = [
            "confirm",
            "keep",
            "c1",
            "--hunks",
            numbers,
            "--difference",
            name,
        ];
        world
            .ctl(&[&line[..], &["--reason", "it is read elsewhere"]].concat())
            .run()
    };
    for (numbers, name, code, why) in [
        ("4", name, 2, "there is no hunk 4: they are 1 to 3"),
        (
            "1,3",
            "0123456789",
            9,
            "that is not the difference that is there",
        ),
        ("1,3", &name[..7], 9, "at least 8 digits"),
    ] {
        let run = with(numbers, name).code(code);
        assert!(run.err().contains(why), "{why}: {}", run.err());
    }
    let done = with("1,3", name).ok();
    assert!(done.out().contains("c1 kept"), "{}", done.out());
    drop(asking.wait().ok());
    assert_eq!(kept, list(&world));
}
