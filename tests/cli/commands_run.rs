//! Commands on a screen and in a script: the question, the frame, `!COMMAND`, and what never approves one.

use aish_proto::conversation::{ConversationListParams, List};
use aish_proto::shell::{Cancel, CancelParams, Run, ShellRunParams};
use aish_testkit::wait::{PATIENCE, until};
use aish_testkit::{Answer, Daemon, Screen, Upstream, World, built};
use rustix::process::Signal;

use crate::shell::shell_on_terminal;
use crate::terminal::open;
use crate::terminal_asked::wait_asked;
use crate::terminal_keys::{bound, bound_to};

/// The model proposes this, and says "Noted." to everything after it.
fn world(text: &str) -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let text = text.to_owned();
    let mut said = false;
    upstream.answer_with(move |_| {
        if std::mem::replace(&mut said, true) {
            return Answer::text("Noted.");
        }
        Answer::text(&text)
    });
    let daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    (upstream, world, daemon)
}

/// So many lines of the screen say that a command waits for another.
#[track_caller]
fn wait_queued(screen: &Screen, count: usize) {
    screen.wait_rows("a command to wait", |rows| {
        let waits = rows.iter().filter(|it| it.contains("it begins when"));
        waits.count() == count
    });
}

/// A row that is nothing but this.
#[track_caller]
fn wait_row(screen: &Screen, row: &str) {
    screen.wait_rows(row, |rows| rows.iter().any(|it| it == row));
}

/// One person's command runs while another one's answer is written: on both screens the code is code, and what the command
/// prints stands behind it.
#[test]
fn a_command_and_an_answer_at_the_same_time_do_not_cut_into_each_other() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let (mut asks, mut runs) = (open(&world, 80, 30), open(&world, 60, 30));
    let (begun, go) = (world.path("begun"), world.path("go"));
    asks.key("write it\r");
    gate.wait_request();
    gate.text("```\nfirst\nsec");
    for screen in [&asks, &runs] {
        wait_row(screen, "first");
    }
    let command = format!(
        "!echo printed; touch {}; while [ ! -e {} ]; do sleep 0.02; done",
        begun.display(),
        go.display()
    );
    runs.key(&format!("{command}\r"));
    until("the command to have printed", PATIENCE, || {
        begun.exists().then_some(())
    });
    gate.text("ond\nthird\n");
    for screen in [&asks, &runs] {
        wait_row(screen, "third");
    }
    gate.text("```\n\nAnd that is it.\n\n");
    for screen in [&asks, &runs] {
        screen.wait_for("  │ printed");
    }
    gate.text("The end.\n");
    gate.finish();
    for screen in [&asks, &runs] {
        wait_row(screen, "The end.");
    }
    std::fs::write(&go, "").unwrap();
    for screen in [&asks, &runs] {
        screen.wait_for("  └ exit 0");
    }
    let rows = asks.rows();
    let code = rows.iter().position(|it| it == "```").unwrap();
    assert_eq!(
        ["```", "first", "second", "third", "```", "  ┌ echo"],
        [&rows[code..code + 5], &[rows[code + 5][..10].to_owned()]].concat()[..],
    );
    // Here the line stands in the code that was sent with it; nothing else does.
    let rows = runs.rows();
    let code = rows.iter().position(|it| it == "second").unwrap();
    assert_eq!(["second", "third", "```"], rows[code..code + 3], "{rows:?}");
}

#[test]
fn a_proposed_command_is_asked_about_and_stands_in_a_frame() {
    let (upstream, world, _daemon) = world("I look.\n\nCMD: printf 'a\\033[2Jb\\n'; echo c");
    let mut screen = open(&world, 100, 30);
    screen.key("look\r");
    wait_asked(&screen, "c1", "CMD  printf");
    screen.wait_for("level 3 execute");
    screen.key("y\r");
    screen.wait_for("c1 allowed once by ");
    screen.wait_for("  ┌ printf");
    screen.wait_for("  │ a[2Jb");
    screen.wait_for("  │ c");
    screen.wait_for("  └ exit 0");
    screen.key("and now?\r");
    screen.wait_for("Noted.");
    let asked = upstream.requests().last().unwrap().question();
    assert!(
        asked.contains("c\n```") && asked.ends_with("and now?"),
        "{asked}"
    );
}

