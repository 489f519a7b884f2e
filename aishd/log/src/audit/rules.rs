//! From some rules to others.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::tool::ContentDigest;

/// As many rules of a change are named; the digest is of all of them.
const MOST_RULES: usize = 100;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleChange {
    /// Of all rules that are in force now, a line each, in order.
    pub digest: ContentDigest,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
    /// So many more than are named.
    #[serde(default)]
    pub unnamed: u64,
}

impl RuleChange {
    pub fn between(before: &BTreeSet<String>, now: &BTreeSet<String>) -> Self {
        let named = |it: std::collections::btree_set::Difference<'_, String>| {
            it.take(MOST_RULES).cloned().collect::<Vec<_>>()
        };
        let added = named(now.difference(before));
        let removed = named(before.difference(now));
        let all = now.symmetric_difference(before).count();
        let lines: Vec<&str> = now.iter().map(String::as_str).collect();
        Self {
            digest: ContentDigest::of(lines.join("\n").as_bytes()),
            unnamed: (all - added.len() - removed.len()) as u64,
            added,
            removed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &[&str], now: &[&str], added: &[&str], removed: &[&str]) {
        let set = |it: &[&str]| it.iter().map(|it| (*it).to_owned()).collect();
        let change = RuleChange::between(&set(before), &set(now));
        assert_eq!(
            (added, removed),
            (
                &change.added.iter().map(String::as_str).collect::<Vec<_>>()[..],
                &change
                    .removed
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()[..]
            )
        );
        assert_eq!(0, change.unnamed);
    }

    #[test]
    fn a_change_of_rules_says_which_came_and_which_went() {
        check(&[], &["a"], &["a"], &[]);
        check(&["a", "b"], &["b", "c"], &["c"], &["a"]);
        check(&["a"], &["a"], &[], &[]);
    }

    #[test]
    fn ten_thousand_rules_make_no_long_record() {
        let many: BTreeSet<String> = (0..10_000).map(|it| format!("rule {it}")).collect();
        let change = RuleChange::between(&BTreeSet::new(), &many);
        assert_eq!((MOST_RULES, 9_900), (change.added.len(), change.unnamed));
    }
}
