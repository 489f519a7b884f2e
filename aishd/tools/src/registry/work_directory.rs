//! A directory of one call: an empty one to work in, and beside it the copy of the script that runs. It goes with the call.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use aishd_platform::clock;
use aishd_rules::registry::ManifestScript;
use tokio::runtime::Handle;

/// Where such directories are made.
#[derive(Clone, Debug)]
pub(super) struct WorkDirectories(PathBuf);

/// One of them; dropped, it is removed a little later.
#[derive(Debug)]
pub(super) struct WorkDirectory {
    top: PathBuf,
    closed: bool,
}

/// Who is ended may write for so long.
const ENDING: Duration = Duration::from_secs(3);
const ATTEMPTS: u32 = 3;

impl WorkDirectories {
    /// Below a directory that nobody else uses.
    pub(super) fn below(folder: &Path) -> Self {
        Self(folder.join("calls"))
    }

    /// Removes what a daemon that was killed has left.
    pub(super) fn clear(&self) {
        for left in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            log_removal(remove(&left.path()));
        }
    }

    pub(super) fn open(&self) -> io::Result<WorkDirectory> {
        let top = self.0.join(clock::ulid().to_string());
        let room = WorkDirectory { top, closed: false };
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true);
        private.create(room.work())?;
        private.create(room.top.join("script"))?;
        Ok(room)
    }
}

impl WorkDirectory {
    pub(super) fn work(&self) -> PathBuf {
        self.top.join("work")
    }

    /// Puts the text that was approved there, under the script's own name.
    pub(super) fn copy(&self, script: &ManifestScript) -> io::Result<PathBuf> {
        let name = script.file.file_name();
        let path = self
            .top
            .join("script")
            .join(name.unwrap_or("script".as_ref()));
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&path)?;
        file.write_all(script.text.as_bytes())?;
        Ok(path)
    }
}

impl WorkDirectory {
    /// Removes it, when everything that worked in it has ended.
    pub(super) async fn close(mut self) {
        self.closed = true;
        let top = self.top.clone();
        let removed = tokio::task::spawn_blocking(move || remove(&top)).await;
        log_removal(removed.unwrap_or_else(|panic| Err(io::Error::other(panic))));
    }
}

/// Its call was cancelled, and what that started is being ended.
impl Drop for WorkDirectory {
    fn drop(&mut self) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if self.closed {
            return;
        }
        let top = self.top.clone();
        runtime.spawn(async move {
            for _ in 0..ATTEMPTS {
                tokio::time::sleep(ENDING).await;
                let top = top.clone();
                let removed = tokio::task::spawn_blocking(move || remove(&top)).await;
                if matches!(removed, Ok(Ok(()))) {
                    return;
                }
            }
            tracing::debug!("the directory of a call stays until the next start");
        });
    }
}

fn log_removal(removed: io::Result<()>) {
    if let Err(error) = removed {
        tracing::debug!(%error, "the directory of a call stays until the next start");
    }
}

/// Removes whatever a program has left: directories that cannot be entered, and trees of any depth. Directories are moved up
/// before they are emptied, so that depth costs neither stack nor descriptors.
fn remove(top: &Path) -> io::Result<()> {
    fs::set_permissions(top, Permissions::from_mode(0o700))?;
    let mut waiting = vec![top.to_path_buf()];
    let mut moved: u64 = 0;
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let path = entry.path();
            if !entry.file_type()?.is_dir() {
                fs::remove_file(path)?;
                continue;
            }
            // Who moves a directory has to be able to write to it.
            fs::set_permissions(&path, Permissions::from_mode(0o700))?;
            if folder == top {
                waiting.push(path);
                continue;
            }
            let beside = top.join(format!("{}.{moved}", clock::ulid()));
            moved += 1;
            fs::rename(&path, &beside)?;
            waiting.push(beside);
        }
        if folder != top {
            fs::remove_dir(folder)?;
        }
    }
    fs::remove_dir(top)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So deep that neither a path nor the descriptors of a process reach down.
    const DEPTH: usize = 3_000;

    #[test]
    fn a_room_is_removed_whatever_was_left_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let room = WorkDirectories::below(folder.path()).open().unwrap();
        let work = room.work();
        let tree = work.join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("file"), "").unwrap();
        for _ in 0..DEPTH {
            let above = work.join("above");
            fs::create_dir(&above).unwrap();
            fs::rename(&tree, above.join("in")).unwrap();
            fs::rename(&above, &tree).unwrap();
        }
        let shut = work.join("shut");
        fs::create_dir_all(shut.join("in")).unwrap();
        fs::write(shut.join("in/file"), "").unwrap();
        fs::set_permissions(&shut, Permissions::from_mode(0o000)).unwrap();
        let outside = folder.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("file"), "").unwrap();
        std::os::unix::fs::symlink(&outside, work.join("link")).unwrap();
        fs::set_permissions(&room.top, Permissions::from_mode(0o000)).unwrap();
        remove(&room.top).unwrap();
        assert!(!room.top.exists());
        assert!(outside.join("file").exists());
    }
}
