//! What is kept of a server between two lives of the daemon: the era it speaks and its last tools (MCP-2, MCP-7).

use serde_json::{Value, json};

use super::era::Era;
use crate::core::mcp::server::{About, Kind, ServerStatus};
use crate::core::mcp::tool::{self, Listed, Mirroring};

/// A cache must not swell the store; a server with more than this is asked again instead.
const MAX_BYTES: usize = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Remembered {
    era: Option<Era>,
    name: String,
    version: String,
    protocol: String,
    tools: Vec<Value>,
}

impl Remembered {
    pub(super) fn new(era: Era, status: &ServerStatus) -> Self {
        Self {
            era: Some(era),
            name: status.about.name.clone(),
            version: status.about.version.clone(),
            protocol: status.about.protocol.clone(),
            tools: status.tools.iter().map(|it| it.sent.clone()).collect(),
        }
    }

    pub(super) fn era(&self) -> Option<Era> {
        self.era
    }

    pub(super) fn about(&self) -> About {
        About {
            name: self.name.clone(),
            version: self.version.clone(),
            protocol: self.protocol.clone(),
            ..About::default()
        }
    }

    pub(super) fn listed(&self, identity: &str, kind: Kind) -> Listed {
        let mirroring = match (self.era, kind) {
            (Some(Era::Stateless), Kind::Http) => Mirroring::Headers,
            (Some(_) | None, _) => Mirroring::None,
        };
        tool::read(&self.tools, identity, mirroring)
    }

    /// As it is stored; without the tools when they are too many.
    pub(super) fn written(&self) -> String {
        let written = |tools: &[Value]| {
            json!({
                "v": 1,
                "era": self.era.map(Era::name),
                "name": self.name,
                "version": self.version,
                "protocol": self.protocol,
                "tools": tools,
            })
            .to_string()
        };
        let whole = written(&self.tools);
        if whole.len() <= MAX_BYTES {
            whole
        } else {
            written(&[])
        }
    }

    /// What was stored; nothing where it cannot be understood.
    pub(super) fn read(text: &str) -> Self {
        let stored: Value = serde_json::from_str(text).unwrap_or_default();
        if stored["v"] != 1 {
            return Self::default();
        }
        let text = |name: &str| stored[name].as_str().unwrap_or_default().to_owned();
        let era = text("era");
        Self {
            era: Era::ALL.into_iter().find(|it| it.name() == era),
            name: text("name"),
            version: text("version"),
            protocol: text("protocol"),
            tools: stored["tools"].as_array().cloned().unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An old record must always load (style, 28).
    #[test]
    fn what_was_stored_is_read_and_the_rest_is_nothing() {
        let stored = r#"{"v":1,"era":"session","name":"n","version":"2","protocol":"2025-03-26","tools":[{"name":"a"}],"more":1}"#;
        let read = Remembered::read(stored);
        assert_eq!(Some(Era::Session), read.era());
        assert_eq!("a", read.listed("", Kind::Http).tools[0].name);
        assert_eq!(read, Remembered::read(&read.written()));
        for bad in ["", "[]", r#"{"v":2,"era":"session"}"#, "null"] {
            assert_eq!(Remembered::default(), Remembered::read(bad));
        }
        let unknown = Remembered::read(r#"{"v":1,"era":"telepathy"}"#);
        assert_eq!(None, unknown.era());
    }

    #[test]
    fn a_huge_list_is_not_kept() {
        let tools = vec![json!({"name": "a", "x": "y".repeat(MAX_BYTES)})];
        let huge = Remembered {
            era: Some(Era::Stateless),
            tools,
            ..Remembered::default()
        };
        let read = Remembered::read(&huge.written());
        assert_eq!((Some(Era::Stateless), 0), (read.era, read.tools.len()));
    }
}
