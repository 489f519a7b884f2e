//! `aishctl init`: real shells in a terminal multiplexer. What a model proposes stands on the line and runs when somebody
//! presses Enter; a question beside the prompt runs nothing. A shell that is not installed is skipped, and said.

use std::path::Path;
use std::time::{Duration, Instant};

use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Upstream, World, built};

use crate::tmux::{TMUX, Tmux, told};

/// What a person types to begin, in a shell that has read nothing of the machine's.
struct Shell {
    program: &'static str,
    start: &'static str,
    load: &'static str,
}

const BASH: Shell = Shell {
    program: "/usr/bin/bash",
    start: "env PS1='ready> ' bash --norc --noprofile -i",
    load: "eval \"$(aishctl init bash)\"",
};
const ZSH: Shell = Shell {
    program: "/usr/bin/zsh",
    start: "env PS1='ready> ' zsh -f -i",
    load: "eval \"$(aishctl init zsh)\"",
};
const FISH: Shell = Shell {
    program: "/usr/bin/fish",
    start: "fish -N -i -C 'function fish_prompt; echo -n \"ready> \"; end'",
    load: "aishctl init fish | source",
};

const PANE: &str = "s:0.0";

fn check(shell: &Shell) {
    for program in [TMUX, shell.program] {
        if !Path::new(program).exists() {
            println!("skipped: there is no {program}");
            return;
        }
    }
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    let tmux = Tmux(&world);
    open(&tmux, shell);
    a_proposal_runs_at_enter_only(&upstream, &world, &tmux);
    what_could_run_by_itself_is_no_proposal(&upstream, &world, &tmux);
    a_question_is_asked_as_it_is(&upstream, &world, &tmux);
    what_the_answer_wants_to_run_is_asked_about(&upstream, &world, &tmux);
    drop(daemon);
}

fn open(tmux: &Tmux<'_>, shell: &Shell) {
    let client = built("aishctl");
    let folder = client.parent().unwrap().display().to_string();
    let work = tmux.0.work().display().to_string();
    let command = format!(
        "cd {work} && PATH={folder}:$PATH TERM=xterm-256color {}",
        shell.start
    );
    let new = ["new-session", "-d", "-s", "s", "-x", "150", "-y", "50"];
    drop(tmux.run(&[&new[..], &[&command]].concat()).ok());
    prompts(tmux, 1);
    tmux.type_line(PANE, shell.load);
    prompts(tmux, 2);
}

/// Waits until so many prompts stand there.
fn prompts(tmux: &Tmux<'_>, count: usize) {
    until_true("the prompt", || {
        tmux.screen(PANE).matches("ready>").count() >= count
    });
}

fn keys(tmux: &Tmux<'_>, keys: &[&str]) {
    drop(tmux.run(&[&["send-keys", "-t", PANE], keys].concat()).ok());
}

/// Waits until an empty line is there to be typed in: what comes while a shell takes its terminal back may be lost.
fn at_prompt(tmux: &Tmux<'_>) {
    until_true("an empty line", || {
        let screen = tmux.screen(PANE);
        let last = screen.lines().rfind(|it| !it.trim().is_empty());
        last.is_some_and(|it| it.trim_end() == "ready>")
    });
}

fn propose(tmux: &Tmux<'_>, request: &str) {
    at_prompt(tmux);
    keys(tmux, &["-l", request]);
    until_true("the request on the line", || {
        told(&tmux.screen(PANE), request) == 1
    });
    keys(tmux, &["M-a"]);
}

fn a_proposal_runs_at_enter_only(upstream: &Upstream, world: &World, tmux: &Tmux<'_>) {
    upstream.answer(Answer::text("Here it is:\n```sh\ntouch made\n```\n"));
    propose(tmux, "make it; touch typed");
    until_true("the proposal on the line", || {
        told(&tmux.screen(PANE), "ready> touch made") == 1
    });
    let question = upstream.wait_requests(1).question();
    assert!(question.ends_with("make it; touch typed"), "{question}");
    let made = world.work().join("made");
    assert!(!made.exists() && !world.work().join("typed").exists());
    keys(tmux, &["Enter"]);
    until_true("the command to run", || made.exists());
}

