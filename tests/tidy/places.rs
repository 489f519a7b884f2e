//! What may lie where: top-level entries, paths of somebody's machine, readers of the environment.

use std::collections::BTreeSet;
use std::path::Path;

use aish_testkit::repository;

use crate::{code, none};

/// All that lies at the top, dotfiles apart.
const TOP: &[&str] = &[
    "Cargo.toml",
    "Cargo.lock",
    "README.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "aish-proto",
    "aishd",
    "aishctl",
    "config",
    "docs",
    "systemd",
    "tests",
];

/// The one file of the daemon that reads the environment.
const DAEMON_ENV: &str = "aishd/config/src/environment_variables.rs";
/// The one of the suites.
const TESTS_ENV: &str = "tests/testkit/surroundings.rs";

#[test]
fn the_top_has_only_what_belongs_there() {
    let wrong: BTreeSet<String> = repository::files()
        .iter()
        .filter_map(|it| it.iter().next()?.to_str().map(str::to_owned))
        .filter(|it| !it.starts_with('.') && !TOP.contains(&it.as_str()))
        .collect();
    none(
        &wrong.into_iter().collect::<Vec<_>>(),
        "a new room needs a reason; put it into docs/, tests/, config/ or a package",
    );
}

#[test]
fn no_path_of_a_machine_is_written_down() {
    let mut wrong = vec![];
    for file in repository::files() {
        let Some(text) = repository::text(&file) else {
            continue;
        };
        for (at, line) in text.lines().enumerate() {
            if let Some(path) = machine_path(line) {
                wrong.push(format!("{}:{}: {path}", file.display(), at + 1));
            }
        }
    }
    none(
        &wrong,
        "say where it is by a variable or below the repository; in examples the person is u, in the home of u",
    );
}

/// The path of somebody's machine in a line, if there is one.
fn machine_path(line: &str) -> Option<&str> {
    let homes = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
    ];
    homes.iter().find_map(|home| {
        line.match_indices(home).find_map(|(at, _)| {
            let before = line[..at].chars().next_back();
            let is_part = before.is_some_and(|it| it.is_alphanumeric() || "_-./{}$*".contains(it));
            let rest = &line[at + home.len()..];
            let end = rest.find(|it: char| it.is_whitespace() || "\"'`),;:".contains(it));
            let path = &line[at..at + home.len() + end.unwrap_or(rest.len())];
            let example = *home == homes[2]
                && (rest == "u"
                    || rest.starts_with("u/")
                    || path.len() == home.len() + 1 && rest.starts_with('u'));
            (!is_part && !example).then_some(path)
        })
    })
}

#[test]
fn the_environment_is_read_in_one_place() {
    let mut wrong = vec![];
    let mut clients = BTreeSet::new();
    for file in repository::rust_files("") {
        let text = repository::text(&file).unwrap();
        for (at, line) in code(&text).iter().enumerate() {
            if !reads_environment(line) {
                continue;
            }
            if file.starts_with("aishctl") {
                clients.insert(file.display().to_string());
            } else if file != Path::new(DAEMON_ENV) && file != Path::new(TESTS_ENV) {
                wrong.push(format!("{}:{}", file.display(), at + 1));
            }
        }
    }
    if clients.len() > 1 {
        wrong.extend(clients);
    }
    none(
        &wrong,
        &format!(
            "the daemon reads variables in {DAEMON_ENV}, the clients in one file of aishctl, the tests in {TESTS_ENV}; everybody else is handed the value"
        ),
    );
}

fn reads_environment(line: &str) -> bool {
    // In two parts, so that this file does not find itself.
    ["var(", "var_os(", "vars(", "vars_os("]
        .iter()
        .any(|it| line.contains(&format!("env::{it}")))
}

#[test]
fn the_checks_find_what_they_look_for() {
    let home = concat!("/ho", "me/");
    let line = format!("cd {home}anna/aish && ls");
    assert_eq!(
        Some(format!("{home}anna/aish").as_str()),
        machine_path(&line)
    );
    assert_eq!(None, machine_path(&format!("in {home}u/proj")));
    assert_eq!(None, machine_path(&format!("`{home}u`")));
    assert!(machine_path(&format!("{home}user/proj")).is_some());
    assert_eq!(None, machine_path(concat!("target/wo", "rk/x")));
    assert!(reads_environment(concat!(
        "let x = std::env:",
        ":var_os(\"X\");"
    )));
    assert!(!reads_environment("env!(\"CARGO\")"));
}
