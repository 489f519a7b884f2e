//! What was kept of changes is taken back by a person, or done again.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use aish_proto::id::ChangesId;
use serde::{Deserialize, Serialize};

use crate::run_changes::named;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangesUndo {
    pub act: UndoAct,
    /// What was taken back. A redo: what was done again, by the id that it is undone by from now on.
    pub changes: ChangesId,
    /// The first ones of many; absolute.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    #[serde(default)]
    pub count: u64,
    /// Whether the opposite can be done.
    #[serde(default)]
    pub reversible: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoAct {
    #[default]
    Undo,
    Redo,
}

impl ChangesUndo {
    /// For the model, before the next question.
    pub fn told(&self) -> String {
        let what = match self.count {
            0 => "what was kept of a command".to_owned(),
            count => named(&self.paths, count),
        };
        match self.act {
            UndoAct::Undo => format!(
                "[aish] A person took this back, and the files are as they were before: {what}."
            ),
            UndoAct::Redo => {
                format!("[aish] A person did this again, which was taken back before: {what}.")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ulid::Ulid;

    use super::*;

    #[test]
    fn a_model_is_told_what_was_taken_back() {
        let undo = |act, paths: &[&str], count| {
            let paths = paths.iter().map(ToString::to_string).collect();
            let changes = ChangesId(Ulid::nil());
            ChangesUndo {
                act,
                changes,
                paths,
                count,
                reversible: true,
            }
            .told()
        };
        assert_eq!(
            "[aish] A person took this back, and the files are as they were before: /a, /b.",
            undo(UndoAct::Undo, &["/a", "/b"], 2)
        );
        assert_eq!(
            "[aish] A person did this again, which was taken back before: 30 paths, /a among them.",
            undo(UndoAct::Redo, &["/a"], 30)
        );
    }
}
