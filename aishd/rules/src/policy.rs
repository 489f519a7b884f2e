//! The one decision about every effect: allowed, asked about, or denied, and by which rule.
//!
//! Rules are looked up and never searched through, so ten thousand of them cost what one does.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use aishd_log::access::Access;
use aishd_log::constraints::{ConstraintBreach, ConstraintDoubt, ConstraintKnowledge, Constraints};
use aishd_log::grants::GrantList;
use aishd_log::level_request::upgrade_required;
use aishd_log::pattern::{Pattern, Patterns};
use aishd_log::shell;
use aishd_log::shortened_result::MAX_RESULT_CHARS;
use aishd_log::tool::{ClaimSource, ContentDigest, Tool, ToolReach};
use aishd_log::tool_name::{Alias, ToolName};
use serde_json::{Map, Value};

use crate::allowances::{AllowanceList, AllowanceNumber};
use crate::autonomy::HaltReason;
use crate::tool_binding::{BoundBy, ToolBindings, changed_from};

/// A day.
const UNATTENDED_MS: u64 = 24 * 60 * 60 * 1000;
const MAX_DEPTH: u32 = 50;
const HOST_WAIT_MS: u64 = 2 * 60 * 1000;

/// What is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    pub deny: Patterns,
    /// False takes an exact name out of what its provider is allowed.
    pub auto_approve: HashMap<Pattern, bool>,
    pub providers: HashMap<Alias, ProviderRule>,
    /// Levels that calls need, where the configuration knows better than the tool's provider.
    pub needs: HashMap<ToolName, Access>,
    /// The level of a provider that nothing else speaks of.
    pub default_level: Access,
    /// What programs that the daemon starts may do as its clients, by the provider that they are of.
    pub clients: HashMap<Alias, ClientGrant>,
    /// Whether the daemon's own tools are offered.
    pub builtin_tools: bool,
    /// Whether those for files are.
    pub file_tools: bool,
    /// Whether the one that reads pages of the web is.
    pub web_tools: bool,
    /// Whether those for a list of tasks are.
    pub todo_tools: bool,
    /// How long a confirm waits while nobody is attached.
    pub unattended_ms: u64,
    /// What it means that nobody answered for so long.
    pub silence: OnSilence,
    /// Rounds of calls in one turn.
    pub max_depth: u32,
    /// Characters of a result that a model is shown.
    pub max_result_chars: usize,
    /// Whether calls that only read and need no consent run side by side.
    pub parallel_readonly: bool,
    /// About commands of this machine.
    pub shell: shell::ShellSettings,
    /// Hosts that commands in layers may reach unasked, as the package of the proxy reads them.
    pub hosts: Vec<String>,
    /// How long a connection waits for an answer about its host.
    pub host_wait_ms: u64,
}

/// What a program that the daemon started may do as its client. None may answer a question, or change what runs unasked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientGrant {
    /// Everything that an observer may.
    Read,
    /// And ask, in conversations that exist or are new.
    Ask,
}

/// What it means that nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnSilence {
    /// No.
    Denies,
    /// Nothing yet.
    Waits,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProviderRule {
    /// What it has in a conversation where nobody changed it.
    pub level: Access,
    /// No call may need more.
    pub max_level: Access,
}

/// What one decision is about.
#[derive(Clone, Copy, Debug)]
pub struct PolicyQuestion<'a> {
    pub tool: &'a Tool,
    pub arguments: &'a Map<String, Value>,
    /// It only reads, and something beyond the conversation's directories.
    pub reads_beyond: bool,
    /// What the conversation keeps itself from.
    pub constraints: &'a Constraints,
    pub grants: &'a GrantList,
    /// What the asker allowed for this turn (`--confirm=allow:NAME`).
    pub turn: &'a Patterns,
    /// What attached clients allow for as long as they are there.
    pub clients: &'a AllowanceList,
    /// What all of these are bound to.
    pub bound: &'a dyn ToolBindings,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyDecision {
    Allow(DecidingRule),
    Ask(AskReason),
    Deny(DecidingRule),
}