/// `ask` on a terminal: a row above the frame, and none in it.
#[test]
fn a_frame_has_no_holes() {
    let (_upstream, world, _daemon) =
        world("I look.\n\nCMD: echo a; sleep 0.2; echo b; sleep 0.2; echo c");
    let mut screen = Screen::spawn(
        &world,
        &built("aishctl"),
        &["ask", "-C", "proj", "look"],
        100,
        30,
    );
    screen.wait_for("CMD  echo a");
    // What is typed in the first moment is no answer.
    std::thread::sleep(std::time::Duration::from_millis(400));
    screen.key("y\r");
    screen.wait_for("  └ exit 0");
    assert_eq!(0, screen.wait_end());
    let rows = screen.rows();
    let begin = rows.iter().position(|it| it.starts_with("  ┌ echo a"));
    let frame = &rows[begin.unwrap() - 1..];
    assert_eq!("", frame[0], "{rows:#?}");
    assert_eq!(["  │ a", "  │ b", "  │ c"], frame[2..5], "{rows:#?}");
    assert!(frame[5].starts_with("  └ exit 0"), "{rows:#?}");
}

#[test]
fn what_may_destroy_wants_the_whole_word() {
    let (upstream, world, _daemon) = world("CMD: rm -rf gone");
    let mut screen = open(&world, 100, 60);
    screen.key("clean up\r");
    wait_asked(&screen, "c1", "CMD  rm -rf gone");
    screen.wait_for("only the whole word yes allows it");
    screen.key("\u{1b}y");
    let hint = "only the whole word yes allows this; nothing happened";
    for (before, typed) in ["y", "Y", "a", "YES", "yes."].iter().enumerate() {
        screen.key(&format!("{typed}\r"));
        screen.wait_rows("the hint", |rows| {
            rows.iter().filter(|it| it.contains(hint)).count() == before + 2
        });
    }
    assert_eq!(
        1,
        upstream.requests().len(),
        "no word of these is a question"
    );
    screen.key("yes\r");
    screen.wait_for("  └ exit 0");
    screen.wait_rows("nothing was queued", |rows| {
        !rows.iter().any(|it| it.contains("queued #"))
    });
}

/// An editor that leaves this command.
fn editor(world: &World, command: &str) -> String {
    world.write("edited", &format!("{command}\n"));
    let script = format!("cat {} > \"$1\"\n", world.path("edited").display());
    world.write("editor.sh", &script);
    format!("sh {}", world.path("editor.sh").display())
}

/// What is shown after an edit is what would run, with its parts and why it is dangerous, and nothing else
/// can be allowed by then.
#[test]
fn another_command_is_shown_as_what_it_is_before_it_runs() {
    let (upstream, world, daemon) = world("CMD: echo orig");
    assert_eq!(0, daemon.terminate());
    let editor = editor(&world, "echo new; rm -rf nothere");
    let config = upstream.config("test");
    world.write_config(&format!("{config}\n[ui]\neditor = \"{editor}\"\n"));
    let _daemon = world.daemon().spawn();
    let mut screen = open(&world, 100, 40);
    screen.key("look\r");
    wait_asked(&screen, "c1", "CMD  echo orig");
    screen.key("e\r");
    screen.wait_for("? c1  CMD  echo new; rm -rf nothere");
    wait_asked(&screen, "c1", "CMD  echo new");
    for shown in [
        "  runs echo new",
        "  runs rm -rf nothere",
        "  ! deletes directories and all that is in them",
        "  with your arguments: yes, once",
    ] {
        screen.wait_for(shown);
    }
    screen.key("v\r");
    screen.wait_rows("all of it, and of nothing else", |rows| {
        let asked = rows.iter().filter(|it| it.contains("runs rm -rf nothere"));
        let old = rows.iter().filter(|it| it.contains("runs echo orig"));
        asked.count() == 2 && old.count() == 0
    });
    screen.key("yes\r");
    screen.wait_for("c1 allowed with other arguments by ");
    screen.wait_for("  │ new");
    screen.wait_for("  └ exit 0");
    screen.key("and now?\r");
    screen.wait_for("Noted.");
    let asked = upstream.requests().last().unwrap().question();
    assert!(
        asked.starts_with("[aish] the user changed the command that you proposed"),
        "{asked}"
    );
}

