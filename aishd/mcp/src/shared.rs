//! What every session uses, and the list of servers that all of them write.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use aishd_log::profile::Profile;
use aishd_log::tool::ContentDigest;
use aishd_log::tool_name::Alias;
use aishd_mcp_messages::server::{ServerEntry, ServerSnapshot};
use aishd_mcp_messages::settings::{McpSettings, ServerEndpoint, ServerSettings, SessionLimits};
use aishd_mcp_messages::variable_expansion::expand;
use aishd_profile::ProfileGround;
use aishd_signin::ServerBearer;
use parking_lot::{Mutex, MutexGuard};
use reqwest::{Client, Url};
use serde_json::{Value, json};
use tokio::sync::watch;

use super::capability_cache::RememberedServer;
use super::client::{self, McpHttpClients};
use super::elicitation::{ElicitRespondent, PeopleLink};
use super::era::ClientAbilities;
use super::error::WireFailure;
use super::secrets::LearnSecret;
use crate::hub_parts::HubParts;

pub(super) struct SharedCell {
    pub(super) parts: Arc<HubParts>,
    clients: McpHttpClients,
    settings: Arc<Mutex<McpSettings>>,
    roots: Box<ClientRoots>,
    pub(super) servers: watch::Sender<Arc<ServerSnapshot>>,
}

/// The directories that a server is told of when it asks.
type ClientRoots = dyn Fn() -> Vec<PathBuf> + Send + Sync;

impl std::fmt::Debug for SharedCell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedCell").finish_non_exhaustive()
    }
}

impl SharedCell {
    pub(super) fn new(parts: HubParts) -> Self {
        let parts = Arc::new(parts);
        let all = parts.clone();
        Self::with_roots(parts, Arc::default(), Box::new(move || (all.roots)()))
    }

    /// The same for sessions of one conversation: they are told of its directories, and listed nowhere.
    pub(super) fn with_own_roots(&self, roots: Vec<PathBuf>) -> Self {
        let (parts, settings) = (self.parts.clone(), self.settings.clone());
        Self::with_roots(parts, settings, Box::new(move || roots.clone()))
    }

    fn with_roots(
        parts: Arc<HubParts>,
        settings: Arc<Mutex<McpSettings>>,
        roots: Box<ClientRoots>,
    ) -> Self {
        Self {
            parts,
            clients: McpHttpClients::default(),
            settings,
            roots,
            servers: watch::channel(Arc::default()).0,
        }
    }

    pub(super) fn settings(&self) -> MutexGuard<'_, McpSettings> {
        self.settings.lock()
    }

    pub(super) fn limits(&self) -> SessionLimits {
        self.settings().limits
    }

    /// What this server may ask.
    pub(super) fn abilities(&self, server: &ServerSettings) -> ClientAbilities {
        ClientAbilities {
            roots: self.settings().roots,
            elicitation: self.parts.elicitation,
            sampling: server.sampling,
        }
    }

    pub(super) fn profiles(&self) -> &ProfileGround {
        &self.parts.profiles
    }

    pub(super) fn environment(&self) -> &(dyn Fn(&str) -> Option<String> + Send + Sync) {
        &*self.parts.environment
    }

    pub(super) fn learn(&self) -> &LearnSecret {
        &*self.parts.learn
    }

    pub(super) fn client(&self, url: &Url) -> Result<Client, WireFailure> {
        self.clients.get(url, self.limits().connect)
    }

    /// The sign-in for a server that could have one.
    pub(super) fn bearer(&self, endpoint: &ServerEndpoint) -> Option<ServerBearer> {
        let expanded = endpoint.expanded(&|name| (self.parts.environment)(name));
        let Ok(ServerEndpoint::Http(http)) = expanded else {
            return None;
        };
        // What is learnt here was learnt before.
        let address = client::address(&http, self.environment(), &|_known| {}, &self.parts.sign_in);
        address.ok()?.bearer
    }

    /// Who answers for a call, or for none.
    pub(super) fn respondent<'a>(
        &'a self,
        alias: &'a Alias,
        abilities: ClientAbilities,
        people: Option<PeopleLink>,
    ) -> ElicitRespondent<'a> {
        ElicitRespondent {
            alias,
            abilities,
            people,
            roots: if self.settings().roots {
                &*self.roots
            } else {
                // Asked all the same, there are none.
                &|| vec![]
            },
        }
    }

    /// Who a server is, so that consent to its tools is to no other.
    pub(super) fn identity(&self, endpoint: &ServerEndpoint) -> String {
        identity(endpoint, &*self.parts.environment)
    }

    pub(super) fn recall(&self, endpoint: &ServerEndpoint, identity: &str) -> RememberedServer {
        let kept = (self.parts.recall)(&self.key(endpoint));
        let kept = kept.map(|it| RememberedServer::read(&it, identity, endpoint.kind()));
        kept.unwrap_or_default()
    }

    pub(super) fn keep(&self, endpoint: &ServerEndpoint, text: String) {
        (self.parts.keep)(&self.key(endpoint), text);
    }

    /// Servers of one origin are told apart by their paths.
    fn key(&self, endpoint: &ServerEndpoint) -> String {
        let identity = self.identity(endpoint);
        format!("mcp {identity} {}", endpoint.display())
    }

    pub(super) fn publish(&self, status: &ServerEntry) {
        self.servers.send_modify(|all| {
            let mut next = ServerSnapshot::clone(all);
            let before = next.list.iter().position(|it| it.alias == status.alias);
            let status = Arc::new(status.clone());
            match before {
                Some(at) => {
                    if differs(&next.list[at], &status) {
                        next.toolset += 1;
                    }
                    next.list[at] = status;
                }
                None => {
                    next.toolset += u64::from(!status.tools.is_empty());
                    next.list.push(status);
                    next.list.sort_by(|a, b| a.alias.cmp(&b.alias));
                }
            }
            *all = Arc::new(next);
        });
    }

    pub(super) fn forget(&self, alias: &Alias) {
        self.servers.send_modify(|all| {
            let mut next = ServerSnapshot::clone(all);
            let had = next.get(alias).is_some_and(|it| !it.tools.is_empty());
            next.toolset += u64::from(had);
            next.list.retain(|it| it.alias != *alias);
            *all = Arc::new(next);
        });
    }
}

