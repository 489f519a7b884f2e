//! Answers on a terminal: laid out as they come, and only there.

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{ConversationListParams, List};
use aish_proto::event::TextDelta;
use aish_testkit::pty::OnTerminal;
use aish_testkit::{Answer, Daemon, Upstream, World};
use rustix::process::Signal;

use crate::shell::{shell, shell_on_terminal};

fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

/// On a terminal of 40 columns. Its stderr is none, so what is seen is what was written to stdout.
fn on_terminal(world: &World, line: &str) -> OnTerminal {
    let line = format!("stty cols 40; exec env TERM=xterm {line} 2>err");
    shell_on_terminal(world, &line)
}

const ANSWER: &str = "# Why\n\nThe *linker* cannot find `libssl`, so **nothing** was linked.\n\n- [x] look\n- install\n\n```sh\nls \u{1b}[2J\n```\n\nCMD: ls /usr/lib\n";

/// What a terminal gets of the answer.
#[track_caller]
fn check(line: &str, expected: &str) {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|_| Answer::pieces(ANSWER.split_inclusive(' ')));
    let mut asking = on_terminal(&world, &format!("{line} --confirm deny"));
    assert_eq!(3, asking.wait(), "{}", asking.seen());
    let last = expected.lines().last().unwrap();
    asking.wait_for(last);
    assert_eq!(expected, asking.seen().trim_end_matches('\n'), "{line}");
    upstream.finish();
}

#[test]
fn a_terminal_gets_rows_with_looks() {
    check(
        "aishctl ask why",
        "\u{1b}[1;4mWhy\u{1b}[0m\n\nThe \u{1b}[3mlinker\u{1b}[0m cannot find \u{1b}[36mlibssl\u{1b}[0m, so\n\u{1b}[1mnothing\u{1b}[0m was linked.\n\n\u{1b}[2m☑ \u{1b}[0mlook\n\u{1b}[2m• \u{1b}[0minstall\n\n\u{1b}[2m```sh\u{1b}[0m\n\u{1b}[34mls\u{1b}[0m \u{1b}[35m[\u{1b}[0m2J\n\u{1b}[2m```\u{1b}[0m\n\n\u{1b}[1mCMD: ls /usr/lib\u{1b}[0m",
    );
}

#[test]
fn without_colour_the_markers_stay_and_no_escape_comes() {
    let expected = "# Why\n\nThe *linker* cannot find `libssl`, so\n**nothing** was linked.\n\n☑ look\n• install\n\n```sh\nls [2J\n```\n\nCMD: ls /usr/lib";
    check("NO_COLOR=1 aishctl ask why", expected);
    check("aishctl ask --color never why", expected);
}

#[test]
fn words_instead_of_signs_where_they_are_asked_for() {
    let expected = "heading 1: Why\n\nThe linker cannot find libssl, so\nnothing was linked.\n\n- done: look\n- install\n\ncode sh:\nls [2J\nend of code\n\nCMD: ls /usr/lib";
    check("NO_COLOR=1 aishctl ask --plain why", expected);
    check("NO_COLOR=1 AISH_PLAIN=1 aishctl ask why", expected);
    check("NO_COLOR=1 LC_ALL=C aishctl ask why", expected);
}

#[test]
fn never_means_the_text_of_the_model() {
    check(
        "aishctl ask --markdown never why",
        ANSWER.replace('\u{1b}', "").trim_end(),
    );
}

/// A pipe gets Markdown only where that was asked for, and colours only where they were.
#[test]
fn a_pipe_gets_what_it_is_told() {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|_| Answer::text("a *b* of many words and more"));
    let out = |line: &str| shell(&world, line).run().ok().out().to_owned();
    assert_eq!("a *b* of many words and more\n", out("aishctl ask why"));
    assert_eq!(
        "a *b* of many words\nand more\n",
        out("LC_ALL=C.UTF-8 TERM=xterm COLUMNS=20 aishctl ask --markdown always why")
    );
    assert_eq!(
        "a \u{1b}[3mb\u{1b}[0m of many words\nand more\n",
        out("TERM=xterm COLUMNS=20 aishctl ask --markdown always --color always why")
    );
    upstream.finish();
}

/// A row is there before the model has ended its paragraph; what is held comes when the turn is stopped.
#[test]
fn rows_come_as_they_are_finished_and_nothing_is_lost() {
    let (upstream, world, _daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut asking = on_terminal(&world, "NO_COLOR=1 aishctl ask why");
    gate.text("# Title\nThese are words of a paragraph that is longer than a row ");
    asking.wait_for("# Title\nThese are words of a paragraph that is\n");
    let client = world.client();
    let open = client
        .done::<List>(ConversationListParams::default())
        .conversations;
    let mut follow = client.attach(open[0].id, ReplayStart::Now);
    follow.until_kind("replayComplete");
    gate.text("**of which");
    // The word to stop could be faster than the text.
    follow.until(|it| {
        it.read::<TextDelta>()
            .is_some_and(|it| it.text.contains("**of which"))
    });
    asking.signal(Signal::INT);
    asking.wait_for("longer than a row **of which\n");
    assert_eq!(130, asking.wait());
    gate.wait_hang_up();
}

#[test]
fn who_waits_sees_it_and_then_only_the_answer() {
    let (upstream, world, _daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut asking = shell_on_terminal(&world, "env TERM=xterm NO_COLOR=1 aishctl ask why");
    asking.wait_for("waiting for first token");
    gate.text("Here.");
    gate.finish();
    assert_eq!(0, asking.wait());
    asking.wait_for("Here.\n");
    assert!(
        asking.seen().ends_with("\r\u{1b}[KHere.\n"),
        "{:?}",
        asking.seen()
    );
    assert!(
        !asking.seen().trim_end().contains('\n'),
        "{:?}",
        asking.seen()
    );
    upstream.finish();
}

/// The transcript goes through the pager of the person who reads it, to the end or as far as they like.
#[test]
fn a_log_goes_through_the_pager() {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|_| Answer::text(&format!("a *b*\n\n{}", "row\n\n".repeat(20_000))));
    let ask = "aishctl conv new c && aishctl ask -C c why >/dev/null";
    drop(shell(&world, ask).run().ok());
    let seen = |line: &str, last: &str| {
        let mut shown = on_terminal(&world, &format!("NO_COLOR=1 {line}"));
        assert_eq!(0, shown.wait(), "{line}: {}", shown.seen());
        shown.wait_for(last);
        shown.seen()
    };
    assert_eq!(
        "PAGED › why\nPAGED a *b*\n",
        seen(
            "AISH_PAGER='sed -n \"s/^/PAGED /;1,2p\"' PAGER=false aishctl log c",
            "b*\n"
        )
    );
    // It ends after one row, which is no error.
    assert_eq!("› why\n", seen("PAGER='head -n 1' aishctl log c", "why\n"));
    let whole = seen("PAGER=false aishctl log --no-pager c", "row\n");
    assert!(
        whole.starts_with("› why\na *b*\n\nrow\n\nrow\n"),
        "{}",
        whole.len()
    );
    assert!(seen("PAGER=/nothing/there aishctl log c", "row\n").starts_with("› why\n"));
    let piped = shell(&world, "PAGER=false aishctl log c | head -n 2")
        .run()
        .ok();
    assert_eq!("› why\na *b*\n", piped.out());
    upstream.finish();
}
