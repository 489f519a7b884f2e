//! What the threads of one terminal share: rows that wait to be shown, the line as it is typed, and what stands on the
//! screen. The editor turns keys into a line and draws nothing; every drawing is made and written here, one after the
//! other, rows and below them the line in one write. So no row can get into the line.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aish_proto::id::ConfirmId;
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::{Notify, mpsc};

use super::awaited_report::AwaitedReport;
use super::canvas::{self, BottomRows, TerminalSize};
use super::lent_terminal::InputPause;
use super::pastes::{self, DroppedPaste, PasteStore};
use super::question_frame::TerminalFrame;
use super::{layout, prompt};
use crate::attach::attention::{LastSeen, TerminalFocus};
use crate::attach::look::WindowLook;
use crate::attach::ui::{
    CompletionNames, EditorErrand, LinePurpose, PromptHead, PromptState, UserInput,
};
use crate::completion::server_words::{SERVER_WITHIN, WantedCompletion};
use crate::picture::area::{CellPixels, PictureArea};
use crate::render::notice;

/// Rows that wait, in bytes. A terminal that takes nothing stops the window here, and so the daemon.
const ROWS_BYTES: usize = 256 << 10;
/// How long Tab waits for the names of today.
const NAMES_WITHIN: Duration = Duration::from_millis(100);
/// A drawing that takes longer at the end is one on a terminal that is stopped.
const CLOSED_WITHIN: Duration = Duration::from_millis(100);
/// How long a stop may take to come.
const STOPPED_WITHIN: Duration = Duration::from_millis(300);

/// Why the editor gave up a line that was not finished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SuspendReason {
    pub(super) left: String,
    pub(super) right: String,
}

/// What a line that ended was for, all as it stood at that moment.
#[derive(Debug)]
pub(super) struct EndedLine {
    pub(super) suspended: Option<SuspendReason>,
    /// The question that it answers.
    pub(super) answers: Option<ConfirmId>,
    pub(super) lines: LinePurpose,
}

/// The line that is being typed.
#[derive(Debug)]
struct LineBuffer {
    /// What the editor itself asks, as when it searches.
    search: Option<String>,
    text: String,
    cursor: usize,
}

#[derive(Debug)]
struct ScreenState {
    rows: String,
    head: PromptHead,
    /// What goes on now.
    live: Option<String>,
    /// None between two lines, and before the first.
    line: Option<LineBuffer>,
    /// What the editor said last of its prompt.
    search: Option<String>,
    /// What stands on the screen is not as it would be drawn now.
    stale: bool,
    /// What stands on the screen is not known.
    lost: bool,
    /// The screen is to be emptied.
    cleared: bool,
    /// The terminal is given back: nothing is drawn any more.
    over: bool,
    leave_until: Option<Instant>,
    suspended: Option<SuspendReason>,
    /// The stop that was asked for is over.
    resumed: bool,
    /// What is asked.
    frame: TerminalFrame,
    /// What is to be sent that is no text, such as a bell.
    bells: String,
    /// When somebody was last there.
    looked: LastSeen,
    /// What the editor is to do between two lines.
    errand: Option<EditorErrand>,
    /// What lines are for.
    lines: LinePurpose,
    names: CompletionNames,
    /// Counted up whenever names came.
    names_came: u64,
    pastes: PasteStore,
}

/// Shared by the threads of one terminal.
#[derive(Debug)]
pub(super) struct Screen {
    terminal: OwnedFd,
    /// Held while something is written, so that drawings follow each other; nobody waits for it who must not wait for
    /// the terminal.
    standing: Mutex<BottomRows>,
    shared: Mutex<ScreenState>,
    changed: Condvar,
    names: Condvar,
    pub(super) room: Notify,
    pub(super) inputs: mpsc::Sender<UserInput>,
    pub(super) hush: InputPause,
    /// Of the terminal itself.
    pub(super) answer: AwaitedReport,
    look: WindowLook,
}

