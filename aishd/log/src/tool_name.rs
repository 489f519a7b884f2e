//! What a tool is called: `alias__tool` for people and logs, and a form of it that every model server
//! takes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

/// The longest name that all servers take.
const WIRE_CHARS: usize = 64;
/// Characters of the digest that makes a shortened name unlike all others.
const MARK_CHARS: usize = 16;
/// What stands between a shortened name and its mark.
const MARK: &str = "_x";
const MAX_ALIAS_BYTES: usize = 64;
/// Of an alias that we make, so that a number fits behind it and a tool's name into 64 characters.
const NEAR_BYTES: usize = 40;
const MAX_TOOL_BYTES: usize = 128;
/// Providers that are part of the daemon.
pub const OWN_PROVIDERS: [&str; 7] = [
    "aish",
    "data-tool",
    "example-tool",
    "files",
    "shell",
    "todo",
    "web",
];

/// Who offers a tool: an MCP server's alias, a registry tool, or `aish` itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Alias(String);

/// A tool among all that are offered.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName {
    alias: Alias,
    tool: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    #[error(
        "the alias {0:?} is not made of letters, digits and single hyphens or underscores within"
    )]
    Alias(String),
    #[error("the tool name {0:?} is empty, too long, or not printable ASCII")]
    Tool(String),
    #[error("{0:?} has no \"__\" between an alias and a tool")]
    NotQualified(String),
}

impl Alias {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is a part of the daemon.
    pub fn is_own(&self) -> bool {
        OWN_PROVIDERS.contains(&self.as_str())
    }

    /// The alias for a server that nobody named: the first label of its host, made one that `taken` does not know.
    pub fn for_host(host: &str, taken: impl Fn(&Self) -> bool) -> Self {
        let label = match host.parse::<::core::net::IpAddr>() {
            Ok(_address) => host,
            Err(_name) => host.split('.').next().unwrap_or_default(),
        };
        Self::near(label, taken)
    }

    /// The alias nearest to a text, e.g. the name in an imported file: `foo.bar` becomes `foo-bar`, `a__b` `a_b`.
    pub fn near(text: &str, taken: impl Fn(&Self) -> bool) -> Self {
        let mut name = String::new();
        for it in text.chars() {
            let it = if it.is_ascii_alphanumeric() || it == '_' {
                it
            } else {
                '-'
            };
            let doubled = it == '_' && (name.is_empty() || name.ends_with('_'));
            if !doubled && name.len() < NEAR_BYTES {
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
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let word = |it: &str| {
            !it.is_empty()
                && it
                    .bytes()
                    .all(|it| it.is_ascii_alphanumeric() || it == b'-')
        };
        if text.len() <= MAX_ALIAS_BYTES && text.split('_').all(word) {
            Ok(Self(text.to_owned()))
        } else {
            Err(NameError::Alias(text.to_owned()))
        }
    }
}

impl ToolName {
    /// A server's tool under the server's alias.
    pub fn new(alias: Alias, tool: &str) -> Result<Self, NameError> {
        let fits = (1..=MAX_TOOL_BYTES).contains(&tool.len());
        if fits && tool.bytes().all(|it| it.is_ascii_graphic()) {
            let tool = tool.to_owned();
            Ok(Self { alias, tool })
        } else {
            Err(NameError::Tool(tool.to_owned()))
        }
    }

    pub fn alias(&self) -> &Alias {
        &self.alias
    }

    /// What its own server calls it.
    pub fn tool(&self) -> &str {
        &self.tool
    }
}

impl FromStr for ToolName {
    type Err = NameError;

    /// Splits at the leftmost `__`; the tool may hold more of them.
    fn from_str(text: &str) -> Result<Self, NameError> {
        let (alias, tool) = text
            .split_once("__")
            .ok_or_else(|| NameError::NotQualified(text.to_owned()))?;
        Self::new(alias.parse()?, tool)
    }
}

impl fmt::Display for Alias {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}__{}", self.alias, self.tool)
    }
}

/// The name as it goes out to a model server: itself where every server takes it, else its beginning and a mark
/// made of the whole. A name that already ends like a mark is marked too, so that no name can be taken for
/// another's short form.
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

    #[track_caller]
    fn check(qualified: &str, expected: Option<(&str, &str)>) {
        let name = qualified.parse::<ToolName>().ok();
        let parts = name.as_ref().map(|it| (it.alias().as_str(), it.tool()));
        assert_eq!(expected, parts, "{qualified:?}");
        if let Some(name) = name {
            assert_eq!(qualified, name.to_string());
        }
    }

    #[test]
    fn a_name_is_split_at_the_leftmost_double_underscore() {
        check("fs__read_file", Some(("fs", "read_file")));
        check("a_b-c__x__y_", Some(("a_b-c", "x__y_")));
        check("git.hub__x", None);
        check("git__hub.x", Some(("git", "hub.x")));
        check("a___x", Some(("a", "_x")));
        check("__x", None);
        check("_a__x", None);
        check("a_", None);
        check("a__", None);
        check("a__b c", None);
        check("a__é", None);
        check(
            &format!("a__{}", "x".repeat(128)),
            Some(("a", &"x".repeat(128))),
        );
        check(&format!("a__{}", "x".repeat(129)), None);
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
