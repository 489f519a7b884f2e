//! The manifests of all directories: read in parallel, read again when their files have changed, and put there
//! or taken away. A file that is broken now counts as it was when it last was not.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, thread};

use aishd_log::tool_name::Alias;
use aishd_platform::private_file;
use aishd_rules::registry::Manifest;
use parking_lot::Mutex;

use super::fault::Fault;
use super::file::{self, FileNeed};
use super::live::LiveConfig;
use super::source::{ConfigOrigin, FileExposure, SourceText};
use super::{manifest, paths};

/// More files than anybody writes.
const MOST_FILES: usize = 1000;
/// Threads that read.
const READERS: usize = 4;
/// Keys of a manifest that may be paths beside it.
const PATHS: [&str; 4] = ["command", "script", "path", "cwd"];

/// All manifests there are.
pub struct ManifestStore {
    live: Arc<LiveConfig>,
    means: ManifestStoreServices,
    /// Held while files are read, so that the newest reading is the last one that counts.
    held: Mutex<HeldManifests>,
}

/// What the store of manifests needs of others.
pub struct ManifestStoreServices {
    /// Finds a program by its name.
    pub find: Box<FindManifestProgram>,
    /// Names that a manifest cannot have.
    pub taken: Box<dyn Fn() -> BTreeSet<Alias> + Send + Sync>,
    /// Takes over what counts from now on and what is wrong with any file, and says what that changed.
    pub publish: PublishRegistry,
}

pub type FindManifestProgram = dyn Fn(&str) -> Option<PathBuf> + Send + Sync;
pub type PublishRegistry = Box<dyn Fn(Vec<Arc<Manifest>>, &[String]) -> Vec<String> + Send + Sync>;

#[derive(Default)]
struct HeldManifests {
    items: BTreeMap<PathBuf, ManifestFile>,
    report: ManifestReport,
}

/// One file.
#[derive(Default)]
struct ManifestFile {
    stamp: Option<ManifestStamp>,
    /// Of the script that the manifest names.
    script: Option<ManifestStamp>,
    good: Option<Arc<Manifest>>,
    /// `file:line` of its name.
    name: String,
    faults: Vec<String>,
}

/// What changes when a file does.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ManifestStamp {
    file: (u64, u64),
    bytes: u64,
    written: (i64, i64),
    changed: (i64, i64),
}

/// What a reading came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestReport {
    /// A line for each provider that came, went or changed.
    pub changes: Vec<String>,
    /// What is wrong, each with its place.
    pub faults: Vec<String>,
    /// Files that were read.
    pub read: usize,
}

/// Which files are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ManifestSelection {
    Changed,
    All,
}

#[derive(Debug, thiserror::Error)]
pub enum ManifestStoreError {
    /// What is wrong with the manifest, each with its place.
    #[error("{}", .0.join("\n"))]
    Faults(Vec<String>),
    #[error("{0} is the name of another provider")]
    Taken(Alias),
    #[error("there is no manifest of {0}")]
    Unknown(Alias),
    #[error("the manifest of {name} is {file}, which is not in {folder}: take it away by hand")]
    Elsewhere {
        name: Alias,
        file: String,
        folder: String,
    },
    #[error("there is no directory of tools, because there is no home")]
    Homeless,
    #[error("{action} {path}: {source}")]
    Io {
        action: &'static str,
        path: String,
        #[source]
        source: std::io::Error,
    },
}

impl std::fmt::Debug for ManifestStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManifestStore").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ManifestStoreServices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ManifestStoreServices")
            .finish_non_exhaustive()
    }
}

impl ManifestStore {
    /// With nothing read yet.
    pub fn new(live: Arc<LiveConfig>, means: ManifestStoreServices) -> Self {
        Self {
            live,
            means,
            held: Mutex::default(),
        }
    }

    /// Where manifests are put: beside the user's file.
    pub fn own_folder(&self) -> Option<PathBuf> {
        Some(self.live.file()?.parent()?.join("tools"))
    }

