//! Values that tests of several packages begin with.

use std::sync::Arc;

use aishd_log::access::Access;
use aishd_log::tool::{ClaimSource, NetworkUse, Tool, ToolReach};
use serde_json::json;

pub(crate) fn tool(name: &str, needs: Access) -> Tool {
    Tool {
        name: name.parse().unwrap(),
        description: "Does it.".to_owned(),
        schema: json!({"type": "object"}),
        annotations: json!({}),
        server: "test".into(),
        place: "test".into(),
        needs,
        needs_by: ClaimSource::Ours,
        reads_only: needs == Access::Read,
        reach: ToolReach::World,
        network: NetworkUse::Stays,
        packages: Arc::default(),
        directory: None,
    }
}
