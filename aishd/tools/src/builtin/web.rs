//! `web`, the tool that reads pages: how it is offered, and what a call of it means. The work is done by a program of our own,
//! behind a boundary (`crate::fetch`).

use aishd_fetch::{FETCH, FetchCall, FetchTool, definition};
use aishd_log::confirm::host::PAGE_PROVIDER;
use aishd_log::tool::{NetworkUse, Tool, ToolReach};
use aishd_log::tool_name::ToolName;
use serde_json::{Map, Value, json};

use super::tool;

pub(crate) const PROVIDER: &str = PAGE_PROVIDER;
const PROVIDED: &str = "aishd";

pub(super) fn tools() -> [Tool; 1] {
    let FetchTool {
        name,
        description,
        schema,
    } = definition();
    let name = format!("{PROVIDER}__{name}");
    [Tool {
        annotations: json!({"readOnlyHint": true, "openWorldHint": true}),
        network: NetworkUse::MayLeave,
        // One after another, so that nobody is asked twice at once about one host.
        reads_only: false,
        ..tool(&name, PROVIDED, description, schema, ToolReach::HeldHosts)
    }]
}

/// Whether a tool reads pages.
pub fn reads_web(name: &ToolName) -> bool {
    name.alias().as_str() == PROVIDER
}

/// What a call of a capability means; `None`: there is no such capability.
pub(super) fn call(
    capability: &str,
    arguments: &Map<String, Value>,
) -> Option<Result<FetchCall, String>> {
    (capability == FETCH).then(|| FetchCall::of(arguments))
}
