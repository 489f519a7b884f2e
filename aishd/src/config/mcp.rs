//! `[mcp]`: servers, and how long they may take (MCP-5; spec 85).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use super::expand::{Unset, expand};
use crate::core::mcp::settings::{Auth, Endpoint, Http, Limits, Mcp, Server, Stdio};
use crate::core::tool_name::Alias;

/// As it is written.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    pub connect_timeout: Option<String>,
    pub start_timeout: Option<String>,
    pub call_timeout: Option<String>,
    pub call_timeout_with_progress: Option<String>,
    pub roots: Option<bool>,
    /// Exact names, or `alias__*`.
    #[serde(default)]
    pub auto_approve: BTreeMap<String, bool>,
    #[serde(default)]
    pub servers: BTreeMap<String, ServerFile>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerFile {
    pub url: Option<String>,
    pub auth_env: Option<String>,
    pub auth_token: Option<String>,
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    pub command: Option<String>,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub cwd: Option<PathBuf>,
    pub enabled: Option<bool>,
}

/// Values may be secrets.
impl std::fmt::Debug for ServerFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerFile").finish_non_exhaustive()
    }
}

impl File {
    /// Whether a secret stands in the file itself.
    #[must_use]
    pub fn holds_a_token(&self) -> bool {
        self.servers.values().any(|it| it.auth_token.is_some())
    }
}

/// Gives it its meaning; faults are added to the others. `private`: the file is closed to others. `value` gives the
/// daemon's own variables.
pub fn settings(
    file: &File,
    private: bool,
    value: &dyn Fn(&str) -> Option<String>,
    faults: &mut Vec<String>,
) -> Mcp {
    let defaults = Limits::default();
    let mut time = |key: &str, text: &Option<String>, default: Duration| match text {
        Some(text) => {
            super::settings::duration(&format!("mcp.{key}"), text, faults).unwrap_or(default)
        }
        None => default,
    };
    let limits = Limits {
        connect: time("connect_timeout", &file.connect_timeout, defaults.connect),
        start: time("start_timeout", &file.start_timeout, defaults.start),
        call: time("call_timeout", &file.call_timeout, defaults.call),
        longest_call: time(
            "call_timeout_with_progress",
            &file.call_timeout_with_progress,
            defaults.longest_call,
        ),
    };
    let mut servers = BTreeMap::new();
    for (name, server) in &file.servers {
        match name.parse::<Alias>() {
            Ok(alias) => match endpoint(server, private) {
                Ok(endpoint) => {
                    let server = Server {
                        off: off(server.enabled),
                        endpoint,
                    };
                    servers.insert(alias, Arc::new(expanded(server, value)));
                }
                Err(why) => faults.push(format!("mcp.servers.{name}: {why}")),
            },
            Err(error) => faults.push(format!("mcp.servers: {error}")),
        }
    }
    Mcp {
        limits,
        roots: file.roots.unwrap_or_default(),
        servers,
    }
}

fn off(enabled: Option<bool>) -> Option<String> {
    (enabled == Some(false)).then(|| "enabled = false".to_owned())
}

fn endpoint(server: &ServerFile, private: bool) -> Result<Endpoint, String> {
    let only = |used: bool, key: &str, with: &str| {
        if used {
            Err(format!("{key} goes with {with} only"))
        } else {
            Ok(())
        }
    };
    match (&server.url, &server.command) {
        (Some(_), Some(_)) => {
            Err("it has both a url and a command; it is one or the other".to_owned())
        }
        (None, None) => Err("it needs a url or a command".to_owned()),
        (Some(url), None) => {
            only(!server.args.is_empty(), "args", "a command")?;
            only(!server.env.is_empty(), "env", "a command")?;
            only(server.cwd.is_some(), "cwd", "a command")?;
            if server.auth_token.is_some() && !private {
                return Err(
                    "an auth_token is taken only from a file with mode 0600; better: auth_env"
                        .to_owned(),
                );
            }
            // The literal goes before the variable (MCP-3).
            let auth = match (&server.auth_token, &server.auth_env) {
                (Some(token), _) => Auth::Token(token.clone()),
                (None, Some(name)) => Auth::Env(name.clone()),
                (None, None) => Auth::None,
            };
            Ok(Endpoint::Http(Http {
                url: url.clone(),
                auth,
                headers: server.headers.clone(),
            }))
        }
        (None, Some(command)) => {
            only(server.auth_env.is_some(), "auth_env", "a url")?;
            only(server.auth_token.is_some(), "auth_token", "a url")?;
            only(!server.headers.is_empty(), "headers", "a url")?;
            if command.trim().is_empty() {
                return Err("its command is empty".to_owned());
            }
            Ok(Endpoint::Stdio(Stdio {
                command: command.clone(),
                args: server.args.clone(),
                env: server.env.clone(),
                cwd: server.cwd.as_deref().map(super::settings::home),
            }))
        }
    }
}

