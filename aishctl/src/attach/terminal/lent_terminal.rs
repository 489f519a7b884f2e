//! The terminal, lent to another program: the editor's thread runs it between two lines, so that nothing is drawn
//! meanwhile, and the keyboard is not read, so that every key is the program's.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::screen::Screen;
use super::terminal_mode;
use crate::attach::ui::{EditorErrand, UserInput};
use crate::client::editor::EditorPlace;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::picker;

/// The keyboard may be in the middle of handing over a key.
const HUSHED_WITHIN: Duration = Duration::from_secs(1);

/// Runs it, on the editor's thread. Fails when nobody listens any more.
pub(super) fn run(errand: EditorErrand, screen: &Screen) -> Result<(), ()> {
    screen.hush.hush();
    terminal_mode::lend();
    let lent = terminal_mode::terminal().and_then(|keys| Ok((keys, screen.terminal()?)));
    let lent = lent.map_err(|error| cannot_lend(&error));
    let came = match errand {
        EditorErrand::Line(text) => UserInput::Line(text, None),
        EditorErrand::Arguments(question, draft) => {
            let edited = lent.and_then(|lent| draft.edit(&between(lent)));
            UserInput::Edited(question, edited)
        }
        EditorErrand::Question(before, draft) => {
            let edited = lent.and_then(|lent| draft.edit(&between(lent)));
            let other = |text: String| Some(text).filter(|it| it.trim() != before.trim());
            UserInput::Rewritten(edited.map(other))
        }
        EditorErrand::Pick(picker) => {
            let picked = lent.and_then(|(keys, screen)| {
                terminal_mode::goes_to_other_screen();
                let goes_on = AtomicBool::new(true);
                let picked = picker::terminal::run(*picker, &keys, &screen, &goes_on);
                picked.map_err(|error| cannot_lend(&error))
            });
            UserInput::Picked(picked)
        }
    };
    terminal_mode::take_back();
    screen.hush.listen();
    screen.resumed();
    screen.inputs.blocking_send(came).map_err(drop)
}

fn between((keys, screen): (File, File)) -> EditorPlace {
    EditorPlace::Between { keys, screen }
}

fn cannot_lend(error: &io::Error) -> Failure {
    Failure::new(Exit::FAILED, format!("cannot lend the terminal: {error}"))
}

/// Whether the keyboard is read.
#[derive(Debug)]
pub(super) struct InputPause {
    state: Mutex<PauseState>,
    changed: Condvar,
    ring: PipeWriter,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseState {
    Listening,
    /// The keyboard's thread is told to stop reading.
    Hushing,
    Hushed,
}

impl InputPause {
    /// The other end wakes the keyboard's thread.
    pub(super) fn new() -> io::Result<(Self, PipeReader)> {
        let (ear, ring) = pipe()?;
        let hush = Self {
            state: Mutex::new(PauseState::Listening),
            changed: Condvar::new(),
            ring,
        };
        Ok((hush, ear))
    }

    fn lock(&self) -> MutexGuard<'_, PauseState> {
        self.state.lock()
    }

    /// Returns when the keyboard is not read any more.
    fn hush(&self) {
        let mut state = self.lock();
        *state = PauseState::Hushing;
        // A keyboard that has gone reads nothing either.
        drop((&self.ring).write_all(b"!"));
        self.changed
            .wait_while_for(&mut state, |it| *it == PauseState::Hushing, HUSHED_WITHIN);
    }

    fn listen(&self) {
        *self.lock() = PauseState::Listening;
        self.changed.notify_all();
    }

    /// The keyboard's side: it was woken, and returns when it may read again.
    pub(super) fn rest(&self, mut ear: &PipeReader) {
        drop(ear.read(&mut [0; 16]));
        let mut state = self.lock();
        if *state == PauseState::Hushing {
            *state = PauseState::Hushed;
            self.changed.notify_all();
        }
        self.changed
            .wait_while(&mut state, |it| *it != PauseState::Listening);
    }
}
