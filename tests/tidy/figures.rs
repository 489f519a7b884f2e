//! Figures of the whole house, printed by `cargo test -p aish-testkit --test tidy figures -- --nocapture`. Each has a ceiling, which comes
//! down with its figure; that of the lines goes up only by what a user gets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use aish_testkit::repository;

use crate::{circles, code};

/// Lines of the product without tests, blank lines and comments.
const MOST_LINES: usize = 155_479;
/// The same of packages that are to stay small. Data beside the code is not counted.
const MOST_LINES_OF: &[(&str, usize)] = &[("aishd/command", 2_000)];
/// Types whose name another type has too, in percent.
const MOST_SHARED_NAMES: usize = 4;
/// Types whose name is one word, in percent.
const MOST_ONE_WORD_NAMES: usize = 10;
/// Files that use one another in a circle, by package. Others have none.
const MOST_IN_A_CIRCLE: &[(&str, usize)] = &[
    ("aish-proto", 2),
    ("aishctl", 8),
    ("aishd/conversation", 5),
    ("aishd/log", 5),
    ("aishd/mcp", 4),
    ("aishd/mcp-messages", 2),
    ("aishd/model", 2),
    ("aishd/process", 2),
    ("aishd/rpc", 4),
    ("aishd/rules", 2),
    ("aishd/signin", 3),
    ("aishd/store", 4),
    ("aishd/tools", 4),
    ("aishd/turn", 4),
];
/// Files of the product that name one stored event.
const MOST_FILES_OF_AN_EVENT: usize = 23;

/// Files that have to name a new stored event.
const MOST_FILES_OF_ALL_EVENTS: usize = 4;

#[test]
fn figures() {
    let sources = sources();
    let lines = sources
        .values()
        .flatten()
        .filter(|it| !it.trim().is_empty());
    let lines = lines.count();
    let types = types(&sources);
    let total = types.len();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    for name in &types {
        *count.entry(name).or_default() += 1;
    }
    let shared = types.iter().filter(|it| count[it.as_str()] > 1).count() * 100 / total;
    let one_word = types.iter().filter(|it| is_one_word(it)).count() * 100 / total;
    println!("lines of the product: {lines} of {MOST_LINES}");
    let mut too_long = vec![];
    for (package, most) in MOST_LINES_OF {
        let files = sources.iter().filter(|(file, _)| file.starts_with(package));
        let lines = files.flat_map(|(_, lines)| lines);
        let lines = lines.filter(|it| !it.trim().is_empty()).count();
        println!("lines of {package}: {lines} of {most}");
        if lines > *most {
            too_long.push(package);
        }
    }
    println!("words and signs of the product: {}", signs(&sources));
    println!("types whose name is shared: {shared} % of {total}, at most {MOST_SHARED_NAMES} %");
    println!("types whose name is one word: {one_word} %, at most {MOST_ONE_WORD_NAMES} %");
    let EventNames {
        most: (event, files),
        of_all,
    } = event_names(&sources);
    println!("files that name Event::{event}: {files} of {MOST_FILES_OF_AN_EVENT}");
    println!("files that have to name a new stored event: {of_all} of {MOST_FILES_OF_ALL_EVENTS}");
    let mut over = vec![];
    for (package, circle) in circles::largest(sources.keys()) {
        println!(
            "{package}: {} files in a circle: {}",
            circle.len(),
            circle.join(" ")
        );
        let ceiling = MOST_IN_A_CIRCLE.iter().find(|(name, _)| *name == package);
        if circle.len() > ceiling.map_or(0, |(_, most)| *most) {
            over.push(package);
        }
    }
    assert!(over.is_empty(), "larger circles in {over:?}");
    assert!(too_long.is_empty(), "too many lines in {too_long:?}");
    assert!(lines <= MOST_LINES, "{lines} lines");
    assert!(
        shared <= MOST_SHARED_NAMES,
        "{shared} % of all types share a name"
    );
    assert!(
        one_word <= MOST_ONE_WORD_NAMES,
        "{one_word} % of all types have one word"
    );
    assert!(
        files <= MOST_FILES_OF_AN_EVENT,
        "{files} files name Event::{event}"
    );
    assert!(
        of_all <= MOST_FILES_OF_ALL_EVENTS,
        "{of_all} files have to name a new stored event"
    );
}

