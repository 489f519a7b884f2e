//! How far a call reads that a program of ours does: within the conversation's directories nobody is asked about it.

use std::path::Path;

use aishd_log::constraints::Constraints;
use aishd_log::tool::{Tool, ToolReach};
use serde_json::{Map, Value};

use crate::policy::AskReason;
use crate::secrets;

/// What the tools for files call what they are to read.
pub const PATH_ARGUMENTS: [&str; 2] = ["file_path", "path"];

/// Of a path, which a model has written: the question shows the whole of it among the arguments.
const SHOWN_PATH_CHARS: usize = 200;
/// So many directories of a conversation are named.
const FEW_ROOTS: usize = 3;

/// Whether a call names something beyond the conversation's directories, or a file that holds keys by custom.
pub fn reads_beyond(
    tool: &Tool,
    arguments: &Map<String, Value>,
    constraints: &Constraints,
    cwd: &str,
) -> bool {
    tool.reach == ToolReach::HeldReading
        && named(arguments).any(|it| ReadFar::of(it, constraints, cwd).is_some())
}

/// Why a person is asked about a call, for that person: of one that reads too far with what it reads, and why that is too far.
pub fn reason_text(
    why: &AskReason,
    tool: &Tool,
    arguments: &Map<String, Value>,
    constraints: &Constraints,
    cwd: &str,
) -> String {
    let far =
        || named(arguments).find_map(|path| Some((path, ReadFar::of(path, constraints, cwd)?)));
    match (*why == AskReason::ReadsBeyond).then(far).flatten() {
        Some((path, ReadFar::HoldsKeys)) => format!(
            "it reads {}, and files of that name hold keys by custom",
            shown(path)
        ),
        Some((path, ReadFar::Outside)) => format!(
            "it reads {}, which is outside of the conversation's directories ({})",
            shown(path),
            directories(constraints, cwd)
        ),
        None => why.text(&tool.name),
    }
}

/// Why a person is asked about reading something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadFar {
    Outside,
    HoldsKeys,
}

impl ReadFar {
    fn of(path: &str, constraints: &Constraints, cwd: &str) -> Option<Self> {
        if holds_keys(path) {
            Some(Self::HoldsKeys)
        } else {
            (!constraints.are_kept_by(path, cwd)).then_some(Self::Outside)
        }
    }
}

fn named(arguments: &Map<String, Value>) -> impl Iterator<Item = &str> {
    let named = PATH_ARGUMENTS.iter();
    named.filter_map(|it| arguments.get(*it)?.as_str())
}

fn shown(path: &str) -> String {
    match path.char_indices().nth(SHOWN_PATH_CHARS) {
        Some((end, _)) => format!("{}…", &path[..end]),
        None => path.to_owned(),
    }
}

fn directories(constraints: &Constraints, cwd: &str) -> String {
    if constraints.roots.is_empty() {
        return cwd.to_owned();
    }
    let few = constraints.roots.iter().take(FEW_ROOTS);
    let few: Vec<String> = few.map(ToString::to_string).collect();
    match constraints.roots.len().saturating_sub(FEW_ROOTS) {
        0 => few.join(", "),
        more => format!("{} and {more} more", few.join(", ")),
    }
}

fn holds_keys(path: &str) -> bool {
    let name = Path::new(path).file_name();
    secrets::of_project().any(|it| name == Some(it.as_ref()))
}

#[cfg(test)]
mod tests {
    use aishd_log::constraints::ConstraintRoot;
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

    #[test]
    fn a_person_is_told_what_is_read_and_why_that_is_asked() {
        let tool = tool("files__read", aishd_log::access::Access::Read);
        let check = |roots: &[&str], arguments: Value, expected: &str| {
            let root = |it: &&str| ConstraintRoot::try_from((*it).to_owned()).unwrap();
            let constraints = Constraints {
                roots: roots.iter().map(root).collect(),
                ..Constraints::default()
            };
            let of = arguments.as_object().unwrap();
            let why = AskReason::ReadsBeyond;
            let said = reason_text(&why, &tool, of, &constraints, "/w");
            assert_eq!(expected, said, "{arguments}");
        };
        check(
            &[],
            json!({"file_path": "../v/notes"}),
            "it reads ../v/notes, which is outside of the conversation's directories (/w)",
        );
        check(
            &["/w", "/v", "/x", "/y"],
            json!({"path": "/etc"}),
            "it reads /etc, which is outside of the conversation's directories (/w, /v, /x and 1 more)",
        );
        check(
            &[],
            json!({"file_path": "server/.env"}),
            "it reads server/.env, and files of that name hold keys by custom",
        );
        let long = format!("/{}", "é".repeat(400));
        check(
            &[],
            json!({"file_path": long}),
            &format!(
                "it reads /{}…, which is outside of the conversation's directories (/w)",
                "é".repeat(199)
            ),
        );
        let every = reason_text(
            &AskReason::EveryCall,
            &tool,
            &Map::new(),
            &Constraints::default(),
            "/w",
        );
        assert_eq!("every call is asked about", every);
    }
}
