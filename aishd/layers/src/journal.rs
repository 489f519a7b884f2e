//! The record of a keep, in `undo/ID/`. Which files are there says how far it has come:
//!
//! | file | meaning |
//! | --- | --- |
//! | `begun.json` | things are being made ready; nothing real has changed |
//! | `steps.json` | the steps are being done |
//! | `back` | they are being taken back |
//! | `kept.json` | all is done |
//! | `undo.json` | an undo is being done, with these steps |
//! | `undo-back` | and is being taken back |
//! | `taken.json` | the undo has come to its end: what it left at the paths |
//! | `undone` | it is done; what was taken back waits for a redo |
//! | `settled` | and nothing of it lies in a real directory |

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, StatxFlags};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::layer_set::{Layer, LayerSet, make_dirs, sync_dir, write_synced};
use crate::node::{self, Stamp};
use crate::rel_path::{Escaped, RelPath};
use crate::remove;
use crate::step::{KeepStep, StepSite};
use crate::tree::Tree;

const FORM: u32 = 1;

/// What to do with conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KeepConflicts {
    /// Nothing is kept if one path conflicts.
    Refuse,
    /// All other paths are kept.
    KeepTheRest,
}

/// All that is needed to go on with a keep, or back.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeepJournal {
    form: u32,
    pub(crate) kept_at_ms: i64,
    pub(crate) conflicts: KeepConflicts,
    pub(crate) places: Vec<LayerPlace>,
    pub(crate) steps: Vec<KeepStep>,
    /// Existing directories in which something changes, with their times before.
    pub(crate) parents: Vec<(usize, RelPath, Stamp)>,
    /// Bytes of the disk of what was there, and how many may be kept for an undo.
    pub(crate) undo_bytes: u64,
    pub(crate) undo_cap_bytes: Option<u64>,
    /// Modes of files in the layer that were widened for a moment.
    pub(crate) modes: Vec<(usize, RelPath, u32)>,
    /// The keep that was undone, and of which this is the redo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) redoes: Option<String>,
}

/// Where a layer and its real directory are.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LayerPlace {
    lower: Escaped,
    lower_dev: u64,
    lower_ino: u64,
    /// `None` for a redo, which needs no layer.
    upper: Option<Escaped>,
    /// Renames reach from the state to the real directory.
    pub(crate) same_mount: bool,
}

/// Written when all is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KeptRecord {
    /// What is at the path of each step now; `None` also for steps that were left out.
    pub(crate) after: Vec<Option<Fingerprint>>,
    pub(crate) left_out: Vec<usize>,
    /// The times of the parents now.
    pub(crate) parents: Vec<Option<Stamp>>,
    /// What was there is gone: it was more than the cap.
    pub(crate) undo_dropped: bool,
}

/// Written when all is taken back: what is at the path of each step since.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TakenRecord {
    pub(crate) left: Vec<Option<Fingerprint>>,
}

/// How far it has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeepPhase {
    Begun,
    Applying,
    GoingBack,
    Kept,
    Undoing,
    UndoGoingBack,
    Undone,
}

