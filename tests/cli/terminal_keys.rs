//! The line editor of `aish`: lines of several rows, pastes, history, Tab; and the terminal given back in every way
//! that there is to leave.

use std::os::unix::fs::PermissionsExt as _;

use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Screen, World, built};
use rustix::process::Signal;

use crate::terminal::{open, wait_typed, world};

#[test]
fn the_terminal_is_given_back_however_it_ends() {
    let (_upstream, world, _daemon) = world();
    for (signal, code) in [(Signal::TERM, 143), (Signal::HUP, 129), (Signal::INT, 130)] {
        let mut screen = open(&world, 80, 24);
        screen.key("half typed");
        wait_typed(&screen, "half typed");
        assert!(!screen.is_as_before(), "the editor has it");
        screen.signal(signal);
        assert_eq!(code, screen.wait_end(), "{signal:?}");
        assert!(screen.is_as_before(), "{signal:?}");
        until_true("pastes to be keys again", || {
            screen.bytes().ends_with(b"\x1b[?2004l")
        });
    }
}

/// A window that shows answers as the model wrote them.
fn unlaid(world: &World) -> Screen {
    let arguments = ["proj", "--markdown", "never"];
    let screen = Screen::spawn(world, &built("aish"), &arguments, 80, 24);
    screen.wait_for("○");
    screen
}

/// A window that starts no daemon, because its socket was named.
pub(crate) fn bound(world: &World) -> Screen {
    bound_to(world, '○')
}

/// The same, where the prompt has this sign.
pub(crate) fn bound_to(world: &World, sign: char) -> Screen {
    let socket = world.socket();
    let arguments = ["proj", "--socket", socket.to_str().unwrap()];
    let screen = Screen::spawn(world, &built("aish"), &arguments, 80, 24);
    screen.wait_for(&sign.to_string());
    screen
}

/// A terminal that takes no output, as after Ctrl-S, holds up neither the signal nor the modes.
#[test]
fn a_stopped_terminal_does_not_keep_it() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    screen.key("why\r");
    gate.text("begun\n\n");
    screen.wait_for("begun");
    screen.stop();
    for _ in 0..200 {
        gate.text(&format!("{}\n\n", "many words ".repeat(40)));
    }
    gate.wait_written();
    screen.signal(Signal::TERM);
    assert_eq!(143, screen.wait_end());
    assert!(screen.is_as_before());
}

/// What could not be shown waits at the daemon, and comes when the terminal goes on.
#[test]
fn a_stopped_terminal_catches_up() {
    let (upstream, world, _daemon) = world();
    let mut screen = unlaid(&world);
    let mut other = open(&world, 80, 24);
    screen.stop();
    let piece = format!("{}\n", "x".repeat(1000)).repeat(100);
    upstream.answer_with(move |request| {
        let end = format!("the end of {}\n", request.question());
        let pieces = std::iter::repeat_n(piece.as_str(), 5);
        Answer::pieces(pieces.chain([end.as_str()]))
    });
    for question in ["one", "two", "three"] {
        other.key(&format!("{question}\r"));
        other.wait_for(&format!("the end of {question}"));
    }
    screen.go_on();
    for question in ["one", "two", "three"] {
        screen.wait_for(&format!("the end of {question}"));
    }
    screen.key("half");
    screen.wait_rows("the line", |rows| {
        rows.last().is_some_and(|it| it.ends_with("half"))
    });
}

/// The line is drawn by the window and not by the editor, so the key that empties the screen is the window's as well.
#[test]
fn ctrl_l_empties_the_screen_and_keeps_the_line() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    upstream.answer(Answer::text("an answer"));
    screen.key("a question\r");
    screen.wait_for("an answer");
    screen.key("half typed\u{1b}[D");
    wait_typed(&screen, "half typed");
    screen.key("\u{c}");
    screen.wait_rows("nothing but the line", |rows| {
        rows.len() <= 24
            && rows.last().is_some_and(|it| it.ends_with("○ half typed"))
            && rows.iter().filter(|it| !it.is_empty()).count() == 1
    });
    screen.key("X");
    wait_typed(&screen, "half typeXd");
}

/// Ctrl-Z gives the terminal to the shell; on `fg` the line is there again, and what was missed.
#[test]
fn a_stopped_job_comes_back_with_its_line_and_what_was_missed() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    screen.key("half typed\u{1b}[D\u{1b}[D");
    wait_typed(&screen, "half typed");
    screen.key("\u{1a}");
    until_true("the job to stop", || state(screen.pid()) == "T");
    assert!(screen.is_as_before(), "the shell has it");
    upstream.answer(Answer::text("meanwhile"));
    drop(
        world
            .ctl(&["ask", "-C", "proj", "while you were away"])
            .run()
            .ok(),
    );
    screen.signal(Signal::CONT);
    screen.wait_for("[aish] back (missed 3 lines)");
    screen.wait_for("› while you were away");
    screen.wait_for("meanwhile");
    wait_typed(&screen, "half typed");
    assert!(!screen.is_as_before());
    screen.key("X\r");
    assert_eq!("half typXed", upstream.wait_requests(2).question());
}

