//! What the editor's thread and the rest of the program share: rows that wait to be shown, the prompt, and where
//! the editor is. Only the editor's thread ever writes to the terminal. It does so when it draws its line: the
//! cursor stands at the beginning of the prompt's cleared row then, so rows and after them the prompt are one write,
//! and no row can get into the line. The printer only wakes the editor to draw.

use std::borrow::Cow;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use aish_proto::id::ConfirmId;
use rustix::process::{Signal, getpid, kill_process};
use tokio::sync::{Notify, mpsc};

use super::errand::{Errand, Hush};
use super::frame::Frame;
use super::pastes::{self, Gone, Pastes};
use super::{layout, prompt};
use crate::attach::attention::{Focus, Looked};
use crate::attach::look::Look;
use crate::attach::ui::{Head, Input, Lines, Names, State};
use crate::notice;

/// Rows that wait, in bytes. A terminal that shows nothing (Ctrl-S) stops the window here, and so the daemon.
const ROWS_BYTES: usize = 256 << 10;
/// How long Tab waits for the names of today.
const NAMES_WITHIN: Duration = Duration::from_millis(100);
/// How long a stop may take to come.
const STOPPED_WITHIN: Duration = Duration::from_millis(300);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Between two lines, or before the first.
    Away,
    /// The prompt is on the screen and keys are read.
    Editing,
    /// A key ended the line; what wakes the editor now would be written into it.
    Leaving,
}

/// Why the editor gave up a line that was not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Suspended {
    pub(super) left: String,
    pub(super) right: String,
}

#[derive(Debug)]
struct Shared {
    rows: String,
    head: Head,
    /// Of the prompt, while this line is edited.
    width: usize,
    phase: Phase,
    /// A wake is on its way to the editor.
    rung: bool,
    /// A key was pressed since the last drawing: that one is not the wake's.
    keyed: bool,
    /// The prompt on the screen is not that of now.
    stale: bool,
    /// The line is higher than the screen: drawing above it would leave pieces of it behind.
    tall: bool,
    /// Of the terminal, columns and rows.
    size: (usize, usize),
    /// What the editor lays its line out for. It hears of a new size a little later than the terminal has it.
    columns: usize,
    leave_until: Option<Instant>,
    suspended: Option<Suspended>,
    /// The stop that was asked for is over.
    resumed: bool,
    /// What is asked.
    frame: Frame,
    /// What is to be sent that is no text, such as a bell.
    bells: String,
    /// When somebody was last there.
    looked: Looked,
    /// What the editor is to do between two lines.
    errand: Option<Errand>,
    /// What lines are for.
    lines: Lines,
    names: Names,
    /// Counted up whenever names came.
    names_came: u64,
    pastes: Pastes,
}

/// Shared by the threads of one terminal.
#[derive(Debug)]
pub(super) struct Screen {
    shared: Mutex<Shared>,
    changed: Condvar,
    names: Condvar,
    pub(super) room: Notify,
    pub(super) inputs: mpsc::Sender<Input>,
    pub(super) hush: Hush,
    look: Look,
}

