//! How what we write looks: decided once, from the flags, then the environment, then the terminal.

use crate::environment::ClientEnvironment;
use crate::global_args::{ColorArg, LookArgs, MarkdownArg};
use crate::render::markdown::{CodeStyle, Colours, GlyphSet, LinkStyle, Style};
use crate::render::notice;

/// What is assumed where nothing says how wide it is.
const COLUMNS: usize = 80;
/// Terminals that are known to open OSC 8 links, by what they set.
const LINKING_PROGRAMS: [&str; 5] = ["iTerm.app", "WezTerm", "vscode", "ghostty", "rio"];
const LINKING_TERMS: [&str; 4] = ["xterm-kitty", "xterm-ghostty", "foot", "alacritty"];
/// The first VTE whose links do not crash it.
const LINKING_VTE: u32 = 5001;

/// How answers are laid out on stdout; `None`: as the model wrote them.
pub fn markdown(looks: LookArgs, color: ColorArg, around: &ClientEnvironment) -> Option<Style> {
    let terminal = around.stdout_terminal;
    let wanted = match looks.markdown {
        MarkdownArg::Auto => terminal,
        MarkdownArg::Always => true,
        MarkdownArg::Never => false,
    };
    if !wanted {
        return None;
    }
    let colours = match around.variable("COLORTERM") {
        _ if !notice::is_coloured(color, around, terminal) => Colours::None,
        Some("truecolor" | "24bit") => Colours::True,
        Some(_) | None => Colours::Sixteen,
    };
    Some(Style {
        width: Some(columns(around)),
        colours,
        glyphs: if is_plain(looks, around) {
            GlyphSet::Words
        } else {
            GlyphSet::Drawn
        },
        links: if terminal && colours != Colours::None && opens_links(around) {
            LinkStyle::Clickable
        } else {
            LinkStyle::Written
        },
        code: CodeStyle::Highlighted,
    })
}

/// Nothing is drawn: somebody listens, or the terminal could not show it.
pub fn is_plain(looks: LookArgs, around: &ClientEnvironment) -> bool {
    wants_words(looks, around) || around.variable("TERM") == Some("dumb")
}

fn wants_words(looks: LookArgs, around: &ClientEnvironment) -> bool {
    let asked = around.variable("AISH_PLAIN").is_some_and(|it| it != "0");
    looks.plain || asked || !is_utf_8(around)
}

/// What commands stand in. A pipe may have a dull terminal behind it, and a bar is a letter like others.
pub fn glyphs(looks: LookArgs, around: &ClientEnvironment) -> GlyphSet {
    if wants_words(looks, around) {
        GlyphSet::Words
    } else {
        GlyphSet::Drawn
    }
}

/// A locale that says nothing is that of a container or a bare login, and their terminals have UTF-8.
fn is_utf_8(around: &ClientEnvironment) -> bool {
    let named = ["LC_ALL", "LC_CTYPE", "LANG"];
    let locale = named.iter().find_map(|it| around.variable(it));
    locale.is_none_or(|it| {
        let it = it.to_ascii_lowercase();
        it.contains("utf-8") || it.contains("utf8")
    })
}

fn columns(around: &ClientEnvironment) -> usize {
    around
        .stdout_columns
        .or_else(|| around.variable("COLUMNS")?.parse().ok())
        .filter(|it| *it > 0)
        .unwrap_or(COLUMNS)
}

