//! `ask` that ends early: signals, `--timeout`, a reader that goes away. The turn is stopped, for its tokens cost.

use std::time::Duration;

use aish_proto::attach::ReplayStart;
use aish_proto::conversation::{ConversationListParams, List};
use aish_proto::turn::{Get, StopReason, TurnParams};
use aish_testkit::upstream::gate::Gate;
use aish_testkit::wait::{PATIENCE, until, until_true};
use aish_testkit::{Answer, Daemon, Running, Upstream, World};
use rustix::process::Signal;

use crate::shell::{shell, shell_on_terminal};

fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

/// A question whose answer has begun with a line, and goes no further by itself.
fn begun(upstream: &Upstream, world: &World, args: &[&str]) -> (Gate, Running) {
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut asking = world.ctl_spawn(args);
    asking.close_stdin();
    gate.text("one line\nand a");
    asking.line_with("one line");
    (gate, asking)
}

/// How the only turn of the only conversation ended.
#[track_caller]
fn end_of_turn(world: &World) -> StopReason {
    let client = world.client();
    let conversations = client
        .done::<List>(ConversationListParams::default())
        .conversations;
    assert_eq!(1, conversations.len());
    let events = world.ctl(&["log", "--jsonl"]).run().ok();
    let turn = events
        .out()
        .lines()
        .find_map(|it| {
            serde_json::from_str::<aish_proto::envelope::Envelope>(it)
                .unwrap()
                .turn
        })
        .expect("there is a turn");
    let reason = || client.done::<Get>(TurnParams { turn }).stop_reason;
    until("the turn to end", PATIENCE, reason)
}

#[test]
fn a_signal_cancels_prints_what_came_and_is_the_exit_code() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (upstream, world, _daemon) = world();
        let (gate, asking) = begun(&upstream, &world, &["ask", "why"]);
        asking.signal(signal);
        gate.wait_hang_up();
        let finished = asking.wait().code(code);
        assert!(
            finished.out().starts_with("one line\n") && finished.out().ends_with('\n'),
            "{}",
            finished.out()
        );
        assert_eq!(StopReason::Cancelled, end_of_turn(&world));
    }
}

#[test]
fn json_of_a_cancelled_turn_has_what_came() {
    let (upstream, world, _daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut asking = world.ctl_spawn(&["ask", "--json", "why"]);
    asking.close_stdin();
    gate.text("so far");
    gate.wait_written();
    let client = world.client();
    let mut open = vec![];
    // The question may be at the model before it is on disk, and nobody sees it sooner than that.
    until_true("the conversation in the list", || {
        open = client
            .done::<List>(ConversationListParams::default())
            .conversations;
        !open.is_empty()
    });
    let mut follow = client.attach(open[0].id, ReplayStart::Start);
    // As a delta, or in the snapshot of who comes later.
    follow.until(|it| it.data.to_string().contains("so far"));
    asking.signal(Signal::INT);
    let report = asking.wait().code(130).json();
    assert_eq!(
        ("so far", "cancelled"),
        (
            report["text"].as_str().unwrap(),
            report["stop_reason"].as_str().unwrap()
        )
    );
}

/// The daemon stands still and can confirm nothing; the second signal does not wait for it.
#[test]
fn a_second_signal_ends_it_at_once() {
    let (upstream, world, daemon) = world();
    let (_gate, asking) = begun(&upstream, &world, &["ask", "why"]);
    daemon.signal(Signal::STOP);
    let pid = asking.pid();
    until_true("the end after two signals", || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        let ended = stat.rsplit(") ").next().unwrap().starts_with('Z');
        if !ended {
            asking.signal(Signal::INT);
        }
        ended
    });
    let finished = asking.wait_within(Duration::from_secs(1)).code(130);
    assert!(finished.out().starts_with("one line\n"));
    daemon.signal(Signal::CONT);
}

