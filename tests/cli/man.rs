//! The pages of the manual and the help: every command has its own, and groff reads each without a warning.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use aish_testkit::World;

const GROFF: &str = "/usr/bin/groff";

/// The commands below this one by its help, as the names of their pages.
fn pages_below(world: &World, words: &[&str], pages: &mut BTreeSet<String>) {
    let help = world.ctl(&[words, &["-h"]].concat()).run().ok();
    pages.insert(format!("{}.1", [&["aishctl"], words].concat().join("-")));
    let lines = help.out().lines();
    let heading = |it: &&str| it.ends_with(':') && !it.starts_with(' ');
    let is_top = words.is_empty();
    let mut inside = false;
    for line in lines {
        if heading(&line) {
            inside = line == "Commands:" || (is_top && line != "Global options:");
            continue;
        }
        let name = line
            .strip_prefix("  ")
            .filter(|it| inside && it.starts_with(char::is_lowercase));
        if let Some(name) = name
            .and_then(|it| it.split(' ').next())
            .filter(|it| *it != "help" || is_top)
        {
            pages_below(world, &[words, &[name]].concat(), pages);
        }
    }
}

#[test]
fn every_command_has_its_page_and_groff_has_nothing_to_say() {
    let world = World::new();
    let directory = world.path("share/man/man1");
    let written = world
        .ctl(&["man", "--dir", directory.to_str().unwrap()])
        .run()
        .ok();
    let found: BTreeSet<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|it| it.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        written
            .out()
            .starts_with(&format!("{} pages in ", found.len())),
        "{}",
        written.out()
    );
    let mut expected = BTreeSet::from(["aish.1".to_owned()]);
    pages_below(&world, &[], &mut expected);
    assert!(expected.len() > 100, "{expected:?}");
    assert_eq!(expected, found);

    let first = fs::read_to_string(directory.join("aishctl.1")).unwrap();
    for part in [
        "EXIT STATUS",
        "the budget is used up",
        "ENVIRONMENT",
        "AISH_CONVERSATION",
    ] {
        assert!(first.contains(part), "{part}");
    }
    let ask = fs::read_to_string(directory.join("aishctl-ask.1")).unwrap();
    assert!(ask.contains("git diff | aishctl ask review this"), "{ask}");
    assert!(!ask.contains("jsonl"), "{ask}");

    if !Path::new(GROFF).exists() {
        println!("skipped: there is no {GROFF}");
        return;
    }
    let mut arguments = vec![
        "-man".to_owned(),
        "-Tutf8".to_owned(),
        "-ww".to_owned(),
        "-z".to_owned(),
    ];
    arguments.extend(
        found
            .iter()
            .map(|it| directory.join(it).display().to_string()),
    );
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let read = world.program(Path::new(GROFF), &arguments).run().ok();
    assert_eq!("", read.err());
}

#[test]
fn what_is_for_scripts_and_packages_is_not_in_the_help() {
    let world = World::new();
    let help = world.ctl(&["--help"]).run().ok();
    for hidden in ["\n  complete ", "\n  man "] {
        assert!(!help.out().contains(hidden), "{}", help.out());
    }
    assert!(help.out().contains("\nAsking:\n  ask "), "{}", help.out());
    // Without a terminal, and without a command, it is the same.
    assert_eq!(help.out(), world.ctl(&[]).run().ok().out());
    assert_eq!(help.out(), world.ctl(&["help"]).run().ok().out());
    let ask = world.ctl(&["ask", "-h"]).run().ok();
    let [options, global, examples] =
        ["Options:", "Global options:", "Examples:"].map(|it| ask.out().find(it).unwrap());
    assert!(options < global && global < examples, "{}", ask.out());
}
