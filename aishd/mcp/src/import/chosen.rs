//! Which tools of a server another program has at all, as `tools` and `without_tools` of its table: the lists of an entry, and
//! rules that hide what they deny.

use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::chosen_tools::{ServerToolChoice, fits};
use serde_json::{Map, Value};

use super::tool_rules::{RuleAction, ToolRule, covers, is_wild, overlaps};

const MAX_SHOWN_CHARS: usize = 120;

/// What a list that is empty means there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EmptyList {
    All,
    NoTool,
}

/// The keys of an entry, by what they do there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ListKeys<'a> {
    /// These tools and no others.
    pub(super) only: &'a [&'a str],
    /// All but these; it goes before the other.
    pub(super) without: &'a [&'a str],
    pub(super) empty: EmptyList,
}

/// Takes these keys out of an entry. Signs of names mean themselves there, so that one with a star is told and left out.
pub(super) fn listed(
    fields: &mut Map<String, Value>,
    keys: ListKeys<'_>,
    remarks: &mut Vec<String>,
) -> ServerToolChoice {
    let mut taken = |keys: &[&str]| -> Option<Vec<String>> {
        let mut all: Option<Vec<String>> = None;
        for key in keys {
            if fields.get(*key).is_some_and(Value::is_array) {
                let named = fields.remove(*key).unwrap_or_default();
                let named = named.as_array().into_iter().flatten();
                let named = named.filter_map(Value::as_str).map(without_arguments);
                all.get_or_insert_default().extend(named.map(str::to_owned));
            }
        }
        all
    };
    let only = taken(keys.only);
    let without = taken(keys.without).unwrap_or_default();
    let is_all = only.as_ref().is_none_or(|it| {
        it.iter().any(|it| it == "*") || (it.is_empty() && keys.empty == EmptyList::All)
    });
    let mut plain = |names: Vec<String>| -> Vec<String> {
        let (wild, plain): (Vec<_>, Vec<_>) = names.into_iter().partition(|it| it.contains('*'));
        remarks.extend(wild.iter().map(|it| {
            let name = one_line(it, MAX_SHOWN_CHARS);
            format!("{name:?} is no name of a tool here")
        }));
        plain
    };
    let only = only.filter(|_| !is_all).map(&mut plain);
    ServerToolChoice::new(only, plain(without))
}

/// `name(pattern)` is a tool with some arguments only; here it is the tool.
fn without_arguments(name: &str) -> &str {
    match name.split_once('(') {
        Some((tool, _)) if !tool.is_empty() => tool,
        Some(_) | None => name,
    }
}

/// What rules leave of a server that hide what they deny, the last that fits counting; `None`: that cannot be said exactly.
pub(super) fn ruled(rules: &[ToolRule], prefix: &str) -> Option<ServerToolChoice> {
    let mut only: Option<Vec<String>> = None;
    let mut without: Vec<String> = vec![];
    for rule in rules {
        let is_there = rule.action != RuleAction::Deny;
        let part = match part(&rule.pattern, prefix) {
            RulePart::Other => continue,
            RulePart::Unclear if is_there && only.is_none() && without.is_empty() => continue,
            RulePart::Unclear => return None,
            RulePart::Names(part) => part,
        };
        match (part, is_there) {
            ("*", _) => (only, without) = ((!is_there).then(Vec::new), vec![]),
            (part, false) => {
                if let Some(only) = &mut only {
                    only.retain(|it| !fits(part, it));
                }
                let is_new = !without.iter().any(|it| it == part);
                if is_new && only.as_ref().is_none_or(|it| !it.is_empty()) {
                    without.push(part.to_owned());
                }
            }
            (part, true) => {
                without.retain(|it| !fits(part, it));
                if without.iter().any(|it| meet(it, part)) {
                    return None;
                }
                if let Some(only) = &mut only {
                    only.push(part.to_owned());
                }
            }
        }
    }
    Some(ServerToolChoice::new(only, without))
}

