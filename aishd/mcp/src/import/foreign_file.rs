//! The files of programs that keep their servers in a way of their own: opencode, Zed, Crush, Goose and Continue. Each entry
//! comes out with the keys that most programs use, and each rule as a pattern over names of tools.

use std::fmt;
use std::path::Path;

use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::chosen_tools::ServerToolChoice;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::chosen::{self, EmptyList, ListKeys};
use super::references::ReferenceSyntax;
use super::tool_rules::{RuleAction, ToolRule};

const MAX_SHOWN_CHARS: usize = 200;

/// Whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportProgram {
    OpenCode,
    Zed,
    Crush,
    Goose,
    Continue,
}

/// A server as it stands there.
#[derive(Debug)]
pub(super) struct ForeignEntry {
    pub(super) name: String,
    pub(super) fields: Map<String, Value>,
    pub(super) syntax: ReferenceSyntax,
    /// What the names of its tools begin with there.
    pub(super) prefix: String,
    /// Variables that it gets there out of a store of secrets.
    pub(super) kept: Vec<String>,
    pub(super) off: Option<String>,
    /// The tools that it has there.
    pub(super) tools: ServerToolChoice,
    /// What the rules deny is among what is left out.
    pub(super) hides_denied: bool,
    pub(super) remarks: Vec<String>,
}

#[derive(Debug, Default)]
pub(super) struct ForeignFile {
    pub(super) entries: Vec<ForeignEntry>,
    pub(super) rules: Vec<ToolRule>,
    pub(super) remarks: Vec<String>,
}

impl ImportProgram {
    /// Whose file this is, as far as its name and what is in it tell; `None`: the form that most have.
    pub(super) fn guess(path: &Path, value: &Value) -> Option<Self> {
        let name = path.file_name().and_then(|it| it.to_str());
        match name.unwrap_or_default() {
            "opencode.json" | "opencode.jsonc" => return Some(Self::OpenCode),
            "crush.json" | ".crush.json" => return Some(Self::Crush),
            _another => {}
        }
        let has = |key: &str| value.get(key).is_some_and(Value::is_object);
        let of_continue = value.pointer("/experimental/modelContextProtocolServers");
        if has("context_servers") {
            Some(Self::Zed)
        } else if value.get("mcpServers").is_some_and(Value::is_array) || of_continue.is_some() {
            Some(Self::Continue)
        } else if has("extensions") && is_yaml(path) {
            Some(Self::Goose)
        } else if has("mcpServers") {
            // Gemini's file has an `mcp` too, which says which of them there are.
            None
        } else if has("mcp") {
            let newer = value.pointer("/mcp/servers");
            let servers = newer.unwrap_or(&value["mcp"]);
            let mut kinds = objects(servers).filter_map(|(_, it)| it.get("type")?.as_str());
            if kinds.any(|it| matches!(it, "local" | "remote")) {
                Some(Self::OpenCode)
            } else {
                newer.is_none().then_some(Self::Crush)
            }
        } else {
            None
        }
    }

    /// `None`: there is no table of servers. `text` is the same once more, for what depends on its order; `beside` is
    /// what that program keeps its rules in, where that is another file.
    pub(super) fn read(
        self,
        value: &Value,
        text: &str,
        beside: Option<&Value>,
    ) -> Option<ForeignFile> {
        match self {
            Self::OpenCode => opencode(value, text),
            Self::Zed => zed(value),
            Self::Crush => crush(value),
            Self::Goose => goose(value, beside),
            Self::Continue => of_continue(value),
        }
    }
}

pub(super) fn is_yaml(path: &Path) -> bool {
    path.extension()
        .is_some_and(|it| it == "yaml" || it == "yml")
}

impl ForeignFile {
    /// What is stricter there than its rules are cannot be said here, so that nothing runs unasked.
    fn ask_again(&mut self, why: &str) {
        let before = self.rules.len();
        self.rules.retain(|it| it.action != RuleAction::Allow);
        if self.rules.len() < before {
            self.remarks.push(format!(
                "{why}: what runs unasked there is asked about here; mcp.auto_approve allows it"
            ));
        }
    }
}

