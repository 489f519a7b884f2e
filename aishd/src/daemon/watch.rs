//! Watching the files of the configuration (CFG-2). What is watched are directories, since editors write a new file and
//! rename it; a directory that is not there yet is waited for in the nearest one above it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::config::live::{Errors, Live, Reading};

/// Several events of one change become one.
const QUIET: Duration = Duration::from_millis(20);
/// Who never stops writing is read in between.
const LONGEST: Duration = Duration::from_millis(500);
/// A file with errors that nobody has touched for so long is meant.
const SETTLED: Duration = Duration::from_millis(200);
/// Links that lead to links.
const MOST_LINKS: usize = 16;

/// What the watcher's thread and the task share.
#[derive(Debug, Default)]
struct Shared {
    /// Files, and what their links lead to.
    files: Mutex<BTreeSet<PathBuf>>,
    changed: Notify,
}

/// Reads the configuration again whenever its files change, for ever.
pub(super) async fn follow(live: Arc<Live>) {
    let shared = Arc::new(Shared::default());
    let heard = shared.clone();
    let made = notify::recommended_watcher(move |event: notify::Result<Event>| {
        if heard.concerns(event) {
            heard.changed.notify_one();
        }
    });
    let mut watcher = match made {
        Ok(watcher) => watcher,
        Err(error) => {
            tracing::warn!(%error, "changes of the configuration are not noticed; aishctl reload");
            return;
        }
    };
    let mut watched = BTreeSet::new();
    // What changed before the first look was not seen by anybody.
    shared.changed.notify_one();
    loop {
        shared.changed.notified().await;
        let begun = Instant::now();
        while begun.elapsed() < LONGEST && timeout(QUIET, shared.changed.notified()).await.is_ok() {
        }
        let (anew, looked_at) = (shared.clone(), live.clone());
        // Files may be far away, and nobody else waits for them.
        let watching = tokio::task::spawn_blocking(move || {
            anew.watch_anew(&looked_at.files(), &mut watcher, &mut watched);
            (watcher, watched)
        });
        let Ok(back) = watching.await else {
            return;
        };
        (watcher, watched) = back;
        if read(&live, Errors::Hold).await == Some(Reading::Held) {
            match timeout(SETTLED, shared.changed.notified()).await {
                Ok(()) => shared.changed.notify_one(),
                Err(_quiet) => drop(read(&live, Errors::Tell).await),
            }
        }
        // A project that is trusted now is watched from now on, and what its file became meanwhile is read.
        let looked_at = live.clone();
        let wanted = move || directories(&files(&looked_at.files()));
        let wanted = tokio::task::spawn_blocking(wanted).await;
        if wanted.is_ok_and(|it| it != watched) {
            shared.changed.notify_one();
        }
    }
}

async fn read(live: &Arc<Live>, errors: Errors) -> Option<Reading> {
    let live = live.clone();
    let reading = tokio::task::spawn_blocking(move || live.reload(errors));
    reading.await.ok()
}

impl Shared {
    fn concerns(&self, event: notify::Result<Event>) -> bool {
        let Ok(event) = event else {
            // Events were lost: look.
            return true;
        };
        // Our own reading must not wake us.
        let only_read = matches!(event.kind, EventKind::Access(kind) if kind != AccessKind::Close(AccessMode::Write));
        if only_read {
            return false;
        }
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        event.need_rescan()
            || event
                .paths
                .iter()
                .any(|path| files.iter().any(|file| file.starts_with(path)))
    }

    /// Watches what has to be watched now. What changes meanwhile is seen by the reading that has to follow.
    fn watch_anew(
        &self,
        looked_at: &[PathBuf],
        watcher: &mut RecommendedWatcher,
        watched: &mut BTreeSet<PathBuf>,
    ) {
        let files = files(looked_at);
        let directories = directories(&files);
        *self.files.lock().unwrap_or_else(PoisonError::into_inner) = files;
        // Also those that are the same by name: another directory may have taken the place.
        for old in std::mem::take(watched) {
            let _gone = watcher.unwatch(&old);
        }
        for directory in directories {
            match watcher.watch(&directory, RecursiveMode::NonRecursive) {
                Ok(()) => drop(watched.insert(directory)),
                Err(error) => {
                    let directory = directory.display();
                    tracing::warn!(%directory, %error, "changes there are not noticed; aishctl reload");
                }
            }
        }
    }
}

/// Files, and what their links lead to.
fn files(looked_at: &[PathBuf]) -> BTreeSet<PathBuf> {
    looked_at.iter().flat_map(|it| links(it)).collect()
}

/// Where a change of one of them is seen.
fn directories(files: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    files
        .iter()
        .filter_map(|it| nearest_directory(it))
        .collect()
}

/// A path, and those that its links lead to.
fn links(path: &Path) -> Vec<PathBuf> {
    let mut found = vec![path.to_path_buf()];
    let mut at = path.to_path_buf();
    while let Ok(target) = std::fs::read_link(&at) {
        at = at.parent().unwrap_or(Path::new("/")).join(target);
        found.push(at.clone());
        if found.len() > MOST_LINKS {
            break;
        }
    }
    found
}

fn nearest_directory(file: &Path) -> Option<PathBuf> {
    file.ancestors()
        .skip(1)
        .find(|it| it.is_dir())
        .map(Path::to_path_buf)
}
