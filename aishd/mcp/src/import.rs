//! MCP servers out of the files of other programs: what each entry would be in our configuration,
//! and what of it cannot be taken over. Nothing is started, and no variable is put in.

mod chosen;
mod foreign_file;
mod references;
mod tool_rules;
mod usual_form;
mod yaml;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

use aishd_log::profile::Profile;
use aishd_log::tool_name::Alias;
use aishd_mcp_messages::bounded_text::one_line;
use aishd_mcp_messages::{confidential, secret_name};
use jsonc_parser::{ParseOptions, parse_to_serde_value};
use serde::Serialize;
use serde_json::{Map, Value};

pub use self::foreign_file::ImportProgram;
use self::foreign_file::{ForeignEntry, ForeignFile, is_yaml};
use self::references::{ReferenceSyntax, translate};
use self::tool_rules::{RuleServer, carried};

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
    "env_vars",
    "env_http_headers",
];
const MAX_SHOWN_CHARS: usize = 200;
/// What is shown where a secret stands.
const MARK: &str = "[key]";
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
    /// Its table for our configuration file; empty where there is nothing to connect to.
    pub toml: String,
    /// What was changed or left out.
    pub remarks: Vec<String>,
}

/// The text of another program's file.
#[derive(Clone, Copy)]
pub struct ImportText<'a> {
    pub text: &'a str,
    /// Its ending says what form it has, its folder is the workspace.
    pub path: &'a Path,
    /// Whose it is; `None`: what it looks like.
    pub program: Option<ImportProgram>,
    /// What Goose keeps its rules in: the text of the permission.yaml beside it.
    pub beside: Option<&'a str>,
}

/// It may hold tokens.
impl fmt::Debug for ImportText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ImportText")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

/// What a file comes to here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportedFile {
    pub servers: Vec<FoundServer>,
    /// Tables with the rules about their tools; empty: there are none.
    pub rules: String,
    /// What of the rules, or of the file as a whole, was left out.
    pub remarks: Vec<String>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum McpImportError {
    #[error("{0}")]
    Unreadable(String),
    #[error("it has no table of servers: none of {}", known_tables().join(", "))]
    NoServers,
}

fn known_tables() -> Vec<&'static str> {
    let others = ["context_servers", "mcp", "extensions"];
    usual_form::TABLES.into_iter().chain(others).collect()
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
    tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    without_tools: Vec<String>,
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

/// Who sees the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImportSight {
    /// The configuration, with all that stands in the file.
    #[default]
    Whole,
    /// A person: secrets are covered.
    Covered,
}

/// What the programs among imported servers are held to, and who sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportHold {
    /// `None`: nothing is said of it, but for a line that would.
    pub contain: Option<Profile>,
    /// Hosts that they may reach then.
    pub hosts: Vec<String>,
    pub sight: ImportSight,
}

/// Reads a file's text. A server keeps its name though there is one of that name already: it may well be the same.
pub fn read(source: ImportText<'_>, held: &ImportHold) -> Result<ImportedFile, McpImportError> {
    let path = source.path;
    let value = value(source.text, path)?;
    let beside = source.beside.map(yaml::read).transpose();
    let beside = beside.map_err(|error| {
        McpImportError::Unreadable(format!("permission.yaml beside it: {error}"))
    })?;
    let program = source
        .program
        .or_else(|| ImportProgram::guess(path, &value));
    let foreign = match program {
        Some(program) => program.read(&value, source.text, beside.as_ref()),
        None => None,
    };
    let foreign = foreign.or_else(|| usual_form::read(&value));
    let ForeignFile {
        entries,
        rules,
        mut remarks,
    } = foreign.ok_or(McpImportError::NoServers)?;
    let mut servers: Vec<FoundServer> = vec![];
    let mut ruled = vec![];
    for entry in entries {
        let known = |it: &Alias| it.is_own() || servers.iter().any(|found| found.alias == *it);
        let alias = Alias::near(&entry.name, known);
        let (prefix, tools) = (entry.prefix.clone(), entry.tools.clone());
        let hides_denied = entry.hides_denied;
        let server = one(alias.clone(), entry, path, held);
        ruled.push(RuleServer {
            alias,
            prefix,
            is_there: !server.toml.is_empty(),
            tools,
            hides_denied,
        });
        servers.push(server);
    }
    let carried = carried(&rules, &ruled);
    remarks.extend(carried.remarks.iter().cloned());
    Ok(ImportedFile {
        servers,
        rules: carried.toml(),
        remarks,
    })
}

