//! Sizes, names, and what may not be left in the code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use aish_testkit::repository;

use crate::none;

const AIM_LINES: usize = 400;
const WALL_LINES: usize = 600;

/// Names that say nothing of what is inside, so that anything gets in.
const EMPTY_NAMES: &[&str] = &[
    "util", "utils", "helper", "helpers", "misc", "common", "manager", "types",
];

/// Folders whose suites are one test binary with modules.
const SUITES: &[&str] = &["tests/daemon", "tests/cli", "tests/wire", "tests/tidy"];

fn all_rust_files() -> Vec<PathBuf> {
    repository::rust_files("")
}

#[test]
fn files_can_be_read_in_one_sitting() {
    let mut wrong = vec![];
    for file in all_rust_files() {
        let text = repository::text(&file).unwrap();
        let lines = lines_before_tests(&text);
        if lines > WALL_LINES {
            wrong.push(format!(
                "{}: {lines} lines before its tests",
                file.display()
            ));
        } else if lines > AIM_LINES {
            println!("{}: {lines} lines, {AIM_LINES} is the aim", file.display());
        }
    }
    none(
        &wrong,
        &format!("more than {WALL_LINES} lines is more than one idea: split the file along it"),
    );
}

fn lines_before_tests(text: &str) -> usize {
    let tests = text.lines().position(|it| it == "#[cfg(test)]");
    tests.unwrap_or_else(|| text.lines().count())
}

#[test]
fn names_say_what_is_inside() {
    let wrong: Vec<String> = repository::files()
        .iter()
        .filter(|it| it.iter().any(|part| is_empty_name(Path::new(part))))
        .map(|it| it.display().to_string())
        .collect();
    none(&wrong, "name the file or folder after its content");
}

fn is_empty_name(part: &Path) -> bool {
    let stem = part.file_stem().and_then(|it| it.to_str());
    stem.is_some_and(|it| EMPTY_NAMES.contains(&it))
}

#[test]
fn no_package_is_a_drawer() {
    let mut wrong = vec![];
    for file in repository::files() {
        if file.file_name().is_none_or(|it| it != "Cargo.toml") {
            continue;
        }
        let text = repository::text(&file).unwrap();
        for name in text.lines().filter_map(|it| it.strip_prefix("name = ")) {
            let name = name.trim_matches('"');
            if name.split(['-', '_']).any(|it| EMPTY_NAMES.contains(&it)) {
                wrong.push(format!("{}: package {name}", file.display()));
            }
        }
    }
    none(&wrong, "name the package after what it is for");
}

#[test]
fn nothing_is_switched_off_or_left_undone() {
    // In two parts, so that this file does not find itself.
    let ignored = concat!("#[", "ignore");
    let undone = [
        concat!("to", "do!("),
        concat!("unimplemented", "!("),
        concat!("db", "g!("),
    ];
    let mut wrong = vec![];
    for file in all_rust_files() {
        let text = repository::text(&file).unwrap();
        for (at, line) in text.lines().enumerate() {
            let place = format!("{}:{}", file.display(), at + 1);
            // A program that other tests start is no test that was switched off.
            let program = line.contains("= \"run by other tests\"]");
            if line.contains(ignored) && !program {
                wrong.push(format!("{place}: a test that does not run"));
            }
            if undone.iter().any(|it| line.contains(it)) {
                wrong.push(format!("{place}: {}", line.trim()));
            }
        }
    }
    none(
        &wrong,
        "finish it or take it out; a test that needs what a machine lacks says so and returns",
    );
}

#[test]
fn no_module_of_a_suite_is_forgotten() {
    let mut wrong = vec![];
    for suite in SUITES {
        let files = repository::rust_files(suite);
        if files.is_empty() {
            continue;
        }
        let main = Path::new(suite).join("main.rs");
        let mut reached = BTreeSet::from([main.clone()]);
        let mut open = vec![main];
        while let Some(file) = open.pop() {
            for module in modules_of(&file) {
                if reached.insert(module.clone()) {
                    open.push(module);
                }
            }
        }
        let forgotten = files.iter().filter(|it| !reached.contains(*it));
        wrong.extend(forgotten.map(|it| it.display().to_string()));
    }
    none(
        &wrong,
        "add `mod NAME;` to the main.rs of the suite, else its tests never run",
    );
}

/// The files of the `mod name;` of a file, those that are there.
fn modules_of(file: &Path) -> Vec<PathBuf> {
    if !repository::top().join(file).is_file() {
        return vec![];
    }
    let folder = if file
        .file_stem()
        .is_some_and(|it| it == "main" || it == "mod")
    {
        file.parent().unwrap().to_owned()
    } else {
        file.with_extension("")
    };
    let text = repository::text(file).unwrap();
    text.lines()
        .filter_map(|it| {
            it.trim()
                .trim_start_matches("pub ")
                .strip_prefix("mod ")?
                .strip_suffix(';')
        })
        .flat_map(|name| {
            [
                folder.join(format!("{name}.rs")),
                folder.join(name).join("mod.rs"),
            ]
        })
        .filter(|it| repository::top().join(it).is_file())
        .collect()
}

#[test]
fn the_checks_find_what_they_look_for() {
    assert!(is_empty_name(Path::new("util.rs")) && is_empty_name(Path::new("helpers")));
    assert!(!is_empty_name(Path::new("utility_bill.rs")));
    assert_eq!(2, lines_before_tests("a\nb\n#[cfg(test)]\nmod tests {}\n"));
    let reached = modules_of(Path::new("tests/tidy/main.rs"));
    assert!(reached.contains(&PathBuf::from("tests/tidy/shape.rs")));
}
