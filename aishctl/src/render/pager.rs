//! A pager for what may be longer than the screen: `$AISH_PAGER`, `$PAGER`, `less -FRX`.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};

use tokio::net::unix::pipe;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::environment::ClientEnvironment;

const DEFAULT: &str = "less -FRX";

/// A pager that runs, and shows what is written to `to`.
#[derive(Debug)]
pub struct RunningPager {
    child: Child,
    /// Ctrl-C is for the pager: we must not end before it does.
    _interrupt: Option<Signal>,
}

/// The words that start the pager; none where there is nobody to page for.
pub fn command(around: &ClientEnvironment) -> Option<Vec<String>> {
    if !around.stdout_terminal || around.variable("TERM") == Some("dumb") {
        return None;
    }
    let named = around
        .variable("AISH_PAGER")
        .or_else(|| around.variable("PAGER"));
    let words = shlex::split(named.unwrap_or(DEFAULT))?;
    (!words.is_empty() && words != ["cat"]).then_some(words)
}

impl RunningPager {
    /// Starts it; `None` where it cannot be started, and the text goes straight to the terminal then.
    pub fn start(words: &[String], around: &ClientEnvironment) -> Option<(Self, pipe::Sender)> {
        let (program, args) = words.split_first()?;
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::piped());
        // Without it our colours would be read as text.
        if around.variable("LESS").is_none() {
            command.env("LESS", "FRX");
        }
        let interrupt = signal(SignalKind::interrupt()).ok();
        let mut child = command.spawn().ok()?;
        let stdin = child.stdin.take().map(OwnedFd::from)?;
        let to = pipe::Sender::from_owned_fd(stdin).ok()?;
        let pager = Self {
            child,
            _interrupt: interrupt,
        };
        Some((pager, to))
    }

    /// Waits until the person has read enough. What was written is closed before.
    pub fn wait(mut self) -> io::Result<()> {
        self.child.wait().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], terminal: bool, expected: &[&str]) {
        let mut around = ClientEnvironment {
            stdout_terminal: terminal,
            ..ClientEnvironment::default()
        };
        for (name, value) in variables {
            around.variables.insert(name.into(), value.into());
        }
        assert_eq!(
            expected,
            command(&around).unwrap_or_default(),
            "{variables:?}"
        );
    }

    #[test]
    fn ours_comes_before_everybodys_and_none_before_a_pipe() {
        check(&[], true, &["less", "-FRX"]);
        check(&[("PAGER", "more -s")], true, &["more", "-s"]);
        check(
            &[("PAGER", "more"), ("AISH_PAGER", "less '+G x'")],
            true,
            &["less", "+G x"],
        );
        check(&[("PAGER", "cat")], true, &[]);
        check(&[("PAGER", "")], true, &["less", "-FRX"]);
        check(&[("PAGER", "less")], false, &[]);
        check(&[("TERM", "dumb")], true, &[]);
    }
}
