//! What a conversation keeps itself from: writing, the network, paths outside of its directories.
//!
//! They are judged by what is known before a call. What a server says of its own tools can show that a constraint is
//! broken and is no proof that it is kept, and paths are compared as they are written: a link inside a directory may
//! lead out of it. Nothing that is asked about is allowed by a constraint.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::access::Access;
use crate::tool::{ClaimSource, NetworkUse, Tool, ToolReach};

/// Directories of one conversation.
pub const MAX_ROOTS: usize = 32;
/// Words in the names of arguments that hold paths.
const PATH_WORDS: [&str; 20] = [
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "filepath",
    "dir",
    "dirs",
    "directory",
    "directories",
    "folder",
    "folders",
    "cwd",
    "root",
    "roots",
    "source",
    "destination",
    "src",
    "dest",
];

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraints {
    /// Nothing that needs more than level 1.
    #[serde(default)]
    pub read_only: bool,
    /// Nothing that may reach beyond this machine.
    #[serde(default)]
    pub no_network: bool,
    /// Only paths in these directories; none: any path.
    #[serde(default)]
    pub roots: Vec<ConstraintRoot>,
}

/// An absolute directory, without `.`, `..` and doubled signs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ConstraintRoot(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no absolute path")]
pub struct NoRoot(pub String);

/// What a call would break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintBreach {
    ReadOnly { needs: Access },
    NoNetwork,
    Outside { path: String },
}

/// What is known of a call under constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintKnowledge {
    Kept,
    Broken(ConstraintBreach),
    /// Nobody knows.
    Unclear(ConstraintDoubt),
}

/// Why nobody knows whether a call keeps to the constraints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConstraintDoubt {
    Path {
        path: String,
    },
    /// What runs programs goes where they go, whatever paths it is given.
    Runs,
    /// Nobody but its server says that it keeps to what is limited here.
    OnlyItsWord,
}

impl Constraints {
    pub fn is_empty(&self) -> bool {
        !self.read_only && !self.no_network && self.roots.is_empty()
    }

    /// The directories that its paths are in; none: any.
    pub fn directories(&self) -> Vec<PathBuf> {
        self.roots.iter().map(|it| PathBuf::from(&it.0)).collect()
    }

    /// Whether a path leads into the directories of a conversation that is at `cwd`, by its words alone: into these, or into
    /// `cwd` where there are none.
    pub fn are_kept_by(&self, path: &str, cwd: &str) -> bool {
        let path = match path.strip_prefix('/') {
            Some(_absolute) => straight(path),
            // Whose home that is nobody knows here.
            None if path.starts_with('~') => return false,
            None => straight(&format!("{cwd}/{path}")),
        };
        if self.roots.is_empty() {
            return ConstraintRoot(straight(cwd)).holds(&path);
        }
        self.roots.iter().any(|it| it.holds(&path))
    }

    /// Each of them in a line of its own.
    pub fn lines(&self) -> BTreeSet<String> {
        let read_only = self.read_only.then(|| "read only".to_owned());
        let no_network = self.no_network.then(|| "no network".to_owned());
        let roots = self.roots.iter().map(|it| format!("root {it}"));
        read_only
            .into_iter()
            .chain(no_network)
            .chain(roots)
            .collect()
    }

    /// What every call of a tool would break, whatever its arguments are.
    pub fn bars(&self, tool: &Tool, needs: Access) -> Option<ConstraintBreach> {
        if tool.reach == ToolReach::Conversation {
            return None;
        }
        if self.read_only && needs > Access::Read {
            return Some(ConstraintBreach::ReadOnly { needs });
        }
        (self.no_network && tool.network == NetworkUse::MayLeave)
            .then_some(ConstraintBreach::NoNetwork)
    }

    /// Whether a tool keeps to them as far as its server says of it, and nobody else; `by` says what it needs.
    pub fn rest_on_hints(&self, tool: &Tool, by: ClaimSource) -> bool {
        let by_level = (self.read_only || !self.roots.is_empty()) && by == ClaimSource::Servers;
        let by_network = self.no_network && tool.needs_by == ClaimSource::Servers;
        tool.reach != ToolReach::Conversation && (by_level || by_network)
    }

