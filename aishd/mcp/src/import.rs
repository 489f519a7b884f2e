//! MCP servers out of the files of other programs: what each entry would be in our configuration,
//! and what of it cannot be taken over. Nothing is started, and no variable is put in.

use std::collections::BTreeMap;
use std::path::Path;

use aishd_log::profile::Profile;
use aishd_log::tool_name::Alias;
use aishd_mcp_messages::bounded_text::one_line;
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde::Serialize;
use serde_json::{Map, Value};

/// The keys under which programs keep their servers.
const TABLES: [&str; 3] = ["mcpServers", "servers", "mcp_servers"];
/// Keys of an entry that are understood, or mean nothing here.
const KNOWN: [&str; 19] = [
    "type",
    "transport",
    "url",
    "httpUrl",
    "serverUrl",
    "headers",
    "http_headers",
    "bearer_token_env_var",
    "command",
    "args",
    "env",
    "cwd",
    "enabled",
    "disabled",
    "name",
    "description",
    "icon",
    "tools",
    "trust",
];
const MAX_SHOWN_CHARS: usize = 200;
/// What would hold an imported program.
const OFFER: &str = "# contain = \"workspace\"   # it would write only in its cwd and what `write` names, see no keys, and reach only what `hosts` names";

/// One entry, as it would be with us.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundServer {
    pub alias: Alias,
    /// Its name in the file.
    pub name: String,
    /// The URL or the command.
    pub endpoint: String,
    /// Why it would be switched off, if it would.
    pub off: Option<String>,
    /// Its table for our configuration file.
    pub toml: String,
    /// What was changed or left out.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum McpImportError {
    #[error("{0}")]
    Unreadable(String),
    #[error("it has no table of servers: none of {}", TABLES.join(", "))]
    NoServers,
}

/// An entry as it is written into our configuration.
#[derive(Debug, Default, Serialize)]
struct ImportEntry {
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    auth_env: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    args: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    contain: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hosts: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled: Option<bool>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
}

/// What the programs among imported servers are held to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportHold {
    /// `None`: nothing is said of it, but for a line that would.
    pub contain: Option<Profile>,
    /// Hosts that they may reach then.
    pub hosts: Vec<String>,
}

/// Reads a file's text; its name says whether it is TOML. A server keeps its name though there is one of that name
/// already: it may well be the same.
pub fn read(
    text: &str,
    path: &Path,
    held: &ImportHold,
) -> Result<Vec<FoundServer>, McpImportError> {
    let is_toml = path.extension().is_some_and(|it| it == "toml");
    let value = if is_toml {
        toml::from_str::<Value>(text)
            .map_err(|error| McpImportError::Unreadable(error.message().to_owned()))?
    } else {
        let parsed = parse_to_serde_value::<Option<Value>>(text, &ParseOptions::default());
        let parsed = parsed.map_err(|error| McpImportError::Unreadable(error.to_string()))?;
        parsed.unwrap_or_default()
    };
    let tables = TABLES.iter().find_map(|it| value.get(*it)?.as_object());
    let servers = tables.ok_or(McpImportError::NoServers)?;
    let mut all: Vec<FoundServer> = vec![];
    for (name, entry) in servers {
        let known = |it: &Alias| all.iter().any(|found| found.alias == *it);
        let alias = Alias::near(name, known);
        all.push(one((alias, name), entry, path, held));
    }
    Ok(all)
}

fn one((alias, name): (Alias, &str), entry: &Value, path: &Path, held: &ImportHold) -> FoundServer {
    let mut reader = ImportReader {
        remarks: vec![],
        off: None,
        folder: workspace(path),
    };
    if alias.as_str() != name {
        let renamed = format!(
            "{:?} is called {alias} here",
            one_line(name, MAX_SHOWN_CHARS)
        );
        reader.remarks.push(renamed);
    }
    let empty = Map::new();
    let fields = entry.as_object().unwrap_or(&empty);
    let mut read = reader.entry(fields);
    for key in fields.keys().filter(|it| !KNOWN.contains(&it.as_str())) {
        let left_out = format!("{} is left out", one_line(key, MAX_SHOWN_CHARS));
        reader.remarks.push(left_out);
    }
    if reader.off.is_some() {
        read.enabled = Some(false);
    }
    let is_program = read.command.is_some();
    if is_program {
        read.contain = held.contain.map(Profile::word);
        read.hosts.clone_from(&held.hosts);
    }
    let unsaid = is_program && held.contain.is_none();
    let endpoint = match (&read.url, &read.command) {
        (Some(url), _) => url.clone(),
        (None, Some(command)) => {
            let words = std::iter::once(command).chain(&read.args);
            words.map(String::as_str).collect::<Vec<_>>().join(" ")
        }
        (None, None) => String::new(),
    };
    let table = BTreeMap::from([(alias.to_string(), read)]);
    let table = BTreeMap::from([("servers", table)]);
    let table = BTreeMap::from([("mcp", table)]);
    FoundServer {
        alias,
        name: name.to_owned(),
        endpoint: one_line(&endpoint, MAX_SHOWN_CHARS),
        off: reader.off,
        // Strings in tables of strings: there is nothing that TOML could not hold.
        toml: with_offer(toml::to_string(&table).unwrap_or_default(), unsaid),
        remarks: reader.remarks,
    }
}

