//! What the directories of conversations tell models, read beside everything else: a directory may be huge, or far
//! away and silent. Each has one reader at a time, in a thread that is left behind when nobody can wait for it any more, and
//! what it finds is kept for as long as nothing of it changes.

mod file_stamp;
mod gitignore;
pub mod instructions;
mod walk;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use aishd_log::shown_name::shown_path;
use aishd_model::trusted_instructions::TrustedInstructions;
use aishd_turn::project::{ProjectBlocks, ProjectFindings};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use self::file_stamp::StampSet;
use self::instructions::OmittedFile;

/// The longest that a question waits for its directory.
const WITHIN: Duration = Duration::from_millis(500);
/// Directories that are kept in mind; others are read when they are wanted.
const MOST: usize = 64;

/// What is known of all directories; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ProjectCache(Arc<Mutex<HashMap<PathBuf, Arc<CacheSlot>>>>);

/// What a question is told of its directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProjectLook {
    /// `None`: there is nothing to tell.
    pub blocks: Option<ProjectBlocks>,
    /// What a person should know of it, each in a line.
    pub remarks: Vec<String>,
}

/// One directory.
#[derive(Debug)]
struct CacheSlot {
    known: Mutex<KnownProjects>,
    /// How many readings have ended.
    ended: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct KnownProjects {
    /// Since when somebody reads.
    reading: Option<Instant>,
    last: Option<Arc<ProjectRead>>,
}

/// What a reading came to, and what has to be as it was for that to hold.
#[derive(Debug)]
struct ProjectRead {
    trusted: TrustedInstructions,
    stamps: StampSet,
    looked: ProjectLook,
}

impl ProjectCache {
    /// What there is to tell of a directory now. What takes longer than a question can wait for is told as it was known
    /// last, or not at all, with a remark; the next question may have it.
    pub async fn look(&self, directory: &str, trusted: &TrustedInstructions) -> ProjectLook {
        let path = Path::new(directory);
        if !is_project(path) {
            return ProjectLook::default();
        }
        let Some(slot) = self.slot(path) else {
            return late(directory, None);
        };
        let deadline = Instant::now() + WITHIN;
        loop {
            let mut ended = slot.ended.subscribe();
            let begun = slot.begin(path, trusted);
            // Who has kept others waiting is not waited for again.
            let hangs = !begun && slot.has_read_for(WITHIN);
            if hangs || timeout_at(deadline, ended.changed()).await.is_err() {
                let last = slot.lock().last.clone();
                return late(directory, last.filter(|it| it.trusted == *trusted));
            }
            // One that had begun before may not have seen what is there now.
            if begun {
                let last = slot.lock().last.clone();
                return last.map_or_else(|| late(directory, None), |it| it.looked.clone());
            }
        }
    }

    /// `None`: too many directories do not answer.
    fn slot(&self, path: &Path) -> Option<Arc<CacheSlot>> {
        let mut all = self.0.lock();
        if let Some(known) = all.get(path) {
            return Some(known.clone());
        }
        if all.len() >= MOST {
            all.retain(|_, it| it.lock().reading.is_some());
        }
        if all.len() >= MOST {
            return None;
        }
        let slot = Arc::new(CacheSlot {
            known: Mutex::default(),
            ended: watch::channel(0).0,
        });
        all.insert(path.to_path_buf(), slot.clone());
        Some(slot)
    }
}

impl CacheSlot {
    fn lock(&self) -> MutexGuard<'_, KnownProjects> {
        self.known.lock()
    }

    /// Starts a reader, unless one is at it.
    fn begin(self: &Arc<Self>, path: &Path, trusted: &TrustedInstructions) -> bool {
        let mut known = self.lock();
        if known.reading.is_some() {
            return false;
        }
        known.reading = Some(Instant::now());
        let before = known.last.clone();
        drop(known);
        let (slot, path, trusted) = (self.clone(), path.to_path_buf(), trusted.clone());
        let reading = move || {
            let read = || read(&path, trusted, before);
            slot.end(catch_unwind(AssertUnwindSafe(read)).ok());
        };
        let started = thread::Builder::new()
            .name("folder".to_owned())
            .spawn(reading);
        if let Err(error) = started {
            tracing::warn!(%error, "no thread for looking into a directory");
            self.end(None);
        }
        true
    }

    fn has_read_for(&self, time: Duration) -> bool {
        self.lock().reading.is_some_and(|it| it.elapsed() > time)
    }

    fn end(&self, read: Option<Arc<ProjectRead>>) {
        let mut known = self.lock();
        known.reading = None;
        known.last = read.or(known.last.take());
        drop(known);
        self.ended.send_modify(|it| *it += 1);
    }
}

/// Blocks on files.
fn read(
    path: &Path,
    trusted: TrustedInstructions,
    before: Option<Arc<ProjectRead>>,
) -> Arc<ProjectRead> {
    if let Some(before) = before.filter(|it| it.trusted == trusted && it.stamps.hold()) {
        return before;
    }
    let mut stamps = StampSet::begin();
    let tree = walk::tree(path, &mut stamps);
    let (instructions, left) = instructions::trusted(path, &trusted, &mut stamps);
    let project = ProjectFindings {
        directory: path.to_string_lossy().into_owned(),
        tree,
        instructions,
    };
    stamps.end();
    let looked = ProjectLook {
        blocks: project.blocks(),
        remarks: left.iter().map(OmittedFile::remark).collect(),
    };
    Arc::new(ProjectRead {
        trusted,
        stamps,
        looked,
    })
}

/// What is known of a directory that does not answer.
fn late(directory: &str, last: Option<Arc<ProjectRead>>) -> ProjectLook {
    let directory = shown_path(directory);
    let (mut looked, told) = match last {
        Some(last) => (
            last.looked.clone(),
            "the model is told what was known of it before",
        ),
        None => (ProjectLook::default(), "the model is told nothing of it"),
    };
    looked
        .remarks
        .push(format!("{directory} takes too long to look into; {told}"));
    looked
}

/// A home directory, and what it lies in, hold everything that a person has: that is no project.
fn is_project(path: &Path) -> bool {
    let home = directories::BaseDirs::new();
    let home = home.as_ref().map(directories::BaseDirs::home_dir);
    path.is_absolute() && path.parent().is_some() && home.is_none_or(|it| !it.starts_with(path))
}

#[cfg(test)]
mod tests;