    pub fn check(
        &self,
        tool: &Tool,
        needs: Access,
        arguments: &Map<String, Value>,
    ) -> ConstraintKnowledge {
        if let Some(breach) = self.bars(tool, needs) {
            return ConstraintKnowledge::Broken(breach);
        }
        if self.roots.is_empty() || tool.reach == ToolReach::Conversation {
            return ConstraintKnowledge::Kept;
        }
        let mut unclear = None;
        for found in paths(arguments) {
            match found {
                FoundPath::Absolute(path) if self.roots.iter().any(|it| it.holds(&path)) => {}
                FoundPath::Absolute(path) => {
                    return ConstraintKnowledge::Broken(ConstraintBreach::Outside { path });
                }
                FoundPath::Unclear(path) => {
                    unclear.get_or_insert(ConstraintDoubt::Path { path });
                }
            }
        }
        if needs == Access::Execute {
            unclear.get_or_insert(ConstraintDoubt::Runs);
        }
        unclear.map_or(ConstraintKnowledge::Kept, ConstraintKnowledge::Unclear)
    }
}

impl ConstraintRoot {
    fn holds(&self, path: &str) -> bool {
        let below = path.strip_prefix(&self.0);
        self.0 == "/" || below.is_some_and(|it| it.is_empty() || it.starts_with('/'))
    }
}

/// A text of the arguments that is a path, or may be one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FoundPath {
    /// Without `.` and `..`.
    Absolute(String),
    /// As it is written.
    Unclear(String),
}

/// Names of arguments tell of paths, and so does how a text begins.
fn paths(arguments: &Map<String, Value>) -> Vec<FoundPath> {
    let mut found = vec![];
    let mut rest = members(PathNaming::Otherwise, arguments, &mut found);
    while let Some((named, value)) = rest.pop() {
        match value {
            Value::String(text) => found.extend(path(text, named)),
            Value::Array(items) => rest.extend(items.iter().map(|it| (named, it))),
            Value::Object(object) => rest.extend(members(named, object, &mut found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}

/// The values of an object, each with what the names above it say. A name may be a path, too.
fn members<'a>(
    above: PathNaming,
    object: &'a Map<String, Value>,
    found: &mut Vec<FoundPath>,
) -> Vec<(PathNaming, &'a Value)> {
    found.extend(
        object
            .keys()
            .filter_map(|it| path(it, PathNaming::Otherwise)),
    );
    let named = |key: &str| {
        if above == PathNaming::Path || speaks_of_paths(key) {
            PathNaming::Path
        } else {
            PathNaming::Otherwise
        }
    };
    object
        .iter()
        .map(|(key, value)| (named(key), value))
        .collect()
}

/// Whether the names above a value speak of paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathNaming {
    Path,
    Otherwise,
}

/// `filePath`, `source_dir`, `PATH`.
fn speaks_of_paths(key: &str) -> bool {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for sign in key.chars() {
        let begins = !sign.is_alphanumeric() || (sign.is_uppercase() && after_lower);
        if begins {
            words.push(String::new());
        }
        after_lower = sign.is_lowercase();
        if let (true, Some(word)) = (sign.is_alphanumeric(), words.last_mut()) {
            word.extend(sign.to_lowercase());
        }
    }
    words.iter().any(|it| PATH_WORDS.contains(&it.as_str()))
}

fn path(text: &str, named: PathNaming) -> Option<FoundPath> {
    let unclear = || Some(FoundPath::Unclear(text.to_owned()));
    if let Some(rest) = strip_file(text) {
        // A host before the path, or signs that stand for others.
        let plain = rest.starts_with('/') && !rest.contains(['%', '?', '#']);
        return if plain {
            Some(FoundPath::Absolute(straight(rest)))
        } else {
            unclear()
        };
    }
    let is_one = named == PathNaming::Path;
    if text.starts_with('/') {
        // Comments and texts of several lines begin so, too.
        let is_text = text.starts_with("/*") || text.starts_with("//") || text.contains('\n');
        return (is_one || !is_text).then(|| FoundPath::Absolute(straight(text)));
    }
    let climbs = text.split('/').any(|it| it == "..") && !text.contains('\n');
    let relative = text.starts_with("./") || text.starts_with("~/") || text == "~" || text == ".";
    let elsewhere = text.contains("://");
    if climbs || relative || (is_one && !text.is_empty() && !elsewhere) {
        return unclear();
    }
    None
}

/// What follows `file://`, however that is written.
fn strip_file(text: &str) -> Option<&str> {
    let (scheme, rest) = text.split_at_checked("file:".len())?;
    if !scheme.eq_ignore_ascii_case("file:") {
        return None;
    }
    Some(rest.strip_prefix("//").unwrap_or(rest))
}

/// An absolute path without `.`, `..` and doubled signs.
fn straight(path: &str) -> String {
    let mut parts: Vec<&str> = vec![];
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

impl TryFrom<String> for ConstraintRoot {
    type Error = NoRoot;

    fn try_from(text: String) -> Result<Self, NoRoot> {
        if !text.starts_with('/') || text.contains('\0') {
            return Err(NoRoot(text));
        }
        Ok(Self(straight(&text)))
    }
}

impl From<ConstraintRoot> for String {
    fn from(root: ConstraintRoot) -> Self {
        root.0
    }
}

impl fmt::Display for ConstraintRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ConstraintBreach {
    /// The same without a word of the model, where it has one.
    pub fn describe(&self) -> String {
        match self {
            Self::ReadOnly { .. } | Self::NoNetwork => self.to_string(),
            Self::Outside { path: _ } => {
                "a path is outside of the directories of this conversation".to_owned()
            }
        }
    }
}

impl ConstraintDoubt {
    /// The same without a word of the model, where it has one.
    pub fn describe(&self) -> String {
        match self {
            Self::Path { path: _ } => "where a path leads is not known, and paths are kept to the conversation's directories".to_owned(),
            Self::Runs | Self::OnlyItsWord => self.to_string(),
        }
    }
}

impl fmt::Display for ConstraintDoubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path { path } => write!(
                f,
                "where {path:?} leads is not known, and paths are kept to the conversation's directories"
            ),
            Self::Runs => {
                f.write_str("a call of level 3 may go beyond the conversation's directories")
            }
            Self::OnlyItsWord => f.write_str(
                "only its server says that it keeps to the limits; permissions.needs or always, in this conversation, makes it so",
            ),
        }
    }
}

