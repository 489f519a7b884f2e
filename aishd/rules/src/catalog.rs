//! All tools that there are, and those of them that one request offers. Both are values that never change.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use aishd_log::pattern::Pattern;
use aishd_log::shell;
use aishd_log::tool::{ContentDigest, Tool};
use aishd_log::tool_name::{Alias, ToolName, on_the_wire};
use aishd_mcp_messages::schema::Schema;
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::policy::Policy;
use crate::tool_choice::SelectedTools;

/// Tools of all providers, by name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalog {
    tools: BTreeMap<ToolName, Arc<Tool>>,
    inputs: InputSchemas,
}

/// Input schemas, each compiled when it is first needed; nothing for one that cannot be used.
#[derive(Clone, Debug, Default)]
struct InputSchemas(Arc<Mutex<HashMap<ToolName, Option<Arc<Schema>>>>>);

/// They follow from the tools.
impl PartialEq for InputSchemas {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

/// What a model is offered in one request.
#[derive(Clone, Debug, Default)]
pub struct ToolOffer {
    tools: Vec<(String, Arc<Tool>)>,
    by_wire: HashMap<String, usize>,
    selection: Option<Arc<SelectedTools>>,
}

impl Catalog {
    /// Of two tools with one name the first stays.
    pub fn new(tools: impl IntoIterator<Item = Arc<Tool>>) -> Self {
        let mut catalog = Self::default();
        for tool in tools {
            catalog.tools.entry(tool.name.clone()).or_insert(tool);
        }
        catalog
    }

    pub fn get(&self, name: &ToolName) -> Option<&Arc<Tool>> {
        self.tools.get(name)
    }

    /// Why these are no arguments for a tool of this catalog, by its input schema. A schema that cannot be used
    /// forbids nothing.
    pub fn misfit(&self, tool: &Tool, arguments: &Map<String, Value>) -> Option<String> {
        let schema = {
            let mut known = self.inputs.0.lock();
            let known = known.entry(tool.name.clone());
            let compile = || Schema::new(&tool.schema).ok().map(Arc::new);
            known.or_insert_with(compile).clone()
        };
        schema?.misfit(&Value::Object(arguments.clone()))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.values()
    }

    pub fn of_provider<'a>(&'a self, provider: &'a Alias) -> impl Iterator<Item = &'a Arc<Tool>> {
        self.iter().filter(move |it| it.name.alias() == provider)
    }

    /// Of all tools of a provider, as they are now.
    pub fn provider_digest(&self, provider: &Alias) -> ContentDigest {
        let mut all = String::new();
        for tool in self.of_provider(provider) {
            all.push_str(&format!("{} {}\n", tool.name, tool.definition_digest()));
        }
        ContentDigest::of(all.as_bytes())
    }

    /// What is wanted of it, in an order that stays the same, so that a server's prompt cache holds. What policy
    /// denies is left out.
    pub fn offer(&self, policy: &Policy, wanted: impl Fn(&Tool) -> bool) -> ToolOffer {
        let mut offer = ToolOffer::default();
        for tool in self.tools.values() {
            if policy.deny.covering(&tool.name).is_some() || !wanted(tool) {
                continue;
            }
            offer.push(on_the_wire(&tool.name.to_string()), tool.clone());
        }
        offer
    }

    /// Rules that speak of nothing that is known.
    pub fn unknown_to(&self, rules: impl IntoIterator<Item = Pattern>) -> Vec<Pattern> {
        let rules = rules.into_iter();
        rules.filter(|it| self.covered(it) == 0).collect()
    }

    /// How many tools a rule speaks of.
    pub fn covered(&self, rule: &Pattern) -> usize {
        match rule {
            Pattern::Tool(name) => usize::from(self.tools.contains_key(name)),
            Pattern::Provider(alias) => self.of_provider(alias).count(),
        }
    }
}

impl ToolOffer {
    /// The same, with the tool that proposes commands behind it, so that the others stay where they are.
    pub fn with_shell(mut self) -> Self {
        let tool = shell::tool();
        self.push(on_the_wire(&tool.name.to_string()), tool.clone());
        self
    }

    /// What the tool that proposes commands is called in it, where it has that.
    pub fn shell_name(&self) -> Option<&str> {
        let tools = self.iter();
        tools
            .filter(|(_, tool)| tool.name == shell::tool().name)
            .map(|(wire, _)| wire)
            .next()
    }

    fn push(&mut self, wire: String, tool: Arc<Tool>) {
        self.by_wire.insert(wire.clone(), self.tools.len());
        self.tools.push((wire, tool));
    }

    /// These, by the names that they go out with.
    pub(crate) fn of(tools: impl IntoIterator<Item = Arc<Tool>>) -> Self {
        let mut offer = Self::default();
        for tool in tools {
            offer.push(on_the_wire(&tool.name.to_string()), tool);
        }
        offer
    }

    pub(crate) fn into_tools(self) -> Vec<Arc<Tool>> {
        self.tools.into_iter().map(|(_, it)| it).collect()
    }

    pub(crate) fn with_selection(self, selection: SelectedTools) -> Self {
        Self {
            selection: Some(Arc::new(selection)),
            ..self
        }
    }

    /// Where not all is in it that could be.
    pub fn selection(&self) -> Option<&Arc<SelectedTools>> {
        self.selection.as_ref()
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }

    /// Names as they go out, with their tools.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Tool)> {
        self.tools
            .iter()
            .map(|(wire, tool)| (wire.as_str(), &**tool))
    }

    /// The real name of what a model called, if it was offered. A model may use the real name too.
    pub fn real_name(&self, called: &str) -> Option<&ToolName> {
        let by_wire = self.by_wire.get(called).and_then(|it| self.tools.get(*it));
        if let Some((_, tool)) = by_wire {
            return Some(&tool.name);
        }
        let name: ToolName = called.parse().ok()?;
        let (_, tool) = self.tools.iter().find(|(_, it)| it.name == name)?;
        Some(&tool.name)
    }
}

#[cfg(test)]
mod tests {
    use aishd_log::access::Access;
    use aishd_log::pattern::Patterns;

    use super::*;
    use crate::log_samples::tool;

    fn catalog() -> Catalog {
        let names = ["git__log", "fs__read", "fs__rm.all"];
        Catalog::new(names.map(|it| Arc::new(tool(it, Access::Read))))
    }

    #[test]
    fn what_policy_denies_is_not_offered() {
        let policy = Policy {
            deny: Patterns::new(["fs__read".parse().unwrap()]),
            ..Policy::default()
        };
        let offer = catalog().offer(&policy, |_| true);
        let names: Vec<&str> = offer.iter().map(|(wire, _)| wire).collect();
        assert_eq!(2, names.len());
        assert!(names[0].starts_with("fs__rm_all_x") && names[1] == "git__log");
        for (called, real) in [
            (names[0], Some("fs__rm.all")),
            ("fs__rm.all", Some("fs__rm.all")),
            ("git__log", Some("git__log")),
            ("fs__read", None),
            ("log", None),
        ] {
            assert_eq!(
                real,
                offer.real_name(called).map(ToString::to_string).as_deref()
            );
        }
    }

    #[test]
    fn a_rule_about_nothing_is_noticed() {
        let rules: Vec<Pattern> = ["fs__*", "fs__read", "fs__raed", "web__*"]
            .map(|it| it.parse().unwrap())
            .to_vec();
        let unknown = catalog()
            .unknown_to(rules)
            .into_iter()
            .map(|it| it.to_string());
        assert_eq!(vec!["fs__raed", "web__*"], unknown.collect::<Vec<_>>());
    }
}
