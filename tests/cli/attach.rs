//! `attach` without a terminal: lines in, whole rows out; what several windows see, and a daemon that dies.

use std::time::Duration;

use aish_testkit::process::{kill9, wait_gone};
use aish_testkit::{Answer, Chance, Daemon, Running, Upstream, World};
use rustix::process::Signal;

use crate::shell::shell;

fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "demo"]).run().ok());
    (upstream, world, daemon)
}

/// A window on `demo` that has greeted.
#[track_caller]
fn window(world: &World, args: &[&str]) -> Running {
    let mut window = world.ctl_spawn(&[&["attach", "demo"], args].concat());
    window.line_with("[aish] attached to demo (");
    window
}

/// What it printed, without the lines of aish itself.
fn rows(stdout: &str) -> Vec<&str> {
    stdout
        .lines()
        .filter(|it| !it.starts_with("[aish] "))
        .collect()
}

#[test]
fn two_windows_see_the_same_whole_rows() {
    let (upstream, world, _daemon) = world();
    let mut chance = Chance::new();
    let answer = "größer als\nzwei Zeilen, 日本 🙂\n\nund Schluß";
    let pieces: Vec<String> = chance
        .cut(answer, 4)
        .into_iter()
        .map(str::to_owned)
        .collect();
    upstream.answer_with(move |_| {
        let begin = Answer::stream();
        pieces.iter().fold(begin, |it, piece| {
            it.then_text(piece).then_pause(Duration::from_millis(1))
        })
    });
    let mut one = window(&world, &[]);
    let mut two = window(&world, &[]);
    one.line_with("[aish] aish attached (2 here)");
    let mut expected = vec![];
    for turn in 0..4 {
        let asking = if turn % 2 == 0 { &mut one } else { &mut two };
        asking.write(&format!("question {turn}\n"));
        for each in [&mut one, &mut two] {
            each.line_with("und Schluß");
        }
        expected.push(format!("aish › question {turn}"));
        expected.extend(answer.lines().map(str::to_owned));
    }
    two.close_stdin();
    let two = two.wait().ok();
    one.line_with("[aish] aish left (1 here)");
    one.close_stdin();
    let one = one.wait().ok();
    assert_eq!(expected, rows(one.out()));
    assert_eq!(expected, rows(two.out()));
    assert_eq!(("", ""), (one.err(), two.err()));
    let later = shell(&world, "aishctl attach demo </dev/null").run().ok();
    let unnamed: Vec<&str> = expected
        .iter()
        .map(|it| it.trim_start_matches("aish "))
        .collect();
    assert_eq!(
        unnamed,
        rows(later.out()),
        "who comes later sees it too, without the names of those who left"
    );
    let tail = shell(&world, "aishctl attach demo --tail 2 </dev/null")
        .run()
        .ok();
    assert_eq!(unnamed[unnamed.len() - 2..], rows(tail.out()));
}

