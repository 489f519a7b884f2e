//! Pictures of tools' results in the window, and below an answer of `ask`: drawn where the terminal can, between what is
//! printed, and never in it.

use std::path::Path;

use aish_testkit::{Answer, Daemon, Screen, Upstream, World, repository};

use crate::shell::{SETSID, session_on_screen, shell_on_terminal};
use crate::terminal::{open, wait_typed};

const ASKED: &str = "\u{1b}[c";
const ASKED_MORE: &str = "\u{1b}[?1;1;0S\u{1b}[16t\u{1b}[c";
const HAS_SIXELS: &str = "\u{1b}[?62;4c";
const HAS_MORE: &str = "\u{1b}[?1;0;256S\u{1b}[6;20;10t\u{1b}[?62;4c";
const SIXELS: &str = "\u{1b}P0;1;0q\"1;1;64;32#";

/// A daemon whose model has a tool that gives a chart.
fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::new();
    let script = repository::top().join("tests/data/mcp/stdio_server.py");
    world.write_config(&format!(
        "{}\n[mcp.servers.notes]\ncommand = \"python3\"\nargs = [{script:?}, \"chart\"]\n[mcp.auto_approve]\n\"notes__chart\" = true\n",
        upstream.config("test")
    ));
    let daemon = world.daemon().spawn();
    aish_testkit::wait::until_true("notes is ready", || {
        world.ctl(&["mcp", "ls"]).run().out().contains("ready")
    });
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    (upstream, world, daemon)
}

fn has(screen: &Screen, text: &str) -> bool {
    String::from_utf8_lossy(&screen.bytes()).contains(text)
}

/// Where the row of the picture's name stands.
#[track_caller]
fn place(screen: &Screen) -> usize {
    let rows = screen.rows();
    let at = rows
        .iter()
        .position(|it| it.starts_with("picture of notes__chart · "));
    at.unwrap_or_else(|| panic!("{rows:#?}"))
}

#[test]
fn a_picture_stands_below_its_call_and_the_line_below_the_picture() {
    let (upstream, world, _daemon) = world();
    upstream.answer(Answer::stream().then_call(0, "call_1", "notes__chart", "{}"));
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut screen = open(&world, 80, 24);
    assert!(!has(&screen, ASKED), "it is asked before it is needed");
    screen.answers(&[(ASKED, HAS_SIXELS), (ASKED_MORE, HAS_MORE)]);
    screen.key("draw it\r");
    screen.wait_for("picture of notes__chart · ");
    screen.key("typed meanwhile");
    screen.wait_line("proj · test ● typed meanwhile");
    let at = place(&screen);
    let rows = screen.rows();
    assert!(rows[at - 1].starts_with("  └ ok · "), "{rows:#?}");
    // 64 by 32 pixels are two rows of 20.
    let below = &rows[at + 1..];
    assert_eq!(vec!["", "", "proj · test ● typed meanwhile"], below);
    assert!(has(&screen, SIXELS));
    // None of what the terminal said of itself was typed.
    screen.resize(60, 20);
    screen.wait_line("proj · test ● typed meanwhile");
    gate.text("There it is.\n");
    gate.finish();
    screen.wait_for("There it is.");
    wait_typed(&screen, "typed meanwhile");
    let rows = screen.rows();
    let at = place(&screen);
    assert_eq!(vec!["", "", "There it is."], &rows[at + 1..at + 4]);
}

#[test]
fn a_picture_that_comes_late_waits_for_the_end_of_the_answer() {
    let (upstream, world, _daemon) = world();
    upstream.answer(Answer::stream().then_call(0, "call_1", "notes__chart", "{}"));
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut screen = open(&world, 80, 24);
    screen.key("draw it\r");
    screen.wait_bytes(ASKED);
    gate.text("One row.\n\nThe beginning of");
    screen.wait_for("One row.");
    screen.key(HAS_SIXELS);
    screen.wait_bytes(ASKED_MORE);
    // In two pieces, with a key between two answers.
    screen.key("\u{1b}[?1;0;256S\u{1b}[6;20;");
    screen.key("10tx\u{1b}[?62;4c");
    wait_typed_running(&screen, "x");
    gate.text(" another.\n");
    gate.finish();
    screen.wait_for("picture of notes__chart · ");
    wait_typed(&screen, "x");
    let rows = screen.rows();
    let one = rows.iter().position(|it| it == "One row.").expect("it");
    assert_eq!("The beginning of another.", rows[one + 2]);
    assert!(place(&screen) > one + 2, "{rows:#?}");
}