/// The question is with the daemon, its receipt is not here yet: a signal then must not leave a turn behind.
#[test]
fn a_signal_before_the_receipt_cancels_too() {
    for signal in [Signal::INT, Signal::TERM] {
        let upstream = Upstream::start();
        let world = World::with(&upstream);
        let daemon = world.daemon().failpoint("ask.before_store=stop").spawn();
        let (answer, _gate) = Answer::by_hand();
        upstream.answer(answer);
        let mut asking = world.ctl_spawn(&["ask", "why"]);
        asking.close_stdin();
        until_true("the daemon to stand still", || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.pid())).unwrap();
            stat.rsplit(") ").next().unwrap().starts_with('T')
        });
        asking.signal(signal);
        daemon.signal(Signal::CONT);
        let finished = asking.wait();
        assert!(matches!(finished.code, 130 | 143), "{}", finished.report());
        assert_eq!(StopReason::Cancelled, end_of_turn(&world));
    }
}

#[test]
fn a_timeout_is_124_and_the_server_sees_it() {
    let (upstream, world, _daemon) = world();
    let (gate, asking) = begun(&upstream, &world, &["ask", "--timeout", "1500ms", "why"]);
    gate.wait_hang_up();
    let finished = asking.wait().code(124);
    assert!(
        finished.out().starts_with("one line\n"),
        "{}",
        finished.out()
    );
    assert!(
        finished.err().contains("aishctl: the time is over") && finished.err().contains("hint: "),
        "{}",
        finished.err()
    );
    assert_eq!(StopReason::Cancelled, end_of_turn(&world));
}

#[test]
fn a_reader_that_has_enough_stops_the_turn() {
    let (upstream, world, _daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let line = "{ aishctl ask why; echo $? >code; } | head -1";
    let mut piping = shell(&world, line).spawn();
    piping.close_stdin();
    gate.wait_request();
    let mut lines = 0;
    until_true("the hang-up", || {
        lines += 1;
        gate.text(&format!("line {lines}\n"));
        gate.hung_up()
    });
    let finished = piping.wait().ok();
    assert_eq!(("line 1\n", ""), (finished.out(), finished.err()));
    assert_eq!(
        "141\n",
        std::fs::read_to_string(world.work().join("code")).unwrap()
    );
    assert_eq!(StopReason::Cancelled, end_of_turn(&world));
}

/// Nobody reads from the start; the exit code says so in every form.
#[test]
fn an_output_that_was_closed_early_is_141() {
    let (upstream, world, _daemon) = world();
    for form in ["", "--json", "--jsonl"] {
        let (answer, gate) = Answer::by_hand();
        upstream.answer(answer);
        let line = format!(
            "{{ aishctl ask {form} why; echo $? >code; }} | {{ exec <&-; echo gone >gone; }}"
        );
        let mut piping = shell(&world, &line).spawn();
        piping.close_stdin();
        until_true("the reader to go", || world.work().join("gone").exists());
        gate.text("a line\n");
        gate.finish();
        let finished = piping.wait().ok();
        assert_eq!(("", ""), (finished.out(), finished.err()), "{form}");
        assert_eq!(
            "141\n",
            std::fs::read_to_string(world.work().join("code")).unwrap(),
            "{form}"
        );
        std::fs::remove_file(world.work().join("gone")).unwrap();
    }
}

/// A full disk is told, not passed over.
#[test]
fn an_output_that_takes_nothing_is_an_error() {
    let (_upstream, world, _daemon) = world();
    let full = shell(&world, "aishctl ask why >/dev/full").run().code(1);
    assert!(
        full.err()
            .contains("cannot write the output: No space left"),
        "{}",
        full.err()
    );
}

#[test]
fn a_stopped_question_on_a_terminal_ends_too() {
    let (upstream, world, _daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut asking = shell_on_terminal(&world, "exec aishctl ask why");
    gate.text("half an answer\n\n");
    asking.wait_for("half an answer");
    asking.signal(Signal::INT);
    gate.wait_hang_up();
    assert_eq!(130, asking.wait());
}

/// The client is gone without a word; the turn goes on and its answer is kept.
#[test]
fn a_killed_client_loses_nothing() {
    let (upstream, world, _daemon) = world();
    let (gate, asking) = begun(&upstream, &world, &["ask", "why"]);
    asking.signal(Signal::KILL);
    drop(asking.wait().code(137));
    gate.text(" rest");
    gate.finish();
    drop(world.ctl(&["conv", "wait"]).run().ok());
    let log = world.ctl(&["log"]).run().ok();
    assert!(
        log.out().ends_with("one line\nand a rest\n"),
        "{}",
        log.out()
    );
}
