//! Two panes of a real terminal multiplexer, one conversation; skips where there is no tmux.

use std::path::Path;

use aish_testkit::wait::until_true;
use aish_testkit::{Answer, Finished, Upstream, World, built};

pub(crate) const TMUX: &str = "/usr/bin/tmux";

/// A tmux server of this world; it ends with the value.
pub(crate) struct Tmux<'a>(pub(crate) &'a World);

impl Tmux<'_> {
    pub(crate) fn run(&self, args: &[&str]) -> Finished {
        let socket = self.0.path("tmux");
        let all = [&["-S", socket.to_str().unwrap(), "-f", "/dev/null"], args].concat();
        self.0
            .program(Path::new(TMUX), &all)
            .env("TERM", "xterm-256color")
            .run()
    }

    /// What stands in a pane, rows that were wrapped put together.
    pub(crate) fn screen(&self, pane: &str) -> String {
        self.run(&["capture-pane", "-p", "-J", "-S", "-", "-t", pane])
            .ok()
            .out()
            .to_owned()
    }

    pub(crate) fn type_line(&self, pane: &str, text: &str) {
        drop(self.run(&["send-keys", "-t", pane, "-l", text]).ok());
        drop(self.run(&["send-keys", "-t", pane, "Enter"]).ok());
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        let _gone = self.run(&["kill-server"]);
    }
}

/// Two windows, one wide and one narrow, both greeted.
fn open(tmux: &Tmux<'_>) -> [&'static str; 2] {
    let client = built("aishctl");
    let attach = format!(
        "{} attach -C demo-conversation --markdown never; echo left $?; cat",
        client.display()
    );
    let panes = ["s:0.0", "s:0.1"];
    let greeted = |pane: &str| {
        until_true("the window to greet", || {
            told(&tmux.screen(pane), "[aish] attached to demo-conversation") == 1
        });
    };
    let wide = ["new-session", "-d", "-s", "s", "-x", "160", "-y", "50"];
    drop(tmux.run(&[&wide[..], &[&attach]].concat()).ok());
    // Or the greeting of the first would count the second.
    greeted(panes[0]);
    let narrow = ["split-window", "-h", "-t", "s", "-l", "44"];
    drop(tmux.run(&[&narrow[..], &[&attach]].concat()).ok());
    greeted(panes[1]);
    until_true("the first to see the second", || {
        told(&tmux.screen(panes[0]), "attached (2 here)") == 1
    });
    panes
}

pub(crate) fn told(screen: &str, text: &str) -> usize {
    screen.lines().filter(|it| it.contains(text)).count()
}

#[test]
fn two_panes_show_one_conversation() {
    if !Path::new(TMUX).exists() {
        println!("skipped: there is no {TMUX}");
        return;
    }
    let upstream = Upstream::start();
    let long = "a row that is longer than the narrow pane is wide, with größer and 日本 and 👩\u{200d}💻 in it";
    upstream.answer_with(move |request| {
        Answer::pieces([
            "To ",
            &request.question(),
            ":\n\u{1b}[2J",
            long,
            "\nthe end",
        ])
    });
    let world = World::with(&upstream);
    let daemon = world.daemon().spawn();
    drop(world.ctl(&["conv", "new", "demo-conversation"]).run().ok());
    let tmux = Tmux(&world);
    let panes = open(&tmux);
    for (turn, pane) in panes.iter().enumerate() {
        tmux.type_line(pane, &format!("question {turn}"));
        for pane in panes {
            until_true("the answer in both panes", || {
                told(&tmux.screen(pane), "the end") == turn + 1
            });
        }
    }
    for pane in panes {
        let screen = tmux.screen(pane);
        for (turn, asker) in panes.iter().enumerate() {
            // One's own question stands where it was typed, that of the other one is shown with his name.
            let sign = if *asker == pane { "○" } else { "›" };
            assert_eq!(
                1,
                told(&screen, &format!("{sign} question {turn}")),
                "{pane}:\n{screen}"
            );
            assert_eq!(
                1,
                told(&screen, &format!("To question {turn}:")),
                "{pane}:\n{screen}"
            );
        }
        assert!(
            told(&screen, "[2J") == 2 && told(&screen, "größer and 日本") == 2,
            "{pane}:\n{screen}"
        );
    }
    daemon.kill9();
    for pane in panes {
        until_true("the window to be back", || {
            told(&tmux.screen(pane), "[aish] back (missed ") == 1
        });
    }
    the_second_leaves_and_the_first_cancels(&upstream, &tmux, panes);
}

fn the_second_leaves_and_the_first_cancels(upstream: &Upstream, tmux: &Tmux<'_>, panes: [&str; 2]) {
    drop(tmux.run(&["send-keys", "-t", panes[1], "C-d"]).ok());
    until_true("Ctrl-D to leave", || {
        told(&tmux.screen(panes[1]), "left 0") == 1
    });
    until_true("the other to see it", || {
        told(&tmux.screen(panes[0]), "left (1 here)") == 1
    });
    let (answer, gate) = Answer::by_hand();
    upstream.answer(answer);
    tmux.type_line(panes[0], "for ever");
    gate.text("begun\n");
    until_true("the answer to begin", || {
        told(&tmux.screen(panes[0]), "begun") == 1
    });
    // The keys of a real terminal: what is half typed stays, Ctrl-Z stops the job, and the shell's `fg` brings it back.
    drop(
        tmux.run(&["send-keys", "-t", panes[0], "-l", "half typed"])
            .ok(),
    );
    until_true("the line", || {
        told(&tmux.screen(panes[0]), "● half typed") == 1
    });
    drop(tmux.run(&["send-keys", "-t", panes[0], "C-c"]).ok());
    gate.wait_hang_up();
    until_true("the cancel to be told", || {
        let screen = tmux.screen(panes[0]);
        told(&screen, "[aish] cancelled by you") == 1 && told(&screen, "○ half typed") == 1
    });
    drop(tmux.run(&["send-keys", "-t", panes[0], "Enter"]).ok());
    until_true("the line to be sent", || {
        upstream
            .requests()
            .last()
            .is_some_and(|it| it.question() == "half typed")
    });
    until_true("its answer", || {
        told(&tmux.screen(panes[0]), "To half typed:") == 1
    });
}
