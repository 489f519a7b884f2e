//! Lines for people on stderr, or in attach among the rows: `[aish] …`, dim where colour is wanted.

use std::io::Write;

use textwrap::WordSeparator;

use crate::environment::ClientEnvironment;
use crate::global_args::{ColorArg, GlobalArgs};
use crate::render::spinner::ERASE;
use crate::render::wrap::{self, NARROWEST};
use crate::render::{difference, question};
use crate::safe;

/// Where notices go, and which.
pub struct Notices {
    to: Box<dyn Write + Send>,
    /// Where a person is asked, if that is elsewhere.
    asks_at: Option<Box<dyn Write + Send>>,
    quiet: bool,
    verbose: bool,
    dim: bool,
    /// Rows may be written and taken away again.
    spins: bool,
    /// Such a row stands there now.
    spinning: bool,
}

impl std::fmt::Debug for Notices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notices")
            .field("quiet", &self.quiet)
            .finish_non_exhaustive()
    }
}

impl Notices {
    pub fn new(to: Box<dyn Write + Send>, global: &GlobalArgs, dim: bool) -> Self {
        Self {
            to,
            asks_at: None,
            quiet: global.quiet,
            verbose: global.verbose,
            dim,
            spins: false,
            spinning: false,
        }
    }

    /// The same on a terminal that can take a row away again.
    pub fn with_spinner(self) -> Self {
        Self {
            spins: !self.quiet,
            ..self
        }
    }

    /// The same with questions there, and not among the notices.
    pub fn asking_at(self, terminal: Box<dyn Write + Send>) -> Self {
        Self {
            asks_at: Some(terminal),
            ..self
        }
    }

    pub fn spins(&self) -> bool {
        self.spins
    }

    /// Shows a row until something else is to be seen.
    pub fn spin(&mut self, row: &str) {
        self.spinning = true;
        let row = format!("{ERASE}{}", safe::one_line(row));
        drop(
            self.to
                .write_all(row.as_bytes())
                .and_then(|()| self.to.flush()),
        );
    }

    /// Takes that row away. Whoever writes to the terminal calls it first.
    pub fn settle(&mut self) {
        if std::mem::take(&mut self.spinning) {
            drop(
                self.to
                    .write_all(ERASE.as_bytes())
                    .and_then(|()| self.to.flush()),
            );
        }
    }

    /// One line, unless `-q`. That stderr is gone is no reason to stop.
    pub fn print(&mut self, text: &str) {
        self.settle();
        if !self.quiet {
            drop(self.to.write_all(line(text, self.dim).as_bytes()));
        }
    }

    /// A row of a frame, unless `-q`.
    pub fn frame(&mut self, row: &str) {
        if !self.quiet {
            self.raw(&format!("{row}\n"));
        }
    }

    /// Text that is made for the screen already, and wants to be seen whatever was said of status lines.
    pub fn raw(&mut self, text: &str) {
        self.settle();
        let text = safe::screen(text);
        drop(
            self.to
                .write_all(text.as_bytes())
                .and_then(|()| self.to.flush()),
        );
    }

    /// A question, or what belongs to one, in a colour where there are any.
    pub fn coloured(&mut self, text: &str, colour: &str) {
        self.settle();
        let text = safe::screen(text);
        let text = if self.dim && !colour.is_empty() {
            format!("{colour}{text}\u{1b}[0m")
        } else {
            text
        };
        let to = self.asks_at.as_mut().unwrap_or(&mut self.to);
        drop(to.write_all(text.as_bytes()).and_then(|()| to.flush()));
    }

    /// A safe difference, where questions are.
    pub fn difference(&mut self, diff: &str) {
        self.settle();
        let text = safe::screen(diff);
        let text = if self.dim {
            difference::painted(&text)
        } else {
            text
        };
        let to = self.asks_at.as_mut().unwrap_or(&mut self.to);
        drop(to.write_all(text.as_bytes()).and_then(|()| to.flush()));
    }

    /// Bytes for a terminal that are no text.
    pub fn ring(&mut self, bytes: &str) {
        drop(
            self.to
                .write_all(bytes.as_bytes())
                .and_then(|()| self.to.flush()),
        );
    }

