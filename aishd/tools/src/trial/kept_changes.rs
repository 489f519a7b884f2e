//! What was kept: taken back, done again, told of for as long as that is possible.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;

use aish_proto::id::{ChangesId, ConversationId, TurnId};
use aishd_layers::{Conflict, Redoable, UndoEntry, UndoError};
use aishd_log::time::Timestamp;
use aishd_platform::clock;
use serde::{Deserialize, Serialize};

use super::told::{few, visible};
use super::{ChangeFailure, TrialRoom, other, text};

/// How long an undo is held.
const UNDO_DAYS: i64 = 14;
const DAY_MS: i64 = 24 * 60 * 60 * 1000;

/// What is known of something that was kept: no word of the command, which may be deleted before the files are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptAbout {
    /// `None`: it was deleted.
    pub conversation: Option<ConversationId>,
    #[serde(default)]
    pub turn: Option<TurnId>,
    /// The question's, where they were kept by an answer.
    #[serde(default)]
    pub number: Option<u32>,
    /// The first ones of many.
    pub paths: Vec<String>,
}

/// What was kept and can be undone, or was undone and can be done again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Undoable {
    pub changes: ChangesId,
    pub kept_at: Timestamp,
    pub undone_at: Option<Timestamp>,
    pub about: Option<KeptAbout>,
}

/// An undo or a redo that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReversedChanges {
    /// What was taken back. A redo: what was done again, by the id that it is undone by from now on.
    pub changes: ChangesId,
    pub paths: u64,
    /// Whether the opposite can be done.
    pub reversible: bool,
}

impl TrialRoom {
    /// What was kept so long ago can be undone no more.
    pub fn expire(&self) -> Option<String> {
        let old = clock::now().0 - UNDO_DAYS * DAY_MS;
        match self.0.layers.expire(old) {
            Ok(expired) => {
                let expired = expired.iter().filter_map(|it| it.parse().ok());
                expired.for_each(|it| {
                    let _none_was_written = std::fs::remove_file(self.about_path(it));
                });
                None
            }
            Err(error) => Some(text(&error)),
        }
    }

    /// A conversation was deleted: of what was kept of it nothing says so any more, and what was undone is gone.
    pub fn forget(&self, conversation: ConversationId) {
        for it in self.undoable().unwrap_or_default() {
            let Some(about) = it.about.filter(|it| it.conversation == Some(conversation)) else {
                continue;
            };
            if it.undone_at.is_some() {
                self.forget_undone(it.changes);
                continue;
            }
            let about = KeptAbout {
                conversation: None,
                paths: vec![],
                ..about
            };
            if let Err(error) = self.note(it.changes, &about) {
                tracing::warn!(%error, "what was kept still names its conversation");
            }
        }
    }

    fn forget_undone(&self, id: ChangesId) {
        let _none_was_written = std::fs::remove_file(self.about_path(id));
        if let Err(error) = self.0.layers.forget_undone(&id.to_string()) {
            tracing::warn!(changes = %id, error = %text(&error), "what was undone stays until it is too old");
        }
        self.sweep();
    }

    /// Takes back what was kept, and says how many paths that were.
    pub fn undo(&self, id: ChangesId) -> Result<ReversedChanges, ChangeFailure> {
        let undone = self.0.layers.undo(&id.to_string());
        let undone = undone.map_err(|it| self.not_reversed(id, it))?;
        let reversible = undone.redo == Redoable::Yes;
        if !reversible {
            let _none_was_written = std::fs::remove_file(self.about_path(id));
        }
        self.sweep();
        Ok(ReversedChanges {
            changes: id,
            paths: undone.paths,
            reversible,
        })
    }

