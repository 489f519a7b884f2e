//! A call that its MCP server goes on with by itself, and how it is asked for what came of it.

use serde::{Deserialize, Serialize};

use crate::tool::ContentDigest;

/// Longer than any server's ids; what is longer is none.
pub const MAX_TASK_ID_BYTES: usize = 512;

/// What a server gave in place of a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTask {
    /// The server's word for it; whoever knows it can read what came of it.
    pub id: String,
    pub form: TaskForm,
    /// Of who that server is: another one of the same name is never asked.
    pub server: ContentDigest,
}

/// Which of the two forms that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskForm {
    /// `io.modelcontextprotocol/tasks`, of 2026-07-28: the server decides.
    Extension,
    /// The experimental one of 2025-11-25: the call asks for it, and the result has a method of its own.
    Experimental,
}

impl ServerTask {
    /// `None` where the text is no id that could be sent again.
    pub fn new(id: &str, form: TaskForm, identity: &str) -> Option<Self> {
        let fits = (1..=MAX_TASK_ID_BYTES).contains(&id.len());
        (fits && !id.contains(char::is_control)).then(|| Self {
            id: id.to_owned(),
            form,
            server: Self::server(identity),
        })
    }

    /// The digest of an identity, which may hold what no log has.
    pub fn server(identity: &str) -> ContentDigest {
        ContentDigest::of(identity.as_bytes())
    }

    /// The last word about a call of which nobody knows what became of it.
    pub fn left(&self) -> String {
        format!(
            "[aish] interrupted: the daemon ended while the call's server worked on it as task {}; the effect of this call is unknown",
            self.id
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;

    /// An old record must always load.
    #[test]
    fn what_is_stored_of_a_task_is_read_again() {
        let digest = "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e";
        for (word, form) in [
            ("extension", TaskForm::Extension),
            ("experimental", TaskForm::Experimental),
        ] {
            let stored = format!(
                r#"{{"task_began":{{"call":"c1","task":{{"id":"t1","form":"{word}","server":"{digest}","more":1}}}}}}"#
            );
            let event: Event = serde_json::from_str(&stored).unwrap();
            let expected = Event::TaskBegan {
                call: "c1".to_owned(),
                task: ServerTask::new("t1", form, "first").unwrap(),
            };
            assert_eq!(expected, event);
        }
    }
}
