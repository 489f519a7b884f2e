//! `ask`: what comes out, in every form and wherever its input and output are.

use aish_proto::envelope::{Envelope, EventData as _};
use aish_proto::event::TurnFinished;
use aish_testkit::{Answer, Chance, Daemon, Finished, Upstream, World};
use serde_json::{Value, json};

use crate::shell::{shell, shell_on_terminal};

fn world() -> (Upstream, World, Daemon) {
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    (upstream, world, daemon)
}

/// The events of `--jsonl`, each line of which must be one.
#[track_caller]
fn events(text: &str) -> Vec<Envelope> {
    let read = |line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    text.lines().map(read).collect()
}

/// The answer in what a form printed.
#[track_caller]
fn answer_in(form: &str, stdout: &str) -> String {
    match form {
        "--json" => {
            let report: Value = serde_json::from_str(stdout).unwrap();
            assert_eq!(1, stdout.lines().count());
            assert_eq!(
                (1, "end"),
                (
                    report["v"].as_i64().unwrap(),
                    report["stop_reason"].as_str().unwrap()
                )
            );
            assert_eq!(
                (7, Value::Null),
                (
                    report["usage"]["input_tokens"].as_i64().unwrap(),
                    report["cost_usd"].clone()
                )
            );
            report["text"].as_str().unwrap().to_owned()
        }
        "--jsonl" => {
            let events = events(stdout);
            let stored: Vec<u64> = events
                .iter()
                .filter_map(|it| it.seq)
                .map(|it| it.0)
                .collect();
            assert!(stored.windows(2).all(|it| it[0] < it[1]), "{stored:?}");
            let last = events.last().unwrap();
            assert_eq!(TurnFinished::KIND, last.kind);
            last.data["text"].as_str().unwrap().to_owned()
        }
        _ => stdout
            .strip_suffix('\n')
            .expect("the last line is ended")
            .to_owned(),
    }
}

const MODEL_SAYS: &str = "It \u{1b}[1mis\u{1b}[0m 42 — größer als 41.\nReally\u{9b}2J.";
const SHOWN: &str = "It [1mis[0m 42 — größer als 41.\nReally2J.";

/// Stdin {pipe, /dev/null, closed, terminal} by stdout {pipe, file} by form by `NO_COLOR`.
#[test]
fn the_answer_is_the_same_wherever_input_and_output_are() {
    let (upstream, world, _daemon) = world();
    upstream.answer_with(|_| Answer::pieces(MODEL_SAYS.split_inclusive(' ')));
    let mut asked = 0;
    for stdin in ["printf data |", "</dev/null", "<&-", "terminal"] {
        for output in ["| cat >out", ">out"] {
            for form in ["", "--json", "--jsonl"] {
                for colour in ["", "NO_COLOR=1", "CLICOLOR_FORCE=1"] {
                    let case = format!("{stdin} {output} {form} {colour}");
                    let (before, after) = match stdin {
                        "printf data |" => (stdin, ""),
                        "terminal" => ("", ""),
                        redirection => ("", redirection),
                    };
                    let line = format!(
                        "{before} env {colour} aishctl ask {form} why {after} {output} 2>err"
                    );
                    let code = if stdin == "terminal" {
                        shell_on_terminal(&world, &line).wait()
                    } else {
                        shell(&world, &line).run().code
                    };
                    asked += 1;
                    let read = |name| std::fs::read_to_string(world.work().join(name)).unwrap();
                    let (out, err) = (read("out"), read("err"));
                    assert_eq!((0, ""), (code, err.as_str()), "{case}");
                    assert!(
                        !out.chars().any(|it| it.is_control() && it != '\n'),
                        "{case}: {out:?}"
                    );
                    let expected = if form.is_empty() { SHOWN } else { MODEL_SAYS };
                    assert_eq!(expected, answer_in(form, &out), "{case}");
                    let question = upstream.wait_requests(asked).question();
                    assert_eq!(
                        stdin == "printf data |",
                        question.contains("data"),
                        "{case}: {question}"
                    );
                }
            }
        }
    }
    upstream.finish();
}

