//! The corpus in tests/data/intents has two authors; the second had not seen the code.

use std::collections::BTreeMap;
use std::sync::Arc;

use aishd_log::access::Access;

use super::*;
use crate::log_samples::tool;

/// Right in so many of a hundred.
const RIGHT: usize = 95;

/// By the author of the code, and by somebody who had not seen it.
const LABELLED: [&str; 2] = [
    include_str!("../../../../tests/data/intents/first.tsv"),
    include_str!("../../../../tests/data/intents/second.tsv"),
];
const NAMES: &str = include_str!("../../../../tests/data/intents/catalog.txt");

fn catalog(names: &[&str]) -> Catalog {
    Catalog::new(names.iter().map(|it| Arc::new(tool(it, Access::Read))))
}

/// What it comes to, as the corpus writes it.
fn told(routing: &IntentDecision) -> String {
    match routing {
        IntentDecision::Found { tool, .. } => tool.to_string(),
        IntentDecision::Ambiguous(candidates) => {
            let mut names: Vec<String> = candidates.iter().map(|it| it.tool.to_string()).collect();
            names.sort();
            format!("? {}", names.join(", "))
        }
        IntentDecision::Unknown(_) => "-".to_owned(),
    }
}

#[test]
fn most_actions_of_the_corpus_go_where_people_say() {
    let catalog = catalog(&NAMES.lines().collect::<Vec<_>>());
    // Kind of label, and of what was said.
    let kind = |it: &str| match it.chars().next() {
        Some('?') => "ambiguous",
        Some('-') => "unknown",
        Some(_) | None => "one",
    };
    let mut table: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let (mut right, mut all, mut wrong) = (0, 0, vec![]);
    for line in LABELLED.iter().flat_map(|it| it.lines()) {
        let (action, label) = line.split_once('\t').unwrap();
        let routing = route(action, None, &catalog, &BTreeSet::new());
        let said = told(&routing);
        all += 1;
        right += usize::from(said == label);
        *table.entry((kind(label), kind(&said))).or_default() += 1;
        if said != label {
            wrong.push(format!("{action:?}: {label}, and was said to be {said}"));
        }
        if let Some(sure) = routing.sure() {
            assert_eq!(label, sure.to_string(), "{action:?} would run");
        }
    }
    println!(
        "{right} of {all} right; (label, said): {table:?}\n{}",
        wrong.join("\n")
    );
    assert!(all >= 300, "{all} labelled actions");
    assert!(right * 100 >= all * RIGHT, "{right} of {all}");
}

#[track_caller]
fn check(names: &[&str], action: &str, explicit: Option<&str>, used: &[&str], expected: &str) {
    let used = used.iter().map(|it| it.parse().unwrap()).collect();
    let routing = route(action, explicit, &catalog(names), &used);
    let said = match &routing {
        IntentDecision::Found {
            tool,
            confidence,
            reason,
            ..
        } => format!("{tool} {:.2}: {reason}", confidence.value()),
        IntentDecision::Unknown(near) => {
            let near: Vec<String> = near.iter().map(ToString::to_string).collect();
            format!("- {}", near.join(" "))
        }
        IntentDecision::Ambiguous(_) => told(&routing),
    };
    assert_eq!(expected, said, "{action}");
}

#[test]
fn what_was_named_is_taken() {
    let names = ["a__read", "b__read", "b__write"];
    check(&names, "read", Some("b"), &[], "b__read 1.00: it was named");
    check(
        &names,
        "anything",
        Some("a__read"),
        &[],
        "a__read 1.00: it was named",
    );
    check(&names, "b__write", None, &[], "b__write 1.00: it was named");
    check(&names, "write", Some("a"), &[], "- ");
    check(
        &names,
        "read",
        Some("bb"),
        &[],
        "- b__read a__read b__write",
    );
}

#[test]
fn one_of_a_name_is_sure_and_the_best_of_several_is_not() {
    let names = ["a__read", "b__read", "b__write"];
    check(
        &names,
        "write",
        None,
        &[],
        "b__write 1.00: the only capability of this name",
    );
    check(
        &names,
        "Write",
        None,
        &[],
        "b__write 1.00: the only capability of this name",
    );
    check(
        &names,
        "read",
        None,
        &["b"],
        "b__read 0.90: the likeliest of 2 of this name",
    );
    check(&names, "read", None, &["a", "b"], "? a__read, b__read");
    check(
        &names,
        "b read",
        None,
        &[],
        "b__read 1.00: the only capability of this name",
    );
}

#[test]
fn likeness_is_never_sure() {
    check(
        &["a__read_file"],
        "read",
        None,
        &[],
        "a__read_file 0.47: its name is like the action",
    );
    check(
        &["a__read_file"],
        "read the files please",
        None,
        &[],
        "a__read_file 0.70: its name is like the action",
    );
    check(
        &["a__read_file"],
        "show file",
        None,
        &[],
        "a__read_file 0.67: its name is like the action",
    );
    check(&["a__read_file"], "play music", None, &[], "- ");
    check(&[], "read", None, &[], "- ");
    check(&["a__read"], "", None, &[], "- ");
}
