//! What Tab gives behind a colon or a slash: commands and options of the one grammar, names of conversations and models.

use clap::CommandFactory as _;

use crate::args::CtlArgs;
use crate::attach::ui::CompletionNames;
use crate::completion::bash_line;
use crate::safe;

/// Verbs of a window that the grammar does not have.
const VERBS: [&str; 9] = [
    "ask", "now", "send", "edit", "copy", "thinking", "switch", "help", "quit",
];

/// Where the word at the end begins, and what it may become.
pub(super) fn complete(typed: &str, names: &CompletionNames) -> (usize, Vec<String>) {
    let start = typed.rfind(char::is_whitespace).map_or(1, |it| it + 1);
    let (before, word) = typed.split_at(start.min(typed.len()));
    let before: Vec<&str> = before
        .trim_start_matches([':', '/'])
        .split_whitespace()
        .collect();
    let mut found: Vec<String> = candidates(&before, names)
        .into_iter()
        .filter(|it| {
            it.trim_start_matches('\'')
                .starts_with(word.trim_start_matches('\''))
        })
        .filter(|it| !(word.is_empty() && it.starts_with('-')))
        .collect();
    found.sort();
    found.dedup();
    (start, found)
}

fn candidates(before: &[&str], names: &CompletionNames) -> Vec<String> {
    let mut grammar = CtlArgs::command().disable_help_flag(true);
    grammar.build();
    let mut at = &grammar;
    let mut depth = 0;
    for word in before {
        if let Some(inner) = at.find_subcommand(word) {
            at = inner;
            depth += 1;
        }
    }
    let mut found: Vec<String> = at
        .get_subcommands()
        .map(|it| it.get_name().to_owned())
        .collect();
    if before.is_empty() {
        found.extend(VERBS.map(str::to_owned));
        return found;
    }
    if depth == 0 {
        // A verb of the window, or of nobody.
        found.clear();
    } else {
        found.extend(
            at.get_arguments()
                .filter_map(|it| it.get_long())
                .map(|it| format!("--{it}")),
        );
    }
    let names = match (before, depth) {
        ([.., "-C" | "--conversation"] | ["switch"], _) => &names.conversations,
        ([.., "-m" | "--model"] | ["model" | "models"], _) => &names.models,
        (["mcp", _, ..], 2) if takes(at, "alias") && before.len() == 2 => &names.servers,
        // A conversation may follow wherever the command takes one.
        _ if takes(at, "conversation") => &names.conversations,
        _ => return found,
    };
    // A verb of the window takes the rest of the line as it is.
    let written = if depth == 0 { safe::one_line } else { quoted };
    found.extend(names.iter().map(|it| written(it)));
    found
}

fn takes(command: &clap::Command, what: &str) -> bool {
    command.get_positionals().any(|it| it.get_id() == what)
}

/// Servers that begin like the word behind an `@`; what they have is asked for behind the colon.
pub(super) fn readable<'a>(
    word: &'a str,
    names: &'a CompletionNames,
) -> impl Iterator<Item = String> + 'a {
    let found = names.readable.iter().filter(move |it| it.starts_with(word));
    found.map(|it| format!("{it}:"))
}

/// `alias:uri` for each URI that can stand behind an `@` as it is: a blank would end it.
pub(super) fn mentions(word: &str, uris: &[String]) -> Vec<String> {
    let alias = word.split_once(':').map_or(word, |(alias, _)| alias);
    let found = uris.iter().filter(|it| !it.contains(char::is_whitespace));
    found.map(|it| format!("{alias}:{it}")).collect()
}

/// As the grammar reads it back.
pub(super) fn quoted(name: &str) -> String {
    let name = safe::one_line(name);
    // Many signs that mean something to a shell mean nothing here, and `name=` is to be typed on behind.
    if !name.is_empty() && name.chars().all(bash_line::is_plain) {
        return name;
    }
    shlex::try_quote(&name).map_or_else(|_| name.clone(), std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(typed: &str, start: usize, expected: &[&str]) {
        let names = CompletionNames {
            conversations: vec!["proj".into(), "two words".into(), "prose\u{1b}[2J".into()],
            models: vec!["deep".into(), "fast".into()],
            servers: vec!["notes".into()],
            ..CompletionNames::default()
        };
        let (at, found) = complete(typed, &names);
        assert_eq!(
            (start, expected.to_vec()),
            (at, found.iter().map(String::as_str).collect()),
            "{typed}"
        );
    }

    #[test]
    fn tab_knows_the_grammar_and_the_names() {
        check(":sw", 1, &["switch"]);
        check(":qu", 1, &["queue", "quit"]);
        check(":queue d", 7, &[]);
        check(":queue re", 7, &["remove", "resume"]);
        check(":switch p", 8, &["proj", "prose[2J"]);
        check(":switch ", 8, &["proj", "prose[2J", "two words"]);
        check(":log 'pro", 5, &["'prose[2J'", "proj"]);
        check(":model d", 7, &["deep", "default"]);
        check(":log proj", 5, &["proj"]);
        check(":conv ls --al", 9, &["--all"]);
        check(":search x -C proj", 13, &["proj"]);
        check("/sw", 1, &["switch"]);
        check("/model d", 7, &["deep", "default"]);
        check("ls", 1, &[]);
        check(":mcp ask n", 9, &["notes"]);
        check(":mcp ask notes n", 15, &[]);
    }
}