fn value(text: &str, path: &Path) -> Result<Value, McpImportError> {
    if path.extension().is_some_and(|it| it == "toml") {
        return toml::from_str::<Value>(text)
            .map_err(|error| McpImportError::Unreadable(error.message().to_owned()));
    }
    if is_yaml(path) {
        return yaml::read(text).map_err(|error| McpImportError::Unreadable(error.to_string()));
    }
    let parsed = parse_to_serde_value::<Option<Value>>(text, &ParseOptions::default());
    let parsed = parsed.map_err(|error| McpImportError::Unreadable(error.to_string()))?;
    Ok(parsed.unwrap_or_default())
}

fn one(alias: Alias, entry: ForeignEntry, path: &Path, held: &ImportHold) -> FoundServer {
    let ForeignEntry {
        name,
        fields,
        syntax,
        kept,
        off,
        remarks,
        tools,
        prefix: _,
        hides_denied: _,
    } = entry;
    let mut reader = ImportReader {
        remarks,
        off,
        folder: workspace(path),
        syntax,
        kept: kept.iter().cloned().collect(),
    };
    if alias.as_str() != name {
        let renamed = format!(
            "{:?} is called {alias} here",
            one_line(&name, MAX_SHOWN_CHARS)
        );
        reader.remarks.insert(0, renamed);
    }
    let mut read = reader.entry(&fields);
    read.tools = tools.only().map(<[String]>::to_vec);
    read.without_tools = tools.without().to_vec();
    if read.command.is_some() {
        let given = kept.iter().map(|it| (it.clone(), format!("${{{it}}}")));
        read.env.extend(given);
    }
    for name in &reader.kept {
        reader.remarks.push(format!(
            "{} is among that program's secrets; the daemon needs it as a variable",
            one_line(name, MAX_SHOWN_CHARS)
        ));
    }
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
    if held.sight == ImportSight::Covered && read.cover() {
        let told = "secrets are covered here; --write takes them into your file as they are";
        reader.remarks.push(told.to_owned());
    }
    let endpoint = read.endpoint();
    let is_somewhere = is_program || read.url.is_some();
    let table = BTreeMap::from([(alias.to_string(), read)]);
    let table = BTreeMap::from([("servers", table)]);
    let table = BTreeMap::from([("mcp", table)]);
    FoundServer {
        alias,
        name,
        endpoint: one_line(&endpoint, MAX_SHOWN_CHARS),
        off: reader.off,
        // Strings in tables of strings: there is nothing that TOML could not hold.
        toml: if is_somewhere {
            with_offer(toml::to_string(&table).unwrap_or_default(), unsaid)
        } else {
            String::new()
        },
        remarks: reader.remarks,
    }
}

impl ImportEntry {
    /// As people see it.
    fn endpoint(&self) -> String {
        let words = match (&self.url, &self.command) {
            (Some(url), _) => vec![url.clone()],
            (None, Some(command)) => {
                let words = std::iter::once(command).chain(&self.args);
                words.cloned().collect()
            }
            (None, None) => vec![],
        };
        confidential::covered(&words).join(" ")
    }

    /// Covers what is secret; whether anything was.
    fn cover(&mut self) -> bool {
        let mut is_covered = false;
        let tables = self.env.iter_mut().chain(&mut self.headers);
        for (_, value) in tables.filter(|(name, _)| secret_name::is_secret_name(name)) {
            if !value.is_empty() && !is_reference(value) {
                MARK.clone_into(value);
                is_covered = true;
            }
        }
        let args = confidential::covered(&self.args);
        let url: Vec<String> = self.url.iter().cloned().collect();
        let shown = confidential::covered(&url).pop();
        is_covered |= args != self.args || shown != self.url;
        (self.args, self.url) = (args, shown);
        is_covered
    }
}

