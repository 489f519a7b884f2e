//! What an argument of a prompt, or a variable of a resource template, may become: its server is asked while somebody types.

use std::time::Duration;

use aishd_log::invisible_characters::without_hidden;
use aishd_log::tool_name::Alias;
use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;

use super::error::ToolCallError;
use super::hub::{Hub, SessionQuestion};

/// A person who presses a key looks at the screen meanwhile.
const WITHIN: Duration = Duration::from_secs(3);
/// The specification's.
const MOST_VALUES: usize = 100;
/// Nobody types more, and a cut value would be another one.
const MAX_VALUE_BYTES: usize = 1024;

/// What is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompletionQuestion {
    pub subject: CompletionSubject,
    /// The argument, or the variable.
    pub argument: String,
    /// What there is of it.
    pub value: String,
    /// The others that are filled in already.
    pub others: Map<String, Value>,
}

/// What an argument belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionSubject {
    Prompt(String),
    Template(String),
}

/// What it may become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompletedArgument {
    pub values: Vec<String>,
    pub total: Option<u64>,
    pub more: bool,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum CompletionError {
    #[error("the MCP server {0} announces no completions")]
    Unannounced(Alias),
    #[error(transparent)]
    Failed(ToolCallError),
}

impl CompletionSubject {
    fn reference(&self) -> Value {
        match self {
            Self::Prompt(name) => json!({"type": "ref/prompt", "name": name}),
            Self::Template(uri) => json!({"type": "ref/resource", "uri": uri}),
        }
    }
}

impl Hub {
    /// Asks a server that announced that it can say so.
    pub async fn complete(
        &self,
        alias: &Alias,
        question: CompletionQuestion,
        cancel: &CancellationToken,
    ) -> Result<CompletedArgument, CompletionError> {
        let servers = self.servers().borrow().clone();
        let unknown = || CompletionError::Failed(ToolCallError::UnknownServer(alias.clone()));
        let about = &servers.get(alias).ok_or_else(unknown)?.about;
        if !about.completes() {
            return Err(CompletionError::Unannounced(alias.clone()));
        }
        let mut params = json!({
            "ref": question.subject.reference(),
            "argument": {"name": question.argument, "value": question.value},
        });
        if about.completes_in_context() && !question.others.is_empty() {
            params["context"] = json!({ "arguments": question.others });
        }
        let asked = SessionQuestion {
            about: None,
            ..SessionQuestion::new("completion/complete", params, "")
        };
        // The server is told when nobody waits any more.
        let over = cancel.child_token();
        let answer = self.ask(alias, asked, &over);
        let answer = match tokio::time::timeout(WITHIN, answer).await {
            Ok(answer) => answer.map_err(CompletionError::Failed)?,
            Err(_slow) => {
                over.cancel();
                return Err(CompletionError::Failed(ToolCallError::TimedOut {
                    alias: alias.clone(),
                    seconds: WITHIN.as_secs(),
                }));
            }
        };
        Ok(read(&answer))
    }
}

/// The values that are whole and show all that they are.
fn read(answer: &Value) -> CompletedArgument {
    let completion = answer.get("completion").unwrap_or(&Value::Null);
    let given = completion.get("values").and_then(Value::as_array);
    let given = given.map_or(&[][..], Vec::as_slice);
    let is_plain = |it: &&str| {
        let breaks = it.contains(char::is_control);
        !breaks && it.len() <= MAX_VALUE_BYTES && without_hidden(it).1 == 0
    };
    let values = given.iter().take(MOST_VALUES).filter_map(Value::as_str);
    CompletedArgument {
        values: values.filter(is_plain).map(str::to_owned).collect(),
        total: completion.get("total").and_then(Value::as_u64),
        more: completion.get("hasMore") == Some(&Value::Bool(true)) || given.len() > MOST_VALUES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(answer: &Value, expected: &[&str], total: Option<u64>, more: bool) {
        let read = read(answer);
        let values: Vec<&str> = read.values.iter().map(String::as_str).collect();
        assert_eq!(
            (expected, total, more),
            (&values[..], read.total, read.more)
        );
    }

    #[test]
    fn values_are_whole_and_show_all_that_they_are() {
        let said = |values: Value| json!({ "completion": { "values": values } });
        check(
            &said(json!(["a", "b c", "é"])),
            &["a", "b c", "é"],
            None,
            false,
        );
        let bad = json!([
            "\u{1b}[2J",
            "a\nb",
            "a\u{202e}b",
            7,
            null,
            "x".repeat(1025),
            "ok"
        ]);
        check(&said(bad), &["ok"], None, false);
        let many: Vec<String> = (0..101).map(|it| it.to_string()).collect();
        let first: Vec<&str> = many.iter().take(100).map(String::as_str).collect();
        check(&said(json!(many)), &first, None, true);
        let counted = json!({"completion": {"values": ["a"], "total": 9, "hasMore": true}});
        check(&counted, &["a"], Some(9), true);
        for nothing in [json!({}), json!(7), said(json!("a")), said(json!({"a": 1}))] {
            check(&nothing, &[], None, false);
        }
    }
}
