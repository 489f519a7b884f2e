//! Whether a call of a tool may not be undone, as far as its name and its arguments tell. Commands of this machine are read
//! whole elsewhere; here is what servers run. The answer makes a question stricter and lets nothing through.

use std::path::Path;

use aishd_command::command::{self, Dialect};
use aishd_command::destructive::{self, Danger, Surroundings};
use aishd_log::access::Access;
use aishd_log::tool::Tool;
use serde_json::{Map, Value};

/// Words that name something which is gone afterwards: of a tool's name, of an argument's name, as a whole argument, and
/// anywhere in what is run.
const VERBS: [&str; 13] = [
    "dd", "delete", "destroy", "drop", "erase", "force", "kill", "mkfs", "purge", "remove", "rm",
    "truncate", "wipe",
];
/// Words of the names of arguments that are run, by a shell, a database or an interpreter, as servers call them.
const RUN: [&str; 20] = [
    "args",
    "arguments",
    "argv",
    "bash",
    "cmd",
    "cmdline",
    "code",
    "command",
    "commands",
    "exec",
    "expression",
    "program",
    "query",
    "run",
    "script",
    "shell",
    "source",
    "sql",
    "statement",
    "statements",
];
/// What is dropped by SQL, after the word that drops it.
const OBJECTS: [&str; 12] = [
    "column",
    "constraint",
    "database",
    "function",
    "index",
    "role",
    "schema",
    "sequence",
    "table",
    "trigger",
    "user",
    "view",
];
/// Longer texts that are run are not looked at, and that is a reason itself.
const MAX_RUN_BYTES: usize = 64 << 10;
/// Longer texts under other names are no commands.
const MAX_LINE_BYTES: usize = 1000;
/// Of the name of an argument, in a reason.
const NAME_CHARS: usize = 40;

/// Why the call may not be undone. `None` is no promise. Only what needs the highest level is looked at: below it, nothing
/// that is run or dropped is called.
pub fn reason(
    tool: &Tool,
    arguments: &Map<String, Value>,
    needs: Access,
    cwd: &Path,
) -> Option<String> {
    if needs != Access::Execute {
        return None;
    }
    let name = tool.name.to_string();
    let (provider, own) = name.split_once("__").unwrap_or(("", &name));
    if let Some(verb) = verb_among(&words(own)) {
        return Some(format!("its name says {verb}"));
    }
    Look { provider, cwd }.of_object(arguments)
}

/// Looks through the arguments of one call.
struct Look<'a> {
    /// What the server is called: `git` with the arguments `push --force` is what the two say together.
    provider: &'a str,
    cwd: &'a Path,
}

impl Look<'_> {
    fn of_object(&self, arguments: &Map<String, Value>) -> Option<String> {
        let together = self.of_program_and_operands(arguments);
        together.or_else(|| {
            arguments
                .iter()
                .find_map(|(name, value)| self.of_argument(name, value))
        })
    }

    /// A program under one name, and its words under another.
    fn of_program_and_operands(&self, arguments: &Map<String, Value>) -> Option<String> {
        let program = ["command", "cmd", "program"]
            .iter()
            .find_map(|it| arguments.get(*it)?.as_str())?;
        let operands =
            ["args", "arguments", "argv"]
                .iter()
                .find_map(|it| match arguments.get(*it)? {
                    Value::Array(items) => Some(quoted(items)),
                    Value::String(text) => Some(text.clone()),
                    _ => None,
                })?;
        let danger = self.of_command(&format!("{program} {operands}"))?;
        Some(format!("its command {danger}"))
    }

    fn of_argument(&self, name: &str, value: &Value) -> Option<String> {
        let name_words = words(name);
        let is_set = !matches!(value, Value::Null | Value::Bool(false))
            && *value != ""
            && *value != Value::Array(vec![]);
        let said = match verb_among(&name_words) {
            Some(_) if is_set => Some("is set".to_owned()),
            _ => self.of_value(
                value,
                name_words.iter().any(|it| RUN.contains(&it.as_str())),
            ),
        };
        let shown: String = name.chars().take(NAME_CHARS).collect();
        said.map(|it| format!("its argument {shown:?} {it}"))
            .or_else(|| self.below(value))
    }

    /// What objects within say of themselves.
    fn below(&self, value: &Value) -> Option<String> {
        match value {
            Value::Object(inner) => self.of_object(inner),
            Value::Array(items) => items.iter().find_map(|it| self.below(it)),
            _ => None,
        }
    }

    fn of_value(&self, value: &Value, is_run: bool) -> Option<String> {
        match value {
            Value::String(text) => self.of_text(text, is_run),
            Value::Array(items) => {
                let one = items.iter().find_map(|it| self.of_value(it, is_run));
                one.or_else(|| self.of_command(&quoted(items)))
            }
            _ => None,
        }
    }

    fn of_text(&self, text: &str, is_run: bool) -> Option<String> {
        if text.len() > MAX_RUN_BYTES {
            return is_run.then(|| "is too long to be looked at".to_owned());
        }
        let is_name = text
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || it == '_' || it == '-');
        let verb = if is_run || is_name {
            verb_among(&words(text))
        } else {
            None
        };
        let verb = verb.or_else(|| statement(text));
        if let Some(verb) = verb {
            return Some(format!("says {verb}"));
        }
        let is_line = text.len() <= MAX_LINE_BYTES && !text.contains('\n');
        if is_run || is_line {
            self.of_command(text)
        } else {
            None
        }
    }

    /// What a shell would do with the text, alone or as words for the provider.
    fn of_command(&self, line: &str) -> Option<String> {
        let judged = |line: &str| {
            let reading = command::read(line, Dialect::Bash);
            let roots = [self.cwd.to_path_buf()];
            let nowhere = Surroundings::default();
            let dangers = destructive::judge(&reading, line, &roots, self.cwd, nowhere);
            let dangers = dangers.into_iter().filter(|it| destroys(*it));
            let reasons: Vec<&str> = dangers.map(Danger::reason).collect();
            (!reasons.is_empty()).then(|| reasons.join("; it "))
        };
        judged(line).or_else(|| judged(&format!("{} {line}", self.provider)))
    }
}