impl Screen {
    pub(super) fn new(
        terminal: OwnedFd,
        inputs: mpsc::Sender<UserInput>,
        look: WindowLook,
        hush: InputPause,
    ) -> Arc<Self> {
        Arc::new(Self {
            terminal,
            standing: Mutex::default(),
            shared: Mutex::new(ScreenState {
                rows: String::new(),
                head: PromptHead::default(),
                live: None,
                line: None,
                search: None,
                stale: false,
                lost: false,
                cleared: false,
                over: false,
                leave_until: None,
                suspended: None,
                resumed: false,
                frame: TerminalFrame::default(),
                bells: String::new(),
                looked: LastSeen {
                    keyed_at: tokio::time::Instant::now(),
                    focus: TerminalFocus::Unknown,
                },
                errand: None,
                lines: LinePurpose::default(),
                names: CompletionNames::default(),
                names_came: 0,
                pastes: PasteStore::default(),
            }),
            changed: Condvar::new(),
            names: Condvar::new(),
            room: Notify::new(),
            inputs,
            hush,
            answer: AwaitedReport::default(),
            look,
        })
    }

    fn lock(&self) -> MutexGuard<'_, ScreenState> {
        self.shared.lock()
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

    pub(super) fn set_head(&self, head: PromptHead) {
        let mut shared = self.lock();
        if shared.head != head {
            shared.head = head;
            shared.stale = true;
            self.changed.notify_all();
        }
    }

    /// The row above the line.
    pub(super) fn set_live(&self, row: Option<String>) {
        let mut shared = self.lock();
        if shared.live != row {
            shared.live = row;
            shared.stale = true;
            self.changed.notify_all();
        }
    }

    /// What is shown next is this question.
    pub(super) fn asks(&self, question: Option<ConfirmId>) {
        self.lock().frame.asks(question);
    }

    pub(super) fn set_lines(&self, lines: LinePurpose) {
        self.lock().lines = lines;
    }

