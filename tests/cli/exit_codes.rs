//! Every exit code that exists, each with a real cause. Scripts branch on them.

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;

use aish_testkit::{Answer, Upstream, World, built, wait};
use rustix::process::Signal;

use crate::shell::shell;

/// A cause: what the model server says, and the line of a shell that meets it.
struct Case {
    code: i32,
    answer: fn() -> Answer,
    line: &'static str,
    /// In stdout, and in stderr.
    out: &'static str,
    err: &'static str,
}

fn plain() -> Answer {
    Answer::text("The answer.")
}

const CASES: &[Case] = &[
    Case {
        code: 0,
        answer: plain,
        line: "ask why",
        out: "The answer.\n",
        err: "",
    },
    Case {
        code: 1,
        answer: || Answer::text("I will").finish(Some("content_filter")),
        line: "ask why",
        out: "I will\n",
        err: "the model refused",
    },
    Case {
        code: 1,
        answer: || Answer::text("half of").then_cut(),
        line: "ask why",
        out: "half of\n",
        err: "cut",
    },
    Case {
        code: 1,
        answer: || Answer::text("half of").then_reset(),
        line: "ask why",
        out: "half of\n",
        err: "hint: aishctl retry",
    },
    Case {
        code: 5,
        answer: || Answer::status(500, "{\"error\":{\"message\":\"out of order\"}}"),
        line: "ask why",
        out: "",
        err: "out of order",
    },
    Case {
        code: 1,
        answer: || Answer::status(400, "{\"error\":{\"message\":\"bad tool name\"}}"),
        line: "ask why",
        out: "",
        err: "bad tool name",
    },
    Case {
        code: 1,
        answer: Answer::html,
        line: "ask why",
        out: "",
        err: "",
    },
    Case {
        code: 1,
        answer: || Answer::stream(),
        line: "ask why",
        out: "",
        err: "answered with nothing",
    },
    Case {
        code: 2,
        answer: plain,
        line: "ask --nonsense why",
        out: "",
        err: "unexpected argument",
    },
    Case {
        code: 2,
        answer: plain,
        line: "help nonsense",
        out: "",
        err: "there is no command nonsense",
    },
    Case {
        code: 2,
        answer: plain,
        line: "ask",
        out: "",
        err: "nothing to ask",
    },
    Case {
        code: 2,
        answer: plain,
        line: "rpc daemon/status '[]'",
        out: "",
        err: "params are not one JSON object",
    },
    Case {
        code: 4,
        answer: || Answer::status(401, "{\"error\":{\"message\":\"Incorrect API key\"}}"),
        line: "ask why",
        out: "",
        err: "Incorrect API key",
    },
    Case {
        code: 4,
        answer: || {
            Answer::status(
                403,
                "{\"error\":{\"message\":\"your API key is not for this model\"}}",
            )
        },
        line: "ask why",
        out: "",
        err: "your API key is not for this model",
    },
    Case {
        code: 1,
        answer: || Answer::status(403, "{\"error\":{\"message\":\"not for you\"}}"),
        line: "ask why",
        out: "",
        err: "not for you",
    },
    Case {
        code: 4,
        answer: plain,
        line: "ask -m keyless why",
        out: "",
        err: "NOBODYS_KEY",
    },
    Case {
        code: 5,
        answer: plain,
        line: "ask -m nobody why",
        out: "",
        err: "refused",
    },
    Case {
        code: 6,
        answer: plain,
        line: "ask --socket nowhere.sock why",
        out: "",
        err: "cannot reach aishd at nowhere.sock (no such file)\nhint: start it there: aishd --socket nowhere.sock",
    },
    Case {
        code: 7,
        answer: || Answer::text("all that fits").finish(Some("length")),
        line: "ask why",
        out: "all that fits\n",
        err: "hint: aishctl continue",
    },
    Case {
        code: 7,
        answer: plain,
        line: "ask --strict why <big",
        out: "",
        err: "the input is over",
    },
    Case {
        code: 8,
        answer: plain,
        line: "ask -C prjo why",
        out: "",
        err: "unknown conversation \"prjo\" — did you mean \"proj\"?\nhint: aishctl conv ls",
    },
    Case {
        code: 8,
        answer: plain,
        line: "ask -m tset why",
        out: "",
        err: "tset",
    },
    Case {
        code: 8,
        answer: plain,
        line: "cancel -C zzzz",
        out: "",
        err: "unknown conversation \"zzzz\"\n",
    },
    Case {
        code: 8,
        answer: plain,
        line: "queue drop 3",
        out: "",
        err: "no waiting turn 3\nhint: aishctl queue list",
    },
    Case {
        code: 124,
        answer: || Answer::text("so far\n").then_stall(),
        line: "ask --timeout 800ms why",
        out: "so far\n",
        err: "the time is over",
    },
    Case {
        code: 130,
        answer: || Answer::text("so far\n").then_stall(),
        line: "ask why & pid=$!; until [ -s out ]; do :; done; kill -INT $pid; wait $pid",
        out: "so far\n",
        err: "",
    },
    Case {
        code: 141,
        answer: || Answer::text("so far\n").then_stall(),
        line: "ask why",
        out: "",
        err: "",
    },
    Case {
        code: 143,
        answer: || Answer::text("so far\n").then_stall(),
        line: "ask why & pid=$!; until [ -s out ]; do :; done; kill -TERM $pid; wait $pid",
        out: "so far\n",
        err: "",
    },
];