impl ForeignEntry {
    fn new(name: &str, fields: &Map<String, Value>, syntax: ReferenceSyntax) -> Self {
        Self {
            name: name.to_owned(),
            fields: fields.clone(),
            syntax,
            prefix: String::new(),
            kept: vec![],
            off: None,
            tools: ServerToolChoice::default(),
            hides_denied: false,
            remarks: vec![],
        }
    }

    fn rename(&mut self, from: &str, to: &str) {
        if let Some(value) = self.fields.remove(from) {
            self.fields.insert(to.to_owned(), value);
        }
    }

    fn choose(&mut self, only: &[&str], without: &[&str]) {
        let keys = ListKeys {
            only,
            without,
            empty: EmptyList::All,
        };
        self.tools = chosen::listed(&mut self.fields, keys, &mut self.remarks);
    }

    fn remove(&mut self, names: &[&str]) {
        for name in names {
            self.fields.remove(*name);
        }
    }
}

fn objects(value: &Value) -> impl Iterator<Item = (&String, &Map<String, Value>)> {
    let each = value.as_object().into_iter().flatten();
    each.filter_map(|(name, it)| Some((name, it.as_object()?)))
}

fn texts(value: Option<&Value>) -> impl Iterator<Item = &str> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str)
}

fn rule(pattern: impl Into<String>, action: RuleAction) -> ToolRule {
    ToolRule {
        pattern: pattern.into(),
        action,
    }
}

/// A rule there is about a name whose signs all mean themselves.
fn exact(name: &str, action: RuleAction, file: &mut ForeignFile) {
    if name.contains(['*', '?']) {
        let name = one_line(name, MAX_SHOWN_CHARS);
        file.remarks
            .push(format!("{name:?} is no name of a tool here"));
    } else {
        file.rules.push(rule(name, action));
    }
}

// ── opencode ──

/// Entries of an object in the order in which they stand, or one text for all.
#[derive(Debug, Default)]
struct InOrder(Vec<(String, Value)>);

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct OpenCodeRules {
    tools: InOrder,
    permission: InOrder,
}

struct InOrderVisitor;

impl<'de> Visitor<'de> for InOrderVisitor {
    type Value = InOrder;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("rules by name, or one word")
    }

    fn visit_str<E>(self, word: &str) -> Result<InOrder, E> {
        Ok(InOrder(vec![("*".to_owned(), word.into())]))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<InOrder, A::Error> {
        let mut all = vec![];
        while let Some(entry) = map.next_entry()? {
            all.push(entry);
        }
        Ok(InOrder(all))
    }
}

impl<'de> Deserialize<'de> for InOrder {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InOrderVisitor)
    }
}

fn opencode(value: &Value, text: &str) -> Option<ForeignFile> {
    let mcp = value.get("mcp")?;
    // The second version has them one table further down.
    let newer = mcp.get("servers").filter(|it| it.get("type").is_none());
    let servers = newer.unwrap_or(mcp);
    let mut file = ForeignFile::default();
    for (name, fields) in objects(servers) {
        let mut entry = ForeignEntry::new(name, fields, ReferenceSyntax::Braces);
        entry.rename("environment", "env");
        let sign = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '-');
        let plain = name.chars().map(|it| if sign(it) { it } else { '_' });
        entry.prefix = plain.chain(['_']).collect();
        file.entries.push(entry);
    }
    let options = jsonc_parser::ParseOptions::default();
    let rules = jsonc_parser::parse_to_serde_value::<Option<OpenCodeRules>>(text, &options);
    let Ok(rules) = rules.map(Option::unwrap_or_default) else {
        let unread = "its rules about tools cannot be read; none of them is taken over";
        file.remarks.push(unread.to_owned());
        return Some(file);
    };
    for (pattern, said) in rules.tools.0.into_iter().chain(rules.permission.0) {
        let action = match said {
            Value::Bool(false) => RuleAction::Deny,
            Value::Bool(true) => RuleAction::Allow,
            Value::String(word) if word == "allow" => RuleAction::Allow,
            Value::String(word) if word == "deny" => RuleAction::Deny,
            // By what a tool is called with: of servers' tools that is always the same, and to ask is never too much.
            _another => RuleAction::Ask,
        };
        file.rules.push(rule(pattern, action));
    }
    // There what is denied is not shown to models at all.
    for entry in &mut file.entries {
        if let Some(chosen) = chosen::ruled(&file.rules, &entry.prefix) {
            entry.tools = chosen;
            entry.hides_denied = true;
        }
    }
    let has_rules = |it: &Value| it.get("tools").or_else(|| it.get("permission")).is_some();
    let modes = ["agent", "mode"].map(|it| value.get(it).unwrap_or(&Value::Null));
    let mut modes = modes.into_iter().flat_map(objects);
    if modes.any(|(_, it)| has_rules(&Value::Object(it.clone()))) {
        file.ask_again("its agents have rules of their own");
    }
    Some(file)
}

