//! What a tried command changed, read from its overlay layers; and keeping, dropping and taking back those changes.
//!
//! A layer is the upper directory of an overlay that an unprivileged user mounts over a real directory, the lower one. It
//! is read when nothing is mounted on it and no process of the command lives: a descriptor that somebody still holds
//! would write into what was kept.

mod change_kind;
mod changes;
mod chosen;
mod collect;
mod copy;
mod diff;
mod drop_part;
mod fingerprint;
mod hunks;
mod journal;
mod keep;
mod layer_set;
mod node;
mod plan;
mod ready;
mod recover;
mod redo;
mod rel_path;
mod remove;
mod seal;
mod seal_upon;
mod seen;
mod step;
mod tree;
mod undo;
mod upper;
mod weight;
mod xattr;

pub use change_kind::ChangeKind;
pub use changes::{Change, ChangeCounts, Changes, ReadBounds};
pub use diff::TextChange;
pub use drop_part::Dropped;
pub use hunks::FileHunks;
pub use journal::KeepConflicts;
pub use keep::{BeyondCap, KeepError, KeepOptions, Kept};
pub use layer_set::{LayerSet, LayerSetError, LayerStore};
pub use node::{NodeKind, NodeMeta, Stamp};
pub use plan::{Conflict, KeepChoice, KeepPlan};
pub use recover::{RecoverError, Recovered};
pub use rel_path::RelPath;
pub use seal::SealReport;
pub use step::ConflictReason;
pub use undo::{Redoable, UndoEntry, UndoError, Undone};
pub use weight::{DiskSpace, LayerWeight};

#[cfg(test)]
mod tests;
