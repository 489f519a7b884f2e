//! What a person has looked at: a name for the chosen paths of a set as they are, and what of a choice cannot stand alone.

use std::io;

use sha2::{Digest as _, Sha256};

use crate::chosen::Chosen;
use crate::fingerprint::hex;
use crate::layer_set::LayerSet;
use crate::node::{NodeKind, Stamp};
use crate::plan::KeepChoice;
use crate::rel_path::RelPath;
use crate::upper;

impl LayerSet {
    /// Names what the layers hold at these paths now. Another name later says that a command has changed something there, which
    /// nobody who was told this one has seen. Asked for after [`LayerSet::changes`], which may have opened up modes.
    pub fn seen(&self, choice: &KeepChoice) -> io::Result<String> {
        let chosen = Chosen::new(choice);
        let mut hasher = Sha256::new();
        for layer in 0..self.layers() {
            upper::walk(self, layer, &mut |found| {
                if !chosen.has(layer, found.path) {
                    return Ok(());
                }
                let meta = &found.meta;
                hasher.update(layer.to_le_bytes());
                hasher.update(found.path.as_bytes());
                hasher.update([0, u8::from(found.opaque), u8::from(meta.is_whiteout())]);
                hasher.update(format!("{:?}", meta.kind));
                for number in [meta.mode, meta.uid, meta.gid] {
                    hasher.update(number.to_le_bytes());
                }
                // The times of a directory are those of what is in it.
                if !meta.is(NodeKind::Directory) {
                    hasher.update(meta.size.to_le_bytes());
                    hasher.update(meta.ino.to_le_bytes());
                    for Stamp(seconds, nanos) in [meta.modified, meta.changed] {
                        hasher.update(seconds.to_le_bytes());
                        hasher.update(nanos.to_le_bytes());
                    }
                }
                Ok(())
            })?;
        }
        Ok(hex(&hasher.finalize()))
    }

    /// Directories that took the place of others, of which only a part is chosen. While the layers are in use, such a part
    /// cannot be kept or dropped by itself: the directory goes on to hide what lies below it.
    pub fn split_by(&self, choice: &KeepChoice) -> io::Result<Vec<(usize, RelPath)>> {
        let chosen = Chosen::new(choice);
        let mut split = vec![];
        for layer in 0..self.layers() {
            upper::walk(self, layer, &mut |found| {
                let lies_over = found.lower_dir.is_some()
                    && found.lower.is_some_and(|it| it.is(NodeKind::Directory));
                if found.opaque
                    && lies_over
                    && chosen.is_above(layer, found.path)
                    && !chosen.has(layer, found.path)
                {
                    split.push((layer, found.path.clone()));
                }
                Ok(())
            })?;
        }
        Ok(split)
    }
}
