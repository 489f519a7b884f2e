//! Tab in real shells: what is typed becomes a command, an option, or a name that the daemon knows now. Pressing it starts no
//! daemon, prints nothing beside, and waits for nobody. A shell that is not installed is skipped, and said.

use std::path::Path;
use std::time::{Duration, Instant};

use aish_testkit::wait::{PATIENCE, until_true};
use aish_testkit::{Answer, Upstream, World, built};
use rustix::process::Signal;

use crate::shell::shell;
use crate::tmux::{TMUX, Tmux};

const PANE: &str = "s:0.0";

/// A shell that has read nothing of the machine's, and what a person types to begin.
struct TabShell {
    program: &'static str,
    start: &'static str,
    load: &'static str,
    /// How a title with a blank in it stands on the line.
    two_words: &'static str,
}

const BASH: TabShell = TabShell {
    program: "/usr/bin/bash",
    start: "env PS1='ready> ' bash --norc --noprofile -i",
    load: "eval \"$(aishctl init bash)\"",
    two_words: "two\\ words",
};
const ZSH: TabShell = TabShell {
    program: "/usr/bin/zsh",
    start: "env PS1='ready> ' zsh -f -i",
    // The person's own compinit may come later.
    load: "eval \"$(aishctl init zsh)\"; autoload -Uz compinit; compinit -D",
    two_words: "two\\ words",
};
const FISH: TabShell = TabShell {
    program: "/usr/bin/fish",
    start: "fish -N -i -C 'function fish_prompt; echo -n \"ready> \"; end'",
    load: "aishctl init fish | source",
    two_words: "two\\ words",
};

fn check(shell: &TabShell) {
    for program in [TMUX, shell.program] {
        if !Path::new(program).exists() {
            println!("skipped: there is no {program}");
            return;
        }
    }
    let upstream = Upstream::start();
    upstream.answer(Answer::text("CMD: touch made"));
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    for title in ["proj", "two words"] {
        drop(world.ctl(&["conv", "new", title]).run().ok());
    }
    let person = world.person("pts/9");
    let _turn = person.ask(person.create(), "make it");
    until_true("a question to wait", || {
        world
            .ctl(&["confirm", "ls"])
            .run()
            .out()
            .contains("touch made")
    });
    let tmux = Tmux(&world);
    open(&tmux, shell);
    becomes(&tmux, "aishctl stat", "aishctl status");
    becomes(&tmux, "aishctl ask --no-s", "aishctl ask --no-stdin");
    becomes(&tmux, "aishctl ask --mode re", "aishctl ask --mode reject");
    becomes(&tmux, "aishctl log -C pr", "aishctl log -C proj");
    becomes(&tmux, "aishctl ask -m te", "aishctl ask -m test");
    becomes(
        &tmux,
        "aishctl attach tw",
        &format!("aishctl attach {}", shell.two_words),
    );
    becomes(&tmux, "aishctl confirm allow c", "aishctl confirm allow c1");
    becomes(&tmux, "aish pr", "aish proj");
    std::fs::write(world.work().join("a file"), "").unwrap();
    becomes(&tmux, "aishctl ask -f a", "aishctl ask -f a\\ file");
    becomes(&tmux, "aishctl nonsens", "aishctl nonsens");
}

fn open(tmux: &Tmux<'_>, shell: &TabShell) {
    let client = built("aishctl");
    let folder = client.parent().unwrap().display().to_string();
    let work = tmux.0.work().display().to_string();
    let start = shell.start;
    let command = format!("cd {work} && PATH={folder}:$PATH TERM=xterm-256color {start}");
    let new = ["new-session", "-d", "-s", "s", "-x", "150", "-y", "50"];
    drop(tmux.run(&[&new[..], &[&command]].concat()).ok());
    at_prompt(tmux);
    tmux.type_line(PANE, shell.load);
    until_true("the script to be read", || {
        tmux.screen(PANE).matches("ready>").count() >= 2
    });
}

fn keys(tmux: &Tmux<'_>, keys: &[&str]) {
    drop(tmux.run(&[&["send-keys", "-t", PANE], keys].concat()).ok());
}

/// The last line with a prompt, without the prompt.
fn line(tmux: &Tmux<'_>) -> Option<String> {
    let screen = tmux.screen(PANE);
    let last = screen.lines().rfind(|it| it.starts_with("ready>"))?;
    Some(last.trim_start_matches("ready>").trim().to_owned())
}