/// Both ends are a terminal that can do nothing: the text, made safe and laid out, and no more.
#[test]
fn on_a_terminal_nothing_but_text_arrives() {
    let (upstream, world, _daemon) = world();
    let hostile = "one\u{1b}]0;title\u{7}two\u{202e}three\rfour\u{8}\nlast 👩\u{200d}💻";
    upstream.answer_with(move |_| Answer::text(hostile));
    let mut asking = shell_on_terminal(&world, "aishctl ask why");
    assert_eq!(0, asking.wait());
    asking.wait_for("last 👩\u{200d}💻\n");
    assert_eq!("one]0;titletwothreefour last 👩\u{200d}💻\n", asking.seen());
    let mut asking = shell_on_terminal(&world, "aishctl ask --json why");
    assert_eq!(0, asking.wait());
    asking.wait_for("}\n");
    let shown = asking.seen();
    assert!(
        !shown.chars().any(|it| it.is_control() && it != '\n'),
        "{shown:?}"
    );
    assert_eq!(
        hostile,
        serde_json::from_str::<Value>(&shown).unwrap()["text"]
    );
}

/// Any bytes that are a string, cut anywhere: no control character but line feeds, tabs and returns passes, all
/// that can be seen does, and JSON has it exactly.
#[test]
fn hostile_text_is_harmless_and_whole() {
    let (upstream, world, _daemon) = world();
    let mut chance = Chance::new();
    let alphabet: Vec<char> = ('\0'..='\u{ff}')
        .chain("日🙂é\u{202e}\u{200b}\u{2028}👩\u{200d}💻".chars())
        .collect();
    for _ in 0..20 {
        let text: String = (0..400).map(|_| *chance.pick(&alphabet)).collect();
        let pieces: Vec<String> = chance
            .cut(&text, 9)
            .into_iter()
            .map(str::to_owned)
            .collect();
        upstream.answer_with(move |_| Answer::pieces(pieces.iter().map(String::as_str)));
        let plain = world.ctl(&["ask", "why"]).run().ok();
        let expected: String = text
            .chars()
            .filter(|it| matches!(it, '\n' | '\t' | '\r') || !it.is_control())
            .collect();
        let ended = if expected.ends_with('\n') { "" } else { "\n" };
        assert_eq!(format!("{expected}{ended}"), plain.out());
        let json = world.ctl(&["ask", "--json", "why"]).run().ok();
        assert!(
            !json.stdout[..json.stdout.len() - 1]
                .iter()
                .any(|it| *it < 0x20)
        );
        assert_eq!(text, json.json()["text"]);
    }
}

#[test]
fn there_is_one_final_newline() {
    let (upstream, world, _daemon) = world();
    for (said, printed) in [
        ("x", "x\n"),
        ("x\n", "x\n"),
        ("x\n\n", "x\n\n"),
        ("\n", "\n"),
    ] {
        upstream.answer(Answer::text(said));
        assert_eq!(printed, world.ctl(&["ask", "why"]).run().ok().out());
    }
}

#[test]
fn four_mebibytes_arrive_byte_for_byte() {
    let (upstream, world, _daemon) = world();
    let text = "0123456789abcde\n".repeat(4 << 16);
    assert_eq!(4 << 20, text.len());
    let said = text.clone();
    upstream.answer_with(move |_| {
        let pieces = said.as_bytes().chunks(16 << 10);
        Answer::pieces(pieces.map(|it| str::from_utf8(it).unwrap()))
    });
    let plain = world.ctl(&["ask", "why"]).run().ok();
    assert!(
        plain.stdout == text.as_bytes(),
        "{} bytes",
        plain.stdout.len()
    );
    let json = world.ctl(&["ask", "--json", "why"]).run().ok();
    assert!(
        json.json()["text"] == text.as_str(),
        "{} bytes",
        json.stdout.len()
    );
    let slow = shell(
        &world,
        "aishctl ask why | { read one; cat >/dev/null; echo $one; }",
    )
    .run()
    .ok();
    assert_eq!("0123456789abcde\n", slow.out());
}

#[test]
fn two_hundred_questions_in_a_row_are_answered() {
    let (upstream, world, daemon) = world();
    upstream.answer_with(|request| Answer::text(&format!("to {}", request.question())));
    let line =
        "i=0; while [ $i -lt 200 ]; do aishctl ask $i </dev/null || exit 9; i=$((i + 1)); done";
    let finished = shell(&world, line)
        .limit(std::time::Duration::from_secs(120))
        .run()
        .ok();
    let expected: String = (0..200).map(|it| format!("to {it}\n")).collect();
    assert_eq!(expected, finished.out());
    assert_eq!("", finished.err());
    assert_eq!(vec![daemon.pid()], world.daemon_pids());
}

