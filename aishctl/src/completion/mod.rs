//! What Tab gives in a shell: the words of the grammar, and the names that the daemon knows at this moment. Nothing here
//! starts a daemon and nothing fails: who presses Tab gets what there is, at once.

pub(crate) mod bash_line;
mod grammar;
mod names;
pub(crate) mod server_words;
mod uri_template;

use std::path::Path;

use clap::{Args, CommandFactory as _};
use clap_complete::CompletionCandidate;
use clap_complete::engine;

use crate::args::{CtlArgs, LineArgs};
use crate::commands::shell::ShellCommand;
use crate::completion::bash_line::BashLine;
use crate::completion::grammar::{FILES, complete_with};
use crate::completion::names::LiveNames;
use crate::environment::ClientEnvironment;
use crate::fast_path::ALL;
use crate::global_args::GLOBAL_OPTIONS;
use crate::render::table;
use crate::safe;

/// More of what a candidate is would not fit beside it.
const ABOUT_COLUMNS: usize = 60;

/// What the scripts of `completion` call.
#[derive(Args, Clone, Debug)]
pub struct CompleteArgs {
    #[arg(value_enum)]
    pub shell: ShellCommand,
    /// bash: the line up to the cursor, and what bash would put another word in place of; else the words up to the cursor
    #[arg(last = true)]
    pub words: Vec<String>,
}

/// A line for each candidate; behind a tab what it is, where the shell shows that. A line that begins with a tab tells the
/// script what else to do: to complete `files` itself, or to put no space behind what it takes.
pub(crate) fn offered(around: &ClientEnvironment, args: &CompleteArgs) -> String {
    let typed = TypedLine::of(args);
    let Some((program, word)) = typed.words.first().zip(typed.words.last()) else {
        return String::new();
    };
    let is_line = Path::new(program).file_name().is_some_and(|it| it == ALL);
    let grammar = if is_line {
        LineArgs::command()
    } else {
        CtlArgs::command()
    };
    let mut grammar = complete_with(grammar, &LiveNames::of(around, &typed.words));
    let at = typed.words.len() - 1;
    let words = typed.words.iter().map(Into::into);
    let mut found = engine::complete(&mut grammar, words.collect(), at, None).unwrap_or_default();
    let is_option = |it: &CompletionCandidate| it.get_value().to_string_lossy().starts_with('-');
    // A person who has typed nothing yet looks for what the command is about.
    if word.is_empty() {
        if !found.iter().all(is_option) {
            found.retain(|it| !is_option(it));
        } else {
            found.retain(|it| {
                it.get_tag()
                    .is_none_or(|it| it.to_string() != GLOBAL_OPTIONS)
            });
        }
    }
    let (files, found): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|it| it.get_tag().is_some_and(|it| it.to_string() == FILES));
    if found.is_empty() && !files.is_empty() {
        return format!("\t{FILES}\n");
    }
    let values: Vec<_> = found
        .iter()
        .filter_map(|it| it.get_value().to_str())
        .collect();
    let mut text = String::new();
    if !values.is_empty() && values.iter().all(|it| it.ends_with(['=', ':', '/'])) {
        text.push_str("\tnospace\n");
    }
    for candidate in &found {
        let Some(value) = candidate.get_value().to_str() else {
            continue;
        };
        // What would move the cursor or end the line is no word that can be typed.
        if safe::one_line(value) == value
            && let Some(rest) = value.strip_prefix(word.as_str())
        {
            text.push_str(&typed.line(value, rest, &about(candidate)));
            text.push('\n');
        }
    }
    text
}

fn about(candidate: &CompletionCandidate) -> String {
    let help = candidate
        .get_help()
        .map(ToString::to_string)
        .unwrap_or_default();
    let first = help.lines().next().unwrap_or_default();
    table::cut(&safe::one_line(first), ABOUT_COLUMNS)
}

/// What was typed, as words without their quotes; the last one is the one to be completed.
struct TypedLine {
    words: Vec<String>,
    /// How bash wants the rest of the last one.
    bash: Option<(BashLine, String)>,
}

impl TypedLine {
    fn of(args: &CompleteArgs) -> Self {
        match args.shell {
            ShellCommand::Bash => {
                let [line, replaced] =
                    [0, 1].map(|it| args.words.get(it).cloned().unwrap_or_default());
                let line = bash_line::read(&line);
                Self {
                    words: line.words.clone(),
                    bash: Some((line, replaced)),
                }
            }
            // zsh takes the quotes away itself, and quotes what it is given.
            ShellCommand::Zsh => Self {
                words: args.words.clone(),
                bash: None,
            },
            // fish gives the last word as it is typed.
            ShellCommand::Fish => {
                let mut words = args.words.clone();
                if let Some(last) = words.last_mut() {
                    *last = bash_line::read(last).words.pop().unwrap_or_default();
                }
                Self { words, bash: None }
            }
        }
    }

    fn line(&self, value: &str, rest: &str, about: &str) -> String {
        match &self.bash {
            Some((line, replaced)) => format!("{replaced}{}", line.quoted(rest)),
            None if about.is_empty() => value.to_owned(),
            None => format!("{value}\t{about}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(shell: ShellCommand, words: &[&str], expected: &[&str]) {
        let directory = tempfile::tempdir().unwrap();
        let around = ClientEnvironment {
            variables: [("AISH_SOCKET".into(), directory.path().join("none").into())].into(),
            ..ClientEnvironment::default()
        };
        let args = CompleteArgs {
            shell,
            words: words.iter().map(|it| (*it).to_owned()).collect(),
        };
        let text = offered(&around, &args);
        let found: Vec<&str> = text
            .lines()
            .map(|it| {
                it.rsplit_once('\t')
                    .filter(|(value, _)| !value.is_empty())
                    .map_or(it, |(value, _)| value)
            })
            .collect();
        assert_eq!(expected, found, "{words:?}");
    }

    #[test]
    fn commands_options_and_values_are_those_of_the_grammar() {
        use ShellCommand::{Bash, Fish, Zsh};
        check(Zsh, &["aishctl", "sta"], &["status"]);
        check(
            Zsh,
            &["aishctl", "status", "--format", ""],
            &["tmux", "prometheus"],
        );
        check(Fish, &["aishctl", "ask", "--mode=s"], &["--mode=steer"]);
        check(Zsh, &["aishctl", "ask", "--no-s"], &["--no-stdin"]);
        check(Zsh, &["aishctl", "conv", "un"], &["unarchive"]);
        check(Zsh, &["aishctl", "backup", ""], &["\tfiles"]);
        check(Zsh, &["aishctl", "--socket", "x"], &["\tfiles"]);
        check(Zsh, &["aish", "--read"], &["--read-only"]);
        check(Zsh, &["aishctl", "help", "exi"], &["exit-codes"]);
        check(Zsh, &[], &[]);
        check(Zsh, &["aishctl", "conv", "status", ""], &["--help"]);
        check(Bash, &["aishctl sta", "sta"], &["status"]);
        check(Bash, &["X=1 aishctl ask --mode=s", "s"], &["steer"]);
        check(Bash, &["aishctl ask --mode \"s", "s"], &["steer"]);
        check(Bash, &["", ""], &[]);
    }
}