// ── Zed ──

fn zed(value: &Value) -> Option<ForeignFile> {
    let servers = value.get("context_servers")?;
    let mut file = ForeignFile::default();
    for (name, fields) in objects(servers) {
        let mut entry = ForeignEntry::new(name, fields, ReferenceSyntax::None);
        // Once the command was a table.
        if let Some(Value::Object(command)) = fields.get("command") {
            entry.fields.extend(command.clone());
            entry.rename("path", "command");
            if fields["command"].get("path").is_none() {
                entry.fields.remove("command");
            }
        }
        if !entry.fields.contains_key("command") && !entry.fields.contains_key("url") {
            let why = "it is an extension of Zed, which alone knows how it starts".to_owned();
            entry.off = Some(why);
        }
        entry.remove(&["source", "settings", "remote"]);
        entry.prefix = format!("mcp:{name}:");
        file.entries.push(entry);
    }
    let agent = value.get("agent").unwrap_or(&Value::Null);
    let by_default = agent.pointer("/tool_permissions/default");
    let all = agent.get("always_allow_tool_actions") == Some(&Value::Bool(true))
        || by_default.and_then(Value::as_str) == Some("allow");
    if all {
        file.rules.push(rule("*", RuleAction::Allow));
    }
    if by_default.and_then(Value::as_str) == Some("deny") {
        file.rules.push(rule("*", RuleAction::Deny));
    }
    let tools = agent.pointer("/tool_permissions/tools");
    for (name, said) in objects(tools.unwrap_or(&Value::Null)) {
        let has = |key: &str| {
            let patterns = said.get(key).and_then(Value::as_array);
            patterns.is_some_and(|it| !it.is_empty())
        };
        let is_bounded = has("always_deny") || has("always_confirm");
        let action = match said.get("default").and_then(Value::as_str) {
            Some("allow") if !is_bounded => RuleAction::Allow,
            Some("deny") => RuleAction::Deny,
            Some(_) | None => RuleAction::Ask,
        };
        exact(name, action, &mut file);
    }
    // What its usual profile takes away.
    let profile = agent.get("default_profile").and_then(Value::as_str);
    let profile = agent
        .get("profiles")
        .and_then(|it| it.get(profile.unwrap_or("write")));
    let takes_all = profile.and_then(|it| it.get("enable_all_context_servers"));
    let takes_all = takes_all != Some(&Value::Bool(false));
    let servers = profile.and_then(|it| it.get("context_servers"));
    for entry in &mut file.entries {
        let said = servers.and_then(|it| it.get(&entry.name)?.get("tools")?.as_object());
        let named = |is_there: bool| -> Vec<String> {
            let all = said.into_iter().flatten();
            let these = all.filter(|(_, it)| **it == Value::Bool(is_there));
            these.map(|(name, _)| name.clone()).collect()
        };
        let lists = if takes_all {
            json!({"without": named(false)})
        } else {
            json!({"only": named(true)})
        };
        let keys = ListKeys {
            only: &["only"],
            without: &["without"],
            empty: EmptyList::NoTool,
        };
        let mut lists = lists.as_object().cloned().unwrap_or_default();
        entry.tools = chosen::listed(&mut lists, keys, &mut entry.remarks);
    }
    Some(file)
}

// ── Crush ──

fn crush(value: &Value) -> Option<ForeignFile> {
    let mut file = ForeignFile::default();
    let allowed = value.pointer("/permissions/allowed_tools");
    for name in texts(allowed) {
        // `tool:action` is one action of a tool of its own.
        exact(name, RuleAction::Allow, &mut file);
    }
    for (name, fields) in objects(value.get("mcp")?) {
        let mut entry = ForeignEntry::new(name, fields, ReferenceSyntax::Shell);
        entry.prefix = format!("mcp_{name}_");
        entry.choose(&["enabled_tools"], &["disabled_tools"]);
        file.entries.push(entry);
    }
    Some(file)
}

