//! What `.gitignore` leaves out: the files of a directory, of those above it up to the repository's root, and the
//! repository's own `info/exclude`. One without a repository counts from the directory on.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{Mode, OFlags, open};

use super::file_stamp::StampSet;

const FILE: &str = ".gitignore";
/// More was not written by hand, and patterns take time.
const MOST_BYTES: u64 = 64 << 10;
const MOST_LINES: usize = 1_000;
/// No directory is deeper than that on purpose.
const MOST_ANCESTORS: usize = 64;

/// The patterns that count in a directory, the nearest first; cheap to clone.
#[derive(Clone, Debug, Default)]
pub(super) struct IgnorePatterns(Option<Arc<IgnoreLink>>);

#[derive(Debug)]
struct IgnoreLink {
    own: Gitignore,
    outer: IgnorePatterns,
}

impl IgnorePatterns {
    /// What counts in `top` before its own file.
    pub(super) fn above(top: &Path, stamps: &mut StampSet) -> Self {
        let above: Vec<&Path> = top.ancestors().take(MOST_ANCESTORS).collect();
        let Some(root) = above.iter().position(|it| it.join(".git").exists()) else {
            return Self::default();
        };
        let at = above[root];
        let mut ignored = Self::default().with(at, &at.join(".git/info/exclude"), stamps);
        for directory in above[1..=root].iter().rev().filter(|_| root > 0) {
            ignored = ignored.within(directory, stamps);
        }
        ignored
    }

    /// What counts in a directory below, with its own file.
    pub(super) fn within(&self, directory: &Path, stamps: &mut StampSet) -> Self {
        self.with(directory, &directory.join(FILE), stamps)
    }

    fn with(&self, root: &Path, file: &Path, stamps: &mut StampSet) -> Self {
        stamps.note(file);
        let Some(text) = text(file) else {
            return self.clone();
        };
        let mut builder = GitignoreBuilder::new(root);
        for line in text.lines().take(MOST_LINES) {
            // A pattern that cannot be understood leaves nothing out.
            drop(builder.add_line(Some(file.to_path_buf()), line));
        }
        let Ok(own) = builder.build() else {
            return self.clone();
        };
        Self(Some(Arc::new(IgnoreLink {
            own,
            outer: self.clone(),
        })))
    }

    /// The nearest file that says something of it decides.
    pub(super) fn has(&self, path: &Path, is_folder: bool) -> bool {
        let mut link = self.0.as_ref();
        while let Some(it) = link {
            match it.own.matched(path, is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => link = it.outer.0.as_ref(),
            }
        }
        false
    }
}

/// The beginning of a file of patterns. Nothing waits for whoever holds the other end of a pipe.
fn text(file: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = File::from(open(file, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = vec![];
    file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