/// Whether it takes away what is there. What only writes or sends is no such thing: the text may be for anything.
fn destroys(danger: Danger) -> bool {
    matches!(
        danger,
        Danger::DeletesTree
            | Danger::DeletesFiles
            | Danger::ChangesRights
            | Danger::WritesDevice
            | Danger::Disks
            | Danger::StopsSystem
            | Danger::StopsProcesses
            | Danger::ChangesSystem
            | Danger::ChangesLogins
            | Danger::RemovesPackages
            | Danger::RewritesHistory
            | Danger::DiscardsChanges
            | Danger::Database
            | Danger::Infrastructure
            | Danger::RunsDownload
    )
}

fn verb_among(words: &[String]) -> Option<&'static str> {
    VERBS
        .into_iter()
        .find(|verb| words.iter().any(|it| it == verb))
}

fn quoted(items: &[Value]) -> String {
    let items = items.iter().filter_map(Value::as_str);
    let items: Vec<String> = items
        .map(|it| format!("'{}'", it.replace('\'', r"'\''")))
        .collect();
    items.join(" ")
}

/// What a statement of SQL would take away, wherever it stands in the text: a comment in front of it hides nothing.
fn statement(text: &str) -> Option<&'static str> {
    let words = text.split(|it: char| !(it.is_ascii_alphanumeric() || it == '_'));
    let words: Vec<String> = words
        .filter(|it| !it.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    words
        .windows(2)
        .find_map(|pair| match (pair[0].as_str(), pair[1].as_str()) {
            ("drop", object) if OBJECTS.contains(&object) => Some("drop"),
            ("truncate", "table") => Some("truncate"),
            ("delete", "from") => Some("delete"),
            _ => None,
        })
}

