//! Asks the terminal of this process whether it has sixels, between a command's output and the next prompt.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};

use super::answers::{ASKS, AnswerFilter, Asking, QueryProgress, SixelTerminal};
use crate::controlling_terminal;

/// Terminals answer within milliseconds, but some are far away.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// The terminal as it was, again when this value goes.
struct QuietTerminal<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> QuietTerminal<'a> {
    /// No line is waited for, and nothing echoed.
    fn take(terminal: &'a File) -> Option<Self> {
        let before = tcgetattr(terminal).ok()?;
        let mut quiet = before.clone();
        quiet.local_modes -= LocalModes::ECHO | LocalModes::ICANON;
        // What somebody else has read meanwhile is not waited for.
        quiet.special_codes[SpecialCodeIndex::VMIN] = 0;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Now, &quiet).ok()?;
        Some(Self { terminal, before })
    }
}

impl Drop for QuietTerminal<'_> {
    fn drop(&mut self) {
        let _hung_up = tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// `None`: it has none, or does not say so in time. Where somebody has typed ahead nothing is asked, since what was typed is
/// for whoever reads next.
pub(crate) fn sixels() -> Option<SixelTerminal> {
    let mut terminal = controlling_terminal::open()?;
    let _quiet = QuietTerminal::take(terminal)?;
    if is_readable(terminal, Duration::ZERO) {
        return None;
    }
    terminal.write_all(ASKS.as_bytes()).ok()?;
    let (mut asking, mut filter) = (Asking::default(), AnswerFilter::default());
    let until = Instant::now() + ANSWERS_WITHIN;
    let mut page = [0; 256];
    while is_readable(terminal, until.saturating_duration_since(Instant::now())) {
        let read = terminal.read(&mut page).ok().filter(|it| *it > 0)?;
        let typed = String::from_utf8_lossy(page.get(..read)?);
        for answer in filter.take(&typed, true).1 {
            match asking.take(&answer) {
                QueryProgress::Waits => {}
                QueryProgress::Asks(more) => terminal.write_all(more.as_bytes()).ok()?,
                QueryProgress::Over(found) => return found,
            }
        }
    }
    None
}

fn is_readable(terminal: &File, within: Duration) -> bool {
    let limit = Timespec::try_from(within).ok();
    let mut fds = [PollFd::from_borrowed_fd(terminal.as_fd(), PollFlags::IN)];
    poll(&mut fds, limit.as_ref()).is_ok_and(|it| it > 0)
}
