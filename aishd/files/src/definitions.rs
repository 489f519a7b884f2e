//! The tools as a model is offered them. Names of parameters are those that models know from elsewhere.

use aishd_log::access::Access;
use serde_json::{Value, json};

pub(crate) const READ: &str = "read";
pub(crate) const LIST: &str = "list";
pub(crate) const SEARCH: &str = "search";
pub(crate) const EDIT: &str = "edit";
pub(crate) const WRITE: &str = "write";

/// One tool, without whose it is.
#[derive(Clone, Debug, PartialEq)]
pub struct FileTool {
    pub name: &'static str,
    pub description: &'static str,
    /// The schema of its arguments; it takes no others.
    pub schema: Value,
    pub access: Access,
}

/// All of them, in the order in which they are offered.
pub fn definitions() -> [FileTool; 5] {
    [read(), list(), search(), edit(), write()]
}

fn read() -> FileTool {
    FileTool {
        name: READ,
        description: "Reads a file, at most 2000 lines at once. Each line has its number and a tab before it, which are no part of \
             the file. `offset` and `limit` read on. Pictures (PNG, JPEG, GIF, WebP) are shown, notebooks (.ipynb) are read by cells. \
             A file has to be read before it is edited or replaced.",
        schema: object(
            &json!({
                "file_path": path("the file"),
                "offset": {"type": "integer", "minimum": 1, "description": "the first line, from 1; of a notebook the first cell"},
                "limit": {"type": "integer", "minimum": 1, "description": "how many lines"},
            }),
            &["file_path"],
        ),
        access: Access::Read,
    }
}

fn list() -> FileTool {
    FileTool {
        name: LIST,
        description: "Lists a directory, or finds files by name: `glob` \"**/*.rs\" finds them at any depth. What .gitignore and \
             .ignore name is left out unless `all` is true; other hidden files are listed.",
        schema: object(
            &json!({
                "path": path("the directory; without it the current one"),
                "depth": {"type": "integer", "minimum": 1, "description": "levels of directories, 1 unless there is a glob"},
                "glob": {"type": "string", "description": "only names like this, such as \"*.toml\" or \"src/**/*.{ts,tsx}\"; \"!\" before it leaves them out"},
                "sort": {"type": "string", "enum": ["name", "newest"], "description": "by name, or what was changed last first"},
                "all": {"type": "boolean", "description": "also what ignore files name"},
                "limit": {"type": "integer", "minimum": 1, "description": "how many entries, 300 unless it is said"},
            }),
            &[],
        ),
        access: Access::Read,
    }
}

fn search() -> FileTool {
    FileTool {
        name: SEARCH,
        description: "Finds lines in files by a regular expression, as ripgrep does: literal braces and parentheses need a backslash, or \
             `literal`. A pattern matches within one line. What .gitignore and .ignore name is left out unless `all` is true; \
             so are binary files.",
        schema: object(
            &json!({
                "pattern": {"type": "string", "minLength": 1, "description": "a regular expression of Rust"},
                "path": path("a directory or a file; without it the current directory"),
                "glob": {"type": "string", "description": "only files like this, such as \"*.js\" or \"src/**/*.{ts,tsx}\"; \"!\" before it leaves them out"},
                "type": {"type": "string", "description": "only files of this kind, such as \"rust\", \"py\", \"js\""},
                "output_mode": {
                    "type": "string",
                    "enum": ["content", "files_with_matches", "count"],
                    "description": "matching lines (the default), names of files, or how many lines in each",
                },
                "ignore_case": {"type": "boolean"},
                "literal": {"type": "boolean", "description": "the pattern is plain text"},
                "before": lines("lines shown before each match"),
                "after": lines("lines shown after each match"),
                "context": lines("lines shown before and after each match"),
                "head_limit": {"type": "integer", "minimum": 1, "description": "how many matching lines, or files; 100 unless it is said"},
                "offset": lines("how many matching lines, or files, to leave out first"),
                "all": {"type": "boolean", "description": "also what ignore files name"},
            }),
            &["pattern"],
        ),
        access: Access::Read,
    }
}

