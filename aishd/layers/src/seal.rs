//! What lay below each changed path when the command ended: the kernel does not record it.
//!
//! Copying a file up changes nothing below, but for the time of the last access. So what was changed below since the
//! layer began was changed by somebody else.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::fingerprint::{Depth, Fingerprint};
use crate::layer_set::{LayerSet, create_new, next_tick, sync_dir, write_whole};
use crate::node::{NodeKind, Stamp};
use crate::rel_path::RelPath;
use crate::upper::{self, UpperEntry};

/// What sealing found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SealReport {
    /// Paths of the layers below which something lies.
    pub paths: u64,
    /// Those of them that somebody changed below while the command ran: keeping them is a conflict.
    pub changed_meanwhile: u64,
}

/// One path as it was below when the layer was sealed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SealedPath {
    layer: usize,
    path: RelPath,
    pub(crate) print: Fingerprint,
    pub(crate) changed_meanwhile: bool,
    /// From when on a change below is somebody else's; absent: since the layers began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    since: Option<Stamp>,
}

pub(crate) type Sealed = HashMap<(usize, RelPath), SealedPath>;

impl LayerSet {
    /// To be called once the command has ended and nothing is mounted on the layers. What an earlier step of a run found below
    /// a path stays what its change is compared with.
    pub fn seal(&self) -> io::Result<SealReport> {
        let report = self.seal_step()?;
        self.sync_seal()?;
        Ok(report)
    }

    /// The same between two steps of a run, without waiting for the disk: what the steps changed is not on it either. Where the
    /// machine loses its power before [`LayerSet::sync_seal`], a path without a seal is nothing that replaces another.
    pub fn seal_step(&self) -> io::Result<SealReport> {
        self.seal_over(&HashSet::new())
    }

    /// Waits until the seal is on the disk.
    pub fn sync_seal(&self) -> io::Result<()> {
        File::open(self.seal_path())?.sync_data()?;
        sync_dir(&self.dir)
    }

    /// What is done to these directories up to now was done by us.
    pub(crate) fn seal_over(&self, ours: &HashSet<(usize, RelPath)>) -> io::Result<SealReport> {
        let now = if ours.is_empty() {
            None
        } else {
            Some(next_tick(&self.dir)?)
        };
        let path = self.seal_path();
        let unfinished = path.with_extension("new");
        if unfinished.exists() {
            fs::remove_file(&unfinished)?;
        }
        let before = match read_seal(&self.earlier_seal_path())? {
            None => self.sealed()?,
            before => before,
        };
        let mut before = before.unwrap_or_default();
        let step = self.step_begun()?;
        let mut report = SealReport::default();
        let mut file = BufWriter::new(create_new(&unfinished)?);
        for layer in 0..self.layers() {
            let run_begun = self.manifest.layers[layer].begun;
            upper::walk(self, layer, &mut |found| {
                let Some(depth) = depth_below(found) else {
                    return Ok(());
                };
                let known = before.remove(&(layer, found.path.clone()));
                // What was in a directory before it goes as a whole nobody has looked at yet.
                let is_deeper =
                    |it: &SealedPath| it.print.inside.is_none() && depth == Depth::AllInside;
                let begun = match &known {
                    Some(known) if !is_deeper(known) => None,
                    Some(known) => Some(known.since.unwrap_or(run_begun)),
                    None => Some(step.unwrap_or(run_begun)),
                };
                let mut sealed = match (begun, known) {
                    (None, Some(known)) => known,
                    (begun, _) => {
                        let Some(print) = print_below(found)? else {
                            return Ok(());
                        };
                        SealedPath {
                            layer,
                            path: found.path.clone(),
                            changed_meanwhile: print.is_later_than(begun.unwrap_or(run_begun)),
                            print,
                            since: begun.filter(|it| *it != run_begun),
                        }
                    }
                };
                if ours.contains(&(layer, found.path.clone())) {
                    sealed.since = now;
                }
                report.paths += 1;
                report.changed_meanwhile += u64::from(sealed.changed_meanwhile);
                serde_json::to_writer(&mut file, &sealed)?;
                file.write_all(b"\n")
            })?;
        }
        file.flush()?;
        fs::rename(&unfinished, &path)?;
        remove_if_there(&self.earlier_seal_path())?;
        remove_if_there(&self.step_path())?;
        Ok(report)
    }

    /// Makes the layers fit to be mounted again, for the next step of a run. Until the next seal nothing can be kept. It waits
    /// for a tick of the file system's clock, as making them does.
    pub fn reopen(&self) -> io::Result<()> {
        match fs::rename(self.seal_path(), self.earlier_seal_path()) {
            // The step before was never sealed: what it began with counts for this one too.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(()) => {
                let begun = next_tick(&self.dir)?;
                write_whole(&self.step_path(), &serde_json::to_vec(&begun)?)?;
            }
        }
        (0..self.layers()).try_for_each(|layer| upper::restore_modes(self, layer))
    }

    pub fn is_sealed(&self) -> bool {
        self.seal_path().exists()
    }

    fn step_begun(&self) -> io::Result<Option<Stamp>> {
        match fs::read(self.step_path()) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text)?)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// `None`: the layers are not sealed.
    pub(crate) fn sealed(&self) -> io::Result<Option<Sealed>> {
        read_seal(&self.seal_path())
    }

    fn seal_path(&self) -> PathBuf {
        self.dir.join("sealed.jsonl")
    }

    /// The seal of the step before, while another one runs.
    fn earlier_seal_path(&self) -> PathBuf {
        self.dir.join("sealed-before.jsonl")
    }

    /// When the step that runs began.
    fn step_path(&self) -> PathBuf {
        self.dir.join("step.json")
    }
}

fn read_seal(path: &Path) -> io::Result<Option<Sealed>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut sealed = Sealed::new();
    for line in BufReader::new(file).lines() {
        let one: SealedPath = serde_json::from_str(&line?)?;
        sealed.insert((one.layer, one.path.clone()), one);
    }
    Ok(Some(sealed))
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// How much of what lies below a path counts; `None`: nothing lies there.
fn depth_below(found: &UpperEntry<'_>) -> Option<Depth> {
    let lower = found.lower.filter(|_| found.lower_dir.is_some())?;
    let goes_as_a_whole = found.opaque || !found.meta.is(NodeKind::Directory);
    Some(if lower.is(NodeKind::Directory) && goes_as_a_whole {
        Depth::AllInside
    } else {
        Depth::Itself
    })
}

/// What lies below now, with all that is in a directory which the layer takes away as a whole.
pub(crate) fn print_below(found: &UpperEntry<'_>) -> io::Result<Option<Fingerprint>> {
    match (found.lower_dir, depth_below(found)) {
        (Some(dir), Some(depth)) => Fingerprint::take(dir, found.name, depth),
        _ => Ok(None),
    }
}
