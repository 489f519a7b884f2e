//! `todo`, the tasks that a model sets itself in a conversation: it writes the whole list, and can read it back. People see it
//! on every terminal, so nothing of it draws, hides or breaks a line.

use std::fmt::Write as _;

use aishd_log::access::Access;
use aishd_log::invisible_characters::without_hidden;
use aishd_log::todo::{MOST_TODO_CHARS, MOST_TODOS, Todo, TodoStatus};
use aishd_log::tool::{Tool, ToolReach};
use aishd_log::tool_name::ToolName;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tool;
use crate::ToolOutput;

pub(super) const PROVIDER: &str = "todo";
const PROVIDED: &str = "aishd";
const WRITE: &str = "write";
const READ: &str = "read";
/// What is told of a text that is refused.
const QUOTED_CHARS: usize = 40;

/// A call of one of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TodoCall {
    Read,
    /// The list is this from now on.
    Write(Vec<Todo>),
}

pub(super) fn tools() -> [Tool; 2] {
    [
        Tool {
            // Of two lists of one message the second counts.
            reads_only: false,
            annotations: json!({"readOnlyHint": false, "destructiveHint": false, "openWorldHint": false}),
            needs: Access::Read,
            ..tool(
                "todo__write",
                PROVIDED,
                "Writes your list of tasks for this conversation anew; people see it. Use it for work of three steps or more: give the whole list each time, keep one task in_progress while you work on it, and set it to completed as soon as it is done.",
                json!({
                    "type": "object",
                    "properties": {
                        "todos": {
                            "type": "array",
                            "maxItems": MOST_TODOS,
                            "description": "all tasks in their order; an empty list takes it away",
                            // What models know from elsewhere besides (`id`, `priority`, `activeForm`) is not wrong, only unused.
                            "items": {
                                "type": "object",
                                "properties": {
                                    "content": {"type": "string", "description": "what is to be done, on one line"},
                                    "status": {"type": "string", "enum": ["pending", "in_progress", "completed"]},
                                },
                                "required": ["content", "status"],
                            },
                        },
                    },
                    "required": ["todos"],
                    "additionalProperties": false,
                }),
                ToolReach::Conversation,
            )
        },
        tool(
            "todo__read",
            PROVIDED,
            "Your list of tasks for this conversation as it is now, also where what wrote it has left your context.",
            json!({"type": "object", "properties": {}, "additionalProperties": false}),
            ToolReach::Conversation,
        ),
    ]
}

/// Whether a tool is one of the two.
pub fn keeps_todos(name: &ToolName) -> bool {
    name.alias().as_str() == PROVIDER
}

#[derive(Deserialize)]
struct TodoArguments {
    todos: Vec<TodoArgument>,
}

#[derive(Deserialize)]
struct TodoArgument {
    content: String,
    status: TodoStatus,
}

/// What a call of a capability means; `None`: there is no such capability.
pub(super) fn call(
    capability: &str,
    arguments: &Map<String, Value>,
) -> Option<Result<TodoCall, String>> {
    match capability {
        READ => Some(Ok(TodoCall::Read)),
        WRITE => Some(written(arguments).map(TodoCall::Write)),
        _ => None,
    }
}

fn written(arguments: &Map<String, Value>) -> Result<Vec<Todo>, String> {
    let TodoArguments { todos } = serde_json::from_value(Value::Object(arguments.clone()))
        .map_err(|error| {
            format!("the arguments of `{PROVIDER}__{WRITE}` are not right: {error}")
        })?;
    if todos.len() > MOST_TODOS {
        return Err(format!(
            "{} tasks are more than the {MOST_TODOS} that a list has: put some together",
            todos.len()
        ));
    }
    let each = (1..).zip(todos);
    each.map(|(number, it)| {
        let content = one_line(&it.content);
        let chars = content.chars().count();
        if chars == 0 {
            return Err(format!("task {number} says nothing: `content` is what is to be done"));
        }
        if chars > MOST_TODO_CHARS {
            let begins: String = content.chars().take(QUOTED_CHARS).collect();
            return Err(format!(
                "task {number} ({begins}…) has {chars} characters: it can have {MOST_TODO_CHARS} at most"
            ));
        }
        let status = it.status;
        Ok(Todo { content, status })
    })
    .collect()
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (clean, _) = without_hidden(&words.join(" "));
    clean.trim().to_owned()
}