fn what_could_run_by_itself_is_no_proposal(upstream: &Upstream, world: &World, tmux: &Tmux<'_>) {
    let hostile = [
        "touch evil\nls",
        "touch evil\rls",
        "ls \u{1b}[2J\u{1b}]0;x\u{7} touch evil",
        "ls \u{202e}live hcuot",
        "touch evil\u{4}",
    ];
    for (turn, code) in hostile.iter().enumerate() {
        upstream.answer(Answer::text(&format!("```\n{code}\n```")));
        propose(tmux, &format!("request {turn}"));
        until_true("the refusal", || {
            told(&tmux.screen(PANE), "not one plain line of code") == turn + 1
        });
        // It is still there, and is taken away by hand.
        keys(tmux, &["C-a"]);
        keys(tmux, &["-l", &format!("echo kept-{turn} ")]);
        keys(tmux, &["Enter"]);
        until_true("the line to have stayed", || {
            let kept = format!("kept-{turn} request {turn}");
            tmux.screen(PANE).lines().any(|it| it.trim_end() == kept)
        });
    }
    assert!(!world.work().join("evil").exists());
}

fn a_question_is_asked_as_it_is(upstream: &Upstream, world: &World, tmux: &Tmux<'_>) {
    let before = upstream.requests().len();
    upstream.answer(Answer::text("because"));
    at_prompt(tmux);
    tmux.type_line(PANE, "false");
    at_prompt(tmux);
    let text = "why; touch evil $(touch evil) `touch evil` \"x\" 'y' \\z %s * && touch evil";
    tmux.type_line(PANE, &format!("#? {text}"));
    let question = upstream.wait_requests(before + 1).question();
    assert!(question.starts_with(text), "{question}");
    let work = world.work().display().to_string();
    let about =
        format!("\ncommand: false\ndirectory: {work}\nexit status: 1\noutput: not recorded\n");
    assert!(question.contains(&about), "{question}");
    until_true("the answer", || told(&tmux.screen(PANE), "because") == 1);
    let row =
        format!("with: false · {work} · status 1 · no output; aishctl init SHELL --ring keeps it");
    assert_eq!(1, told(&tmux.screen(PANE), &row), "{}", tmux.screen(PANE));
    // Neither an empty line nor another command asks it again.
    at_prompt(tmux);
    tmux.type_line(PANE, "");
    at_prompt(tmux);
    tmux.type_line(PANE, "echo last-one");
    until_true("the next command", || {
        tmux.screen(PANE)
            .lines()
            .any(|it| it.trim_end() == "last-one")
    });
    assert_eq!(before + 1, upstream.requests().len());
    assert!(!world.work().join("evil").exists());
}

/// The question came through a pipe, and the person sits here all the same.
fn what_the_answer_wants_to_run_is_asked_about(
    upstream: &Upstream,
    world: &World,
    tmux: &Tmux<'_>,
) {
    upstream.answer(Answer::text("I make it.\nCMD: touch allowed"));
    at_prompt(tmux);
    tmux.type_line(PANE, "#? make allowed");
    until_true("the question", || {
        told(&tmux.screen(PANE), "? c1  CMD  touch allowed") == 1
            && tmux.screen(PANE).contains("[?]")
    });
    let allowed = world.work().join("allowed");
    assert!(!allowed.exists());
    until_true("the answer to be taken", || {
        // What is typed in the first moment is no answer, and the question stands.
        keys(tmux, &["-l", "y"]);
        keys(tmux, &["Enter"]);
        let patience = Instant::now() + Duration::from_millis(600);
        while Instant::now() < patience && !allowed.exists() {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        allowed.exists()
    });
    tmux.type_line(PANE, "echo back-again");
    until_true("the prompt", || {
        tmux.screen(PANE)
            .lines()
            .any(|it| it.trim_end() == "back-again")
    });
}

#[test]
fn what_is_typed_in_bash_becomes_a_command_that_waits_for_enter() {
    check(&BASH);
}

#[test]
fn what_is_typed_in_zsh_becomes_a_command_that_waits_for_enter() {
    check(&ZSH);
}

#[test]
fn what_is_typed_in_fish_becomes_a_command_that_waits_for_enter() {
    check(&FISH);
}
