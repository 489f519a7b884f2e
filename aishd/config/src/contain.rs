//! `contain` and `write`: what the kernel holds a program to.

use std::path::PathBuf;

use aishd_log::profile::Profile;

use super::fault::Fault;
use super::table_reader::KeyLeaf;
use super::value::Contain;
use crate::key_values::places;

impl Contain {
    pub(super) fn profile(self) -> Profile {
        match self {
            Self::Read => Profile::Read,
            Self::Workspace => Profile::Workspace,
            Self::Open => Profile::Open,
        }
    }
}

/// What `write` names. Under `held`, nothing may be named; `None`: it may.
pub(super) fn widened(
    key: &str,
    write: &KeyLeaf<Vec<String>>,
    held: Option<Profile>,
    faults: &mut Vec<Fault>,
) -> Vec<PathBuf> {
    if let (Some(write), Some(held)) = (write, held) {
        let message =
            format!("`{key}` goes with `contain = \"workspace\"`, and that is \"{held}\"");
        faults.push(Fault::error(&write.place, message));
    }
    places(key, write, faults)
}
