//! The protocol's eras: sessions that begin with `initialize`, and since 2026-07-28 requests that each carry
//! everything. Which one a server speaks is found out once and kept.

use aishd_mcp_messages::server::ServerOffers;
use serde_json::{Map, Value, json};

pub(super) const STATELESS: &str = "2026-07-28";
/// The newest revision that has `initialize`.
pub(super) const NEWEST_SESSION: &str = "2025-11-25";

/// Without it a server of 2026-07-28 says nothing of what it does.
pub(super) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
const TASKS: &str = "io.modelcontextprotocol/tasks";

pub(super) const HEADER_MISMATCH: i64 = -32020;
pub(super) const CAPABILITY_MISSING: i64 = -32021;
pub(super) const VERSION_UNSUPPORTED: i64 = -32022;

/// How a server is to be talked to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Era {
    /// 2026-07-28: no session; `_meta` in every request.
    Stateless,
    /// 2025-03-26 to 2025-11-25, and all of stdio before 2026.
    Session,
    /// 2024-11-05 over HTTP: answers come on one stream that names the address for questions.
    EventStream,
}

impl Era {
    pub(super) const ALL: [Self; 3] = [Self::Stateless, Self::Session, Self::EventStream];

    /// As it is stored.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Stateless => "stateless",
            Self::Session => "session",
            Self::EventStream => "event-stream",
        }
    }
}

/// What this client can do; what is off is not announced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClientAbilities {
    pub(super) roots: bool,
    pub(super) elicitation: bool,
    /// Without tools and without context.
    pub(super) sampling: bool,
}

impl ClientAbilities {
    pub(super) fn announced(self) -> Value {
        let mut all = Map::new();
        if self.roots {
            all.insert("roots".to_owned(), json!({}));
        }
        if self.elicitation {
            all.insert("elicitation".to_owned(), json!({"form": {}, "url": {}}));
        }
        if self.sampling {
            all.insert("sampling".to_owned(), json!({}));
        }
        Value::Object(all)
    }
}

pub(super) fn client_info() -> Value {
    json!({"name": "aish", "version": env!("CARGO_PKG_VERSION")})
}

/// What every request of the stateless era carries.
pub(super) fn meta(abilities: ClientAbilities) -> Map<String, Value> {
    let mut meta = Map::new();
    let mut able = abilities.announced();
    // Any call may be answered with a task, and whoever asks for one later has to say so again.
    able["extensions"] = json!({TASKS: {}});
    for (name, value) in [
        ("protocolVersion", json!(STATELESS)),
        ("clientCapabilities", able),
        ("clientInfo", client_info()),
    ] {
        meta.insert(format!("io.modelcontextprotocol/{name}"), value);
    }
    meta
}

/// What a server announced.
pub(super) fn offers(capabilities: &Value) -> ServerOffers {
    let has = |name| capabilities.get(name).is_some_and(Value::is_object);
    let says =
        |name, what| capabilities.get(name).and_then(|it| it.get(what)) == Some(&json!(true));
    ServerOffers {
        // A server that announces nothing at all is asked.
        tools: has("tools") || capabilities.as_object().is_none_or(Map::is_empty),
        tools_changes: says("tools", "listChanged"),
        resources: has("resources"),
        resources_changes: says("resources", "subscribe"),
        resources_list_changes: says("resources", "listChanged"),
        prompts: has("prompts"),
        prompts_list_changes: says("prompts", "listChanged"),
        completions: has("completions"),
        tasks: capabilities
            .pointer("/tasks/requests/tools/call")
            .is_some_and(Value::is_object),
        logging: has("logging"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_off_is_not_announced() {
        assert_eq!(json!({}), ClientAbilities::default().announced());
        let on = ClientAbilities {
            roots: true,
            elicitation: true,
            sampling: true,
        };
        assert_eq!(
            json!({"roots": {}, "elicitation": {"form": {}, "url": {}}, "sampling": {}}),
            on.announced()
        );
        let meta = Value::Object(meta(ClientAbilities::default()));
        assert_eq!(
            json!("2026-07-28"),
            meta["io.modelcontextprotocol/protocolVersion"]
        );
        assert_eq!(
            json!("aish"),
            meta["io.modelcontextprotocol/clientInfo"]["name"]
        );
    }

    #[test]
    fn capabilities_are_read_leniently() {
        let all = offers(&json!({"tools": {"listChanged": true}, "prompts": "yes"}));
        assert!(all.tools && all.tools_changes && !all.prompts);
        assert!(offers(&json!({})).tools && offers(&Value::Null).tools);
        assert!(!offers(&json!({"prompts": {}})).tools);
    }
}
