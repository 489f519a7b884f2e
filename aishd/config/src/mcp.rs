//! `[mcp]`: servers, and how long they may take.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aishd_log::profile::{ChosenProfile, Profile};
use aishd_log::tool_name::Alias;
use aishd_mcp_messages::chosen_tools::ServerToolChoice;
use aishd_mcp_messages::log_level::LogLevel;
use aishd_mcp_messages::revision::Revision;
use aishd_mcp_messages::settings::{
    BearerSource, HttpServerSettings, McpSettings, ServerEndpoint, ServerSettings, SessionLimits,
    StdioServerSettings,
};

use super::fault::Fault;
use super::keys::{File, McpServer};
use super::layers::LayerStack;
use super::preset::check_literal;
use super::source::SourcePlace;
use super::table_reader::{KeyLeaf, join};
use super::value::{Contain, SecretText, TimeSpan};
use super::{address, held_programs, oauth};
use crate::key_values::{home, value_of};

/// What is configured about MCP; faults are added to the others.
pub(super) fn mcp(stack: &LayerStack, faults: &mut Vec<Fault>) -> McpSettings {
    let File { mcp, .. } = &stack.file;
    let usual = SessionLimits::default();
    let time = |leaf: &KeyLeaf<TimeSpan>, usual: Duration| {
        leaf.as_ref().map_or(usual, |it| it.value.value)
    };
    let mut servers = BTreeMap::new();
    for (name, server) in &mcp.servers {
        let check = ServerCheck {
            path: join("mcp.servers", name),
            server,
            stack,
        };
        if let Some((alias, server)) = check.server(name, faults) {
            servers.insert(alias, Arc::new(server));
        }
    }
    McpSettings {
        limits: SessionLimits {
            connect: time(&mcp.connect_timeout, usual.connect),
            start: time(&mcp.start_timeout, usual.start),
            call: time(&mcp.call_timeout, usual.call),
            longest_call: time(&mcp.call_timeout_with_progress, usual.longest_call),
            longest_task: time(&mcp.task_timeout, usual.longest_task),
        },
        roots: value_of(&mcp.roots).unwrap_or_default(),
        import: value_of(&mcp.import),
        servers,
    }
}

/// One server, while it is looked at.
struct ServerCheck<'a> {
    path: String,
    server: &'a McpServer,
    stack: &'a LayerStack,
}

