//! Layers on disk: where the overlays of one command or one run write. Nothing of the real directories is walked here.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::node::{self, Stamp};
use crate::rel_path::Escaped;
use crate::remove::{hide, remove_named, remove_tree};
use crate::tree::Tree;

const FORM: u32 = 1;
const MANIFEST: &str = "layers.json";
/// Before the name of a set that is being made.
const UNFINISHED: char = '~';

/// Where all layers are, and what was replaced by keeping them.
#[derive(Clone, Debug)]
pub struct LayerStore {
    pub(crate) root: PathBuf,
}

/// The layers of one command or of one run.
#[derive(Clone, Debug)]
pub struct LayerSet {
    pub(crate) dir: PathBuf,
    pub(crate) id: String,
    pub(crate) manifest: LayerManifest,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LayerManifest {
    form: u32,
    begun_at_ms: i64,
    pub(crate) layers: Vec<Layer>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Layer {
    lower: Escaped,
    /// Which directory that was: another one at the same path is not changed.
    pub(crate) lower_dev: u64,
    pub(crate) lower_ino: u64,
    /// By the clock of the file system. What was changed before has an earlier time, what is changed from here on has
    /// this one or a later one.
    pub(crate) begun: Stamp,
}

#[derive(Debug, thiserror::Error)]
pub enum LayerSetError {
    #[error("{0:?} is no name for layers")]
    BadId(String),
    #[error("layers {0} exist already")]
    Exists(String),
    #[error("no layers {0}")]
    Missing(String),
    #[error("the manifest of the layers cannot be read")]
    Damaged(#[source] io::Error),
    #[error("layers of form {0}, which this version does not know")]
    UnknownForm(u32),
    #[error("{action}")]
    Io {
        action: &'static str,
        #[source]
        source: io::Error,
    },
}

impl LayerSetError {
    pub(crate) fn io(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { action, source }
    }
}

impl LayerStore {
    /// Makes the directories where they are missing, for their owner alone.
    pub fn open(root: &Path) -> Result<Self, LayerSetError> {
        for dir in ["layers", "undo"] {
            make_dirs(&root.join(dir))
                .map_err(LayerSetError::io("make the directory of layers"))?;
        }
        // Nobody makes one yet.
        remove_named(&root.join("layers"), UNFINISHED)
            .map_err(LayerSetError::io("remove unfinished layers"))?;
        Ok(Self {
            root: root.to_owned(),
        })
    }

    /// Begins a set with a layer over each of these directories, in this order. It waits for the next tick of the file
    /// system's clock, some milliseconds at most, so that what somebody changes from now on has a later time.
    pub fn create(
        &self,
        id: &str,
        lowers: &[PathBuf],
        begun_at_ms: i64,
    ) -> Result<LayerSet, LayerSetError> {
        let dir = self.set_dir(id)?;
        if dir.exists() {
            return Err(LayerSetError::Exists(id.to_owned()));
        }
        let unfinished = self.root.join("layers").join(format!("{UNFINISHED}{id}"));
        remove_tree(&unfinished).map_err(LayerSetError::io("remove unfinished layers"))?;
        let begin = || -> io::Result<LayerManifest> {
            make_dirs(&unfinished)?;
            // All of them are on one file system, and nothing begins before this is over.
            let begun = next_tick(&unfinished)?;
            let layers = lowers.iter().enumerate();
            let layers = layers.map(|(index, lower)| {
                begin_layer(&unfinished.join(index.to_string()), lower, begun)
            });
            let manifest = LayerManifest {
                form: FORM,
                begun_at_ms,
                layers: layers.collect::<io::Result<_>>()?,
            };
            write_synced(&unfinished.join(MANIFEST), &serde_json::to_vec(&manifest)?)?;
            fs::rename(&unfinished, &dir)?;
            sync_dir(&self.root.join("layers"))?;
            Ok(manifest)
        };
        let manifest = begin().map_err(LayerSetError::io("make layers"))?;
        Ok(LayerSet {
            dir,
            id: id.to_owned(),
            manifest,
        })
    }

    pub fn get(&self, id: &str) -> Result<LayerSet, LayerSetError> {
        let dir = self.set_dir(id)?;
        let text = match fs::read(dir.join(MANIFEST)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(LayerSetError::Missing(id.to_owned()));
            }
            Err(error) => return Err(LayerSetError::Damaged(error)),
        };
        let manifest: LayerManifest =
            serde_json::from_slice(&text).map_err(|error| LayerSetError::Damaged(error.into()))?;
        if manifest.form != FORM {
            return Err(LayerSetError::UnknownForm(manifest.form));
        }
        Ok(LayerSet {
            dir,
            id: id.to_owned(),
            manifest,
        })
    }

    /// The ids of all sets, sorted.
    pub fn list(&self) -> Result<Vec<String>, LayerSetError> {
        ids_in(&self.root.join("layers")).map_err(LayerSetError::io("list layers"))
    }

    /// Removes a set, whatever the modes of its files are; they go with the next [`LayerStore::sweep`]. One that is not there is
    /// removed.
    pub fn hide_set(&self, id: &str) -> Result<(), LayerSetError> {
        let hidden = hide(&self.set_dir(id)?);
        hidden.map(drop).map_err(LayerSetError::io("remove layers"))
    }

    fn set_dir(&self, id: &str) -> Result<PathBuf, LayerSetError> {
        check_id(id).map(|id| self.root.join("layers").join(id))
    }

    pub(crate) fn undo_dir(&self, id: &str) -> Result<PathBuf, LayerSetError> {
        check_id(id).map(|id| self.root.join("undo").join(id))
    }
}

impl LayerSet {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn begun_at_ms(&self) -> i64 {
        self.manifest.begun_at_ms
    }

    /// How many layers there are; they are numbered from 0.
    pub fn layers(&self) -> usize {
        self.manifest.layers.len()
    }

    /// The real directory below a layer.
    pub fn lower(&self, layer: usize) -> PathBuf {
        self.manifest.layers[layer].lower()
    }

    /// For `upperdir=`.
    pub fn upper(&self, layer: usize) -> PathBuf {
        self.dir.join(layer.to_string()).join("upper")
    }

    /// For `workdir=`.
    pub fn work(&self, layer: usize) -> PathBuf {
        self.dir.join(layer.to_string()).join("work")
    }
}

impl Layer {
    pub(crate) fn lower(&self) -> PathBuf {
        use std::os::unix::ffi::OsStrExt as _;
        PathBuf::from(std::ffi::OsStr::from_bytes(&self.lower.0))
    }
}

fn begin_layer(dir: &Path, lower: &Path, begun: Stamp) -> io::Result<Layer> {
    use std::os::unix::ffi::OsStrExt as _;
    let meta = Tree::open(lower)?.root_meta()?;
    for part in ["upper", "work"] {
        make_dirs(&dir.join(part))?;
    }
    // The root of an overlay looks like its upper directory.
    fs::set_permissions(dir.join("upper"), Permissions::from_mode(meta.mode | 0o700))?;
    Ok(Layer {
        lower: Escaped(lower.as_os_str().as_bytes().to_vec()),
        lower_dev: meta.dev,
        lower_ino: meta.ino,
        begun,
    })
}

/// A time of the file system that nothing has so far. The clock of the kernel stands still for milliseconds: what was
/// changed just before has the time that a new file would get.
pub(crate) fn next_tick(dir: &Path) -> io::Result<Stamp> {
    let path = dir.join("begun");
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_new(&path)?;
    let first = node::meta_of(&file)?.changed;
    loop {
        file.write_all(b".")?;
        let now = node::meta_of(&file)?.changed;
        if now > first {
            return Ok(now);
        }
    }
}

fn check_id(id: &str) -> Result<&str, LayerSetError> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let good = !id.is_empty() && id.len() <= 64 && id.bytes().all(plain);
    good.then_some(id)
        .ok_or_else(|| LayerSetError::BadId(id.to_owned()))
}

/// The names of directories that are no unfinished ones.
pub(crate) fn ids_in(dir: &Path) -> io::Result<Vec<String>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        ids.extend(
            name.to_str()
                .filter(|id| check_id(id).is_ok())
                .map(str::to_owned),
        );
    }
    ids.sort();
    Ok(ids)
}

pub(crate) fn make_dirs(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

pub(crate) fn create_new(path: &Path) -> io::Result<File> {
    let no_follow = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.custom_flags(no_follow).open(path)
}

/// A file that is there as a whole or not at all, also after a power cut.
/// As [`write_synced`], for what needs not be there when the machine has lost its power.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    fs::write(&unfinished, bytes)?;
    fs::rename(&unfinished, path)
}

pub(crate) fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    match fs::remove_file(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = create_new(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(&unfinished, path)?;
    path.parent().map_or(Ok(()), sync_dir)
}

pub(crate) fn sync_dir(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