fn edit() -> FileTool {
    let old = "the text to replace, exactly as it is in the file, white space too, without the numbers that `read` shows";
    let all = "replace it wherever it is; else it has to be there once";
    FileTool {
        name: EDIT,
        description: "Replaces text in a file that was read. `old_string` has to be in it exactly once: add lines around it, or use \
             `replace_all`. Several places go into `edits`, which are made in their order, all or none. Line ends of the file are kept: \
             write plain newlines.",
        schema: object(
            &json!({
                "file_path": path("the file"),
                "old_string": {"type": "string", "minLength": 1, "description": old},
                "new_string": {"type": "string", "description": "what it becomes"},
                "replace_all": {"type": "boolean", "description": all},
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": crate::call::MOST_EDITS,
                    "description": "several edits of the file, instead of the three above",
                    "items": object(
                        &json!({
                            "old_string": {"type": "string", "minLength": 1},
                            "new_string": {"type": "string"},
                            "replace_all": {"type": "boolean"},
                        }),
                        &["old_string", "new_string"],
                    ),
                },
            }),
            &["file_path"],
        ),
        access: Access::Write,
    }
}

fn write() -> FileTool {
    FileTool {
        name: WRITE,
        description: "Makes a new file, with the directories that it needs, or replaces all that is in one that was read. To change a \
             part of a file, `edit` is better.",
        schema: object(
            &json!({
                "file_path": path("the file"),
                "content": {"type": "string", "description": "all of it"},
            }),
            &["file_path", "content"],
        ),
        access: Access::Write,
    }
}

fn path(what: &str) -> Value {
    json!({"type": "string", "minLength": 1, "description": format!("{what}, absolute or from the current directory")})
}

fn lines(what: &str) -> Value {
    json!({"type": "integer", "minimum": 0, "description": what})
}

fn object(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::FileCall;

    #[test]
    fn each_tool_says_what_it_takes_and_takes_no_more() {
        let mut offered = vec![];
        for tool in definitions() {
            assert!(jsonschema::meta::is_valid(&tool.schema), "{}", tool.name);
            assert_eq!(false, tool.schema["additionalProperties"], "{}", tool.name);
            assert!(tool.description.len() < 600, "{}", tool.name);
            let properties = tool.schema["properties"].as_object().unwrap();
            let names: Vec<&str> = properties.keys().map(String::as_str).collect();
            let level = tool.access.number();
            offered.push(format!("{} {level} {}", tool.name, names.join(" ")));
        }
        let expected = [
            "read 1 file_path limit offset",
            "list 1 all depth glob limit path sort",
            "search 1 after all before context file_type glob head_limit ignore_case literal offset output_mode path pattern",
            "edit 2 edits file_path new_string old_string replace_all",
            "write 2 content file_path",
        ];
        let expected = expected.map(|it| it.replace("file_type ", ""));
        let mut offered = offered.into_iter();
        for expected in expected {
            let offered = offered.next().unwrap();
            assert_eq!(expected, offered.replace(" type", ""));
        }
    }

    /// A schema and what reads the arguments speak of the same: what the one takes, the other takes.
    #[test]
    fn what_a_schema_takes_is_a_call() {
        let check = |name: &str, arguments: Value, fits: bool| {
            let tool = definitions()
                .into_iter()
                .find(|it| it.name == name)
                .unwrap();
            let valid = jsonschema::is_valid(&tool.schema, &arguments);
            let call = FileCall::of(name, arguments.as_object().unwrap());
            assert_eq!((fits, fits), (valid, call.is_ok()), "{arguments} {call:?}");
            if let Ok(call) = call {
                assert_eq!(tool.access, call.access());
            }
        };
        check(
            "read",
            json!({"file_path": "a", "offset": 1, "limit": 2}),
            true,
        );
        check("read", json!({"file_path": "a", "offset": "1"}), false);
        check("read", json!({"path": "a"}), false);
        check(
            "list",
            json!({"path": "a", "depth": 2, "glob": "*", "sort": "newest", "all": true, "limit": 9}),
            true,
        );
        check(
            "search",
            json!({
                "pattern": "a", "path": "b", "glob": "c", "type": "rust", "output_mode": "files_with_matches",
                "ignore_case": true, "literal": true, "before": 0, "after": 1, "context": 2, "head_limit": 3,
                "offset": 0, "all": false,
            }),
            true,
        );
        check(
            "search",
            json!({"pattern": "a", "output_mode": "lines"}),
            false,
        );
        check(
            "edit",
            json!({"file_path": "a", "old_string": "b", "new_string": "c", "replace_all": true}),
            true,
        );
        check(
            "edit",
            json!({"file_path": "a", "edits": [{"old_string": "b", "new_string": "c"}]}),
            true,
        );
        check("edit", json!({"file_path": "a", "edits": []}), false);
        check("write", json!({"file_path": "a", "content": ""}), true);
        check("write", json!({"file_path": "a"}), false);
    }
}
