//! The revisions of MCP that the gateway speaks, in their two eras, and what differs between them.

use aish_proto::version::PROGRAM;
use serde_json::{Map, Value, json};

use super::message::{
    INVALID_PARAMS, MessageParams, RESOURCE_NOT_FOUND, RpcProblem, UNSUPPORTED_VERSION,
};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
pub(super) const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
const SERVER: &str = "io.modelcontextprotocol/serverInfo";

/// Oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum McpRevision {
    November2024,
    March2025,
    June2025,
    November2025,
    /// Stateless: each request says everything.
    July2026,
}

impl McpRevision {
    /// Newest first.
    pub(super) const ALL: [Self; 5] = [
        Self::July2026,
        Self::November2025,
        Self::June2025,
        Self::March2025,
        Self::November2024,
    ];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::November2024 => "2024-11-05",
            Self::March2025 => "2025-03-26",
            Self::June2025 => "2025-06-18",
            Self::November2025 => "2025-11-25",
            Self::July2026 => "2026-07-28",
        }
    }

    /// What `initialize` agrees on: what the client wants if we know it, else our newest of that era.
    pub(super) fn agreed(wanted: Option<&str>) -> Self {
        let found = Self::ALL
            .iter()
            .skip(1)
            .find(|it| Some(it.name()) == wanted);
        found.copied().unwrap_or(Self::November2025)
    }

    pub(super) fn is_stateless(self) -> bool {
        self == Self::July2026
    }

    pub(super) fn has_batches(self) -> bool {
        self <= Self::March2025
    }

    pub(super) fn has_audio(self) -> bool {
        self >= Self::March2025
    }

    pub(super) fn has_links(self) -> bool {
        self >= Self::June2025
    }

    /// Whether a structured result may be this value.
    pub(super) fn takes_structured(self, value: &Value) -> bool {
        match self {
            Self::November2024 | Self::March2025 => false,
            Self::June2025 | Self::November2025 => value.is_object(),
            Self::July2026 => true,
        }
    }

    /// Whether a tool may promise values of this schema.
    pub(super) fn takes_output_schema(self, schema: &Value) -> bool {
        match self {
            Self::November2024 | Self::March2025 => false,
            Self::June2025 | Self::November2025 => {
                schema.get("type").is_some_and(|it| it == "object")
            }
            Self::July2026 => schema.is_object(),
        }
    }

    /// The code of an error about a resource that is not there.
    pub(super) fn resource_not_found(self) -> i32 {
        match self {
            Self::November2024 | Self::March2025 | Self::June2025 | Self::November2025 => {
                RESOURCE_NOT_FOUND
            }
            Self::July2026 => INVALID_PARAMS,
        }
    }

    /// A result as this revision writes it.
    pub(super) fn finished(self, mut result: Map<String, Value>) -> Value {
        if self.is_stateless() {
            result.insert("resultType".to_owned(), json!("complete"));
            let meta = result.entry("_meta").or_insert_with(|| json!({}));
            meta[SERVER] = server();
        }
        Value::Object(result)
    }

    /// A result that clients may keep, which they are not to do: a list is read anew when it is needed.
    pub(super) fn list(self, mut result: Map<String, Value>) -> Value {
        if self.is_stateless() {
            result.insert("ttlMs".to_owned(), json!(0));
            result.insert("cacheScope".to_owned(), json!("private"));
        }
        self.finished(result)
    }
}

/// Who we are.
pub(super) fn server() -> Value {
    json!({"name": "aish", "title": "aish", "version": PROGRAM})
}

pub(super) fn supported() -> Vec<&'static str> {
    McpRevision::ALL.iter().map(|it| it.name()).collect()
}

/// What a request of the stateless era says of itself.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StatedRevision {
    pub(super) client: Option<String>,
    /// Lines of logs that its call may send meanwhile, from this level on.
    pub(super) log_level: Option<String>,
}

/// Reads the `_meta` of a request; `None`: it says nothing of a revision, and belongs to a session of the older era.
pub(super) fn stated_revision(
    params: &MessageParams,
) -> Result<Option<StatedRevision>, RpcProblem> {
    let Some(meta) = params.get("_meta").and_then(Value::as_object) else {
        return Ok(None);
    };
    let missing = |name: &str| RpcProblem::new(INVALID_PARAMS, format!("_meta has no {name:?}"));
    let Some(version) = meta.get(VERSION) else {
        // Somebody who states anything means to be understood as stateless.
        let states = meta.contains_key(CAPABILITIES) || meta.contains_key(CLIENT);
        return if states {
            Err(missing(VERSION))
        } else {
            Ok(None)
        };
    };
    if version.as_str() != Some(McpRevision::July2026.name()) {
        let mut problem = RpcProblem::new(UNSUPPORTED_VERSION, "Unsupported protocol version");
        problem.data = Some(json!({"supported": supported(), "requested": version}));
        return Err(problem);
    }
    if !meta.get(CAPABILITIES).is_some_and(Value::is_object) {
        return Err(missing(CAPABILITIES));
    }
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
    Ok(Some(StatedRevision {
        client: text(meta.get(CLIENT).and_then(|it| it.get("name"))),
        log_level: text(meta.get(LOG_LEVEL)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clients_revision_is_taken_where_we_know_it() {
        let check = |wanted, agreed: &str| {
            assert_eq!(agreed, McpRevision::agreed(wanted).name(), "{wanted:?}");
        };
        check(Some("2024-11-05"), "2024-11-05");
        check(Some("2025-03-26"), "2025-03-26");
        check(Some("2025-11-25"), "2025-11-25");
        check(Some("2026-07-28"), "2025-11-25");
        check(Some("1999-01-01"), "2025-11-25");
        check(None, "2025-11-25");
    }

    #[track_caller]
    fn check(meta: &Value, expected: Result<bool, i32>) {
        let params = json!({"_meta": meta});
        let read = stated_revision(params.as_object().unwrap());
        let said = read.map(|it| it.is_some()).map_err(|it| it.code);
        assert_eq!(expected, said, "{params}");
    }

    #[test]
    fn a_stateless_request_states_all_it_must() {
        check(&json!({}), Ok(false));
        check(&json!({"progressToken": 1}), Ok(false));
        check(&json!({VERSION: "2026-07-28", CAPABILITIES: {}}), Ok(true));
        check(&json!({VERSION: "2026-07-28"}), Err(INVALID_PARAMS));
        check(&json!({CAPABILITIES: {}}), Err(INVALID_PARAMS));
        check(
            &json!({VERSION: "2027-01-01", CAPABILITIES: {}}),
            Err(UNSUPPORTED_VERSION),
        );
    }
}
