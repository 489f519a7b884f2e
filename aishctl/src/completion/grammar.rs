//! Which arguments of the grammar take names that only the daemon knows. It is said beside the grammar and not in it, so
//! that a start which completes nothing pays nothing for it.

use std::ffi::OsStr;
use std::sync::Arc;

use clap::{Arg, Command, ValueHint};
use clap_complete::{ArgValueCompleter, CompletionCandidate};

use crate::completion::names::{LiveNames, NameKind};

/// The tag of a candidate that stands for all files: the shell knows better how it wants them.
pub(super) const FILES: &str = "files";

/// The grammar, with completers where it takes names.
pub(super) fn complete_with(mut grammar: Command, names: &Arc<LiveNames>) -> Command {
    // Arguments of commands are made when they are first needed.
    grammar.build();
    let topics = grammar.get_subcommands().filter(|it| !it.is_hide_set());
    let topics: Vec<String> = topics.map(|it| it.get_name().to_owned()).collect();
    let topics = topics
        .into_iter()
        .chain(["exit-codes".to_owned()])
        .collect();
    dressed(
        grammar,
        &[],
        &Parts {
            names: Arc::clone(names),
            topics,
        },
    )
}

struct Parts {
    names: Arc<LiveNames>,
    topics: Arc<[String]>,
}

fn dressed(command: Command, path: &[&str], parts: &Parts) -> Command {
    command
        .mut_args(|arg| match completer(path, &arg, parts) {
            Some(completer) => arg.add(completer),
            None => arg,
        })
        .mut_subcommands(|inner| {
            let name = inner.get_name().to_owned();
            dressed(inner, &[path, &[name.as_str()]].concat(), parts)
        })
}

fn completer(path: &[&str], arg: &Arg, parts: &Parts) -> Option<ArgValueCompleter> {
    if !arg.get_num_args().is_some_and(|it| it.takes_values()) {
        return None;
    }
    if let Some(kind) = names_of(path, arg) {
        let names = Arc::clone(&parts.names);
        return Some(ArgValueCompleter::new(move |word: &OsStr| {
            let found = names.of_kind(kind).into_iter();
            let found =
                found.map(|(name, about)| CompletionCandidate::new(name).help(Some(about.into())));
            found.filter(|it| begins_with(it, word)).collect::<Vec<_>>()
        }));
    }
    if path == ["help"] {
        let topics = Arc::clone(&parts.topics);
        return Some(ArgValueCompleter::new(move |word: &OsStr| {
            let topics = topics.iter().map(CompletionCandidate::new);
            topics
                .filter(|it| begins_with(it, word))
                .collect::<Vec<_>>()
        }));
    }
    let is_path = matches!(
        arg.get_value_hint(),
        ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath | ValueHint::ExecutablePath
    );
    is_path.then(|| {
        ArgValueCompleter::new(|word: &OsStr| {
            vec![CompletionCandidate::new(word).tag(Some(FILES.into()))]
        })
    })
}

fn begins_with(candidate: &CompletionCandidate, word: &OsStr) -> bool {
    let value = candidate.get_value().as_encoded_bytes();
    value.starts_with(word.as_encoded_bytes())
}

/// Which names an argument takes, by the command that it belongs to.
fn names_of(path: &[&str], arg: &Arg) -> Option<NameKind> {
    let id = arg.get_id().as_str();
    Some(match (path, id) {
        (["conv", "unarchive"], "conversation") => NameKind::ArchivedConversation,
        (_, "conversation" | "in-conversation") => NameKind::Conversation,
        (["model"] | ["model", "probe" | "show" | "forget" | "remove" | "default"], "name") => {
            NameKind::Model
        }
        (_, "model") if arg.get_long() == Some("model") => NameKind::Model,
        // Here it is the name of a new one.
        (["mcp", "connect" | "add"], "alias") => return None,
        (["mcp", _], "alias") => NameKind::Server,
        (["mcp", "tool"] | ["tools", "show"], "name") => NameKind::Tool,
        (["tools", _] | ["perm", "check"], "tool") => NameKind::Tool,
        (["tools" | "perm", _], "provider") => NameKind::Provider,
        (["confirm", _], "id") => NameKind::Confirm,
        (["changes", _], "id") => NameKind::OpenChanges,
        (["jobs", _], "job") => NameKind::Job,
        (["undo"], "changes") => NameKind::KeptChanges,
        (["redo"], "changes") => NameKind::UndoneChanges,
        (["prompt", "show" | "rm" | "ask"], "name") => NameKind::Prompt,
        (["mcp", "ask"], "prompt" | "arguments") => NameKind::ServerWord,
        (["mcp", "prompt"], "name" | "arguments") => NameKind::ServerWord,
        (["mcp", "read" | "pin"], "uri") => NameKind::ServerWord,
        _ => return None,
    })
}