    /// Every directory, the own one first.
    pub fn folders(&self) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = self.own_folder().into_iter().collect();
        folders.extend(self.live.tool_folders());
        folders
    }

    /// Files outside of the directories that matter as well: scripts.
    pub fn scripts(&self) -> Vec<PathBuf> {
        let held = self.held.lock();
        let good = held.items.values().filter_map(|it| it.good.as_ref());
        good.filter_map(|it| Some(it.program.script.as_ref()?.file.clone()))
            .collect()
    }

    /// How the last reading ended.
    pub fn report(&self) -> ManifestReport {
        self.held.lock().report.clone()
    }

    /// Reads what has to be read. Blocks on files.
    pub fn read(&self, which: ManifestSelection) -> ManifestReport {
        let mut held = self.held.lock();
        self.read_into(&mut held, which)
    }

    fn read_into(&self, held: &mut HeldManifests, which: ManifestSelection) -> ManifestReport {
        let (files, mut faults) = self.files();
        held.items.retain(|file, _| files.contains(file));
        let stale: Vec<&PathBuf> = files
            .iter()
            .filter(|file| {
                which == ManifestSelection::All
                    || held.items.get(*file).is_none_or(|it| it.is_stale(file))
            })
            .collect();
        let read = self.read_files(&stale);
        let count = read.len();
        for (file, item) in read {
            let before = held.items.remove(&file);
            let good = item.good.or_else(|| before.and_then(|it| it.good));
            held.items.insert(file, ManifestFile { good, ..item });
        }
        let mut taken = (self.means.taken)();
        taken.extend(self.live.mcp().borrow().servers.keys().cloned());
        let mut counting = vec![];
        for (file, item) in &held.items {
            faults.extend(item.faults.iter().cloned());
            let Some(good) = &item.good else { continue };
            if taken.insert(good.name.clone()) {
                counting.push(good.clone());
            } else {
                let place = if item.name.is_empty() {
                    file.display().to_string()
                } else {
                    item.name.clone()
                };
                faults.push(format!(
                    "{place}: {} is the name of another provider",
                    good.name
                ));
            }
        }
        let changes = (self.means.publish)(counting, &faults);
        for change in &changes {
            tracing::info!("[aish] {change}");
        }
        for fault in faults.iter().filter(|it| !held.report.faults.contains(it)) {
            tracing::warn!("{fault}");
        }
        held.report = ManifestReport {
            changes,
            faults,
            read: count,
        };
        held.report.clone()
    }

    fn files(&self) -> (BTreeSet<PathBuf>, Vec<String>) {
        let mut files = BTreeSet::new();
        let mut faults = vec![];
        for folder in self.folders() {
            // One that is not there holds nothing.
            let Ok(entries) = fs::read_dir(&folder) else {
                continue;
            };
            let entries = entries.flatten().map(|it| it.path());
            let is_manifest = |it: &PathBuf| {
                let hidden = it
                    .file_name()
                    .is_none_or(|it| it.as_encoded_bytes().starts_with(b"."));
                !hidden && it.extension().is_some_and(|it| it == "toml")
            };
            let mut found: Vec<PathBuf> = entries.filter(is_manifest).collect();
            found.sort();
            let room = MOST_FILES.saturating_sub(files.len());
            if found.len() > room {
                let folder = folder.display();
                faults.push(format!(
                    "{folder}: more than {MOST_FILES} manifests; the rest is left out"
                ));
                found.truncate(room);
            }
            files.extend(found);
        }
        (files, faults)
    }

    fn read_files(&self, files: &[&PathBuf]) -> Vec<(PathBuf, ManifestFile)> {
        let share = files.len().div_ceil(READERS).max(1);
        thread::scope(|scope| {
            let readers: Vec<_> = files
                .chunks(share)
                .map(|files| {
                    scope.spawn(move || {
                        let read = files.iter().map(|it| ((*it).clone(), self.read_file(it)));
                        read.collect::<Vec<_>>()
                    })
                })
                .collect();
            let read = readers.into_iter().filter_map(|it| it.join().ok());
            read.flatten().collect()
        })
    }

    fn read_file(&self, file: &Path) -> ManifestFile {
        // Before it is read: what changes meanwhile is read again.
        let stamp = ManifestStamp::of(file);
        match file::read(
            ConfigOrigin::File(file.to_path_buf()),
            file,
            FileNeed::Required,
        ) {
            Ok(Some(source)) => ManifestFile {
                stamp,
                ..self.item(&source, file)
            },
            Ok(None) => ManifestFile::default(),
            Err(fault) => ManifestFile {
                stamp,
                faults: vec![fault.line()],
                ..ManifestFile::default()
            },
        }
    }

    fn item(&self, source: &Arc<SourceText>, file: &Path) -> ManifestFile {
        let read = manifest::read(source, file, &*self.means.find);
        let script = read
            .manifest
            .as_ref()
            .and_then(|it| it.program.script.as_ref());
        ManifestFile {
            stamp: None,
            script: script.and_then(|it| ManifestStamp::of(&it.file)),
            name: read.name.map(|it| it.origin()).unwrap_or_default(),
            good: read.manifest.map(Arc::new),
            faults: read.faults.iter().map(Fault::line).collect(),
        }
    }

    /// Puts a manifest there, in place of the one of the same provider. Paths in it are meant from `base`.
    pub fn add(
        &self,
        text: &str,
        base: Option<&Path>,
    ) -> Result<(PathBuf, ManifestReport), ManifestStoreError> {
        let folder = self.own_folder().ok_or(ManifestStoreError::Homeless)?;
        let text = match base {
            Some(base) => from_here(text, base),
            None => text.to_owned(),
        };
        let origin = ConfigOrigin::File(PathBuf::from("manifest"));
        let source = SourceText::new(origin, FileExposure::Private, text.clone());
        let item = self.item(&source, &folder.join("manifest.toml"));
        let Some(manifest) = item.good else {
            return Err(ManifestStoreError::Faults(item.faults));
        };
        let name = manifest.name.clone();
        let mut held = self.held.lock();
        let mut of_name = held.items.iter().filter(|(_, it)| it.is_of(&name));
        let file = match of_name.next() {
            Some((file, _)) if file.parent() == Some(&folder) => file.clone(),
            Some(_) => return Err(ManifestStoreError::Taken(name)),
            None => folder.join(format!("{name}.toml")),
        };
        let mut taken = (self.means.taken)();
        taken.extend(self.live.mcp().borrow().servers.keys().cloned());
        let others = held
            .items
            .get(&file)
            .is_some_and(|it| !it.is_of(&name) && it.good.is_some());
        if taken.contains(&name) || others {
            return Err(ManifestStoreError::Taken(name));
        }
        let fail = |action| {
            let path = file.display().to_string();
            move |source| ManifestStoreError::Io {
                action,
                path,
                source,
            }
        };
        paths::private_parent(&folder).map_err(fail("make the directory of"))?;
        private_file::replace(&file, text.as_bytes()).map_err(fail("write"))?;
        let report = self.read_into(&mut held, ManifestSelection::Changed);
        Ok((file, report))
    }

    /// Takes the manifest of a provider away.
    pub fn remove(&self, name: &Alias) -> Result<(PathBuf, ManifestReport), ManifestStoreError> {
        let folder = self.own_folder().ok_or(ManifestStoreError::Homeless)?;
        let mut held = self.held.lock();
        let found = held.items.iter().find(|(_, it)| it.is_of(name));
        let file = found.map(|(file, _)| file.clone());
        let file = file.ok_or_else(|| ManifestStoreError::Unknown(name.clone()))?;
        if file.parent() != Some(&folder) {
            return Err(ManifestStoreError::Elsewhere {
                name: name.clone(),
                file: file.display().to_string(),
                folder: folder.display().to_string(),
            });
        }
        fs::remove_file(&file).map_err(|source| ManifestStoreError::Io {
            action: "remove",
            path: file.display().to_string(),
            source,
        })?;
        let report = self.read_into(&mut held, ManifestSelection::Changed);
        Ok((file, report))
    }
}

