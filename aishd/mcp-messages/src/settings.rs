//! How MCP servers are reached.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use aishd_log::profile::ChosenProfile;
use aishd_log::tool_name::Alias;

use crate::chosen_tools::ServerToolChoice;
use crate::confidential;
use crate::log_level::LogLevel;
use crate::oauth_settings::OAuthSettings;
use crate::revision::Revision;
use crate::server::ServerKind;

/// Everything that is configured about MCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct McpSettings {
    pub limits: SessionLimits,
    /// Whether servers are told the directories of the open conversations.
    pub roots: bool,
    /// Where servers of other programs are looked for when somebody asks; `None`: in the usual places.
    pub import: Option<Vec<String>>,
    pub servers: BTreeMap<Alias, Arc<ServerSettings>>,
}

/// Times and sizes of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// One exchange of the handshake, and the longest that a call waits for a session that is connecting.
    pub connect: Duration,
    /// A child that is started may fetch and compile itself before it says its first word.
    pub start: Duration,
    /// A call without any progress.
    pub call: Duration,
    /// A call, whatever progress it reports.
    pub longest_call: Duration,
    /// A call that its server goes on with by itself.
    pub longest_task: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            start: Duration::from_secs(60),
            call: Duration::from_secs(120),
            longest_call: Duration::from_secs(15 * 60),
            longest_task: Duration::from_secs(24 * 60 * 60),
        }
    }
}

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerSettings {
    /// As it was written, without the values of variables: what is shown, and what its definitions are bound to.
    pub endpoint: ServerEndpoint,
    /// Why it is not connected to, if it is not to be.
    pub off: Option<String>,
    /// Which of its tools there are here.
    pub tools: ServerToolChoice,
    /// Whether it may ask for a model; a person is asked each time.
    pub sampling: bool,
    /// The one revision that is spoken with it; `None`: it is found out.
    pub revision: Option<Revision>,
    /// From which level on it is to say what it does.
    pub log_level: LogLevel,
}

impl ServerSettings {
    /// One of which nothing is said but where it is.
    pub fn of(endpoint: ServerEndpoint) -> Self {
        Self {
            endpoint,
            off: None,
            tools: ServerToolChoice::default(),
            sampling: false,
            revision: None,
            log_level: LogLevel::default(),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are as many as servers are configured"
)]
pub enum ServerEndpoint {
    Http(HttpServerSettings),
    Stdio(StdioServerSettings),
}

/// A server behind a URL.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpServerSettings {
    pub url: String,
    pub auth: BearerSource,
    pub headers: BTreeMap<String, String>,
    /// How to sign in, where no token and no header for it is configured.
    pub oauth: OAuthSettings,
}

/// Where the bearer token comes from.
#[derive(Clone, PartialEq, Eq)]
pub enum BearerSource {
    None,
    /// A literal of the configuration.
    Token(String),
    /// An environment variable of the daemon.
    Env(String),
}

/// A server that is a child process.
#[derive(Clone, PartialEq, Eq)]
pub struct StdioServerSettings {
    pub command: String,
    pub args: Vec<String>,
    /// Beyond the allow-list that every child gets.
    pub env: BTreeMap<String, String>,
    pub cwd: Option<PathBuf>,
    /// What the kernel holds it to.
    pub contain: ChosenProfile,
}

impl ServerEndpoint {
    pub fn kind(&self) -> ServerKind {
        match self {
            Self::Http(_) => ServerKind::Http,
            Self::Stdio(_) => ServerKind::Stdio,
        }
    }

    /// What the kernel holds it to; nothing where nothing of it runs here.
    pub fn contain(&self) -> ChosenProfile {
        match self {
            Self::Http(_) => ChosenProfile::default(),
            Self::Stdio(stdio) => stdio.contain.clone(),
        }
    }

    /// The URL or the command, as people may see it.
    pub fn display(&self) -> String {
        match self {
            Self::Http(http) => without_userinfo(&http.url),
            Self::Stdio(stdio) => {
                let words = std::iter::once(stdio.command.clone());
                let words = words.chain(confidential::covered(&stdio.args));
                words.collect::<Vec<_>>().join(" ")
            }
        }
    }
}

/// A password in a URL is for its server and nobody else; so is what stands in its query.
fn without_userinfo(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else {
        return url.to_owned();
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{path}")
}

// Values of headers and of the environment are often secrets, so none of them is written.

impl fmt::Debug for HttpServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpServerSettings")
            .field("url", &without_userinfo(&self.url))
            .field("auth", &self.auth)
            .field("headers", &self.headers.keys())
            .field("oauth", &self.oauth)
            .finish()
    }
}

impl fmt::Debug for BearerSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Token(_) => f.write_str("Token(..)"),
            Self::Env(name) => f.debug_tuple("Env").field(name).finish(),
        }
    }
}

impl fmt::Debug for StdioServerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StdioServerSettings")
            .field("command", &self.command)
            .field("args", &self.args.len())
            .field("env", &self.env.keys())
            .field("cwd", &self.cwd)
            .field("contain", &self.contain)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_secret_is_shown_or_logged() {
        let http = ServerEndpoint::Http(HttpServerSettings {
            url: "https://me:hush@host.example:8/mcp?key=hush#hush".to_owned(),
            auth: BearerSource::Token("hush".to_owned()),
            headers: BTreeMap::from([("X-Key".to_owned(), "hush".to_owned())]),
            oauth: OAuthSettings::default(),
        });
        assert_eq!("https://host.example:8/mcp", http.display());
        let stdio = ServerEndpoint::Stdio(StdioServerSettings {
            command: "docker".to_owned(),
            args: vec!["run".to_owned(), "--token=hush".to_owned()],
            env: BTreeMap::from([("TOKEN".to_owned(), "hush".to_owned())]),
            cwd: None,
            contain: ChosenProfile::default(),
        });
        assert_eq!("docker run --token=[key]", stdio.display());
        let logged = format!("{http:?} {stdio:?}");
        assert!(!logged.contains("hush"), "{logged}");
    }
}
