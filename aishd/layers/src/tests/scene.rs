//! A real directory, a store beside it, and commands that run in an overlay over it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::changes::ReadBounds;
use crate::journal::KeepConflicts;
use crate::keep::{BeyondCap, KeepError, KeepOptions, Kept};
use crate::layer_set::{LayerSet, LayerStore};
use crate::plan::KeepChoice;
use crate::rel_path::RelPath;

pub(super) struct Scene {
    pub(super) dir: tempfile::TempDir,
    pub(super) store: LayerStore,
    pub(super) real: PathBuf,
    _elsewhere: Option<tempfile::TempDir>,
}

/// Whether this machine mounts no overlay in a user namespace; says so.
pub(super) fn lacks_overlays() -> bool {
    let dir = tempfile::tempdir().unwrap();
    for name in ["lower", "upper", "work"] {
        fs::create_dir(dir.path().join(name)).unwrap();
    }
    let mount =
        "mount -t overlay overlay -o userxattr,lowerdir=lower,upperdir=upper,workdir=work lower";
    let mut tried = Command::new("unshare");
    tried.args(["-Ur", "-m", "sh", "-c", mount]);
    let tried = tried.current_dir(&dir).stdin(Stdio::null()).output();
    let lacks = !tried.is_ok_and(|it| it.status.success());
    if lacks {
        println!("skipped: no overlay can be mounted here without privileges");
    }
    lacks
}

impl Scene {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let real = dir.path().join("real");
        Self::over(dir, real, None)
    }

    /// The real directory is on another file system than the state, where there is one.
    pub(super) fn across() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir_in("/dev/shm").unwrap();
        let real = elsewhere.path().join("real");
        Self::over(dir, real, Some(elsewhere))
    }

    fn over(dir: tempfile::TempDir, real: PathBuf, elsewhere: Option<tempfile::TempDir>) -> Self {
        fs::create_dir(&real).unwrap();
        Self {
            store: LayerStore::open(&dir.path().join("state")).unwrap(),
            real,
            dir,
            _elsewhere: elsewhere,
        }
    }

    /// As another daemon finds it.
    pub(super) fn restart(&mut self) {
        self.store = LayerStore::open(&self.state()).unwrap();
        for recovered in self.store.recover().unwrap() {
            recovered.unwrap();
        }
    }

    /// Each keep, and whether it is undone.
    pub(super) fn stages(&self) -> String {
        let entries = self.store.undo_entries().unwrap();
        let entries = entries.iter();
        let stage = |undone| if undone { "undone" } else { "kept" };
        let entries: Vec<String> = entries
            .map(|it| format!("{}: {}", it.id, stage(it.undone_at_ms.is_some())))
            .collect();
        entries.join(", ")
    }

    pub(super) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// With these files, by path and content.
    pub(super) fn with(files: &[(&str, &str)]) -> Self {
        let scene = Self::new();
        for (path, content) in files {
            write(&scene.real.join(path), content);
        }
        scene
    }

    /// Begins a set, runs a script of the shell in the real directory as the overlay shows it, and seals.
    pub(super) fn run(&self, id: &str, script: &str) -> LayerSet {
        let set = self.begin(id);
        self.step(&set, script);
        set.seal().unwrap();
        set
    }

    pub(super) fn begin(&self, id: &str) -> LayerSet {
        self.store
            .create(id, std::slice::from_ref(&self.real), 0)
            .unwrap()
    }

    pub(super) fn step(&self, set: &LayerSet, script: &str) {
        let mut command = Command::new("sh");
        command.args(["-ec", script]).current_dir(&self.real);
        self.mounted(set, &command, Stdio::null());
    }

    /// Runs a command with the first layer mounted over the real directory, in namespaces of its own.
    pub(super) fn mounted(&self, set: &LayerSet, command: &Command, input: Stdio) {
        let mount = "mount -t overlay overlay -o \"userxattr,lowerdir=$1,upperdir=$2,workdir=$3\" \"$1\" || exit 99; \
            cd \"$1\"; shift 3; exec \"$@\"";
        let mut outer = Command::new("unshare");
        outer.args(["-Ur", "-m", "sh", "-c", mount, "sh"]);
        outer.arg(&self.real).arg(set.upper(0)).arg(set.work(0));
        if !rustix::process::geteuid().is_root() {
            // The command may no more than its user may.
            outer.args(["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"]);
        }
        outer.arg(command.get_program()).args(command.get_args());
        let output = outer.stdin(input).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_ne!(
            output.status.code(),
            Some(99),
            "NO OVERLAY CAN BE MOUNTED HERE, so nothing is tested: {said}"
        );
        assert!(
            output.status.success(),
            "{:?} {said} {}",
            output.status,
            String::from_utf8_lossy(&output.stdout)
        );
    }

    pub(super) fn keep_all(&self, set: &LayerSet, undo_id: &str) -> Result<Kept, KeepError> {
        self.keep(set, undo_id, &KeepChoice::All, KeepConflicts::Refuse)
    }

    pub(super) fn keep(
        &self,
        set: &LayerSet,
        undo_id: &str,
        choice: &KeepChoice,
        conflicts: KeepConflicts,
    ) -> Result<Kept, KeepError> {
        let plan = self.store.plan(set, choice)?;
        self.store.keep(set, &plan, &options(undo_id, conflicts))
    }

    pub(super) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.real.join(path))
            .unwrap_or_else(|error| format!("<{}>", error.kind()))
    }
}

pub(super) fn options(undo_id: &str, conflicts: KeepConflicts) -> KeepOptions {
    KeepOptions {
        undo_id: undo_id.to_owned(),
        conflicts,
        undo_cap_bytes: 1 << 30,
        beyond_cap: BeyondCap::GoWithoutUndo,
        kept_at_ms: 1_000,
    }
}

pub(super) fn write(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

pub(super) fn rel(path: &str) -> RelPath {
    RelPath::new(Path::new(path)).unwrap()
}

pub(super) fn paths(paths: &[&str]) -> KeepChoice {
    KeepChoice::Paths(paths.iter().map(|path| (0, rel(path))).collect())
}

/// As it is shown; `None`: there is no text to show.
pub(super) fn diff(set: &LayerSet, path: &str) -> Option<String> {
    let bounds = ReadBounds::default();
    let changes = set.changes(&bounds).unwrap();
    let change = changes.listed.iter().find(|it| it.path == rel(path));
    let hunks = |change: Option<_>| set.hunks(change.unwrap(), &bounds).unwrap();
    hunks(change).map(|it| it.shown.concat())
}
