//! From words to a command.
//!
//! Making the grammar of all commands takes longer than the daemon takes to answer, and `ask` is what scripts run a
//! thousand times. So a line that may be an ask is read by the grammar of that alone first. What it understands, all
//! would have understood the same; whatever it does not, the grammar of all reads again and has the words for.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory as _, FromArgMatches as _, Parser as _, Subcommand};

use crate::args::{CtlArgs, CtlCommand, LineArgs};
use crate::ask_args::AskArgs;
use crate::command_groups::grouped;
use crate::fast_path::{ALL, ALONE};
use crate::global_args::GlobalArgs;
use crate::near_tip;

/// By which name we were started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramName {
    Ctl,
    Line,
}

impl ProgramName {
    /// `aishctl` becomes this program for all but a plain question, and keeps its name.
    pub(crate) fn of(args: &[OsString]) -> Self {
        let name = args.first().map(Path::new).and_then(Path::file_name);
        if name.is_some_and(|it| it == ALONE) {
            Self::Ctl
        } else {
            Self::Line
        }
    }

    pub(crate) fn program(self) -> &'static str {
        match self {
            Self::Ctl => ALONE,
            Self::Line => ALL,
        }
    }
}

#[derive(Debug, clap::Parser)]
#[command(
    name = "aishctl",
    disable_help_subcommand = true,
    infer_long_args = false
)]
struct AskAlone {
    #[command(flatten)]
    global: GlobalArgs,
    #[command(subcommand)]
    command: AskLine,
}

#[derive(Debug, Subcommand)]
enum AskLine {
    Ask(AskArgs),
}

/// The command that these words say, the program's name being the first of them.
pub(crate) fn parse(
    door: ProgramName,
    args: &[OsString],
) -> Result<(GlobalArgs, Option<CtlCommand>), clap::Error> {
    match door {
        ProgramName::Ctl => match ask_alone(args) {
            Some((global, ask)) => Ok((global, Some(CtlCommand::Ask(ask)))),
            None => all_commands(args)
                .map(|it| (it.global, it.command))
                .map_err(near_tip::only_near),
        },
        ProgramName::Line => LineArgs::try_parse_from(args)
            .map(|it| (it.global, Some(CtlCommand::Attach(it.attach)))),
    }
}

fn all_commands(args: &[OsString]) -> Result<CtlArgs, clap::Error> {
    let mut matches = grouped(CtlArgs::command()).try_get_matches_from(args)?;
    CtlArgs::from_arg_matches_mut(&mut matches)
}

pub(crate) fn ask_alone(args: &[OsString]) -> Option<(GlobalArgs, AskArgs)> {
    args.iter().find(|it| *it == "ask")?;
    let AskAlone { global, command } = AskAlone::try_parse_from(args).ok()?;
    let AskLine::Ask(ask) = command;
    Some((global, ask))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, alone: bool) {
        let args: Vec<OsString> = line.split(' ').map(Into::into).collect();
        assert_eq!(alone, ask_alone(&args).is_some(), "{line}");
        let all = all_commands(&args).map(|it| (it.global, it.command));
        let ours = parse(ProgramName::Ctl, &args);
        match (all, ours) {
            (Ok(all), Ok(ours)) => assert_eq!(format!("{all:?}"), format!("{ours:?}"), "{line}"),
            (Err(all), Err(ours)) => {
                let all = near_tip::only_near(all);
                assert_eq!(all.to_string(), ours.to_string(), "{line}");
            }
            (all, ours) => panic!("{line}: {all:?} by all, {ours:?} by ours"),
        }
    }

    #[test]
    fn an_ask_is_read_as_by_the_grammar_of_all_commands() {
        for line in [
            "aishctl ask why",
            "aishctl -q -m fast ask -f a.txt --json -- -why",
            "aishctl -C ask ask ask",
            "aishctl ask --timeout 5s --mode reject why log",
        ] {
            check(line, true);
        }
        for line in [
            "aishctl log ask",
            "aishctl -C ask status",
            "aishctl ask --help",
            "aishctl --help ask",
            "aishctl ask --json --jsonl why",
            "aishctl ask --nonsense",
            "aishctl aks",
            "aishctl",
            "aishctl help ask",
        ] {
            check(line, false);
        }
    }
}