    /// A line that only `-v` shows.
    pub fn debug(&mut self, text: &str) {
        if self.verbose {
            self.print(text);
        }
    }
}

/// What the daemon has to say of a place, on one line.
pub fn of(notice: &aish_proto::conversation::ConversationNotice) -> String {
    match &notice.hint {
        Some(hint) => format!("{}: {hint}", notice.text),
        None => notice.text.clone(),
    }
}

/// What became of the configuration.
pub fn reloaded(now: &aish_proto::event::ConfigReloaded) -> String {
    if let Some(first) = first_of(&now.errors) {
        return format!(
            "the configuration is invalid, and the one before stays: {first}; aishctl config check"
        );
    }
    let changed = match &now.changed[..] {
        [] => "the configuration is read again".to_owned(),
        changed => {
            let shown = changed.iter().map(|key| match now.values.get(key) {
                Some(value) => format!("{key} = {value}"),
                None => key.clone(),
            });
            let shown: Vec<String> = shown.collect();
            let by = now.by.as_ref();
            let by = by.map(|it| format!(" (by {})", question::who(it)));
            let by = by.unwrap_or_default();
            format!("the configuration has changed: {}{by}", shown.join(", "))
        }
    };
    if now.restart_needed.is_empty() {
        return changed;
    }
    let waits = now.restart_needed.join(", ");
    format!("{changed}; restart needed for {waits}")
}

