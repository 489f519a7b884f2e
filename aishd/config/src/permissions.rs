//! What may run unasked, what never may, and how long a question waits: `[permissions]`, `[mcp.auto_approve]` and
//! `[tools]`.

use std::time::Duration;

use aishd_log::access::Access;
use aishd_log::pattern::{Pattern, Patterns};
use aishd_log::shell;
use aishd_log::tool_name::{Alias, OWN_PROVIDERS, ToolName};
use aishd_rules::policy::{ClientGrant, OnSilence, Policy, ProviderRule};

use super::fault::Fault;
use super::keys::Provider;
use super::layers::LayerStack;
use super::source::{ConfigOrigin, SourcePlace};
use super::table_reader::{KeyLeaf, join, nearest};
use super::value::{Client, OnTimeout, WholeNumber};
use crate::key_values::{time, value_of};

/// A shorter one would be over before anybody could read the question.
const SHORTEST: Duration = Duration::from_secs(1);

/// The rules; faults are added to the others.
pub(super) fn policy(stack: &LayerStack, faults: &mut Vec<Fault>) -> Policy {
    let file = &stack.file;
    let mut policy = Policy::default();
    let denied = file.permissions.deny.iter();
    let denied = denied.filter_map(|(it, place)| rule("permissions.deny", it, Some(place), faults));
    policy.deny = Patterns::new(denied.collect::<Vec<_>>());
    for (text, approves) in &file.mcp.auto_approve {
        let Some(approves) = approves else { continue };
        let name = stack.names.get(&join("mcp.auto_approve", text));
        if let Some(rule) = rule("mcp.auto_approve", text, name, faults) {
            if approves.value && rule.provider().as_str() == shell::PROVIDER {
                let message =
                    format!("`mcp.auto_approve`: {rule} would let text of a model run unread");
                let help = "commands are allowed by their exact text only; shell.confirm = false lets all of them run";
                faults.extend(name.map(|it| Fault::error(it, message).help(help)));
            }
            policy.auto_approve.insert(rule, approves.value);
        }
    }
    for (text, needed) in &file.permissions.needs {
        let Some(needed) = level(needed) else {
            continue;
        };
        let path = join("permissions.needs", text);
        match text.parse::<ToolName>() {
            Ok(name) if !name.tool().contains('*') => drop(policy.needs.insert(name, needed)),
            Ok(_) | Err(_) => {
                if let Some(place) = stack.names.get(&path) {
                    let message = format!("`permissions.needs`: {text:?} is no tool");
                    let help = "the level is of one tool, by its exact name like fs__read_file";
                    faults.push(Fault::error(place, message).help(help));
                }
            }
        }
    }
    policy.builtin_tools = value_of(&file.tools.builtin).unwrap_or_default();
    policy.file_tools = value_of(&file.tools.files).unwrap_or(true);
    policy.web_tools = value_of(&file.tools.web).unwrap_or(true);
    policy.todo_tools = value_of(&file.tools.todo).unwrap_or(true);
    policy.default_level = level(&file.permissions.default_level).unwrap_or_default();
    policy.silence = match value_of(&file.permissions.on_timeout) {
        Some(OnTimeout::Wait) => OnSilence::Waits,
        Some(OnTimeout::Deny) | None => OnSilence::Denies,
    };
    calls(stack, &mut policy);
    policy.shell = super::shell::rules(stack, faults);
    policy.hosts = super::held_programs::hosts("contain.hosts", &file.contain.hosts, None, faults);
    policy.host_wait_ms =
        u64::try_from(time(&file.contain.hosts_timeout).as_millis()).unwrap_or(u64::MAX);
    for (name, provider) in &file.permissions.tools {
        let path = join("permissions.tools", name);
        if let Some((alias, rule)) = provider_rule(&path, name, provider, stack, faults) {
            policy.providers.insert(alias, rule);
        }
    }
    for (name, granted) in &file.permissions.clients {
        let path = join("permissions.clients", name);
        let Some(granted) = granted else { continue };
        let Some(alias) = alias(&path, name, stack, faults) else {
            continue;
        };
        let granted = match granted.value {
            Client::Read => ClientGrant::Read,
            Client::Ask => ClientGrant::Ask,
        };
        policy.clients.insert(alias, granted);
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

/// Tools that are sent where not all are.
pub(super) fn pinned(stack: &LayerStack, faults: &mut Vec<Fault>) -> Patterns {
    let Some(named) = &stack.file.tools.pinned else {
        return Patterns::default();
    };
    let rules = named.value.iter();
    let rules = rules.filter_map(|it| rule("tools.pinned", it, Some(&named.place), faults));
    Patterns::new(rules.collect::<Vec<_>>())
}

/// How calls run.
fn calls(stack: &LayerStack, policy: &mut Policy) {
    let (tools, mcp) = (&stack.file.tools, &stack.file.mcp);
    let by_default = |it: &KeyLeaf<_>| {
        it.as_ref()
            .is_none_or(|it| it.place.source.origin == ConfigOrigin::Default)
    };
    let depth = match &mcp.max_tool_depth {
        Some(depth) if by_default(&tools.max_depth) => Some(depth),
        Some(_) | None => tools.max_depth.as_ref(),
    };
    if let Some(depth) = depth.and_then(|it| u32::try_from(it.value.0).ok()) {
        policy.max_depth = depth;
    }
    if let Some(chars) = &tools.max_result_chars {
        policy.max_result_chars = usize::try_from(chars.value.0).unwrap_or(usize::MAX);
    }
    policy.parallel_readonly = value_of(&tools.parallel_readonly).unwrap_or(true);
}

/// Rules about providers that nobody configured: probably a slip, and a deny rule with a slip denies nothing.
pub(super) fn unknown_providers(stack: &LayerStack, faults: &mut Vec<Fault>) {
    let file = &stack.file;
    let mut known: Vec<&str> = file.mcp.servers.keys().map(String::as_str).collect();
    known.extend(OWN_PROVIDERS);
    let named = |key: &'static str, text: &str| {
        let place = stack.names.get(&join(key, text)).cloned();
        place.map(|place| (key, text.to_owned(), place))
    };
    let denied = file.permissions.deny.iter();
    let mut rules: Vec<(&str, String, SourcePlace)> = denied
        .map(|(it, place)| ("permissions.deny", it.to_owned(), place.clone()))
        .collect();
    let auto = file.mcp.auto_approve.keys();
    rules.extend(auto.filter_map(|it| named("mcp.auto_approve", it)));
    let needs = file.permissions.needs.keys();
    rules.extend(needs.filter_map(|it| named("permissions.needs", it)));
    let levels = file.permissions.tools.keys();
    rules.extend(levels.filter_map(|it| named("permissions.tools", it)));
    let clients = file.permissions.clients.keys();
    rules.extend(clients.filter_map(|it| named("permissions.clients", it)));
    for (key, text, place) in rules {
        let provider = text.split_once("__").map_or(&*text, |(alias, _)| alias);
        if provider.parse::<Alias>().is_err() || known.contains(&provider) {
            continue;
        }
        let message = format!("`{key}`: no MCP server {provider:?} is configured");
        let mut fault = Fault::warning(&place, message);
        fault.label = nearest(provider, &known).map(|it| format!("did you mean `{it}`?"));
        if fault.label.is_none() {
            fault.help = Some("a tool that is written down may have that name".to_owned());
        }
        faults.push(fault);
    }
}

fn rule(
    key: &str,
    text: &str,
    place: Option<&SourcePlace>,
    faults: &mut Vec<Fault>,
) -> Option<Pattern> {
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
    stack: &LayerStack,
    faults: &mut Vec<Fault>,
) -> Option<(Alias, ProviderRule)> {
    let alias = alias(path, name, stack, faults);
    let max_level = level(&provider.max_level).unwrap_or(Access::Execute);
    // What nobody said is no higher than what somebody allowed at most.
    let default = level(&stack.file.permissions.default_level).unwrap_or_default();
    let begins = level(&provider.level).unwrap_or(default.min(max_level));
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
        alias?,
        ProviderRule {
            level: begins,
            max_level,
        },
    ))
}