/// What decided. Its text stands in the model's reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DecidingRule {
    Denied(Pattern),
    /// The conversation keeps itself from it.
    Constraint(ConstraintBreach),
    MaxLevel {
        provider: Alias,
        max: Access,
        needs: Access,
    },
    /// The call cannot reach beyond its conversation.
    OwnConversation,
    /// A program of ours does the call, and the kernel holds it to reading.
    HeldReading,
    /// A program of ours does the call, and each host that it reaches is allowed by itself.
    HeldHosts,
    AutoApprove(Pattern),
    ThisTurn(Pattern),
    /// An attached client lets it through.
    Client {
        allowance: AllowanceNumber,
        whose: String,
        pattern: Pattern,
    },
    /// A person said "always" to this definition.
    Always,
    /// A person launched an autonomous run with this level.
    Norris(Access),
}

/// Why a person is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskReason {
    /// Every call is asked about.
    EveryCall,
    /// It only reads, and beyond the conversation's directories, or what is for keys.
    ReadsBeyond,
    /// What it would change is shown, and is real when a person keeps it.
    Changes,
    /// The provider has less than the call needs.
    Level { has: Access, needs: Access },
    /// Whether it keeps to the conversation's constraints is not known. The level may be too low besides.
    Unclear {
        doubt: ConstraintDoubt,
        has: Access,
        needs: Access,
    },
    /// It would fetch these, and nobody has said "always" to it as it is. The level may be too low besides.
    Packages {
        packages: Arc<[String]>,
        has: Access,
        needs: Access,
    },
    /// An autonomous run does not do that unasked.
    Halt(HaltReason),
    /// It was allowed, by whatever rule, and is not what it was. The level may be too low besides.
    Changed {
        approved: ContentDigest,
        has: Access,
        needs: Access,
    },
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            deny: Patterns::default(),
            auto_approve: HashMap::new(),
            providers: HashMap::new(),
            needs: HashMap::new(),
            clients: HashMap::new(),
            default_level: Access::default(),
            builtin_tools: false,
            file_tools: true,
            web_tools: true,
            todo_tools: true,
            unattended_ms: UNATTENDED_MS,
            silence: OnSilence::Denies,
            max_depth: MAX_DEPTH,
            max_result_chars: MAX_RESULT_CHARS,
            parallel_readonly: true,
            shell: shell::ShellSettings::default(),
            hosts: vec![],
            host_wait_ms: HOST_WAIT_MS,
        }
    }
}

impl Policy {
    pub fn needs(&self, tool: &Tool) -> Access {
        self.needs.get(&tool.name).copied().unwrap_or(tool.needs)
    }

    /// Who says what [`Self::needs`] says.
    pub fn needs_by(&self, tool: &Tool) -> ClaimSource {
        if self.needs.contains_key(&tool.name) {
            ClaimSource::Ours
        } else {
            tool.needs_by
        }
    }

    /// Whether a rule lets tools of this provider do more than those of any.
    pub fn lets_more(&self, provider: &Alias) -> bool {
        let approved = self.auto_approve.iter();
        let mut approved = approved.filter(|(_, approves)| **approves);
        let own = self.providers.get(provider);
        approved.any(|(rule, _)| rule.provider() == provider)
            || own.is_some_and(|it| it.level > self.default_level)
            || self.needs.keys().any(|it| it.alias() == provider)
            || self.clients.contains_key(provider)
    }

    /// Every rule about tools, whatever it says of them.
    pub fn patterns(&self) -> impl Iterator<Item = Pattern> {
        let denied = self.deny.iter().cloned();
        let needs = self.needs.keys().cloned().map(Pattern::Tool);
        denied.chain(self.auto_approve.keys().cloned()).chain(needs)
    }

    /// The level that a provider has in a conversation.
    pub fn level(&self, provider: &Alias, grants: &GrantList) -> Access {
        let granted = grants.levels.get(provider).copied();
        granted.unwrap_or_else(|| self.first_level(provider))
    }

    /// The level that a provider begins with.
    pub fn first_level(&self, provider: &Alias) -> Access {
        let own = self.providers.get(provider).map(|it| it.level);
        own.unwrap_or(self.default_level)
    }

    /// The highest level that it may be given.
    pub fn max_level(&self, provider: &Alias) -> Access {
        let own = self.providers.get(provider).map(|it| it.max_level);
        own.unwrap_or(Access::Execute)
    }