/// What became of tools that are written down, where there is anything to tell.
pub fn tools(now: &aish_proto::event::ToolsChanged) -> Option<String> {
    let broken = first_of(&now.broken).map(|first| {
        format!(
            "a tool's manifest cannot be used as it is now, and what counted before stays: {first}"
        )
    });
    let all: Vec<String> = now.changes.iter().cloned().chain(broken).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The first of them, and how many more there are.
fn first_of(all: &[String]) -> Option<String> {
    let (first, more) = all.split_first()?;
    Some(match more.len() {
        0 => first.clone(),
        more => format!("{first} (and {more} more)"),
    })
}

/// The text as a notice; each of its lines gets the prefix.
pub fn line(text: &str, dim: bool) -> String {
    let (on, off) = if dim {
        ("\u{1b}[2m", "\u{1b}[0m")
    } else {
        ("", "")
    };
    safe::screen(text)
        .lines()
        .map(|it| format!("{on}[aish] {it}{off}\n"))
        .collect()
}

/// The same in rows of so many columns, which end between words. What goes on in another row stands below its text.
pub fn rows(text: &str, dim: bool, columns: Option<usize>) -> String {
    match columns.filter(|it| *it >= NARROWEST) {
        Some(columns) => wrapped("[aish] ", text, dim, columns, WordSeparator::AsciiSpace),
        None => line(text, dim),
    }
}

/// What stands dim beside what was said, in rows of so many columns. A number and its unit are in one row.
pub fn aside(text: &str, dim: bool, columns: Option<usize>) -> String {
    let columns = columns.filter(|it| *it >= NARROWEST);
    let columns = columns.unwrap_or(usize::MAX);
    wrapped("", text, dim, columns, WordSeparator::Custom(wrap::figures))
}

fn wrapped(sign: &str, text: &str, dim: bool, columns: usize, separator: WordSeparator) -> String {
    let (on, off) = if dim {
        ("\u{1b}[2m", "\u{1b}[0m")
    } else {
        ("", "")
    };
    // Nothing but a space ends a word: a path or an option that is cut at a hyphen cannot be copied.
    let below = " ".repeat(sign.len());
    let options = textwrap::Options::new(columns)
        .word_separator(separator)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .initial_indent(sign)
        .subsequent_indent(&below);
    let safe = safe::screen(text);
    let rows = safe.lines().flat_map(|it| textwrap::wrap(it, &options));
    rows.map(|it| format!("{on}{it}{off}\n")).collect()
}

/// Whether a stream is coloured: `--color`, then NO_COLOR, then FORCE_COLOR and CLICOLOR_FORCE, then
/// whether it is a terminal that can.
pub fn is_coloured(color: ColorArg, around: &ClientEnvironment, terminal: bool) -> bool {
    let forced = |name| around.variable(name).is_some_and(|it| it != "0");
    match color {
        ColorArg::Always => true,
        ColorArg::Never => false,
        ColorArg::Auto if around.variable("NO_COLOR").is_some() => false,
        ColorArg::Auto if forced("FORCE_COLOR") || forced("CLICOLOR_FORCE") => true,
        ColorArg::Auto => {
            terminal
                && around.variable("TERM") != Some("dumb")
                && around.variable("CLICOLOR") != Some("0")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_between_words_and_go_on_below_the_text() {
        let text = "a server that cannot be reached\nhint: aishctl mcp reconnect fs-one";
        let expected = [
            "[aish] a server that cannot",
            "       be reached",
            "[aish] hint: aishctl mcp",
            "       reconnect fs-one",
        ];
        assert_eq!(expected.join("\n") + "\n", rows(text, false, Some(28)));
        assert_eq!(line(text, true), rows(text, true, None));
        assert_eq!(line(text, true), rows(text, true, Some(10)));
        // Wide characters take two columns, and a word that is too long is cut.
        let wide = rows(&"漢".repeat(30), false, Some(27));
        assert_eq!(3, wide.lines().count(), "{wide}");
    }

    #[track_caller]
    fn check(color: ColorArg, variables: &[(&str, &str)], terminal: bool, expected: bool) {
        let mut around = ClientEnvironment::default();
        for (name, value) in variables {
            around.variables.insert(name.into(), value.into());
        }
        assert_eq!(
            expected,
            is_coloured(color, &around, terminal),
            "{color:?} {variables:?}"
        );
    }

    #[test]
    fn the_flag_beats_the_environment_which_beats_the_terminal() {
        check(ColorArg::Auto, &[], true, true);
        check(ColorArg::Auto, &[], false, false);
        check(ColorArg::Never, &[("FORCE_COLOR", "1")], true, false);
        check(ColorArg::Always, &[("NO_COLOR", "1")], false, true);
        check(
            ColorArg::Auto,
            &[("NO_COLOR", "1"), ("FORCE_COLOR", "1")],
            true,
            false,
        );
        check(ColorArg::Auto, &[("NO_COLOR", "")], true, true);
        check(ColorArg::Auto, &[("FORCE_COLOR", "1")], false, true);
        check(ColorArg::Auto, &[("CLICOLOR_FORCE", "1")], false, true);
        check(ColorArg::Auto, &[("CLICOLOR_FORCE", "0")], false, false);
        check(ColorArg::Auto, &[("TERM", "dumb")], true, false);
    }

    #[test]
    fn broken_manifests_are_one_notice() {
        let told = |changes: &[&str], broken: &[&str]| {
            let all = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
            tools(&aish_proto::event::ToolsChanged {
                added: vec![],
                removed: vec![],
                updated: vec![],
                version: 1,
                changes: all(changes),
                broken: all(broken),
            })
        };
        assert_eq!(None, told(&[], &[]));
        assert_eq!(Some("a 1 → 2".to_owned()), told(&["a 1 → 2"], &[]));
        let stays = "a tool's manifest cannot be used as it is now, and what counted before stays";
        assert_eq!(
            Some(format!("b 1 is gone; {stays}: t.toml:2: x (and 1 more)")),
            told(&["b 1 is gone"], &["t.toml:2: x", "u.toml: y"])
        );
    }

    #[test]
    fn a_number_stands_in_one_row_with_its_unit() {
        let row = "3.1k in (2.8k cached) · 240 out · 5.2 s · $0.013 · context 12 %";
        assert_eq!(
            "3.1k in (2.8k cached) · 240 out · 5.2 s · $0.013 · context\n12 %\n",
            aside(row, false, Some(60))
        );
        assert_eq!(
            "3.1k in (2.8k cached) ·\n240 out · 5.2 s ·\n$0.013 · context 12 %\n",
            aside(row, false, Some(24))
        );
        assert_eq!(format!("{row}\n"), aside(row, false, Some(63)));
    }

    #[test]
    fn every_line_of_a_notice_has_the_prefix_and_no_escape() {
        assert_eq!("[aish] a\n[aish] b[2J\n", line("a\nb\u{1b}[2J", false));
    }
}
