//! What the packages of the daemon may name beyond their dependencies, which Cargo holds (docs/ARCHITECTURE.md, the packages).

use std::collections::BTreeSet;
use std::path::Path;

use aish_testkit::repository;

use crate::{code, none};

/// Packages that do no IO and read no clock.
const PURE: &[&str] = &[
    "command",
    "dialect",
    "log",
    "mcp-messages",
    "model",
    "rules",
    "turn",
];

/// What they may not name. A `Duration` is a value.
const IMPURE: &[&str] = &[
    "tokio",
    "tokio_util",
    "reqwest",
    "sled",
    "jsonrpsee",
    "interprocess",
    "rustix",
    "std::fs",
    "std::env",
    "std::process",
    "std::net",
    "std::thread",
    "Instant",
    "SystemTime",
];

/// The parts of the wire that are plain values. All others are payloads, which only `rpc` turns into ours.
const WIRE_VALUES: &[&str] = &[
    "form", "id", "limits", "network", "picture", "place", "proposed", "version",
];

#[test]
fn every_package_has_its_place_in_the_map() {
    let map = repository::text(Path::new("docs/ARCHITECTURE.md")).unwrap();
    let packages: BTreeSet<String> = repository::rust_files("aishd")
        .iter()
        .filter_map(|it| package_of(it))
        .collect();
    let stray: Vec<String> = packages
        .into_iter()
        .filter(|it| !map.contains(&format!("| `aishd/{it}`")))
        .map(|it| format!("aishd/{it}"))
        .collect();
    none(&stray, "add the package to the map in docs/ARCHITECTURE.md");
}

/// A process that somebody else started would outlive the daemon, and get its descriptors and environment.
#[test]
fn only_process_starts_processes() {
    let mut wrong = vec![];
    each_line(|package, at, line| {
        if package != "process" && !at.contains("/tests/") && names(line, "Command::new") {
            wrong.push(format!("{at}: `{package}` may not start a process"));
        }
    });
    none(
        &wrong,
        "start it with `aishd_process::Children`, behind a trampoline",
    );
}

#[test]
fn what_is_pure_does_no_io() {
    let mut wrong = vec![];
    each_line(|package, at, line| {
        if !PURE.contains(&package) {
            return;
        }
        for name in IMPURE.iter().filter(|it| names(line, it)) {
            wrong.push(format!("{at}: `{package}` may not name `{name}`"));
        }
    });
    none(
        &wrong,
        "let the caller do the IO and hand in what came of it; time is an argument",
    );
}

#[test]
fn payloads_of_the_wire_stay_at_the_edge() {
    let mut wrong = vec![];
    each_line(|package, at, line| {
        // The program itself prints some of them.
        if package == "rpc" || package == "src" {
            return;
        }
        for used in names_after(line, "aish_proto::") {
            if !WIRE_VALUES.contains(&used.as_str()) {
                wrong.push(format!("{at}: `{package}` may not use aish_proto::{used}"));
            }
        }
    });
    none(
        &wrong,
        "use the domain's type and turn it into the wire's in aishd/rpc; a Serialize on an inner type is a promise to strangers",
    );
}

/// `store` for aishd/store/src/journal.rs; none for the program itself, whose sources are in aishd/src.
fn package_of(file: &Path) -> Option<String> {
    let mut parts = file.strip_prefix("aishd").ok()?.iter();
    let first = parts.next()?.to_str()?;
    (parts.next()?.to_str()? == "src").then(|| first.to_owned())
}

/// Calls with package, `file:line` and the code of the line.
fn each_line(mut look: impl FnMut(&str, &str, &str)) {
    for file in repository::rust_files("aishd") {
        let package = package_of(&file).unwrap_or_else(|| "src".to_owned());
        let text = repository::text(&file).unwrap();
        for (number, line) in joined(&code(&text)) {
            look(&package, &format!("{}:{number}", file.display()), &line);
        }
    }
}

/// Lines with their numbers; a `use` over several lines is one.
pub(crate) fn joined(lines: &[&str]) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = vec![];
    let mut open = false;
    for (at, line) in lines.iter().enumerate() {
        match all.last_mut().filter(|_| open) {
            Some((_, text)) => text.push_str(line.trim()),
            None => all.push((at + 1, (*line).to_owned())),
        }
        let text = &all.last().unwrap().1;
        let is_use = text.trim_start().starts_with("use ") || text.trim_start().starts_with("pub");
        open = is_use && text.contains("::{") && !text.contains(';');
    }
    all
}

/// The first names after each `prefix`, those in braces too: `crate::{a::B, c}` gives a and c.
pub(crate) fn names_after(line: &str, prefix: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|it| it.is_alphanumeric() || *it == '_')
            .collect()
    };
    let mut found = vec![];
    for (at, _) in line.match_indices(prefix) {
        let rest = &line[at + prefix.len()..];
        let Some(group) = rest.strip_prefix('{') else {
            found.push(word(rest));
            continue;
        };
        let mut depth = 0;
        let mut begin = 0;
        for (at, sign) in group.char_indices() {
            match sign {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    found.push(word(&group[begin..at]));
                    begin = at + 1;
                    if sign == '}' {
                        break;
                    }
                }
                _ => {}
            }
        }
    }
    found.retain(|it| !it.is_empty());
    found
}

/// Whether the line has this name or path, and not only as a part of another.
fn names(line: &str, name: &str) -> bool {
    let part = |it: char| it.is_alphanumeric() || it == '_';
    line.match_indices(name).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + name.len()..].chars().next();
        let path = name.contains("::") || name.starts_with(char::is_uppercase);
        !before.is_some_and(part)
            && !after.is_some_and(part)
            && (path || line[at + name.len()..].starts_with("::"))
    })
}

#[test]
fn the_reading_of_lines_sees_what_it_should() {
    let lines = [
        "use crate::{",
        "    core::turn::{A, B},",
        "    store,",
        "};",
        "let x = crate::rpc::y;",
    ];
    let joined = joined(&lines);
    assert_eq!(2, joined.len());
    assert_eq!(["core", "store"], names_after(&joined[0].1, "crate::")[..]);
    assert_eq!(
        (5, vec!["rpc".to_owned()]),
        (joined[1].0, names_after(&joined[1].1, "crate::"))
    );
    assert!(names("use tokio::sync;", "tokio") && !names("my_tokio::x", "tokio"));
    assert!(names("std::time::{Duration, Instant}", "Instant") && !names("Instants", "Instant"));
    let text = "a // b\nlet u = \"http://x\";\n#[cfg(test)]\nmod tests {\n";
    assert_eq!(["a ", "let u = \"http://x\";"], code(text)[..]);
}
