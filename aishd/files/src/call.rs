//! A call of one of the tools, read from what a model said.

use aishd_log::access::Access;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::definitions::{EDIT, LIST, READ, SEARCH, WRITE};

/// Edits that one call makes.
pub(crate) const MOST_EDITS: usize = 100;
/// What the kernel takes as a path.
const MOST_PATH_BYTES: usize = 4096;
/// What a pattern may come to.
const MOST_PATTERN_BYTES: usize = 4096;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FileCall {
    Read(ReadCall),
    List(ListCall),
    Search(SearchCall),
    Edit(EditCall),
    Write(WriteCall),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadCall {
    pub file_path: String,
    /// The first line that is wanted, from 1; of a notebook the first cell.
    #[serde(default)]
    pub offset: Option<u64>,
    #[serde(default)]
    pub limit: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListCall {
    #[serde(default)]
    pub path: Option<String>,
    /// How many levels of directories; with a pattern all of them, else one.
    #[serde(default)]
    pub depth: Option<u64>,
    #[serde(default)]
    pub glob: Option<String>,
    #[serde(default)]
    pub sort: ListOrder,
    /// Also what ignore files name.
    #[serde(default)]
    pub all: bool,
    #[serde(default)]
    pub limit: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListOrder {
    #[default]
    Name,
    Newest,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchCall {
    pub pattern: String,
    #[serde(default)]
    pub path: Option<String>,
    #[serde(default)]
    pub glob: Option<String>,
    #[serde(default, rename = "type")]
    pub file_type: Option<String>,
    #[serde(default)]
    pub output_mode: SearchOutput,
    #[serde(default)]
    pub ignore_case: bool,
    #[serde(default)]
    pub literal: bool,
    #[serde(default)]
    pub before: Option<u64>,
    #[serde(default)]
    pub after: Option<u64>,
    /// Before and after.
    #[serde(default)]
    pub context: Option<u64>,
    /// How many matching lines, or files.
    #[serde(default)]
    pub head_limit: Option<u64>,
    /// How many of them to leave out at the beginning.
    #[serde(default)]
    pub offset: Option<u64>,
    /// Also what ignore files name.
    #[serde(default)]
    pub all: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchOutput {
    #[default]
    Content,
    FilesWithMatches,
    Count,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditCall {
    pub file_path: String,
    /// In their order, each on what the one before has left. All are made or none.
    pub edits: Vec<TextEdit>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TextEdit {
    pub old_string: String,
    pub new_string: String,
    #[serde(default)]
    pub replace_all: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteCall {
    pub file_path: String,
    pub content: String,
}

impl FileCall {
    /// What a call of a tool means.
    ///
    /// # Errors
    /// What is wrong with it, as it is told to the model.
    pub fn of(name: &str, arguments: &Map<String, Value>) -> Result<Self, String> {
        let call = match name {
            READ => Self::Read(read_as(name, arguments)?),
            LIST => Self::List(read_as(name, arguments)?),
            SEARCH => Self::Search(read_as(name, arguments)?),
            EDIT => Self::Edit(edit(read_as(name, arguments)?)?),
            WRITE => Self::Write(read_as(name, arguments)?),
            other => return Err(format!("no tool is called {other:?}")),
        };
        call.check()?;
        Ok(call)
    }

    /// What it may do to the world.
    pub fn access(&self) -> Access {
        match self {
            Self::Read(_) | Self::List(_) | Self::Search(_) => Access::Read,
            Self::Edit(_) | Self::Write(_) => Access::Write,
        }
    }

    /// The path that it names, as the model wrote it; the conversation's directory where it names none.
    pub fn path(&self) -> &str {
        let named = match self {
            Self::Read(call) => Some(&call.file_path),
            Self::List(call) => call.path.as_ref(),
            Self::Search(call) => call.path.as_ref(),
            Self::Edit(call) => Some(&call.file_path),
            Self::Write(call) => Some(&call.file_path),
        };
        named.map_or(".", String::as_str)
    }

    /// What holds for every call, whoever made it.
    pub(crate) fn check(&self) -> Result<(), String> {
        let path = self.path();
        if path.is_empty() {
            return Err("the path is empty: name a file or a directory".to_owned());
        }
        if path.contains('\0') {
            return Err("a path cannot contain a NUL".to_owned());
        }
        if path.len() >= MOST_PATH_BYTES {
            return Err(format!(
                "the path has {} bytes: it can have {MOST_PATH_BYTES} at most",
                path.len()
            ));
        }
        match self {
            Self::Read(call) => {
                from_one("offset", call.offset).and_then(|()| from_one("limit", call.limit))
            }
            Self::List(call) => short("glob", call.glob.as_deref()),
            Self::Search(call) => {
                if call.pattern.is_empty() {
                    return Err("the pattern is empty: say what to look for".to_owned());
                }
                short("pattern", Some(&call.pattern))?;
                short("glob", call.glob.as_deref())
            }
            Self::Edit(call) => check_edits(&call.edits),
            Self::Write(_) => Ok(()),
        }
    }
}

/// Both shapes that models know: one edit, or a list of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    file_path: String,
    old_string: Option<String>,
    new_string: Option<String>,
    #[serde(default)]
    replace_all: bool,
    edits: Option<Vec<TextEdit>>,
}

fn edit(said: EditArguments) -> Result<EditCall, String> {
    let one = |old_string, new_string| TextEdit {
        old_string,
        new_string,
        replace_all: said.replace_all,
    };
    let edits = match (said.old_string, said.new_string, said.edits) {
        (Some(old), Some(new), None) => vec![one(old, new)],
        (None, None, Some(edits)) => edits,
        (Some(_), _, Some(_)) | (_, Some(_), Some(_)) => {
            return Err(
                "`old_string` and `new_string` stand either beside `file_path` or in `edits`, not in both".to_owned(),
            );
        }
        (None, _, None) | (Some(_), None, None) => {
            return Err(
                "`old_string` and `new_string` have to be there, or `edits`, which is a list of them".to_owned(),
            );
        }
    };
    Ok(EditCall {
        file_path: said.file_path,
        edits,
    })
}

fn check_edits(edits: &[TextEdit]) -> Result<(), String> {
    if edits.is_empty() {
        return Err("`edits` is empty: say what to replace by what".to_owned());
    }
    if edits.len() > MOST_EDITS {
        return Err(format!(
            "{} edits are more than the {MOST_EDITS} of one call: make several calls",
            edits.len()
        ));
    }
    for (number, edit) in edits.iter().enumerate() {
        let which = which(number, edits.len());
        if edit.old_string.is_empty() {
            return Err(format!(
                "{which}`old_string` is empty: name the text to replace, or use `{WRITE}` for a new file"
            ));
        }
        if edit.old_string == edit.new_string {
            return Err(format!("{which}`old_string` and `new_string` are the same"));
        }
    }
    Ok(())
}

/// `edit 2 of 3: `, where there is more than one.
pub(crate) fn which(number: usize, of: usize) -> String {
    match of {
        1 => String::new(),
        of => format!("edit {} of {of}: ", number + 1),
    }
}

fn read_as<T: DeserializeOwned>(name: &str, arguments: &Map<String, Value>) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments.clone()))
        .map_err(|error| format!("the arguments of `{name}` are not right: {error}"))
}

fn from_one(name: &str, number: Option<u64>) -> Result<(), String> {
    match number {
        Some(0) => Err(format!("`{name}` is 1 or more")),
        Some(_) | None => Ok(()),
    }
}

fn short(name: &str, text: Option<&str>) -> Result<(), String> {
    let bytes = text.map_or(0, str::len);
    if bytes > MOST_PATTERN_BYTES {
        return Err(format!(
            "`{name}` has {bytes} bytes: it can have {MOST_PATTERN_BYTES} at most"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, arguments: &str, expected: Result<FileCall, &str>) {
        let arguments = serde_json::from_str(arguments).unwrap();
        let came = FileCall::of(name, &arguments);
        match (&came, expected) {
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (came, expected) => assert_eq!(&expected.map_err(str::to_owned), came),
        }
    }

    #[test]
    fn a_call_says_what_it_wants_or_is_refused() {
        let read = |offset, limit| {
            Ok(FileCall::Read(ReadCall {
                file_path: "a".to_owned(),
                offset,
                limit,
            }))
        };
        check("read", r#"{"file_path": "a"}"#, read(None, None));
        check(
            "read",
            r#"{"file_path": "a", "offset": 3, "limit": 18446744073709551615}"#,
            read(Some(3), Some(u64::MAX)),
        );
        check("read", "{}", Err("missing field `file_path`"));
        check("read", r#"{"file_path": ""}"#, Err("path is empty"));
        check("read", r#"{"file_path": "a\u0000b"}"#, Err("a NUL"));
        check(
            "read",
            r#"{"file_path": "a", "offset": 0}"#,
            Err("`offset` is 1 or more"),
        );
        check(
            "read",
            r#"{"file_path": "a", "offset": -1}"#,
            Err("integer `-1`"),
        );
        check(
            "read",
            r#"{"file_path": "a", "offset": 1e30}"#,
            Err("arguments of `read`"),
        );
        check(
            "read",
            r#"{"file_path": "a", "lines": 3}"#,
            Err("unknown field `lines`, expected one of"),
        );
        let long = format!(r#"{{"file_path": "{}"}}"#, "a".repeat(5000));
        check("read", &long, Err("the path has 5000 bytes"));
        check("list", r#"{"sort": "size"}"#, Err("unknown variant `size`"));
        check("list", "{}", Ok(FileCall::List(ListCall::default())));
        check("search", r#"{"pattern": ""}"#, Err("the pattern is empty"));
        check("remove", "{}", Err("no tool is called"));
    }

    #[test]
    fn an_edit_has_one_place_or_a_list_of_them() {
        let edit = |edits: &[(&str, &str, bool)]| {
            let edits = edits.iter().map(|(old, new, all)| TextEdit {
                old_string: (*old).to_owned(),
                new_string: (*new).to_owned(),
                replace_all: *all,
            });
            Ok(FileCall::Edit(EditCall {
                file_path: "a".to_owned(),
                edits: edits.collect(),
            }))
        };
        check(
            "edit",
            r#"{"file_path": "a", "old_string": "x", "new_string": "", "replace_all": true}"#,
            edit(&[("x", "", true)]),
        );
        check(
            "edit",
            r#"{"file_path": "a", "edits": [{"old_string": "x", "new_string": "y"}, {"old_string": "z", "new_string": "", "replace_all": true}]}"#,
            edit(&[("x", "y", false), ("z", "", true)]),
        );
        let refused = |more: &str, why: &str| {
            check("edit", &format!(r#"{{"file_path": "a"{more}}}"#), Err(why));
        };
        refused("", "have to be there, or `edits`");
        refused(r#", "old_string": "x""#, "have to be there, or `edits`");
        refused(
            r#", "old_string": "x", "new_string": "y", "edits": []"#,
            "not in both",
        );
        refused(r#", "edits": []"#, "`edits` is empty");
        refused(r#", "old_string": "x", "new_string": "x""#, "are the same");
        refused(r#", "old_string": "", "new_string": "x""#, "use `write`");
        refused(
            r#", "edits": [{"old_string": "x", "new_string": "y"}, {"old_string": "", "new_string": "y"}]"#,
            "edit 2 of 2: `old_string` is empty",
        );
        let many = vec![r#"{"old_string": "x", "new_string": "y"}"#; 101].join(",");
        refused(
            &format!(r#", "edits": [{many}]"#),
            "101 edits are more than the 100",
        );
    }
}
