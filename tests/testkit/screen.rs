//! A program on a terminal with a screen: what a person would type goes in, and what he would see comes out of an
//! emulator, as rows.

mod cut;
mod painted;

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::num::NonZeroU16;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use rustix::process::{Signal, kill_process};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use vt100::Parser;

use self::cut::Cut;
pub use self::painted::PaintedText;
use crate::process::{code_of, pid_of};
use crate::wait::{PATIENCE, left, until};
use crate::world::World;
use crate::{panics, pty};

/// Rows above the screen that are kept.
const SCROLLBACK: usize = 100_000;

/// A program whose stdin, stdout and stderr are one terminal of this size.
#[derive(Debug)]
pub struct Screen {
    child: Child,
    keys: File,
    seen: Arc<Seen>,
}

struct Seen {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    emulator: Parser,
    cut: Cut,
    /// Everything that was written, for tests that look at bytes.
    bytes: Vec<u8>,
    /// Nobody reads the terminal, as after Ctrl-S.
    stopped: bool,
    ended: bool,
}

impl State {
    fn process(&mut self, bytes: &[u8]) {
        self.cut = cut::process(&mut self.emulator, bytes, self.cut);
    }
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seen").finish_non_exhaustive()
    }
}

impl Seen {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn size(columns: u16, rows: u16) -> (NonZeroU16, NonZeroU16) {
    let number = |it| NonZeroU16::new(it).expect("a screen has columns and rows");
    (number(rows), number(columns))
}

impl Screen {
    /// Starts the program in this world, on a terminal of `columns` and `rows`.
    #[track_caller]
    pub fn spawn(world: &World, program: &Path, args: &[&str], columns: u16, rows: u16) -> Self {
        let [ours, theirs] = pty::terminal();
        tcsetwinsize(&theirs, winsize(columns, rows)).expect("it takes a size");
        let end = || Stdio::from(theirs.try_clone().expect("it can be shared"));
        let child = Command::new(program)
            .args(args)
            .env_clear()
            .envs(world.env())
            .env("TERM", "xterm-256color")
            .current_dir(world.work())
            // A job of its own: Ctrl-Z stops it and not us.
            .process_group(0)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap_or_else(|error| panic!("start {}: {error}", program.display()));
        drop(theirs);
        let (height, width) = size(columns, rows);
        let seen = Arc::new(Seen {
            state: Mutex::new(State {
                emulator: Parser::new(height, width, SCROLLBACK),
                cut: Cut::Wrapped,
                bytes: vec![],
                stopped: false,
                ended: false,
            }),
            changed: Condvar::new(),
        });
        read_all(
            File::from(ours.try_clone().expect("it can be shared")),
            Arc::clone(&seen),
        );
        Self {
            child,
            keys: File::from(ours),
            seen,
        }
    }

    /// Presses keys.
    #[track_caller]
    pub fn key(&mut self, text: &str) {
        self.keys
            .write_all(text.as_bytes())
            .expect("the terminal takes keys");
    }

    /// The same for bytes that are no keys.
    #[track_caller]
    pub fn key_bytes(&mut self, bytes: &[u8]) {
        self.keys
            .write_all(bytes)
            .expect("the terminal takes bytes");
    }

    /// Gives the screen another size, and tells the program.
    #[track_caller]
    pub fn resize(&self, columns: u16, rows: u16) {
        self.resize_when(columns, rows, "now", |_| true);
    }

    /// The same at a moment when the rows are like this.
    #[track_caller]
    pub fn resize_when(
        &self,
        columns: u16,
        rows: u16,
        what: &str,
        hold: impl FnMut(&[String]) -> bool,
    ) {
        let mut state = self.wait(what, hold);
        let (height, width) = size(columns, rows);
        state.emulator.set_size(height, width);
        tcsetwinsize(&self.keys, winsize(columns, rows)).expect("it takes a size");
        drop(state);
        // It is nobody's controlling terminal, so the kernel tells nobody.
        self.signal(Signal::WINCH);
    }

