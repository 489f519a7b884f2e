//! A picker on a terminal: on its other screen, so that all that was to be seen is there again afterwards.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aish_proto::id::ConversationId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use super::keys::PickKeys;
use super::{PickProgress, Picker, list_rows};
use crate::environment::ClientEnvironment;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::signals::ClientSignals;

const ENTER: &str = "\u{1b}[?1049h";
pub(crate) const LEAVE: &str = "\u{1b}[?1049l";
/// How long the rest of a key's bytes may take behind its escape, and how soon another size is noticed.
const REST: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 30_000_000,
};
const LOOK: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 200_000_000,
};

/// The terminal as it was; it is given back with this value, also by a panic.
struct RawTerminal<'a> {
    keys: &'a File,
    screen: &'a File,
    before: Termios,
}

impl<'a> RawTerminal<'a> {
    fn take(keys: &'a File, mut screen: &'a File) -> io::Result<Self> {
        let before = tcgetattr(keys)?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(keys, OptionalActions::Now, &raw)?;
        let taken = Self {
            keys,
            screen,
            before,
        };
        screen.write_all(ENTER.as_bytes())?;
        Ok(taken)
    }
}

impl Drop for RawTerminal<'_> {
    fn drop(&mut self) {
        let mut screen = self.screen;
        drop(screen.write_all(LEAVE.as_bytes()));
        let _hung_up = tcsetattr(self.keys, OptionalActions::Now, &self.before);
    }
}

/// Lets a person pick, as long as it goes on; `None`: nothing was picked.
pub(crate) fn run(
    mut picker: Picker,
    mut keys: &File,
    mut screen: &File,
    goes_on: &AtomicBool,
) -> io::Result<Option<ConversationId>> {
    let _raw = RawTerminal::take(keys, screen)?;
    let mut typed = PickKeys::default();
    let mut page = [0; 256];
    let mut shown = None;
    while goes_on.load(Ordering::Relaxed) {
        let size = size(screen);
        if shown != Some(size) {
            screen.write_all(picker.drawn(size).as_bytes())?;
            shown = Some(size);
        }
        let limit = if typed.is_waiting() { REST } else { LOOK };
        let mut fds = [PollFd::from_borrowed_fd(keys.as_fd(), PollFlags::IN)];
        let pressed = match poll(&mut fds, Some(&limit)) {
            Ok(0) if typed.is_waiting() => typed.rest().into_iter().collect(),
            Ok(0) | Err(rustix::io::Errno::INTR) => continue,
            Ok(_) => match keys.read(&mut page) {
                // The terminal hung up.
                Ok(0) => return Ok(None),
                Ok(read) => typed.take(page.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            },
            Err(error) => return Err(error.into()),
        };
        for key in pressed {
            match picker.press(key, list_rows(size.1)) {
                PickProgress::GoesOn => shown = None,
                PickProgress::Taken(conversation) => return Ok(Some(conversation)),
                PickProgress::Left => return Ok(None),
            }
        }
    }
    Ok(None)
}

/// The same on the terminal of this process, until a signal comes.
pub(crate) async fn run_on_ours(
    picker: Picker,
    around: &ClientEnvironment,
    signals: &mut ClientSignals,
) -> Result<Result<Option<ConversationId>, Exit>, Failure> {
    if !around.stdin_terminal || !around.stdout_terminal {
        let message = "--pick needs a terminal";
        return Err(Failure::new(Exit::USAGE, message).hint("aishctl conv ls"));
    }
    let ours = |end| rustix::io::fcntl_dupfd_cloexec(end, 3).map(File::from);
    let cannot =
        |error: io::Error| Failure::new(Exit::FAILED, format!("cannot let you pick: {error}"));
    let (keys, screen) = ours(rustix::stdio::stdin())
        .and_then(|keys| Ok((keys, ours(rustix::stdio::stdout())?)))
        .map_err(|error| cannot(error.into()))?;
    let goes_on = Arc::new(AtomicBool::new(true));
    let still = Arc::clone(&goes_on);
    let mut picking = tokio::task::spawn_blocking(move || run(picker, &keys, &screen, &still));
    let (signal, picked) = tokio::select! {
        picked = &mut picking => (None, picked),
        signal = signals.next() => {
            // The screen is given back before the program ends.
            goes_on.store(false, Ordering::Relaxed);
            (Some(signal.exit()), picking.await)
        }
    };
    let picked = picked
        .map_err(|error| cannot(error.into()))?
        .map_err(cannot)?;
    Ok(signal.map_or(Ok(picked), Err))
}

/// Columns and rows.
fn size(screen: &File) -> (usize, usize) {
    match tcgetwinsize(screen) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}
