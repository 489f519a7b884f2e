use std::collections::BTreeMap;

use super::*;
use crate::allowances::tests::allowed_by;
use crate::log_samples::tool;
use crate::tool_binding::Binding;

const MAX_2: &str = "deny: max_level of fs is 2 and the call needs 3";

/// Says what is decided about `fs__rm`, a tool that needs level 3, with these rules.
#[track_caller]
fn check(rules: &[&str], expected: &str) {
    assert_eq!(expected, decided(rules), "{rules:?}");
}

#[track_caller]
fn check_begins(rules: &[&str], expected: &str) {
    let said = decided(rules);
    assert!(said.starts_with(expected), "{rules:?}: {said}");
}

#[expect(clippy::too_many_lines, reason = "an arm for each kind of rule")]
fn decided(rules: &[&str]) -> String {
    let mut rm = tool("fs__rm", Access::Execute);
    if rules.contains(&"fetches") {
        rm.packages = ["rich>=13".to_owned(), "httpx".to_owned()].into();
    }
    let mut policy = Policy::default();
    let mut grants = GrantList::default();
    let mut turn = vec![];
    let mut clients = AllowanceList::default();
    let mut constraints = Constraints::default();
    let mut arguments = Map::new();
    let mut bound = BTreeMap::new();
    let mut deny = vec![];
    let who = |it: &str| {
        if it == "person" {
            BoundBy::Person
        } else {
            BoundBy::Rule
        }
    };
    let number = |it: &str| Access::from_number(it.parse().unwrap()).unwrap();
    for rule in rules {
        match rule.split(' ').collect::<Vec<_>>()[..] {
            ["deny", pattern] => deny.push(pattern.parse().unwrap()),
            ["auto", pattern] => {
                policy.auto_approve.insert(pattern.parse().unwrap(), true);
            }
            ["never-auto", pattern] => {
                policy.auto_approve.insert(pattern.parse().unwrap(), false);
            }
            ["turn", pattern] => turn.push(pattern.parse().unwrap()),
            ["client", pattern] => clients.set(allowed_by(1, &[pattern], None)),
            ["max", max] => {
                let (level, max_level) = (Access::Read, number(max));
                let rule = ProviderRule { level, max_level };
                policy.providers.insert("fs".parse().unwrap(), rule);
            }
            ["level", level] => {
                grants.levels.insert("fs".parse().unwrap(), number(level));
            }
            ["needs", level] => {
                policy.needs.insert(rm.name.clone(), number(level));
            }
            ["fetches"] => {}
            ["held"] => rm.reach = ToolReach::HeldReading,
            ["hosts"] => rm.reach = ToolReach::HeldHosts,
            ["changing"] => rm.reach = ToolReach::HeldChanging,
            ["reads-beyond"] => {}
            ["read-only"] => constraints.read_only = true,
            ["root", root] => constraints.roots.push(root.to_owned().try_into().unwrap()),
            ["path", path] => drop(arguments.insert("path".to_owned(), path.into())),
            ["always"] => {
                grants
                    .approved
                    .insert(rm.name.clone(), rm.definition_digest());
            }
            ["always-another"] => {
                grants
                    .approved
                    .insert(rm.name.clone(), ContentDigest([7; 32]));
            }
            ["bound", by] => {
                let digest = rm.definition_digest();
                bound.insert(
                    rm.name.clone(),
                    Binding {
                        digest,
                        by: who(by),
                    },
                );
            }
            ["bound-another", by] => {
                let digest = ContentDigest([8; 32]);
                bound.insert(
                    rm.name.clone(),
                    Binding {
                        digest,
                        by: who(by),
                    },
                );
            }
            _ => panic!("bad rule {rule}"),
        }
    }
    policy.deny = Patterns::new(deny);
    let question = PolicyQuestion {
        tool: &rm,
        arguments: &arguments,
        reads_beyond: rules.contains(&"reads-beyond"),
        constraints: &constraints,
        grants: &grants,
        turn: &Patterns::new(turn),
        clients: &clients,
        bound: &bound,
    };
    match decide(question, &policy) {
        PolicyDecision::Allow(rule) => format!("allow: {rule}"),
        PolicyDecision::Deny(rule) => format!("deny: {rule}"),
        PolicyDecision::Ask(why) => match why.raise_to() {
            None => format!("ask: {}", why.text(&rm.name)),
            Some(level) => format!("ask, raise to {}: {}", level.number(), why.text(&rm.name)),
        },
    }
}

