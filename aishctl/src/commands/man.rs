//! `man`: the pages of the manual, one for each command, made from the grammar and written where a packager wants them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory as _};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::args::{CtlArgs, LineArgs};
use crate::exit::{Exit, TABLE};
use crate::failure::Failure;

const ENVIRONMENT: [(&str, &str); 12] = [
    (
        "AISH_CONVERSATION",
        "The conversation that commands mean, by title or id, where none is named.",
    ),
    (
        "AISH_SOCKET",
        "The daemon's socket, an absolute path. A daemon is not started by systemd then.",
    ),
    (
        "AISH_CONFIG",
        "The person's configuration, read by a daemon that is started.",
    ),
    ("AISH_LOG", "What the daemon logs, e.g. debug."),
    (
        "AISH_PAGER",
        "What shows long output on a terminal; else PAGER, else less -FRX.",
    ),
    (
        "AISH_PLAIN",
        "1: words instead of boxes and signs, for screen readers.",
    ),
    (
        "NO_COLOR, CLICOLOR, CLICOLOR_FORCE, FORCE_COLOR",
        "Whether there are colours, where --color does not say it.",
    ),
    (
        "VISUAL, EDITOR",
        "What config edit, confirm edit and long lines are written with.",
    ),
    (
        "XDG_RUNTIME_DIR",
        "Where the socket is: in its directory aish.",
    ),
    (
        "XDG_CONFIG_HOME",
        "Where the configuration is: in its directory aish; else in ~/.config.",
    ),
    (
        "XDG_STATE_HOME",
        "Where the store and the log of the daemon are: in its directory aish; else in ~/.local/state.",
    ),
    (
        "variables that model presets name as keys",
        "Lent to the daemon, and kept in its memory only.",
    ),
];

#[derive(Args, Clone, Debug)]
pub struct ManArgs {
    /// Where the pages go; it is made where it is missing
    #[arg(long, value_name = "DIR")]
    pub dir: PathBuf,
}

/// Writes all pages, and says how many.
pub(crate) fn write(args: &ManArgs) -> Result<String, Failure> {
    let mut pages = 0;
    let mut written = || -> io::Result<()> {
        fs::create_dir_all(&args.dir)?;
        let mut ctl = CtlArgs::command();
        ctl.build();
        write_tree(&args.dir, &ctl, "aishctl", &mut pages)?;
        let mut line = LineArgs::command();
        line.build();
        write_tree(&args.dir, &line, "aish", &mut pages)
    };
    written().map_err(|error| {
        let message = format!("cannot write the manual to {}: {error}", args.dir.display());
        Failure::new(Exit::FAILED, message)
    })?;
    Ok(format!("{pages} pages in {}\n", args.dir.display()))
}

fn write_tree(dir: &Path, command: &Command, name: &str, pages: &mut usize) -> io::Result<()> {
    let is_top = !name.contains('-');
    let inner = command.get_subcommands().filter(|it| !it.is_hide_set());
    for inner in inner {
        write_tree(dir, inner, &format!("{name}-{}", inner.get_name()), pages)?;
    }
    let mut page = command.clone();
    if !is_top {
        // They are the same everywhere, and the first page has them.
        page = page.mut_args(|it| {
            if it.is_global_set() {
                it.hide(true)
            } else {
                it
            }
        });
    }
    let mut text = vec![];
    render(page, name, is_top, &mut text)?;
    *pages += 1;
    fs::write(dir.join(format!("{name}.1")), text)
}

fn render(page: Command, name: &str, is_top: bool, to: &mut Vec<u8>) -> io::Result<()> {
    let more_help = page.get_after_long_help().or(page.get_after_help());
    let more_help = more_help.map(ToString::to_string).unwrap_or_default();
    let has_commands = page.get_subcommands().any(|it| !it.is_hide_set());
    let man = Man::new(page).title(name.to_uppercase()).manual("aish");
    man.render_title(to)?;
    man.render_name_section(to)?;
    man.render_synopsis_section(to)?;
    man.render_description_section(to)?;
    man.render_options_section(to)?;
    if has_commands {
        man.render_subcommands_section(to)?;
    }
    let mut more = Roff::new();
    if is_top {
        more.control("SH", ["EXIT STATUS"]);
        for (exit, meaning) in TABLE {
            more.control("TP", []);
            more.text([bold(exit.code().to_string())]);
            more.text([roman(meaning)]);
        }
        more.control("SH", ["ENVIRONMENT"]);
        for (names, meaning) in ENVIRONMENT {
            more.control("TP", []);
            more.text([bold(names)]);
            more.text([roman(meaning)]);
        }
    } else {
        more.control("PP", []);
        more.text([
            roman("Options that every command takes, exit codes and environment: "),
            bold("aishctl"),
            roman("(1)."),
        ]);
    }
    if !is_top && !more_help.is_empty() {
        let (heading, lines) = match more_help.strip_prefix("Examples:\n") {
            Some(examples) => ("EXAMPLES", examples),
            None => ("NOTES", more_help.as_str()),
        };
        more.control("SH", [heading]);
        more.control("nf", []);
        for line in lines.lines() {
            more.text([roman(line)]);
        }
        more.control("fi", []);
    }
    more.to_writer(to)
}