    /// All rows, those above the screen first, without the empty ones at the end.
    pub fn rows(&self) -> Vec<String> {
        rows_of(&mut self.seen.lock().emulator)
    }

    /// What is painted in all of them, from the first to the last.
    pub fn painted(&self) -> Vec<PaintedText> {
        let mut state = self.seen.lock();
        let mut painted = vec![];
        each_page(&mut state.emulator, |emulator, rows| {
            painted.extend(painted::of_page(emulator, rows));
        });
        painted
    }

    /// The row that the cursor stands in, and its column.
    pub fn cursor(&self) -> (String, usize) {
        let state = self.seen.lock();
        let screen = state.emulator.screen();
        let (row, column) = screen.cursor_position();
        let (_, columns) = screen.size();
        let text = screen
            .rows(0, columns.get())
            .nth(row.into())
            .unwrap_or_default();
        (text.trim_end().to_owned(), column.into())
    }

    /// All bytes that were written.
    pub fn bytes(&self) -> Vec<u8> {
        self.seen.lock().bytes.clone()
    }

    /// Waits until the rows are as they should be.
    #[track_caller]
    pub fn wait_rows(&self, what: &str, hold: impl FnMut(&[String]) -> bool) {
        drop(self.wait(what, hold));
    }

    #[track_caller]
    fn wait(&self, what: &str, mut hold: impl FnMut(&[String]) -> bool) -> MutexGuard<'_, State> {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.seen.lock();
        loop {
            let rows = rows_of(&mut state.emulator);
            if hold(&rows) {
                return state;
            }
            let said = rows
                .iter()
                .filter(|it| it.starts_with("[aish]"))
                .rev()
                .take(5);
            let shown = || {
                let last = rows[rows.len().saturating_sub(40)..].join("\n");
                format!("{last}\nit said: {:?}", said.collect::<Vec<_>>())
            };
            let Some(left) = left(deadline) else {
                panic!(
                    "waited {PATIENCE:?} in vain for {what}; the screen:\n{}",
                    shown()
                );
            };
            assert!(
                !state.ended,
                "the program ended before {what}; the screen:\n{}",
                shown()
            );
            let waited = self.seen.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until a row contains this.
    #[track_caller]
    pub fn wait_for(&self, text: &str) {
        self.wait_rows(&format!("{text:?}"), |rows| {
            rows.iter().any(|it| it.contains(text))
        });
    }

    /// Waits until the row of the cursor reads like this.
    #[track_caller]
    pub fn wait_line(&self, text: &str) {
        self.wait_rows(&format!("the line {text:?}"), |rows| {
            rows.last().is_some_and(|it| it == text)
        });
    }

    /// Waits until this has been written, which may be nothing that is to be seen.
    #[track_caller]
    pub fn wait_bytes(&self, text: &str) {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.seen.lock();
        while place_of(&state.bytes, text.as_bytes()).is_none() {
            let Some(left) = left(deadline) else {
                panic!("waited {PATIENCE:?} in vain for the bytes {text:?}");
            };
            let waited = self.seen.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Answers like a terminal what is asked, one after the other, as soon as it is.
    #[track_caller]
    pub fn answers(&self, answers: &[(&str, &str)]) {
        let mut keys = self.keys.try_clone().expect("it can be shared");
        let seen = Arc::clone(&self.seen);
        let answers = answers
            .iter()
            .map(|(asked, said)| (asked.as_bytes().to_vec(), said.as_bytes().to_vec()));
        let answers: Vec<_> = answers.collect();
        thread::spawn(move || {
            let mut from = 0;
            for (asked, said) in answers {
                let mut state = seen.lock();
                loop {
                    let found = place_of(&state.bytes[from..], &asked);
                    if let Some(at) = found {
                        from += at + asked.len();
                        break;
                    }
                    if state.ended {
                        return;
                    }
                    let woken = seen.changed.wait(state);
                    state = woken.unwrap_or_else(PoisonError::into_inner);
                }
                drop(state);
                keys.write_all(&said).expect("the terminal takes keys");
            }
        });
    }

    /// Stops reading the terminal, as Ctrl-S does.
    pub fn stop(&self) {
        self.seen.lock().stopped = true;
    }

    /// Goes on reading.
    pub fn go_on(&self) {
        self.seen.lock().stopped = false;
        self.seen.changed.notify_all();
    }

    /// Whether keys are echoed and lines are edited by the kernel, as a shell wants it.
    #[track_caller]
    pub fn is_as_before(&self) -> bool {
        let modes = tcgetattr(&self.keys).expect("it is a terminal");
        modes
            .local_modes
            .contains(LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG)
    }

    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        kill_process(pid_of(&self.child), signal).expect("it runs");
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end and returns its exit code, as a shell has it.
    #[track_caller]
    pub fn wait_end(&mut self) -> i32 {
        until("the end of the program on the screen", PATIENCE, || {
            self.child.try_wait().expect("it is our child").map(code_of)
        })
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.go_on();
        drop(self.child.kill());
        drop(self.child.wait());
        let shown = String::from_utf8_lossy(&self.seen.lock().bytes).into_owned();
        panics::refuse_in("the screen", &shown);
    }
}

/// The rows that a text takes on a terminal of that many columns.
pub fn wrapped(text: &str, columns: u16) -> Vec<String> {
    let (height, width) = size(columns, 200);
    let mut emulator = Parser::new(height, width, SCROLLBACK);
    emulator.process(text.replace('\n', "\r\n").as_bytes());
    rows_of(&mut emulator)
}

fn place_of(bytes: &[u8], sought: &[u8]) -> Option<usize> {
    bytes.windows(sought.len()).position(|it| it == sought)
}

fn winsize(columns: u16, rows: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

fn rows_of(emulator: &mut Parser) -> Vec<String> {
    let mut rows: Vec<String> = vec![];
    each_page(emulator, |emulator, count| {
        let screen = emulator.screen();
        let (_, width) = screen.size();
        rows.extend(screen.rows(0, width.get()).take(count));
    });
    for row in &mut rows {
        row.truncate(row.trim_end().len());
    }
    while rows.last().is_some_and(String::is_empty) {
        rows.pop();
    }
    rows
}

/// Turns to each page, those above the screen first, and says how many rows of it are new.
fn each_page(emulator: &mut Parser, mut look: impl FnMut(&Parser, usize)) {
    let height = usize::from(emulator.screen().size().0.get());
    let mut above = emulator.screen().scrollback_len();
    loop {
        emulator.screen_mut().set_scrollback(above);
        look(
            emulator,
            if above == 0 {
                height
            } else {
                above.min(height)
            },
        );
        if above == 0 {
            break;
        }
        above = above.saturating_sub(height);
    }
}

fn read_all(mut from: File, seen: Arc<Seen>) {
    thread::spawn(move || {
        let mut page = [0; 4096];
        let mut held = vec![];
        loop {
            let stopped = seen.changed.wait_while(seen.lock(), |it| it.stopped);
            drop(stopped);
            let Ok(read @ 1..) = from.read(&mut page) else {
                break;
            };
            held.extend(&page[..read]);
            let whole = cut::whole(&held);
            let mut state = seen.lock();
            state.process(&held[..whole]);
            state.bytes.extend(&page[..read]);
            drop(state);
            held.drain(..whole);
            seen.changed.notify_all();
        }
        seen.lock().ended = true;
        seen.changed.notify_all();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_above_the_screen_are_seen_too() {
        let world = World::new();
        let script = "for i in 1 2 3 4 5 6 7 8 9; do echo row $i; done; read x; echo; echo got $x";
        let mut screen = Screen::spawn(&world, Path::new("/bin/sh"), &["-c", script], 20, 4);
        screen.wait_for("row 9");
        let expected: Vec<String> = (1..=9).map(|it| format!("row {it}")).collect();
        assert_eq!(expected, screen.rows());
        assert!(screen.is_as_before());
        screen.key("it\n");
        screen.wait_for("got it");
        assert_eq!(0, screen.wait_end());
    }
}