// ── Goose ──

fn goose(value: &Value, beside: Option<&Value>) -> Option<ForeignFile> {
    let mut file = ForeignFile::default();
    let mut own = vec![];
    for (key, fields) in objects(value.get("extensions")?) {
        let kind = fields.get("type").and_then(Value::as_str);
        let is_server = match kind.unwrap_or_default() {
            "stdio" | "sse" | "streamable_http" => true,
            "builtin" | "platform" | "frontend" | "inline_python" => false,
            _unknown => fields.contains_key("cmd") || fields.contains_key("uri"),
        };
        if !is_server {
            own.push(key.as_str());
            continue;
        }
        file.entries.push(goose_entry(key, fields));
    }
    if !own.is_empty() {
        let own = one_line(&own.join(", "), MAX_SHOWN_CHARS);
        file.remarks
            .push(format!("parts of Goose, which are no servers: {own}"));
    }
    let person = beside.and_then(|it| it.get("user"));
    for (key, action) in [
        ("always_allow", RuleAction::Allow),
        ("ask_before", RuleAction::Ask),
        ("never_allow", RuleAction::Deny),
    ] {
        for name in texts(person.and_then(|it| it.get(key))) {
            exact(name, action, &mut file);
        }
    }
    Some(file)
}

fn goose_entry(key: &str, fields: &Map<String, Value>) -> ForeignEntry {
    let is_remote = fields.contains_key("uri");
    // Only headers may name variables.
    let syntax = if is_remote {
        ReferenceSyntax::Common
    } else {
        ReferenceSyntax::None
    };
    let mut entry = ForeignEntry::new(key, fields, syntax);
    entry.prefix = format!("{key}__");
    entry.rename("cmd", "command");
    entry.rename("uri", "url");
    entry.rename("envs", "env");
    let kept: Vec<String> = texts(fields.get("env_keys")).map(str::to_owned).collect();
    if is_remote {
        put_in(&mut entry);
    }
    entry.choose(&["available_tools"], &[]);
    entry.remove(&["env_keys", "bundled", "display_name"]);
    entry.kept = kept;
    entry
}

/// Headers name variables that stand beside them.
fn put_in(entry: &mut ForeignEntry) {
    let Some(Value::Object(known)) = entry.fields.remove("env") else {
        return;
    };
    let headers = entry
        .fields
        .get_mut("headers")
        .and_then(Value::as_object_mut);
    for value in headers.into_iter().flat_map(|it| it.values_mut()) {
        for (name, known) in &known {
            if let (Value::String(text), Some(known)) = (&mut *value, known.as_str()) {
                *text = text.replace(&format!("${{{name}}}"), known);
            }
        }
    }
}

// ── Continue ──

fn of_continue(value: &Value) -> Option<ForeignFile> {
    let older = value.pointer("/experimental/modelContextProtocolServers");
    let newer = value.get("mcpServers").filter(|it| it.is_array());
    older.or(newer)?;
    let mut file = ForeignFile::default();
    let each = [newer, older].into_iter().flatten();
    let each = each.filter_map(Value::as_array).flatten();
    for (at, fields) in each.filter_map(Value::as_object).enumerate() {
        let name = fields.get("name").and_then(Value::as_str);
        let name = name.map_or_else(|| format!("server-{}", at + 1), str::to_owned);
        let mut entry = ForeignEntry::new(&name, fields, ReferenceSyntax::Template);
        if let Some(Value::Object(transport)) = entry.fields.remove("transport") {
            entry.fields.extend(transport);
        }
        if let Some(Value::Object(mut options)) = entry.fields.remove("requestOptions") {
            if let Some(headers) = options.remove("headers") {
                entry.fields.insert("headers".to_owned(), headers);
            }
            entry.fields.extend(options);
        }
        if entry.fields.contains_key("uses") {
            let why = "it stands at Continue's hub, and nothing is fetched from there".to_owned();
            entry.off = Some(why);
        }
        entry.remove(&["serverName", "faviconUrl", "sourceFile", "uses", "with"]);
        file.entries.push(entry);
    }
    Some(file)
}