/// Rows of the table that nothing in this version can cause yet.
const LATER: [i32; 3] = [3, 9, 10];

#[test]
fn every_code_has_a_real_cause() {
    let upstream = Upstream::start();
    let world = World::new();
    let more = format!(
        "{}[models.nobody]\nendpoint = \"{}\"\nmodel = \"m\"\n{}",
        upstream.config("test"),
        Upstream::nobody(),
        upstream.preset("keyless", "key_env = \"NOBODYS_KEY\""),
    );
    world.write_config(&more);
    let _daemon = world.daemon().spawn();
    world.write("work/big", &"x".repeat(3 << 20));
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let mut met = BTreeSet::new();
    for case in CASES {
        let before = upstream.requests().len();
        upstream.answer_with(move |_| (case.answer)());
        let script = match case.code {
            // Its reader goes away before anything is written.
            141 => {
                "exec 3>&1; { aishctl ask why; echo $? >code; } | { exec <&-; }; exit $(cat code)"
                    .to_owned()
            }
            // In the background, so that the shell can send the signal.
            130 | 143 => format!(
                ": >out; aishctl {} ; code=$?; cat out; exit $code",
                case.line.replacen(" &", " >out &", 1)
            ),
            _ => format!("aishctl {}", case.line),
        };
        let finished = shell(&world, &script).run();
        let fits = finished.code == case.code
            && finished.out() == case.out
            && finished.err().contains(case.err);
        assert!(
            fits,
            "{} should be {} with {:?}, {:?}\n{}",
            case.line,
            case.code,
            case.out,
            case.err,
            finished.report()
        );
        let quiet = case.err.is_empty() && case.code != 1;
        assert_eq!(quiet, finished.err().is_empty(), "{}", finished.report());
        assert!(
            upstream.requests().len() <= before + 1,
            "nothing is asked twice: {}",
            case.line
        );
        met.insert(case.code);
    }
    met.extend(LATER);
    // Those of the daemon that does not start have tests of their own below.
    met.insert(78);
    // And that of a terminal that hangs up, among the terminals.
    met.insert(129);
    let printed = world.ctl(&["help", "exit-codes"]).run().ok();
    let codes: BTreeSet<i32> = printed
        .out()
        .lines()
        .map(|it| it.split_whitespace().next().unwrap().parse().unwrap())
        .collect();
    assert_eq!(codes, met);
}

/// A program that was opened for writing here might be so in what another test starts meanwhile, and could not be
/// run: a process of its own copies it.
fn install(from: &std::path::Path, to: &std::path::Path) {
    let mut install = std::process::Command::new("install");
    let done = install.args(["-m", "700"]).args([from, to]).status();
    assert!(done.unwrap().success(), "{}", to.display());
}

