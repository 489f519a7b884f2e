//! Files of projects whose instructions the person trusts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Files whose instructions the person trusts: by path, with the SHA-256 of their text in hexadecimal. A changed file is
/// another file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedInstructions(Arc<BTreeMap<PathBuf, String>>);

impl TrustedInstructions {
    pub fn new(files: BTreeMap<PathBuf, String>) -> Self {
        Self(Arc::new(files))
    }

    /// The digest that a file had when the person trusted it.
    pub fn digest(&self, file: &Path) -> Option<&str> {
        self.0.get(file).map(String::as_str)
    }
}
