//! What another program lets run unasked or never, as rules of ours. There a rule may name any part of the names of tools; here
//! it names one tool or a whole server, so that what cannot be said exactly is said less generously, and is told.

use std::collections::{BTreeMap, BTreeSet};

use aishd_log::tool_name::{Alias, ToolName};
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::chosen_tools::ServerToolChoice;
use serde::Serialize;

const MAX_SHOWN_CHARS: usize = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleAction {
    Allow,
    Ask,
    Deny,
}

/// A rule as it stands in the file; of several that fit a name the last one counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ToolRule {
    /// Over names as that program makes them; `*` is any text, `?` any character.
    pub(super) pattern: String,
    pub(super) action: RuleAction,
}

#[cfg(test)]
impl ToolRule {
    pub(super) fn all(rules: &[(&str, RuleAction)]) -> Vec<Self> {
        let rule = |(pattern, action): &(&str, RuleAction)| Self {
            pattern: (*pattern).to_owned(),
            action: *action,
        };
        rules.iter().map(rule).collect()
    }
}

/// A server, and what the names of its tools begin with in that program.
#[derive(Clone, Debug)]
pub(super) struct RuleServer {
    pub(super) alias: Alias,
    pub(super) prefix: String,
    /// There is something to connect to, so that the name will be no other server's.
    pub(super) is_there: bool,
    /// The tools that it has there.
    pub(super) tools: ServerToolChoice,
    /// What the rules deny is among what is left out.
    pub(super) hides_denied: bool,
}

/// Ours, and what could not be carried over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CarriedRules {
    approve: BTreeMap<String, bool>,
    deny: BTreeSet<String>,
    pub(super) remarks: Vec<String>,
}

#[derive(Serialize)]
struct RuleTables<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mcp: Option<ApprovalTable<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    permissions: Option<DenialTable<'a>>,
}

#[derive(Serialize)]
struct ApprovalTable<'a> {
    auto_approve: &'a BTreeMap<String, bool>,
}

#[derive(Serialize)]
struct DenialTable<'a> {
    deny: &'a BTreeSet<String>,
}

impl CarriedRules {
    /// Tables for the configuration; empty where there is no rule.
    pub(super) fn toml(&self) -> String {
        let tables = RuleTables {
            mcp: (!self.approve.is_empty()).then_some(ApprovalTable {
                auto_approve: &self.approve,
            }),
            permissions: (!self.deny.is_empty()).then_some(DenialTable { deny: &self.deny }),
        };
        // Names and truths: there is nothing that TOML could not hold.
        toml::to_string(&tables).unwrap_or_default()
    }

    /// Only what ran unasked there: `tool` of the server, or all of them.
    fn approve(&mut self, server: &RuleServer, tool: Option<&str>, name: String) {
        let is_hidden = tool.is_some_and(|it| server.tools.leaves_out(&[it]).is_some());
        if server.is_there && !is_hidden {
            self.approve.insert(name, true);
        } else {
            let why = if is_hidden {
                "its server does not have it there"
            } else {
                "there is nothing to connect to"
            };
            self.remark(format!("{name} is asked about here: {why}"));
        }
    }

    fn remark(&mut self, text: String) {
        if !self.remarks.contains(&text) {
            self.remarks.push(text);
        }
    }

