//! Watching the files of the configuration and of tools. What is watched are directories, since editors write a new file and
//! rename it; a directory that is not there yet is waited for in the nearest one above it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aishd_config::live::{LiveConfig, OnErrors, ReloadOutcome};
use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher as _};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

/// Several events of one change become one.
const QUIET: Duration = Duration::from_millis(20);
/// Who never stops writing is read in between.
const LONGEST: Duration = Duration::from_millis(500);
/// A file with errors that nobody has touched for so long is meant.
const SETTLED: Duration = Duration::from_millis(200);
/// Links that lead to links.
const MOST_LINKS: usize = 16;

/// What is looked at.
#[derive(Debug, Default)]
pub(super) struct WatchedPaths {
    pub(super) files: Vec<PathBuf>,
    /// Directories of which every entry matters.
    pub(super) folders: Vec<PathBuf>,
}

/// What the watcher's thread and the task share.
#[derive(Debug, Default)]
struct WatchShared {
    watched: Mutex<WatchedFiles>,
    changed: Notify,
}

/// Files and directories, and what their links lead to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct WatchedFiles {
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

/// Sees that something which is looked at has changed.
pub(super) struct FileWatcher {
    shared: Arc<WatchShared>,
    look: Arc<dyn Fn() -> WatchedPaths + Send + Sync>,
    /// The watcher and the directories that it watches; nothing where changes cannot be noticed.
    watcher: Option<(RecommendedWatcher, BTreeSet<PathBuf>)>,
}

impl FileWatcher {
    /// Nothing is watched before [`FileWatcher::look_after`] or [`FileWatcher::changed`].
    pub(super) fn open(look: impl Fn() -> WatchedPaths + Send + Sync + 'static) -> Self {
        let shared = Arc::new(WatchShared::default());
        let heard = shared.clone();
        let made = notify::recommended_watcher(move |event: notify::Result<Event>| {
            if heard.concerns(event) {
                heard.changed.notify_one();
            }
        });
        let watcher = match made {
            Ok(watcher) => Some((watcher, BTreeSet::new())),
            Err(error) => {
                tracing::warn!(%error, "changes of files are not noticed; aishctl reload");
                None
            }
        };
        Self {
            shared,
            look: Arc::new(look),
            watcher,
        }
    }

    /// Waits for a change, and until it is quiet; then watches anew. Who cannot see waits for ever.
    pub(super) async fn changed(&mut self) {
        self.shared.changed.notified().await;
        let begun = Instant::now();
        while begun.elapsed() < LONGEST
            && timeout(QUIET, self.shared.changed.notified()).await.is_ok()
        {}
        self.watch_anew().await;
    }

    /// Waits so long for another change, which is not lost by that.
    async fn changes_within(&self, time: Duration) -> bool {
        let changed = timeout(time, self.shared.changed.notified()).await.is_ok();
        if changed {
            self.shared.changed.notify_one();
        }
        changed
    }

    /// Something else may have to be watched than before. What it became meanwhile is a change.
    pub(super) async fn look_after(&mut self) {
        let look = self.look.clone();
        let wanted =
            tokio::task::spawn_blocking(move || directories(&WatchedFiles::of(&look()))).await;
        let watched = self.watcher.as_ref().map(|(_, watched)| watched);
        if wanted.is_ok_and(|it| watched.is_some_and(|watched| it != *watched)) {
            self.shared.changed.notify_one();
        }
    }

    /// Files may be far away, and nobody else waits for them.
    async fn watch_anew(&mut self) {
        let Some((mut watcher, mut watched)) = self.watcher.take() else {
            return;
        };
        let (shared, look) = (self.shared.clone(), self.look.clone());
        let watching = tokio::task::spawn_blocking(move || {
            shared.watch_anew(&look(), &mut watcher, &mut watched);
            (watcher, watched)
        });
        self.watcher = watching.await.ok();
    }
}

/// Reads the configuration again whenever its files change, for ever.
pub(super) async fn follow(live: Arc<LiveConfig>) {
    let looked_at = live.clone();
    let mut eye = FileWatcher::open(move || WatchedPaths {
        files: looked_at.files(),
        folders: vec![],
    });
    // What changed before the first look was not seen by anybody.
    eye.shared.changed.notify_one();
    loop {
        eye.changed().await;
        if read(&live, OnErrors::Hold).await == Some(ReloadOutcome::Held)
            && !eye.changes_within(SETTLED).await
        {
            drop(read(&live, OnErrors::Tell).await);
        }
        // A project that is trusted now is watched from now on, and what its file became meanwhile is read.
        eye.look_after().await;
    }
}

async fn read(live: &Arc<LiveConfig>, errors: OnErrors) -> Option<ReloadOutcome> {
    let live = live.clone();
    let reading = tokio::task::spawn_blocking(move || live.reload(errors));
    reading.await.ok()
}

impl WatchShared {
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
        let watched = self.watched.lock();
        let concerns = |path: &PathBuf| {
            let mut all = watched.files.iter().chain(&watched.folders);
            let is_within = path.parent().is_some_and(|it| watched.folders.contains(it));
            is_within || all.any(|it| it.starts_with(path))
        };
        event.need_rescan() || event.paths.iter().any(concerns)
    }

    /// Watches what has to be watched now. What changes meanwhile is seen by the reading that has to follow.
    fn watch_anew(
        &self,
        look: &WatchedPaths,
        watcher: &mut RecommendedWatcher,
        watched: &mut BTreeSet<PathBuf>,
    ) {
        let now = WatchedFiles::of(look);
        let directories = directories(&now);
        *self.watched.lock() = now;
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

impl WatchedFiles {
    fn of(look: &WatchedPaths) -> Self {
        let all = |paths: &[PathBuf]| paths.iter().flat_map(|it| links(it)).collect();
        Self {
            files: all(&look.files),
            folders: all(&look.folders),
        }
    }
}

/// Where a change of one of them is seen.
fn directories(watched: &WatchedFiles) -> BTreeSet<PathBuf> {
    let files = watched.files.iter().filter_map(|it| nearest_directory(it));
    let folders = watched.folders.iter().filter_map(|it| {
        let own = it.is_dir().then(|| it.clone());
        own.or_else(|| nearest_directory(it))
    });
    files.chain(folders).collect()
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