/// What a model thinks between tags is nothing that a script gets, however the stream was cut.
#[test]
fn thinking_is_no_part_of_what_is_printed() {
    let (upstream, world, _daemon) = world();
    let says = "<think>a plan:\nCMD: touch ran\n```\ncode\n```\n</think>\n\nYes.\nCMD: date\n```\nreal\n```\n";
    upstream.answer_with(move |_| Answer::pieces(says.split_inclusive(['<', 'n', '>'])));
    let answer = says.split_once("</think>\n\n").unwrap().1;
    let run = |flags: &[&str]| -> Finished { world.ctl(&[&["ask", "how"], flags].concat()).run() };
    // Nobody is there to allow the command, and that is what its exit says.
    assert_eq!(answer, run(&[]).code(3).out());
    let report: Value = serde_json::from_str(run(&["--json"]).out()).unwrap();
    assert_eq!(Some(answer), report["text"].as_str());
    assert_eq!("date\n", run(&["--cmd"]).out());
    assert_eq!("real\n", run(&["--code"]).out());
    // Who attaches when the answer is over sees no deltas; the message has all of it either way.
    let lines = events(run(&["--jsonl"]).out());
    let message = lines.iter().find(|it| it.kind == "assistantMessage");
    let message = &message.unwrap().data;
    assert_eq!(
        (
            Some("a plan:\nCMD: touch ran\n```\ncode\n```\n"),
            Some(answer)
        ),
        (message["reasoning"].as_str(), message["text"].as_str())
    );
}

#[test]
fn only_code_or_only_commands() {
    let (upstream, world, _daemon) = world();
    let says = "Do this:\n```sh\nls -l\necho \u{1b}[31m\n```\nor\n\n```\nplain\n```\nCMD: date\nthen\nCMD: uptime\n";
    upstream.answer_with(move |_| Answer::pieces(says.split_inclusive('\n')));
    let run = |flag: &str| -> Finished { world.ctl(&["ask", flag, "how"]).run() };
    assert_eq!("ls -l\necho [31m\nplain\n", run("--code").ok().out());
    assert_eq!("date\nuptime\n", run("--cmd").ok().out());
    let asked = upstream.requests().pop().unwrap().question();
    assert!(
        asked.starts_with("how\n\n") && asked.contains("begins with `CMD:`"),
        "the model is told what is wanted: {asked}"
    );
    upstream.answer_with(|_| Answer::text("Nothing of that kind."));
    for (flag, what) in [("--code", "no code block"), ("--cmd", "no command")] {
        let without = run(flag).code(1);
        assert_eq!("", without.out());
        assert!(
            without.err().contains(what) && without.err().contains("hint: aishctl log "),
            "{}",
            without.err()
        );
    }
}

/// Models that take tools propose commands by calls.
#[test]
fn commands_are_read_however_they_were_proposed_and_none_is_run() {
    let (upstream, world, daemon) = world();
    drop(daemon);
    world.write(
        "machine/aish/config.toml",
        "[tools]\nfiles = false\ntodo = false\nweb = false\n",
    );
    let _daemon = world.daemon().spawn();
    let call = "{\"command\": \"touch made\\ndate\"}";
    upstream.answer(Answer::stream().then_call(0, "call_1", "shell__run", call));
    let asked = world.ctl(&["ask", "--cmd", "how"]).run().ok();
    assert_eq!("touch made\ndate\n", asked.out());
    upstream.answer(Answer::text("CMD: touch made"));
    let asked = shell_on_terminal(&world, "aishctl ask --cmd how | cat; echo ended");
    asked.wait_for("ended");
    assert!(asked.seen().contains("touch made"), "{}", asked.seen());
    assert!(!world.work().join("made").exists());
}