/// The same where a person answers from the command line, and where a script says the text itself.
#[test]
fn the_command_line_shows_an_edited_command_too() {
    let (_upstream, world, _daemon) = world("CMD: echo orig");
    let asking = world.ctl_spawn(&["ask", "--no-stdin", "--confirm=ask", "look"]);
    let waits = || world.ctl(&["confirm", "ls", "--json"]).run().ok().json();
    let digest = until("the question", PATIENCE, || {
        let digest = waits()["confirms"][0]["request"]["digest"].clone();
        digest.as_str().map(str::to_owned)
    });
    let edited = r#"{"command":"echo new; rm -rf nothere"}"#;
    let line = format!("exec aishctl confirm edit c1 --arguments '{edited}'");
    let mut shown = shell_on_terminal(&world, &line);
    shown.wait_for("runs rm -rf nothere");
    shown.wait_for("! deletes directories and all that is in them");
    shown.wait_for("type yes to allow it: ");
    assert!(!shown.seen().contains("orig"), "{}", shown.seen());
    shown.signal(Signal::TERM);
    shown.wait();
    let edit = ["confirm", "edit", "c1", "--arguments", edited, "--digest"];
    let line = [&edit[..], &[&digest[..12]]].concat();
    let done = world.ctl(&line).run().ok();
    assert_eq!("c1 allowed with other arguments\n", done.out());
    let asked = asking.wait().ok();
    assert!(
        asked.err().contains("  ┌ echo new; rm -rf nothere")
            && asked.err().contains(&format!(": {edited}")),
        "{}",
        asked.report()
    );
}

#[test]
fn a_persons_command_runs_at_once_and_ctrl_c_ends_it() {
    let (_upstream, world, _daemon) = world("CMD: true");
    let mut screen = open(&world, 100, 30);
    screen.key("!echo mine; cd /\r");
    screen.wait_for("  │ mine");
    screen.wait_for("  │ [aish] commands run in / from now on");
    screen.wait_for("  └ exit 0");
    screen.key("!echo begun; sleep 7031\r");
    screen.wait_for("  │ begun");
    screen.key("\u{3}");
    screen.wait_for("  └ cancelled");
    screen.key("!cd /tmp\r");
    screen.wait_for("  │ directory: /tmp");
}

/// One window begins a command, and both show that there is work; the line of the second one is this.
#[track_caller]
fn begun_in_one(first: &mut Screen, second: &Screen, seconds: u32, line: &str) {
    first.key(&format!("!sleep {seconds}\r"));
    first.wait_line("proj · test ●");
    second.wait_for(&format!("  ┌ sleep {seconds}"));
    second.wait_line(format!("proj · test ● {line}").trim_end());
}