fn state(pid: u32) -> String {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(')')
        .next()
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .to_owned()
}

#[test]
fn a_line_may_have_several_rows() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    screen.key("first \\\r");
    screen.key("second\r");
    assert_eq!("first \nsecond", upstream.wait_requests(1).question());
    screen.key("look:\r");
    drop(upstream.wait_requests(2));
    screen.key("code:\\\r```rust\rfn a() {}\r\r```\r");
    assert_eq!(
        "code:\n```rust\nfn a() {}\n\n```",
        upstream.wait_requests(3).question()
    );
    screen.key("\u{1b}[200~one\rtwo\r\nthree\u{1b}[201~");
    screen.wait_rows("the paste", |rows| {
        rows.ends_with(&["two".into(), "three".into()])
    });
    assert_eq!(
        3,
        upstream.requests().len(),
        "a paste is not sent by its line ends"
    );
    screen.key("!\r");
    assert_eq!("one\ntwo\nthree!", upstream.wait_requests(4).question());
    screen.key("\u{1b}[200~#define X \\\r  1\u{1b}[201~\r");
    assert_eq!(
        "#define X \\\n  1",
        upstream.wait_requests(5).question(),
        "no backslash of a paste is lost"
    );
}

/// A paste that would fill the screen stands in the line as a mark, and is sent whole.
#[test]
fn a_huge_paste_is_a_mark_in_the_line_and_whole_in_the_question() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    let mut pasted = String::new();
    while pasted.len() < (1 << 20) - 100 {
        pasted.push_str(&format!("line {} of a paste, größer\n", pasted.len()));
    }
    pasted.push_str("end");
    screen.key("sum this up: ");
    screen.key(&format!("\u{1b}[200~{pasted}\u{1b}[201~"));
    screen.wait_rows("the mark", |rows| {
        rows.last().is_some_and(|it| it.ends_with(" bytes]"))
    });
    assert!(screen.rows().len() < 5, "{:?}", screen.rows());
    screen.key(" please\r");
    let request = upstream.wait_requests(1);
    let body = request.json().to_string();
    let whole = serde_json::to_string(&pasted).unwrap();
    assert!(body.contains(whole.trim_matches('"')), "every byte of it");
    screen.wait_for("Hello from the model.");
    // As large as no question may be: it is told, and the line is what it was.
    screen.key("half");
    screen.key(&format!(
        "\u{1b}[200~{}\u{1b}[201~",
        "y".repeat((1 << 20) + 1)
    ));
    screen.wait_for("[aish] that paste is");
    wait_typed(&screen, "half");
}

/// Bytes that are no text do not end the line.
#[test]
fn bytes_that_are_no_text_are_left_out() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    screen.key_bytes(b"a\xff\xc3(b\x80\r");
    assert_eq!("a(b", upstream.wait_requests(1).question());
}

#[test]
fn lines_are_remembered_for_the_next_window_but_not_those_behind_a_space() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    for (n, line) in ["first question", " a secret", "second question"]
        .iter()
        .enumerate()
    {
        screen.key(&format!("{line}\r"));
        drop(upstream.wait_requests(n + 1));
    }
    let mut next = open(&world, 80, 24);
    next.key("\u{1b}[A");
    wait_typed(&next, "second question");
    next.key("\u{1b}[A");
    wait_typed(&next, "first question");
    next.key("\u{3}\u{12}sec");
    next.wait_for("(reverse-i-search)`sec': second question");
    next.key("\u{5}!\r");
    assert_eq!("second question!", upstream.wait_requests(4).question());
    let file = world.state().join("history");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(
        text.contains("second question!") && !text.contains("secret"),
        "{text}"
    );
    assert_eq!(
        0o600,
        std::fs::metadata(file).unwrap().permissions().mode() & 0o777
    );
}

#[test]
fn tab_completes_commands_and_names() {
    let (_upstream, world, _daemon) = world();
    drop(world.ctl(&["conv", "new", "another one"]).run().ok());
    let mut screen = open(&world, 80, 24);
    screen.key(":sw\t");
    wait_typed(&screen, ":switch");
    screen.key(" an\t");
    wait_typed(&screen, ":switch another one");
    screen.key("\r");
    screen.wait_for("[aish] attached to another one (1 here");
    screen.wait_rows("the new prompt", |rows| {
        rows.last().is_some_and(|it| it.starts_with("another"))
    });
}

