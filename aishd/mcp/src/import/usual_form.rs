//! The form that most programs have: a table of servers, with what runs unasked beside the server whose tool it is. Claude Code,
//! VS Code, Cursor, Windsurf, Cline, Roo Code, Kiro, Gemini, Copilot and Codex.

use serde_json::{Map, Value};

use super::chosen::{self, EmptyList, ListKeys};
use super::foreign_file::{ForeignEntry, ForeignFile};
use super::references::ReferenceSyntax;
use super::tool_rules::{RuleAction, ToolRule};

/// Where servers stand, in the order that is looked in.
pub(super) const TABLES: [&str; 3] = ["mcpServers", "servers", "mcp_servers"];
/// Lists of tools in an entry: of Codex, of Gemini, of Copilot, and of Windsurf and Roo Code.
const TOOL_LISTS: ListKeys<'_> = ListKeys {
    only: &["enabled_tools", "includeTools", "tools"],
    without: &["disabled_tools", "excludeTools", "disabledTools"],
    empty: EmptyList::NoTool,
};
/// Lists of tools that run unasked: of Roo Code, and of Cline and Kiro.
const UNASKED_LISTS: [&str; 2] = ["alwaysAllow", "autoApprove"];

/// `None`: there is no table of servers.
pub(super) fn read(value: &Value) -> Option<ForeignFile> {
    let below = value.pointer("/mcp/servers");
    let known = TABLES.iter().map(|it| value.get(*it)).chain([below]);
    let servers = known.flatten().find_map(Value::as_object)?;
    let mut file = ForeignFile::default();
    let mut has_lists = false;
    for (name, entry) in servers {
        let mut fields = entry.as_object().cloned().unwrap_or_default();
        let mut remarks = vec![];
        // Signs in a name mean themselves, and no other server.
        let prefix = format!("{}/", name.replace(['*', '?'], "_"));
        has_lists |= UNASKED_LISTS.iter().any(|it| names_some(entry.get(it)));
        take_rules(&mut fields, &prefix, &mut file.rules);
        take_excluded(value, name, &prefix, &mut file.rules);
        let tools = chosen::listed(&mut fields, TOOL_LISTS, &mut remarks);
        file.entries.push(ForeignEntry {
            name: name.clone(),
            fields,
            syntax: ReferenceSyntax::Common,
            prefix,
            kept: vec![],
            off: left_out(value, name),
            tools,
            hides_denied: false,
            remarks,
        });
    }
    if has_lists {
        let told = "lists of tools that run unasked (alwaysAllow, autoApprove) count in some programs only while a switch of theirs is on, which stands elsewhere: look at the rules";
        file.remarks.push(told.to_owned());
    }
    Some(file)
}

fn names_some(list: Option<&Value>) -> bool {
    list.and_then(Value::as_array)
        .is_some_and(|it| !it.is_empty())
}

/// What runs unasked, out of an entry.
fn take_rules(fields: &mut Map<String, Value>, prefix: &str, rules: &mut Vec<ToolRule>) {
    let mut say = |tool: &str, action| {
        let pattern = format!("{prefix}{tool}");
        rules.push(ToolRule { pattern, action });
    };
    // Gemini's word for a server of which nothing is asked.
    if fields.remove("trust") == Some(Value::Bool(true)) {
        say("*", RuleAction::Allow);
    }
    if fields
        .get("default_tools_approval_mode")
        .is_some_and(Value::is_string)
    {
        let said = fields.remove("default_tools_approval_mode");
        say("*", approval(said.as_ref()));
    }
    // Codex has a table of tools where others have a list.
    if fields.get("tools").is_some_and(Value::is_object) {
        let tools = fields.remove("tools").unwrap_or_default();
        for (tool, said) in tools.as_object().into_iter().flatten() {
            say(tool, approval(said.get("approval_mode")));
        }
    }
    for key in UNASKED_LISTS {
        if fields.get(key).is_some_and(Value::is_array) {
            let named = fields.remove(key).unwrap_or_default();
            let named = named.as_array().into_iter().flatten();
            for tool in named.filter_map(Value::as_str) {
                say(tool, RuleAction::Allow);
            }
        }
    }
}

/// Gemini's tools that no model is told of, among them those of servers, by the server's name and theirs.
fn take_excluded(value: &Value, name: &str, prefix: &str, rules: &mut Vec<ToolRule>) {
    let lists = ["/tools/exclude", "/excludeTools"];
    let named = lists.iter().filter_map(|it| value.pointer(it)?.as_array());
    for tool in named.flatten().filter_map(Value::as_str) {
        let of_it = |tool: &str| {
            let own = tool.strip_prefix(name).filter(|it| it.starts_with('_'));
            own.map(|it| it.trim_start_matches('_').to_owned())
        };
        // A server may be called `mcp_…` itself.
        let own = of_it(tool).or_else(|| of_it(tool.strip_prefix("mcp_")?));
        if let Some(tool) = own.filter(|it| !it.is_empty() && !it.contains('(')) {
            rules.push(ToolRule {
                pattern: format!("{prefix}{tool}"),
                action: RuleAction::Deny,
            });
        }
    }
}

/// Codex goes by what a server says of its tools where it is `auto`; nothing is believed for that here.
fn approval(said: Option<&Value>) -> RuleAction {
    match said.and_then(Value::as_str) {
        Some("approve") => RuleAction::Allow,
        Some(_) | None => RuleAction::Ask,
    }
}

/// Gemini says beside the servers which of them there are.
fn left_out(value: &Value, name: &str) -> Option<String> {
    let names = |paths: [&str; 2]| {
        let found = paths.iter().find_map(|it| value.pointer(it)?.as_array());
        found.map(|it| it.iter().any(|it| it.as_str() == Some(name)))
    };
    let is_allowed = names(["/mcp/allowed", "/allowMCPServers"]);
    let is_excluded = names(["/mcp/excluded", "/excludeMCPServers"]);
    match (is_allowed, is_excluded) {
        (_, Some(true)) => Some("it is among the excluded servers of the file".to_owned()),
        (Some(false), _) => Some("it is not among the allowed servers of the file".to_owned()),
        _ => None,
    }
}