    fn server(&mut self, server: &RuleServer, rules: &[ToolRule], others: &[RuleServer]) {
        let whole = self.whole(server, rules);
        let name = format!("{}__*", server.alias);
        match whole {
            Some(RuleAction::Allow) => self.approve(server, None, name),
            Some(RuleAction::Deny) if server.hides_denied => {}
            Some(RuleAction::Deny) => _ = self.deny.insert(name),
            Some(RuleAction::Ask) | None => {}
        }
        for rule in rules.iter().filter(|it| !is_wild(&it.pattern)) {
            let tool = rule.pattern.strip_prefix(&server.prefix);
            let Some(tool) = tool.filter(|it| !it.is_empty()) else {
                continue;
            };
            let Ok(ours) = ToolName::new(server.alias.clone(), tool) else {
                self.remark(format!("{} is no name of a tool here", shown(rule)));
                continue;
            };
            let last = rules.iter().rfind(|it| fits(&it.pattern, &rule.pattern));
            let is_doubtful = others
                .iter()
                .any(|it| it.alias != server.alias && rule.pattern.starts_with(it.prefix.as_str()));
            match last {
                Some(ToolRule {
                    action: RuleAction::Deny,
                    ..
                }) if server.hides_denied => {}
                Some(ToolRule {
                    action: RuleAction::Deny,
                    ..
                }) => _ = self.deny.insert(ours.to_string()),
                Some(last) if last.action == RuleAction::Allow && !is_all(&last.pattern) => {
                    if is_doubtful {
                        self.remark(format!("{} may be of several servers", shown(last)));
                    } else if whole == Some(RuleAction::Deny) && !server.hides_denied {
                        self.remark(format!(
                            "{} is not taken over: the other tools of {} are denied, and here that goes before",
                            shown(last),
                            server.alias
                        ));
                    } else {
                        self.approve(server, Some(tool), ours.to_string());
                    }
                }
                Some(_) if whole == Some(RuleAction::Allow) => {
                    self.approve.insert(ours.to_string(), false);
                }
                Some(_) | None => {}
            }
        }
    }

    /// What goes for all tools of a server.
    fn whole(&mut self, server: &RuleServer, rules: &[ToolRule]) -> Option<RuleAction> {
        let at = rules
            .iter()
            .rposition(|it| covers(&it.pattern, &server.prefix))?;
        let rule = &rules[at];
        let exception = rules[at + 1..].iter().find(|it| {
            is_wild(&it.pattern)
                && it.action != rule.action
                && overlaps(&it.pattern, &server.prefix)
        });
        match (rule.action, exception) {
            (RuleAction::Allow, _) if is_all(&rule.pattern) => None,
            (RuleAction::Allow, Some(exception)) => {
                self.remark(format!(
                    "{} is not taken over for {}: {} is an exception that no rule here can say",
                    shown(rule),
                    server.alias,
                    shown(exception)
                ));
                None
            }
            (action, _) => Some(action),
        }
    }
}

/// The rules about these servers; what is said of other tools is that program's own affair.
pub(super) fn carried(rules: &[ToolRule], servers: &[RuleServer]) -> CarriedRules {
    let mut carried = CarriedRules::default();
    for server in servers {
        carried.server(server, rules, servers);
    }
    for rule in rules.iter().filter(|it| is_wild(&it.pattern)) {
        let is_whole = |it: &RuleServer| covers(&rule.pattern, &it.prefix);
        let is_said = |it: &RuleServer| it.hides_denied && rule.action == RuleAction::Deny;
        let is_part =
            |it: &RuleServer| overlaps(&rule.pattern, &it.prefix) && !is_whole(it) && !is_said(it);
        if is_all(&rule.pattern) && rule.action == RuleAction::Allow {
            carried.remark(format!(
                "{} is not taken over: you are asked about what no other rule names",
                shown(rule)
            ));
        } else if rule.action != RuleAction::Ask && servers.iter().any(is_part) {
            carried.remark(format!(
                "{} is not taken over: a rule here is about one tool or a whole server",
                shown(rule)
            ));
        }
    }
    carried
}

fn shown(rule: &ToolRule) -> String {
    let word = match rule.action {
        RuleAction::Allow => "allow",
        RuleAction::Ask => "ask",
        RuleAction::Deny => "deny",
    };
    format!("{:?}: {word}", one_line(&rule.pattern, MAX_SHOWN_CHARS))
}

pub(super) fn is_wild(pattern: &str) -> bool {
    pattern.contains(['*', '?'])
}

fn is_all(pattern: &str) -> bool {
    !pattern.is_empty() && pattern.bytes().all(|it| it == b'*')
}

