//! How a window looks and which editor it has: flags before environment before what the daemon was configured with.

use aish_proto::config::{ColorChoice, UiConfig};

use crate::environment::ClientEnvironment;
use crate::global_args::{ColorArg, GlobalArgs, MarkdownArg};
use crate::render::bell::BellSupport;
use crate::render::markdown::{Colours, Style};
use crate::render::{notice, screen};

/// Which glyphs the prompt has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PromptGlyphs {
    #[default]
    Unicode,
    /// For terminals and readers that know only ASCII.
    Plain,
}

impl PromptGlyphs {
    /// Where a text is cut.
    pub(super) fn cut(self) -> char {
        match self {
            Self::Unicode => '…',
            Self::Plain => '~',
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditorKeymap {
    #[default]
    Emacs,
    Vi,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowLook {
    pub color: PaintSettings,
    pub glyphs: PromptGlyphs,
    pub keymap: EditorKeymap,
    pub editor: EditorSettings,
    /// How answers are laid out; absent: as the model wrote them.
    pub answers: Option<Style>,
    pub rings: BellSupport,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PaintSettings {
    Colored,
    #[default]
    Plain,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EditorSettings {
    /// Lines of stdin as they come.
    #[default]
    None,
    /// The line editor, on a terminal that can have it.
    Line,
}

/// What the daemon's configuration prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PreferredLook {
    pub color: Option<PaintSettings>,
    /// Whether answers are laid out.
    pub markdown: Option<MarkdownArg>,
    pub keymap: Option<EditorKeymap>,
}

impl From<&UiConfig> for PreferredLook {
    fn from(ui: &UiConfig) -> Self {
        Self {
            color: match ui.color {
                ColorChoice::Auto => None,
                ColorChoice::Always => Some(PaintSettings::Colored),
                ColorChoice::Never => Some(PaintSettings::Plain),
            },
            markdown: match ui.markdown {
                ColorChoice::Auto => None,
                ColorChoice::Always => Some(MarkdownArg::Always),
                ColorChoice::Never => Some(MarkdownArg::Never),
            },
            keymap: Some(match ui.keymap {
                aish_proto::config::KeymapName::Emacs => EditorKeymap::Emacs,
                aish_proto::config::KeymapName::Vi => EditorKeymap::Vi,
            }),
        }
    }
}

impl WindowLook {
    /// With what is preferred where no flag and no variable said anything, and the terminal can have it.
    pub fn preferring(
        mut self,
        preferred: PreferredLook,
        global: &GlobalArgs,
        around: &ClientEnvironment,
    ) -> Self {
        let variables = ["NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE"];
        let said = variables
            .into_iter()
            .any(|it| around.variable(it).is_some());
        if let (ColorArg::Auto, false, Some(PaintSettings::Plain)) =
            (global.color, said, preferred.color)
        {
            self.color = PaintSettings::Plain;
            if let Some(style) = &mut self.answers {
                style.colours = Colours::None;
            }
        }
        if (global.looks.markdown, preferred.markdown)
            == (MarkdownArg::Auto, Some(MarkdownArg::Never))
        {
            self.answers = None;
        }
        self.keymap = preferred.keymap.unwrap_or(self.keymap);
        self
    }

    pub fn of(global: &GlobalArgs, around: &ClientEnvironment) -> Self {
        let color = notice::is_coloured(global.color, around, around.stdout_terminal);
        let editor = around.stdin_terminal && around.stdout_terminal && moves_its_cursor(around);
        let answers = screen::markdown(global.looks, global.color, around).filter(|_| editor);
        Self {
            answers,
            color: if color {
                PaintSettings::Colored
            } else {
                PaintSettings::Plain
            },
            glyphs: if screen::is_plain(global.looks, around) {
                PromptGlyphs::Plain
            } else {
                PromptGlyphs::Unicode
            },
            keymap: EditorKeymap::Emacs,
            rings: BellSupport::of(around, screen::is_plain(global.looks, around)),
            editor: if editor {
                EditorSettings::Line
            } else {
                EditorSettings::None
            },
        }
    }

    pub fn is_colored(self) -> bool {
        self.color == PaintSettings::Colored
    }
}

/// A terminal that only ever writes on gets no editor.
fn moves_its_cursor(around: &ClientEnvironment) -> bool {
    let dull = ["dumb", "cons25", "emacs"];
    around
        .variable("TERM")
        .is_some_and(|it| !dull.contains(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: (EditorSettings, PromptGlyphs, PaintSettings)) {
        let mut around = ClientEnvironment {
            stdin_terminal: true,
            stdout_terminal: true,
            ..ClientEnvironment::default()
        };
        for (name, value) in variables {
            around.variables.insert(name.into(), value.into());
        }
        let look = WindowLook::of(&GlobalArgs::default(), &around);
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
            (
                EditorSettings::Line,
                PromptGlyphs::Unicode,
                PaintSettings::Colored,
            ),
        );
        check(
            &[("TERM", "xterm"), ("LC_ALL", "C"), ("LANG", "en_US.UTF-8")],
            (
                EditorSettings::Line,
                PromptGlyphs::Plain,
                PaintSettings::Colored,
            ),
        );
        check(
            &[("TERM", "xterm"), ("LANG", "C.utf8"), ("AISH_PLAIN", "1")],
            (
                EditorSettings::Line,
                PromptGlyphs::Plain,
                PaintSettings::Colored,
            ),
        );
        check(
            &[("TERM", "xterm"), ("LANG", "C.utf8"), ("NO_COLOR", "1")],
            (
                EditorSettings::Line,
                PromptGlyphs::Unicode,
                PaintSettings::Plain,
            ),
        );
        check(
            &[("TERM", "dumb")],
            (
                EditorSettings::None,
                PromptGlyphs::Plain,
                PaintSettings::Plain,
            ),
        );
    }

    #[test]
    fn what_is_configured_gives_way_to_flags_and_variables() {
        let mut around = ClientEnvironment {
            stdin_terminal: true,
            stdout_terminal: true,
            ..ClientEnvironment::default()
        };
        around.variables.insert("TERM".into(), "xterm".into());
        let preferred = PreferredLook {
            color: Some(PaintSettings::Plain),
            markdown: Some(MarkdownArg::Never),
            keymap: Some(EditorKeymap::Vi),
        };
        let mut global = GlobalArgs::default();
        let look = WindowLook::of(&global, &around).preferring(preferred, &global, &around);
        assert_eq!(
            (PaintSettings::Plain, EditorKeymap::Vi),
            (look.color, look.keymap)
        );
        assert_eq!((EditorSettings::Line, None), (look.editor, look.answers));
        global.color = ColorArg::Always;
        global.looks.markdown = MarkdownArg::Always;
        let look = WindowLook::of(&global, &around).preferring(preferred, &global, &around);
        assert!(look.is_colored() && look.answers.is_some());
    }

    #[test]
    fn a_pipe_on_either_side_has_no_editor() {
        for (stdin, stdout) in [(true, false), (false, true)] {
            let mut around = ClientEnvironment {
                stdin_terminal: stdin,
                stdout_terminal: stdout,
                ..ClientEnvironment::default()
            };
            around.variables.insert("TERM".into(), "xterm".into());
            assert_eq!(
                EditorSettings::None,
                WindowLook::of(&GlobalArgs::default(), &around).editor
            );
        }
    }
}