/// The daemon is gone under a half-typed line: the prompt says so, the line stays, and what is sent meanwhile
/// arrives once.
#[test]
fn a_daemon_that_dies_takes_no_line_with_it() {
    let (upstream, world, daemon) = world();
    let mut screen = bound(&world);
    screen.key("half");
    wait_typed(&screen, "half");
    daemon.kill9();
    screen.wait_for("[aish] lost the connection to aishd; trying again");
    screen.wait_line("proj · test ! half");
    screen.key(" typed\r");
    screen.wait_for("[aish] kept until aishd is back");
    screen.key("and more");
    screen.wait_line("proj · test ! and more");
    let _daemon = world.daemon().spawn();
    screen.wait_for("[aish] back (missed ");
    screen.wait_for("Hello from the model.");
    wait_typed(&screen, "and more");
    let asked: Vec<String> = upstream.requests().iter().map(|it| it.question()).collect();
    assert_eq!(vec!["half typed"], asked);
    let answers = screen
        .rows()
        .iter()
        .filter(|it| it.contains("Hello from"))
        .count();
    assert_eq!(1, answers, "{:?}", screen.rows());
}

/// Nobody is kept at a terminal by a daemon that is not there, and what he said is not lost silently.
#[test]
fn a_window_without_a_daemon_can_be_left() {
    let (_upstream, world, daemon) = world();
    let mut screen = bound(&world);
    daemon.kill9();
    screen.wait_line("proj · test !");
    screen.key("half typed\r");
    screen.wait_for("[aish] kept until aishd is back");
    screen.key("\u{4}");
    assert_eq!(0, screen.wait_end());
    screen.wait_for("[aish] not sent: half typed");
    assert!(screen.is_as_before());
}

/// Rows by the thousand above a half-typed line.
#[test]
fn ten_thousand_rows_come_in_batches() {
    let (upstream, world, _daemon) = world();
    let mut screen = unlaid(&world);
    let text: String = (0..10_000).map(|it| format!("row {it}\n")).collect();
    upstream.answer(Answer::text(&text));
    screen.key("why\rhalf");
    let began = std::time::Instant::now();
    screen.wait_rows("the last row", |rows| {
        rows.iter().rev().take(30).any(|it| it == "row 9999")
    });
    println!("10,000 rows in {:?}", began.elapsed());
    wait_typed(&screen, "half");
    let rows: Vec<String> = screen
        .rows()
        .into_iter()
        .filter(|it| it.starts_with("row "))
        .collect();
    let expected: Vec<String> = (0..10_000).map(|it| format!("row {it}")).collect();
    assert_eq!(expected, rows);
    let bytes = screen.bytes();
    let prompts = String::from_utf8_lossy(&bytes)
        .matches("proj · test")
        .count();
    assert!(
        prompts < 1000,
        "the prompt is drawn {prompts} times: not once for every row"
    );
}

#[test]
fn plain_glyphs_are_there_for_who_wants_them() {
    let (_upstream, world, _daemon) = world();
    let mut screen = Screen::spawn(&world, &built("aish"), &["proj", "--plain"], 80, 24);
    screen.wait_line("proj, test -");
    screen.key("abc");
    screen.wait_line("proj, test - abc");
}

/// However many pastes stand in a line, the question has the text of each; a line that Up brings back never has a mark
/// whose text is not there.
#[test]
fn twenty_pastes_in_one_line_are_whole_in_the_question_and_no_mark_is_remembered() {
    let (upstream, world, _daemon) = world();
    let mut screen = open(&world, 80, 24);
    upstream.answer(Answer::text("that is all"));
    screen.key("before\r");
    screen.wait_for("that is all");
    let texts: Vec<String> = (0..20)
        .map(|it| format!("row of paste {it}\n").repeat(40))
        .collect();
    for text in &texts {
        screen.key(&format!("\u{1b}[200~{text}\u{1b}[201~"));
    }
    upstream.answer(Answer::text("that is long"));
    screen.key("\r");
    let asked = upstream.wait_requests(2).question();
    assert_eq!(texts.concat().trim_end(), asked);
    // While it runs, Ctrl-C is for the turn.
    screen.wait_for("that is long");
    screen.wait_line("proj · test ○");
    screen.key("\u{1b}[A");
    wait_typed(&screen, "before");
    // A short one comes back as its text.
    let short = "a row\n".repeat(20);
    upstream.answer(Answer::text("that is short"));
    screen.key(&format!("\u{3}\u{1b}[200~{short}\u{1b}[201~end\r"));
    let whole = format!("{short}end");
    assert_eq!(whole, upstream.wait_requests(3).question());
    screen.wait_for("that is short");
    screen.wait_line("proj · test ○");
    screen.key("\u{1b}[A!\r");
    assert_eq!(whole + "!", upstream.wait_requests(4).question());
}
