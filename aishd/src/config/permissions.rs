//! What may run unasked, what never may, and how long a question waits: `[permissions]`, `[mcp.auto_approve]` and
//! `[tools]` (AUT-1, AUT-2, PRM-1).

use std::time::Duration;

use super::fault::Fault;
use super::keys::Provider;
use super::layers::Stack;
use super::settings::said;
use super::source::Place;
use super::table::{Leaf, join};
use super::value::Whole;
use crate::core::access::Access;
use crate::core::policy::{Pattern, Patterns, Policy, ProviderRule};
use crate::core::tool_name::Alias;

/// A shorter one would be over before anybody could read the question.
const SHORTEST: Duration = Duration::from_secs(1);

/// The rules; faults are added to the others.
pub(super) fn policy(stack: &Stack, faults: &mut Vec<Fault>) -> Policy {
    let file = &stack.file;
    let mut policy = Policy::default();
    if let Some(deny) = &file.permissions.deny {
        let rules = deny.value.iter();
        let rules = rules.filter_map(|it| rule("permissions.deny", it, Some(&deny.place), faults));
        policy.deny = Patterns::new(rules.collect::<Vec<_>>());
    }
    for (text, approves) in &file.mcp.auto_approve {
        let Some(approves) = approves else { continue };
        let name = stack.names.get(&join("mcp.auto_approve", text));
        if let Some(rule) = rule("mcp.auto_approve", text, name, faults) {
            policy.auto_approve.insert(rule, approves.value);
        }
    }
    policy.builtin_tools = said(&file.tools.builtin).unwrap_or_default();
    for (name, provider) in &file.permissions.tools {
        let path = join("permissions.tools", name);
        if let Some((alias, rule)) = provider_rule(&path, name, provider, stack, faults) {
            policy.providers.insert(alias, rule);
        }
    }
    if let Some(timeout) = &file.permissions.confirm_timeout {
        let time = timeout.value.value;
        if time < SHORTEST {
            let message = "`permissions.confirm_timeout`: expected at least 1s";
            faults.push(Fault::error(&timeout.place, message));
        }
        policy.unattended_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    }
    policy
}

fn rule(key: &str, text: &str, place: Option<&Place>, faults: &mut Vec<Fault>) -> Option<Pattern> {
    text.parse()
        .map_err(|error| {
            if let Some(place) = place {
                let help = "a rule is a name like fs__read_file, or a whole provider like fs__*";
                faults.push(Fault::error(place, format!("`{key}`: {error}")).help(help));
            }
        })
        .ok()
}

fn provider_rule(
    path: &str,
    name: &str,
    provider: &Provider,
    stack: &Stack,
    faults: &mut Vec<Fault>,
) -> Option<(Alias, ProviderRule)> {
    let alias = name.parse::<Alias>().map_err(|error| {
        if let Some(place) = stack.names.get(path) {
            faults.push(Fault::error(place, format!("`{path}`: {error}")));
        }
    });
    let max_level = level(&provider.max_level).unwrap_or(Access::Execute);
    // What nobody said is no higher than what somebody allowed at most.
    let begins = level(&provider.level).unwrap_or(Access::Read);
    if let Some(place) = provider.level.as_ref().map(|it| &it.place)
        && begins > max_level
    {
        let message = format!(
            "`{path}`: level {} is above max_level {}",
            begins.number(),
            max_level.number()
        );
        faults.push(Fault::error(place, message));
    }
    Some((
        alias.ok()?,
        ProviderRule {
            level: begins,
            max_level,
        },
    ))
}

fn level(leaf: &Leaf<Whole<1, 3>>) -> Option<Access> {
    let number = leaf.as_ref()?.value.0;
    Access::from_number(u8::try_from(number).ok()?)
}

#[cfg(test)]
mod tests {
    use super::super::layers::{Layers, Where};
    use super::super::source::{Access as Readers, Origin, Source};
    use super::*;

    fn read(text: &str) -> (Policy, Vec<String>) {
        let origin = Origin::File("config.toml".into());
        let source = Source::new(origin, Readers::Private, text.to_owned());
        let layers = Layers::read_with(&Where::default(), source);
        let mut faults = layers.faults.clone();
        let policy = policy(&layers.whole(), &mut faults);
        (policy, faults.iter().map(Fault::line).collect())
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        assert_eq!(expected, read(text).1, "{text}");
    }

    #[test]
    fn a_rule_that_would_say_more_than_it_shows_is_refused() {
        check(
            "[permissions]\ndeny = [\"fs__rm\", \"web__*\"]\n[mcp.auto_approve]\n\"fs__read\" = true\n",
            &[],
        );
        let form = "; a rule is a name like fs__read_file, or a whole provider like fs__*";
        check(
            "[mcp.auto_approve]\n\"fs__r*\" = true\n",
            &[&format!(
                "config.toml:2:1: `mcp.auto_approve`: \"fs__r*\" is no tool and no whole provider{form}"
            )],
        );
        check(
            "[permissions]\ndeny = [\"*\"]\n",
            &[&format!(
                "config.toml:2:8: `permissions.deny`: \"*\" is no tool and no whole provider{form}"
            )],
        );
    }

    #[test]
    fn levels_are_one_to_three_and_in_order() {
        check(
            "[permissions.tools]\nfs = { level = 2, max_level = 3 }\n",
            &[],
        );
        check(
            "[permissions.tools]\nfs = { level = 3, max_level = 2 }\n",
            &["config.toml:2:16: `permissions.tools.fs`: level 3 is above max_level 2"],
        );
        check(
            "[permissions.tools]\nfs = { level = 9 }\n",
            &["config.toml:2:16: `permissions.tools.fs.level`: expected a number from 1 to 3"],
        );
        check(
            "[permissions]\nconfirm_timeout = \"10ms\"\n",
            &["config.toml:2:19: `permissions.confirm_timeout`: expected at least 1s"],
        );
    }

    #[test]
    fn nothing_said_is_what_the_defaults_say() {
        let (policy, faults) = read("");
        assert_eq!((Policy::default(), vec![]), (policy, faults));
    }
}