/// The code of every file of the product, tests and comments left out.
fn sources() -> BTreeMap<PathBuf, Vec<String>> {
    let product = ["aish-proto", "aishctl", "aishd"];
    let files = product.iter().flat_map(|it| repository::rust_files(it));
    let is_test = |file: &Path| {
        let text = file.to_string_lossy();
        let for_tests = ["tests.rs", "samples.rs", "test_daemon.rs", "properties.rs"];
        text.contains("/tests/") || for_tests.iter().any(|it| text.ends_with(it))
    };
    let read = |file: PathBuf| {
        let text = repository::text(&file).unwrap();
        let lines = code(&text).into_iter().map(str::to_owned).collect();
        (file, lines)
    };
    files.filter(|it| !is_test(it)).map(read).collect()
}

/// Words and signs besides imports: what a longer name or another way of breaking lines does not change.
fn signs(sources: &BTreeMap<PathBuf, Vec<String>>) -> usize {
    let lines = sources.values().flatten();
    let lines = lines.filter(|it| {
        !it.trim_start()
            .trim_start_matches("pub ")
            .starts_with("use ")
    });
    let of = |line: &String| {
        let is_word = |it: char| it.is_alphanumeric() || it == '_';
        let signs = line
            .chars()
            .filter(|it| !is_word(*it) && !it.is_whitespace());
        let words = line.split(|it| !is_word(it)).filter(|it| !it.is_empty());
        signs.count() + words.count()
    };
    lines.map(of).sum()
}

fn types(sources: &BTreeMap<PathBuf, Vec<String>>) -> Vec<String> {
    let defined = |line: &String| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let line = match line.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ")?.1,
            None => line,
        };
        let rest = ["struct ", "enum ", "trait ", "type "]
            .iter()
            .find_map(|it| line.strip_prefix(it))?;
        let end = rest
            .find(|it: char| !it.is_alphanumeric())
            .unwrap_or(rest.len());
        Some(rest[..end].to_owned())
    };
    sources.values().flatten().filter_map(defined).collect()
}

fn is_one_word(name: &str) -> bool {
    name.chars().filter(char::is_ascii_uppercase).count() == 1
}

/// How often stored events are named.
struct EventNames {
    /// The one that the most files name, and how many.
    most: (String, usize),
    /// Files that name every one: a new one has to be named there, and where it is defined.
    of_all: usize,
}

fn event_names(sources: &BTreeMap<PathBuf, Vec<String>>) -> EventNames {
    let variants: BTreeSet<String> = sources[Path::new("aishd/log/src/event.rs")]
        .iter()
        .skip_while(|it| !it.starts_with("pub enum Event "))
        .skip(1)
        .take_while(|it| *it != "}")
        .filter_map(|it| {
            it.strip_prefix("    ")
                .filter(|it| it.starts_with(char::is_uppercase))
        })
        .map(|it| {
            it.split(|it: char| !it.is_alphanumeric())
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert!(variants.len() > 20, "{variants:?}");
    let inside = sources.iter().filter(|(file, _)| file.starts_with("aishd"));
    let of_events: Vec<(&PathBuf, Vec<&String>)> = inside
        .map(|(file, lines)| {
            (
                file,
                lines.iter().filter(|it| it.contains("Event::")).collect(),
            )
        })
        .collect();
    let files = |variant: &String| {
        let name = format!("Event::{variant}");
        let names = |line: &&String| {
            line.match_indices(&name).any(|(at, _)| {
                let before = line[..at].chars().next_back();
                let after = line[at + name.len()..].chars().next();
                !before.is_some_and(char::is_alphanumeric)
                    && !after.is_some_and(char::is_alphanumeric)
            })
        };
        let naming = of_events
            .iter()
            .filter(|(_, lines)| lines.iter().any(names));
        naming.map(|(file, _)| *file).collect()
    };
    let all = variants.iter().map(|it| (it.clone(), files(it)));
    let all: BTreeMap<String, BTreeSet<&PathBuf>> = all.collect();
    let mut of_all = all.values().cloned();
    let first = of_all.next().unwrap();
    let of_all = of_all.fold(first, |both, next| &both & &next).len() + 1;
    let most = all.into_iter().max_by_key(|(_, files)| files.len());
    let most = most.map(|(name, files)| (name, files.len())).unwrap();
    EventNames { most, of_all }
}
