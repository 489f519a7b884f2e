//! What was kept of changes is taken back by a person, or done again.
//!
//! The serde attributes spell the stored form out, as in [`crate::event`].

use std::path::Path;

use aish_proto::id::ChangesId;
use serde::{Deserialize, Serialize};

use crate::run_changes::named;
use crate::shown_name::shown_path;

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
    /// Where commands run since: the directory in which they ran went with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoAct {
    #[default]
    Undo,
    Redo,
}

impl ChangesUndo {
    /// Whether that directory may have gone with it.
    pub fn may_reach(&self, directory: &str) -> bool {
        let is_named = |it: &String| Path::new(directory).starts_with(it);
        self.paths.iter().any(is_named) || self.count > self.paths.len() as u64
    }

    /// For the model, before the next question.
    pub fn told(&self) -> String {
        let what = match self.count {
            0 => "what was kept of a command".to_owned(),
            count => named(&self.paths, count),
        };
        let mut text = match self.act {
            UndoAct::Undo => format!(
                "[aish] A person took this back, and the files are as they were before: {what}."
            ),
            UndoAct::Redo => {
                format!("[aish] A person did this again, which was taken back before: {what}.")
            }
        };
        if let Some(directory) = &self.directory {
            let directory = shown_path(directory);
            text.push_str(&format!(" Commands run in {directory} from now on."));
        }
        text
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
                directory: None,
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
        let moved = ChangesUndo {
            act: UndoAct::Undo,
            changes: ChangesId(Ulid::nil()),
            paths: vec!["/w/sub".to_owned()],
            count: 1,
            reversible: true,
            directory: Some("/w".to_owned()),
        };
        assert!(
            moved
                .told()
                .ends_with(": /w/sub. Commands run in /w from now on.")
        );
        assert!(moved.may_reach("/w/sub/deep") && !moved.may_reach("/w/submarine"));
    }
}
