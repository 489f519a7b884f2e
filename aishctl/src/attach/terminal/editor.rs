//! The thread of the line editor: lines are read here and nowhere else.

use std::io;
use std::sync::Arc;

use rustix::process::{Signal, kill_current_process_group};
use rustyline::error::ReadlineError;
use rustyline::history::MemHistory;
use rustyline::{Config, Editor};

use super::history::{self, LineHistory};
use super::hooks::EditorHooks;
use super::pastes::DroppedPaste;
use super::screen::Screen;
use super::{keys, lent_terminal, terminal_mode};
use crate::attach::look::EditorKeymap;
use crate::attach::ui::{EditorErrand, LinePurpose, UserInput};
use crate::commands::file_mention::PersonLocation;

/// How long the rest of a key's bytes may take behind its escape.
const ESCAPE_MS: u16 = 30;

pub(super) struct LineEditor {
    editor: Editor<EditorHooks, MemHistory>,
    screen: Arc<Screen>,
    history: Option<LineHistory>,
}

impl LineEditor {
    /// An editor of our stdin.
    pub(super) fn new(
        screen: &Arc<Screen>,
        keymap: EditorKeymap,
        history: Option<LineHistory>,
        here: PersonLocation,
    ) -> io::Result<Self> {
        let config = Config::builder()
            .edit_mode(match keymap {
                EditorKeymap::Emacs => rustyline::EditMode::Emacs,
                EditorKeymap::Vi => rustyline::EditMode::Vi,
            })
            // Escape is a key of its own after that: an ordinary `y` that follows it later must not be Alt-y.
            .keyseq_timeout(Some(ESCAPE_MS))
            // The hooks are asked only where colours are on.
            .color_mode(rustyline::ColorMode::Forced)
            .completion_type(rustyline::CompletionType::Circular)
            .bell_style(rustyline::config::BellStyle::None)
            .bracketed_paste(false)
            .history_ignore_space(true)
            .max_history_size(history::LINES)
            .map_err(io::Error::other)?
            .build();
        let lines = MemHistory::with_config(&config);
        let mut editor = Editor::with_history(config, lines).map_err(io::Error::other)?;
        editor.set_helper(Some(EditorHooks {
            screen: Arc::clone(screen),
            here,
        }));
        for (key, handler) in keys::bindings(screen) {
            editor.bind_sequence(key, handler);
        }
        for line in history.iter().flat_map(LineHistory::load) {
            drop(editor.add_history_entry(line));
        }
        Ok(Self {
            editor,
            screen: Arc::clone(screen),
            history,
        })
    }

    /// Reads lines until nobody wants any.
    pub(super) fn run(mut self) {
        let mut begun = (String::new(), String::new());
        loop {
            let (left, right) = std::mem::take(&mut begun);
            let read = self.editor.readline_with_initial("", (&left, &right));
            let ended = self.screen.end_line();
            match (read, ended.suspended) {
                (Ok(line), _) => match self.screen.unfold(&keys::joined(&line)) {
                    Ok(whole) => {
                        if ended.lines == LinePurpose::Free {
                            self.remember(&line, &whole);
                        }
                        let sent = UserInput::Line(whole, ended.answers);
                        if self.screen.inputs.blocking_send(sent).is_err() {
                            return;
                        }
                    }
                    Err(DroppedPaste { mark }) => {
                        self.screen.print(&format!(
                            "there is no text for {mark} and nothing is sent; paste it again or take the mark out"
                        ));
                        begun = (line, String::new());
                    }
                },
                (Err(ReadlineError::Interrupted), Some(suspended)) => {
                    begun = (suspended.left, suspended.right);
                    match self.screen.errand() {
                        // What was typed meanwhile stays.
                        Some(EditorErrand::Line(text)) => begun.0.insert_str(0, &text),
                        Some(errand) => {
                            if lent_terminal::run(errand, &self.screen).is_err() {
                                return;
                            }
                        }
                        None => suspend(&self.screen),
                    }
                }
                (Err(ReadlineError::Interrupted), None) => {}
                (Err(_), _) => return,
            }
        }
    }

    /// For Up, and for the next window. A mark means nothing later: a short paste is remembered as its text; a long one,
    /// or one with backslashes that would not come back as they were, is not remembered.
    fn remember(&mut self, line: &str, whole: &str) {
        let marked = keys::joined(line) != whole;
        let comes_back = history::is_kept(whole) && keys::joined(whole) == whole;
        if marked && !comes_back {
            return;
        }
        drop(
            self.editor
                .add_history_entry(if marked { whole } else { line }),
        );
        if let Some(history) = &self.history {
            // A line that could not be kept is still sent.
            drop(history.add(whole));
        }
    }
}

/// Somebody must hear of the end, also if it was a panic.
impl Drop for LineEditor {
    fn drop(&mut self) {
        let end = if std::thread::panicking() {
            UserInput::Broken
        } else {
            UserInput::End
        };
        drop(self.screen.inputs.blocking_send(end));
    }
}

/// Draws whenever there is something, but not for every row of a burst. Ends with the process.
pub(super) fn keep_drawing(screen: &Screen) -> ! {
    loop {
        screen.wait_due();
        screen.draw();
        std::thread::sleep(super::BATCH);
    }
}

/// Stops the whole job, as the shell expects it of Ctrl-Z, and returns when it goes on.
fn suspend(screen: &Screen) {
    terminal_mode::give_back();
    screen.stop(|| {
        let _stopped = kill_current_process_group(Signal::TSTP);
    });
    terminal_mode::take_again();
}