impl KeepJournal {
    pub(crate) fn new(
        places: Vec<LayerPlace>,
        steps: Vec<KeepStep>,
        conflicts: KeepConflicts,
        kept_at_ms: i64,
    ) -> Self {
        Self {
            form: FORM,
            kept_at_ms,
            conflicts,
            places,
            steps,
            parents: Vec::new(),
            undo_bytes: 0,
            undo_cap_bytes: None,
            modes: Vec::new(),
            redoes: None,
        }
    }

    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        let journal: Self = read_json(path)?;
        if journal.form != FORM {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "a journal of a form that this version does not know",
            ));
        }
        Ok(journal)
    }

    /// Opens what the steps work on. Another directory at the path of a real one is not touched.
    pub(crate) fn sites(&self, dir: &Path) -> io::Result<Vec<StepSite>> {
        let sites = self.places.iter().enumerate();
        let sites = sites.map(|(number, place)| {
            // A real directory in which nothing changes gets no workshop.
            let is_idle = self.steps.iter().all(|step| step.layer != number);
            place.site(dir, number, place.same_mount || is_idle)
        });
        sites.collect()
    }

    /// The real directories, looked at anew: what was opened before may be another directory by now.
    pub(crate) fn lowers(&self) -> io::Result<Vec<Tree>> {
        self.places.iter().map(LayerPlace::open).collect()
    }

    /// Removes the workshops that lie in real directories.
    pub(crate) fn remove_workshops(&self, dir: &Path) -> io::Result<()> {
        for place in self.places.iter().filter(|place| !place.same_mount) {
            match Tree::open(&path_of(&place.lower)) {
                Ok(lower) => remove::remove_at(lower.root(), workshop_name(dir).as_bytes())?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl LayerPlace {
    pub(crate) fn lower(&self) -> PathBuf {
        path_of(&self.lower)
    }

    pub(crate) fn new(set: &LayerSet, number: usize, layer: &Layer) -> io::Result<Self> {
        use std::os::unix::ffi::OsStrExt as _;
        let upper = set.upper(number);
        Ok(Self {
            lower: Escaped(layer.lower().as_os_str().as_bytes().to_vec()),
            lower_dev: layer.lower_dev,
            lower_ino: layer.lower_ino,
            same_mount: mount_of(&upper)? == mount_of(&layer.lower())?,
            upper: Some(Escaped(upper.as_os_str().as_bytes().to_vec())),
        })
    }

    /// The same real directory, without its layer.
    pub(crate) fn without_layer(&self) -> Self {
        Self {
            upper: None,
            ..self.clone()
        }
    }

    /// The real directory, if it is still the one that the layer was over.
    pub(crate) fn open(&self) -> io::Result<Tree> {
        let lower = Tree::open(&path_of(&self.lower))?;
        let is = lower.root_meta()?;
        if (is.dev, is.ino) != (self.lower_dev, self.lower_ino) {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the real directory is another one now",
            ));
        }
        Ok(lower)
    }

    fn site(&self, dir: &Path, number: usize, in_state: bool) -> io::Result<StepSite> {
        let lower = self.open()?;
        let upper = self.upper.as_ref().map(|it| Tree::open(&path_of(it)));
        let upper = match upper.transpose() {
            Ok(upper) => upper,
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let workshop = if in_state {
            let shop = dir.join(number.to_string());
            make_dirs(&shop)?;
            node::open_dir(
                rustix::fs::CWD,
                std::os::unix::ffi::OsStrExt::as_bytes(shop.as_os_str()),
            )?
        } else {
            workshop_in(&lower, &workshop_name(dir))?
        };
        Ok(StepSite {
            lower,
            upper,
            workshop,
        })
    }
}

impl KeepPhase {
    /// `None`: no keep was begun there, or it changed nothing.
    pub(crate) fn of(dir: &Path) -> Option<Self> {
        let phases = [
            ("undone", Self::Undone),
            ("undo-back", Self::UndoGoingBack),
            ("undo.json", Self::Undoing),
            ("kept.json", Self::Kept),
            ("back", Self::GoingBack),
            ("steps.json", Self::Applying),
            ("begun.json", Self::Begun),
        ];
        let found = phases.iter().find(|(name, _)| dir.join(name).exists());
        found.map(|(_, phase)| *phase)
    }
}

/// Renames do not reach beyond a mount, also where both sides are the same file system.
fn mount_of(path: &Path) -> io::Result<(u32, u32, u64)> {
    let stat = rustix::fs::statx(
        rustix::fs::CWD,
        path,
        AtFlags::empty(),
        StatxFlags::BASIC_STATS | StatxFlags::MNT_ID,
    )?;
    Ok((stat.stx_dev_major, stat.stx_dev_minor, stat.stx_mnt_id))
}

/// Where no rename reaches the state, things are made ready within the real directory, under a name of our own.
fn workshop_name(dir: &Path) -> String {
    let id = dir.file_name().unwrap_or_default().to_string_lossy();
    format!(".aish-keep-{id}")
}

fn workshop_in(lower: &Tree, name: &str) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(lower.root(), name, Mode::from_raw_mode(0o700)) {
        Err(rustix::io::Errno::EXIST) => {}
        done => done?,
    }
    let shop = node::open_dir(lower.root(), name.as_bytes())?;
    let meta = node::meta_of(shop.as_fd())?;
    if meta.uid != rustix::process::geteuid().as_raw() || meta.mode & 0o077 != 0 {
        return Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the workshop is somebody else's",
        ));
    }
    Ok(shop)
}

fn path_of(path: &Escaped) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    PathBuf::from(std::ffi::OsStr::from_bytes(&path.0))
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write_synced(path, &serde_json::to_vec(value)?)
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<T> {
    Ok(serde_json::from_slice(&fs::read(path)?)?)
}

/// A file whose being there says something.
pub(crate) fn mark(path: &Path) -> io::Result<()> {
    write_synced(path, b"")
}

pub(crate) fn unmark(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    path.parent().map_or(Ok(()), sync_dir)
}
