//! `aish` on a terminal when a model wants to do something: the question among the rows, the words and keys that answer
//! it, and what does not (spec 80: 2.9, 3.3, 3.4; R5, R6).

use std::time::{Duration, Instant};

use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer, Daemon, Screen, Upstream, World, built};

use crate::terminal::open;

/// What is typed sooner after a question was drawn is no answer.
const GUARD: Duration = Duration::from_millis(300);

/// The model wants to know the time for each question, and then says "Noted.".
fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::new();
    let config = upstream.config("test");
    world.write_config(&format!("{config}\n[tools]\nbuiltin = true\n"));
    upstream.answer_with(|request| match request.messages().last() {
        Some((role, _)) if role == "user" => {
            Answer::stream().then_call(0, "call_1", "aish__time", "{}")
        }
        Some(_) | None => Answer::text("Noted."),
    });
    let daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    (upstream, world, daemon)
}

/// Waits for a question and for the moment in which nothing answers it.
#[track_caller]
fn wait_asked(screen: &Screen, name: &str) {
    screen.wait_for(&format!("? {name}  aish__time"));
    screen.wait_for("Alt-y or Alt-n any time");
    let seen = Instant::now();
    until("the end of the guard", PATIENCE, || {
        (seen.elapsed() >= GUARD).then_some(())
    });
}

/// What the model was told of its call.
fn told(upstream: &Upstream) -> String {
    let requests = upstream.requests();
    let (role, content) = requests.last().unwrap().messages().pop().unwrap();
    assert_eq!("tool", role);
    content
}

/// What is typed at the question, what the window says, and how the result of the call begins.
#[track_caller]
fn check(typed: &[&str], said: &str, denied_as: Option<&str>) {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 100, 30);
    screen.key("what time is it?\r");
    wait_asked(&screen, "c1");
    screen.wait_rows("the prompt waits", |rows| {
        rows.last().is_some_and(|it| it.ends_with('?'))
    });
    for typed in typed {
        screen.key(typed);
    }
    screen.wait_for(said);
    screen.wait_for("Noted.");
    let told = told(&upstream);
    match denied_as {
        Some(denied) => assert_eq!(denied, told, "{typed:?}"),
        None => assert!(!told.starts_with("[aish]"), "{typed:?}: {told}"),
    }
}

#[test]
fn a_word_or_a_key_answers() {
    check(&["y\r"], "c1 allowed once by ", None);
    check(&["\u{1b}y"], "c1 allowed once by ", None);
    check(&["yes c1\r"], "c1 allowed once by ", None);
    check(&["a\r"], "c1 allowed in this conversation by ", None);
    check(&[":confirm allow c1\r"], "c1 allowed once by ", None);
    check(&["A\r", "A\r"], "c1 allowed with all tools", None);
    check(&["\u{1b}n"], "c1 denied by ", Some("[aish] denied by user"));
    check(
        &["n not now\r"],
        "c1 denied by ",
        Some("[aish] denied by user: not now"),
    );
    check(
        &["?\r", "v\r", "no\r"],
        "the tool, as its server describes it",
        Some("[aish] denied by user"),
    );
}

/// Spec 80, 3.4: a line that was begun before the question stood there is sent as a line; the keys answer.
#[test]
fn what_was_typed_ahead_is_a_line_and_no_answer() {
    let (upstream, world, _daemon) = world();
    let mut asking = open(&world, 100, 30);
    let mut other = open(&world, 100, 30);
    other.key("y");
    other.wait_rows("the line", |rows| {
        rows.last().is_some_and(|it| it.ends_with("○ y"))
    });
    asking.key("what time is it?\r");
    for screen in [&asking, &other] {
        wait_asked(screen, "c1");
    }
    other.key("\r");
    other.wait_for("[aish] queued #1 from you");
    assert_eq!(1, upstream.requests().len(), "nothing was allowed");
    other.key("half a line\u{1b}n");
    for screen in [&asking, &other] {
        screen.wait_for("c1 denied by ");
        // The line that waited is asked now.
        screen.wait_for("? c2  aish__time");
    }
    other.wait_rows("the line stays", |rows| {
        rows.last().is_some_and(|it| it.ends_with("half a line"))
    });
}

/// A question waits for whoever comes; somebody who may only look is told how others answer.
#[test]
fn a_question_that_waits_stands_on_a_screen_that_comes_later() {
    let (_upstream, world, _daemon) = world();
    let mut asking = open(&world, 100, 30);
    asking.key("what time is it?\r");
    wait_asked(&asking, "c1");
    let mut later = Screen::spawn(&world, &built("aish"), &["proj"], 100, 30);
    let looking = Screen::spawn(&world, &built("aish"), &["proj", "--read-only"], 100, 40);
    looking.wait_for(":confirm allow c1 --digest ");
    wait_asked(&later, "c1");
    later.key("y\r");
    for screen in [&asking, &later, &looking] {
        screen.wait_for("c1 allowed once by ");
        screen.wait_for("Noted.");
    }
}
