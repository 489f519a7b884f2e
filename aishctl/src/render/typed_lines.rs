//! Lines that somebody types at this terminal, read only while one is wanted.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
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
    wanted: Arc<AtomicU8>,
    lines: mpsc::Receiver<String>,
}

/// What was typed so far answers nothing.
pub fn forget_typed() {
    let keys = controlling_terminal::keys();
    let _no_terminal = rustix::termios::tcflush(keys, rustix::termios::QueueSelector::IFlush);
}

impl TypedLines {
    pub fn start() -> Self {
        let wanted = Arc::new(AtomicU8::new(NOT));
        let (sender, lines) = mpsc::channel(1);
        let flag = wanted.clone();
        std::thread::spawn(move || read_lines(&flag, &sender));
        Self { wanted, lines }
    }

    /// The next one that is typed from now on.
    pub fn want(&self) {
        self.wanted.store(TYPED_FROM_NOW, Ordering::SeqCst);
    }

    /// The next one, also if it was typed already.
    pub fn want_more(&self) {
        self.wanted.store(TYPED_ALREADY, Ordering::SeqCst);
    }

    pub fn want_none(&self) {
        self.wanted.store(NOT, Ordering::SeqCst);
    }

    /// `None`: the terminal has gone.
    pub async fn next(&mut self) -> Option<String> {
        self.lines.recv().await
    }
}

/// Whether a line is wanted, and which.
const NOT: u8 = 0;
/// What was typed before is no answer.
const TYPED_FROM_NOW: u8 = 1;
const TYPED_ALREADY: u8 = 2;

fn read_lines(wanted: &AtomicU8, lines: &mpsc::Sender<String>) {
    while !lines.is_closed() {
        match wanted.load(Ordering::SeqCst) {
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
        while wanted.load(Ordering::SeqCst) != NOT && !lines.is_closed() {
            match is_readable() {
                Ok(true) => {
                    let Some(line) = read_line() else { return };
                    // Taken back meanwhile: the line was no answer to anything.
                    if wanted.swap(NOT, Ordering::SeqCst) != NOT
                        && lines.blocking_send(line).is_err()
                    {
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
    let read = rustix::io::read(controlling_terminal::keys(), &mut line).ok()?;
    line.truncate(read);
    (read > 0).then(|| String::from_utf8_lossy(&line).into_owned())
}

fn is_readable() -> io::Result<bool> {
    let mut fds = [PollFd::from_borrowed_fd(
        controlling_terminal::keys(),
        PollFlags::IN,
    )];
    let patience = Timespec::try_from(LOOK).ok();
    Ok(poll(&mut fds, patience.as_ref())? > 0)
}
