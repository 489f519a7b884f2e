//! What a server says of a call that it goes on with by itself, in both forms that there are.

use std::time::Duration;

use aishd_log::invisible_characters::without_hidden;
use aishd_log::server_task::{ServerTask, TaskForm};
use serde_json::Value;

use crate::bounded_text::one_line;

const MAX_MESSAGE_CHARS: usize = 500;
const MAX_WORD_CHARS: usize = 40;

/// What a tool says of being called so, which counts in revision 2025-11-25 alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TaskSupport {
    /// Also where nothing is said.
    #[default]
    Forbidden,
    Optional,
    Required,
}

impl TaskSupport {
    pub fn read(tool: &Value) -> Self {
        let said = tool.get("execution").and_then(|it| it.get("taskSupport"));
        match said.and_then(Value::as_str) {
            Some("required") => Self::Required,
            Some("optional") => Self::Optional,
            Some(_) | None => Self::Forbidden,
        }
    }

    /// As a server writes it.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Forbidden => None,
            Self::Optional => Some("optional"),
            Self::Required => Some("required"),
        }
    }
}

/// How far a task is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskReport {
    pub status: TaskStatus,
    pub message: Option<String>,
    /// After which time the server wants to be asked again; nothing that is believed unbounded.
    pub poll: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskStatus {
    Working,
    InputRequired,
    Completed,
    Failed,
    Cancelled,
}

/// The task that a call was answered with by the server of that identity; `None`: it was answered otherwise.
///
/// # Errors
/// It is one, and nobody could ask for it again.
pub fn begun<'a>(
    result: &'a Value,
    identity: &str,
) -> Option<Result<(ServerTask, &'a Value), String>> {
    let (said, form) = if result.get("resultType").and_then(Value::as_str) == Some("task") {
        (result, TaskForm::Extension)
    } else {
        let task = result.get("task").filter(|it| it.get("taskId").is_some());
        (
            task.filter(|_| result.get("content").is_none())?,
            TaskForm::Experimental,
        )
    };
    let id = said.get("taskId").and_then(Value::as_str);
    let task = ServerTask::new(id.unwrap_or_default(), form, identity);
    Some(match task {
        Some(task) => Ok((task, said)),
        None => Err("a task without an id that could be sent again".to_owned()),
    })
}

/// What `tasks/get` gave.
///
/// # Errors
/// It says nothing of a task.
pub fn report(said: &Value) -> Result<TaskReport, String> {
    let status = said.get("status").and_then(Value::as_str);
    let status = match status.unwrap_or_default() {
        "working" => TaskStatus::Working,
        "input_required" => TaskStatus::InputRequired,
        "completed" => TaskStatus::Completed,
        "failed" => TaskStatus::Failed,
        "cancelled" => TaskStatus::Cancelled,
        other => {
            let other = one_line(other, MAX_WORD_CHARS);
            return Err(format!("a task with the status {other:?}"));
        }
    };
    let message = said.get("statusMessage").and_then(Value::as_str);
    let message = message.map(|it| one_line(&without_hidden(it).0, MAX_MESSAGE_CHARS));
    let poll = ["pollIntervalMs", "pollInterval"];
    let poll = poll.iter().find_map(|it| said.get(it)?.as_u64());
    Ok(TaskReport {
        status,
        message: message.filter(|it| !it.is_empty()),
        poll: poll.map(Duration::from_millis),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(result: &Value, expected: &str) {
        let seen = match begun(result, "one") {
            None => "none".to_owned(),
            Some(Ok((task, _))) => format!("{} {:?}", task.id, task.form),
            Some(Err(why)) => why,
        };
        assert_eq!(expected, seen, "{result}");
    }

    #[test]
    fn a_call_may_be_answered_with_a_task_in_two_forms() {
        check(
            &json!({"resultType": "task", "taskId": "t1"}),
            "t1 Extension",
        );
        check(&json!({"task": {"taskId": "t1"}}), "t1 Experimental");
        check(&json!({"content": [], "task": {"taskId": "t1"}}), "none");
        check(&json!({"content": []}), "none");
        check(&json!({"task": {"title": "mine"}}), "none");
        let none = "a task without an id that could be sent again";
        for id in [json!(null), json!(7), json!(""), json!("a\nb")] {
            check(&json!({"resultType": "task", "taskId": id}), none);
        }
        check(
            &json!({"resultType": "task", "taskId": "x".repeat(513)}),
            none,
        );
    }

    #[test]
    fn how_far_it_is_is_read_leniently_and_in_bounds() {
        let report = |said: Value| report(&said);
        let working = report(json!({
            "status": "working",
            "statusMessage": format!("step\u{202e}\n1 {}", "x".repeat(1000)),
            "pollInterval": 7,
        }));
        let working = working.unwrap();
        assert_eq!(TaskStatus::Working, working.status);
        assert_eq!(Some(Duration::from_millis(7)), working.poll);
        let message = working.message.unwrap();
        assert!(message.starts_with("step 1 x"), "{message}");
        assert!(message.chars().count() < 600);
        let odd = json!({"status": "completed", "pollIntervalMs": -5, "statusMessage": 7});
        let expected = TaskReport {
            status: TaskStatus::Completed,
            message: None,
            poll: None,
        };
        assert_eq!(Ok(expected), report(odd));
        assert!(report(json!({"status": "asleep"})).is_err());
        assert!(report(json!({})).is_err());
    }
}
