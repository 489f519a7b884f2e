//! Lines that somebody types at this terminal, read only while one is wanted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use tokio::sync::mpsc;

use crate::controlling_terminal;

/// What was typed before a question stood there is no answer to it.
pub const TYPE_AHEAD: Duration = Duration::from_millis(300);
/// As much as a terminal takes in one line.
const LINE_BYTES: usize = 4096;
/// How often the reading thread looks whether a line is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// A thread that reads lines while one is wanted.
#[derive(Debug)]
pub struct TypedLines {
    wanted: Arc<WantedLine>,
    lines: mpsc::Receiver<(Wish, String)>,
}

/// What was typed so far answers nothing.
pub fn forget_typed() {
    let keys = controlling_terminal::keys();
    let _no_terminal = rustix::termios::tcflush(keys, rustix::termios::QueueSelector::IFlush);
}

impl TypedLines {
    pub fn start() -> Self {
        let wanted = Arc::new(WantedLine::default());
        let (sender, lines) = mpsc::channel(1);
        let of_thread = wanted.clone();
        std::thread::spawn(move || read_lines(&of_thread, &sender));
        Self { wanted, lines }
    }

    /// The next one that is typed from now on.
    pub fn want(&self) {
        self.wanted.wish(TYPED_FROM_NOW);
    }

    /// The next one, also if it was typed already.
    pub fn want_more(&self) {
        self.wanted.wish(TYPED_ALREADY);
    }

    pub fn want_none(&self) {
        self.wanted.wish(NOT);
    }

    /// `None`: the terminal has gone.
    pub async fn next(&mut self) -> Option<String> {
        loop {
            let (wish, line) = self.lines.recv().await?;
            if self.wanted.is_last(wish) {
                return Some(line);
            }
        }
    }
}

/// Which line is wanted, in the two lowest bits, and above them how many wishes there were: a line that was read for a
/// question is no answer to the next one, however soon that stands.
#[derive(Debug, Default)]
struct WantedLine(AtomicU64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wish(u64);

/// Whether a line is wanted, and which.
const NOT: u64 = 0;
/// What was typed before is no answer.
const TYPED_FROM_NOW: u64 = 1;
const TYPED_ALREADY: u64 = 2;
/// More than each of them.
const ONE_WISH: u64 = 4;

impl Wish {
    fn which(self) -> u64 {
        self.0 % ONE_WISH
    }
}

impl WantedLine {
    /// Called by one task alone; the reading thread only fulfils. The same once more, while it is still wanted, is the same
    /// wish.
    fn wish(&self, which: u64) {
        let now = self.now();
        if now.which() != which || which == NOT {
            let next = now.0 / ONE_WISH + 1;
            self.0.store(next * ONE_WISH + which, Ordering::SeqCst);
        }
    }

    fn now(&self) -> Wish {
        Wish(self.0.load(Ordering::SeqCst))
    }

    /// Whether a line that was read for this wish is still wanted; if so, no other line is from now on.
    fn fulfil(&self, wish: Wish) -> bool {
        let done = wish.0 - wish.which();
        let order = Ordering::SeqCst;
        self.0.compare_exchange(wish.0, done, order, order).is_ok()
    }

    /// Whether nothing was wished since.
    fn is_last(&self, wish: Wish) -> bool {
        self.now().0 / ONE_WISH == wish.0 / ONE_WISH
    }
}

fn read_lines(wanted: &WantedLine, lines: &mpsc::Sender<(Wish, String)>) {
    while !lines.is_closed() {
        let wish = wanted.now();
        match wish.which() {
            TYPED_FROM_NOW => {
                std::thread::sleep(TYPE_AHEAD);
                forget_typed();
            }
            TYPED_ALREADY => {}
            _not => {
                std::thread::sleep(LOOK);
                continue;
            }
        }
        while wanted.now() == wish && !lines.is_closed() {
            match is_readable() {
                Ok(true) => {
                    let Some(line) = read_line() else { return };
                    if wanted.fulfil(wish) && lines.blocking_send((wish, line)).is_err() {
                        return;
                    }
                }
                Ok(false) => {}
                Err(_) => return,
            }
        }
    }
}

/// A terminal gives a line at a time. Read without the buffer of the standard library: what is not read belongs to
/// whoever reads the terminal after us.
fn read_line() -> Option<String> {
    let mut line = vec![0; LINE_BYTES];
    let keys = controlling_terminal::keys();
    let read = retry_on_intr(|| rustix::io::read(keys, &mut line[..])).ok()?;
    line.truncate(read);
    (read > 0).then(|| String::from_utf8_lossy(&line).into_owned())
}

fn is_readable() -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(
        controlling_terminal::keys(),
        PollFlags::IN,
    )];
    let patience = Timespec::try_from(LOOK).ok();
    let ready = retry_on_intr(|| poll(&mut fds, patience.as_ref()))?;
    Ok(ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_for_a_question_answers_that_one_once() {
        let wanted = WantedLine::default();
        assert_eq!(NOT, wanted.now().which());
        wanted.wish(TYPED_FROM_NOW);
        let first = wanted.now();
        wanted.wish(TYPED_FROM_NOW);
        assert!(wanted.fulfil(first) && wanted.is_last(first));
        assert_eq!(NOT, wanted.now().which());
        assert!(!wanted.fulfil(first));
    }

    /// The next question stands before the reading thread has looked again: it read the line that was typed ahead at once.
    #[test]
    fn what_is_read_for_a_question_is_no_answer_to_the_next() {
        let wanted = WantedLine::default();
        wanted.wish(TYPED_FROM_NOW);
        let first = wanted.now();
        assert!(wanted.fulfil(first));
        wanted.wish(TYPED_FROM_NOW);
        assert_ne!(first, wanted.now());
        assert!(!wanted.fulfil(first) && !wanted.is_last(first));
        let second = wanted.now();
        wanted.wish(NOT);
        assert!(!wanted.fulfil(second) && !wanted.is_last(second));
    }
}
