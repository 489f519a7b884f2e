//! A program on a terminal of its own: what a person would type goes in, what stands on the screen comes out.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcsetattr};

use crate::panics;
use crate::process::{AFTER_EXIT, code_of, pid_of};
use crate::wait::{PATIENCE, until};
use crate::world::World;

/// A program whose stdin, stdout and stderr are one terminal. Signals reach it by [`OnTerminal::signal`], not by
/// keys: it is nobody's controlling terminal.
#[derive(Debug)]
pub struct OnTerminal {
    child: Child,
    keys: File,
    seen: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl OnTerminal {
    /// Starts the program in this world.
    #[track_caller]
    pub fn spawn(world: &World, program: &Path, args: &[&str]) -> Self {
        let [ours, theirs] = terminal();
        let mut modes = tcgetattr(&theirs).expect("it is a terminal");
        // What a program writes is to be compared byte by byte.
        modes.output_modes.remove(OutputModes::OPOST);
        tcsetattr(&theirs, OptionalActions::Now, &modes).expect("it takes its modes");
        let end = || Stdio::from(theirs.try_clone().expect("it can be shared"));
        let child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(world.env())
            .current_dir(world.work())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", program.display()));
        drop(theirs);
        let seen = Arc::new(Mutex::new(vec![]));
        let reader = read_all(
            File::from(ours.try_clone().expect("it can be shared")),
            Arc::clone(&seen),
        );
        Self {
            child,
            keys: File::from(ours),
            seen,
            reader,
        }
    }

    /// All that was written to the terminal so far, the echo of the keys among it.
    pub fn seen(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&seen).into_owned()
    }

    /// Waits until this stands on it.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        while !self.seen().contains(text) {
            let seen = self.seen();
            assert!(
                Instant::now() < deadline,
                "waited {PATIENCE:?} in vain for {text:?} on the terminal, which has:\n{seen}"
            );
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    pub fn key(&mut self, text: &str) {
        self.keys
            .write_all(text.as_bytes())
            .expect("the terminal takes keys");
    }

    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(pid_of(&self.child), signal).expect("it runs");
    }

    pub fn has_ended(&mut self) -> bool {
        let status = self.child.try_wait().expect("it is our child");
        status.is_some()
    }

    /// Waits for its end, and until all that it wrote is seen; returns its exit code, as a shell has it.
    #[track_caller]
    pub fn wait(&mut self) -> i32 {
        let code = until("the end of the program on the terminal", PATIENCE, || {
            self.child.try_wait().expect("it is our child").map(code_of)
        });
        // What it started and left behind may keep the terminal open.
        let deadline = Instant::now() + AFTER_EXIT;
        while !self.reader.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
        code
    }
}

/// A new terminal: our end of it, and the one for programs.
#[track_caller]
pub(crate) fn terminal() -> [OwnedFd; 2] {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("there is a free terminal");
    grantpt(&ours)
        .and_then(|()| unlockpt(&ours))
        .expect("it is ours");
    let name = ptsname(&ours, vec![]).expect("it has a name");
    let theirs = open(
        name.as_c_str(),
        OFlags::RDWR | OFlags::NOCTTY,
        Mode::empty(),
    )
    .expect("the other end opens");
    [ours, theirs]
}

impl Drop for OnTerminal {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
        panics::refuse_in("the terminal", &self.seen());
    }
}

/// Until the last program has closed the terminal, which is an error on our end.
fn read_all(mut from: File, seen: Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut page = [0; 4096];
        while let Ok(read @ 1..) = from.read(&mut page) {
            let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.extend(&page[..read]);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_sees_a_terminal_and_is_heard_and_written_to() {
        let world = World::new();
        let script = "test -t 0 && test -t 1 && test -t 2 || exit 9; read x; echo got $x; exit 3";
        let mut program = OnTerminal::spawn(&world, Path::new("/bin/sh"), &["-c", script]);
        program.key("it\n");
        program.wait_for("got it\n");
        assert_eq!(3, program.wait());
    }

    #[test]
    fn all_that_a_program_wrote_is_seen_at_its_end() {
        let world = World::new();
        for _ in 0..50 {
            let script = "echo early; echo last";
            let mut program = OnTerminal::spawn(&world, Path::new("/bin/sh"), &["-c", script]);
            assert_eq!(0, program.wait());
            assert!(program.seen().ends_with("last\n"), "{}", program.seen());
        }
    }
}
