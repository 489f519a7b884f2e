//! A choice of paths, asked path by path.

use std::collections::HashSet;

use crate::plan::KeepChoice;
use crate::rel_path::RelPath;

/// A choice, by path.
pub(crate) struct Chosen {
    all: bool,
    paths: HashSet<(usize, RelPath)>,
    /// Without what is in them.
    alone: HashSet<(usize, RelPath)>,
    /// Directories on the way to them, which come along where they are not there.
    above: HashSet<(usize, RelPath)>,
}

impl Chosen {
    pub(crate) fn new(choice: &KeepChoice) -> Self {
        let (paths, alone) = match choice {
            KeepChoice::All => (&[][..], &[][..]),
            KeepChoice::Paths(paths) => (&paths[..], &[][..]),
            KeepChoice::Listed { whole, alone } => (&whole[..], &alone[..]),
        };
        let mut above = HashSet::new();
        for (layer, path) in paths.iter().chain(alone) {
            let mut at = path.split().map(|(parent, _)| parent);
            while let Some(parent) = at {
                at = parent.split().map(|(above, _)| above);
                above.insert((*layer, parent));
            }
        }
        Self {
            all: matches!(choice, KeepChoice::All),
            paths: paths.iter().cloned().collect(),
            alone: alone.iter().cloned().collect(),
            above,
        }
    }

    /// It is on the way to something that is chosen.
    pub(crate) fn is_above(&self, layer: usize, path: &RelPath) -> bool {
        self.above.contains(&(layer, path.clone()))
    }

    pub(crate) fn has(&self, layer: usize, path: &RelPath) -> bool {
        if self.all || self.alone.contains(&(layer, path.clone())) {
            return true;
        }
        let mut at = Some(path.clone());
        while let Some(path) = at {
            at = path.split().map(|(parent, _)| parent);
            if self.paths.contains(&(layer, path)) {
                return true;
            }
        }
        false
    }
}