/// With the line that would hold the program, as a comment in its table.
fn with_offer(toml: String, is_offered: bool) -> String {
    let head = toml.find('\n').filter(|_| is_offered);
    match head {
        Some(end) => format!("{}\n{OFFER}{}", &toml[..end], &toml[end..]),
        None => toml,
    }
}

/// What `${workspaceFolder}` means in a file: the folder that the file is about.
fn workspace(path: &Path) -> Option<String> {
    let folder = path.parent()?;
    let inside = [".vscode", ".cursor"];
    let about = match folder.file_name().and_then(|it| it.to_str()) {
        Some(name) if inside.contains(&name) => folder.parent()?,
        Some(_) | None => folder,
    };
    Some(about.display().to_string())
}

struct ImportReader {
    remarks: Vec<String>,
    off: Option<String>,
    folder: Option<String>,
}

impl ImportReader {
    fn entry(&mut self, fields: &Map<String, Value>) -> ImportEntry {
        let kind = ["type", "transport"]
            .iter()
            .find_map(|it| fields.get(*it)?.as_str());
        if kind.is_some_and(|it| it.starts_with("ws") || it.starts_with("websocket")) {
            self.switch_off("WebSocket is not supported".to_owned());
        }
        let disabled = fields.get("disabled") == Some(&Value::Bool(true))
            || fields.get("enabled") == Some(&Value::Bool(false));
        if disabled {
            self.switch_off("it is switched off in the file".to_owned());
        }
        let url = ["url", "httpUrl", "serverUrl"]
            .iter()
            .find_map(|it| fields.get(*it)?.as_str());
        let mut entry = ImportEntry::default();
        if let Some(url) = url {
            entry.url = Some(self.text(url));
            for key in ["headers", "http_headers"] {
                entry.headers.extend(self.table(fields.get(key)));
            }
            let named = fields.get("bearer_token_env_var").and_then(Value::as_str);
            entry.auth_env = named
                .map(str::to_owned)
                .or_else(|| token(&mut entry.headers));
            if entry
                .headers
                .keys()
                .any(|it| it.eq_ignore_ascii_case("authorization"))
            {
                let better = "a token stands in the file; auth_env keeps it out".to_owned();
                self.remarks.push(better);
            }
        } else {
            let mut words = self.words(fields.get("command"));
            words.extend(self.words(fields.get("args")));
            let mut words = words.into_iter();
            entry.command = words.next();
            entry.args = words.collect();
            entry.env = self.table(fields.get("env"));
            let cwd = fields.get("cwd").and_then(Value::as_str);
            entry.cwd = cwd.map(|it| self.text(it));
            if entry.command.is_none() {
                self.switch_off("it has no url and no command".to_owned());
            }
        }
        entry
    }

    fn switch_off(&mut self, why: String) {
        self.off.get_or_insert(why);
    }

    fn words(&mut self, value: Option<&Value>) -> Vec<String> {
        match value {
            Some(Value::String(text)) => vec![self.text(text)],
            Some(Value::Array(items)) => items.iter().map(|it| self.plain(it)).collect(),
            Some(_) | None => vec![],
        }
    }

    fn table(&mut self, value: Option<&Value>) -> BTreeMap<String, String> {
        let fields = value.and_then(Value::as_object).into_iter().flatten();
        fields
            .map(|(name, it)| (name.clone(), self.plain(it)))
            .collect()
    }