/// Puts variables in. One that is not set costs its own server only, and says which it is.
fn expanded(server: Server, value: &dyn Fn(&str) -> Option<String>) -> Server {
    let Server { endpoint, off } = server;
    match expanded_endpoint(&endpoint, value) {
        Ok(endpoint) => Server { endpoint, off },
        Err((key, unset)) => Server {
            endpoint,
            off: off.or(Some(format!("{key}: {unset}"))),
        },
    }
}

fn expanded_endpoint(
    endpoint: &Endpoint,
    value: &dyn Fn(&str) -> Option<String>,
) -> Result<Endpoint, (String, Unset)> {
    let one = |key: &str, text: &str| expand(text, value).map_err(|unset| (key.to_owned(), unset));
    let table = |key: &str, table: &BTreeMap<String, String>| {
        let entries = table.iter();
        let entries =
            entries.map(|(name, text)| Ok((name.clone(), one(&format!("{key}.{name}"), text)?)));
        entries.collect::<Result<BTreeMap<_, _>, _>>()
    };
    Ok(match endpoint {
        Endpoint::Http(http) => Endpoint::Http(Http {
            url: one("url", &http.url)?,
            auth: match &http.auth {
                Auth::Token(token) => Auth::Token(one("auth_token", token)?),
                other @ (Auth::None | Auth::Env(_)) => other.clone(),
            },
            headers: table("headers", &http.headers)?,
        }),
        Endpoint::Stdio(stdio) => Endpoint::Stdio(Stdio {
            command: one("command", &stdio.command)?,
            args: stdio
                .args
                .iter()
                .map(|it| one("args", it))
                .collect::<Result<_, _>>()?,
            env: table("env", &stdio.env)?,
            cwd: match &stdio.cwd {
                Some(path) => Some(PathBuf::from(one("cwd", &path.to_string_lossy())?)),
                None => None,
            },
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, private: bool) -> (Mcp, Vec<String>) {
        let file: File = toml::from_str(text).unwrap();
        let value = |name: &str| (name == "TOKEN").then(|| "t0ken".to_owned());
        let mut faults = vec![];
        let mcp = settings(&file, private, &value, &mut faults);
        (mcp, faults)
    }

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let (_, faults) = read(text, /*private*/ false);
        assert_eq!(expected.len(), faults.len(), "{faults:?}");
        for (part, fault) in expected.iter().zip(&faults) {
            assert!(fault.contains(part), "{fault}");
        }
    }

    #[test]
    fn wrong_entries_say_what_is_wrong() {
        check(
            "[servers.a__b]\nurl=\"http://x\"",
            &["\"a__b\" cannot be an alias"],
        );
        check(
            "[servers.a]",
            &["mcp.servers.a: it needs a url or a command"],
        );
        check(
            "[servers.a]\nurl=\"http://x\"\ncommand=\"y\"",
            &["both a url and a command"],
        );
        check(
            "[servers.a]\ncommand=\"y\"\nauth_env=\"T\"",
            &["auth_env goes with a url only"],
        );
        check(
            "[servers.a]\nurl=\"http://x\"\nargs=[\"y\"]",
            &["args goes with a command only"],
        );
        check(
            "[servers.a]\nurl=\"http://x\"\nauth_token=\"y\"",
            &["mode 0600"],
        );
        check(
            "connect_timeout=\"soon\"",
            &["mcp.connect_timeout: \"soon\""],
        );
        check("[servers.a]\nurl=\"http://x\"\nauth_env=\"TOKEN\"", &[]);
    }

    /// MCP-3.
    #[test]
    fn a_literal_token_goes_before_a_variable() {
        let both = "[servers.a]\nurl=\"http://x\"\nauth_token=\"y\"\nauth_env=\"T\"";
        let (mcp, faults) = read(both, /*private*/ true);
        assert!(faults.is_empty(), "{faults:?}");
        let server = mcp.servers.values().next().unwrap();
        let Endpoint::Http(http) = &server.endpoint else {
            panic!("{server:?}");
        };
        assert!(http.auth == Auth::Token("y".to_owned()));
    }

    #[test]
    fn an_unset_variable_switches_its_own_server_off() {
        let (mcp, faults) = read(
            "[servers.a]\ncommand=\"x\"\nenv={ KEY = \"${GONE}\" }\n[servers.b]\ncommand=\"x\"\nargs=[\"${TOKEN}\", \"${GONE:-d}\"]\n\
             [servers.c]\ncommand=\"x\"\nenabled=false",
            /*private*/ false,
        );
        assert!(faults.is_empty(), "{faults:?}");
        let off: Vec<_> = mcp.servers.values().map(|it| it.off.as_deref()).collect();
        let gone = "env.KEY: the variable GONE is not set";
        assert_eq!(vec![Some(gone), None, Some("enabled = false")], off);
        let words = mcp.servers.values().nth(1).map(|it| it.endpoint.shown());
        assert_eq!(Some("x t0ken d".to_owned()), words);
    }
}
