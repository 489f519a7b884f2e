//! What may run unasked, what never may, and how long a question waits: `[permissions]`, `[mcp.auto_approve]` and
//! `[tools]` of the configuration.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use crate::core::access::Access;
use crate::core::policy::{Pattern, Patterns, Policy, ProviderRule};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Permissions {
    /// Never run: exact names, or `alias__*`.
    #[serde(default)]
    pub deny: Vec<String>,
    /// How long a confirm waits while nobody is attached.
    pub confirm_timeout: Option<String>,
    /// Levels of providers.
    #[serde(default)]
    pub tools: BTreeMap<String, Provider>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    pub level: Option<u8>,
    pub max_level: Option<u8>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// Whether models are offered the daemon's own tools.
    pub builtin: Option<bool>,
}

/// The rules; what is wrong is added to `faults`, and nothing is taken from a file that has any.
pub fn policy(
    permissions: &Permissions,
    auto_approve: &BTreeMap<String, bool>,
    tools: &Tools,
    faults: &mut Vec<String>,
) -> Policy {
    let mut policy = Policy::default();
    let mut pattern = |place: &str, text: &str| match text.parse::<Pattern>() {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            faults.push(format!(
                "{place}: {error}; a rule is a name like fs__read_file, or a whole provider like fs__*"
            ));
            None
        }
    };
    let deny = permissions
        .deny
        .iter()
        .filter_map(|it| pattern("permissions.deny", it));
    policy.deny = Patterns::new(deny.collect::<Vec<_>>());
    for (text, approves) in auto_approve {
        if let Some(pattern) = pattern("mcp.auto_approve", text) {
            policy.auto_approve.insert(pattern, *approves);
        }
    }
    policy.builtin_tools = tools.builtin.unwrap_or_default();
    for (name, provider) in &permissions.tools {
        let alias = match name.parse() {
            Ok(alias) => alias,
            Err(error) => {
                faults.push(format!("permissions.tools: {error}"));
                continue;
            }
        };
        let mut level = |key: &str, said: Option<u8>, default| {
            match said {
            None => default,
            Some(number) => Access::from_number(number).unwrap_or_else(|| {
                faults.push(format!(
                    "permissions.tools.{name}.{key}: there is no level {number}; levels are 1 read, 2 write, 3 execute"
                ));
                default
            }),
        }
        };
        let max_level = level("max_level", provider.max_level, Access::Execute);
        let level = level("level", provider.level, Access::Read);
        if level > max_level {
            faults.push(format!(
                "permissions.tools.{name}: level {} is above max_level {}",
                level.number(),
                max_level.number()
            ));
        }
        policy
            .providers
            .insert(alias, ProviderRule { level, max_level });
    }
    if let Some(text) = &permissions.confirm_timeout {
        match humantime::parse_duration(text) {
            Ok(time) if time >= Duration::from_secs(1) => {
                policy.unattended_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            }
            Ok(_) => faults.push("permissions.confirm_timeout is at least 1s".to_owned()),
            Err(error) => faults.push(format!("permissions.confirm_timeout: {error}")),
        }
    }
    policy
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::file::File;

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let file: File = toml::from_str(text).unwrap();
        let mut faults = vec![];
        policy(
            &file.permissions,
            &file.mcp.auto_approve,
            &file.tools,
            &mut faults,
        );
        assert_eq!(expected, faults, "{text}");
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
                "mcp.auto_approve: \"fs__r*\" is no alias and tool with \"__\" between them{form}"
            )],
        );
        check(
            "[permissions]\ndeny = [\"*\"]\n",
            &[&format!(
                "permissions.deny: \"*\" is no alias and tool with \"__\" between them{form}"
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
            &["permissions.tools.fs: level 3 is above max_level 2"],
        );
        check(
            "[permissions.tools]\nfs = { level = 9 }\n",
            &[
                "permissions.tools.fs.level: there is no level 9; levels are 1 read, 2 write, 3 execute",
            ],
        );
    }
}
