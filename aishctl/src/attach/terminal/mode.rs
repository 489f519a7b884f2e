//! The modes of the terminal that the person sits at: raw while a line is typed there, and as they were whenever the
//! program ends, is stopped, or panics. Nobody else sets them: the editor has a terminal of its own to read from
//! (see [`super::keyboard`]).

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, Once, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

const PASTES_ARE_MARKED: &[u8] = b"\x1b[?2004h";
const PASTES_ARE_KEYS: &[u8] = b"\x1b[?2004l";

/// The terminal and its modes before. Global, because a panic anywhere must find them.
static BEFORE: Mutex<Option<(OwnedFd, Termios)>> = Mutex::new(None);
static HOOK: Once = Once::new();

/// Takes the terminal; [`give_back`] undoes it.
pub(super) fn take(tty: OwnedFd) -> io::Result<()> {
    let before = tcgetattr(&tty)?;
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some((tty, before));
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

/// Sets the raw modes again, after the shell had the terminal for a while.
pub(super) fn take_again() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((tty, before)) = &*before {
        let mut raw = before.clone();
        raw.input_modes -= InputModes::BRKINT
            | InputModes::ICRNL
            | InputModes::INPCK
            | InputModes::ISTRIP
            | InputModes::IXON;
        raw.local_modes -=
            LocalModes::ECHO | LocalModes::ICANON | LocalModes::IEXTEN | LocalModes::ISIG;
        let _hung_up = tcsetattr(tty, OptionalActions::Now, &raw);
        say(PASTES_ARE_MARKED);
    }
}

/// Puts the modes back. Waits for nothing: the terminal may be stopped, or gone.
pub(super) fn give_back() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((tty, before)) = &*before {
        say(PASTES_ARE_KEYS);
        let _hung_up = tcsetattr(tty, OptionalActions::Now, before);
    }
}

/// Writes as long as that does not block: the terminal may be stopped.
pub(super) fn say(bytes: &[u8]) {
    // The kernel calls a terminal ready when it takes this much.
    const PIECE_BYTES: usize = 128;
    for piece in bytes.chunks(PIECE_BYTES) {
        let mut ready = [PollFd::from_borrowed_fd(
            rustix::stdio::stdout(),
            PollFlags::OUT,
        )];
        if !matches!(
            poll(
                &mut ready,
                Some(&Timespec {
                    tv_sec: 0,
                    tv_nsec: 0
                })
            ),
            Ok(1)
        ) {
            return;
        }
        let mut stdout = io::stdout().lock();
        if stdout
            .write_all(piece)
            .and_then(|()| stdout.flush())
            .is_err()
        {
            return;
        }
    }
}
