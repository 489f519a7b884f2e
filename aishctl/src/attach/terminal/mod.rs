//! A window on a terminal: a line below, rows above it, and neither ever in the other. Four threads meet in `screen`:
//! the window's own, the editor's, the printer's that draws what comes without a key, and the keyboard's.

mod awaited_report;
mod canvas;
mod completion;
mod dropped_file;
mod editor;
mod files;
mod history;
mod hooks;
mod keyboard;
mod keys;
mod layout;
mod lent_terminal;
mod pastes;
mod prompt;
mod question_frame;
mod screen;
mod terminal_mode;

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use aish_proto::config::NotifyMethod;
use aish_proto::id::ConfirmId;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

use self::screen::Screen;
use super::attention::LastSeen;
use super::look::WindowLook;
use super::ui::{CompletionNames, EditorErrand, LinePurpose, PromptHead, UserInput, UserInterface};
use crate::commands::file_mention::PersonLocation;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::picture::area::{CellPixels, PictureArea};
use crate::render::bell::{self, BellSupport};

/// Rows that come within this time are drawn together.
const BATCH: Duration = Duration::from_millis(16);
/// Lines and keys that wait for the window; then the editor waits.
const INPUTS: usize = 16;

/// The terminal as long as it is ours.
#[derive(Debug)]
pub(crate) struct Terminal {
    screen: Arc<Screen>,
    inputs: mpsc::Receiver<UserInput>,
    /// Types at the editor.
    keys: File,
    rings: BellSupport,
    /// The conversation and the number that the title says.
    title: (String, usize),
    /// What starts once there is a prompt to show.
    editor: Option<TerminalThreads>,
    resizes: Signal,
}

/// What is done on threads of their own; they end with the process.
struct TerminalThreads {
    edit: Box<dyn FnOnce() + Send>,
    print: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for TerminalThreads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Threads")
    }
}

impl Terminal {
    /// Takes the terminal of stdin and stdout.
    pub(crate) fn open(
        state_directory: Option<&Path>,
        look: WindowLook,
        here: PersonLocation,
    ) -> io::Result<Self> {
        let (sender, inputs) = mpsc::channel(INPUTS);
        let (hush, ear) = lent_terminal::InputPause::new()?;
        let resizes = signal(SignalKind::window_change())?;
        let tty = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
        let out = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
        let screen = Screen::new(out.try_clone()?, sender, look, hush);
        let (keys, editors) = keyboard::editors_terminal()?;
        let typed = keys.try_clone()?;
        let history = state_directory.map(history::LineHistory::at);
        let made = terminal_mode::take(tty.try_clone()?, &out)
            .and_then(|()| give_away(&editors))
            .and_then(|()| editor::LineEditor::new(&screen, look.keymap, history, here));
        let editor = match made {
            Ok(made) => made,
            Err(error) => {
                terminal_mode::give_back();
                rustix::stdio::dup2_stdin(&tty)?;
                rustix::stdio::dup2_stdout(&out)?;
                return Err(error);
            }
        };
        let carried = Arc::clone(&screen);
        spawn("keyboard", move || {
            keyboard::carry(tty, keys, &ear, &carried, look);
        })?;
        let woken = Arc::clone(&screen);
        Ok(Self {
            screen,
            inputs,
            keys: typed,
            rings: look.rings,
            title: (String::new(), 0),
            editor: Some(TerminalThreads {
                edit: Box::new(move || editor.run()),
                print: Box::new(move || editor::keep_drawing(&woken)),
            }),
            resizes,
        })
    }
}

/// The editor reads our stdin and writes to our stdout: it gets a terminal of its own to read, and writes to nobody.
fn give_away(editors: &OwnedFd) -> io::Result<()> {
    let nobody = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(editors)?;
    rustix::stdio::dup2_stdout(&nobody)?;
    Ok(())
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    // Never joined: it waits for keys, and the program ends without any.
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map(drop)
}

impl UserInterface for Terminal {
    async fn next(&mut self) -> Result<UserInput, Failure> {
        let full = !self.screen.has_room();
        loop {
            tokio::select! {
                input = self.inputs.recv() => {
                    return input.ok_or_else(|| Failure::new(Exit::FAILED, "the line editor ended"));
                }
                () = self.screen.room.notified(), if full => return Ok(UserInput::Room),
                Some(()) = self.resizes.recv() => self.screen.resized(),
            }
        }
    }

    async fn show(&mut self, text: String) -> Result<(), Failure> {
        self.screen.show(&text);
        Ok(())
    }

    fn live(&mut self, row: Option<String>) {
        self.screen.set_live(row);
    }

    fn has_room(&self) -> bool {
        self.screen.has_room()
    }

    fn head(&mut self, head: PromptHead) {
        self.screen.set_head(head);
        if let Some(threads) = self.editor.take() {
            // A terminal without threads is of no use; the end of the inputs says so.
            drop(spawn("editor", threads.edit));
            drop(spawn("printer", threads.print));
        }
    }

    fn show_question(&mut self, question: Option<ConfirmId>) {
        self.screen.asks(question);
    }

    fn lines(&mut self, lines: LinePurpose) {
        self.screen.set_lines(lines);
    }

    fn errand(&mut self, errand: EditorErrand) {
        /// The key by which a line is given up for a while.
        const SUSPEND: &[u8] = b"\x1a";
        self.screen.send_on(errand);
        // An editor that has gone has said so.
        drop(self.keys.write_all(SUSPEND));
    }

    fn ring(&mut self, text: &str, method: NotifyMethod) {
        self.screen.send(&bell::notice(text, method, self.rings));
    }

    fn send(&mut self, bytes: &str) -> bool {
        self.screen.send(bytes);
        true
    }

    fn ask_terminal(&mut self, question: &str) {
        self.screen.answer.expect();
        self.screen.send(question);
    }

    fn picture_area(&self, cell: Option<CellPixels>) -> Option<PictureArea> {
        Some(self.screen.picture_area(cell))
    }

    fn waiting(&mut self, conversation: &str, count: usize) {
        let (named, before) = &self.title;
        if (named.as_str(), *before) == (conversation, count) || (*before, count) == (0, 0) {
            return;
        }
        self.screen
            .send(&bell::title(conversation, *before, count, self.rings));
        self.title = (conversation.to_owned(), count);
    }

    fn last_seen(&self) -> LastSeen {
        self.screen.looked()
    }

    fn names(&mut self, names: CompletionNames) {
        self.screen.set_names(names);
    }

    fn leaving_is_near(&mut self) {
        self.screen.leave_soon();
    }

    fn resumed(&mut self) {
        terminal_mode::take_again();
        self.screen.resumed();
    }

    fn columns(&self) -> Option<usize> {
        Some(self.screen.size().0)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Modes first: a terminal that takes no more than that is still the shell's.
        terminal_mode::quieten();
        terminal_mode::write(self.screen.close().as_bytes());
        let (named, waiting) = &self.title;
        terminal_mode::write(bell::title(named, *waiting, 0, self.rings).as_bytes());
        terminal_mode::give_back();
    }
}