/// Both ask at once, many times: every row is whole, every question and answer there once, in one order for both.
#[test]
fn lines_typed_at_the_same_moment_are_put_in_one_order() {
    let (upstream, world, _daemon) = world();
    upstream
        .answer_with(|request| Answer::pieces(["answer to", " ", &request.question(), "\nend"]));
    let mut windows = [window(&world, &[]), window(&world, &[])];
    for turn in 0..5 {
        for (who, window) in windows.iter_mut().enumerate() {
            window.write(&format!("{who}.{turn}\n"));
        }
    }
    for window in &mut windows {
        for _ in 0..10 {
            window.line_with("end");
        }
        window.close_stdin();
    }
    let [one, two] = windows.map(|it| it.wait().ok());
    let answered = |text: &str| -> Vec<String> {
        rows(text)
            .into_iter()
            .filter(|it| it.starts_with("answer to "))
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(rows(one.out()), rows(two.out()));
    let answers = answered(one.out());
    for who in 0..2 {
        let ours: Vec<&String> = answers
            .iter()
            .filter(|it| it.contains(&format!(" {who}.")))
            .collect();
        let expected: Vec<String> = (0..5).map(|it| format!("answer to {who}.{it}")).collect();
        assert_eq!(expected.iter().collect::<Vec<_>>(), ours);
    }
    assert_eq!(30, rows(one.out()).len(), "{}", one.out());
    assert!(one.out().contains("[aish] queued #"), "{}", one.out());
}

#[test]
fn a_colon_is_a_command() {
    let (upstream, world, _daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut window = window(&world, &[]);
    window.write(":help\n");
    window.line_with("[aish] :help [COMMAND]");
    window.write(":nonsense\n");
    window.line_with("[aish] error: unrecognized subcommand 'nonsense'");
    window.write("!\n");
    window.line_with("[aish] what? (!COMMAND)");
    window.write("first\n");
    gate.text("begun\n");
    window.line_with("begun");
    window.write("second\nthird\n");
    window.line_with("[aish] queued #1 from you");
    window.line_with("[aish] queued #2 from you");
    window.write(":queue\n");
    window.line_with("1  second");
    window.line_with("2  third");
    window.write(":queue drop 1\n");
    window.line_with("1  third");
    window.write(":cancel\n");
    window.line_with("[aish] cancelled by ");
    gate.wait_hang_up();
    window.line_with("Hello from the model.");
    window.write(":conv rename demo other\n");
    window.line_with("[aish] this conversation is called other now");
    window.write(":quit\n");
    drop(window.wait().code(1));
    let questions: Vec<String> = upstream
        .requests()
        .iter()
        .map(aish_testkit::upstream::Request::question)
        .collect();
    assert_eq!(vec!["first", "third"], questions);
}

/// The end of input waits for the answers to what was sent; `:quit` does not.
#[test]
fn the_end_of_input_ends_it_after_the_answers() {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|request| {
        Answer::text(&format!("to {}", request.question())).then_pause(Duration::from_millis(50))
    });
    let piped = shell(
        &world,
        "printf 'one\\ntwo\\n:ask :three' | aishctl attach demo",
    )
    .run()
    .ok();
    assert_eq!(
        vec!["aish › one", "aish › two", "aish › :three"],
        rows(piped.out())
            .into_iter()
            .filter(|it| it.contains('›'))
            .collect::<Vec<_>>()
    );
    for answer in ["to one\n", "to two\n", "to :three\n"] {
        assert_eq!(1, piped.out().matches(answer).count(), "{}", piped.out());
    }
    upstream.answer(Answer::status(
        401,
        "{\"error\":{\"message\":\"Incorrect API key\"}}",
    ));
    let failed = shell(&world, "echo four | aishctl attach demo")
        .run()
        .code(4);
    assert!(
        failed.out().contains("Incorrect API key"),
        "{}",
        failed.out()
    );
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    drop(
        shell(
            &world,
            "printf 'five\\n:quit\\nsix\\n' | aishctl attach demo",
        )
        .run()
        .ok(),
    );
    gate.wait_request();
    assert!(!gate.hung_up(), "the conversation goes on");
    gate.finish();
    assert_eq!(5, upstream.requests().len());
}

/// Input that stops in the middle of a line while other things happen, and then ends there.
#[test]
fn a_last_line_without_its_end_is_a_line() {
    let (upstream, world, _daemon) = world();
    let mut window = window(&world, &[]);
    window.write("half a");
    drop(world.ctl(&["ask", "-C", "demo", "meanwhile"]).run().ok());
    window.line_with("Hello from the model.");
    window.close_stdin();
    drop(window.wait().ok());
    assert_eq!("half a", upstream.wait_requests(2).question());
}

/// The daemon dies under an attached window, again and again: the next one is started, and no row is lost or doubled.
#[test]
fn a_killed_daemon_is_replaced_and_every_row_comes_once() {
    let (upstream, world, daemon) = world();
    upstream.answer_with(|request| Answer::text(&format!("to {}\nall of it", request.question())));
    let mut window = window(&world, &[]);
    let mut expected = vec![];
    let mut daemon = Some(daemon);
    for turn in 0..5 {
        window.write(&format!("question {turn}\n"));
        window.line_with("all of it");
        expected.extend([
            format!("aish › question {turn}"),
            format!("to question {turn}"),
            "all of it".to_owned(),
        ]);
        match daemon.take() {
            Some(first) => first.kill9(),
            None => {
                let pid = world.daemon_pids()[0];
                kill9(pid);
                wait_gone(pid);
            }
        }
        window.line_with("[aish] lost the connection to aishd; trying again");
        window.line_with("[aish] back (missed ");
        assert_eq!(1, world.daemon_pids().len());
    }
    window.close_stdin();
    let finished = window.wait().ok();
    assert_eq!(expected, rows(finished.out()), "{}", finished.out());
}

/// Killed in the middle of an answer: what was shown is not shown again, and the end is told.
#[test]
fn an_answer_that_the_death_of_the_daemon_cut_is_told() {
    let (upstream, world, daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut window = window(&world, &[]);
    window.write("why\n");
    gate.text("one line\nand");
    window.line_with("one line");
    daemon.kill9();
    window.line_with("[aish] interrupted: aishd ended");
    window.write(":retry\n");
    window.line_with("Hello from the model.");
    window.close_stdin();
    let finished = window.wait();
    assert_eq!(
        1,
        finished.out().matches("one line\n").count(),
        "{}",
        finished.out()
    );
    assert_eq!(
        1,
        finished.out().matches("Hello from the model.\n").count(),
        "{}",
        finished.out()
    );
}

#[test]
fn a_read_only_window_sends_nothing() {
    let (upstream, world, _daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut looking = window(&world, &["--read-only"]);
    let mut asking = window(&world, &[]);
    looking.write("mine\n:now this\n");
    looking.line_with("[aish] this window is read-only");
    looking.line_with("[aish] this window is read-only");
    asking.write("theirs\n");
    gate.text("begun\n");
    looking.line_with("begun");
    looking.write(":cancel\n");
    looking.line_with("[aish] ");
    looking.signal(Signal::INT);
    looking.line_with("[aish] Ctrl-D detaches");
    assert!(!gate.hung_up());
    gate.finish();
    looking.close_stdin();
    asking.close_stdin();
    drop(asking.wait().ok());
    let looked = looking.wait();
    assert!(
        !looked.out().contains("mine") && looked.out().contains("theirs"),
        "{}",
        looked.out()
    );
    assert_eq!(1, upstream.requests().len());
}

#[test]
fn ctrl_c_cancels_for_everyone_and_twice_leaves() {
    let (upstream, world, _daemon) = world();
    let mut one = window(&world, &[]);
    let mut two = window(&world, &[]);
    one.signal(Signal::INT);
    one.line_with("[aish] Ctrl-D detaches; the conversation goes on");
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    one.write("why\n");
    gate.text("begun\n");
    one.line_with("begun");
    one.signal(Signal::INT);
    gate.wait_hang_up();
    one.line_with("[aish] cancelled by you");
    two.line_with("[aish] cancelled by aish");
    one.signal(Signal::INT);
    drop(one.wait().code(130));
    two.signal(Signal::TERM);
    drop(two.wait().code(143));
}

#[test]
fn what_cannot_be_attached_to_is_told() {
    let (_upstream, world, _daemon) = world();
    let unknown = shell(&world, "aishctl attach dmeo </dev/null")
        .run()
        .code(8);
    assert!(
        unknown
            .err()
            .contains("did you mean \"demo\"?\nhint: aishctl conv ls"),
        "{}",
        unknown.err()
    );
    let elsewhere = shell(&world, "aish dmeo </dev/null").run().code(8);
    assert!(
        elsewhere.err().starts_with("aish: unknown conversation"),
        "{}",
        elsewhere.err()
    );
    drop(shell(&world, "aish demo </dev/null").run().ok());
    let here = shell(&world, "aishctl attach </dev/null").run().ok();
    assert!(
        here.out().starts_with("[aish] attached to default ("),
        "no window has used another: {}",
        here.out()
    );
    let gone = shell(
        &world,
        "{ aishctl attach demo; echo $? >code; } </dev/null | { exec <&-; }",
    )
    .run();
    drop(gone);
}

#[test]
fn a_window_whose_conversation_is_deleted_goes_on_elsewhere() {
    let (_upstream, world, _daemon) = world();
    drop(world.ctl(&["conv", "new", "other"]).run().ok());
    let mut window = window(&world, &[]);
    drop(world.ctl(&["conv", "rm", "demo", "--yes"]).run().ok());
    let told = window.line_with("the conversation was deleted");
    assert!(told.contains(":switch CONV goes elsewhere"), "{told}");
    window.write(":switch other\n");
    window.line_with("[aish] attached to other (");
    window.close_stdin();
    drop(window.wait().ok());
}

/// A line is for the conversation that the window is on when it is typed, however fast the lines come.
#[test]
fn lines_around_a_switch_go_each_to_its_conversation() {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|request| Answer::text(&format!("to {}", request.question())));
    drop(world.ctl(&["conv", "new", "other"]).run().ok());
    let (mut here, mut there) = (vec![], vec![]);
    for turn in 0..8 {
        let (first, second) = (format!("before {turn}"), format!("after {turn}"));
        let mut window = window(&world, &[]);
        if turn % 2 == 0 {
            window.write(&format!("{first}\n:switch other\n{second}\n"));
        } else {
            window.write(&format!("{first}\n"));
            window.line_with(&format!("to {first}"));
            window.write(":switch other\n");
            window.line_with("[aish] attached to other (");
            window.write(&format!("{second}\n"));
        }
        window.close_stdin();
        let seen = window.wait().ok();
        assert!(
            seen.out().contains(&format!("to {second}")),
            "{}",
            seen.out()
        );
        here.push(first);
        there.push(second);
    }
    let mut failed = window(&world, &[]);
    failed.write(":switch nowhere\nstill here\n");
    failed.close_stdin();
    drop(failed.wait().ok());
    here.push("still here".to_owned());
    for (name, expected) in [("demo", here), ("other", there)] {
        let window = shell(
            &world,
            &format!("aishctl attach {name} --tail 200 </dev/null"),
        );
        let seen = window.run().ok();
        let asked: Vec<&str> = seen
            .out()
            .lines()
            .filter_map(|it| it.split_once("› "))
            .map(|it| it.1)
            .collect();
        assert_eq!(expected, asked, "{name}");
    }
}
