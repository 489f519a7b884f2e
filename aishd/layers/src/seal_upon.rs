//! Sealing layers anew when a part of them was kept, and they stay in use.

use std::collections::HashSet;

use crate::journal::KeepJournal;
use crate::keep::KeepError;
use crate::layer_set::{LayerSet, LayerStore};
use crate::seal::SealReport;

impl LayerStore {
    /// To be called once a part of what the layers hold is kept, before they are mounted again: it lies below from now on, and
    /// it was not somebody else who put it there.
    pub fn seal_upon(&self, set: &LayerSet, undo_id: &str) -> Result<SealReport, KeepError> {
        let read = KeepError::io("read what was kept");
        let journal =
            KeepJournal::read(&self.undo_dir(undo_id)?.join("steps.json")).map_err(read)?;
        let mut ours = HashSet::new();
        for step in &journal.steps {
            let mut at = Some(step.path.clone());
            while let Some(path) = at {
                at = path.split().map(|(parent, _)| parent);
                if !ours.insert((step.layer, path)) {
                    break;
                }
            }
        }
        let sealed = set.seal_over(&ours);
        let sealed = sealed.and_then(|report| set.sync_seal().map(|()| report));
        sealed.map_err(KeepError::io("seal the layers"))
    }
}
