//! A command within its boundary: the wall that the boundary becomes, and a directory of its own for what it needs only
//! while it runs.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use aishd_log::ending::BoundaryFailure;
use aishd_platform::clock;
use aishd_process::spec::{ChildSpec, StandardStream};
use aishd_process::wall::Wall;
use aishd_process::{Children, SpawnError};
use aishd_rules::boundary::Boundary;
use aishd_rules::command_setting::CommandSetting;
use tokio::time::timeout;

/// One command that is kept within.
pub(super) struct ContainedCommand<'a> {
    boundary: &'a Boundary,
    scratch: PathBuf,
}

impl<'a> ContainedCommand<'a> {
    /// `None`: nothing keeps it anywhere.
    pub(super) fn of(setting: &'a CommandSetting) -> io::Result<Option<Self>> {
        let Some(boundary) = setting.held_by.wall() else {
            return Ok(None);
        };
        let scratch = boundary.scratch.join(clock::ulid().to_string());
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&scratch)?;
        let inside = Self { boundary, scratch };
        inside.link_caches()?;
        Ok(Some(inside))
    }

    /// Where programs put what they need for a moment, and what they would keep in the home.
    pub(super) fn name_scratch(&self, variables: &mut BTreeMap<String, String>) {
        let path = |it: &Path| it.to_string_lossy().into_owned();
        variables.insert("TMPDIR".to_owned(), path(&self.scratch));
        let mut homes = self.caches();
        let is_widened = |home: PathBuf| {
            let mut named = self.boundary.widened_write.iter();
            named.any(|it| home.starts_with(it))
        };
        if !homes.any(is_widened) {
            variables.insert("XDG_CACHE_HOME".to_owned(), path(&self.cache()));
        }
    }

    fn cache(&self) -> PathBuf {
        self.scratch.join("cache")
    }

    /// Where programs keep caches when nobody says otherwise.
    fn caches(&self) -> impl Iterator<Item = PathBuf> {
        self.boundary.homes.iter().map(|it| it.join(".cache"))
    }

    /// A cache that the configuration names is found where the others are that it does not name.
    fn link_caches(&self) -> io::Result<()> {
        for (home, named) in self.caches().flat_map(|home| {
            let named = self.boundary.widened_write.iter();
            named.map(move |it| (home.clone(), it))
        }) {
            let Ok(below) = named.strip_prefix(&home) else {
                continue;
            };
            // What lies in another one is found by the link to that; and by that link we would write where commands do.
            let mut others = self.boundary.widened_write.iter();
            if others.any(|it| it != named && named.starts_with(it)) {
                continue;
            }
            let (Some(_name), link) = (below.file_name(), self.cache().join(below)) else {
                continue;
            };
            std::fs::create_dir_all(link.parent().unwrap_or(&link))?;
            match std::os::unix::fs::symlink(named, &link) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    pub(super) fn wall(&self) -> Box<Wall> {
        Box::new(wall(self.boundary, &self.scratch))
    }

    /// What is said of a failure behind what it printed, and what that is to the run.
    pub(super) fn of_failure(&self, explains: bool) -> (String, BoundaryFailure) {
        let within = if explains {
            BoundaryFailure::Stopped
        } else {
            BoundaryFailure::Failed
        };
        (self.boundary.remark(explains), within)
    }

    /// The last program of a pipe says nothing of those before it. Nothing is told then, for such words may stand in any text.
    pub(super) fn of_success(explains: bool) -> BoundaryFailure {
        if explains {
            BoundaryFailure::Failed
        } else {
            BoundaryFailure::None
        }
    }

    /// The same for one that was not even started.
    pub(super) fn of_refusal(error: &SpawnError) -> BoundaryFailure {
        match error {
            SpawnError::Places { .. }
            | SpawnError::Kernel { .. }
            | SpawnError::Contained { .. } => BoundaryFailure::Stopped,
            _ => BoundaryFailure::None,
        }
    }

    /// What is not removed by then goes at the next start of the daemon.
    pub(super) async fn end(self, children: &Children, within: Duration) {
        let folder = &self.boundary.scratch;
        let _stays_until_then = timeout(within, remove(children, folder, &[self.scratch])).await;
    }
}

/// Removes what commands left, directories that they locked among it, as caches of modules are. Another program does it,
/// and is itself kept within: trees can be deeper than we have descriptors for, and something may still be at work there.
pub async fn remove(children: &Children, scratch: &Path, left: &[PathBuf]) {
    const REMOVE: &str =
        r#"rm -rf -- "$@" 2>/dev/null || { chmod -R u+rwx -- "$@"; rm -rf -- "$@"; }"#;
    let left: Vec<String> = left
        .iter()
        // Most commands left nothing there.
        .filter(|it| std::fs::remove_dir(it).is_err())
        .map(|it| it.to_string_lossy().into_owned())
        .collect();
    if left.is_empty() {
        return;
    }
    let spec = ChildSpec {
        args: ["-c", REMOVE, "sh"]
            .map(str::to_owned)
            .into_iter()
            .chain(left)
            .collect(),
        stdout: StandardStream::Null,
        wall: Some(Box::new(Wall::of_system(scratch))),
        ..ChildSpec::new("/bin/sh", scratch)
    };
    match children.spawn(&spec).await {
        Ok(mut child) => {
            child.wait().await;
        }
        Err(error) => tracing::debug!(%error, "temporary directories stay until the next start"),
    }
}

/// What the kernel is told of a boundary.
pub fn wall(boundary: &Boundary, scratch: &Path) -> Wall {
    Wall {
        roots: boundary.roots.clone(),
        write: boundary.widened_write.clone(),
        read: boundary.widened_read.clone(),
        known: boundary.known.clone(),
        but: boundary.configuration.clone(),
        homes: boundary.homes.clone(),
        own: boundary.own.clone(),
        scratch: scratch.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use aishd_log::environment::ClientVariables;
    use aishd_model::norris_settings::WidenedLimits;
    use aishd_rules::boundary::BoundaryGround;
    use std::sync::Arc;

    use aishd_rules::command_setting::{CommandHold, CommandSetting};

    use super::*;

    #[test]
    fn a_cache_that_the_configuration_names_is_found_by_programs() {
        let folder = tempfile::tempdir().unwrap();
        let base = BTreeMap::from([("PATH".to_owned(), "/bin".to_owned())]);
        let setting = CommandSetting::new(ClientVariables::default(), &base, "/w", |_| true);
        let ground = BoundaryGround {
            missing: None,
            own: vec![],
            home: Some(PathBuf::from("/home/u")),
            scratch: folder.path().to_owned(),
        };
        let inside = |write: &[&str]| {
            let widened = WidenedLimits {
                read: vec![],
                write: write.iter().map(PathBuf::from).collect(),
            };
            let roots = [PathBuf::from("/w")];
            let boundary = Boundary::of_run(&ground, &widened, &roots, &setting).unwrap();
            let within = setting.held(CommandHold::Wall(Arc::new(boundary)));
            let inside = ContainedCommand::of(&within).unwrap().unwrap();
            let mut variables = BTreeMap::new();
            inside.name_scratch(&mut variables);
            variables.get("XDG_CACHE_HOME").map(PathBuf::from)
        };
        let cache = inside(&[]).unwrap();
        assert!(!cache.exists(), "each program makes its own");
        let cache = inside(&["/home/u/.cache/ccache", "/home/u/.cache/a/b", "/srv"]).unwrap();
        for (name, expected) in [
            ("ccache", "/home/u/.cache/ccache"),
            ("a/b", "/home/u/.cache/a/b"),
        ] {
            let link = std::fs::read_link(cache.join(name)).unwrap();
            assert_eq!(Path::new(expected), link);
        }
        for all in ["/home/u/.cache", "/home/u/.cache/"] {
            assert_eq!(None, inside(&[all]), "{all}");
        }
    }
}