    fn plain(&mut self, value: &Value) -> String {
        match value {
            Value::String(text) => self.text(text),
            Value::Null => String::new(),
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                other.to_string()
            }
        }
    }

    /// Every way to write a variable becomes ours.
    fn text(&mut self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find('$') {
            let (before, reference) = rest.split_at(at);
            out.push_str(before);
            let (whole, inside) = match reference.strip_prefix("${") {
                Some(inside) => match inside.find('}') {
                    Some(end) => (&reference[..end + 3], &inside[..end]),
                    None => (reference, ""),
                },
                None => {
                    let name = |it: char| it.is_ascii_alphanumeric() || it == '_';
                    let end = reference[1..].find(|it| !name(it));
                    let end = end.map_or(reference.len(), |it| it + 1);
                    (&reference[..end], &reference[1..end])
                }
            };
            out.push_str(&self.reference(whole, inside));
            rest = &reference[whole.len()..];
        }
        out.push_str(rest);
        out
    }

    fn reference(&mut self, whole: &str, inside: &str) -> String {
        if inside.starts_with("input:") {
            self.switch_off(format!(
                "{whole} is asked of a person, and a daemon cannot ask"
            ));
            return whole.to_owned();
        }
        if matches!(inside, "workspaceFolder" | "workspaceRoot") {
            return self.folder.clone().unwrap_or_else(|| whole.to_owned());
        }
        match inside {
            "userHome" => "${HOME}".to_owned(),
            "" | "pathSeparator" | "/" => whole.to_owned(),
            name if name.starts_with(|it: char| it.is_ascii_digit()) => whole.to_owned(),
            name => format!("${{{}}}", name.strip_prefix("env:").unwrap_or(name)),
        }
    }
}