    /// Every rule in a line of its own, as the configuration calls it.
    pub fn lines(&self) -> BTreeSet<String> {
        let Self {
            deny,
            auto_approve,
            providers,
            needs,
            clients,
            default_level,
            builtin_tools,
            file_tools,
            web_tools,
            todo_tools,
            unattended_ms,
            silence,
            max_depth,
            max_result_chars,
            parallel_readonly,
            shell,
            hosts,
            host_wait_ms,
        } = self;
        let denied = deny.iter().map(|it| format!("permissions.deny {it}"));
        let approved = auto_approve.iter();
        let approved = approved.map(|(it, approves)| format!("mcp.auto_approve {it} = {approves}"));
        let providers = providers.iter().map(|(provider, rule)| {
            let (level, max) = (rule.level.number(), rule.max_level.number());
            format!("permissions.tools {provider} level = {level}, max_level = {max}")
        });
        let needs = needs.iter();
        let needs = needs.map(|(tool, it)| format!("permissions.needs {tool} = {}", it.number()));
        let clients = clients.iter().map(|(provider, granted)| {
            let granted = match granted {
                ClientGrant::Read => "read",
                ClientGrant::Ask => "ask",
            };
            format!("permissions.clients {provider} = {granted}")
        });
        let silence = match silence {
            OnSilence::Denies => "deny",
            OnSilence::Waits => "wait",
        };
        let others = [
            format!("permissions.default_level = {}", default_level.number()),
            format!("permissions.confirm_timeout = {unattended_ms} ms"),
            format!("permissions.on_timeout = {silence}"),
            format!("contain.hosts_timeout = {host_wait_ms} ms"),
            format!("tools.builtin = {builtin_tools}"),
            format!("tools.files = {file_tools}"),
            format!("tools.todo = {todo_tools}"),
            format!("tools.web = {web_tools}"),
            format!("tools.max_depth = {max_depth}"),
            format!("tools.max_result_chars = {max_result_chars}"),
            format!("tools.parallel_readonly = {parallel_readonly}"),
        ];
        let rules = denied.chain(approved).chain(providers).chain(needs);
        let hosts = hosts.iter().map(|it| format!("contain.hosts {it}"));
        let rules = rules.chain(clients).chain(hosts);
        rules.chain(others).chain(shell.lines()).collect()
    }

    /// Whether the configuration lets calls of it through.
    pub fn lets_through(&self, tool: &ToolName) -> bool {
        self.deny.covering(tool).is_none() && self.auto_approves(tool).is_some()
    }

    fn auto_approves(&self, tool: &ToolName) -> Option<Pattern> {
        let found = Pattern::covering(tool)
            .into_iter()
            .find_map(|it| Some((self.auto_approve.get(&it).copied()?, it)));
        found.and_then(|(approves, pattern)| approves.then_some(pattern))
    }
}

