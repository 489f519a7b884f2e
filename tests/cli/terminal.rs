//! `aish` on a terminal: what stands on the screen, and what the keys do.

use aish_testkit::{Answer, Daemon, Screen, Upstream, World, built};
use rustix::process::Signal;

pub(crate) fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    (upstream, world, daemon)
}

/// A window on `proj` whose prompt stands.
#[track_caller]
pub(crate) fn open(world: &World, columns: u16, rows: u16) -> Screen {
    let screen = Screen::spawn(world, &built("aish"), &["proj"], columns, rows);
    screen.wait_for("[aish] attached to proj (");
    screen.wait_rows("the prompt", |rows| {
        rows.last().is_some_and(|it| it.ends_with('○'))
    });
    screen
}

/// A slow model is read word by word, above the line, and what it wrote stands there once.
#[test]
fn an_answer_is_seen_as_it_is_written() {
    let (upstream, world, _daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut screen = open(&world, 60, 24);
    screen.key("why\r");
    gate.wait_request();
    for (piece, word) in [("It", "It"), (" is **ve", "ve"), ("ry** cold", "cold")] {
        gate.text(piece);
        screen.wait_rows("what came so far, above the line", |rows| {
            let mut rows = rows.iter().rev().filter(|it| !it.is_empty());
            let line = rows.next().is_some_and(|it| it.contains("proj · test"));
            line && rows.next().is_some_and(|it| it.ends_with(word))
        });
    }
    gate.text(" outside.");
    gate.finish();
    screen.wait_rows("the answer, once", |rows| {
        rows.last().is_some_and(|it| it.ends_with('○'))
            && rows.iter().filter(|it| it.contains("outside")).count() == 1
    });
    println!("{}", screen.rows().join("\n"));
}

#[test]
fn a_question_stands_where_it_was_typed_and_the_answer_below_it() {
    let (upstream, world, _daemon) = world();
    upstream.answer(Answer::text("one\ntwo"));
    let mut screen = open(&world, 80, 24);
    screen.key("why\r");
    screen.wait_for("two");
    screen.wait_rows("the prompt", |rows| {
        rows.last().is_some_and(|it| it.ends_with('○'))
    });
    println!("{}", screen.rows().join("\n"));
    screen.key("\u{4}");
    assert_eq!(0, screen.wait_end());
    assert!(screen.is_as_before());
}

/// Thinking between tags is no part of the answer on a screen.
#[test]
fn tags_of_thinking_are_not_shown_as_the_answer() {
    let (upstream, world, _daemon) = world();
    upstream.answer(Answer::pieces(["<thi", "nk>a plan</th", "ink>\n\nfour"]));
    let mut screen = open(&world, 80, 24);
    screen.key("two and two\r");
    screen.wait_for("four");
    screen.wait_rows("the prompt", |rows| {
        rows.last().is_some_and(|it| it.ends_with('○'))
    });
    let rows = screen.rows().join("\n");
    assert!(!rows.contains("think>"), "{rows}");
    screen.key("\u{4}");
    assert_eq!(0, screen.wait_end());
}

/// What stands under the last prompt is the line being typed.
#[track_caller]
pub(crate) fn wait_typed(screen: &Screen, text: &str) {
    let line = format!("proj · test ○ {text}");
    screen.wait_rows(&format!("the line {text:?}"), |rows| {
        rows.last().is_some_and(|it| *it == line.trim_end())
    });
}

/// Rows of Markdown of this terminal's width, also for who comes in the middle.
#[test]
fn answers_are_laid_out_in_rows_of_the_width_of_each_terminal() {
    let (upstream, world, _daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut wide = open(&world, 80, 24);
    wide.key("why\r");
    gate.text("It is **very** simple, and this sentence is longer than forty columns.\n\n");
    wide.wait_for("It is very simple, and this sentence is longer than forty columns.");
    let narrow = Screen::spawn(&world, &built("aish"), &["proj"], 40, 20);
    narrow.wait_for("It is very simple, and this sentence is");
    narrow.wait_for("longer than forty columns.");
    gate.text("- *one*\n");
    gate.finish();
    for screen in [&wide, &narrow] {
        screen.wait_rows("the list", |rows| {
            rows.iter()
                .any(|it| it.ends_with("one") && !it.contains('*'))
        });
    }
}

/// Each row of the table.
#[test]
fn ctrl_c_cancels_and_keeps_the_line_or_clears_it_or_hints() {
    let (upstream, world, _daemon) = world();
    let mut one = open(&world, 80, 24);
    let two = open(&world, 60, 20);
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    one.key("why\r");
    gate.text("begun\n\n");
    one.wait_for("begun");
    one.wait_line("proj · test ●");
    one.key("half typed");
    one.wait_line("proj · test ● half typed");
    one.key("\u{1b}[D\u{1b}[D\u{3}");
    gate.wait_hang_up();
    one.wait_for("[aish] cancelled by you");
    two.wait_for("[aish] cancelled by pts/");
    wait_typed(&one, "half typed");
    let (row, column) = one.cursor();
    assert_eq!(
        ("proj · test ○ half typed", 22),
        (row.as_str(), column),
        "the cursor too"
    );
    one.key("X");
    wait_typed(&one, "half typXed");
    // More than two seconds later it would clear the line; a person waits, a test takes another window.
    let mut three = open(&world, 80, 24);
    three.key("something else");
    wait_typed(&three, "something else");
    three.key("\u{3}");
    wait_typed(&three, "");
    three.key("\u{3}");
    three.wait_for("[aish] Ctrl-D detaches; the conversation goes on");
    three.key("\u{4}");
    assert_eq!(0, three.wait_end());
    one.wait_for("left (2 here)");
    wait_typed(&one, "half typXed");
}

#[test]
fn ctrl_c_twice_leaves_and_the_terminal_is_as_before() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    screen.key("why\r");
    gate.text("begun\n\n");
    screen.wait_for("begun");
    screen.wait_line("proj · test ●");
    assert!(!screen.is_as_before());
    screen.key("half\u{3}");
    screen.wait_for("cancelled by you");
    screen.key("\u{3}");
    assert_eq!(130, screen.wait_end());
    assert!(screen.is_as_before());
}

/// A window in which `why` was typed while the daemon hangs.
fn unanswered(daemon: &Daemon, world: &World) -> Screen {
    let mut screen = open(world, 80, 24);
    daemon.signal(Signal::STOP);
    screen.key("why\r");
    screen.wait_for("[aish] not answered yet; the line is kept");
    screen
}

/// What was typed is asked once, whether the daemon comes to itself or dies of it.
#[test]
fn a_daemon_that_hangs_takes_no_line_with_it() {
    let (upstream, world, daemon) = world();
    let screen = unanswered(&daemon, &world);
    daemon.signal(Signal::CONT);
    screen.wait_for("Hello from the model.");
    daemon.signal(Signal::STOP);
    daemon.kill9();
    screen.wait_for("[aish] back (missed ");
    assert_eq!("why", upstream.wait_requests(1).question());
    assert_eq!(1, upstream.requests().len());
}

#[test]
fn a_daemon_that_is_killed_while_it_hangs_takes_no_line_with_it() {
    let (upstream, world, daemon) = world();
    let screen = unanswered(&daemon, &world);
    daemon.kill9();
    screen.wait_for("[aish] back (missed ");
    screen.wait_for("Hello from the model.");
    let asked: Vec<String> = upstream.requests().iter().map(|it| it.question()).collect();
    assert_eq!(vec!["why"], asked);
}

#[test]
fn a_window_on_a_daemon_that_hangs_can_be_left_and_says_what_was_not_sent() {
    let (_upstream, world, daemon) = world();
    let mut screen = unanswered(&daemon, &world);
    screen.key("\u{4}");
    assert_eq!(0, screen.wait_end());
    screen.wait_for("[aish] not sent: why");
    assert!(screen.is_as_before());
    daemon.signal(Signal::CONT);
}
