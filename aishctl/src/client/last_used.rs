//! What windows used last in each project. Scripts leave no trace here, so that a window which is opened without a name never
//! finds itself in the middle of one.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use aish_proto::id::ConversationId;
use serde::{Deserialize, Serialize};

use crate::private_file;

/// A file larger than this is cut to what is newest.
const FILE_BYTES: u64 = 128 << 10;
const KEPT: usize = 500;

/// One line of the file; a later one of the same project counts for more.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct ConversationUse {
    project: PathBuf,
    conversation: ConversationId,
}

#[derive(Debug)]
pub struct LastUsed {
    path: PathBuf,
}

impl LastUsed {
    /// In this state directory, which is made when there is something to keep.
    pub fn at(directory: &Path) -> Self {
        Self {
            path: directory.join("windows"),
        }
    }

    /// The conversations of this project, the one used last first. Without a file that can be read there are none.
    pub fn of(&self, project: &Path) -> Vec<ConversationId> {
        let mut found = vec![];
        if !self.path.exists() {
            return found;
        }
        for it in self.uses().unwrap_or_default().into_iter().rev() {
            if it.project == project && !found.contains(&it.conversation) {
                found.push(it.conversation);
            }
        }
        found
    }

    /// A window uses this one now.
    pub fn note(&self, project: &Path, conversation: ConversationId) -> io::Result<()> {
        if self.of(project).first() == Some(&conversation) {
            return Ok(());
        }
        let mut file = private_file::open(&self.path)?;
        file.lock()?;
        let now = ConversationUse {
            project: project.to_owned(),
            conversation,
        };
        let size = private_file::append(&mut file, &serde_json::to_string(&now)?)?;
        if size > FILE_BYTES {
            let uses = uses_in(&private_file::tail(&mut file, FILE_BYTES)?);
            let mut text = String::new();
            for it in &uses[uses.len().saturating_sub(KEPT)..] {
                text.push_str(&serde_json::to_string(it)?);
                text.push('\n');
            }
            file.set_len(0)?;
            file.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    fn uses(&self) -> io::Result<Vec<ConversationUse>> {
        let mut file = private_file::open(&self.path)?;
        Ok(uses_in(&private_file::tail(&mut file, FILE_BYTES)?))
    }
}

/// What is no record is passed over.
fn uses_in(text: &str) -> Vec<ConversationUse> {
    let read = |line: &str| serde_json::from_str(line).ok();
    text.lines().filter_map(read).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn id(byte: u8) -> ConversationId {
        ConversationId::from_bytes([byte; 16])
    }

    #[test]
    fn each_project_has_its_own_and_the_newest_comes_first() {
        let directory = tempfile::tempdir().unwrap();
        let used = LastUsed::at(directory.path());
        assert!(used.of(Path::new("/p")).is_empty());
        for (project, byte) in [("/p", 1), ("/q", 2), ("/p", 3), ("/p", 1)] {
            used.note(Path::new(project), id(byte)).unwrap();
        }
        assert_eq!(vec![id(1), id(3)], used.of(Path::new("/p")));
        assert_eq!(vec![id(2)], used.of(Path::new("/q")));
    }

    #[test]
    fn what_is_no_record_is_passed_over_and_a_large_file_is_cut() {
        let directory = tempfile::tempdir().unwrap();
        let used = LastUsed::at(directory.path());
        fs::write(directory.path().join("windows"), b"\xff{]\n{\"project\":").unwrap();
        used.note(Path::new("/p"), id(1)).unwrap();
        assert_eq!(vec![id(1)], used.of(Path::new("/p")));
        for number in 0..2_000 {
            let project = format!("/{}{number}", "x".repeat(100));
            used.note(Path::new(&project), id(2)).unwrap();
        }
        let newest = format!("/{}1999", "x".repeat(100));
        assert_eq!(vec![id(2)], used.of(Path::new(&newest)));
        let about = fs::metadata(directory.path().join("windows")).unwrap();
        assert!(about.len() <= FILE_BYTES, "{}", about.len());
    }
}
