//! The modes of the terminal that the person sits at: raw while a line is typed there, and as they were whenever the
//! program ends, is stopped, or panics. Nobody else sets them: the editor has a terminal of its own to read from
//! (see [`super::keyboard`]).

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Once;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags, open};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr, ttyname,
};

use crate::picker;

/// Pastes are marked, and the terminal says when somebody turns to it or away.
const TALKS: &[u8] = b"\x1b[?2004h\x1b[?1004h";
const IS_SILENT: &[u8] = b"\x1b[?1004l\x1b[?2004l";

/// A slow terminal is waited for so long, one that is stopped in vain.
const SAID_WITHIN: Duration = Duration::from_millis(300);
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 20_000_000,
};

/// The terminal as it was. Global, because a panic anywhere must find it.
static BEFORE: Mutex<Option<SavedMode>> = Mutex::new(None);
static HOOK: Once = Once::new();

struct SavedMode {
    tty: OwnedFd,
    modes: Termios,
    /// The same terminal, opened for us alone: writing there never blocks, and the shell's own is left as it is.
    out: Option<OwnedFd>,
    /// Another program has it.
    lent: bool,
    /// What is to be seen is on its other screen.
    on_other_screen: bool,
}

fn lock() -> MutexGuard<'static, Option<SavedMode>> {
    BEFORE.lock()
}

/// Takes the terminal; [`give_back`] undoes it.
pub(super) fn take(tty: OwnedFd, out: &OwnedFd) -> io::Result<()> {
    let modes = tcgetattr(&tty)?;
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let name = ttyname(out, Vec::new()).ok();
    let out = name.and_then(|it| open(it.as_c_str(), flags, Mode::empty()).ok());
    *lock() = Some(SavedMode {
        tty,
        modes,
        out,
        lent: false,
        on_other_screen: false,
    });
    HOOK.call_once(|| {
        let report = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            report(panic);
        }));
    });
    take_again();
    Ok(())
}

/// Gives it to another program; until [`take_back`] its modes are that program's own.
pub(super) fn lend() {
    give_back();
    if let Some(before) = &mut *lock() {
        before.lent = true;
    }
}

/// From here to [`take_back`] whoever has it shows something on its other screen.
pub(super) fn goes_to_other_screen() {
    if let Some(before) = &mut *lock() {
        before.on_other_screen = true;
    }
}

pub(super) fn take_back() {
    if let Some(before) = &mut *lock() {
        before.lent = false;
        before.on_other_screen = false;
    }
    take_again();
}

/// Sets the raw modes again, after the shell had the terminal for a while.
pub(super) fn take_again() {
    if let Some(before) = lock().as_ref().filter(|it| !it.lent) {
        let mut raw = before.modes.clone();
        raw.input_modes -= InputModes::BRKINT
            | InputModes::ICRNL
            | InputModes::INPCK
            | InputModes::ISTRIP
            | InputModes::IXON;
        raw.local_modes -=
            LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN | LocalModes::ISIG;
        let _hung_up = tcsetattr(&before.tty, OptionalActions::Now, &raw);
        before.write(TALKS);
    }
}

/// Puts the modes back. Does not wait long: the terminal may be stopped, or gone.
pub(super) fn give_back() {
    if let Some(before) = &*lock() {
        if before.on_other_screen {
            before.write(picker::terminal::LEAVE.as_bytes());
        }
        before.write(IS_SILENT);
        let _hung_up = tcsetattr(&before.tty, OptionalActions::Now, &before.modes);
    }
}

/// The terminal's keys, for a program that gets them for a while.
pub(super) fn terminal() -> io::Result<File> {
    match &*lock() {
        Some(before) => Ok(before.tty.try_clone()?.into()),
        None => Err(io::Error::from(io::ErrorKind::NotFound)),
    }
}

/// The terminal says nothing of itself any more.
pub(super) fn quieten() {
    write(IS_SILENT);
}

/// Writes what the terminal takes soon.
pub(super) fn write(bytes: &[u8]) {
    if let Some(before) = &*lock() {
        before.write(bytes);
    }
}

impl SavedMode {
    fn write(&self, mut bytes: &[u8]) {
        let until = Instant::now() + SAID_WITHIN;
        while let (false, Some(out)) = (bytes.is_empty(), &self.out) {
            match rustix::io::write(out, bytes) {
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) if Instant::now() < until => {
                    let mut fds = [PollFd::new(out, PollFlags::OUT)];
                    let _again = poll(&mut fds, Some(&PAUSE));
                }
                Err(_) => return,
            }
        }
    }
}