/// What a program of ours only reads is no question, unless it lies elsewhere.
#[test]
fn reading_within_the_directories_is_not_asked_about() {
    let held = ["held", "needs 1"];
    check(&held, "allow: only reads, and is held to that");
    let beyond = ["held", "needs 1", "reads-beyond"];
    check(
        &beyond,
        "ask: it reads outside of the conversation's directories, or a file that is for keys",
    );
    let always = [&beyond[..], &["always"]].concat();
    check(&always, "allow: always, in this conversation");
    let denied = [&held[..], &["deny fs__*"]].concat();
    check(&denied, "deny: permissions.deny fs__*");
}

/// What it would change is seen before it is real, so no level has to be raised for it.
#[test]
fn a_change_that_is_shown_is_asked_about_whatever_the_level_is() {
    let shown = ["changing", "needs 2"];
    check(&shown, "ask: it changes files");
    let always = [&shown[..], &["always"]].concat();
    check(&always, "allow: always, in this conversation");
    let bounded = [&shown[..], &["max 1"]].concat();
    check(&bounded, "deny: max_level of fs is 1 and the call needs 2");
}

/// Enough level never means consent.
#[test]
fn a_call_is_asked_about_unless_a_person_said_otherwise() {
    let raise = "ask, raise to 3: Permission upgrade required for fs: level 1 → 3";
    check(&[], raise);
    check(
        &["level 2"],
        "ask, raise to 3: Permission upgrade required for fs: level 2 → 3",
    );
    check(&["level 3"], "ask: every call is asked about");
    check(&["needs 1"], "ask: every call is asked about");
    check(&["always"], raise);
    check(
        &["always", "level 3"],
        "allow: always, in this conversation",
    );
}

#[test]
fn an_approval_holds_for_what_was_approved() {
    check(
        &["always-another", "level 3"],
        "ask: the tool's definition changed since it was allowed",
    );
    check(
        &["always-another"],
        "ask, raise to 3: the tool's definition changed since it was allowed",
    );
    let changed = "ask: the tool's definition changed since it was allowed";
    for allows in ["turn fs__rm", "client fs__rm"] {
        check(&["always-another", "level 3", allows], changed);
        check(&["always-another", "level 3", allows, "max 2"], MAX_2);
    }
    check(&["always-another", "level 3", "auto fs__rm"], changed);
}

#[test]
fn whatever_lets_a_name_through_is_bound_to_the_first_definition_it_let_through() {
    let changed = "ask: the tool's definition changed since it was allowed";
    for (allows, let_through) in [
        ("auto fs__rm", "allow: mcp.auto_approve fs__rm"),
        ("auto fs__*", "allow: mcp.auto_approve fs__*"),
        ("turn fs__*", "allow: allowed for this turn fs__*"),
        ("client fs__*", "allow: allowed by pts/1, client "),
    ] {
        for by in ["rule", "person"] {
            check(
                &["level 3", allows, &format!("bound-another {by}")],
                changed,
            );
            check_begins(&["level 3", allows, &format!("bound {by}")], let_through);
        }
        // Here a person meant another one, and nobody has seen this since.
        check(
            &["level 3", allows, "always-another", "bound rule"],
            changed,
        );
        let seen = ["level 3", allows, "always-another", "bound person"];
        check_begins(&seen, let_through);
        check(&["bound-another rule", allows, "max 2"], MAX_2);
    }
    check(
        &["bound-another person", "always", "level 3"],
        "allow: always, in this conversation",
    );
    check(&["bound-another rule", "level 3"], changed);
}

#[test]
fn what_would_be_fetched_is_seen_before_any_allowance_counts() {
    let asks = "ask: it fetches packages, and is asked about until it is always allowed here: rich>=13, httpx";
    for allows in ["auto fs__rm", "auto fs__*", "turn fs__rm", "client fs__*"] {
        check(&["fetches", "level 3", allows], asks);
        check(&["fetches", "level 3", "always-another", allows], asks);
        check(
            &["fetches", "level 3", "deny fs__rm", allows],
            "deny: permissions.deny fs__rm",
        );
        check(&["fetches", "max 2", allows], MAX_2);
    }
    check(&["fetches", "level 3"], asks);
    check(&["fetches"], &asks.replace("ask:", "ask, raise to 3:"));
    check(
        &["fetches", "always", "level 3"],
        "allow: always, in this conversation",
    );
    check(
        &["fetches", "always", "auto fs__rm"],
        "allow: mcp.auto_approve fs__rm",
    );
}