impl ToolOutput {
    /// A call that wrote these tasks.
    pub fn with_todos(todos: Vec<Todo>) -> Self {
        let of = |status| todos.iter().filter(|it| it.status == status).count();
        let (done, begun) = (of(TodoStatus::Completed), of(TodoStatus::InProgress));
        let text = match todos.len() {
            0 => "The list is empty now.".to_owned(),
            count => format!("The list is kept: {done} of {count} completed, {begun} in progress."),
        };
        Self {
            todos: Some(todos),
            ..Self::from_text(text)
        }
    }
}

/// The list as a model reads it.
pub fn todo_text(todos: &[Todo]) -> String {
    if todos.is_empty() {
        return "The list is empty.".to_owned();
    }
    let mut text = String::new();
    for (number, it) in (1..).zip(todos) {
        let _never_fails = writeln!(text, "{number}. [{}] {}", it.status.word(), it.content);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(arguments: &str, expected: Result<&[(&str, TodoStatus)], &str>) {
        let arguments = serde_json::from_str(arguments).unwrap();
        let came = call("write", &arguments).unwrap();
        match (came, expected) {
            (Ok(TodoCall::Write(todos)), Ok(expected)) => {
                let came: Vec<_> = todos
                    .iter()
                    .map(|it| (it.content.as_str(), it.status))
                    .collect();
                assert_eq!(expected, came);
            }
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (came, _) => panic!("{came:?}"),
        }
    }

    #[test]
    fn a_list_is_written_whole_and_on_plain_lines() {
        use TodoStatus::{Completed, InProgress, Pending};
        check(r#"{"todos": []}"#, Ok(&[]));
        check(
            r#"{"todos": [
                {"content": " read the\nlog ", "status": "completed", "id": "1", "priority": "high"},
                {"content": "\u001b[31mmend\u202e it\u200b", "status": "in_progress", "activeForm": "Mending it"},
                {"content": "prüfen", "status": "pending"}]}"#,
            Ok(&[
                ("read the log", Completed),
                ("[31mmend it", InProgress),
                ("prüfen", Pending),
            ]),
        );
        check("{}", Err("missing field `todos`"));
        check(
            r#"{"todos": [{"content": "a", "status": "done"}]}"#,
            Err("unknown variant `done`"),
        );
        check(
            r#"{"todos": [{"content": "\u200b \n", "status": "pending"}]}"#,
            Err("task 1 says nothing"),
        );
        let long = "é".repeat(MOST_TODO_CHARS + 1);
        check(
            &format!(r#"{{"todos": [{{"content": "{long}", "status": "pending"}}]}}"#),
            Err("has 501 characters: it can have 500 at most"),
        );
        let many = vec![r#"{"content": "a", "status": "pending"}"#; MOST_TODOS + 1].join(",");
        check(
            &format!(r#"{{"todos": [{many}]}}"#),
            Err("101 tasks are more than the 100"),
        );
    }

    #[test]
    fn the_reply_is_short_and_the_list_is_read_back() {
        let arguments = serde_json::from_str(
            r#"{"todos": [{"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"}]}"#,
        );
        let todos = written(&arguments.unwrap()).unwrap();
        assert_eq!("1. [completed] a\n2. [in_progress] b\n", todo_text(&todos));
        let output = ToolOutput::with_todos(todos);
        assert_eq!(
            "The list is kept: 1 of 2 completed, 1 in progress.",
            output.text
        );
        assert_eq!(
            "The list is empty now.",
            ToolOutput::with_todos(vec![]).text
        );
        assert_eq!("The list is empty.", todo_text(&[]));
    }
}
