//! `aishctl context` and `search`: what the model is shown, what has left that, and what comes back.

use aish_testkit::{Answer, Daemon, Upstream, World};

use crate::shell::shell;
use crate::terminal::open;

fn here(context: &str) -> (Upstream, World, Daemon) {
    let (upstream, world) = (Upstream::start(), World::new());
    world.write_config(&format!(
        "default_model = \"test\"\n{}\n[context]\n{context}\n",
        upstream.preset("test", "context_tokens = 4000")
    ));
    let daemon = world.daemon().spawn();
    let _made = shell(&world, "aishctl conv new proj").run().ok();
    (upstream, world, daemon)
}

fn ask(world: &World, text: &str) -> String {
    let line = format!("aishctl -C proj ask --no-stdin {text}");
    shell(world, &line).run().ok().err().to_owned()
}

#[test]
fn turns_that_left_are_listed_found_and_put_back() {
    let (upstream, world, _daemon) = here("max_turns = 4");
    let run = |line: &str| shell(&world, &format!("aishctl -C proj {line}")).run();
    assert_eq!(
        "nothing has left the context\n",
        run("context archive").ok().out()
    );
    for text in ["first pomelo", "second", "third", "fourth"] {
        ask(&world, text);
    }
    let told = ask(&world, "fifth");
    let left = "[aish] 3 old turns left the context; originals archived — :context archive";
    assert_eq!(1, told.lines().filter(|it| *it == left).count(), "{told}");
    let listed = run("context archive").ok();
    let rows: Vec<&str> = listed.out().lines().collect();
    assert_eq!(4, rows.len(), "{}", listed.report());
    assert!(
        rows[1].ends_with("third") && rows[3].ends_with("first pomelo"),
        "{}",
        listed.report()
    );
    let found = run("search POMELO").ok();
    let hit: Vec<&str> = found
        .out()
        .lines()
        .nth(1)
        .unwrap()
        .split_whitespace()
        .collect();
    assert_eq!(
        ["proj", "archived", "first"],
        [hit[0], hit[2], hit[3]],
        "{}",
        found.report()
    );
    // By the number of the event, as both of them show it.
    let event = rows[3].split_whitespace().next().unwrap();
    assert_eq!(event, hit[1]);
    let back = run(&format!("context restore {event}")).ok();
    assert_eq!(
        "it is in the context again, until there is no room for it\n",
        back.out()
    );
    assert!(run("context archive").ok().out().contains(" back "));
    let twice = run(&format!("context restore {event}"));
    assert!(
        twice.err().contains("is in the context"),
        "{}",
        twice.report()
    );
    let full = run("context archive --json").ok().json();
    let turn = full["exchanges"][0]["turn"].as_str().unwrap().to_owned();
    let refused = run(&format!("context restore {turn}")).code(10);
    assert!(
        refused
            .err()
            .contains("there is no room in the context for it: the context holds 3 exchanges"),
        "{}",
        refused.report()
    );
    upstream.finish();
}

#[test]
fn what_cannot_be_put_back_or_forgotten_is_said() {
    let (upstream, world, _daemon) = here("max_turns = 4");
    ask(&world, "first");
    let refused = |line: &str, code: i32, expected: &str| {
        let said = shell(&world, &format!("aishctl -C proj context {line}"));
        let said = said.run().code(code);
        assert!(said.err().contains(expected), "{}", said.report());
    };
    refused("restore 4000", 8, "event 4000 has not left the context");
    refused("restore pomelo", 2, "neither an event nor a turn");
    refused("forget", 8, "nothing that left the context is summed up");
    refused("archive -n 0", 2, "invalid value '0'");
    upstream.finish();
}

#[test]
fn a_preview_says_what_takes_how_much_and_what_would_leave() {
    let (upstream, world, _daemon) = here("max_turns = 2");
    let run = |line: &str| shell(&world, &format!("aishctl -C proj {line}")).run();
    ask(&world, "first");
    ask(&world, "second");
    let overview = run("context preview and now").ok();
    let said = overview.out();
    assert!(said.starts_with("test · about "), "{said}");
    assert!(
        said.contains(" of 2000 (4000 less 2000 for the answer) · 1 of 2 turns\n"),
        "{said}"
    );
    assert!(
        said.contains("\n  system ") && said.contains("\n  messages "),
        "{said}"
    );
    let leaves: Vec<&str> = said
        .split("leaves for it:\n")
        .nth(1)
        .unwrap()
        .lines()
        .collect();
    assert!(
        leaves[0].ends_with(" first") && leaves[1].ends_with(" second"),
        "{said}"
    );
    assert!(said.ends_with("--body the whole request\n"), "{said}");
    let system = run("context preview --system and now").ok();
    assert!(
        system
            .out()
            .starts_with("You are aish, an assistant in a terminal."),
        "{}",
        system.out()
    );
    let body = run("context preview --body and now").ok();
    ask(&world, "and now");
    let sent = upstream.requests().pop().unwrap();
    assert_eq!(String::from_utf8(sent.body).unwrap() + "\n", body.out());
    let long = "x".repeat(40_000);
    let line = format!("aishctl -C proj context preview {long}");
    let refused = shell(&world, &line).run().ok();
    assert!(
        refused
            .out()
            .contains("there would be no request: the last question"),
        "{}",
        refused.out()
    );
    upstream.finish();
}

/// The window has the same grammar, and one calm row where something leaves.
#[test]
fn a_window_is_told_once() {
    let (upstream, world, _daemon) = here("max_turns = 2");
    upstream.answer_with(|request| Answer::text(&format!("to {}", request.question())));
    let mut person = open(&world, 110, 40);
    for text in ["first", "second", "third"] {
        person.key(&format!("{text}\r"));
        person.wait_for(&format!("to {text}"));
    }
    person.wait_for("2 old turns left the context; originals archived");
    person.key(":context archive\r");
    person.wait_for("tokens");
    let rows = person.rows();
    let told = rows.iter().filter(|it| it.contains("left the"));
    assert_eq!(1, told.count(), "{rows:#?}");
    upstream.finish();
}