/// Terminals inside of others pass on what they know; these may not know links.
fn opens_links(around: &ClientEnvironment) -> bool {
    let term = around.variable("TERM").unwrap_or_default();
    let inside = around.variable("TMUX").is_some()
        || around.variable("STY").is_some()
        || ["screen", "tmux"].iter().any(|it| term.starts_with(it));
    let program = around.variable("TERM_PROGRAM");
    let vte = around
        .variable("VTE_VERSION")
        .and_then(|it| it.parse().ok());
    !inside
        && (program.is_some_and(|it| LINKING_PROGRAMS.contains(&it))
            || LINKING_TERMS.iter().any(|it| term.starts_with(it))
            || vte.is_some_and(|it: u32| it >= LINKING_VTE)
            || around.variable("KITTY_WINDOW_ID").is_some()
            || around.variable("WT_SESSION").is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a terminal of 100 columns.
    fn style(looks: LookArgs, color: ColorArg, variables: &[(&str, &str)]) -> Option<Style> {
        let mut around = ClientEnvironment {
            stdout_terminal: true,
            stdout_columns: Some(100),
            ..ClientEnvironment::default()
        };
        for (name, value) in variables {
            around.variables.insert(name.into(), value.into());
        }
        markdown(looks, color, &around)
    }

    #[track_caller]
    fn check(variables: &[(&str, &str)], colours: Colours, glyphs: GlyphSet, links: LinkStyle) {
        let style = style(LookArgs::default(), ColorArg::Auto, variables).unwrap();
        assert_eq!(
            (Some(100), colours, glyphs, links),
            (style.width, style.colours, style.glyphs, style.links),
            "{variables:?}"
        );
    }

    #[test]
    fn the_terminal_says_what_it_can() {
        use Colours::{None, Sixteen, True};
        use GlyphSet::{Drawn, Words};
        use LinkStyle::{Clickable, Written};
        check(&[], Sixteen, Drawn, Written);
        check(&[("COLORTERM", "truecolor")], True, Drawn, Written);
        check(
            &[("COLORTERM", "truecolor"), ("NO_COLOR", "1")],
            None,
            Drawn,
            Written,
        );
        check(&[("TERM", "dumb")], None, Words, Written);
        check(&[("AISH_PLAIN", "1")], Sixteen, Words, Written);
        check(&[("AISH_PLAIN", "0")], Sixteen, Drawn, Written);
        check(&[("LANG", "en_US.UTF-8")], Sixteen, Drawn, Written);
        check(
            &[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")],
            Sixteen,
            Words,
            Written,
        );
        check(&[("LANG", "de_DE.ISO-8859-1")], Sixteen, Words, Written);
        check(&[("VTE_VERSION", "7600")], Sixteen, Drawn, Clickable);
        check(
            &[("VTE_VERSION", "7600"), ("TMUX", "x")],
            Sixteen,
            Drawn,
            Written,
        );
        check(
            &[("TERM", "xterm-kitty"), ("NO_COLOR", "1")],
            None,
            Drawn,
            Written,
        );
        check(&[("TERM", "foot-extra")], Sixteen, Drawn, Clickable);
    }

    #[test]
    fn flags_beat_the_terminal() {
        let never = LookArgs {
            markdown: MarkdownArg::Never,
            plain: false,
        };
        assert_eq!(None, style(never, ColorArg::Always, &[]));
        let plain = LookArgs {
            markdown: MarkdownArg::Auto,
            plain: true,
        };
        let style = style(plain, ColorArg::Always, &[("NO_COLOR", "1")]).unwrap();
        assert_eq!(
            (GlyphSet::Words, Colours::Sixteen),
            (style.glyphs, style.colours)
        );
    }

    #[test]
    fn a_pipe_gets_the_text_unless_it_was_told() {
        let mut around = ClientEnvironment::default();
        let pipe = |looks, around: &ClientEnvironment| markdown(looks, ColorArg::Auto, around);
        assert_eq!(None, pipe(LookArgs::default(), &around));
        let always = LookArgs {
            markdown: MarkdownArg::Always,
            plain: false,
        };
        let style = pipe(always, &around).unwrap();
        assert_eq!((Some(80), Colours::None), (style.width, style.colours));
        around.variables.insert("COLUMNS".into(), "60".into());
        assert_eq!(Some(60), pipe(always, &around).unwrap().width);
    }
}
