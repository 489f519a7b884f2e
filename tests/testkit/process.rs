//! Programs as a test runs them: what goes in, what came out, how they ended. Never on a terminal.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::panics;
use crate::wait::{PATIENCE, left, until};

/// How long the output of a program that has ended may stay open. Longer means that it left somebody behind
/// who holds it, and a shell pipe would hang.
pub(crate) const AFTER_EXIT: Duration = Duration::from_secs(3);

/// A program that has not been started yet.
#[derive(Debug)]
#[must_use = "nothing runs before `run` or `spawn`"]
pub struct Run {
    command: Command,
    title: String,
    stdin: Option<Vec<u8>>,
    limit: Duration,
}

impl Run {
    /// With exactly this environment; stdin is `/dev/null`.
    pub fn new(program: &Path, args: &[&str], env: &[(OsString, OsString)], cwd: &Path) -> Self {
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .envs(env.iter().cloned())
            .current_dir(cwd)
            .process_group(0);
        let name = program.file_name().unwrap_or(program.as_os_str());
        Self {
            command,
            title: format!("{} {}", name.to_string_lossy(), args.join(" ")),
            stdin: None,
            limit: PATIENCE,
        }
    }

    /// Gives it these bytes and then the end of input.
    pub fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    pub fn cwd(mut self, cwd: impl AsRef<Path>) -> Self {
        self.command.current_dir(cwd);
        self
    }

    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    pub fn without_env(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.env_remove(name);
        self
    }

    /// How long [`Run::run`] waits before it kills the program and fails the test.
    pub fn limit(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Runs it to its end.
    #[track_caller]
    pub fn run(mut self) -> Finished {
        let input = self.stdin.take();
        let limit = self.limit;
        let mut running = self.start(input.is_some());
        let writer = input.zip(running.stdin.take()).map(|(bytes, mut pipe)| {
            // A program may end without reading all of it; that is its right.
            thread::spawn(move || drop(pipe.write_all(&bytes)))
        });
        let finished = running.wait_within(limit);
        if let Some(writer) = writer {
            writer.join().expect("the writing thread does not panic");
        }
        finished
    }

    /// Starts it; its stdin stays open for [`Running::write`].
    #[track_caller]
    pub fn spawn(self) -> Running {
        self.start(true)
    }

    #[track_caller]
    fn start(mut self, stdin: bool) -> Running {
        self.command
            .stdin(if stdin { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = self
            .command
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", self.title));
        let stdout = lines_of(child.stdout.take().expect("it is piped"));
        let stderr = lines_of(child.stderr.take().expect("it is piped"));
        Running {
            title: self.title,
            stdin: child.stdin.take(),
            child,
            stdout,
            stderr,
            seen: Vec::new(),
            waited: false,
        }
    }
}

/// Lines with their line feeds, so that the bytes can be put together again.
fn lines_of(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let mut from = BufReader::new(from);
        loop {
            let mut line = vec![];
            match from.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => break,
                Ok(_) if sender.send(line).is_err() => break,
                Ok(_) => {}
            }
        }
    });
    receiver
}

/// A program that runs. Dropped, it is killed.
#[derive(Debug)]
pub struct Running {
    title: String,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<Vec<u8>>,
    stderr: Receiver<Vec<u8>>,
    seen: Vec<u8>,
    waited: bool,
}

