//! What lay below each changed path when the command ended: the kernel does not record it.
//!
//! Copying a file up changes nothing below, but for the time of the last access. So what was changed below since the
//! layer began was changed by somebody else.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::fingerprint::{Depth, Fingerprint};
use crate::layer_set::{LayerSet, create_new, sync_dir};
use crate::node::NodeKind;
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
}

pub(crate) type Sealed = HashMap<(usize, RelPath), SealedPath>;

impl LayerSet {
    /// To be called once the command has ended and nothing is mounted on the layers. Called again, it seals anew.
    pub fn seal(&self) -> io::Result<SealReport> {
        let path = self.seal_path();
        let unfinished = path.with_extension("new");
        if unfinished.exists() {
            fs::remove_file(&unfinished)?;
        }
        let mut report = SealReport::default();
        let mut file = BufWriter::new(create_new(&unfinished)?);
        for layer in 0..self.layers() {
            let begun = self.manifest.layers[layer].begun;
            upper::walk(self, layer, &mut |found| {
                let Some(print) = print_below(found)? else {
                    return Ok(());
                };
                let changed_meanwhile = print.is_later_than(begun);
                report.paths += 1;
                report.changed_meanwhile += u64::from(changed_meanwhile);
                let sealed = SealedPath {
                    layer,
                    path: found.path.clone(),
                    print,
                    changed_meanwhile,
                };
                serde_json::to_writer(&mut file, &sealed)?;
                file.write_all(b"\n")
            })?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_data()?;
        fs::rename(&unfinished, &path)?;
        sync_dir(&self.dir)?;
        Ok(report)
    }

    /// Makes the layers fit to be mounted again, for the next step of a run. Until the next seal nothing can be kept.
    pub fn reopen(&self) -> io::Result<()> {
        match fs::remove_file(self.seal_path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        (0..self.layers()).try_for_each(|layer| upper::restore_modes(self, layer))
    }

    /// `None`: the layers are not sealed.
    pub(crate) fn sealed(&self) -> io::Result<Option<Sealed>> {
        let file = match File::open(self.seal_path()) {
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

    fn seal_path(&self) -> PathBuf {
        self.dir.join("sealed.jsonl")
    }
}

/// What lies below now, with all that is in a directory which the layer takes away as a whole.
pub(crate) fn print_below(found: &UpperEntry<'_>) -> io::Result<Option<Fingerprint>> {
    let Some((dir, lower)) = found.lower_dir.zip(found.lower) else {
        return Ok(None);
    };
    let goes_as_a_whole = found.opaque || !found.meta.is(NodeKind::Directory);
    let depth = if lower.is(NodeKind::Directory) && goes_as_a_whole {
        Depth::AllInside
    } else {
        Depth::Itself
    };
    Fingerprint::take(dir, found.name, depth)
}