fn alias(path: &str, name: &str, stack: &LayerStack, faults: &mut Vec<Fault>) -> Option<Alias> {
    let alias = name.parse().map_err(|error| {
        if let Some(place) = stack.names.get(path) {
            faults.push(Fault::error(place, format!("`{path}`: {error}")));
        }
    });
    alias.ok()
}

fn level(leaf: &KeyLeaf<WholeNumber<1, 3>>) -> Option<Access> {
    let number = leaf.as_ref()?.value.0;
    Access::from_number(u8::try_from(number).ok()?)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::layers::{BaseLayers, ConfigLayer, LayerPaths};
    use super::super::source::{FileExposure as Readers, SourceText};
    use super::*;

    fn read(text: &str) -> (Policy, Vec<String>) {
        let origin = ConfigOrigin::File("config.toml".into());
        let source = SourceText::new(origin, Readers::Private, text.to_owned());
        let layers = BaseLayers::read_with(&LayerPaths::default(), source);
        let mut faults = layers.faults.clone();
        let policy = policy(&layers.merged(), &mut faults);
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

    /// The configuration knows better than a server, for one tool at a time.
    #[test]
    fn the_level_that_a_tool_needs_is_said_by_its_exact_name() {
        let (policy, faults) = read("[permissions.needs]\nfs__read = 1\nfs__sync = 3\n");
        let needed: BTreeMap<String, u8> = policy
            .needs
            .iter()
            .map(|(name, level)| (name.to_string(), level.number()))
            .collect();
        let expected = [("fs__read".to_owned(), 1), ("fs__sync".to_owned(), 3)];
        assert_eq!((BTreeMap::from(expected), vec![]), (needed, faults));
        check(
            "[permissions.needs]\n\"fs__*\" = 1\n",
            &[
                "config.toml:2:1: `permissions.needs`: \"fs__*\" is no tool; the level is of one tool, by its exact name like fs__read_file",
            ],
        );
    }

    #[test]
    fn what_a_program_may_do_as_a_client_is_said_of_its_server_or_tool() {
        let (policy, faults) = read("[permissions.clients]\nshell = \"read\"\nfs = \"ask\"\n");
        let granted: BTreeMap<String, ClientGrant> = policy
            .clients
            .iter()
            .map(|(name, granted)| (name.to_string(), *granted))
            .collect();
        let expected = [
            ("fs".to_owned(), ClientGrant::Ask),
            ("shell".to_owned(), ClientGrant::Read),
        ];
        assert_eq!((BTreeMap::from(expected), vec![]), (granted, faults));
        check(
            "[permissions.clients]\n\"f s\" = \"read\"\nfs = \"drive\"\n",
            &[
                "config.toml:3:6: `permissions.clients.fs`: expected one of read, ask",
                "config.toml:2:1: `permissions.clients.\"f s\"`: the alias \"f s\" is not made of letters, digits and single hyphens or underscores within",
            ],
        );
    }

    #[test]
    fn what_is_said_of_calls_holds() {
        let policy = read(
            "[permissions]\ndefault_level = 2\non_timeout = \"wait\"\n[permissions.tools]\nlow = { max_level = 1 }\n\
             [tools]\nmax_result_chars = 2000\nparallel_readonly = false\n",
        )
        .0;
        assert_eq!(
            (OnSilence::Waits, 2000, false),
            (
                policy.silence,
                policy.max_result_chars,
                policy.parallel_readonly
            )
        );
        let begins = |it: &str| policy.first_level(&it.parse().unwrap()).number();
        assert_eq!((2, 1), (begins("fs"), begins("low")));
    }

    /// The seeds' name is accepted.
    #[test]
    fn the_old_name_of_the_depth_counts_where_the_new_one_is_not_said() {
        let depth = |text: &str| read(text).0.max_depth;
        assert_eq!(50, depth(""));
        assert_eq!(3, depth("[mcp]\nmax_tool_depth = 3\n"));
        assert_eq!(5, depth("[tools]\nmax_depth = 5\n"));
        assert_eq!(
            5,
            depth("[mcp]\nmax_tool_depth = 3\n[tools]\nmax_depth = 5\n")
        );
    }

    /// No file takes a denial back that another one has made.
    #[test]
    fn denials_of_all_layers_are_joined() {
        let layer = |name: &str, text: &str| {
            let origin = ConfigOrigin::File(name.into());
            ConfigLayer::read(SourceText::new(origin, Readers::Private, text.to_owned()))
        };
        let mut stack = LayerStack::default();
        for (name, text) in [
            (
                "machine.toml",
                "[permissions]\ndeny = [\"fs__rm\", \"web__*\"]\n",
            ),
            ("user.toml", "[permissions]\ndeny = []\n"),
            (
                "over.toml",
                "permissions.deny = [\"git__push\", \"web__*\"]\n",
            ),
        ] {
            stack.put_layer(&layer(name, text));
        }
        let policy = policy(&stack, &mut vec![]);
        let denied: Vec<String> = policy.deny.iter().map(ToString::to_string).collect();
        assert_eq!(vec!["fs__rm", "git__push", "web__*"], denied);
        let entry = stack.entries().pop().unwrap();
        assert_eq!(
            r#"["fs__rm", "web__*", "git__push"]"#,
            entry.value.display()
        );
        let others: Vec<String> = entry.also.iter().map(SourcePlace::origin).collect();
        assert_eq!(
            ("over.toml:1".to_owned(), vec!["machine.toml:2".to_owned()]),
            (entry.place.origin(), others)
        );
    }

    #[test]
    fn nothing_said_is_what_the_defaults_say() {
        let (policy, faults) = read("");
        assert_eq!((Policy::default(), vec![]), (policy, faults));
    }
}