impl Running {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line of its stdout without the line feed; `None` at the end of output.
    #[track_caller]
    pub fn line(&mut self) -> Option<String> {
        match self.stdout.recv_timeout(PATIENCE) {
            Ok(line) => {
                self.seen.extend(&line);
                let text = String::from_utf8_lossy(&line);
                Some(text.trim_end_matches('\n').to_owned())
            }
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                panic!("{}: no line on stdout in {PATIENCE:?}", self.title)
            }
        }
    }

    /// Reads lines of stdout up to the first that contains `text`, and returns that one.
    #[track_caller]
    pub fn line_with(&mut self, text: &str) -> String {
        loop {
            match self.line() {
                Some(line) if line.contains(text) => return line,
                Some(_) => {}
                None => {
                    let mut stderr = vec![];
                    while let Ok(line) = self.stderr.recv_timeout(AFTER_EXIT) {
                        stderr.extend(line);
                    }
                    panic!(
                        "{}: stdout ended without {text:?}; it was\n{}\nand stderr\n{}",
                        self.title,
                        String::from_utf8_lossy(&self.seen),
                        String::from_utf8_lossy(&stderr)
                    )
                }
            }
        }
    }

    /// Writes to its stdin.
    #[track_caller]
    pub fn write(&mut self, text: &str) {
        let pipe = self.stdin.as_mut().expect("its stdin is closed already");
        pipe.write_all(text.as_bytes())
            .and_then(|()| pipe.flush())
            .unwrap_or_else(|error| panic!("write to {}: {error}", self.title));
    }

    /// The end of input.
    pub fn close_stdin(&mut self) {
        self.stdin = None;
    }

    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(pid_of(&self.child), signal)
            .unwrap_or_else(|error| panic!("send {signal:?} to {}: {error}", self.title));
    }

    /// Waits for its end and takes the rest of its output.
    #[track_caller]
    pub fn wait(self) -> Finished {
        self.wait_within(PATIENCE)
    }

    /// As [`Running::wait`]; after `limit` the program is killed and the test fails.
    #[track_caller]
    pub fn wait_within(mut self, limit: Duration) -> Finished {
        let started = Instant::now();
        let deadline = started + limit;
        let status = loop {
            match self.child.try_wait().expect("it is our child") {
                Some(status) => break status,
                None if left(deadline).is_none() => {
                    let _gone = kill_process_group(pid_of(&self.child), Signal::KILL);
                    drop(self.child.wait());
                    self.waited = true;
                    let (stdout, stderr) = self.drain();
                    let text = report(&self.title, "(killed by the test)", &stdout, &stderr);
                    panic!("still running after {limit:?}\n{text}");
                }
                None => thread::sleep(Duration::from_millis(3)),
            }
        };
        self.waited = true;
        let took = started.elapsed();
        self.stdin = None;
        let (stdout, stderr) = self.drain();
        panics::refuse_in(&self.title, &String::from_utf8_lossy(&stderr));
        Finished {
            title: self.title.clone(),
            code: code_of(status),
            stdout,
            stderr,
            took,
        }
    }

    #[track_caller]
    fn drain(&mut self) -> (Vec<u8>, Vec<u8>) {
        let deadline = Instant::now() + AFTER_EXIT;
        let rest = |from: &Receiver<Vec<u8>>, name: &str| {
            let mut bytes = vec![];
            loop {
                let left = left(deadline).unwrap_or(Duration::from_millis(1));
                match from.recv_timeout(left) {
                    Ok(line) => bytes.extend(line),
                    Err(RecvTimeoutError::Disconnected) => return bytes,
                    Err(RecvTimeoutError::Timeout) => panic!(
                        "{} has ended, but somebody it started still holds its {name}",
                        self.title
                    ),
                }
            }
        };
        let mut stdout = std::mem::take(&mut self.seen);
        stdout.extend(rest(&self.stdout, "stdout"));
        (stdout, rest(&self.stderr, "stderr"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.waited {
            let _gone = kill_process_group(pid_of(&self.child), Signal::KILL);
            drop(self.child.wait());
        }
    }
}

/// Kills a process that is not our child, or that somebody else waits for.
pub fn kill9(pid: u32) {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let Some(pid) = pid {
        let _gone = kill_process(pid, Signal::KILL);
    }
}

/// How a program ended, and what it said.
#[derive(Debug)]
#[must_use = "say how it should have ended: `ok()` or `code(n)`"]
pub struct Finished {
    title: String,
    /// As a shell has it in `$?`: 128 and the signal's number when a signal ended it.
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub took: Duration,
}

impl Finished {
    /// It ended with 0.
    #[track_caller]
    pub fn ok(self) -> Self {
        self.code(0)
    }

    /// It ended with this code.
    #[track_caller]
    pub fn code(self, expected: i32) -> Self {
        assert!(
            self.code == expected,
            "it should have ended with {expected}\n{}",
            self.report()
        );
        self
    }

    /// Its stdout as text.
    #[track_caller]
    pub fn out(&self) -> &str {
        str::from_utf8(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not UTF-8: {error}\n{}", self.report()))
    }

    /// Its stderr as text.
    #[track_caller]
    pub fn err(&self) -> &str {
        str::from_utf8(&self.stderr)
            .unwrap_or_else(|error| panic!("stderr is not UTF-8: {error}\n{}", self.report()))
    }

    /// Its stdout as one JSON value.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.stdout)
            .unwrap_or_else(|error| panic!("stdout is not JSON: {error}\n{}", self.report()))
    }

    /// All of it, for the message of an assertion.
    pub fn report(&self) -> String {
        report(
            &self.title,
            &format!("code {} after {:?}", self.code, self.took),
            &self.stdout,
            &self.stderr,
        )
    }
}

fn report(title: &str, end: &str, stdout: &[u8], stderr: &[u8]) -> String {
    let mut text = format!("$ {title}\n{end}");
    for (name, bytes) in [("stdout", stdout), ("stderr", stderr)] {
        let shown = String::from_utf8_lossy(bytes);
        write!(text, "\n--- {name}, {} bytes\n{shown}", bytes.len()).expect("a string takes it");
    }
    text
}

/// As a shell has it in `$?`.
pub(crate) fn code_of(status: ExitStatus) -> i32 {
    status
        .code()
        .or(status.signal().map(|it| 128 + it))
        .expect("a process ends by itself or by a signal")
}

pub(crate) fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

/// The first line of a reader that satisfies `wanted`; `None` at its end. What is read goes on to `copy`.
pub(crate) fn copy_until(
    from: &mut impl io::BufRead,
    copy: &mut impl io::Write,
    wanted: impl Fn(&str) -> bool,
) -> Option<String> {
    loop {
        let mut line = String::new();
        match from.read_line(&mut line) {
            Ok(0) | Err(_) => return None,
            Ok(_) => {}
        }
        drop(copy.write_all(line.as_bytes()));
        if wanted(line.trim_end()) {
            return Some(line.trim_end().to_owned());
        }
    }
}

/// Waits until no process has this id any more.
#[track_caller]
pub fn wait_gone(pid: u32) {
    until(&format!("the end of process {pid}"), PATIENCE, || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        // A zombie is gone; its parent has not looked yet.
        let state = stat.and_then(|it| it.rsplit(") ").next().map(|it| it.starts_with('Z')));
        state.unwrap_or(true).then_some(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Run {
        Run::new(
            Path::new("/bin/sh"),
            &["-c", script],
            &[("A".into(), "1".into())],
            Path::new("/"),
        )
    }

    #[test]
    fn what_goes_in_and_out_is_kept_apart() {
        let finished = sh("cat; echo $A$B >&2; pwd >&2; exit 3")
            .stdin("in\0put")
            .env("B", "2")
            .run()
            .code(3);
        assert_eq!(b"in\0put", &finished.stdout[..]);
        assert_eq!("12\n/\n", finished.err());
    }

    #[test]
    fn a_signal_is_128_and_its_number() {
        drop(sh("kill -TERM $$").run().code(143));
    }

    #[test]
    #[should_panic(expected = "--- stderr, 4 bytes\nwhy\n")]
    fn a_wrong_code_shows_everything() {
        drop(sh("echo why >&2; exit 1").run().ok());
    }

    #[test]
    #[should_panic(expected = "still running after")]
    fn one_that_does_not_end_is_killed() {
        drop(sh("sleep 60").limit(Duration::from_millis(50)).run());
    }

    #[test]
    #[should_panic(expected = "still holds its stdout")]
    fn one_that_leaves_somebody_with_its_output_is_told_on() {
        drop(sh("sleep 8 & exit 0").run());
    }

    #[test]
    fn a_long_running_one_is_read_line_by_line() {
        let mut running = sh("while read x; do echo got $x; done; echo bye").spawn();
        running.write("one\n");
        assert_eq!(Some("got one"), running.line().as_deref());
        running.write("two\nthree\n");
        assert_eq!("got three", running.line_with("three"));
        running.close_stdin();
        assert!(running.wait().ok().out().ends_with("got three\nbye\n"));
    }
}
