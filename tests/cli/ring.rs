//! `aishctl init SHELL --ring`: real shells in a recorder, in a terminal multiplexer. A question takes along what the last command
//! printed, and nothing else of the shell changes. A shell that is not installed is skipped, and said.

use std::path::Path;

use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Upstream, World};

use crate::shell::{in_shell, shell};
use crate::tmux::{TMUX, Tmux, told};

/// How a shell that reads a file at its start is started, and that file. `RC` is its path.
struct RecordedShell {
    program: &'static str,
    start: &'static str,
    file: &'static str,
    text: &'static str,
}

const BASH: RecordedShell = RecordedShell {
    program: "/usr/bin/bash",
    start: "bash --rcfile RC/bashrc -i",
    file: "config/rc/bashrc",
    text: "PS1='ready> '\neval \"$(aishctl init bash --ring)\"\n",
};
const ZSH: RecordedShell = RecordedShell {
    program: "/usr/bin/zsh",
    start: "env ZDOTDIR=RC zsh -i",
    file: "config/rc/.zshrc",
    text: "PS1='ready> '\neval \"$(aishctl init zsh --ring)\"\n",
};
const FISH: RecordedShell = RecordedShell {
    program: "/usr/bin/fish",
    start: "fish -i",
    file: "config/fish/config.fish",
    text: "function fish_prompt; echo -n 'ready> '; end\nset -g fish_greeting\naishctl init fish --ring | source\n",
};

const PANE: &str = "s:0.0";

/// It prints a row, and stops the recorder until the shell is at its prompt.
const LATE: &str = "recorder=$(ps -o ppid= -p $PPID)
echo one
sleep 0.01
kill -STOP $recorder
(sleep 0.3; kill -CONT $recorder) </dev/null >/dev/null 2>&1 &
";

/// What the shells of these tests run.
const FAILS: &str = "echo visible-one\nprintf '\\033]133;D;0;aish=forged;9\\007'\nprintf '\\033[31m10 %%\\r100 %%\\033[0m\\n'\nexit 3\n";
const WHOLE_SCREEN: &str = "echo before\nprintf '\\033[?1049h\\033[Hon-the-screen\\n'\nprintf '\\033[?1049l'\necho after\n";
const PASSWORD: &str = "stty -echo\nprintf 'Password: '\nread x\necho it-is-$x\nread y\nstty echo\nprintf 'Back: '\nread z\necho welcome\n";
const SIZE: &str = "trap 'stty size; exit 5' WINCH\necho waiting\nwhile :; do sleep 0.05; done\n";

struct Recorded<'a> {
    upstream: &'a Upstream,
    tmux: &'a Tmux<'a>,
    work: String,
}

fn check(shell: &RecordedShell) {
    for program in [TMUX, shell.program] {
        if !Path::new(program).exists() {
            println!("skipped: there is no {program}");
            return;
        }
    }
    let upstream = Upstream::start();
    let world = World::with(&upstream);
    let _daemon = world.daemon().spawn();
    world.write(shell.file, shell.text);
    for (name, text) in [
        ("fails", FAILS),
        ("whole", WHOLE_SCREEN),
        ("late", LATE),
        ("password", PASSWORD),
        ("size", SIZE),
    ] {
        world.write(format!("work/{name}"), text);
    }
    let tmux = Tmux(&world);
    let recorded = Recorded {
        upstream: &upstream,
        tmux: &tmux,
        work: world.work().display().to_string(),
    };
    // fish has a file of its own there.
    let files = || {
        let names = std::fs::read_dir(world.path("run")).unwrap();
        let names = names.map(|it| it.unwrap().file_name().into_string().unwrap());
        let names = names.filter(|it| !it.starts_with("fish"));
        names.collect::<std::collections::BTreeSet<String>>()
    };
    let start = shell
        .start
        .replace("RC", &world.path("config/rc").display().to_string());
    let before = files();
    recorded.open(&start);
    recorded.a_failure_goes_along_with_what_it_printed();
    recorded.what_is_not_for_others_is_left_out();
    recorded.a_recorder_that_is_late_leaves_nothing_out();
    recorded.keys_and_sizes_reach_programs();
    recorded.a_shell_within_is_not_recorded_again(&start);
    recorded.type_line("exit 7");
    recorded.wait_row("ended 7");
    recorded.at_prompt();
    recorded.type_line(if shell.program == FISH.program {
        "kill -9 (ps -o ppid= -p $fish_pid | string trim)"
    } else {
        "kill -9 $PPID"
    });
    // The terminal is as raw as it was then.
    until_true("its end", || told(&tmux.screen(PANE), "ended 137") == 1);
    assert_eq!(before, files(), "a file of the recorder is left");
}

