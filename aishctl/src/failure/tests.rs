use std::fs;
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};

use crate::args::CtlArgs;

/// What follows our name in a sentence that names no command.
const NO_COMMANDS: [&str; 7] = ["is", "that", "command", "to", "prints", "starts", "lends"];

/// The sources of what people read, without tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs")
            && !path.components().any(|it| it.as_os_str() == "tests")
            && path.file_name().is_some_and(|it| it != "tests.rs")
        {
            found.push(path);
        }
    }
}

/// The words behind our name, as far as they may be those of a command.
fn commands(source: &str) -> Vec<Vec<String>> {
    let shown = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = shown.lines().filter(|it| !it.trim().starts_with("//"));
    let behind = lines.flat_map(|it| it.split("aishctl ").skip(1));
    let words = behind.map(|it| {
        let words = it.split(' ').map(|word| {
            let end = word.find(|it: char| !it.is_ascii_lowercase() && it != '-');
            (&word[..end.unwrap_or(word.len())], end.is_none())
        });
        let mut named = vec![];
        for (word, goes_on) in words {
            if word.is_empty() || word.starts_with('-') {
                break;
            }
            named.push(word.to_owned());
            if !goes_on {
                break;
            }
        }
        named
    });
    words.filter(|it| !it.is_empty()).collect()
}

/// Our command with all below it.
fn ours() -> Command {
    let mut root = CtlArgs::command();
    root.build();
    root
}

/// What is wrong with such a command; a verb may follow the words of one.
fn wrong(root: &Command, words: &[String]) -> Option<String> {
    if NO_COMMANDS.contains(&words[0].as_str()) {
        return None;
    }
    let mut at = root;
    for word in words {
        match at.find_subcommand(word) {
            Some(found) => at = found,
            // It may be what the command takes.
            None if at.has_subcommands()
                && at.get_positionals().next().is_none()
                && !(at.get_name() != "aishctl" && word.ends_with('s')) =>
            {
                return Some(format!("there is no command aishctl {}", words.join(" ")));
            }
            None => return None,
        }
    }
    None
}

/// A next command helps only if it is there.
#[test]
fn every_command_that_a_message_names_is_there() {
    let clients = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let daemon = Path::new(env!("CARGO_MANIFEST_DIR")).join("../aishd");
    let mut files = vec![];
    sources(&clients, &mut files);
    sources(&daemon, &mut files);
    let root = ours();
    let mut count = 0;
    let mut all = vec![];
    for file in files {
        for words in commands(&fs::read_to_string(&file).unwrap()) {
            count += 1;
            all.extend(wrong(&root, &words).map(|it| format!("{}: {it}", file.display())));
        }
    }
    assert!(count > 100, "{count}");
    assert!(all.is_empty(), "{}", all.join("\n"));
}

#[test]
fn what_is_no_command_is_noticed() {
    let root = ours();
    let check = |text: &str, fits: bool| {
        let found = commands(&format!("\"{text}\""));
        assert_eq!(
            fits,
            found.iter().all(|it| wrong(&root, it).is_none()),
            "{text}"
        );
    };
    check("aishctl conv list", true);
    check("aishctl context shows what fills it", true);
    check(
        "aishctl ask TEXT asks something, aishctl log {id} shows it",
        true,
    );
    check("see aishctl conv lst", false);
    check("aishctl prmopt ls", false);
}
