//! What a line typed in attach means: a question, or after a colon a command of the one grammar.

use aish_proto::id::ConversationId;
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::args::{CtlArgs, CtlCommand};
use crate::commands::conversation::ConversationCommand;
use crate::commands::memory::RememberArgs;
use crate::commands::norris::{NorrisCommand, NorrisLaunchArgs};
use crate::commands::route::RouteCommand;
use crate::global_args::GlobalArgs;

/// A line, understood.
#[derive(Debug)]
pub enum ColonLine {
    Nothing,
    Question(String),
    /// Run a command of this machine.
    Run(String),
    /// Cancel what runs, then ask.
    Now(String),
    /// Send the question that was refused for what it takes.
    SendCostly,
    Leave,
    /// Be a window on another conversation.
    Switch(String),
    Command(Box<(GlobalArgs, CtlCommand)>),
    /// It cannot be done; this is why, or it is the help that was asked for.
    Told(String),
}

const HELP: &str = "a plain line is a question; !COMMAND runs here, and the model sees what it printed; behind a colon:
:help [COMMAND]   :queue   :queue drop N   :cancel   :retry   :continue   :log
:now TEXT cancels and asks   :ask TEXT asks what begins with a colon   :send, where a question is dear
:confirm   :confirm allow c1   :confirm deny c1 [REASON]   or at the question: y, n, e, Alt-y, Alt-n
:norris GOAL   :norris pause   :norris resume   :norris halt   :changes   :undo   :redo
:conv ls   :switch NAME   :model NAME   :route on   :fallback on   :status   :usage   :quit (or Ctrl-D); Ctrl-C cancels
every other aishctl command too, e.g. :search TEXT
on a terminal: \\ at the end or an open ``` goes on in the next row; Tab completes, Ctrl-R searches;
Ctrl-C stops the answer or the command and keeps the line, else clears it; twice leaves; Ctrl-Z suspends";

/// Commands that take a file, where `-` is stdin.
const READS_FILES: [&str; 6] = ["import", "memory", "prompt", "resource", "tool", "tools"];

/// Reads a line; commands mean this conversation unless they name another.
pub fn read(line: &str, here: ConversationId) -> ColonLine {
    let line = line.trim();
    if let Some(command) = line.strip_prefix('!') {
        return match command.trim() {
            "" => ColonLine::Told("what? (!COMMAND)".to_owned()),
            command => ColonLine::Run(command.to_owned()),
        };
    }
    let Some(command) = line.strip_prefix(':') else {
        return if line.is_empty() {
            ColonLine::Nothing
        } else {
            ColonLine::Question(line.to_owned())
        };
    };
    let (verb, rest) = command
        .split_once(char::is_whitespace)
        .unwrap_or((command, ""));
    let rest = rest.trim();
    match verb {
        "" => ColonLine::Nothing,
        "quit" | "q" | "exit" | "detach" => ColonLine::Leave,
        "help" | "h" | "?" if rest.is_empty() => ColonLine::Told(HELP.to_owned()),
        "ask" | "now" if rest.is_empty() => ColonLine::Told(format!("what? (:{verb} TEXT)")),
        "ask" => ColonLine::Question(rest.to_owned()),
        "now" => ColonLine::Now(rest.to_owned()),
        "send" if rest.is_empty() => ColonLine::SendCostly,
        "switch" if rest.is_empty() => {
            ColonLine::Told("where? (:switch NAME, :conv ls)".to_owned())
        }
        "switch" => ColonLine::Switch(rest.to_owned()),
        "remember" if !rest.is_empty() && !rest.starts_with('-') => {
            // A fact as it is typed: an apostrophe in it opens no quote.
            let fact = RememberArgs {
                text: vec![rest.to_owned()],
                kind: None,
                pin: false,
            };
            ColonLine::Command(Box::new((
                GlobalArgs::default(),
                CtlCommand::Remember(fact),
            )))
        }
        "norris" if is_goal(rest) => {
            // A goal as it is typed, and meant by who typed it.
            let launch = NorrisLaunchArgs {
                goal: vec![rest.to_owned()],
                in_window: true,
                ..NorrisLaunchArgs::default()
            };
            let norris = NorrisCommand {
                command: None,
                launch,
            };
            let global = GlobalArgs {
                conversation: Some(here.to_string()),
                ..GlobalArgs::default()
            };
            ColonLine::Command(Box::new((global, CtlCommand::Norris(norris))))
        }
        "route" if text_of_check(rest).is_some() => {
            // A question as it would be typed: its quotes are no quotes of ours.
            let text = text_of_check(rest).unwrap_or_default().to_owned();
            let global = GlobalArgs {
                conversation: Some(here.to_string()),
                ..GlobalArgs::default()
            };
            let route = CtlCommand::Route {
                command: Some(RouteCommand::Check { text: vec![text] }),
            };
            ColonLine::Command(Box::new((global, route)))
        }
        _ => parse(command, here),
    }
}

/// Whether it is neither empty nor a command to a run that goes on, and has no flags.
fn is_goal(rest: &str) -> bool {
    let leads = ["status", "pause", "resume", "halt", "help"];
    !rest.is_empty() && !rest.starts_with('-') && !leads.contains(&rest)
}

fn text_of_check(rest: &str) -> Option<&str> {
    let (check, text) = rest.split_once(char::is_whitespace)?;
    let text = text.trim();
    (check == "check" && !text.is_empty()).then_some(text)
}

fn parse(command: &str, here: ConversationId) -> ColonLine {
    let Some(words) = shlex::split(command) else {
        return ColonLine::Told("a quote is not closed".to_owned());
    };
    // It would wait for what is typed here, and take it away from the editor.
    let reads_files = words
        .first()
        .is_some_and(|it| READS_FILES.contains(&it.as_str()));
    if reads_files && words.iter().any(|it| it == "-") {
        return ColonLine::Told("here stdin (-) is your keyboard: name a file".to_owned());
    }
    let matches = CtlArgs::command()
        .no_binary_name(true)
        .try_get_matches_from(words);
    let parsed = matches.and_then(|mut it| CtlArgs::from_arg_matches_mut(&mut it));
    let CtlArgs {
        mut global,
        command,
    } = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return ColonLine::Told(error.render().to_string().trim_end().to_owned()),
    };
    match command {
        None => ColonLine::Nothing,
        Some(CtlCommand::Attach(args)) => args
            .conversation
            .map_or(ColonLine::Nothing, ColonLine::Switch),
        Some(CtlCommand::Conv {
            command: ConversationCommand::Switch { conversation },
        }) => ColonLine::Switch(conversation),
        Some(mut command) => {
            if let CtlCommand::Norris(norris) = &mut command {
                norris.launch.in_window = true;
            }
            global.conversation.get_or_insert_with(|| here.to_string());
            ColonLine::Command(Box::new((global, command)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_daemon;

    #[track_caller]
    fn check(line: &str, expected: &str) {
        let said = match read(line, test_daemon::conversation()) {
            ColonLine::Nothing => "nothing".to_owned(),
            ColonLine::Question(text) => format!("ask {text}"),
            ColonLine::Now(text) => format!("now {text}"),
            ColonLine::Run(command) => format!("run {command}"),
            ColonLine::Leave => "leave".to_owned(),
            ColonLine::Switch(name) => format!("switch {name}"),
            ColonLine::Command(parsed) => {
                let here = parsed.0.conversation == Some(test_daemon::conversation().to_string());
                format!("{} {:?}", if here { "here" } else { "there" }, parsed.1)
            }
            ColonLine::Told(text) => format!("told {text}"),
        };
        assert!(said.starts_with(expected), "{line}: {said}");
    }

    #[test]
    fn a_line_is_a_question_and_a_colon_is_the_grammar() {
        check("  ", "nothing");
        check(":", "nothing");
        check(" why? ", "ask why?");
        check(":ask :not a command", "ask :not a command");
        check(":now stop that", "now stop that");
        check("! ls -l ", "run ls -l");
        check("!", "told what?");
        check(":q", "leave");
        check(":switch a b", "switch a b");
        check(":conv switch other", "switch other");
        check(":attach other", "switch other");
        check(":queue drop 1", "here Queue");
        check(":queue -C other", "there Queue");
        check(
            ":remember it's boltzmann's port: 8082",
            "there Remember(RememberArgs { text: [\"it's boltzmann's port: 8082\"]",
        );
        check(
            ":remember --pin 'a b'",
            "here Remember(RememberArgs { text: [\"a b\"], kind: None, pin: true",
        );
        check(":memory", "here Memory");
        check(":forget 3 m4", "here Forget");
        check(":memory import -", "told here stdin (-) is your keyboard");
        check(":cancel", "here Cancel");
        check(
            ":prompt save review -",
            "told here stdin (-) is your keyboard",
        );
        check(":confirm deny c1 no - not that", "here Confirm");
        check(":route on", "here Route { command: Some(On) }");
        check(
            ":route check it's a \"paste\", isn't it?",
            "here Route { command: Some(Check { text: [\"it's a \\\"paste\\\", isn't it?\"] }) }",
        );
        check(":route check", "told error");
        check(
            ":resource get a/b",
            "here Resource { command: Some(Get { name: \"a/b\" }) }",
        );
        check(
            ":search \"two words\"",
            "here Search(SearchArgs { query: [\"two words\"]",
        );
        check(":search \"open", "told a quote");
        check(":nonsense", "told error: unrecognized subcommand");
        check(":help", "told a plain line");
        check(":help queue", "here Help");
    }
}