/// What forbids goes before what allows, and what is exact before what covers more.
#[test]
fn what_denies_comes_before_what_allows() {
    check(
        &[
            "deny fs__*",
            "auto fs__rm",
            "always",
            "level 3",
            "turn fs__rm",
        ],
        "deny: permissions.deny fs__*",
    );
    check(
        &["deny fs__rm", "deny fs__*"],
        "deny: permissions.deny fs__rm",
    );
    check(&["max 2", "auto fs__rm"], MAX_2);
    check(
        &["max 2", "needs 2", "auto fs__*"],
        "allow: mcp.auto_approve fs__*",
    );
}

/// After the deny rules, before everything that allows; unknown means ask.
#[test]
fn what_a_conversation_keeps_itself_from_is_denied() {
    let allowed = ["auto fs__rm", "turn fs__*", "client fs__*", "always"];
    let with = |more: &[&'static str]| [more, &allowed].concat();
    let reads = "deny: this conversation only reads, and the call needs level 3";
    check(&with(&["read-only"]), reads);
    check(&with(&["read-only", "max 2"]), reads);
    check(
        &with(&["read-only", "deny fs__*"]),
        "deny: permissions.deny fs__*",
    );
    check(
        &with(&["read-only", "needs 1"]),
        "allow: mcp.auto_approve fs__rm",
    );
    check(
        &with(&["root /srv", "needs 2", "path /srv/a"]),
        "allow: mcp.auto_approve fs__rm",
    );
    check(
        &with(&["root /srv", "needs 2", "path /etc/a"]),
        "deny: \"/etc/a\" is outside of the directories of this conversation",
    );
    check(
        &with(&["root /srv", "needs 2", "path a"]),
        "ask, raise to 2: where \"a\" leads is not known, and paths are kept to the conversation's directories",
    );
    check(
        &with(&["root /srv", "level 3", "path /srv/a"]),
        "ask: a call of level 3 may go beyond the conversation's directories",
    );
    check(&with(&["root /srv", "max 2"]), MAX_2);
}

/// Auto-approve grants the level for that call.
#[test]
fn what_is_approved_beforehand_runs_unasked() {
    check(&["auto fs__rm"], "allow: mcp.auto_approve fs__rm");
    check(&["auto fs__*"], "allow: mcp.auto_approve fs__*");
    check(&["turn fs__*"], "allow: allowed for this turn fs__*");
    check(
        &["client fs__rm"],
        "allow: allowed by pts/1, client 01040G2081040G2081040G2081: fs__rm",
    );
    let asked = "ask, raise to 3: Permission upgrade required for fs: level 1 → 3";
    check(&["auto fs__*", "never-auto fs__rm"], asked);
    check(
        &["auto fs__r", "auto f__rm", "deny fs__rmdir", "turn fsx__*"],
        asked,
    );
}

#[test]
fn a_rule_is_a_name_or_a_whole_provider() {
    for (text, good) in [
        ("fs__read", true),
        ("fs__*", true),
        ("fs__a.b", true),
        ("*", false),
        ("fs__", false),
        ("fs_*", false),
        ("fs__r*", false),
        ("*__read", false),
        ("fs.*", false),
        ("fs__*__*", false),
    ] {
        let pattern = text.parse::<Pattern>();
        assert_eq!(good, pattern.is_ok(), "{text}");
        if let Ok(pattern) = pattern {
            assert_eq!(text, pattern.to_string());
        }
    }
}

/// Whatever is added to what allows, a denial stays one; and nothing but what speaks of the tool changes anything.
#[test]
fn ten_thousand_rules_about_others_decide_nothing() {
    let rm = tool("fs__rm", Access::Execute);
    let others = (0..10_000).map(|it| format!("p{it}__*").parse().unwrap());
    let patterns = Patterns::new(others.collect::<Vec<_>>());
    let policy = Policy {
        auto_approve: patterns.iter().cloned().map(|it| (it, true)).collect(),
        deny: patterns.clone(),
        ..Policy::default()
    };
    let mut clients = AllowanceList::default();
    let mut many = allowed_by(1, &[], None);
    many.patterns = patterns.clone();
    clients.set(many);
    let question = PolicyQuestion {
        tool: &rm,
        arguments: &Map::new(),
        reads_beyond: false,
        constraints: &Constraints::default(),
        grants: &GrantList::default(),
        turn: &patterns,
        clients: &clients,
        bound: &BTreeMap::new(),
    };
    let asked = AskReason::Level {
        has: Access::Read,
        needs: Access::Execute,
    };
    assert_eq!(PolicyDecision::Ask(asked), decide(question, &policy));
}
