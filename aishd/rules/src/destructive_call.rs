//! Whether a call of a tool may not be undone, as far as its name and its arguments tell. Commands of this machine are read
//! whole elsewhere; here is what servers run. The answer makes a question stricter and lets nothing through.

use std::path::Path;

use aishd_command::command::{self, Dialect};
use aishd_command::destructive;
use aishd_log::access::Access;
use aishd_log::tool::Tool;
use serde_json::{Map, Value};

/// Words of a tool's name, or a whole argument, that name something which is gone afterwards.
const VERBS: [&str; 13] = [
    "delete", "destroy", "dd", "drop", "erase", "force", "kill", "mkfs", "purge", "remove", "rm",
    "truncate", "wipe",
];
/// Arguments that are commands, as servers which run commands call them.
const COMMANDS: [&str; 6] = ["bash", "cmd", "command", "commands", "script", "shell"];
/// The words that follow the first one.
const OPERANDS: [&str; 2] = ["args", "arguments"];
/// How SQL statements begin that take away what is there.
const STATEMENTS: [&str; 3] = ["drop", "truncate", "delete from"];
/// Arguments below this depth are not looked at.
const MAX_DEPTH: usize = 4;

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
    let tool_word = words(
        name.split_once("__")
            .map_or(name.as_str(), |(_, tool)| tool),
    );
    if let Some(verb) = tool_word.iter().find(|it| VERBS.contains(&it.as_str())) {
        return Some(format!("its name says {verb}"));
    }
    of_arguments(arguments, cwd, 0)
}

fn of_arguments(arguments: &Map<String, Value>, cwd: &Path, depth: usize) -> Option<String> {
    if depth == MAX_DEPTH {
        return None;
    }
    let operands = OPERANDS
        .iter()
        .find_map(|it| arguments.get(*it)?.as_array());
    arguments.iter().find_map(|(name, value)| {
        let is_command = COMMANDS.contains(&name.to_ascii_lowercase().as_str());
        let danger = if is_command {
            command_line(value, operands).and_then(|it| of_command(&it, cwd))
        } else {
            None
        };
        danger
            .or_else(|| of_value(name, value))
            .map(|it| format!("its argument {name} {it}"))
            .or_else(|| match value {
                Value::Object(inner) => of_arguments(inner, cwd, depth + 1),
                Value::Array(items) => items
                    .iter()
                    .find_map(|it| of_arguments(it.as_object()?, cwd, depth + 1)),
                _ => None,
            })
    })
}

/// The text that a shell would read: one string, or words of which each stands for itself.
fn command_line(value: &Value, operands: Option<&Vec<Value>>) -> Option<String> {
    let mut line = match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => quoted(items),
        _ => return None,
    };
    if let Some(operands) = operands {
        line.push(' ');
        line.push_str(&quoted(operands));
    }
    Some(line)
}

fn quoted(items: &[Value]) -> String {
    let items = items.iter().filter_map(Value::as_str);
    let items: Vec<String> = items
        .map(|it| format!("'{}'", it.replace('\'', r"'\''")))
        .collect();
    items.join(" ")
}

fn of_command(line: &str, cwd: &Path) -> Option<String> {
    let reading = command::read(line, Dialect::Bash);
    let dangers = destructive::judge(&reading, line, &[cwd.to_path_buf()], cwd);
    let reasons: Vec<&str> = dangers.iter().map(|it| it.reason()).collect();
    (!reasons.is_empty()).then(|| reasons.join("; it "))
}

fn of_value(name: &str, value: &Value) -> Option<String> {
    match value {
        Value::Bool(true) if words(name).iter().any(|it| it == "force") => {
            Some("is set".to_owned())
        }
        Value::String(text) => {
            let verb = VERBS.iter().find(|it| text.trim().eq_ignore_ascii_case(it));
            verb.or_else(|| statement(text))
                .map(|it| format!("says {it}"))
        }
        _ => None,
    }
}

fn statement(text: &str) -> Option<&'static &'static str> {
    let mut statements = text.split(';').map(str::trim_start);
    statements.find_map(|it| {
        let mut begin: Vec<String> = it
            .split_whitespace()
            .take(2)
            .map(str::to_ascii_lowercase)
            .collect();
        let two = begin.join(" ");
        begin.truncate(1);
        let has_more = two.contains(' ');
        STATEMENTS
            .iter()
            .find(|it| has_more && (two == **it || begin == [**it]) && is_sql(text))
    })
}

/// A sentence for people may begin with such a word too: SQL names what it is about.
fn is_sql(text: &str) -> bool {
    let about = [
        "table", "database", "schema", "index", "view", "column", "from",
    ];
    let words = text.split(|it: char| !it.is_ascii_alphanumeric());
    words
        .into_iter()
        .any(|it| about.contains(&it.to_ascii_lowercase().as_str()))
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
            (
                r#"{"command": "git push -f"}"#,
                Some("its argument command rewrites"),
            ),
            (
                r#"{"command": "rm", "args": ["-rf", "/home/u's"]}"#,
                Some("its argument command deletes"),
            ),
            (
                r#"{"run": {"cmd": ["rm", "-r", "x"]}}"#,
                Some("its argument cmd deletes"),
            ),
            (
                r#"{"steps": [{"shell": "mkfs /dev/sda"}]}"#,
                Some("its argument shell "),
            ),
        ] {
            let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap();
            let tool = tool("x__run", Access::Execute);
            let said = reason(&tool, &arguments, Access::Execute, Path::new("/w"));
            match (expected, &said) {
                (None, said) => assert_eq!(&None, said, "{arguments:?}"),
                (Some(expected), Some(said)) => assert!(said.starts_with(expected), "{said}"),
                (Some(expected), None) => panic!("{arguments:?} is not told: {expected}"),
            }
        }
    }

    #[test]
    fn a_word_alone_and_a_statement_tell_but_no_sentence_does() {
        for (arguments, expected) in [
            (
                r#"{"method": "DELETE"}"#,
                Some("its argument method says delete"),
            ),
            (r#"{"force": true}"#, Some("its argument force is set")),
            (r#"{"force": false, "enforce": true}"#, None),
            (
                r#"{"sql": "select 1; DROP TABLE x"}"#,
                Some("its argument sql says drop"),
            ),
            (
                r#"{"sql": "delete\n from x"}"#,
                Some("its argument sql says delete from"),
            ),
            (r#"{"text": "please remove the comma"}"#, None),
            (r#"{"text": "Drop me a line"}"#, None),
            (
                r#"{"text": "delete"}"#,
                Some("its argument text says delete"),
            ),
        ] {
            check("x__y", arguments, expected);
        }
    }

    #[test]
    fn deep_arguments_end_somewhere() {
        let deep = format!(
            "{}{{\"method\": \"delete\"}}{}",
            "{\"a\":".repeat(50),
            "}".repeat(50)
        );
        check("x__y", &deep, None);
    }
}