/// Deny rules, what the conversation keeps itself from, the highest level, limits that only a hint keeps, packages that nobody
/// has looked at, what was allowed as another definition, what is configured to run unasked, who else allows this call without
/// a question, the level, and else a question.
pub fn decide(question: PolicyQuestion<'_>, policy: &Policy) -> PolicyDecision {
    let PolicyQuestion {
        tool,
        arguments,
        constraints,
        grants,
        ..
    } = question;
    let provider = tool.name.alias();
    if let Some(pattern) = policy.deny.covering(&tool.name) {
        return PolicyDecision::Deny(DecidingRule::Denied(pattern.clone()));
    }
    let needs = policy.needs(tool);
    let unclear = match constraints.check(tool, needs, arguments) {
        ConstraintKnowledge::Broken(breach) => {
            return PolicyDecision::Deny(DecidingRule::Constraint(breach));
        }
        ConstraintKnowledge::Unclear(doubt) => Some(doubt),
        ConstraintKnowledge::Kept => None,
    };
    if let Some(rule) = policy.providers.get(provider)
        && needs > rule.max_level
    {
        return PolicyDecision::Deny(DecidingRule::MaxLevel {
            provider: provider.clone(),
            max: rule.max_level,
            needs,
        });
    }
    if tool.reach == ToolReach::Conversation {
        return PolicyDecision::Allow(DecidingRule::OwnConversation);
    }
    if let Some(doubt) = unclear {
        let has = policy.level(provider, grants);
        return PolicyDecision::Ask(AskReason::Unclear { doubt, has, needs });
    }
    let has = policy.level(provider, grants);
    let approved = grants.approved.get(&tool.name).copied();
    // A hint shows that a limit is broken, and never that it is kept.
    let by = policy.needs_by(tool);
    let is_limited = by == ClaimSource::Servers && policy.max_level(provider) < Access::Execute;
    if (is_limited || constraints.rest_on_hints(tool, by))
        && approved != Some(tool.definition_digest())
    {
        let doubt = ConstraintDoubt::OnlyItsWord;
        return PolicyDecision::Ask(AskReason::Unclear { doubt, has, needs });
    }
    if tool.reach == ToolReach::HeldReading && has >= needs && !question.reads_beyond {
        return PolicyDecision::Allow(DecidingRule::HeldReading);
    }
    if tool.reach == ToolReach::HeldHosts && has >= needs {
        return PolicyDecision::Allow(DecidingRule::HeldHosts);
    }
    // A level is about what runs unseen, and this is seen first.
    let has = match tool.reach {
        ToolReach::HeldChanging => has.max(needs),
        ToolReach::Conversation
        | ToolReach::HeldReading
        | ToolReach::HeldHosts
        | ToolReach::World => has,
    };
    // Who allows a name beforehand has not seen what it would fetch.
    if !tool.packages.is_empty() && approved != Some(tool.definition_digest()) {
        let packages = tool.packages.clone();
        return PolicyDecision::Ask(AskReason::Packages {
            packages,
            has,
            needs,
        });
    }
    unless_changed(question, policy, (has, needs))
}

/// What lets a call through, for the definition that it was meant for. Who allows a name beforehand means the tool as it was
/// when it first ran so, or when somebody looked at it.
fn unless_changed(
    question: PolicyQuestion<'_>,
    policy: &Policy,
    (has, needs): (Access, Access),
) -> PolicyDecision {
    let PolicyQuestion {
        tool,
        grants,
        turn,
        clients,
        bound,
        reads_beyond,
        ..
    } = question;
    let approved = grants.approved.get(&tool.name).copied();
    let changed = changed_from(bound, approved, tool);
    if changed.is_none()
        && let Some(pattern) = policy.auto_approves(&tool.name)
    {
        return PolicyDecision::Allow(DecidingRule::AutoApprove(pattern));
    }
    let is_always = approved.is_some_and(|it| it == tool.definition_digest());
    // Whatever the name meant since in other conversations, this is what a person always allows in this one.
    if changed.is_some() && is_always && has >= needs {
        return PolicyDecision::Allow(DecidingRule::Always);
    }
    if let Some(approved) = changed {
        return PolicyDecision::Ask(AskReason::Changed {
            approved,
            has,
            needs,
        });
    }
    if let Some(pattern) = turn.covering(&tool.name) {
        return PolicyDecision::Allow(DecidingRule::ThisTurn(pattern.clone()));
    }
    // Before a client's word, which may be for so many calls only.
    if is_always && has >= needs {
        return PolicyDecision::Allow(DecidingRule::Always);
    }
    if let Some((allowance, pattern)) = clients.covering(&tool.name) {
        return PolicyDecision::Allow(DecidingRule::Client {
            allowance: allowance.number,
            whose: allowance.whose(),
            pattern: pattern.clone(),
        });
    }
    PolicyDecision::Ask(if let Some(approved) = approved.filter(|_| !is_always) {
        AskReason::Changed {
            approved,
            has,
            needs,
        }
    } else if has < needs {
        AskReason::Level { has, needs }
    } else if reads_beyond {
        AskReason::ReadsBeyond
    } else if tool.reach == ToolReach::HeldChanging {
        AskReason::Changes
    } else {
        AskReason::EveryCall
    })
}

