//! The two terminals of a recorded shell: the outer one, that a person sits at, and the inner one, that the shell has.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
use rustix::process::{ioctl_tiocsctty, setsid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::stdio::{stdin, stdout};
use rustix::termios::{
    LocalModes, OptionalActions, Termios, isatty, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize,
};
use tokio::process::Child;

/// The terminal that a person sits at, opened anew so that it does not block, which nobody else notices.
#[derive(Debug)]
pub(crate) struct OuterTerminal {
    pub(crate) terminal: OwnedFd,
    before: Termios,
}

impl OuterTerminal {
    pub(crate) fn name() -> io::Result<PathBuf> {
        // A shell may hand over `/dev/tty` as stdin, which says nothing of which one it is.
        let name = terminal_name(stdout())?;
        if name == Path::new("/dev/tty") {
            return Err(io::Error::other("the terminal has no name of its own"));
        }
        Ok(name)
    }

    /// None where it is recorded already.
    pub(crate) fn open(recorded: Option<&str>) -> io::Result<Self> {
        if !isatty(stdin()) || !isatty(stdout()) {
            return Err(io::Error::other("stdin and stdout are no terminal"));
        }
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = Self::name()?;
        if recorded.is_some_and(|it| Path::new(it) == name) {
            return Err(io::Error::other("this terminal is recorded already"));
        }
        let terminal = open(&name, flags, Mode::empty())?;
        let before = tcgetattr(&terminal)?;
        Ok(Self { terminal, before })
    }

    /// Leaves all that keys and output mean to the inner terminal.
    pub(crate) fn make_raw(&self) -> io::Result<()> {
        let mut raw = self.before.clone();
        raw.make_raw();
        Ok(tcsetattr(&self.terminal, OptionalActions::Now, &raw)?)
    }
}

impl Drop for OuterTerminal {
    fn drop(&mut self) {
        // It may be gone.
        let _gone = tcsetattr(&self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Our end of the terminal that the shell has.
#[derive(Debug)]
pub(crate) struct InnerTerminal {
    pub(crate) ours: OwnedFd,
    /// Held until the shell has it, for a terminal that nobody has open is an error to read.
    theirs: Option<OwnedFd>,
    name: PathBuf,
}

impl InnerTerminal {
    /// A new one with the modes and the size of the outer one.
    pub(crate) fn like(outer: &OuterTerminal) -> io::Result<Self> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let name = ptsname(&ours, Vec::new())?;
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = open(name.as_c_str(), flags, Mode::empty())?;
        tcsetattr(&theirs, OptionalActions::Now, &outer.before)?;
        take_size(outer.terminal.as_fd(), theirs.as_fd())?;
        fcntl_setfl(&ours, fcntl_getfl(&ours)? | OFlags::NONBLOCK)?;
        let name = terminal_name(&theirs)?;
        Ok(Self {
            ours,
            theirs: Some(theirs),
            name,
        })
    }

    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Starts a program there. It is to call [`take_as_ours`].
    pub(crate) fn start(&self, command: Command) -> io::Result<Child> {
        let theirs = self.theirs.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let mut command = tokio::process::Command::from(command);
        command
            .stdin(Stdio::from(theirs.try_clone()?))
            .stdout(Stdio::from(theirs.try_clone()?))
            .stderr(Stdio::from(theirs.try_clone()?));
        command.spawn()
    }

    /// Whether what is typed is shown. Where it is not, it may be a password.
    pub(crate) fn echoes(ours: BorrowedFd<'_>) -> bool {
        tcgetattr(ours).is_ok_and(|it| it.local_modes.contains(LocalModes::ECHO))
    }

    /// Our end alone.
    pub(crate) fn into_ours(self) -> OwnedFd {
        drop(self.theirs);
        self.ours
    }
}

/// Gives one terminal the size of another.
pub(crate) fn take_size(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> io::Result<()> {
    Ok(tcsetwinsize(to, tcgetwinsize(from)?)?)
}

/// Makes the terminal that stdin is the one of a new session, which this process leads.
pub(crate) fn take_as_ours() -> io::Result<()> {
    setsid()?;
    Ok(ioctl_tiocsctty(stdin())?)
}

/// The path of a terminal.
fn terminal_name(terminal: impl AsFd) -> io::Result<PathBuf> {
    let name = rustix::termios::ttyname(terminal, Vec::new())?;
    Ok(PathBuf::from(OsStr::from_bytes(name.as_bytes())))
}