    /// Does again what was undone.
    pub fn redo(&self, id: ChangesId) -> Result<ReversedChanges, ChangeFailure> {
        let again = ChangesId(clock::ulid());
        // Before it is done: what recovery finishes is told of, too.
        if let Some(about) = self.about(id)
            && let Err(error) = self.note(again, &about)
        {
            tracing::warn!(changes = %again, %error, "nothing will say what was done again");
        }
        let (from, to) = (id.to_string(), again.to_string());
        let done = self.0.layers.redo(&from, &to, clock::now().0);
        let done = done.map_err(|it| self.not_reversed(id, it));
        let gone = match &done {
            Ok(_) => Some(id),
            // Recovery finishes it, or takes it back.
            Err(ChangeFailure::Unfinished(_)) => None,
            Err(_) => Some(again),
        };
        if let Some(gone) = gone {
            let _none_was_written = std::fs::remove_file(self.about_path(gone));
        }
        self.sweep();
        Ok(ReversedChanges {
            changes: again,
            paths: done?,
            reversible: true,
        })
    }

    /// What is known of keeps that are not there any more is removed. Only before anything is kept.
    pub(super) fn forget_lost(&self) -> io::Result<()> {
        let directory = self.0.directory.join("about");
        let entries = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let id = path.file_stem().unwrap_or_default();
            if !self.0.directory.join("undo").join(id).exists() {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }

    /// What can be undone or done again, the newest keep last.
    pub fn undoable(&self) -> Result<Vec<Undoable>, String> {
        let entries = self.0.layers.undo_entries().map_err(|it| text(&it))?;
        let mut kept: Vec<Undoable> = entries
            .into_iter()
            .filter(|it| !it.dropped)
            .filter_map(|it| {
                let changes = it.id.parse().ok()?;
                Some(Undoable {
                    changes,
                    kept_at: Timestamp(it.kept_at_ms),
                    undone_at: it.undone_at_ms.map(Timestamp),
                    about: self.about(changes),
                })
            })
            .collect();
        kept.sort_by_key(|it| it.kept_at);
        Ok(kept)
    }

    /// Whether a keep of this name has come to its end, whether or not it can be undone.
    pub(super) fn is_kept(&self, id: ChangesId) -> Result<bool, ChangeFailure> {
        let entries = self.0.layers.undo_entries().map_err(other)?;
        let name = id.to_string();
        let is_kept = |it: &UndoEntry| it.id == name && it.undone_at_ms.is_none();
        Ok(entries.iter().any(is_kept))
    }

    pub(super) fn about_path(&self, id: ChangesId) -> PathBuf {
        self.0.directory.join("about").join(format!("{id}.json"))
    }

    pub(super) fn note(&self, id: ChangesId, about: &KeptAbout) -> io::Result<()> {
        let path = self.about_path(id);
        std::fs::create_dir_all(self.0.directory.join("about"))?;
        std::fs::write(path, serde_json::to_vec(about)?)
    }

    pub(super) fn about(&self, id: ChangesId) -> Option<KeptAbout> {
        let text = std::fs::read(self.about_path(id)).ok()?;
        serde_json::from_slice(&text).ok()
    }
}

impl TrialRoom {
    fn not_reversed(&self, id: ChangesId, error: UndoError) -> ChangeFailure {
        let UndoError::Conflicts(conflicts) = error else {
            return failed(error);
        };
        let lowers = self.0.layers.lowers_of(&id.to_string());
        let path = |it: &Conflict| match lowers.get(it.layer) {
            Some(lower) => visible(&lower.join(it.path.as_path())),
            None => visible(it.path.as_path()),
        };
        // Of a path that is changed in two steps it is said once.
        let paths: BTreeSet<String> = conflicts.iter().map(path).collect();
        ChangeFailure::Conflicts(paths.into_iter().collect())
    }
}

fn failed(error: UndoError) -> ChangeFailure {
    match error {
        UndoError::WentBack { left, source } => {
            let left = left
                .iter()
                .map(|it| visible(it.as_path()))
                .collect::<Vec<_>>();
            let but = match &left[..] {
                [] => "nothing is changed".to_owned(),
                left => format!("nothing is changed but {}", few(left)),
            };
            ChangeFailure::Other(format!("{but}: {source}"))
        }
        error @ UndoError::Io { .. } => ChangeFailure::Unfinished(text(&error)),
        error => other(error),
    }
}