#[track_caller]
fn wait_typed_running(screen: &Screen, text: &str) {
    screen.wait_line(&format!("proj · test ● {text}"));
}

#[test]
fn what_a_terminal_does_not_draw_is_named() {
    let (upstream, world, _daemon) = world();
    for call in ["call_1", "call_2"] {
        upstream.answer(Answer::stream().then_call(0, call, "notes__chart", "{}"));
        upstream.answer(Answer::text("There it is."));
    }
    let mut screen = open(&world, 80, 24);
    screen.answers(&[(ASKED, "\u{1b}[?1;2c")]);
    screen.key("draw it\r");
    screen.wait_for("There it is.");
    wait_typed(&screen, "");
    screen.key("again\r");
    screen.wait_rows("both answers", |rows| {
        rows.iter().filter(|it| *it == "There it is.").count() == 2
    });
    wait_typed(&screen, "");
    let rows = screen.rows().join("\n");
    assert!(rows.contains("  │ [image image/png "), "{rows}");
    assert!(!rows.contains("picture of"), "{rows}");
    let asked = String::from_utf8_lossy(&screen.bytes())
        .matches(ASKED)
        .count();
    assert_eq!(1, asked);
    assert!(!has(&screen, "\u{1b}P"));
}

fn answer_with_chart(upstream: &Upstream) {
    upstream.answer(Answer::stream().then_call(0, "call_1", "notes__chart", "{}"));
    upstream.answer(Answer::text("There it is."));
}

#[test]
fn the_pictures_of_a_turn_stand_below_what_ask_prints() {
    let (upstream, world, _daemon) = world();
    answer_with_chart(&upstream);
    let line = "TERM=xterm-kitty aishctl ask draw it; echo ended $?";
    let drawn = shell_on_terminal(&world, line);
    drawn.wait_for("ended 0");
    let seen = drawn.seen();
    let (answer, picture) = seen.split_once("There it is.").expect("the answer");
    assert!(!answer.contains("\u{1b}_G"), "{seen:?}");
    let (name, drawing) = picture.split_once("\u{1b}_Ga=T,f=100,").expect("a picture");
    assert!(name.contains("picture of notes__chart · "), "{name:?}");
    assert!(name.contains(" · aishctl result "), "{name:?}");
    assert!(drawing.contains("ended 0"), "{drawing:?}");

    // Into a file goes the answer alone, and a terminal that draws nothing gets no bytes of a picture.
    for (line, shown) in [
        (
            "TERM=xterm-kitty aishctl ask draw it > a; cat a; echo ended $?",
            "There it is.\nended 0",
        ),
        (
            "TERM=linux aishctl ask draw it; echo ended $?",
            "There it is.\nended 0",
        ),
    ] {
        answer_with_chart(&upstream);
        let named = shell_on_terminal(&world, line);
        named.wait_for("ended 0");
        let seen = named.seen();
        assert!(
            seen.contains(shown) && !seen.contains("\u{1b}_G"),
            "{seen:?}"
        );
    }
}

#[test]
fn ask_asks_its_terminal_for_sixels_when_there_is_a_picture() {
    if !Path::new(SETSID).exists() {
        println!("skipped: there is no {SETSID}");
        return;
    }
    let (upstream, world, _daemon) = world();
    answer_with_chart(&upstream);
    let screen = session_on_screen(&world, "aishctl ask draw it; echo ended $?");
    screen.answers(&[(ASKED, HAS_SIXELS), (ASKED_MORE, HAS_MORE)]);
    screen.wait_for("ended 0");
    assert!(has(&screen, SIXELS));
    let at = place(&screen);
    let rows = screen.rows();
    assert_eq!("There it is.", rows[at - 2]);
    assert_eq!(vec!["", "", "ended 0"], &rows[at + 1..at + 4]);
}
