//! What in a command is destructive (NOR-2): a table of what is known to be harmless, and the reason for everything else.
//! It never approves anything (R1). What is not known asks.

mod danger;

use std::path::{Path, PathBuf};

pub use danger::Danger;

use super::command::Reading;

/// What is dangerous about a text and its reading: nothing, if it only does what is known to be harmless. `roots` are the
/// directories that it may write in, `cwd` the one that it runs in. Pure. Until the table is there nothing is known.
#[must_use]
pub fn judge(reading: &Reading, _text: &str, _roots: &[PathBuf], _cwd: &Path) -> Vec<Danger> {
    if reading.understood {
        vec![Danger::UnknownProgram]
    } else {
        vec![Danger::NotUnderstood]
    }
}
