//! Values that tests of several packages begin with.

use std::sync::Arc;

use aishd_log::access::Access;
use aishd_log::tool::{Network, Reach, Tool, Word};
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
        needs_by: Word::Ours,
        reads_only: needs == Access::Read,
        reach: Reach::World,
        network: Network::Stays,
        packages: Arc::default(),
        directory: None,
    }
}