/// The variable in `Authorization: Bearer ${NAME}`, which then needs no header.
fn token(headers: &mut BTreeMap<String, String>) -> Option<String> {
    let name = headers
        .keys()
        .find(|it| it.eq_ignore_ascii_case("authorization"))?;
    let name = name.clone();
    let variable = headers
        .get(&name)?
        .strip_prefix("Bearer ${")?
        .strip_suffix('}')?;
    let plain = variable
        .bytes()
        .all(|it| it.is_ascii_alphanumeric() || it == b'_');
    let variable = plain.then(|| variable.to_owned())?;
    headers.remove(&name);
    Some(variable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, text: &str, expected: &str) {
        let found = read(text, Path::new(path), &ImportHold::default());
        let seen = match found {
            Ok(found) => {
                let each = found.iter().map(|it| {
                    let off = it.off.iter().map(|it| format!("# off: {it}\n"));
                    let remarks = it.remarks.iter().map(|it| format!("# {it}\n"));
                    let notes: String = off.chain(remarks).collect();
                    let toml = it.toml.replace(&format!("{OFFER}\n"), "");
                    format!("{notes}{toml}")
                });
                each.collect::<Vec<_>>().join("\n")
            }
            Err(error) => format!("error: {error}"),
        };
        assert_eq!(expected, seen, "{path}");
    }

    #[test]
    fn the_files_of_other_programs_are_understood() {
        // Claude Code.
        check(
            "/p/.mcp.json",
            r#"{"mcpServers": {
                "git.hub": {"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${GH}", "X": "1"}},
                "a__b": {"command": "npx", "args": ["-y", "${PKG:-x}"], "env": {"K": "${KEY}"}}
            }}"#,
            "# \"a__b\" is called a_b here\n[mcp.servers.a_b]\ncommand = \"npx\"\nargs = [\"-y\", \"${PKG:-x}\"]\n\n\
             [mcp.servers.a_b.env]\nK = \"${KEY}\"\n\n\
             # \"git.hub\" is called git-hub here\n[mcp.servers.git-hub]\nurl = \"https://h/mcp\"\nauth_env = \"GH\"\n\n\
             [mcp.servers.git-hub.headers]\nX = \"1\"\n",
        );
        // VS Code: comments, another key, questions to a person.
        check(
            "/p/.vscode/mcp.json",
            r#"{ // servers of this project
                "inputs": [{"id": "k"}],
                "servers": {
                    "asks": {"url": "https://h", "headers": {"K": "${input:k}"}},
                    "here": {"command": "run", "cwd": "${workspaceFolder}/x", "envFile": "y",},
                }
            }"#,
            "# off: ${input:k} is asked of a person, and a daemon cannot ask\n\
             [mcp.servers.asks]\nurl = \"https://h\"\nenabled = false\n\n[mcp.servers.asks.headers]\nK = \"${input:k}\"\n\n\
             # envFile is left out\n[mcp.servers.here]\ncommand = \"run\"\ncwd = \"/p/x\"\n",
        );
        // Cursor, Gemini and Codex.
        check(
            "/h/.cursor/mcp.json",
            r#"{"mcpServers": {"c": {"command": "x", "env": {"T": "${env:TOKEN}"}}}}"#,
            "[mcp.servers.c]\ncommand = \"x\"\n\n[mcp.servers.c.env]\nT = \"${TOKEN}\"\n",
        );
        check(
            "/h/.gemini/settings.json",
            r#"{"mcpServers": {"g": {"httpUrl": "https://h/$PATH_PART/mcp", "trust": true}}}"#,
            "[mcp.servers.g]\nurl = \"https://h/${PATH_PART}/mcp\"\n",
        );
        check(
            "/h/.codex/config.toml",
            "[mcp_servers.x]\nurl = \"https://h\"\nbearer_token_env_var = \"T\"\n",
            "[mcp.servers.x]\nurl = \"https://h\"\nauth_env = \"T\"\n",
        );
    }

    #[test]
    fn a_program_is_held_where_that_is_said_and_the_line_for_it_is_offered_else() {
        let text = r#"{"mcpServers": {"p": {"command": "x", "env": {"A": "1"}}, "u": {"url": "https://h"}}}"#;
        let toml = |contain| {
            let held = ImportHold {
                contain,
                hosts: vec![],
            };
            let found = read(text, Path::new("a.json"), &held).unwrap();
            found.into_iter().map(|it| it.toml).collect::<String>()
        };
        let url = "[mcp.servers.u]\nurl = \"https://h\"\n";
        let env = "\n[mcp.servers.p.env]\nA = \"1\"\n";
        assert_eq!(
            format!("[mcp.servers.p]\ncommand = \"x\"\ncontain = \"workspace\"\n{env}{url}"),
            toml(Some(Profile::Workspace))
        );
        let offered = toml(None);
        assert_eq!(
            format!("[mcp.servers.p]\n{OFFER}\ncommand = \"x\"\n{env}{url}"),
            offered
        );
        let taken = offered.replace("# contain", "contain");
        assert!(toml::from_str::<Value>(&taken).is_ok(), "{taken}");
    }

    #[test]
    fn what_cannot_be_taken_over_says_so() {
        check(
            "a.json",
            r#"{"mcpServers": {"w": {"type": "ws", "url": "wss://h"}, "e": {}, "d": {"command": "x", "disabled": true}, "t": {"url": "https://h", "headers": {"Authorization": "Bearer s3cret"}}}}"#,
            "# off: it is switched off in the file\n[mcp.servers.d]\ncommand = \"x\"\nenabled = false\n\n\
             # off: it has no url and no command\n[mcp.servers.e]\nenabled = false\n\n\
             # a token stands in the file; auth_env keeps it out\n[mcp.servers.t]\nurl = \"https://h\"\n\n\
             [mcp.servers.t.headers]\nAuthorization = \"Bearer s3cret\"\n\n\
             # off: WebSocket is not supported\n[mcp.servers.w]\nurl = \"wss://h\"\nenabled = false\n",
        );
        check(
            "a.json",
            "{}",
            "error: it has no table of servers: none of mcpServers, servers, mcp_servers",
        );
        check(
            "a.json",
            "",
            "error: it has no table of servers: none of mcpServers, servers, mcp_servers",
        );
        let broken = read(
            "{\"mcpServers\": {\n  nonsense",
            Path::new("a.json"),
            &ImportHold::default(),
        );
        assert!(broken.unwrap_err().to_string().contains("line 2"));
    }

    /// What is printed can be put into the configuration as it is.
    #[test]
    fn tables_for_the_configuration_are_read_again() {
        let text = r#"{"mcpServers": {"a": {"command": "x\"y", "env": {"A B": "\n${C}"}}, "a ": {"url": "https://h"}}}"#;
        let found = read(text, Path::new("a.json"), &ImportHold::default()).unwrap();
        let tables: String = found.iter().map(|it| it.toml.clone()).collect();
        let read: toml::Table = toml::from_str(&tables).unwrap();
        let servers = read["mcp"]["servers"].as_table().unwrap();
        assert_eq!(vec!["a", "a-2"], servers.keys().collect::<Vec<_>>());
        assert_eq!(Some("x\"y"), servers["a"]["command"].as_str());
    }
}