/// The command, its arguments, the program that they mean, its variables and its directory; or the origin of the URL.
fn identity(endpoint: &ServerEndpoint, environment: &dyn Fn(&str) -> Option<String>) -> String {
    // Where a variable has no value no session is made.
    let meant = |text: &str| expand(text, environment).unwrap_or_else(|_unset| text.to_owned());
    match endpoint {
        ServerEndpoint::Http(http) => match Url::parse(&meant(&http.url)) {
            Ok(url) => url.origin().ascii_serialization(),
            Err(_none) => String::new(),
        },
        ServerEndpoint::Stdio(stdio) => {
            let own = stdio.env.get("PATH").map(|it| meant(it));
            let path = own.or_else(|| environment("PATH"));
            let program = program(&meant(&stdio.command), &path.unwrap_or_default());
            // As written, so that a token may change; the digest, because a literal may be one.
            let held = &stdio.contain;
            let mut around = vec![json!(stdio.env), json!(stdio.cwd)];
            // What was agreed to for one that is held is no consent to one that is not, or that reaches other hosts.
            if held.profile != Profile::Open {
                around.extend([json!(held.profile), json!(held.write)]);
                around.extend((!held.hosts.is_empty()).then(|| json!(held.hosts)));
            }
            let around = Value::from(around);
            let around = ContentDigest::of_value(&around);
            json!([program, stdio.command, stdio.args, around.to_string()]).to_string()
        }
    }
}

fn differs(before: &ServerEntry, after: &ServerEntry) -> bool {
    let digests = |it: &ServerEntry| it.tools.iter().map(|it| it.digest).collect::<Vec<_>>();
    digests(before) != digests(after)
}

/// The file that a command means, as the child will look for it.
fn program(command: &str, path: &str) -> PathBuf {
    if command.contains('/') {
        return PathBuf::from(command);
    }
    let candidates = path.split(':').filter(|it| !it.is_empty());
    let mut candidates = candidates.map(|it| Path::new(it).join(command));
    candidates
        .find(|it| it.is_file())
        .unwrap_or_else(|| PathBuf::from(command))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use aishd_log::profile::ChosenProfile;
    use aishd_mcp_messages::oauth_settings::OAuthSettings;
    use aishd_mcp_messages::settings::{BearerSource, HttpServerSettings, StdioServerSettings};

    use super::*;

    fn stdio(command: &str, arg: &str) -> ServerEndpoint {
        ServerEndpoint::Stdio(StdioServerSettings {
            command: command.to_owned(),
            args: vec![arg.to_owned()],
            env: BTreeMap::from([("TOKEN".to_owned(), "${TOKEN}".to_owned())]),
            cwd: None,
            contain: ChosenProfile::default(),
        })
    }

    fn http(url: &str) -> ServerEndpoint {
        ServerEndpoint::Http(HttpServerSettings {
            url: url.to_owned(),
            auth: BearerSource::None,
            headers: BTreeMap::new(),
            oauth: OAuthSettings::default(),
        })
    }

    /// The program that a variable leads to is a part of the consent, and the value of a token is not.
    #[test]
    fn another_program_or_origin_behind_a_variable_is_another_server() {
        let of = |endpoint: &ServerEndpoint, name: &str, value: &str| {
            let lookup = |it: &str| (it == name).then(|| value.to_owned());
            identity(endpoint, &lookup)
        };
        let program = stdio("${BIN}/server", "x");
        assert_ne!(of(&program, "BIN", "/a"), of(&program, "BIN", "/b"));
        let token = stdio("/bin/server", "--token=${TOKEN}");
        assert_eq!(of(&token, "TOKEN", "one"), of(&token, "TOKEN", "two"));
        let url = http("https://${HOST}/mcp");
        assert_eq!("https://a.example", of(&url, "HOST", "a.example"));
        assert_eq!("https://b.example", of(&url, "HOST", "b.example"));
        assert_eq!("", of(&http("${URL}"), "HOST", "b.example"));
        assert_ne!(of(&program, "TOKEN", "t"), of(&program, "BIN", "/a"));
    }

    #[test]
    fn what_holds_it_is_a_part_of_the_consent() {
        let of = |contain: ChosenProfile| {
            let ServerEndpoint::Stdio(server) = stdio("/bin/server", "x") else {
                unreachable!("it is a program");
            };
            let server = StdioServerSettings { contain, ..server };
            identity(&ServerEndpoint::Stdio(server), &|_| None)
        };
        let held = |hosts: &[&str]| ChosenProfile {
            profile: Profile::Read,
            hosts: hosts.iter().map(|it| (*it).to_owned()).collect(),
            ..ChosenProfile::default()
        };
        let open = of(ChosenProfile::default());
        let all = [open, of(held(&[])), of(held(&["a"])), of(held(&["b"]))];
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(all.len(), different.len());
    }
}