/// An `aishctl` in a folder of its own, and this `aishd` beside it.
fn installed(world: &World, daemon: Option<&str>) -> std::path::PathBuf {
    let folder = world.path("bin");
    std::fs::create_dir_all(&folder).unwrap();
    install(&built("aishctl"), &folder.join("aishctl"));
    if let Some(script) = daemon {
        world.write("aishd.sh", &format!("#!/bin/sh\n{script}\n"));
        install(&world.path("aishd.sh"), &folder.join("aishd"));
    }
    folder.join("aishctl")
}

#[test]
fn a_daemon_that_does_not_start_is_6_or_78_and_shows_why() {
    let world = World::new();
    let ask = |daemon| {
        world
            .program(&installed(&world, daemon), &["ask", "why"])
            .run()
    };
    let none = ask(None).code(6);
    assert!(
        none.err()
            .contains("there is none beside aishctl to start\nhint: "),
        "{}",
        none.err()
    );
    let broken = ask(Some("echo 'the disk is on fire' >&2; exit 74")).code(6);
    assert!(
        broken
            .err()
            .contains("aishd did not start\n  the disk is on fire\nhint: its log is "),
        "{}",
        broken.err()
    );
    let no_program = ask(Some("exec /nonexistent")).code(6);
    assert!(
        no_program.err().contains("aishd did not start"),
        "{}",
        no_program.err()
    );
    world.write_config("[models.fast]\nendpiont = \"http://127.0.0.1:1\"\n");
    let invalid = world.ctl(&["ask", "why"]).run().code(78);
    assert!(
        invalid.err().contains("endpiont") && invalid.err().contains("config.toml"),
        "{}",
        invalid.err()
    );
    let json = world.ctl(&["ask", "--json", "why"]).run().code(78).json();
    assert_eq!("invalidConfig", json["error"]["class"]);
    assert_eq!(Vec::<u32>::new(), world.daemon_pids());
}

/// A daemon that takes connections and says nothing is not waited for without end.
#[test]
fn a_daemon_that_does_not_answer_is_6() {
    let world = World::new();
    let daemon = world.daemon().spawn();
    daemon.signal(Signal::STOP);
    let silent = world.ctl(&["status"]).run().code(6);
    assert!(silent.err().contains("hint: "), "{}", silent.err());
    daemon.signal(Signal::CONT);
    wait::until_true("it to answer again", || {
        world.ctl(&["status"]).run().code == 0
    });
}

#[test]
fn a_full_queue_is_7() {
    let upstream = Upstream::start();
    let world = World::new();
    world.write_config(&format!(
        "{}[limits]\nmax_queue_per_conversation = 1\n",
        upstream.config("test")
    ));
    let _daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let (answer, _gate) = Answer::by_hand();
    upstream.answer(answer);
    let ask = |args: &[&str]| {
        world
            .ctl(&[&["ask", "-C", "proj", "--detach", "why"], args].concat())
            .run()
    };
    drop(ask(&[]).ok());
    drop(ask(&[]).ok());
    let full = ask(&[]).code(7);
    assert!(
        full.err().contains("queue") && full.err().contains("hint: "),
        "{}",
        full.err()
    );
    let busy = ask(&["--mode", "reject"]).code(1);
    assert!(busy.err().contains("hint: "), "{}", busy.err());
}

/// The answer is kept by a daemon that comes back; what it was writing when it died is told apart from it.
#[test]
fn an_interrupted_answer_is_1_with_what_came() {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let mut asking = world.ctl_spawn(&["ask", "why"]);
    asking.close_stdin();
    gate.text("one line\n");
    asking.line_with("one line");
    daemon.kill9();
    let finished = asking.wait().code(1);
    assert_eq!("one line\n", finished.out());
    assert!(
        finished.err().contains("lost the connection") && finished.err().contains("interrupted"),
        "{}",
        finished.err()
    );
    assert_eq!(1, world.daemon_pids().len());
}

#[test]
fn a_state_directory_that_is_not_ours_is_a_failure_with_a_reason() {
    let world = World::new();
    std::fs::set_permissions(world.path("state"), std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(world.path("state/aish"), "a file in the way").unwrap();
    let refused = world.ctl(&["ask", "why"]).run().code(6);
    assert!(
        refused.err().contains(&world.state().display().to_string()),
        "{}",
        refused.err()
    );
}
