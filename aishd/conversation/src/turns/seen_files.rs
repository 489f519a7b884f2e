//! What a conversation has seen of files: only what it knows may it change, and only as long as it is that.

use std::collections::VecDeque;
use std::sync::Arc;

use aish_proto::id::ChangesId;
use aishd_files::SeenFile;
use parking_lot::Mutex;

/// More than that no model has in its context; of older ones it is said that they were not read.
const MOST: usize = 500;

/// The newest reads of a conversation, its kept changes among them; cheap to clone. It is not stored: after a restart a model reads again, which costs less
/// than a wrong belief.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenFiles(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    files: VecDeque<SeenFile>,
    /// What a proposed change would make of a file.
    proposed: VecDeque<(ChangesId, SeenFile)>,
}

impl SeenFiles {
    /// This is what is known of it from now on.
    pub(crate) fn note(&self, seen: SeenFile) {
        let all = &mut self.0.lock().files;
        all.retain(|it| it.path != seen.path);
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(seen);
    }

    /// That is what it would be, if these changes were kept.
    pub(crate) fn propose(&self, changes: ChangesId, seen: SeenFile) {
        let proposed = &mut self.0.lock().proposed;
        if proposed.len() == MOST {
            proposed.pop_front();
        }
        proposed.push_back((changes, seen));
    }

    /// They are kept.
    pub(crate) fn keep(&self, changes: ChangesId) {
        let kept = {
            let proposed = &mut self.0.lock().proposed;
            let at = proposed.iter().position(|(it, _)| *it == changes);
            at.and_then(|it| proposed.remove(it))
        };
        if let Some((_, seen)) = kept {
            self.note(seen);
        }
    }

    pub(crate) fn all(&self) -> Vec<SeenFile> {
        self.0.lock().files.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use aishd_files::FileFingerprint;

    use super::*;

    #[test]
    fn the_newest_counts_and_the_oldest_goes() {
        let seen = SeenFiles::default();
        let file = |path: String, content: &str| SeenFile {
            path,
            fingerprint: FileFingerprint::of(content.as_bytes()),
        };
        seen.note(file("/a".to_owned(), "1"));
        for at in 0..MOST {
            seen.note(file(format!("/{at}"), ""));
        }
        seen.note(file("/0".to_owned(), "2"));
        let all = seen.all();
        assert_eq!(MOST, all.len());
        assert!(!all.iter().any(|it| it.path == "/a"));
        assert_eq!(Some(&file("/0".to_owned(), "2")), all.last());
    }

    #[test]
    fn what_was_proposed_is_seen_when_it_is_kept() {
        let seen = SeenFiles::default();
        let file = |content: &str| SeenFile {
            path: "/a".to_owned(),
            fingerprint: FileFingerprint::of(content.as_bytes()),
        };
        let id = |it| ChangesId::from_bytes([it; 16]);
        seen.note(file("1"));
        seen.propose(id(1), file("2"));
        seen.propose(id(2), file("3"));
        assert_eq!(vec![file("1")], seen.all());
        seen.keep(id(1));
        assert_eq!(vec![file("2")], seen.all());
        seen.keep(id(1));
        assert_eq!(vec![file("2")], seen.all());
    }
}