impl Screen {
    pub(super) fn new(inputs: mpsc::Sender<Input>, look: Look, hush: Hush) -> Arc<Self> {
        Arc::new(Self {
            shared: Mutex::new(Shared {
                rows: String::new(),
                head: Head::default(),
                width: 0,
                phase: Phase::Away,
                rung: false,
                keyed: false,
                stale: false,
                tall: false,
                size: size(),
                columns: 0,
                leave_until: None,
                suspended: None,
                resumed: false,
                frame: Frame::default(),
                bells: String::new(),
                looked: Looked {
                    keyed_at: tokio::time::Instant::now(),
                    focus: Focus::Unknown,
                },
                errand: None,
                lines: Lines::default(),
                names: Names::default(),
                names_came: 0,
                pastes: Pastes::default(),
            }),
            changed: Condvar::new(),
            names: Condvar::new(),
            room: Notify::new(),
            inputs,
            hush,
            look,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // --- the window's side

    pub(super) fn show(&self, text: &str) {
        let mut shared = self.lock();
        shared.rows.push_str(text);
        shared.frame.rows();
        drop(shared);
        self.changed.notify_all();
    }

    pub(super) fn has_room(&self) -> bool {
        self.lock().rows.len() < ROWS_BYTES
    }

    pub(super) fn set_head(&self, head: Head) {
        let mut shared = self.lock();
        if shared.head != head {
            shared.head = head;
            shared.stale = true;
            self.changed.notify_all();
        }
    }

    /// What is shown next is this question.
    pub(super) fn asks(&self, question: Option<ConfirmId>) {
        self.lock().frame.asks(question);
    }

    pub(super) fn set_lines(&self, lines: Lines) {
        self.lock().lines = lines;
    }

    /// What the line is for that ends now.
    pub(super) fn lines(&self) -> Lines {
        self.lock().lines
    }

    /// The question that a key of now answers.
    pub(super) fn answered(&self) -> Option<ConfirmId> {
        self.lock().frame.answered_at(Instant::now())
    }

    /// The terminal gets this as soon as it can be written to.
    pub(super) fn send(&self, bytes: &str) {
        self.lock().bells.push_str(bytes);
        self.changed.notify_all();
    }

    pub(super) fn looked(&self) -> Looked {
        self.lock().looked
    }

    /// What the editor is to do once it has left its line.
    pub(super) fn send_on(&self, errand: Errand) {
        self.lock().errand = Some(errand);
    }

    /// The program goes on after a stop; somebody else wrote on the terminal meanwhile.
    pub(super) fn resumed(&self) {
        let mut shared = self.lock();
        shared.stale = true;
        shared.resumed = true;
        self.changed.notify_all();
    }

    /// What was not drawn.
    pub(super) fn take_rows(&self) -> String {
        let mut shared = self.lock();
        let bells = std::mem::take(&mut shared.bells);
        bells + &std::mem::take(&mut shared.rows)
    }

    pub(super) fn leave_soon(&self) {
        self.lock().leave_until = Some(Instant::now() + crate::attach::LEAVE_WITHIN);
    }

    pub(super) fn set_names(&self, names: Names) {
        let mut shared = self.lock();
        shared.names = names;
        shared.names_came += 1;
        self.names.notify_all();
    }

    /// The cursor stands in a line that nobody will finish.
    pub(super) fn is_editing(&self) -> bool {
        self.lock().phase != Phase::Away
    }

    // --- the keyboard's side

    /// Somebody pressed these keys, or turned to the terminal or away from it.
    pub(super) fn seen(&self, focus: Option<Focus>, keys: &str) {
        let mut shared = self.lock();
        if !keys.is_empty() {
            shared.looked.keyed_at = tokio::time::Instant::now();
        }
        if let Some(focus) = focus {
            shared.looked.focus = focus;
            drop(self.inputs.try_send(Input::Turned));
        }
    }

    // --- the printer's side

    /// Waits until there is something to draw and the editor can be woken, then wakes it. The lock is held over
    /// `wake`, so the editor cannot leave its line meanwhile; there is never more than one wake on its way,
    /// so `wake` does not block.
    pub(super) fn wake_when_due<E>(&self, wake: impl FnOnce() -> Result<(), E>) -> Result<(), E> {
        let mut shared = self
            .changed
            .wait_while(self.lock(), |it| !it.is_due())
            .unwrap_or_else(PoisonError::into_inner);
        shared.rung = true;
        wake()
    }

    // --- the editor's side

    /// A line begins. Gives the columns that its prompt will take to the end.
    pub(super) fn begin_line(&self) -> usize {
        let mut shared = self.lock();
        shared.size = size();
        shared.columns = shared.size.0;
        shared.width = prompt::width(&shared.head, self.look.glyphs, shared.columns);
        shared.phase = Phase::Away;
        shared.tall = false;
        shared.suspended = None;
        shared.width
    }

    /// The line has ended and the editor is back.
    pub(super) fn end_line(&self) -> (Option<Suspended>, Option<ConfirmId>) {
        let mut shared = self.lock();
        shared.phase = Phase::Away;
        (shared.suspended.take(), shared.frame.end_line())
    }

    pub(super) fn errand(&self) -> Option<Errand> {
        self.lock().errand.take()
    }

    /// A key will end this line.
    pub(super) fn leave_line(&self) {
        self.lock().phase = Phase::Leaving;
    }

    /// Stops by `stop`, and returns when the program goes on. The stop takes effect a moment after it was asked for,
    /// and not at all where no shell could undo it; so the time is limited, and counts only while we run.
    pub(super) fn stop(&self, stop: impl FnOnce()) {
        let mut shared = self.lock();
        shared.resumed = false;
        stop();
        let waited = self
            .changed
            .wait_timeout_while(shared, STOPPED_WITHIN, |it| !it.resumed);
        drop(waited);
    }

    pub(super) fn suspend_line(&self, suspended: Suspended) {
        let mut shared = self.lock();
        shared.phase = Phase::Leaving;
        shared.suspended = Some(suspended);
    }

    /// A key changed the line or moved in it; it will be drawn again.
    pub(super) fn key(&self, line: &str) {
        let mut shared = self.lock();
        shared.keyed = true;
        shared.frame.line(line, Instant::now());
        shared.pastes.line(line);
        let (columns, rows) = shared.size;
        shared.tall = shared.width + line.len() > columns
            && layout::rows(line, shared.width, columns) >= rows;
    }

    /// What is drawn where the prompt stands: the rows that wait, then the prompt.
    pub(super) fn draw(&self, prompt: &str, ours: bool) -> String {
        let mut shared = self.lock();
        let now = size();
        let resized = now != std::mem::replace(&mut shared.size, now);
        if resized {
            // The editor hears of it by a signal, and not of one that came before it listened.
            let _gone = kill_process(getpid(), Signal::WINCH);
        }
        if !std::mem::take(&mut shared.keyed) {
            shared.rung = false;
        }
        if shared.phase == Phase::Away {
            shared.phase = Phase::Editing;
        }
        let bells = std::mem::take(&mut shared.bells);
        let mut drawn = String::new();
        if !shared.rows.is_empty() && !shared.tall {
            // The prompt is the last thing on the screen: below it there is only what a resize left behind.
            drawn = format!("\u{1b}[J{}", shared.rows);
            shared.rows.clear();
            shared.rows.shrink_to(ROWS_BYTES);
            shared.frame.drawn(Instant::now());
            self.room.notify_one();
        } else if resized {
            drawn.push_str("\u{1b}[J");
        }
        if ours {
            shared.stale = false;
            drawn.push_str(&prompt::text(
                &shared.head,
                self.look.glyphs,
                shared.width,
                self.look.is_colored(),
            ));
        } else {
            drawn.push_str(prompt);
        }
        drop(shared);
        self.changed.notify_all();
        bells + &drawn
    }

    /// The editor lays everything out for the terminal's size of now.
    pub(super) fn laid_out(&self) {
        self.lock().columns = size().0;
    }

    /// The line as it is drawn. Its rows end in line feeds and not where the terminal wraps, so that the rows that
    /// the editor clears later are those that it drew, also when the terminal has another width by then. Once it is
    /// left, it is one line for whoever copies it.
    pub(super) fn broken<'l>(&self, line: &'l str) -> Cow<'l, str> {
        let mut shared = self.lock();
        let now = shared.size.0;
        if shared.phase == Phase::Leaving {
            return Cow::Borrowed(line);
        }
        if layout::rows(line, shared.width, now.min(shared.columns)) == 1 {
            // The editor does not say that it heard of a new size while one row is enough.
            shared.columns = now;
            return Cow::Borrowed(line);
        }
        Cow::Owned(layout::broken(line, shared.width, shared.columns, now))
    }

    /// Whether Ctrl-C is for the conversation, and not for the line that is half typed.
    pub(super) fn is_interruptible(&self) -> bool {
        let shared = self.lock();
        shared.head.state == State::Running
            || shared.leave_until.is_some_and(|it| Instant::now() < it)
    }

    /// The names, those of now if they come in time.
    pub(super) fn names(&self) -> Names {
        let shared = self.lock();
        let before = shared.names_came;
        if self.inputs.try_send(Input::NamesWanted).is_err() {
            return shared.names.clone();
        }
        let waited = self
            .names
            .wait_timeout_while(shared, NAMES_WITHIN, |it| it.names_came == before);
        waited
            .unwrap_or_else(PoisonError::into_inner)
            .0
            .names
            .clone()
    }

    // --- pastes

    /// Keeps a paste that is too large for the line, and gives the mark that stands for it. It is told when there is
    /// no room for one more.
    pub(super) fn keep_paste(&self, text: String) -> String {
        let kept = self.lock().pastes.keep(text);
        kept.unwrap_or_else(|| {
            self.tell(&format!(
                "the pastes of this line are {} MiB, and there is no room for one more: it is left out",
                pastes::BYTES >> 20
            ));
            String::new()
        })
    }

    /// The line with its pastes in the place of their marks.
    pub(super) fn unfold(&self, line: &str) -> Result<String, Gone> {
        self.lock().pastes.unfold(line)
    }

    /// Says something above the line.
    pub(super) fn tell(&self, text: &str) {
        self.show(&notice::line(text, self.look.is_colored()));
    }

    /// Whether a paste may stand in the line as it is: it takes less than half of the screen, and no backslash of it
    /// would be taken for one that continues the line.
    pub(super) fn takes_paste(&self, text: &str) -> bool {
        let (columns, rows) = size();
        text.len() < 4096
            && !text.contains("\\\n")
            && layout::rows(text, 0, columns) <= (rows / 2).max(3)
    }
}

impl Shared {
    fn is_due(&self) -> bool {
        let rows = !self.rows.is_empty() && !self.tall;
        let rings = !self.bells.is_empty();
        self.phase == Phase::Editing && !self.rung && (rows || rings || self.stale)
    }
}

/// Columns and rows of the terminal.
pub(super) fn size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(rustix::stdio::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col.into(), size.ws_row.into()),
        _ => (80, 24),
    }
}
