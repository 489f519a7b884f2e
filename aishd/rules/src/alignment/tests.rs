use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::intent::route;
use crate::log_samples::tool;
use crate::policy::ProviderRule;

const PROVIDERS: [&str; 3] = ["aish", "data-tool", "server"];

fn catalog() -> Catalog {
    let tools = PROVIDERS.iter().flat_map(|provider| {
        let read = tool(&format!("{provider}__read"), Access::Read);
        let write = tool(&format!("{provider}__write"), Access::Write);
        [Arc::new(read), Arc::new(write)]
    });
    Catalog::new(tools)
}

#[track_caller]
fn check(policy: &Policy, action: &str, provider: Option<&str>, expected: &ActionVerdict) {
    let catalog = catalog();
    let routing = route(action, provider, &catalog, &BTreeSet::new());
    let standing = AlignmentContext {
        policy,
        grants: &GrantList::default(),
        constraints: &Constraints::default(),
    };
    let arguments = json!({}).as_object().cloned().unwrap();
    let alignment = ActionVerdict::of(&routing, &arguments, &catalog, standing);
    assert_eq!(*expected, alignment, "{action} of {provider:?}");
}

fn contradiction(reason: &str) -> ActionVerdict {
    ActionVerdict::Contradiction {
        reason: reason.to_owned(),
        told: reason.to_owned(),
    }
}

#[test]
fn every_provider_is_judged_by_the_same_rules() {
    for provider in PROVIDERS {
        let named = Some(provider);
        let open = Policy::default();
        check(&open, "write", named, &ActionVerdict::Aligned);
        let rule = format!("{provider}__write");
        let denying = Policy {
            deny: Patterns::new([rule.parse().unwrap()]),
            ..Policy::default()
        };
        let reason = format!("permissions.deny {rule}");
        check(&denying, "write", named, &contradiction(&reason));
        check(&denying, "read", named, &ActionVerdict::Aligned);
        let limit = ProviderRule {
            level: Access::Read,
            max_level: Access::Read,
        };
        let limited = Policy {
            providers: HashMap::from([(provider.parse().unwrap(), limit)]),
            ..Policy::default()
        };
        let reason = format!("max_level of {provider} is 1 and the call needs 2");
        check(&limited, "write", named, &contradiction(&reason));
        check(&limited, "read", named, &ActionVerdict::Aligned);
    }
}

#[test]
fn what_is_not_sure_is_against_no_rule_and_for_none() {
    let denying = Policy {
        deny: Patterns::new(PROVIDERS.map(|it| format!("{it}__*").parse().unwrap())),
        ..Policy::default()
    };
    check(&denying, "write", None, &ActionVerdict::Unknown);
    check(&denying, "brew tea", None, &ActionVerdict::Unknown);
}

#[test]
fn a_level_above_the_highest_contradicts() {
    let provider: Alias = "data-tool".parse().unwrap();
    let limit = ProviderRule {
        level: Access::Read,
        max_level: Access::Write,
    };
    let policy = Policy {
        providers: HashMap::from([(provider.clone(), limit)]),
        ..Policy::default()
    };
    let of = |to| ActionVerdict::of_level(&provider, to, &policy);
    assert_eq!(ActionVerdict::Aligned, of(Access::Write));
    let reason = contradiction("max_level of data-tool is 2");
    assert_eq!(reason, of(Access::Execute));
    let free = ActionVerdict::of_level(&provider, Access::Execute, &Policy::default());
    assert_eq!(ActionVerdict::Aligned, free);
}
