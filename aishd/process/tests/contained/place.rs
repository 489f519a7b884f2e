//! A directory with a home, a workspace and what is outside of both, and children in it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use aishd_process::contained::{Containment, Mechanism, WriteLayer};
use aishd_process::spec::{ChildExit, ChildSpec, StandardStream};
use aishd_process::{Children, SpawnError};
use tempfile::TempDir;

/// Nobody's files but those that a test gives it.
const ORDINARY: u32 = 65_534;

/// Who a program runs as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Who runs the tests.
    Ours,
    /// Somebody without privileges; the same as ours where we have none.
    Ordinary,
    /// Root of a user namespace around us, with processes and mounts of its own, as in a container.
    InContainer,
    /// The same where nobody may make a user namespace.
    WithoutNamespaces,
    /// The same where a part of `/proc` is hidden, as many containers have it.
    WithHiddenProc,
}

pub(crate) const USERS: [User; 3] = [User::Ours, User::Ordinary, User::InContainer];

pub(crate) struct Place {
    directory: TempDir,
    user: User,
    pub(crate) env: BTreeMap<String, String>,
}

#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) output: String,
    pub(crate) exit: ChildExit,
}

/// What this machine lacks for a contained child, if it lacks anything that every one needs.
pub(crate) fn lacks() -> Option<String> {
    let place = Place::new(User::Ours);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (children, layers) = (place.children(), place.path("layers"));
    let probed = runtime.block_on(children.probe_containment(&layers));
    let parts = [&probed.user_namespaces, &probed.overlay, &probed.seccomp];
    parts.into_iter().find_map(Mechanism::missing)
}

impl Place {
    pub(crate) fn new(user: User) -> Self {
        Self::below(Path::new("/var/tmp"), user)
    }

    pub(crate) fn below(directory: &Path, user: User) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("aish-contained-")
            .tempdir_in(directory)
            .unwrap();
        let place = Self {
            directory,
            user,
            env: BTreeMap::new(),
        };
        for it in ["home", "work", "outside", "layers"] {
            fs::create_dir(place.path(it)).unwrap();
        }
        place.give();
        place
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.directory.path().join(path)
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }

    /// Whoever runs the programs owns all of it from now on.
    pub(crate) fn give(&self) {
        if self.is_another() {
            hand(self.directory.path());
        }
    }

    fn is_another(&self) -> bool {
        self.user == User::Ordinary && rustix::process::geteuid().is_root()
    }

    /// A layer over a directory of this place, under this name.
    pub(crate) fn layer(&self, lower: &str, name: &str) -> WriteLayer {
        let layer = WriteLayer {
            lower: self.path(lower),
            upper: self.path(&format!("layers/{name}/upper")),
            work: self.path(&format!("layers/{name}/work")),
        };
        for it in [&layer.upper, &layer.work] {
            fs::create_dir_all(it).unwrap();
        }
        self.give();
        layer
    }

    pub(crate) fn children(&self) -> Children {
        let program = std::env::current_exe().unwrap();
        let before = match self.user {
            User::Ours => return Children::behind(program, BTreeMap::new()),
            User::Ordinary if !self.is_another() => {
                return Children::behind(program, BTreeMap::new());
            }
            User::Ordinary => {
                format!("setpriv --reuid={ORDINARY} --regid={ORDINARY} --clear-groups")
            }
            User::InContainer => {
                "unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc"
                    .to_owned()
            }
            User::WithHiddenProc => "unshare --user --map-root-user --mount --pid --fork --kill-child --mount-proc sh -c 'mount -t tmpfs none /proc/sys/kernel && exec \"$@\"' sh".to_owned(),
            User::WithoutNamespaces => "unshare --user --map-root-user sh -c 'echo 0 >/proc/sys/user/max_user_namespaces && exec \"$@\"' sh".to_owned(),
        };
        let keeper = self.path("keeper");
        if !keeper.exists() {
            let script = format!(
                "#!/bin/sh\nPATH=/usr/sbin:/usr/bin:/sbin:/bin\nexec {before} {} \"$@\"\n",
                program.display()
            );
            fs::write(&keeper, script).unwrap();
            fs::set_permissions(&keeper, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Children::behind(keeper, BTreeMap::new())
    }

    /// A shell in the workspace with this script.
    pub(crate) fn sh(&self, script: &str, contained: Option<Containment>) -> ChildSpec {
        let mut spec = ChildSpec::new("/bin/sh", self.path("work"));
        spec.args = vec!["-c".to_owned(), script.to_owned()];
        spec.umask = 0o022;
        spec.stderr = StandardStream::Joined;
        spec.contained = contained.map(Box::new);
        let path = |it: &str| self.path(it).display().to_string();
        spec.env = [
            ("PATH", "/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
            ("HOME", path("home")),
            ("W", path("")),
            ("OUT", path("outside")),
            ("LC_ALL", "C".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        spec.env.extend(self.env.clone());
        spec
    }

    pub(crate) fn try_run(&self, spec: &ChildSpec) -> Result<Ran, SpawnError> {
        runtime().block_on(async {
            let child = self.children().spawn(spec).await?;
            let output = child.output(1 << 20).await.unwrap();
            Ok(Ran {
                output: String::from_utf8_lossy(&output.bytes).into_owned(),
                exit: output.exit,
            })
        })
    }

    #[track_caller]
    pub(crate) fn run(&self, script: &str, contained: Containment) -> Ran {
        let ran = self.try_run(&self.sh(script, Some(contained)));
        ran.unwrap_or_else(|error| {
            panic!("{error}: {:?}", std::error::Error::source(&error));
        })
    }

    /// Runs a script that must go well, and says what it printed.
    #[track_caller]
    pub(crate) fn well(&self, script: &str, contained: Containment) -> String {
        let ran = self.run(script, contained);
        assert_eq!(ChildExit::Code(0), ran.exit, "{script}: {}", ran.output);
        ran.output
    }
}

/// The kernel leaves a directory below `work` that its owner may not enter.
impl Drop for Place {
    fn drop(&mut self) {
        open_up(&self.path("layers"));
    }
}

fn open_up(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|it| it.is_dir()) {
            let _gone = fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o700));
            open_up(&entry.path());
        }
    }
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn hand(path: &Path) {
    std::os::unix::fs::lchown(path, Some(ORDINARY), Some(ORDINARY)).unwrap();
    if fs::symlink_metadata(path).unwrap().is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            hand(&entry.unwrap().path());
        }
    }
}
