//! What a line typed in attach means: a question, or after a colon a command of the one grammar.

use aish_proto::id::ConversationId;
use clap::error::ErrorKind;
use clap::{CommandFactory as _, FromArgMatches as _};

use crate::args::{CtlArgs, CtlCommand};
use crate::attach::copying::CopiedPart;
use crate::commands::conversation::ConversationCommand;
use crate::commands::memory::RememberArgs;
use crate::commands::norris::{NorrisCommand, NorrisLaunchArgs};
use crate::commands::route::RouteCommand;
use crate::global_args::GlobalArgs;
use crate::window_help::HELP;
use crate::{help, near_tip};

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
    /// On one that begins now, with this title or without.
    New(Option<String>),
    /// The same, picked from a list.
    Pick,
    /// Ask this instead of the last question, in a branch; without it, have it edited.
    Edit(Option<String>),
    /// Show what was thought last, or from now on, or no longer.
    Thinking(Option<bool>),
    /// Copy what was answered last.
    Copy(CopiedPart),
    Command(Box<(GlobalArgs, CtlCommand)>),
    /// It cannot be done; this is why, or it is the help that was asked for.
    Told(String),
}

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
    let Some(command) = command_of(line) else {
        return match line {
            "" => ColonLine::Nothing,
            "?" | "/" => ColonLine::Told(HELP.to_owned()),
            question => ColonLine::Question(question.to_owned()),
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
        "switch" if rest.is_empty() => ColonLine::Pick,
        "edit" => ColonLine::Edit((!rest.is_empty()).then(|| rest.to_owned())),
        "thinking" => match rest {
            "" => ColonLine::Thinking(None),
            "on" => ColonLine::Thinking(Some(true)),
            "off" => ColonLine::Thinking(Some(false)),
            _ => ColonLine::Told("what? (:thinking, :thinking on, :thinking off)".to_owned()),
        },
        "copy" if rest.is_empty() => ColonLine::Copy(CopiedPart::Answer),
        "copy" if rest == "code" => ColonLine::Copy(CopiedPart::Code),
        "copy" => ColonLine::Told("what? (:copy, :copy code)".to_owned()),
        "switch" => ColonLine::Switch(rest.to_owned()),
        // What other programs call it.
        "new" | "clear" => ColonLine::New((!rest.is_empty()).then(|| rest.to_owned())),
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

/// What stands behind the sign of a command. A slash is one too, unless what follows is a path: then it begins a question.
fn command_of(line: &str) -> Option<&str> {
    if let Some(command) = line.strip_prefix(':') {
        return Some(command);
    }
    let command = line.strip_prefix('/')?;
    let verb = command
        .split(char::is_whitespace)
        .next()
        .unwrap_or_default();
    let is_path = verb.contains('/') || verb.contains('.') || verb.is_empty();
    (!is_path).then_some(command)
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
    let mut grammar = CtlArgs::command().no_binary_name(true);
    let verb = words.first().map(String::as_str).unwrap_or_default();
    let is_known = grammar.find_subcommand(verb).is_some();
    let matches = grammar.try_get_matches_from_mut(words.clone());
    let parsed = matches.and_then(|mut it| CtlArgs::from_arg_matches_mut(&mut it));
    let parsed = parsed.map_err(near_tip::only_near);
    let CtlArgs {
        mut global,
        command,
    } = match parsed {
        Ok(parsed) => parsed,
        Err(error) if !is_known && error.kind() == ErrorKind::InvalidSubcommand => {
            return ColonLine::Told(unknown(command, &error));
        }
        Err(error) => return ColonLine::Told(told(&error, &words)),
    };
    match command {
        None => ColonLine::Nothing,
        Some(CtlCommand::Attach(args)) if args.new => ColonLine::New(args.conversation),
        Some(CtlCommand::Attach(args)) => {
            args.conversation.map_or(ColonLine::Pick, ColonLine::Switch)
        }
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

/// What is wrong with a line, or the help that it asks for with a flag.
fn told(error: &clap::Error, words: &[String]) -> String {
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        let topic = words.iter().take_while(|it| !it.starts_with('-'));
        let topic: Vec<String> = topic.cloned().collect();
        if let Ok(text) = help::in_window(&topic) {
            return text;
        }
    }
    error.render().to_string().trim_end().to_owned()
}

/// A word that is no command: what it may have been, and how it is asked.
fn unknown(command: &str, error: &clap::Error) -> String {
    let said = error.render().to_string();
    let said = said
        .split("\n\nUsage:")
        .next()
        .unwrap_or_default()
        .trim_end();
    format!("{said}\n  :help lists the commands; as a question: :ask {command}")
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
            ColonLine::SendCostly => "send".to_owned(),
            ColonLine::Switch(name) => format!("switch {name}"),
            ColonLine::New(title) => format!("new {}", title.unwrap_or_default()),
            ColonLine::Pick => "pick".to_owned(),
            ColonLine::Edit(text) => format!("edit {}", text.unwrap_or_default()),
            ColonLine::Thinking(shows) => format!("thinking {shows:?}"),
            ColonLine::Copy(part) => format!("copy {part:?}"),
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
        check(":send", "send");
        check("! ls -l ", "run ls -l");
        check("!", "told what?");
        check(":q", "leave");
        check(":switch a b", "switch a b");
        check(":conv switch other", "switch other");
        check(":switch", "pick");
        check(":new", "new ");
        check(":new the build ", "new the build");
        check("/clear", "new ");
        check(":edit", "edit ");
        check(":edit why\nso?", "edit why\nso?");
        check(":copy", "copy Answer");
        check(":copy code", "copy Code");
        check(":copy that", "told what?");
        check(":thinking", "thinking None");
        check(":thinking on", "thinking Some(true)");
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
            ":jobs stop 1",
            "here Jobs { command: Some(Stop { job: JobId(1) }) }",
        );
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
        check(":conv tree", "told error: unrecognized subcommand 'tree'\n");
        check(":conv ls --help", "told The conversations");
        check(":help", "told a plain line");
        check("?", "told a plain line");
        check("? what", "ask ? what");
        check("/help", "told a plain line");
        check("/queue drop 1", "here Queue");
        check("/switch a b", "switch a b");
        check("/etc/passwd says what?", "ask /etc/passwd says what?");
        check("/notes.txt is what?", "ask /notes.txt is what?");
        check("/ is full", "ask / is full");
        check("/nonsense", "told error: unrecognized subcommand");
        check(":help queue", "here Help");
    }
}