/// Whether it fits every name that begins so.
pub(super) fn covers(pattern: &str, prefix: &str) -> bool {
    let head = pattern.trim_end_matches('*');
    head.len() < pattern.len() && !is_wild(head) && prefix.starts_with(head)
}

/// Whether it may fit a name that begins so.
pub(super) fn overlaps(pattern: &str, prefix: &str) -> bool {
    let head = pattern.split(['*', '?']).next().unwrap_or_default();
    prefix.starts_with(head) || head.starts_with(prefix)
}

/// Goes back to the last star only, so that no pattern takes long.
fn fits(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut read, mut star) = (0, 0, None);
    while read < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(it) if *it == '?' || *it == name[read] => {
                at += 1;
                read += 1;
            }
            Some(_) | None => match &mut star {
                Some((back, taken)) => {
                    *taken += 1;
                    (at, read) = (*back + 1, *taken);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|it| *it == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rules: &[(&str, RuleAction)], toml: &str, remarks: &[&str]) {
        let rules = ToolRule::all(rules);
        let servers = [("git", "git_"), ("web", "web_")].map(|(alias, prefix)| RuleServer {
            alias: alias.parse().unwrap(),
            prefix: prefix.to_owned(),
            is_there: true,
            tools: ServerToolChoice::default(),
            hides_denied: false,
        });
        let carried = carried(&rules, &servers);
        assert_eq!(
            (toml, remarks),
            (
                carried.toml().as_str(),
                carried
                    .remarks
                    .iter()
                    .map(String::as_str)
                    .collect::<Vec<_>>()
                    .as_slice()
            ),
            "{rules:?}"
        );
    }

    #[test]
    fn one_tool_or_a_whole_server_is_carried_over() {
        use RuleAction::{Allow, Ask, Deny};
        check(
            &[
                ("git_status", Allow),
                ("web_*", Allow),
                ("web_post", Ask),
                ("web_rm", Deny),
                ("bash", Allow),
            ],
            "[mcp.auto_approve]\ngit__status = true\n\"web__*\" = true\nweb__post = false\n\n\
             [permissions]\ndeny = [\"web__rm\"]\n",
            &[],
        );
    }

    /// The last rule that fits counts there, so an earlier yes below a later no is no yes.
    #[test]
    fn what_that_program_would_ask_about_is_not_let_through() {
        use RuleAction::{Allow, Ask, Deny};
        check(&[("git_status", Allow), ("*", Ask)], "", &[]);
        check(
            &[("git_*", Allow), ("git_*", Deny), ("git_log", Allow)],
            "[permissions]\ndeny = [\"git__*\"]\n",
            &[
                "\"git_log\": allow is not taken over: the other tools of git are denied, and here that goes before",
            ],
        );
        check(
            &[("git_*", Allow), ("git_p*", Ask), ("git_push", Allow)],
            "[mcp.auto_approve]\ngit__push = true\n",
            &[
                "\"git_*\": allow is not taken over for git: \"git_p*\": ask is an exception that no rule here can say",
            ],
        );
        check(
            &[("*", Allow), ("git_st?tus", Allow), ("*_rm", Deny)],
            "",
            &[
                "\"*\": allow is not taken over: you are asked about what no other rule names",
                "\"git_st?tus\": allow is not taken over: a rule here is about one tool or a whole server",
                "\"*_rm\": deny is not taken over: a rule here is about one tool or a whole server",
            ],
        );
    }

    #[test]
    fn patterns_fit() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("a*c", "abbc", true),
            ("a*c", "abcb", false),
            ("a?c", "abc", true),
            ("*a*b", "xaxxb", true),
            ("ab", "abc", false),
        ] {
            assert_eq!(expected, fits(pattern, name), "{pattern} {name}");
        }
        // A pattern of many stars is quick too.
        assert!(!fits(&format!("{}b", "a*".repeat(500)), &"a".repeat(5000)));
    }
}
