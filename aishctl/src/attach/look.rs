//! How a window looks and which editor it has: flags before environment before what the daemon was configured with.

use aish_proto::config::{Ui, When};

use super::ring::Rings;
use super::terminal::{Glyphs, Keymap};
use crate::args::{Color, Global};
use crate::markdown::{Colours, Style};
use crate::notice;
use crate::screen::{self, Markdown};
use crate::surroundings::Surroundings;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub color: Paint,
    pub glyphs: Glyphs,
    pub keymap: Keymap,
    pub editor: Editor,
    /// How answers are laid out; absent: as the model wrote them.
    pub answers: Option<Style>,
    pub rings: Rings,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Paint {
    Colored,
    #[default]
    Plain,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Editor {
    /// Lines of stdin as they come.
    #[default]
    None,
    /// The line editor, on a terminal that can have it.
    Line,
}

/// What the daemon's configuration prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferred {
    pub color: Option<Paint>,
    /// Whether answers are laid out.
    pub markdown: Option<Markdown>,
    pub keymap: Option<Keymap>,
}

impl From<&Ui> for Preferred {
    fn from(ui: &Ui) -> Self {
        Self {
            color: match ui.color {
                When::Auto => None,
                When::Always => Some(Paint::Colored),
                When::Never => Some(Paint::Plain),
            },
            markdown: match ui.markdown {
                When::Auto => None,
                When::Always => Some(Markdown::Always),
                When::Never => Some(Markdown::Never),
            },
            keymap: Some(match ui.keymap {
                aish_proto::config::Keymap::Emacs => Keymap::Emacs,
                aish_proto::config::Keymap::Vi => Keymap::Vi,
            }),
        }
    }
}

impl Look {
    /// With what is preferred where no flag and no variable said anything, and the terminal can have it.
    pub fn preferring(
        mut self,
        preferred: Preferred,
        global: &Global,
        around: &Surroundings,
    ) -> Self {
        let variables = ["NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"];
        let said = variables
            .into_iter()
            .any(|it| around.variable(it).is_some());
        if let (Color::Auto, false, Some(Paint::Plain)) = (global.color, said, preferred.color) {
            self.color = Paint::Plain;
            if let Some(style) = &mut self.answers {
                style.colours = Colours::None;
            }
        }
        if (global.looks.markdown, preferred.markdown) == (Markdown::Auto, Some(Markdown::Never)) {
            self.answers = None;
        }
        self.keymap = preferred.keymap.unwrap_or(self.keymap);
        self
    }

    pub fn of(global: &Global, around: &Surroundings) -> Self {
        let color = notice::is_coloured(global.color, around, around.stdout_terminal);
        let editor = around.stdin_terminal && around.stdout_terminal && moves_its_cursor(around);
        let answers = screen::markdown(global.looks, global.color, around).filter(|_| editor);
        Self {
            answers,
            color: if color { Paint::Colored } else { Paint::Plain },
            glyphs: if screen::is_plain(global.looks, around) {
                Glyphs::Plain
            } else {
                Glyphs::Unicode
            },
            keymap: Keymap::Emacs,
            rings: Rings::of(around, screen::is_plain(global.looks, around)),
            editor: if editor { Editor::Line } else { Editor::None },
        }
    }

    pub fn is_colored(self) -> bool {
        self.color == Paint::Colored
    }
}

/// A terminal that only ever writes on gets no editor.
fn moves_its_cursor(around: &Surroundings) -> bool {
    let dull = ["dumb", "cons25", "emacs"];
    around
        .variable("TERM")
        .is_some_and(|it| !dull.contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: (Editor, Glyphs, Paint)) {
        let mut around = Surroundings {
            stdin_terminal: true,
            stdout_terminal: true,
            ..Surroundings::default()
        };
        for (name, value) in variables {
            around.variables.insert(name.into(), value.into());
        }
        let look = Look::of(&Global::default(), &around);
        assert_eq!(
            expected,
            (look.editor, look.glyphs, look.color),
            "{variables:?}"
        );
    }

    #[test]
    fn the_surroundings_decide_what_nobody_said() {
        check(
            &[("TERM", "xterm"), ("LANG", "en_US.UTF-8")],
            (Editor::Line, Glyphs::Unicode, Paint::Colored),
        );
        check(
            &[("TERM", "xterm"), ("LC_ALL", "C"), ("LANG", "en_US.UTF-8")],
            (Editor::Line, Glyphs::Plain, Paint::Colored),
        );
        check(
            &[("TERM", "xterm"), ("LANG", "C.utf8"), ("AISH_PLAIN", "1")],
            (Editor::Line, Glyphs::Plain, Paint::Colored),
        );
        check(
            &[("TERM", "xterm"), ("LANG", "C.utf8"), ("NO_COLOR", "1")],
            (Editor::Line, Glyphs::Unicode, Paint::Plain),
        );
        check(
            &[("TERM", "dumb")],
            (Editor::None, Glyphs::Plain, Paint::Plain),
        );
    }

    #[test]
    fn what_is_configured_gives_way_to_flags_and_variables() {
        let mut around = Surroundings {
            stdin_terminal: true,
            stdout_terminal: true,
            ..Surroundings::default()
        };
        around.variables.insert("TERM".into(), "xterm".into());
        let preferred = Preferred {
            color: Some(Paint::Plain),
            markdown: Some(Markdown::Never),
            keymap: Some(Keymap::Vi),
        };
        let mut global = Global::default();
        let look = Look::of(&global, &around).preferring(preferred, &global, &around);
        assert_eq!((Paint::Plain, Keymap::Vi), (look.color, look.keymap));
        assert_eq!((Editor::Line, None), (look.editor, look.answers));
        global.color = Color::Always;
        global.looks.markdown = Markdown::Always;
        let look = Look::of(&global, &around).preferring(preferred, &global, &around);
        assert!(look.is_colored() && look.answers.is_some());
    }

    #[test]
    fn a_pipe_on_either_side_has_no_editor() {
        for (stdin, stdout) in [(true, false), (false, true)] {
            let mut around = Surroundings {
                stdin_terminal: stdin,
                stdout_terminal: stdout,
                ..Surroundings::default()
            };
            around.variables.insert("TERM".into(), "xterm".into());
            assert_eq!(Editor::None, Look::of(&Global::default(), &around).editor);
        }
    }
}