impl ManifestFile {
    fn is_of(&self, name: &Alias) -> bool {
        self.good.as_ref().is_some_and(|it| it.name == *name)
    }

    /// Whether it has to be read again: what is missing for a broken one may be there now.
    fn is_stale(&self, file: &Path) -> bool {
        let script = self.good.as_ref().and_then(|it| it.program.script.as_ref());
        !self.faults.is_empty()
            || self.stamp != ManifestStamp::of(file)
            || self.script != script.and_then(|it| ManifestStamp::of(&it.file))
    }
}

impl ManifestStamp {
    fn of(file: &Path) -> Option<Self> {
        let about = fs::metadata(file).ok()?;
        Some(Self {
            file: (about.dev(), about.ino()),
            bytes: about.size(),
            written: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        })
    }
}

/// The same manifest, as it is meant when it lies in another directory. What is no TOML stays as it is.
fn from_here(text: &str, base: &Path) -> String {
    let Ok(mut document) = text.parse::<toml_edit::DocumentMut>() else {
        return text.to_owned();
    };
    let is_binary = document.get("runtime").and_then(|it| it.as_str()) == Some("binary");
    for key in PATHS {
        let Some(value) = document
            .get_mut(key)
            .and_then(toml_edit::Item::as_value_mut)
        else {
            continue;
        };
        let Some(said) = value.as_str() else { continue };
        let is_word = match key {
            "command" => !said.contains('/'),
            "cwd" => ["private", "conversation"].contains(&said),
            "path" => !is_binary,
            _ => false,
        };
        if is_word || said.starts_with(['/', '~']) {
            continue;
        }
        let decor = value.decor().clone();
        *value = base.join(said).display().to_string().into();
        *value.decor_mut() = decor;
    }
    document.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_that_is_moved_means_what_it_meant() {
        for (text, expected) in [
            (
                "script = \"a.py\" # mine\n",
                "script = \"/w/a.py\" # mine\n",
            ),
            (
                "command = \"sh\"\ncwd = \"private\"\n",
                "command = \"sh\"\ncwd = \"private\"\n",
            ),
            (
                "command = \"bin/x\"\ncwd = \"data\"\n",
                "command = \"/w/bin/x\"\ncwd = \"/w/data\"\n",
            ),
            (
                "runtime = \"binary\"\npath = \"x\"\n",
                "runtime = \"binary\"\npath = \"/w/x\"\n",
            ),
            ("script = \"/a.py\"\n", "script = \"/a.py\"\n"),
            ("script = \n", "script = \n"),
        ] {
            assert_eq!(expected, from_here(text, Path::new("/w")));
        }
    }
}