impl ServerCheck<'_> {
    fn server(&self, name: &str, faults: &mut Vec<Fault>) -> Option<(Alias, ServerSettings)> {
        let alias = name.parse::<Alias>().map_err(|error| {
            self.fault(format!("`{}`: {error}", self.path), faults);
        });
        let endpoint = self.endpoint(faults);
        let off = value_of(&self.server.enabled) == Some(false);
        for (key, leaf) in [
            ("tools", &self.server.tools),
            ("without_tools", &self.server.without_tools),
        ] {
            let unnamed = leaf
                .iter()
                .filter(|it| it.value.iter().any(String::is_empty));
            faults.extend(unnamed.map(|it| {
                let message = format!("`{}` names a tool without a name", join(&self.path, key));
                Fault::error(&it.place, message).help("`*` is all of them, [] is none")
            }));
        }
        let server = ServerSettings {
            endpoint: endpoint?,
            off: off.then(|| "enabled = false".to_owned()),
            tools: ServerToolChoice::new(
                value_of(&self.server.tools),
                value_of(&self.server.without_tools).unwrap_or_default(),
            ),
            sampling: value_of(&self.server.sampling).unwrap_or_default(),
            revision: value_of(&self.server.revision).and_then(|it| Revision::named(it.word())),
            log_level: value_of(&self.server.log_level)
                .and_then(|it| LogLevel::named(it.word()))
                .unwrap_or_default(),
        };
        Some((alias.ok()?, server))
    }

    fn place(&self) -> Option<&SourcePlace> {
        self.stack.names.get(&self.path)
    }

    fn fault(&self, message: String, faults: &mut Vec<Fault>) {
        if let Some(place) = self.place() {
            faults.push(Fault::error(place, message));
        }
    }

    fn endpoint(&self, faults: &mut Vec<Fault>) -> Option<ServerEndpoint> {
        let McpServer { url, command, .. } = self.server;
        match (url, command) {
            (Some(_), Some(command)) => {
                let message = format!("`{}` has a url and a command", self.path);
                faults.push(Fault::error(&command.place, message).help("it is one or the other"));
                None
            }
            (None, None) => {
                // Something in this table could not be read, so that what is missing may be just that.
                let broken = &self.stack.broken;
                if !broken.contains("") && !broken.contains(&self.path) {
                    self.fault(
                        format!("[{}] has no `url` and no `command`", self.path),
                        faults,
                    );
                }
                None
            }
            (Some(url), None) if address::has_userinfo(&url.value) => {
                let message = format!(
                    "`{}.url`: a name or a password has no place in an address",
                    self.path
                );
                faults.push(
                    Fault::error(&url.place, message).help(
                        "auth_env names a token, or headers = { Authorization = \"${NAME}\" }",
                    ),
                );
                None
            }
            (Some(url), None) => Some(ServerEndpoint::Http(self.http(&url.value, faults))),
            (None, Some(command)) if command.value.trim().is_empty() => {
                let message = format!("`{}.command` is empty", self.path);
                faults.push(Fault::error(&command.place, message));
                None
            }
            (None, Some(command)) => {
                Some(ServerEndpoint::Stdio(self.stdio(&command.value, faults)))
            }
        }
    }

    fn http(&self, url: &str, faults: &mut Vec<Fault>) -> HttpServerSettings {
        let server = self.server;
        for (key, place) in [
            ("contain", server.contain.as_ref().map(|it| &it.place)),
            ("write", server.write.as_ref().map(|it| &it.place)),
            ("hosts", server.hosts.as_ref().map(|it| &it.place)),
            ("args", server.args.as_ref().map(|it| &it.place)),
            ("cwd", server.cwd.as_ref().map(|it| &it.place)),
            (
                "env",
                server.env.values().flatten().next().map(|it| &it.place),
            ),
        ] {
            self.only_with("a command", key, place, faults);
        }
        if let Some(token) = &server.auth_token {
            check_literal(token, "better: auth_env", faults);
        }
        // The literal goes before the variable.
        let auth = match (&server.auth_token, &server.auth_env) {
            (Some(token), _) => BearerSource::Token(token.value.0.clone()),
            (None, Some(name)) => BearerSource::Env(name.value.clone()),
            (None, None) => BearerSource::None,
        };
        HttpServerSettings {
            url: url.to_owned(),
            auth,
            headers: texts(&server.headers),
            oauth: oauth::settings(&join(&self.path, "oauth"), &server.oauth, faults),
        }
    }

    fn stdio(&self, command: &str, faults: &mut Vec<Fault>) -> StdioServerSettings {
        let server = self.server;
        for (key, place) in [
            ("auth_env", server.auth_env.as_ref().map(|it| &it.place)),
            ("auth_token", server.auth_token.as_ref().map(|it| &it.place)),
            (
                "headers",
                server.headers.values().flatten().next().map(|it| &it.place),
            ),
        ] {
            self.only_with("a url", key, place, faults);
        }
        StdioServerSettings {
            command: command.to_owned(),
            args: value_of(&server.args).unwrap_or_default(),
            env: texts(&server.env),
            cwd: server.cwd.as_ref().map(|it| home(&it.value)),
            contain: self.contain(faults),
        }
    }

    fn contain(&self, faults: &mut Vec<Fault>) -> ChosenProfile {
        let server = self.server;
        let profile = value_of(&server.contain).map(Contain::profile);
        let profile = profile.unwrap_or_default();
        let key = join(&self.path, "write");
        let hosts = join(&self.path, "hosts");
        let narrow = (profile != Profile::Workspace).then_some(profile);
        ChosenProfile {
            profile,
            write: held_programs::widened(&key, &server.write, narrow, faults),
            hosts: held_programs::hosts(&hosts, &server.hosts, Some(profile), faults),
        }
    }

    fn only_with(
        &self,
        with: &str,
        key: &str,
        place: Option<&SourcePlace>,
        faults: &mut Vec<Fault>,
    ) {
        if let Some(place) = place {
            let message = format!("`{}.{key}` goes with {with} only", self.path);
            faults.push(Fault::error(place, message));
        }
    }
}

fn texts(table: &BTreeMap<String, KeyLeaf<SecretText>>) -> BTreeMap<String, String> {
    let said = table.iter();
    said.filter_map(|(name, leaf)| Some((name.clone(), leaf.as_ref()?.value.0.clone())))
        .collect()
}