impl AskReason {
    /// The level that the provider would have to be raised to.
    pub fn raise_to(&self) -> Option<Access> {
        match self {
            Self::EveryCall | Self::ReadsBeyond | Self::Changes | Self::Halt(_) => None,
            Self::Level { has, needs }
            | Self::Unclear { has, needs, .. }
            | Self::Packages { has, needs, .. }
            | Self::Changed { has, needs, .. } => (has < needs).then_some(*needs),
        }
    }

    /// For people.
    pub fn text(&self, tool: &ToolName) -> String {
        match self {
            Self::EveryCall => "every call is asked about".to_owned(),
            Self::ReadsBeyond => {
                "it reads outside of the conversation's directories, or a file that is for keys"
                    .to_owned()
            }
            Self::Changes => "it changes files".to_owned(),
            Self::Level { has, needs } => upgrade_required(tool.alias(), *has, *needs),
            Self::Unclear { doubt, .. } => doubt.to_string(),
            Self::Halt(halt) => halt.text(),
            Self::Packages { packages, .. } => format!(
                "it fetches packages, and is asked about until it is always allowed here: {}",
                packages.join(", ")
            ),
            Self::Changed { .. } => "the tool's definition changed since it was allowed".to_owned(),
        }
    }

    /// For the audit trail: without a word of the model.
    pub fn describe(&self, tool: &ToolName) -> String {
        match self {
            Self::Unclear { doubt, .. } => doubt.describe(),
            Self::Halt(halt) => halt.describe(),
            Self::EveryCall
            | Self::ReadsBeyond
            | Self::Changes
            | Self::Level { .. }
            | Self::Packages { .. }
            | Self::Changed { .. } => self.text(tool),
        }
    }
}

impl DecidingRule {
    /// Whether the tool's name stands for its definition once this has let a call through.
    pub fn binds(&self) -> Option<BoundBy> {
        match self {
            Self::Denied(_)
            | Self::Constraint(_)
            | Self::MaxLevel { .. }
            | Self::OwnConversation
            | Self::HeldReading
            | Self::HeldHosts => None,
            Self::AutoApprove(_)
            | Self::ThisTurn(_)
            | Self::Client { .. }
            | Self::Always
            | Self::Norris(_) => Some(BoundBy::Rule),
        }
    }

    /// The client's word that it rests on.
    pub fn allowance(&self) -> Option<AllowanceNumber> {
        match self {
            Self::Client { allowance, .. } => Some(*allowance),
            Self::Denied(_)
            | Self::Constraint(_)
            | Self::MaxLevel { .. }
            | Self::OwnConversation
            | Self::HeldReading
            | Self::HeldHosts
            | Self::AutoApprove(_)
            | Self::ThisTurn(_)
            | Self::Always
            | Self::Norris(_) => None,
        }
    }

    /// For the audit trail: without a word of the model.
    pub fn describe(&self) -> String {
        match self {
            Self::Constraint(breach) => breach.describe(),
            Self::Denied(_)
            | Self::MaxLevel { .. }
            | Self::OwnConversation
            | Self::HeldReading
            | Self::HeldHosts
            | Self::AutoApprove(_)
            | Self::ThisTurn(_)
            | Self::Client { .. }
            | Self::Always
            | Self::Norris(_) => self.to_string(),
        }
    }
}

impl fmt::Display for DecidingRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(pattern) => write!(f, "permissions.deny {pattern}"),
            Self::Constraint(breach) => breach.fmt(f),
            Self::MaxLevel {
                provider,
                max,
                needs,
            } => write!(
                f,
                "max_level of {provider} is {} and the call needs {}",
                max.number(),
                needs.number()
            ),
            Self::OwnConversation => f.write_str("reads only its own conversation"),
            Self::HeldReading => f.write_str("only reads, and is held to that"),
            Self::HeldHosts => f.write_str("only reads, and each host is asked about by itself"),
            Self::AutoApprove(pattern) => write!(f, "mcp.auto_approve {pattern}"),
            Self::ThisTurn(pattern) => write!(f, "allowed for this turn {pattern}"),
            Self::Client { whose, pattern, .. } => write!(f, "allowed by {whose}: {pattern}"),
            Self::Always => f.write_str("always, in this conversation"),
            Self::Norris(level) => write!(f, "norris run at level {}", level.number()),
        }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
