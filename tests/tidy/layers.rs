//! Who may use whom inside `aishd` (docs/ARCHITECTURE.md, Layers).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use aish_testkit::repository;

use crate::{code, none};

/// A module of `aishd/src`, and the modules that it may use.
const LAYERS: &[(&str, &[&str])] = &[
    ("core", &[]),
    ("event_lines", &[]),
    ("failpoint", &[]),
    ("file_lock", &[]),
    ("service", &[]),
    ("socket", &["file_lock"]),
    ("tls", &[]),
    ("logging", &["clock", "core"]),
    ("clock", &["core"]),
    ("folder", &["clock", "core"]),
    ("config", &["core", "folder"]),
    ("args", &["config", "core"]),
    ("child", &[]),
    ("store", &["clock", "core", "failpoint", "file_lock"]),
    (
        "broker",
        &["child", "clock", "core", "event_lines", "failpoint", "tls"],
    ),
    (
        "mcp",
        &["child", "clock", "core", "event_lines", "failpoint", "tls"],
    ),
    ("tools", &["child", "clock", "core", "failpoint", "mcp"]),
    (
        "conversation",
        &[
            "broker",
            "clock",
            "core",
            "failpoint",
            "folder",
            "store",
            "tools",
        ],
    ),
    (
        "rpc",
        &[
            "clock",
            "config",
            "conversation",
            "core",
            "logging",
            "mcp",
            "tools",
        ],
    ),
];

/// They put the house together, so they see all of it.
const BUILDERS: &[&str] = &["daemon", "lib", "main"];

/// What `core` may not name: it does no IO and reads no clock. A `Duration` is a value.
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
    "form", "id", "limits", "network", "place", "proposed", "version",
];

#[test]
fn modules_use_only_the_layers_below_them() {
    let mut wrong = vec![];
    each_line(|module, at, line| {
        let Some(allowed) = layer(module) else { return };
        for used in names_after(line, "crate::") {
            let known = layer(&used).is_some() || BUILDERS.contains(&used.as_str());
            if used != module && known && !allowed.contains(&used.as_str()) {
                wrong.push(format!("{at}: `{module}` may not use `{used}`"));
            }
        }
    });
    none(
        &wrong,
        "pass a value in from above, or move the code to the layer that may know both; the table is in docs/ARCHITECTURE.md",
    );
}

#[test]
fn every_module_has_its_place_in_the_table() {
    let modules: BTreeSet<String> = repository::rust_files("aishd/src")
        .iter()
        .map(|it| module_of(it))
        .collect();
    let stray: Vec<String> = modules
        .into_iter()
        .filter(|it| layer(it).is_none() && !BUILDERS.contains(&it.as_str()))
        .map(|it| format!("aishd/src/{it}"))
        .collect();
    none(
        &stray,
        "put it into a room that there is, or add the room to LAYERS in tests/tidy/layers.rs and to docs/ARCHITECTURE.md",
    );
}

/// A process that somebody else started would outlive the daemon, and get its descriptors and environment.
#[test]
fn only_child_starts_processes() {
    let mut wrong = vec![];
    each_line(|module, at, line| {
        if module != "child" && !at.contains("/tests/") && names(line, "Command::new") {
            wrong.push(format!("{at}: `{module}` may not start a process"));
        }
    });
    none(
        &wrong,
        "start it with `child::Children`, behind a trampoline",
    );
}

#[test]
fn the_table_has_no_cycle() {
    let table: BTreeMap<&str, &[&str]> = LAYERS.iter().copied().collect();
    let mut done = BTreeSet::new();
    while done.len() < table.len() {
        let ready: Vec<&str> = table
            .iter()
            .filter(|(name, below)| {
                !done.contains(*name) && below.iter().all(|it| done.contains(it))
            })
            .map(|(name, _)| *name)
            .collect();
        assert!(!ready.is_empty(), "a cycle among what is not in {done:?}");
        done.extend(ready);
    }
}

#[test]
fn core_is_pure() {
    let mut wrong = vec![];
    each_line(|module, at, line| {
        if module != "core" {
            return;
        }
        for name in IMPURE.iter().filter(|it| names(line, it)) {
            wrong.push(format!("{at}: core may not name `{name}`"));
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
    each_line(|module, at, line| {
        if module == "rpc" || BUILDERS.contains(&module) {
            return;
        }
        for used in names_after(line, "aish_proto::") {
            if !WIRE_VALUES.contains(&used.as_str()) {
                wrong.push(format!("{at}: `{module}` may not use aish_proto::{used}"));
            }
        }
    });
    none(
        &wrong,
        "use the type of core and turn it into the wire's in rpc/convert; a Serialize on an inner type is a promise to strangers",
    );
}

fn layer(module: &str) -> Option<&'static [&'static str]> {
    let found = LAYERS.iter().find(|(name, _)| *name == module);
    found.map(|(_, allowed)| *allowed)
}

/// `store` for aishd/src/store/log.rs and for aishd/src/store.rs.
fn module_of(file: &Path) -> String {
    let below = file.strip_prefix("aishd/src").unwrap();
    let first = below.iter().next().unwrap().to_str().unwrap();
    first.trim_end_matches(".rs").to_owned()
}

/// Calls with module, `file:line` and the code of the line.
fn each_line(mut look: impl FnMut(&str, &str, &str)) {
    for file in repository::rust_files("aishd/src") {
        let module = module_of(&file);
        let text = repository::text(&file).unwrap();
        for (number, line) in joined(&code(&text)) {
            look(&module, &format!("{}:{number}", file.display()), &line);
        }
    }
}

/// Lines with their numbers; a `use` over several lines is one.
fn joined(lines: &[&str]) -> Vec<(usize, String)> {
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
fn names_after(line: &str, prefix: &str) -> Vec<String> {
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
