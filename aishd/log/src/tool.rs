//! A tool as it is offered to a model, and the digests that consent is bound to.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::access::Access;
use crate::canonical::canonical;
use crate::tool_name::ToolName;

/// One tool of one provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    pub name: ToolName,
    pub description: String,
    /// The input schema, every word of it as the provider wrote it.
    pub schema: Value,
    /// What its provider says of its behaviour; believed only where it makes a call stricter.
    pub annotations: Value,
    /// Whose it is: command, arguments and resolved program, or the origin of a URL.
    pub server: Arc<str>,
    /// The same for people: a command or a URL, without secrets.
    pub place: Arc<str>,
    /// The level that a call needs.
    pub needs: Access,
    /// Who says so.
    pub needs_by: ClaimSource,
    /// Calls of it may run beside others that only read.
    pub reads_only: bool,
    pub reach: ToolReach,
    pub network: NetworkUse,
    /// What a call of it would fetch and run besides itself, as it is asked for.
    pub packages: Arc<[String]>,
    /// Where it runs, for people, when that is not the conversation's directory.
    pub directory: Option<Arc<str>>,
}

/// Whose word something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimSource {
    /// The configuration's, a manifest's or the program's own.
    Ours,
    /// A server's of itself: it makes nothing easier.
    Servers,
}

/// Whether its calls can leave this machine, as far as that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkUse {
    /// Its provider is here, and says so of the tool.
    Stays,
    MayLeave,
}

/// How far a call of a tool reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolReach {
    /// Not beyond what the model was shown in this conversation: there is nothing to ask a person about.
    Conversation,
    /// To what a program of ours reads that the kernel lets write nothing, and shows no keys.
    HeldReading,
    /// To hosts that a program of ours only gets pages from, each allowed by a rule or by a person.
    HeldHosts,
    /// To what a program of ours changes in layers: it is real when a person keeps it.
    HeldChanging,
    /// Anything else.
    World,
}

/// SHA-256, in hexadecimal where it is text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ContentDigest(pub [u8; 32]);

/// What a decision is about: a call of this tool, with what its digest is of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecisionSubject {
    pub tool: ToolName,
    pub digest: ContentDigest,
}

impl DecisionSubject {
    /// `None` where the name is no tool's.
    pub fn named(name: &str, digest: ContentDigest) -> Option<Self> {
        let tool = name.parse().ok()?;
        Some(Self { tool, digest })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is 64 hexadecimal digits")]
pub struct NoDigest;

impl ContentDigest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Over a value in its one spelling.
    pub fn of_value(value: &Value) -> Self {
        Self::of(canonical(value).as_bytes())
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|it| write!(f, "{it:02x}"))
    }
}

impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for ContentDigest {
    type Err = NoDigest;

    fn from_str(text: &str) -> Result<Self, NoDigest> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|it| it.is_ascii_hexdigit()) {
            return Err(NoDigest);
        }
        for (at, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(at * 2..at * 2 + 2).ok_or(NoDigest)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| NoDigest)?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for ContentDigest {
    type Error = NoDigest;

    fn try_from(text: String) -> Result<Self, NoDigest> {
        text.parse()
    }
}

impl From<ContentDigest> for String {
    fn from(sha: ContentDigest) -> Self {
        sha.to_string()
    }
}

impl Tool {
    /// What an approval that outlives one call is bound to.
    pub fn definition(&self) -> Value {
        let mut definition = json!({
            "name": self.name.to_string(),
            "description": self.description,
            "inputSchema": self.schema,
            "annotations": self.annotations,
        });
        if !self.packages.is_empty() {
            definition["packages"] = self.packages.to_vec().into();
        }
        definition
    }

    pub fn definition_digest(&self) -> ContentDigest {
        let definition = json!({"definition": self.definition(), "server": &*self.server});
        ContentDigest::of_value(&definition)
    }

    /// What one consent is bound to: this definition of this server, what it may do, these arguments, this directory.
    pub fn call_digest(&self, arguments: &Map<String, Value>, cwd: &str) -> ContentDigest {
        ContentDigest::of_value(&json!({
            "definition": self.definition(),
            "server": &*self.server,
            "level": self.needs.number(),
            "arguments": arguments,
            "cwd": cwd,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tool;

    fn arguments(json: &str) -> Map<String, Value> {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn a_digest_is_of_everything_that_runs_and_of_nothing_else() {
        let digest = |tool: &Tool, json, cwd| tool.call_digest(&arguments(json), cwd);
        let plain = tool("fs__rm", Access::Execute);
        let base = digest(&plain, r#"{"path":"/a","n":1}"#, "/w");
        assert_eq!(
            base,
            digest(&plain, r#"{ "n": 1.0, "path": "\u002fa" }"#, "/w")
        );
        let mut described = plain.clone();
        described.description.push(' ');
        let mut moved = plain.clone();
        moved.server = "other".into();
        let mut lied = plain.clone();
        lied.annotations = json!({"readOnlyHint": true});
        let mut fetching = plain.clone();
        fetching.packages = ["rich".to_owned()].into();
        let mut raised = plain.clone();
        raised.needs = Access::Write;
        for (tool, json, cwd) in [
            (&plain, r#"{"path":"/a","n":2}"#, "/w"),
            (&plain, r#"{"path":"/a"}"#, "/w"),
            (&plain, r#"{"path":"/a","n":1}"#, "/"),
            (&described, r#"{"path":"/a","n":1}"#, "/w"),
            (&moved, r#"{"path":"/a","n":1}"#, "/w"),
            (&lied, r#"{"path":"/a","n":1}"#, "/w"),
            (&fetching, r#"{"path":"/a","n":1}"#, "/w"),
            (&raised, r#"{"path":"/a","n":1}"#, "/w"),
        ] {
            assert_ne!(base, digest(tool, json, cwd));
        }
        assert_eq!(Ok(base), base.to_string().parse());
    }
}
