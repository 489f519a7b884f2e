//! What is kept of a server between two lives of the daemon: the era it speaks and its last tools.

use std::sync::Arc;
use std::time::Duration;

use aishd_log::tool::ContentDigest;
use aishd_mcp_messages::chosen_tools::ServerToolChoice;
use aishd_mcp_messages::server::{ServerIdentity, ServerKind};
use aishd_mcp_messages::tool::{self, HeaderMirroring, ServerTool};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::era::Era;

/// A cache must not swell the store; a server with more than this is asked again instead.
const MAX_BYTES: usize = 1 << 20;
/// Between one writing and the next.
const PAUSE: Duration = Duration::from_secs(60);

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RememberedServer {
    pub(super) era: Option<Era>,
    /// Who it said it is, without what it offered.
    pub(super) about: ServerIdentity,
    pub(super) tools: Arc<[Arc<ServerTool>]>,
}

impl RememberedServer {
    /// As it is stored; without the tools when they are too many.
    fn written(&self) -> String {
        let written = |tools: &[Arc<ServerTool>]| {
            let tools: Vec<Value> = tools.iter().map(|it| it.written()).collect();
            json!({
                "v": 1,
                "era": self.era.map(Era::name),
                "name": self.about.name,
                "version": self.about.version,
                "protocol": self.about.protocol,
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

    /// Without what is left out by now.
    pub(super) fn chosen(mut self, chosen: &ServerToolChoice) -> Self {
        if !chosen.is_all() {
            let there =
                |it: &&Arc<ServerTool>| chosen.leaves_out(&[&it.name, &it.called]).is_none();
            self.tools = self.tools.iter().filter(there).cloned().collect();
        }
        self
    }

    /// What was stored of a server with this identity; nothing where it cannot be understood.
    pub(super) fn read(text: &str, identity: &str, kind: ServerKind) -> Self {
        let stored: Value = serde_json::from_str(text).unwrap_or_default();
        if stored["v"] != 1 {
            return Self::default();
        }
        let text = |name: &str| stored[name].as_str().unwrap_or_default().to_owned();
        let era = text("era");
        let era = Era::ALL.into_iter().find(|it| it.name() == era);
        let mirroring = match (era, kind) {
            (Some(Era::Stateless), ServerKind::Http) => HeaderMirroring::Headers,
            (Some(_) | None, _) => HeaderMirroring::None,
        };
        let tools = stored["tools"].as_array().map_or(&[][..], Vec::as_slice);
        let tools = tool::read(tools, identity, mirroring).tools;
        Self {
            era,
            about: ServerIdentity {
                name: text("name"),
                version: text("version"),
                protocol: text("protocol"),
                ..ServerIdentity::default()
            },
            tools: tools.into_iter().map(Arc::new).collect(),
        }
    }
}

/// When what is to be remembered is written down: at most once in a while, whatever a server does.
#[derive(Debug)]
pub(super) struct RememberSchedule {
    era: Option<Era>,
    /// Of the text that is in the store.
    written: ContentDigest,
    next: Option<Instant>,
    unwritten: Option<RememberedServer>,
}

impl RememberSchedule {
    /// This is in the store.
    pub(super) fn of(stored: &RememberedServer) -> Self {
        Self {
            era: stored.era,
            written: ContentDigest::of(stored.written().as_bytes()),
            next: None,
            unwritten: None,
        }
    }

    /// What the server spoke last.
    pub(super) fn era(&self) -> Option<Era> {
        self.era
    }

    pub(super) fn is_now(&mut self, now: RememberedServer) {
        self.era = now.era;
        self.unwritten = Some(now);
    }

    /// When something is to be written, if there is something.
    pub(super) fn due(&self) -> Option<Instant> {
        self.unwritten.as_ref().and(self.next)
    }

    /// What is to be written now, if anything is.
    pub(super) fn take(&mut self, now: Instant, at_once: bool) -> Option<String> {
        if !at_once && self.next.is_some_and(|it| now < it) {
            return None;
        }
        let text = self.unwritten.take()?.written();
        self.next = Some(now + PAUSE);
        let written = ContentDigest::of(text.as_bytes());
        (std::mem::replace(&mut self.written, written) != written).then_some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An old record must always load.
    #[test]
    fn what_was_stored_is_read_and_the_rest_is_nothing() {
        let read = |text: &str| RememberedServer::read(text, "one", ServerKind::Http);
        let stored = r#"{"v":1,"era":"session","name":"n","version":"2","protocol":"2025-03-26","tools":[{"name":"a","icons":[]}],"more":1}"#;
        let recalled = read(stored);
        assert_eq!(Some(Era::Session), recalled.era);
        assert_eq!("a", recalled.tools[0].name);
        assert_eq!(recalled, read(&recalled.written()));
        for bad in ["", "[]", r#"{"v":2,"era":"session"}"#, "null"] {
            assert_eq!(RememberedServer::default(), read(bad));
        }
        let unknown = read(r#"{"v":1,"era":"telepathy"}"#);
        assert_eq!(None, unknown.era);
    }

    fn remembered(count: usize) -> RememberedServer {
        let tools: Vec<Value> = (0..count)
            .map(|it| json!({"name": format!("t{it}"), "description": "x".repeat(2000)}))
            .collect();
        let tools = tool::read(&tools, "", HeaderMirroring::None).tools;
        RememberedServer {
            era: Some(Era::Stateless),
            tools: tools.into_iter().map(Arc::new).collect(),
            ..RememberedServer::default()
        }
    }

    #[test]
    fn a_huge_list_is_not_kept() {
        let read = RememberedServer::read(&remembered(1000).written(), "", ServerKind::Http);
        assert_eq!((Some(Era::Stateless), 0), (read.era, read.tools.len()));
    }

    /// A server whose tools change all the time does not fill the disk.
    #[test]
    fn a_list_is_written_when_it_is_new_and_at_most_once_a_minute() {
        let (begun, mut keeping) = (Instant::now(), RememberSchedule::of(&remembered(1)));
        let mut wrote = vec![];
        for second in 0..200 {
            keeping.is_now(remembered(second + 1));
            let now = begun + Duration::from_secs(second as u64);
            if keeping.take(now, false).is_some() {
                wrote.push(second);
            }
            assert_eq!(keeping.due().is_some(), keeping.unwritten.is_some());
        }
        assert_eq!(vec![60, 120, 180], wrote);
        let now = begun + Duration::from_secs(200);
        assert!(keeping.take(now, true).is_some() && keeping.take(now, true).is_none());
        keeping.is_now(remembered(200));
        assert_eq!(None, keeping.take(now, true), "it is no news");
    }
}
