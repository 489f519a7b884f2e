//! How the terminal that we are started on takes pictures.

use super::answers::SixelTerminal;
use super::area::CellPixels;
use crate::environment::ClientEnvironment;
use crate::global_args::LookArgs;
use crate::render::screen;

/// How a terminal wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PictureProtocol {
    /// Kitty's graphics protocol, which takes PNG and pixels.
    Kitty,
    /// Inline images, as iTerm2 began them.
    Inline,
    /// Sixels, of so many colours.
    Sixel { colours: u16 },
}

/// A terminal that draws pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PictureTerminal {
    pub(crate) protocol: PictureProtocol,
    /// What it has said of its cells.
    pub(crate) cell: Option<CellPixels>,
}

impl From<SixelTerminal> for PictureTerminal {
    fn from(said: SixelTerminal) -> Self {
        Self {
            protocol: PictureProtocol::Sixel {
                colours: said.colours,
            },
            cell: said.cell,
        }
    }
}

/// What is known of it before anything was asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PictureSupport {
    /// Nothing is drawn, and nothing asked.
    #[default]
    None,
    /// Whether it has sixels only it can say.
    ToBeAsked,
    Known(PictureTerminal),
}

impl PictureSupport {
    /// As far as its variables say. Of what is written for another terminal nothing gets through tmux and screen; a tmux that
    /// has sixels itself says so when it is asked.
    pub(crate) fn of(looks: LookArgs, around: &ClientEnvironment) -> Self {
        let is =
            |name, values: &[&str]| around.variable(name).is_some_and(|it| values.contains(&it));
        if !around.stdout_terminal || screen::is_plain(looks, around) {
            return Self::None;
        }
        if around.variable("TMUX").is_some() || around.variable("STY").is_some() {
            return Self::ToBeAsked;
        }
        let known = |protocol| {
            Self::Known(PictureTerminal {
                protocol,
                cell: None,
            })
        };
        if is("TERM", &["xterm-kitty", "xterm-ghostty"]) || is("TERM_PROGRAM", &["ghostty"]) {
            return known(PictureProtocol::Kitty);
        }
        if is("TERM_PROGRAM", &["iTerm.app", "WezTerm", "mintty", "rio"]) {
            return known(PictureProtocol::Inline);
        }
        match around.variable("TERM") {
            // They answer nothing, or write what is asked as it stands.
            None | Some("cons25" | "emacs" | "linux") => Self::None,
            Some(_) => Self::ToBeAsked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], expected: &str) {
        let mut around = ClientEnvironment {
            stdout_terminal: true,
            ..ClientEnvironment::default()
        };
        for (name, value) in variables {
            around.variables.insert(name.into(), value.into());
        }
        let found = match PictureSupport::of(LookArgs::default(), &around) {
            PictureSupport::None => "none".to_owned(),
            PictureSupport::ToBeAsked => "ask".to_owned(),
            PictureSupport::Known(it) => format!("{:?}", it.protocol),
        };
        assert_eq!(expected, found, "{variables:?}");
        around.stdout_terminal = false;
        let pipe = PictureSupport::of(LookArgs::default(), &around);
        assert_eq!(PictureSupport::None, pipe);
    }

    #[test]
    fn what_the_variables_say_is_not_asked() {
        check(&[("TERM", "xterm-kitty")], "Kitty");
        check(&[("TERM", "xterm"), ("TERM_PROGRAM", "WezTerm")], "Inline");
        check(&[("TERM", "xterm-256color")], "ask");
        check(&[("TERM", "xterm-kitty"), ("TMUX", "x")], "ask");
        check(&[("TERM", "screen"), ("STY", "x")], "ask");
        check(&[("TERM", "dumb")], "none");
        check(&[("TERM", "linux")], "none");
        check(&[], "none");
        check(&[("TERM", "foot"), ("AISH_PLAIN", "1")], "none");
    }
}
