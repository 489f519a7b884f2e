//! What a window says first: of the model in its prompt, of what can be typed, and of the past.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use aish_testkit::{Screen, built};

use crate::terminal::{open, world};

/// Takes one connection on `socket` to the daemon at `daemon`, and holds back what is asked from the first
/// `model/list` on until it is let go.
fn holding_back(socket: &Path, daemon: &Path, go: Receiver<()>) {
    let listener = UnixListener::bind(socket).unwrap();
    let daemon = UnixStream::connect(daemon).unwrap();
    thread::spawn(move || {
        let (client, _) = listener.accept().unwrap();
        let (mut answers, mut shown) = (daemon.try_clone().unwrap(), client.try_clone().unwrap());
        thread::spawn(move || std::io::copy(&mut answers, &mut shown));
        let mut is_held = true;
        for line in BufReader::new(client).lines().map_while(Result::ok) {
            if is_held && line.contains("\"model/list\"") {
                is_held = false;
                let _told = go.recv();
            }
            if (&daemon).write_all(format!("{line}\n").as_bytes()).is_err() {
                return;
            }
        }
    });
}

#[test]
fn a_model_that_a_busy_daemon_names_late_comes_into_the_prompt() {
    let (_upstream, world, _daemon) = world();
    let socket = world.path("busy.sock");
    let (let_go, go) = channel();
    holding_back(&socket, &world.socket(), go);
    let line = format!("AISH_SOCKET={} exec aish proj", socket.display());
    let shell = crate::shell::in_shell(&line);
    let program = Path::new("/bin/sh");
    let screen = Screen::spawn(&world, program, &["-c", &shell], 80, 24);
    screen.wait_for("proj ○");
    let_go.send(()).unwrap();
    screen.wait_for("proj · test ○");
}

#[test]
fn the_prompt_names_the_preset_that_a_new_configuration_makes_the_default() {
    let (upstream, world, _daemon) = world();
    let screen = open(&world, 80, 24);
    screen.wait_for("proj · test ○");
    let presets = ["test", "other"].map(|it| upstream.preset(it, ""));
    world.write_config(&format!("default_model = \"other\"\n{}", presets.concat()));
    drop(world.ctl(&["reload"]).run().ok());
    screen.wait_for("proj · other ○");
}

const IN_SHORT: &str = "a line is a question, !COMMAND runs here, :help";

#[test]
fn a_window_on_a_new_conversation_says_what_can_be_typed() {
    let (_upstream, world, _daemon) = world();
    open(&world, 100, 24).wait_for(IN_SHORT);
    drop(world.ctl(&["ask", "-C", "proj", "question"]).run().ok());
    let screen = open(&world, 100, 24);
    screen.wait_for("› question");
    assert!(!screen.rows().iter().any(|it| it.contains(IN_SHORT)));
}

#[test]
fn what_wants_a_shell_is_said_not_to_be_done_in_a_window() {
    let (_upstream, world, _daemon) = world();
    for typed in [
        ":config set ui.theme dark\r",
        ":key set x\r",
        ":model default fast\r",
    ] {
        let mut screen = open(&world, 100, 24);
        screen.key(typed);
        screen.wait_for("that command is for a shell; here nothing was done");
        screen.wait_for("type it in a shell, as a command of aishctl");
    }
}

#[test]
fn a_window_says_that_something_stands_before_what_it_shows() {
    let (_upstream, world, _daemon) = world();
    for number in 0..25 {
        let question = format!("question {number}");
        drop(world.ctl(&["ask", "-C", "proj", &question]).run().ok());
    }
    let before = "what was before: :log";
    let screen = open(&world, 80, 100);
    screen.wait_for(before);
    screen.wait_for("› question 24");
    drop(world.ctl(&["conv", "new", "young"]).run().ok());
    drop(world.ctl(&["ask", "-C", "young", "question"]).run().ok());
    let screen = Screen::spawn(&world, &built("aish"), &["young"], 80, 100);
    screen.wait_for("young · test ○");
    assert!(!screen.rows().iter().any(|it| it.contains(before)));
}
