//! What servers and tools are called (MCP-8): `<alias>__<tool>`, split at the leftmost `__`; and a form of it that
//! every model server takes (BRK-5).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// Between a server's alias and its tool's own name.
const SEPARATOR: &str = "__";
/// With the separator and a short tool name it still fits the 64 characters of the strictest model servers.
const ALIAS_BYTES: usize = 48;

/// The longest name that all model servers take (spec 00, MCP).
const WIRE_CHARS: usize = 64;
/// Characters of the digest that makes a shortened name unlike all others, and what stands before them.
const MARK_CHARS: usize = 16;
const MARK: &str = "_x";

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

/// A text that names no tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no alias and tool with \"__\" between them")]
pub struct NameError(pub String);

impl FromStr for ToolName {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        Self::parse(text).ok_or_else(|| NameError(text.to_owned()))
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{SEPARATOR}{}", self.alias, self.tool)
    }
}

/// The name as it goes out to a model server: itself where every server takes it, else its beginning and a mark
/// made of the whole. A name that already ends like a mark is marked too, so that no name can be taken for
/// another's short form.
#[must_use]
pub fn on_the_wire(name: &str) -> String {
    let plain = |it: u8| it.is_ascii_alphanumeric() || it == b'_' || it == b'-';
    let fits = !name.is_empty() && name.len() <= WIRE_CHARS && name.bytes().all(plain);
    if fits && !ends_with_mark(name) {
        return name.to_owned();
    }
    let digest = Sha256::digest(name.as_bytes());
    let mark: String = digest.iter().map(|it| format!("{it:02x}")).collect();
    let begin: String = name
        .chars()
        .take(WIRE_CHARS - MARK.len() - MARK_CHARS)
        .map(|it| {
            let kept = it.is_ascii_alphanumeric() || it == '_' || it == '-';
            if kept { it } else { '_' }
        })
        .collect();
    format!("{begin}{MARK}{}", &mark[..MARK_CHARS])
}

fn ends_with_mark(name: &str) -> bool {
    let Some(at) = name.len().checked_sub(MARK_CHARS) else {
        return false;
    };
    let hex = |it: u8| it.is_ascii_digit() || (b'a'..=b'f').contains(&it);
    name.is_char_boundary(at) && name[..at].ends_with(MARK) && name[at..].bytes().all(hex)
}

macro_rules! stored_as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
stored_as_text!(Alias);
stored_as_text!(ToolName);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

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

    /// BRK-5.
    #[test]
    fn a_name_goes_out_in_a_form_that_every_server_takes() {
        let long = format!("server__{}", "very_long_".repeat(9));
        for (name, same) in [
            ("fs__read_file", true),
            ("fs__read.file", false),
            (&long, false),
            ("fs__odd_x0123456789abcdef", false),
            ("", false),
            ("données__été", false),
        ] {
            let wire = on_the_wire(name);
            assert_eq!(same, wire == name, "{name} {wire}");
            assert!(wire.len() <= 64, "{wire}");
        }
        // It has to stay the same for ever: histories hold it.
        assert_eq!(
            "fs__read_file_x3d6b9878a33cff8b",
            on_the_wire("fs__read.file")
        );
    }

    proptest! {
        #[test]
        fn two_names_never_share_a_form(a in "[a-z_.x0-9]{0,80}", b in "[a-z_.x0-9]{0,80}") {
            let (wire_a, wire_b) = (on_the_wire(&a), on_the_wire(&b));
            prop_assert_eq!(a == b, wire_a == wire_b);
            // A name that came back from a server in this form cannot be the plain form of another.
            prop_assert!(wire_a == a || on_the_wire(&wire_a) != wire_a);
        }
    }
}