/// It is work as an answer is.
#[test]
fn a_persons_command_is_seen_as_work_and_every_terminal_can_stop_it() {
    let (_upstream, world, _daemon) = world("CMD: true");
    let (mut first, mut second) = (bound(&world), bound(&world));
    begun_in_one(&mut first, &second, 7041, "");
    let status = |args: &[&str]| world.ctl(args).run().ok().out().to_owned();
    let told = status(&["status"]);
    assert!(told.contains("1 running (1 of them a command)"), "{told}");
    assert_eq!("aish ●1\n", status(&["status", "--format", "tmux"]));
    let told = status(&["conv", "status", "proj"]);
    assert!(
        told.contains("● proj\n") && told.contains("  state     running · !sleep 7041\n"),
        "{told}"
    );
    // The line that is half typed there stays.
    second.key("half a line");
    second.wait_line("proj · test ● half a line");
    second.key("\u{3}");
    first.wait_for("  └ cancelled");
    first.wait_rows("who it was", |rows| {
        rows.iter().any(|it| it.starts_with("[aish] cancelled by "))
    });
    first.wait_line("proj · test ○");
    second.wait_line("proj · test ○ half a line");

    begun_in_one(&mut first, &second, 7042, "half a line");
    let told = status(&["cancel", "proj"]);
    assert_eq!("stopped !sleep 7042 in proj\n", told);
    second.wait_line("proj · test ○ half a line");
    assert_eq!("nothing runs in proj\n", status(&["cancel", "proj"]));

    // In the window that began it the line stays as well.
    begun_in_one(&mut first, &second, 7043, "half a line");
    first.key("mine");
    first.wait_line("proj · test ● mine");
    first.key("\u{3}");
    first.wait_line("proj · test ○ mine");
    second.wait_line("proj · test ○ half a line");

    // Who comes later finds it running.
    second.key("\u{15}");
    second.wait_line("proj · test ○");
    second.key("!sleep 7044\r");
    second.wait_for("  ┌ sleep 7044");
    second.key("\u{4}");
    assert_eq!(0, second.wait_end());
    let mut third = bound_to(&world, '●');
    third.key(":cancel\r");
    third.wait_for("stopped !sleep 7044 in proj");
    third.wait_line("proj · test ○");
}

/// A command that waits is in no log, so that only the window can tell that it will never run.
#[test]
fn a_command_that_waited_when_its_daemon_was_killed_is_told_to_have_never_begun() {
    let (_upstream, world, daemon) = world("CMD: true");
    let mut screen = bound(&world);
    screen.key("!echo begun; sleep 7033\r");
    screen.wait_for("  │ begun");
    screen.key("!echo second > second\r");
    screen.wait_for("it begins when the commands before it have ended");
    daemon.kill9();
    screen.wait_for("[aish] lost the connection to aishd; trying again");
    let daemon = world.daemon().spawn();
    screen.wait_for("[aish] back (missed ");
    screen.wait_for("  └ interrupted: what it did is not known");
    screen.wait_for("[aish] not run: aishd ended before it began: !echo second > second");
    screen.key("!ls\r");
    screen.wait_for("  └ exit 0");
    assert!(!world.work().join("second").exists());

    // Who leaves while nobody can say what became of it is told that.
    screen.key("!sleep 7034\r");
    screen.wait_for("  ┌ sleep 7034");
    screen.key("!echo third > third\r");
    wait_queued(&screen, 2);
    daemon.kill9();
    screen.wait_line("proj · test !");
    screen.key("\u{4}");
    screen.wait_for("not known whether it will run, for it waited: !echo third > third");
    assert_eq!(0, screen.wait_end());
}

