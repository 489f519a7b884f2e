//! The tasks of a conversation, as its model has written them down: the whole list at once.

use serde::{Deserialize, Serialize};

/// More would be no list that anybody keeps.
pub const MOST_TODOS: usize = 100;
pub const MOST_TODO_CHARS: usize = 500;

/// One task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// On one line, without what hides or draws.
    pub content: String,
    pub status: TodoStatus,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    Pending,
    InProgress,
    Completed,
}

impl TodoStatus {
    /// As models write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}