    /// What the line is for that is typed now.
    pub(super) fn lines(&self) -> LinePurpose {
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

    pub(super) fn looked(&self) -> LastSeen {
        self.lock().looked
    }

    /// What the editor is to do once it has left its line.
    pub(super) fn send_on(&self, errand: EditorErrand) {
        self.lock().errand = Some(errand);
    }

    /// The program goes on after a stop; somebody else wrote on the terminal meanwhile.
    pub(super) fn resumed(&self) {
        let mut shared = self.lock();
        shared.stale = true;
        shared.lost = true;
        shared.resumed = true;
        self.changed.notify_all();
    }

    /// The terminal has another size.
    pub(super) fn resized(&self) {
        self.lock().stale = true;
        self.changed.notify_all();
    }

    /// The end: what is still to be written. A terminal that is stopped is not waited for.
    pub(super) fn close(&self) -> String {
        self.lock().over = true;
        let standing = self.standing_within(CLOSED_WITHIN);
        let mut shared = self.lock();
        let mut left = std::mem::take(&mut shared.bells);
        let above = shared.take_rows();
        match (shared.line.take(), standing) {
            (Some(line), Some(mut standing)) => {
                let size = self.size();
                let prompt = shared.prompt(&line, size, self.look);
                left.push_str(&standing.leave(&above, line.after_prompt(&prompt), size));
            }
            (Some(_), None) => left.push_str(&format!("{}{above}", canvas::BROKEN_OFF)),
            (None, _) => left.push_str(&above),
        }
        left
    }

    pub(super) fn leave_soon(&self) {
        self.lock().leave_until = Some(Instant::now() + crate::attach::ui::LEAVE_WITHIN);
    }

    pub(super) fn set_names(&self, names: CompletionNames) {
        let mut shared = self.lock();
        // What a server offered stays until the one who waits for it has it.
        let offered = names.offered.or(shared.names.offered.take());
        shared.names = CompletionNames { offered, ..names };
        shared.names_came += 1;
        self.names.notify_all();
    }

    // --- the keyboard's side

    /// Somebody pressed these keys, or turned to the terminal or away from it.
    pub(super) fn note_activity(&self, focus: Option<TerminalFocus>, keys: &str) {
        let mut shared = self.lock();
        if !keys.is_empty() {
            shared.looked.keyed_at = tokio::time::Instant::now();
        }
        if let Some(focus) = focus {
            shared.looked.focus = focus;
            drop(self.inputs.try_send(UserInput::Turned));
        }
    }

    // --- the printer's side

    /// Waits until there is something to draw beside what keys change.
    pub(super) fn wait_due(&self) {
        self.changed.wait_while(&mut self.lock(), |it| !it.is_due());
    }

    /// Writes what waits, and below it the line. Returns when the terminal has taken it.
    pub(super) fn draw(&self) {
        let mut standing = self.lock_bottom_rows();
        let mut shared = self.lock();
        let Some(line) = shared.line.take().filter(|_| !shared.over) else {
            return;
        };
        let size = self.size();
        let mut drawn = std::mem::take(&mut shared.bells);
        if std::mem::take(&mut shared.lost) {
            standing.forget();
        }
        if std::mem::take(&mut shared.cleared) {
            drawn.push_str(standing.clear());
        }
        let above = shared.take_rows();
        let prompt = shared.prompt(&line, size, self.look);
        let edited = canvas::EditedLine {
            live: shared.live.as_deref(),
            ..line.after_prompt(&prompt)
        };
        drawn.push_str(&standing.draw(&above, edited, size));
        shared.line = Some(line);
        shared.stale = false;
        drop(shared);
        if !above.is_empty() {
            self.room.notify_one();
        }
        self.write(&drawn);
    }

    // --- the editor's side

    /// The editor asks this before the line; nothing when it is the prompt.
    pub(super) fn prompted(&self, search: Option<&str>) {
        self.lock().search = search.map(str::to_owned);
    }

    /// The line is this now, with the cursor before this byte.
    pub(super) fn typed(&self, text: &str, cursor: usize) {
        let mut shared = self.lock();
        shared.line = Some(LineBuffer {
            search: shared.search.clone(),
            text: text.to_owned(),
            cursor,
        });
        shared.frame.line(text, Instant::now());
        shared.pastes.line(text);
        drop(shared);
        self.draw();
    }

    /// The line has ended and the editor is back.
    pub(super) fn end_line(&self) -> EndedLine {
        let mut standing = self.lock_bottom_rows();
        let mut shared = self.lock();
        let mut drawn = String::new();
        if let Some(line) = shared.line.take().filter(|_| !shared.over) {
            let above = shared.take_rows();
            let size = self.size();
            let prompt = shared.prompt(&line, size, self.look);
            // Somebody else gets the terminal, and the line had not been begun.
            drawn = if shared.errand.is_some() && line.text.is_empty() {
                standing.take_away(&above, size)
            } else {
                standing.leave(&above, line.after_prompt(&prompt), size)
            };
        }
        let ended = EndedLine {
            suspended: shared.suspended.take(),
            answers: shared.frame.end_line(),
            lines: shared.lines,
        };
        drop(shared);
        self.room.notify_one();
        self.write(&drawn);
        ended
    }

    /// The screen is emptied, but for the line.
    pub(super) fn clear(&self) {
        let mut shared = self.lock();
        shared.cleared = true;
        shared.stale = true;
        self.changed.notify_all();
    }

    pub(super) fn errand(&self) -> Option<EditorErrand> {
        self.lock().errand.take()
    }

    /// Stops by `stop`, and returns when the program goes on. The stop takes effect a moment after it was asked for,
    /// and not at all where no shell could undo it; so the time is limited, and counts only while we run.
    pub(super) fn stop(&self, stop: impl FnOnce()) {
        let mut shared = self.lock();
        shared.resumed = false;
        stop();
        self.changed
            .wait_while_for(&mut shared, |it| !it.resumed, STOPPED_WITHIN);
    }

    pub(super) fn suspend_line(&self, suspended: SuspendReason) {
        self.lock().suspended = Some(suspended);
    }

    /// Whether Ctrl-C is for the conversation, and not for the line that is half typed.
    pub(super) fn is_interruptible(&self) -> bool {
        let shared = self.lock();
        shared.head.state == PromptState::Running
            || shared.leave_until.is_some_and(|it| Instant::now() < it)
    }

    /// The names, those of now if they come in time.
    pub(super) fn names(&self) -> CompletionNames {
        let mut shared = self.lock();
        let before = shared.names_came;
        if self.inputs.try_send(UserInput::NamesWanted(None)).is_err() {
            return shared.names.clone();
        }
        self.names
            .wait_while_for(&mut shared, |it| it.names_came == before, NAMES_WITHIN);
        shared.names.clone()
    }

    /// What an MCP server says to this, if it says so in time.
    pub(super) fn server_words(&self, wish: &WantedCompletion) -> Vec<String> {
        let mut shared = self.lock();
        shared.names.offered = None;
        let sent = UserInput::NamesWanted(Some(wish.clone()));
        if self.inputs.try_send(sent).is_err() {
            return vec![];
        }
        let is_out = |it: &mut ScreenState| {
            let offered = it.names.offered.as_ref();
            offered.is_none_or(|(to, _)| to != wish)
        };
        let within = SERVER_WITHIN + NAMES_WITHIN;
        self.names.wait_while_for(&mut shared, is_out, within);
        let offered = shared.names.offered.take();
        offered
            .filter(|(to, _)| to == wish)
            .map(|it| it.1)
            .unwrap_or_default()
    }

    // --- pastes

    /// Keeps a paste that is too large for the line, and gives the mark that stands for it. It is told when there is
    /// no room for one more.
    pub(super) fn keep_paste(&self, text: String) -> String {
        let kept = self.lock().pastes.keep(text);
        kept.unwrap_or_else(|| {
            self.print(&format!(
                "the pastes of this line are {} MiB, and there is no room for one more: it is left out",
                pastes::BYTES >> 20
            ));
            String::new()
        })
    }

    /// The line with its pastes in the place of their marks.
    pub(super) fn unfold(&self, line: &str) -> Result<String, DroppedPaste> {
        self.lock().pastes.unfold(line)
    }

    /// Says something above the line.
    pub(super) fn print(&self, text: &str) {
        let columns = Some(self.size().0);
        self.show(&notice::rows(text, self.look.is_colored(), columns));
    }

    /// Whether the line is what somebody asks, and neither a command nor an answer to a form.
    pub(super) fn is_question(&self) -> bool {
        let shared = self.lock();
        let begun = shared.line.as_ref().map_or("", |it| it.text.trim_start());
        shared.lines == LinePurpose::Free && !begun.starts_with([':', '!'])
    }

    /// Whether a paste may stand in the line as it is: it takes less than half of the screen, and no backslash of it
    /// would be taken for one that continues the line.
    pub(super) fn takes_paste(&self, text: &str) -> bool {
        let (columns, rows) = self.size();
        text.len() < 4096
            && !text.contains("\\\n")
            && layout::lay(text, 0, 0, columns).rows.len() <= (rows / 2).max(3)
    }

    // --- the terminal

    /// Columns and rows of the terminal.
    pub(super) fn size(&self) -> TerminalSize {
        match rustix::termios::tcgetwinsize(&self.terminal) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => (80, 24),
        }
    }

