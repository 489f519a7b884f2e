//! `${NAME}` and `${NAME:-default}` in what is configured about MCP servers. A bare `$NAME` stays as it
//! is. The values are put in when a session is made, and stay there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::settings::{BearerSource, HttpServerSettings, ServerEndpoint, StdioServerSettings};

type VariableValue<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A variable that has no value, and no default in its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the variable {0} is not set")]
pub struct UnsetVariable(pub String);

/// Which key names a variable that has no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key}: {unset}")]
pub struct UnsetIn {
    pub key: String,
    pub unset: UnsetVariable,
}

impl ServerEndpoint {
    /// With the values of its variables.
    pub fn expanded(&self, value: VariableValue<'_>) -> Result<Self, UnsetIn> {
        let one = |key: &str, text: &str| {
            expand(text, value).map_err(|unset| UnsetIn {
                key: key.to_owned(),
                unset,
            })
        };
        let table = |key: &str, table: &BTreeMap<String, String>| {
            let entries = table.iter();
            let entries = entries
                .map(|(name, text)| Ok((name.clone(), one(&format!("{key}.{name}"), text)?)));
            entries.collect::<Result<BTreeMap<_, _>, _>>()
        };
        Ok(match self {
            Self::Http(http) => Self::Http(HttpServerSettings {
                url: one("url", &http.url)?,
                auth: match &http.auth {
                    BearerSource::Token(token) => BearerSource::Token(one("auth_token", token)?),
                    other @ (BearerSource::None | BearerSource::Env(_)) => other.clone(),
                },
                headers: table("headers", &http.headers)?,
                oauth: http.oauth.clone(),
            }),
            Self::Stdio(stdio) => Self::Stdio(StdioServerSettings {
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
                contain: stdio.contain.clone(),
            }),
        })
    }
}

/// Puts the values in. What is no reference stays as it is.
pub fn expand(text: &str, value: VariableValue<'_>) -> Result<String, UnsetVariable> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, reference) = rest.split_at(at);
        out.push_str(before);
        let Some(end) = reference.find('}') else {
            rest = reference;
            break;
        };
        let (inside, after) = (&reference[2..end], &reference[end + 1..]);
        let (name, default) = match inside.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inside, None),
        };
        if !is_name(name) {
            out.push_str(&reference[..=end]);
        } else if let Some(value) = value(name).or(default.map(str::to_owned)) {
            out.push_str(&value);
        } else {
            return Err(UnsetVariable(name.to_owned()));
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn is_name(text: &str) -> bool {
    let begins = |it: u8| it.is_ascii_alphabetic() || it == b'_';
    text.bytes().next().is_some_and(begins)
        && text.bytes().all(|it| begins(it) || it.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let value = |name: &str| (name == "HOME").then(|| "/home/u".to_owned());
        let seen = expand(text, &value);
        let expected = expected.map(str::to_owned);
        assert_eq!(
            expected.map_err(|it| UnsetVariable(it.to_owned())),
            seen,
            "{text}"
        );
    }

    #[test]
    fn references_are_replaced_and_nothing_else_is() {
        check("${HOME}/x", Ok("/home/u/x"));
        check("a${HOME}b${HOME}", Ok("a/home/ub/home/u"));
        check("${GONE:-y}${HOME:-z}", Ok("y/home/u"));
        check("${GONE:-}", Ok(""));
        check("${GONE}", Err("GONE"));
        check("$HOME $$ ${", Ok("$HOME $$ ${"));
        check("${workspaceFolder}", Err("workspaceFolder"));
        check("${input:key} ${a b} ${}", Ok("${input:key} ${a b} ${}"));
        check("é${HOME}é", Ok("é/home/ué"));
    }
}