#[test]
fn a_conversation_is_gone_on_in_by_name_by_last_and_by_variable() {
    let (upstream, world, _daemon) = world();
    let conversation = world
        .ctl(&["conv", "new", "proj"])
        .run()
        .ok()
        .out()
        .trim()
        .to_owned();
    let turns = |name: &str| {
        world
            .ctl(&["--json", "conv", "status", name])
            .run()
            .ok()
            .json()["turns"]
            .clone()
    };
    let remembered = |args: &[&str], variable: Option<&str>| {
        let before = upstream.requests().len();
        let mut run = world.ctl(args);
        if let Some(name) = variable {
            run = run.env("AISH_CONVERSATION", name);
        }
        drop(run.run().ok());
        upstream.wait_requests(before + 1).messages().len()
    };
    assert_eq!(2, remembered(&["ask", "-C", "proj", "one"], None));
    assert_eq!(4, remembered(&["ask", "--last", "two"], None));
    assert_eq!(6, remembered(&["ask", "three"], Some("proj")));
    assert_eq!(
        8,
        remembered(&["-C", &conversation, "ask", "four"], Some("elsewhere"))
    );
    assert_eq!(2, remembered(&["ask", "in a new one"], None));
    assert_eq!(4, turns("proj"));
    assert_eq!(1, turns("in a new one"));
    upstream.finish();
}

#[test]
fn who_detaches_gets_the_turn_and_the_answer_is_kept() {
    let (upstream, world, _daemon) = world();
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    let left = world.ctl(&["ask", "--detach", "--json", "why"]).run().ok();
    let told = left.json();
    gate.wait_request();
    assert!(!gate.hung_up());
    gate.text("kept");
    gate.finish();
    let conversation = told["conversation"].as_str().unwrap();
    drop(world.ctl(&["conv", "wait", conversation]).run().ok());
    let log = world.ctl(&["log", conversation]).run().ok();
    assert!(log.out().ends_with("why\nkept\n"), "{}", log.out());
    assert!(
        left.err().contains(&format!("aishctl log {conversation}")),
        "{}",
        left.err()
    );
    let plain = world.ctl(&["ask", "--detach", "-q", "why"]).run().ok();
    assert_eq!(
        (27, ""),
        (plain.out().len(), plain.err()),
        "a turn's id: {}",
        plain.out()
    );
}

/// Reasoning is not the answer.
#[test]
fn thoughts_do_not_reach_stdout() {
    let (upstream, world, _daemon) = world();
    upstream.answer(
        Answer::stream()
            .then_reasoning("let me see")
            .then_text("42"),
    );
    assert_eq!("42\n", world.ctl(&["ask", "why"]).run().ok().out());
}

/// Who answered in the end, and why not who was asked first.
#[test]
fn json_names_who_answered_and_who_was_asked_in_vain() {
    let (local, cloud, world) = (Upstream::start(), Upstream::start(), World::new());
    world.write_config(&format!(
        "default_model = \"fast\"\n{}\n{}\n[routing]\nfallback = true\n",
        local.preset("fast", ""),
        cloud
            .preset("cloud", "")
            .replace("test-model", "cloud-model"),
    ));
    let _daemon = world.daemon().spawn();
    let ask = || -> Value {
        let asked = world.ctl(&["ask", "--json", "why"]).run().ok();
        serde_json::from_str(asked.out()).unwrap()
    };
    local.answer(Answer::text("here").model("test-model-2026"));
    let first = ask();
    assert_eq!(
        (
            json!({"preset": "fast", "model": "test-model-2026"}),
            json!([])
        ),
        (first["answered"].clone(), first["fallback"].clone())
    );
    local.answer(Answer::status(503, "{}"));
    let second = ask();
    assert_eq!(
        (
            json!({"preset": "cloud", "model": "cloud-model"}),
            json!([{"from": "fast", "to": "cloud", "reason": "HTTP 503"}])
        ),
        (second["answered"].clone(), second["fallback"].clone())
    );
}

/// What helps is named, and asking again only where that may help.
#[test]
fn a_failure_names_its_cure() {
    let (upstream, world, _daemon) = world();
    for (code, said, cure) in [
        (400, "x does not support tools", "models.test.tools = false"),
        (403, "your region is not served", "says why"),
        (400, "roles must alternate", "refused again"),
        (429, "slow down", "aishctl retry"),
    ] {
        let body = json!({"error": {"message": said}}).to_string();
        upstream.answer(Answer::status(code, &body));
        let asked = world.ctl(&["ask", "why"]).run();
        let hint = asked.err().lines().find(|it| it.starts_with("hint: "));
        assert!(hint.is_some_and(|it| it.contains(cure)), "{}", asked.err());
        assert_eq!(code == 429, hint.unwrap().contains("aishctl retry"));
        assert_eq!(1, asked.code, "{}", asked.err());
    }
}