/// The words of a name, in small letters: `deleteFile`, `delete_file` and `delete-file` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for letter in name.chars() {
        let begins = letter.is_ascii_uppercase() && was_small;
        if begins || !letter.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if letter.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(letter.to_ascii_lowercase());
        }
        was_small = letter.is_ascii_lowercase();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log_samples::tool;

    #[track_caller]
    fn check(name: &str, arguments: &str, expected: Option<&str>) {
        let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap();
        let said = reason(
            &tool(name, Access::Execute),
            &arguments,
            Access::Execute,
            Path::new("/w"),
        );
        assert_eq!(expected, said.as_deref(), "{name} {arguments:?}");
        // What writes at most is told by its level.
        let said = reason(
            &tool(name, Access::Write),
            &arguments,
            Access::Write,
            Path::new("/w"),
        );
        assert_eq!(None, said);
    }

    #[test]
    fn a_name_tells_what_is_gone_afterwards() {
        for (name, expected) in [
            ("fs__delete_file", Some("its name says delete")),
            ("fs__deleteFile", Some("its name says delete")),
            ("db__drop-table", Some("its name says drop")),
            ("rm__list", None),
            ("mail__undelete", None),
            ("git__commit", None),
        ] {
            check(name, "{}", expected);
        }
    }

    #[test]
    fn a_command_among_the_arguments_is_read_as_one() {
        for (arguments, expected) in [
            (r#"{"command": "ls -l"}"#, None),
            (r#"{"command": "str_replace", "path": "/a"}"#, None),
            (r#"{"script": "build"}"#, None),
            (r#"{"code": "print(1)"}"#, None),
            (
                r#"{"command": "git push -f"}"#,
                Some(r#"its argument "command" rewrites"#),
            ),
            (
                r#"{"command": "git", "args": "push --force"}"#,
                Some("its command rewrites"),
            ),
            (
                r#"{"command": "rm", "args": ["-r", "/home/u's"]}"#,
                Some("its command deletes"),
            ),
            (
                r#"{"run": {"line": ["rm", "-r", "x"]}}"#,
                Some(r#"its argument "line" says rm"#),
            ),
            (
                r#"{"commands": ["ls", "rm -rf /home/u"]}"#,
                Some(r#"its argument "commands" says rm"#),
            ),
            (
                r#"{"argv": ["chmod", "-R", "777", "/"]}"#,
                Some(r#"its argument "argv" changes owners"#),
            ),
            (
                r#"{"input": "shutdown now"}"#,
                Some(r#"its argument "input" shuts down"#),
            ),
            (
                r#"{"code": "import os\nos.remove('x')"}"#,
                Some(r#"its argument "code" says remove"#),
            ),
        ] {
            starts("x__start", arguments, expected);
        }
        // What the server is called is part of what is run.
        starts(
            "git__exec",
            r#"{"words": ["reset", "--hard"]}"#,
            Some(r#"its argument "words" discards changes"#),
        );
    }

    #[track_caller]
    fn starts(name: &str, arguments: &str, expected: Option<&str>) {
        let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap();
        let tool = tool(name, Access::Execute);
        let said = reason(&tool, &arguments, Access::Execute, Path::new("/w"));
        match (expected, &said) {
            (None, said) => assert_eq!(&None, said, "{arguments:?}"),
            (Some(expected), Some(said)) => assert!(said.starts_with(expected), "{said}"),
            (Some(expected), None) => panic!("{arguments:?} is not told: {expected}"),
        }
    }

    #[test]
    fn a_word_alone_a_flag_and_a_statement_tell_but_no_sentence_does() {
        for (arguments, expected) in [
            (
                r#"{"method": "DELETE"}"#,
                Some(r#"its argument "method" says delete"#),
            ),
            (
                r#"{"operation": "delete_user"}"#,
                Some(r#"its argument "operation" says delete"#),
            ),
            (r#"{"force": true}"#, Some(r#"its argument "force" is set"#)),
            (
                r#"{"a": [{"remove": ["x"]}]}"#,
                Some(r#"its argument "remove" is set"#),
            ),
            (
                r#"{"force": false, "delete": null, "remove": [], "enforce": true}"#,
                None,
            ),
            (
                r#"{"text": "select 1; DROP TABLE x"}"#,
                Some(r#"its argument "text" says drop"#),
            ),
            (
                r#"{"text": "/* x */ drop/**/user bob"}"#,
                Some(r#"its argument "text" says drop"#),
            ),
            (
                r#"{"text": "explain analyze delete\n from x"}"#,
                Some(r#"its argument "text" says delete"#),
            ),
            (
                r#"{"sql": "-- c\nTRUNCATE users"}"#,
                Some(r#"its argument "sql" says truncate"#),
            ),
            (
                r#"{"sql": "alter table t drop x"}"#,
                Some(r#"its argument "sql" says drop"#),
            ),
            (r#"{"text": "please remove the comma"}"#, None),
            (r#"{"text": "Drop me a line"}"#, None),
            (r#"{"html": "<p>delete</p> > x\nrm -rf /"}"#, None),
        ] {
            check("x__y", arguments, expected);
        }
    }

    /// A model writes the arguments: they cost no more than their length, and their names say little.
    #[test]
    fn hostile_arguments_are_looked_at_in_their_own_time() {
        let many = "drop a;".repeat(30_000);
        check("x__y", &format!(r#"{{"text": "{many}"}}"#), None);
        check(
            "x__y",
            &format!(r#"{{"sql": "{many}"}}"#),
            Some(r#"its argument "sql" is too long to be looked at"#),
        );
        let name = "k".repeat(200_000);
        let said = format!(r#"its argument "{}" says delete"#, "k".repeat(NAME_CHARS));
        check("x__y", &format!(r#"{{"{name}": "delete"}}"#), Some(&said));
        let deep = format!(
            "{}{{\"method\": \"delete\"}}{}",
            "{\"a\":".repeat(50),
            "}".repeat(50)
        );
        check("x__y", &deep, Some(r#"its argument "method" says delete"#));
    }
}