#[test]
fn a_command_that_waits_can_be_taken_back_and_an_ordered_stop_says_what_it_kept_from_running() {
    let (_upstream, world, daemon) = world("CMD: true");
    let mut screen = bound(&world);
    let other = world.person("pts/9");
    let listed = other
        .done::<List>(ConversationListParams::default())
        .conversations;
    let sleep = |seconds: &str| ShellRunParams {
        conversation: listed[0].id,
        command: format!("sleep {seconds}"),
        cwd: None,
        into_context: false,
    };
    let long = other.done::<Run>(sleep("7035")).call;
    screen.wait_for("  ┌ sleep 7035");
    screen.key("!echo second > second\r");
    screen.wait_for("it begins when the commands before it have ended");
    screen.key("\u{3}");
    screen.wait_for("  ✗ echo second > second");
    screen.wait_for("    not run: cancelled before it began");
    let params = CancelParams {
        conversation: listed[0].id,
        call: long,
    };
    assert!(other.done::<Cancel>(params).cancelled, "it ran on");
    screen.wait_for("  └ cancelled");

    other.done::<Run>(sleep("7036"));
    screen.wait_for("  ┌ sleep 7036");
    screen.key("!echo third > third\r");
    wait_queued(&screen, 2);
    assert_eq!(0, daemon.terminate());
    let _daemon = world.daemon().spawn();
    screen.wait_for("[aish] back (missed ");
    screen.wait_for("  ✗ echo third > third");
    screen.wait_for("    not run: aishd ended before it began");
    screen.key("!ls\r");
    screen.wait_for("  └ exit 0");
    let rows = screen.rows();
    assert!(
        !rows.iter().any(|it| it.contains("[aish] not run")),
        "{rows:?}"
    );
    let left: Vec<_> = ["second", "third"]
        .iter()
        .filter(|it| world.work().join(it).exists())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// What draws on a whole screen has none to draw on, and what it prints steers none.
#[test]
fn a_program_that_wants_a_terminal_leaves_the_screen_whole() {
    let (_upstream, world, _daemon) = world("CMD: true");
    let mut screen = open(&world, 100, 30);
    screen.key("!vim file\r");
    screen.wait_for("commands have no terminal here");
    screen.wait_for("  └ ");
    screen.key("!printf '\\033[?1049h\\033[2J\\033[31mred\\033]0;title\\007\\n'; stty size\r");
    screen.wait_for("[31mred]0;title");
    screen.wait_rows("the prompt", |rows| {
        rows.last().is_some_and(|it| it.ends_with('○'))
            && rows
                .iter()
                .any(|it| it.starts_with("[aish] attached to proj"))
    });
    screen.key("\u{4}");
    assert_eq!(0, screen.wait_end());
    assert!(screen.is_as_before());
}

/// In a window, at `ask` and in the log.
#[test]
fn who_wants_it_plain_sees_no_boxes() {
    let (_upstream, world, _daemon) = world("CMD: true");
    let run = world
        .ctl(&["attach", "proj", "--tail", "0", "--plain"])
        .stdin("!echo mine\n")
        .run()
        .ok();
    let rows = ["  run: echo mine\n", "  out: mine\n", "  end: exit 0, "];
    assert!(
        rows.iter().all(|it| run.out().contains(it)),
        "{}",
        run.report()
    );
    let ask = world
        .ctl(&["ask", "--confirm=deny", "do it"])
        .env("AISH_PLAIN", "1")
        .run()
        .code(3);
    assert!(ask.err().contains("  refused: true\n"), "{}", ask.report());
    let log = world
        .ctl(&["log", "proj"])
        .env("AISH_PLAIN", "1")
        .run()
        .ok();
    assert!(
        rows.iter().all(|it| log.out().contains(it)),
        "{}",
        log.report()
    );
    for shown in [run.out(), ask.err(), log.out()] {
        assert!(!shown.contains(['┌', '│', '└', '✗']), "{shown}");
    }
}

#[test]
fn lines_in_a_pipe_run_one_after_another() {
    let (upstream, world, _daemon) = world("I see.");
    let run = world
        .ctl(&["attach", "proj", "--tail", "0"])
        .stdin("!sleep 0.3; echo one > file\n!cat file\n!cd /\n!pwd\nwhat is that?\n")
        .run()
        .ok();
    let out = run.out();
    let places = ["  │ one\n", "  │ /\n", "I see."].map(|it| out.find(it));
    assert!(
        places.is_sorted() && places[0].is_some(),
        "{}",
        run.report()
    );
    let asked = upstream.requests().last().unwrap().question();
    assert!(
        asked.contains("one\n```") && asked.contains("/\n```"),
        "{asked}"
    );
}

#[test]
fn in_a_pipe_a_command_is_run_and_waited_for() {
    let (_upstream, world, _daemon) = world("CMD: true");
    let run = world
        .ctl(&["attach", "proj", "--tail", "0"])
        .stdin("!sleep 0.2; echo from the pipe\n")
        .run()
        .ok();
    assert!(run.out().contains("  │ from the pipe"), "{}", run.report());
}

#[test]
fn a_script_is_told_that_nothing_ran_and_no_pattern_helps() {
    let (_upstream, world, _daemon) = world("CMD: touch ran");
    let run = world.ctl(&["ask", "--confirm=deny", "do it"]).run().code(3);
    assert!(run.err().contains("not run:"), "{}", run.report());
    let allowing = world.ctl(&["ask", "--confirm=allow:shell__*", "do it"]);
    drop(allowing.run().code(1));
    assert!(!world.work().join("ran").exists());
}