/// The name of a variable and nothing else, behind a word that says what kind of key it is.
fn is_reference(value: &str) -> bool {
    let bare = value
        .strip_prefix("Bearer ")
        .or_else(|| value.strip_prefix("Basic "))
        .unwrap_or(value);
    let name = bare.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
    let plain = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    name.is_some_and(|it| it.bytes().all(plain))
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
    let inside = [".vscode", ".cursor", ".codex", ".gemini", ".roo"];
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
    syntax: ReferenceSyntax,
    /// Variables that a store of secrets holds there.
    kept: BTreeSet<String>,
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
            entry.url = self.text("url", url);
            for key in ["headers", "http_headers"] {
                entry.headers.extend(self.table(fields.get(key)));
            }
            let named = fields.get("env_http_headers").and_then(Value::as_object);
            for (header, variable) in named.into_iter().flatten() {
                if let Some(variable) = self.named_variable("env_http_headers", variable) {
                    let value = format!("${{{variable}}}");
                    entry.headers.insert(header.clone(), value);
                }
            }
            let named = fields.get("bearer_token_env_var").and_then(Value::as_str);
            entry.auth_env = named
                .map(str::to_owned)
                .or_else(|| token(&mut entry.headers));
            // One that names a variable with another value for its absence holds no token.
            if entry.headers.iter().any(|(name, value)| {
                name.eq_ignore_ascii_case("authorization") && !value.contains("${")
            }) {
                let better = "a token stands in the file; auth_env keeps it out".to_owned();
                self.remarks.push(better);
            }
        } else {
            let mut words = self.words("command", fields.get("command"));
            if !words.is_empty() {
                words.extend(self.words("args", fields.get("args")));
            }
            let mut words = words.into_iter();
            entry.command = words.next();
            entry.args = words.collect();
            entry.env = self.table(fields.get("env"));
            let passed = fields.get("env_vars").and_then(Value::as_array);
            for variable in passed.into_iter().flatten() {
                if let Some(name) = self.named_variable("env_vars", variable) {
                    // What is not set there is not passed on, and no fault.
                    let value = format!("${{{name}:-}}");
                    entry.env.entry(name).or_insert(value);
                }
            }
            let cwd = fields.get("cwd").and_then(Value::as_str);
            entry.cwd = cwd.and_then(|it| self.text("cwd", it));
            if entry.command.is_none() {
                self.switch_off("it has no url and no command".to_owned());
            }
        }
        entry
    }

    /// The variable that is named, by itself or in a table of its own.
    fn named_variable(&mut self, key: &str, value: &Value) -> Option<String> {
        let name = value.as_str().or_else(|| value.get("name")?.as_str());
        let plain = |it: &&str| {
            let mut letters = it.bytes();
            let begins = letters
                .next()
                .is_some_and(|it| it.is_ascii_alphabetic() || it == b'_');
            begins && letters.all(|it| it.is_ascii_alphanumeric() || it == b'_')
        };
        let named = name.filter(plain).map(str::to_owned);
        if named.is_none() {
            let shown = one_line(&value.to_string(), MAX_SHOWN_CHARS);
            let told = format!("{shown} in {key} names no variable, and is left out");
            self.remarks.push(told);
        }
        named
    }

    fn switch_off(&mut self, why: String) {
        self.off.get_or_insert(why);
    }

    fn words(&mut self, key: &str, value: Option<&Value>) -> Vec<String> {
        match value {
            Some(Value::String(text)) => self.text(key, text).into_iter().collect(),
            Some(Value::Array(items)) => {
                items.iter().filter_map(|it| self.plain(key, it)).collect()
            }
            Some(_) | None => vec![],
        }
    }

    fn table(&mut self, value: Option<&Value>) -> BTreeMap<String, String> {
        let fields = value.and_then(Value::as_object).into_iter().flatten();
        fields
            .filter_map(|(name, it)| Some((name.clone(), self.plain(name, it)?)))
            .collect()
    }

    fn plain(&mut self, key: &str, value: &Value) -> Option<String> {
        match value {
            Value::String(text) => self.text(key, text),
            Value::Null => Some(String::new()),
            other @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                Some(other.to_string())
            }
        }
    }

    /// Every way to write a variable becomes ours. `None`: nobody knows what it is before something has run.
    fn text(&mut self, key: &str, text: &str) -> Option<String> {
        let translated = translate(text, self.syntax, self.folder.as_deref());
        self.kept.extend(translated.kept_there);
        if let Some(why) = translated.off {
            self.switch_off(match self.syntax {
                ReferenceSyntax::Common => why,
                _another => format!("{}: {why}", one_line(key, MAX_SHOWN_CHARS)),
            });
        }
        let is_unknown = translated.text.is_empty() && !text.is_empty();
        (!is_unknown).then_some(translated.text)
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
    use aishd_log::tool_name::OWN_PROVIDERS;

    use super::*;

    fn of<'a>(path: &'a str, text: &'a str) -> ImportText<'a> {
        ImportText {
            text,
            path: Path::new(path),
            program: None,
            beside: None,
        }
    }

    #[track_caller]
    fn check(path: &str, text: &str, expected: &str) {
        let seen = match read(of(path, text), &ImportHold::default()) {
            Ok(found) => {
                let each = found.servers.iter().map(|it| {
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
            "/h/.gemini/settings.json",
            r#"{"mcpServers": {"a": {"url": "https://a"}, "b": {"url": "https://b"}, "c": {"url": "https://c"}}, "mcp": {"allowed": ["a", "b"], "excluded": ["b"]}}"#,
            "[mcp.servers.a]\nurl = \"https://a\"\n\n\
             # off: it is among the excluded servers of the file\n[mcp.servers.b]\nurl = \"https://b\"\nenabled = false\n\n\
             # off: it is not among the allowed servers of the file\n[mcp.servers.c]\nurl = \"https://c\"\nenabled = false\n",
        );
        check(
            "/h/.codex/config.toml",
            "[mcp_servers.p]\ncommand = \"x\"\nenv_vars = [\"A\", { name = \"B\" }, \"C=D\"]\n[mcp_servers.u]\nurl = \"https://u\"\nenv_http_headers = { X-Key = \"K\" }\n",
            "# \"C=D\" in env_vars names no variable, and is left out\n\
             [mcp.servers.p]\ncommand = \"x\"\n\n[mcp.servers.p.env]\nA = \"${A:-}\"\nB = \"${B:-}\"\n\n\
             [mcp.servers.u]\nurl = \"https://u\"\n\n[mcp.servers.u.headers]\nX-Key = \"${K}\"\n",
        );
        check(
            "/h/.codex/config.toml",
            "[mcp_servers.x]\nurl = \"https://h\"\nbearer_token_env_var = \"T\"\n",
            "[mcp.servers.x]\nurl = \"https://h\"\nauth_env = \"T\"\n",
        );
    }

    /// What another program does not have of a server is not there here either.
    #[test]
    fn lists_of_tools_are_kept() {
        check(
            "/h/.codex/config.toml",
            "[mcp_servers.x]\nurl = \"https://h\"\nenabled_tools = [\"a\", \"b\"]\ndisabled_tools = [\"b\"]\n",
            "[mcp.servers.x]\nurl = \"https://h\"\ntools = [\"a\", \"b\"]\nwithout_tools = [\"b\"]\n",
        );
        check(
            "/h/.gemini/settings.json",
            r#"{"mcpServers": {"g": {"httpUrl": "https://h", "includeTools": ["a(x)"], "excludeTools": ["c"]}}}"#,
            "[mcp.servers.g]\nurl = \"https://h\"\ntools = [\"a\"]\nwithout_tools = [\"c\"]\n",
        );
        check(
            "/h/.copilot/mcp-config.json",
            r#"{"mcpServers": {"a": {"url": "https://h", "tools": ["*"]}, "b": {"url": "https://h", "tools": []}}}"#,
            "[mcp.servers.a]\nurl = \"https://h\"\n\n[mcp.servers.b]\nurl = \"https://h\"\ntools = []\n",
        );
        check(
            "/p/opencode.json",
            r#"{"mcp": {"g": {"type": "remote", "url": "https://h"}}, "tools": {"g_*": false, "g_read_*": true}}"#,
            "[mcp.servers.g]\nurl = \"https://h\"\ntools = [\"read_*\"]\n",
        );
        check(
            "/h/zed/settings.json",
            r#"{"context_servers": {"z": {"url": "https://h"}}, "agent": {"profiles": {"write": {
                "enable_all_context_servers": false, "context_servers": {"z": {"tools": {"a": true, "b": false}}}}}}}"#,
            "[mcp.servers.z]\nurl = \"https://h\"\ntools = [\"a\"]\n",
        );
    }

    /// What runs unasked there runs unasked here.
    #[test]
    fn allowances_are_kept() {
        let rules = |path, text| read(of(path, text), &ImportHold::default()).unwrap().rules;
        let listed = r#"{"mcpServers": {"g": {"url": "https://h", "alwaysAllow": ["a"]}}}"#;
        let found = read(of("/h/mcp.json", listed), &ImportHold::default()).unwrap();
        assert!(found.remarks[0].contains("look at the rules"), "{found:?}");
        // A server that is called so is no pattern.
        assert_eq!(
            "[mcp.auto_approve]\n\"server__*\" = true\n",
            rules(
                "/h/mcp.json",
                r#"{"mcpServers": {"*": {"url": "https://h", "autoApprove": ["*"]}, "other": {"url": "https://o"}}}"#,
            )
        );
        assert_eq!(
            "[mcp.auto_approve]\n\"g__*\" = true\n\n[permissions]\ndeny = [\"g__d\"]\n",
            rules(
                "/h/.gemini/settings.json",
                r#"{"mcpServers": {"g": {"url": "https://g", "trust": true}}, "tools": {"exclude": ["g__d", "run_shell_command"]}}"#,
            )
        );
        assert_eq!(
            "[mcp.auto_approve]\ng__a = true\n",
            rules(
                "/h/mcp_settings.json",
                r#"{"mcpServers": {"g": {"url": "https://h", "alwaysAllow": ["a", "b"], "disabledTools": ["b"]}}}"#,
            )
        );
        assert_eq!(
            "[mcp.auto_approve]\ng__a = true\n\"h__*\" = true\n",
            rules(
                "/h/mcp.json",
                r#"{"mcpServers": {"g": {"url": "https://g", "autoApprove": ["a"]}, "h": {"url": "https://h", "autoApprove": ["*"]}}}"#,
            )
        );
        assert_eq!(
            "[mcp.auto_approve]\n\"g__*\" = true\n",
            rules(
                "/h/.gemini/settings.json",
                r#"{"mcpServers": {"g": {"url": "https://g", "trust": true}, "h": {"url": "https://h", "trust": false}}}"#,
            )
        );
        assert_eq!(
            "[mcp.auto_approve]\n\"g__*\" = true\ng__a = false\nh__b = true\n",
            rules(
                "/h/.codex/config.toml",
                "[mcp_servers.g]\nurl = \"https://g\"\ndefault_tools_approval_mode = \"approve\"\ntools.a.approval_mode = \"prompt\"\n\
                 [mcp_servers.h]\nurl = \"https://h\"\ntools.b.approval_mode = \"approve\"\ntools.c.approval_mode = \"auto\"\n",
            )
        );
    }

    #[test]
    fn a_program_is_held_where_that_is_said_and_the_line_for_it_is_offered_else() {
        let text = r#"{"mcpServers": {"p": {"command": "x", "env": {"A": "1"}}, "u": {"url": "https://h"}}}"#;
        let toml = |contain| {
            let held = ImportHold {
                contain,
                ..ImportHold::default()
            };
            let found = read(of("a.json", text), &held).unwrap();
            found
                .servers
                .into_iter()
                .map(|it| it.toml)
                .collect::<String>()
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
            r#"{"mcpServers": {"w": {"type": "ws", "url": "wss://h"}, "e": {}, "d": {"command": "x", "disabled": true}, "t": {"url": "https://h", "headers": {"Authorization": "Bearer s3cret"}}, "v": {"url": "https://h", "headers": {"Authorization": "Bearer ${K:-none}"}}}}"#,
            "# off: it is switched off in the file\n[mcp.servers.d]\ncommand = \"x\"\nenabled = false\n\n\
             # off: it has no url and no command\n\n\
             # a token stands in the file; auth_env keeps it out\n[mcp.servers.t]\nurl = \"https://h\"\n\n\
             [mcp.servers.t.headers]\nAuthorization = \"Bearer s3cret\"\n\n\
             [mcp.servers.v]\nurl = \"https://h\"\n\n[mcp.servers.v.headers]\nAuthorization = \"Bearer ${K:-none}\"\n\n\
             # off: WebSocket is not supported\n[mcp.servers.w]\nurl = \"wss://h\"\nenabled = false\n",
        );
        check(
            "a.json",
            "{}",
            "error: it has no table of servers: none of mcpServers, servers, mcp_servers, context_servers, mcp, extensions",
        );
        check(
            "a.json",
            "",
            "error: it has no table of servers: none of mcpServers, servers, mcp_servers, context_servers, mcp, extensions",
        );
        let text = "{\"mcpServers\": {\n  nonsense";
        let broken = read(of("a.json", text), &ImportHold::default());
        assert!(broken.unwrap_err().to_string().contains("line 2"));
    }

    #[test]
    fn no_server_is_called_like_a_part_of_the_daemon() {
        for own in OWN_PROVIDERS {
            let text = format!(r#"{{"mcpServers": {{"{own}": {{"command": "x"}}}}}}"#);
            let found = read(of("a.json", &text), &ImportHold::default()).unwrap();
            assert_eq!(format!("{own}-2"), found.servers[0].alias.as_str());
        }
    }

    /// What is printed can be put into the configuration as it is.
    #[test]
    fn tables_for_the_configuration_are_read_again() {
        let text = r#"{"mcpServers": {"a": {"command": "x\"y", "env": {"A B": "\n${C}"}}, "a ": {"url": "https://h"}}}"#;
        let found = read(of("a.json", text), &ImportHold::default()).unwrap();
        let tables: String = found.servers.iter().map(|it| it.toml.clone()).collect();
        let read: toml::Table = toml::from_str(&tables).unwrap();
        let servers = read["mcp"]["servers"].as_table().unwrap();
        assert_eq!(vec!["a", "a-2"], servers.keys().collect::<Vec<_>>());
        assert_eq!(Some("x\"y"), servers["a"]["command"].as_str());
    }
}
