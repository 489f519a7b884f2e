//! How far a call reads that a program of ours does: within the conversation's directories nobody is asked about it.

use std::path::Path;

use aishd_log::constraints::Constraints;
use aishd_log::tool::{Tool, ToolReach};
use serde_json::{Map, Value};

use crate::secrets;

/// What the tools for files call what they are to read.
const PATH_ARGUMENTS: [&str; 2] = ["file_path", "path"];

/// Whether a call names something beyond the conversation's directories, or a file that holds keys by custom.
pub fn reads_beyond(
    tool: &Tool,
    arguments: &Map<String, Value>,
    constraints: &Constraints,
    cwd: &str,
) -> bool {
    let named = PATH_ARGUMENTS.iter();
    let mut named = named.filter_map(|it| arguments.get(*it)?.as_str());
    tool.reach == ToolReach::HeldReading
        && named.any(|it| !constraints.are_kept_by(it, cwd) || holds_keys(it))
}

fn holds_keys(path: &str) -> bool {
    let name = Path::new(path).file_name();
    secrets::of_project().any(|it| name == Some(it.as_ref()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::log_samples::tool;

    #[test]
    fn what_lies_elsewhere_and_what_holds_keys_is_asked_about() {
        let mut tool = tool("files__read", aishd_log::access::Access::Read);
        tool.reach = ToolReach::HeldReading;
        let constraints = Constraints::default();
        let check = |arguments: Value, expected: bool| {
            let of = arguments.as_object().unwrap();
            let beyond = reads_beyond(&tool, of, &constraints, "/w");
            assert_eq!(expected, beyond, "{arguments}");
        };
        check(json!({}), false);
        check(json!({"file_path": "src/a"}), false);
        check(json!({"file_path": "server/.env"}), true);
        check(json!({"path": "/etc"}), true);
        check(json!({"path": ".", "pattern": "/etc"}), false);
    }
}
