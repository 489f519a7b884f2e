//! `files`, the tools for files of this machine: how they are offered, and what a call of one means. The work is done by a
//! program of our own, behind a boundary (`crate::files`).

use aishd_files::{FileCall, FileTool, definitions};
use aishd_log::access::Access;
use aishd_log::tool::{Tool, ToolReach};
use serde_json::{Map, Value, json};

use super::tool;

pub(super) const PROVIDER: &str = "files";
const PROVIDED: &str = "aishd";

pub(super) fn tools() -> impl Iterator<Item = Tool> {
    definitions().into_iter().map(offered)
}

fn offered(it: FileTool) -> Tool {
    let name = format!("{PROVIDER}__{}", it.name);
    let reads_only = it.access == Access::Read;
    let reach = if reads_only {
        ToolReach::HeldReading
    } else {
        ToolReach::HeldChanging
    };
    Tool {
        annotations: json!({
            "readOnlyHint": reads_only,
            "destructiveHint": !reads_only,
            "openWorldHint": false,
        }),
        needs: it.access,
        reads_only,
        ..tool(&name, PROVIDED, it.description, it.schema, reach)
    }
}

/// What a call of a capability means; `None`: there is no such capability.
pub(super) fn call(
    capability: &str,
    arguments: &Map<String, Value>,
) -> Option<Result<FileCall, String>> {
    let mut own = definitions().into_iter();
    own.any(|it| it.name == capability)
        .then(|| FileCall::of(capability, arguments))
}
