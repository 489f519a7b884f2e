//! The terminal that this process was started from. Where a standard stream leads elsewhere, questions are put and answered
//! there.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::LazyLock;

use rustix::process::getpgrp;
use rustix::termios::{isatty, tcgetpgrp, tcgetwinsize};

/// It is opened once: what is typed is read and dropped through one description.
static TERMINAL: LazyLock<Option<File>> = LazyLock::new(|| {
    let terminal = File::options().read(true).write(true).open("/dev/tty");
    terminal.ok().filter(is_ours)
});

/// Who works in the background is stopped by reading, and shares the screen with another program.
fn is_ours(terminal: &File) -> bool {
    tcgetpgrp(terminal).is_ok_and(|it| it == getpgrp())
}

/// `None`: there is none, or it is another job's.
pub fn open() -> Option<&'static File> {
    TERMINAL.as_ref()
}

/// How wide it is now.
pub fn columns() -> Option<usize> {
    let size = tcgetwinsize(open()?).ok()?;
    Some(usize::from(size.ws_col)).filter(|it| *it > 0)
}

/// Where a person types: stdin, if that is a terminal.
pub fn keys() -> BorrowedFd<'static> {
    let stdin = rustix::stdio::stdin();
    match open().filter(|_| !isatty(stdin)) {
        Some(terminal) => terminal.as_fd(),
        None => stdin,
    }
}