impl fmt::Display for ConstraintBreach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReadOnly { needs } => write!(
                f,
                "this conversation only reads, and the call needs level {}",
                needs.number()
            ),
            Self::NoNetwork => f.write_str(
                "this conversation uses no network, and the tool is not known to stay on this machine",
            ),
            Self::Outside { path } => write!(
                f,
                "{path:?} is outside of the directories of this conversation"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::tool;

    fn constraints(read_only: bool, no_network: bool, roots: &[&str]) -> Constraints {
        let root = |it: &&str| ConstraintRoot::try_from((*it).to_owned()).unwrap();
        Constraints {
            read_only,
            no_network,
            roots: roots.iter().map(root).collect(),
        }
    }

    /// What is known of a call that reads, kept to `/srv` and `/tmp/x`.
    #[track_caller]
    fn check(arguments: &str, expected: &str) {
        let kept = constraints(false, false, &["/srv/", "/tmp/./x"]);
        let read = tool("fs__read", Access::Read);
        let parsed = serde_json::from_str(arguments).unwrap();
        let said = match kept.check(&read, Access::Read, &parsed) {
            ConstraintKnowledge::Kept => "kept".to_owned(),
            ConstraintKnowledge::Broken(ConstraintBreach::Outside { path }) => {
                format!("outside: {path}")
            }
            ConstraintKnowledge::Broken(breach) => breach.to_string(),
            ConstraintKnowledge::Unclear(_) => "unclear".to_owned(),
        };
        assert_eq!(expected, said, "{arguments}");
    }

    #[test]
    fn paths_are_kept_to_the_directories() {
        check("{}", "kept");
        check(r#"{"path":"/srv"}"#, "kept");
        check(r#"{"path":"/srv/a/../b"}"#, "kept");
        check(r#"{"path":"/tmp/x//y"}"#, "kept");
        check(r#"{"path":"/srvother"}"#, "outside: /srvother");
        check(r#"{"path":"/srv/../etc/passwd"}"#, "outside: /etc/passwd");
        check(r#"{"path":"/srv/../../../etc"}"#, "outside: /etc");
        check(r#"{"uri":"file:///etc/passwd"}"#, "outside: /etc/passwd");
        check(r#"{"uri":"FILE:/etc/passwd"}"#, "outside: /etc/passwd");
        check(r#"{"uri":"file:///srv/a"}"#, "kept");
        check(
            r#"{"edits":[{"files":["/srv/a","/etc/b"]}]}"#,
            "outside: /etc/b",
        );
        check(r#"{"contents":{"/etc/b":"x"}}"#, "outside: /etc/b");
        check(r#"{"q":"/etc/b"}"#, "outside: /etc/b");
    }

    /// Where it leads is for a person to say.
    #[test]
    fn what_may_be_a_path_is_asked_about() {
        for unclear in [
            r#"{"path":"notes.txt"}"#,
            r#"{"source_dir":"a/b"}"#,
            r#"{"filePath":"x"}"#,
            r#"{"q":"../x"}"#,
            r#"{"q":"a/../../x"}"#,
            r#"{"q":"~/.ssh/id"}"#,
            r#"{"uri":"file:///srv/%2e%2e/etc"}"#,
            r#"{"uri":"file://host/srv"}"#,
        ] {
            check(unclear, "unclear");
        }
        // One that is known to be outside decides, wherever it stands.
        check(r#"{"path":"x","to":"/etc/b"}"#, "outside: /etc/b");
        for other in [
            r#"{"q":"notes.txt","profile":"a"}"#,
            r#"{"content":"/* a comment */"}"#,
            r#"{"content":"/etc/b\nis a file"}"#,
            r#"{"source":"https://example.org/a"}"#,
            r#"{"path":""}"#,
        ] {
            check(other, "kept");
        }
        let runs = tool("sh__run", Access::Execute);
        let kept = constraints(false, false, &["/srv"]);
        let standing = kept.check(&runs, Access::Execute, &Map::new());
        assert!(matches!(standing, ConstraintKnowledge::Unclear(_)));
    }

    #[test]
    fn some_tools_are_barred_whatever_they_are_given() {
        let mut far = tool("web__get", Access::Read);
        far.network = NetworkUse::MayLeave;
        let writes = tool("fs__write", Access::Write);
        let reads = tool("fs__read", Access::Read);
        for (constraints, tool, needs, barred) in [
            (constraints(true, false, &[]), &writes, Access::Write, true),
            (constraints(true, false, &[]), &reads, Access::Read, false),
            // The configuration knows better than the tool's annotations, either way.
            (constraints(true, false, &[]), &reads, Access::Execute, true),
            (constraints(true, false, &[]), &writes, Access::Read, false),
            (constraints(false, true, &[]), &far, Access::Read, true),
            (constraints(false, true, &[]), &writes, Access::Write, false),
            (constraints(false, false, &["/"]), &far, Access::Read, false),
        ] {
            let said = constraints.bars(tool, needs);
            assert_eq!(barred, said.is_some(), "{constraints:?} {}", tool.name);
        }
        let mut own = tool("aish__read_result", Access::Write);
        own.reach = ToolReach::Conversation;
        let all = constraints(true, true, &["/srv"]);
        assert_eq!(None, all.bars(&own, Access::Write));
    }

    /// No word of the model stands in the audit trail.
    #[test]
    fn what_is_told_of_a_path_does_not_name_it() {
        let kept = constraints(false, false, &["/srv"]);
        let read = tool("fs__read", Access::Read);
        for arguments in [r#"{"path":"/s3cret"}"#, r#"{"path":"s3cret"}"#] {
            let parsed = serde_json::from_str(arguments).unwrap();
            let (shown, told) = match kept.check(&read, Access::Read, &parsed) {
                ConstraintKnowledge::Kept => panic!("{arguments} is kept"),
                ConstraintKnowledge::Broken(breach) => (breach.to_string(), breach.describe()),
                ConstraintKnowledge::Unclear(doubt) => (doubt.to_string(), doubt.describe()),
            };
            assert!(
                shown.contains("s3cret") && !told.contains("s3cret"),
                "{told}"
            );
        }
    }

    #[test]
    fn a_path_is_kept_where_it_leads_into_a_directory() {
        let check = |roots: &[&str], path: &str, expected: bool| {
            let constraints = constraints(false, false, roots);
            assert_eq!(expected, constraints.are_kept_by(path, "/w/app"), "{path}");
        };
        check(&[], "src/main.rs", true);
        check(&[], ".", true);
        check(&[], "/w/app", true);
        check(&[], "../app/x", true);
        check(&[], "../other", false);
        check(&[], "/w/application", false);
        check(&[], "~/x", false);
        check(&[], "a/../../..", false);
        check(&["/w"], "../other", true);
        check(&["/v", "/w/app/src"], "x", false);
    }

    #[test]
    fn a_root_is_absolute() {
        for (text, root) in [
            ("/", Some("/")),
            ("/a/./b/../c/", Some("/a/c")),
            ("", None),
            ("a", None),
            ("~/a", None),
            ("/a\0", None),
        ] {
            let made = ConstraintRoot::try_from(text.to_owned()).ok();
            assert_eq!(root, made.as_ref().map(|it| it.0.as_str()));
        }
        let all = ConstraintRoot::try_from("/".to_owned()).unwrap();
        assert!(all.holds("/etc") && all.holds("/"));
    }
}