    /// What room a picture has among the rows.
    pub(super) fn picture_area(&self, cell: Option<CellPixels>) -> PictureArea {
        PictureArea::among_rows(&self.terminal, cell)
    }

    /// What a program is seen on that gets the terminal for a while.
    pub(super) fn terminal(&self) -> io::Result<File> {
        self.terminal.try_clone().map(File::from)
    }

    /// To the terminal, however slow it is. One that is gone is noticed at its keys.
    fn write(&self, drawn: &str) {
        let mut left = drawn.as_bytes();
        while !left.is_empty() {
            match rustix::io::write(&self.terminal, left) {
                Ok(written) => left = left.get(written..).unwrap_or_default(),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    let mut fds = [PollFd::new(&self.terminal, PollFlags::OUT)];
                    let _again = poll(&mut fds, None);
                }
                Err(_) => return,
            }
        }
    }

    fn lock_bottom_rows(&self) -> MutexGuard<'_, BottomRows> {
        self.standing.lock()
    }

    fn standing_within(&self, limit: Duration) -> Option<MutexGuard<'_, BottomRows>> {
        self.standing.try_lock_for(limit)
    }
}

impl LineBuffer {
    fn after_prompt<'a>(
        &'a self,
        (prompt, prompt_columns): &'a (String, usize),
    ) -> canvas::EditedLine<'a> {
        canvas::EditedLine {
            prompt,
            prompt_columns: *prompt_columns,
            text: &self.text,
            cursor: self.cursor,
            live: None,
        }
    }
}

impl ScreenState {
    fn is_due(&self) -> bool {
        self.line.is_some()
            && !self.over
            && (!self.rows.is_empty() || !self.bells.is_empty() || self.stale)
    }

    fn take_rows(&mut self) -> String {
        if !self.rows.is_empty() {
            self.frame.drawn(Instant::now());
        }
        std::mem::take(&mut self.rows)
    }

    /// What stands before the line, and how many columns it takes.
    fn prompt(
        &self,
        line: &LineBuffer,
        (columns, _): TerminalSize,
        look: WindowLook,
    ) -> (String, usize) {
        if let Some(search) = &line.search {
            return prompt::search(search, look.glyphs, columns);
        }
        let width = prompt::width(&self.head, look.glyphs, columns);
        let text = prompt::text(&self.head, look.glyphs, width, look.is_colored());
        (text, width)
    }
}
