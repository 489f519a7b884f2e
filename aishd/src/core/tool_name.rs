//! What servers and tools are called (MCP-8): `<alias>__<tool>`, split at the leftmost `__`.

use std::fmt;
use std::str::FromStr;

/// Between a server's alias and its tool's own name.
const SEPARATOR: &str = "__";
/// With the separator and a short tool name it still fits the 64 characters of the strictest model servers.
const ALIAS_BYTES: usize = 48;

/// The name that we gave a server; no tool name can be mistaken for a part of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Alias(String);

/// A text that cannot be an alias.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} cannot be an alias: letters, digits and hyphens, with single underscores between them, at most {ALIAS_BYTES}"
)]
pub struct AliasError(String);

impl Alias {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The alias for a server that nobody named: the first label of its host, made one that `taken` does not know.
    #[must_use]
    pub fn for_host(host: &str, taken: impl Fn(&Self) -> bool) -> Self {
        let label = match host.parse::<::core::net::IpAddr>() {
            Ok(_address) => host,
            Err(_name) => host.split('.').next().unwrap_or_default(),
        };
        Self::near(label, taken)
    }

    /// The alias nearest to a text, e.g. the name in an imported file: `foo.bar` becomes `foo-bar`, `a__b` `a_b`.
    #[must_use]
    pub fn near(text: &str, taken: impl Fn(&Self) -> bool) -> Self {
        let mut name = String::new();
        for it in text.chars() {
            let it = if it.is_ascii_alphanumeric() || it == '_' {
                it
            } else {
                '-'
            };
            let doubled = it == '_' && (name.is_empty() || name.ends_with('_'));
            if !doubled && name.len() < ALIAS_BYTES - 4 {
                name.push(it);
            }
        }
        let name = name.trim_matches(['_', '-']);
        let name = if name.is_empty() { "server" } else { name };
        let first = Self(name.to_owned());
        if !taken(&first) {
            return first;
        }
        let mut numbered = (2_u32..).map(|number| Self(format!("{name}-{number}")));
        numbered.find(|it| !taken(it)).unwrap_or(first)
    }
}

impl FromStr for Alias {
    type Err = AliasError;

    fn from_str(text: &str) -> Result<Self, AliasError> {
        let plain = |it: u8| it.is_ascii_alphanumeric() || it == b'-';
        let parts = text
            .split('_')
            .all(|it| !it.is_empty() && it.bytes().all(plain));
        if parts && text.len() <= ALIAS_BYTES {
            Ok(Self(text.to_owned()))
        } else {
            Err(AliasError(text.chars().take(ALIAS_BYTES * 2).collect()))
        }
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A tool as everybody but its own server calls it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName {
    pub alias: Alias,
    /// As the server calls it; it may hold any underscores.
    pub tool: String,
}

impl ToolName {
    /// `None` when the text has no alias in front of a `__` and a name behind it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (alias, tool) = text.split_once(SEPARATOR)?;
        if tool.is_empty() {
            return None;
        }
        Some(Self {
            alias: alias.parse().ok()?,
            tool: tool.to_owned(),
        })
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{SEPARATOR}{}", self.alias, self.tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_leaves_no_doubt_where_the_tool_begins() {
        for good in ["a", "git-hub", "a_b_c", "9", "-"] {
            assert!(good.parse::<Alias>().is_ok(), "{good}");
        }
        let long = "a".repeat(ALIAS_BYTES + 1);
        for bad in ["", "_a", "a_", "a__b", "a.b", "a b", "ä", "a/b", &long] {
            assert!(bad.parse::<Alias>().is_err(), "{bad}");
        }
    }

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, &str)>) {
        let name = ToolName::parse(text);
        let seen = name
            .as_ref()
            .map(|it| (it.alias.as_str(), it.tool.as_str()));
        assert_eq!(expected, seen);
        if let Some(name) = name {
            assert_eq!(text, name.to_string());
        }
    }

    #[test]
    fn a_name_is_split_at_the_leftmost_double_underscore() {
        check("fs__read_file", Some(("fs", "read_file")));
        check("fs__a__b", Some(("fs", "a__b")));
        check("fs___private", Some(("fs", "_private")));
        check("a_b__c", Some(("a_b", "c")));
        check("fs__", None);
        check("__read", None);
        check("read_file", None);
    }

    #[test]
    fn names_from_elsewhere_become_the_nearest_alias() {
        let free = |_: &Alias| false;
        let near = |text: &str| Alias::near(text, free).to_string();
        assert_eq!("foo-bar", near("foo.bar"));
        assert_eq!("a_b", near("a__b"));
        assert_eq!("server", near("__"));
        assert_eq!("my-server", near(" my server "));
        assert_eq!(
            "boltzmann",
            Alias::for_host("boltzmann.lan", free).to_string()
        );
        assert_eq!("127-0-0-1", Alias::for_host("127.0.0.1", free).to_string());
        let taken = ["boltzmann", "boltzmann-2"];
        let taken = |it: &Alias| taken.contains(&it.as_str());
        assert_eq!(
            "boltzmann-3",
            Alias::for_host("boltzmann.lan", taken).to_string()
        );
        for it in ["foo.bar", "a__b", "__", " my server ", "é", "x_-_y"] {
            assert!(near(it).parse::<Alias>().is_ok(), "{it}: {}", near(it));
        }
    }
}