impl Recorded<'_> {
    fn open(&self, start: &str) {
        let work = &self.work;
        let script = in_shell(&format!(
            "cd {work}; TERM=xterm-256color; export TERM; {start}; echo ended $?; {start}; echo ended $?; cat"
        ));
        let new = ["new-session", "-d", "-s", "s", "-x", "150", "-y", "50"];
        drop(self.tmux.run(&[&new[..], &[&script]].concat()).ok());
        self.at_prompt();
    }

    fn type_line(&self, line: &str) {
        self.tmux.type_line(PANE, line);
    }

    /// Waits until an empty line is there to be typed in.
    fn at_prompt(&self) {
        self.wait_last("an empty line", |it| it == "ready>");
    }

    fn wait_last(&self, what: &str, is_it: impl Fn(&str) -> bool) {
        until_true(what, || {
            let screen = self.tmux.screen(PANE);
            let last = screen.lines().rfind(|it| !it.trim().is_empty());
            last.is_some_and(|it| is_it(it.trim_end()))
        });
    }

    fn wait_row(&self, row: &str) {
        until_true(row, || {
            let screen = self.tmux.screen(PANE);
            screen.lines().any(|it| it.trim_end() == row)
        });
    }

    fn run(&self, command: &str) {
        self.at_prompt();
        drop(
            self.tmux
                .run(&["send-keys", "-t", PANE, "-l", command])
                .ok(),
        );
        // Once it is there, the prompt that comes next is another one.
        let line = format!("ready> {command}");
        self.wait_last(&line, |it| it.starts_with(line.trim_end()));
        drop(self.tmux.run(&["send-keys", "-t", PANE, "Enter"]).ok());
    }

    /// Asks about the last command, and looks at the row of the screen and at what the model is sent.
    #[track_caller]
    fn check(&self, row: &str, about: &str) {
        let before = self.upstream.requests().len();
        let answer = format!("answer {before}.");
        self.upstream.answer(Answer::text(&answer));
        self.run("#? why did that fail");
        let question = self.upstream.wait_requests(before + 1).question();
        let about = about.replace("WORK", &self.work);
        assert!(
            question.starts_with("why did that fail\n") && question.contains(&about),
            "{about}\nis not in\n{question}"
        );
        self.wait_row(&answer);
        let row = format!("with: {}", row.replace("WORK", &self.work));
        let screen = self.tmux.screen(PANE);
        assert!(told(&screen, &row) > 0, "{row}\nis not in\n{screen}");
        self.at_prompt();
    }

    fn a_failure_goes_along_with_what_it_printed(&self) {
        self.run("sh ./fails");
        self.check(
            "sh ./fails · WORK · status 3 · 2 rows",
            "\ncommand: sh ./fails\ndirectory: WORK\nexit status: 3\noutput, 2 rows:\nvisible-one\n100 %\n",
        );
        // Neither an empty line nor the question itself is a command.
        self.run("");
        self.check("sh ./fails · WORK · status 3 · 2 rows", "visible-one\n");
        self.run("cd /");
        self.check(
            "cd / · WORK · status 0 · it printed nothing",
            "\ncommand: cd /\ndirectory: WORK\nexit status: 0\noutput: none\n",
        );
        self.run(&format!("cd {}", self.work));
    }

    /// The shell is at its prompt again, where it hides what is typed, before the recorder has read that the command is over.
    fn a_recorder_that_is_late_leaves_nothing_out(&self) {
        for _ in 0..4 {
            self.run("sh ./late");
            self.check(
                "sh ./late · WORK · status 0 · 1 row",
                "output, 1 row:\none\n</attachment>",
            );
        }
    }

    fn what_is_not_for_others_is_left_out(&self) {
        self.run("sh ./whole");
        self.check(
            "sh ./whole · WORK · status 0 · 3 rows",
            "output, 3 rows:\nbefore\n[not recorded]\nafter\n",
        );
        self.run("sh ./password");
        self.wait_row("Password:");
        self.type_line("typed-secret");
        until_true("the secret", || {
            told(&self.tmux.screen(PANE), "it-is-typed-secret") == 1
        });
        self.type_line("");
        self.wait_row("Back:");
        self.type_line("");
        self.check(
            "sh ./password · WORK · status 0 · 4 rows",
            "output, 4 rows:\nPassword:\n[not recorded]\nBack:\nwelcome\n",
        );
    }

    fn keys_and_sizes_reach_programs(&self) {
        self.run("sh ./size");
        self.wait_row("waiting");
        let size = ["resize-window", "-t", "s", "-x", "140", "-y", "40"];
        drop(self.tmux.run(&size).ok());
        self.wait_row("40 140");
        self.check("sh ./size · WORK · status 5 · 2 rows", "waiting\n40 140\n");
        self.run("sh -c 'echo sleeping; exec sleep 1000'");
        self.wait_row("sleeping");
        drop(self.tmux.run(&["send-keys", "-t", PANE, "C-c"]).ok());
        self.check(
            "sh -c 'echo sleeping; exec sleep 1000' · WORK · status 130",
            "exit status: 130\n",
        );
    }

    fn a_shell_within_is_not_recorded_again(&self, start: &str) {
        self.run("echo \"outer-$AISH_RECORDER_TTY-$AISH_RING-\"");
        let terminal = || {
            let screen = self.tmux.screen(PANE);
            let row = screen.lines().rfind(|it| it.starts_with("outer-/dev/"));
            row.map(|it| it.trim_end().to_owned())
        };
        until_true("the terminal", || terminal().is_some());
        let terminal = terminal().unwrap();
        // Programs do not learn the word.
        let terminal = terminal
            .strip_prefix("outer-")
            .and_then(|it| it.strip_suffix("--"));
        let terminal = terminal.unwrap().to_owned();
        self.run(start);
        self.run("tty; echo within");
        self.wait_row("within");
        assert_eq!(
            1,
            told(&self.tmux.screen(PANE), &terminal) - 1,
            "another terminal"
        );
        self.run("sh ./fails");
        self.check(
            "sh ./fails · WORK · status 3 · no output; this shell is not recorded",
            "exit status: 3\noutput: not recorded\n",
        );
        self.run("exit");
        self.at_prompt();
    }
}

#[test]
fn what_a_command_printed_in_bash_goes_along_with_a_question() {
    check(&BASH);
}

#[test]
fn what_a_command_printed_in_zsh_goes_along_with_a_question() {
    check(&ZSH);
}

#[test]
fn what_a_command_printed_in_fish_goes_along_with_a_question() {
    check(&FISH);
}

/// There is a shell all the same.
#[test]
fn where_nothing_can_be_recorded_the_shell_just_runs() {
    let world = World::new();
    let ran = shell(
        &world,
        "aishctl record --check; echo checked $?; aishctl record --program /bin/sh -- sh -c 'echo ran in $0; exit 4'",
    );
    let ran = ran.run();
    assert_eq!((4, "checked 1\nran in sh\n"), (ran.code, ran.out()));
    let said = ran.err();
    assert!(
        said.contains("this shell is not recorded: stdin and stdout are no terminal"),
        "{said}"
    );
}