fn at_prompt(tmux: &Tmux<'_>) {
    until_true("an empty line", || {
        line(tmux).is_some_and(|it| it.is_empty())
    });
}

/// What the line becomes. Names that a busy daemon has not told in time are not offered: then a person presses Tab again.
#[track_caller]
fn becomes(tmux: &Tmux<'_>, typed: &str, expected: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let found = completed(tmux, typed);
        if found == expected {
            return;
        }
        let is_over = Instant::now() > end;
        assert!(found == typed && !is_over, "{typed:?} became {found:?}");
    }
}

/// Types it, presses Tab and an x: the x stands behind what came of it, so that nothing else is on its way.
#[track_caller]
fn completed(tmux: &Tmux<'_>, typed: &str) -> String {
    at_prompt(tmux);
    keys(tmux, &["-l", typed]);
    until_true("the line", || line(tmux).is_some_and(|it| it == typed));
    keys(tmux, &["Tab"]);
    keys(tmux, &["-l", "X"]);
    let mut found = String::new();
    until_true(&format!("something to become of {typed:?}"), || {
        found = line(tmux).unwrap_or_default();
        found.ends_with('X')
    });
    keys(tmux, &["C-c"]);
    // fish takes the line away and shows the prompt again in its place.
    at_prompt(tmux);
    found.trim_end_matches('X').trim_end().to_owned()
}

#[test]
fn tab_completes_in_bash() {
    check(&BASH);
}

#[test]
fn tab_completes_in_zsh() {
    check(&ZSH);
}

#[test]
fn tab_completes_in_fish() {
    check(&FISH);
}

#[test]
fn without_a_daemon_nothing_is_started_and_nothing_said() {
    let world = World::new();
    for line in [
        "aishctl complete bash -- 'aishctl log -C pr' pr",
        "aishctl complete zsh -- aishctl attach p",
        "aishctl complete fish -- aishctl mcp restart 'f'",
    ] {
        let finished = shell(&world, line).run().ok();
        assert_eq!(("", ""), (finished.out(), finished.err()), "{line}");
    }
    assert!(world.daemon_pids().is_empty());
    let words = shell(&world, "aishctl complete zsh -- aishctl sta")
        .run()
        .ok();
    assert_eq!("status\tThe daemon at a glance\n", words.out());
}

#[test]
fn a_daemon_that_would_be_started_by_the_question_is_not_asked() {
    let world = World::new();
    world.write("config/systemd/user/aishd.socket", "");
    let socket = world.socket();
    std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
    let manager = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    manager.set_nonblocking(true).unwrap();
    drop(
        shell(&world, "aishctl complete zsh -- aishctl attach ''")
            .run()
            .ok(),
    );
    assert!(manager.accept().is_err(), "somebody has connected");
}

#[test]
fn a_daemon_that_does_not_answer_is_not_waited_for() {
    let world = World::new();
    let daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "proj"]).run().ok());
    let asked = "aishctl complete zsh -- aishctl attach p";
    assert!(shell(&world, asked).run().ok().out().starts_with("proj\t"));
    daemon.signal(Signal::STOP);
    let began = Instant::now();
    let finished = shell(&world, asked).run().ok();
    // Less than any other deadline; a machine that does other things takes more than it should.
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "{:?}",
        began.elapsed()
    );
    assert_eq!(("", ""), (finished.out(), finished.err()));
    daemon.signal(Signal::CONT);
}

#[test]
fn a_name_that_cannot_be_typed_is_offered_by_its_id() {
    let world = World::new();
    let _daemon = world.daemon().spawn();
    let made = |title: &str| {
        world
            .ctl(&["conv", "new", "--", title])
            .run()
            .ok()
            .out()
            .trim()
            .to_owned()
    };
    let (dash, twice, again) = (made("-x"), made("same"), made("same"));
    let found = shell(&world, "aishctl complete zsh -- aishctl attach ''")
        .run()
        .ok();
    let names: Vec<&str> = found
        .out()
        .lines()
        .map(|it| it.split('\t').next().unwrap())
        .collect();
    assert_eq!(vec![again.as_str(), &twice, &dash], names);
}
