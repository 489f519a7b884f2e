//! What a conversation has seen of files: only what it knows may it change, and only as long as it is that.

use std::collections::VecDeque;
use std::sync::Arc;

use aishd_files::SeenFile;
use parking_lot::Mutex;

/// More than that no model has in its context; of older ones it is said that they were not read.
const MOST: usize = 500;

/// The newest reads of a conversation; cheap to clone. It is not stored: after a restart a model reads again, which costs less
/// than a wrong belief.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenFiles(Arc<Mutex<VecDeque<SeenFile>>>);

impl SeenFiles {
    /// This is what is known of it from now on.
    pub(crate) fn note(&self, seen: SeenFile) {
        let mut all = self.0.lock();
        all.retain(|it| it.path != seen.path);
        if all.len() == MOST {
            all.pop_front();
        }
        all.push_back(seen);
    }

    pub(crate) fn all(&self) -> Vec<SeenFile> {
        self.0.lock().iter().cloned().collect()
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
}