/// What a rule says of one server's tools.
enum RulePart<'a> {
    Other,
    /// Names behind the prefix, in which `*` is any text.
    Names(&'a str),
    Unclear,
}

fn part<'a>(pattern: &'a str, prefix: &str) -> RulePart<'a> {
    if covers(pattern, prefix) {
        return RulePart::Names("*");
    }
    match pattern.strip_prefix(prefix) {
        Some("") => RulePart::Other,
        Some(part) if part.contains('?') => RulePart::Unclear,
        Some(part) => RulePart::Names(part),
        None if is_wild(pattern) && overlaps(pattern, prefix) => RulePart::Unclear,
        None => RulePart::Other,
    }
}

/// Whether a name may be as both say.
fn meet(one: &str, other: &str) -> bool {
    let head = |it: &str| it.split('*').next().unwrap_or_default().to_owned();
    match (is_wild(one), is_wild(other)) {
        (_, false) => fits(one, other),
        (false, true) => fits(other, one),
        (true, true) => {
            let (one, other) = (head(one), head(other));
            one.starts_with(&other) || other.starts_with(&one)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(rules: &[(&str, RuleAction)], expected: Option<(Option<&[&str]>, &[&str])>) {
        let rules = ToolRule::all(rules);
        let list = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let expected =
            expected.map(|(only, without)| ServerToolChoice::new(only.map(list), list(without)));
        assert_eq!(expected, ruled(&rules, "git_"), "{rules:?}");
    }

    #[test]
    fn rules_that_hide_are_lists() {
        use RuleAction::{Allow, Ask, Deny};
        check(&[], Some((None, &[])));
        check(
            &[("git_*", Deny), ("git_log", Allow)],
            Some((Some(&["log"]), &[])),
        );
        check(
            &[("git_*", Deny), ("git_read_*", Ask), ("git_read_all", Deny)],
            Some((Some(&["read_*"]), &["read_all"])),
        );
        check(
            &[("git_rm", Deny), ("git_push*", Deny)],
            Some((None, &["rm", "push*"])),
        );
        check(&[("git_rm", Deny), ("*", Ask)], Some((None, &[])));
        check(&[("git_log", Allow), ("*", Deny)], Some((Some(&[]), &[])));
        check(
            &[("web_*", Deny), ("web", Deny), ("bash", Deny)],
            Some((None, &[])),
        );
        // An exception from what is left out has no form here, and neither has any other part of a name.
        check(&[("git_p*", Deny), ("git_push", Allow)], None);
        check(&[("*_rm", Deny)], None);
        check(&[("git_?og", Deny)], None);
    }

    #[test]
    fn lists_of_an_entry_are_lists() {
        let keys = |empty| ListKeys {
            only: &["enabled_tools", "tools"],
            without: &["disabled_tools"],
            empty,
        };
        let taken = |entry: &Value, empty| {
            let (mut fields, mut remarks) = (entry.as_object().unwrap().clone(), vec![]);
            let chosen = listed(&mut fields, keys(empty), &mut remarks);
            (chosen, fields.len(), remarks)
        };
        let list = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
        let (chosen, left, remarks) = taken(
            &json!({"enabled_tools": ["a", "b*", "c(x)"], "disabled_tools": ["d"], "tools": {}}),
            EmptyList::NoTool,
        );
        assert_eq!(
            ServerToolChoice::new(Some(list(&["a", "c"])), list(&["d"])),
            chosen
        );
        assert_eq!(
            (1, list(&["\"b*\" is no name of a tool here"])),
            (left, remarks)
        );
        let none = json!({"tools": []});
        assert!(taken(&none, EmptyList::All).0.is_all());
        let nothing = ServerToolChoice::new(Some(vec![]), vec![]);
        assert_eq!(nothing, taken(&none, EmptyList::NoTool).0);
        assert!(
            taken(&json!({"tools": ["*"]}), EmptyList::NoTool)
                .0
                .is_all()
        );
    }
}
