//! `config trust` and `config untrust`: the user's word on the file of a project.

use std::path::{Path, PathBuf};

use super::{Desk, Said, exit, state_of};
use crate::config::layers::Layers;
use crate::config::paths::{self, describe};
use crate::config::trust::{self, Digest, Trust};
use crate::config::{fault, project, settings, veil};

impl Desk<'_> {
    /// The state directory: also of a configuration with errors, as far as it says one.
    fn state(self) -> Result<PathBuf, Said> {
        let stack = Layers::read(self.place).whole();
        let said = stack.file.daemon.state.map(|it| settings::home(&it.value));
        paths::state(said.as_deref())
            .map_err(|error| Said::failed(exit::FAILED, format!("aishd: {error}\n")))
    }

    pub(super) fn trust(self, directory: &Path) -> Said {
        let directory = match std::fs::canonicalize(directory) {
            Ok(directory) => directory,
            Err(error) => {
                let text = format!("aishd: find {}: {error}\n", directory.display());
                return Said::failed(exit::UNKNOWN, text);
            }
        };
        let Some(file) = project::find(&directory) else {
            let text = format!(
                "aishd: there is no .aish/config.toml in {} or above it\n",
                veil::safe(&directory.display().to_string())
            );
            return Said::failed(exit::UNKNOWN, text);
        };
        let layer = match project::read(&file) {
            Ok(Some(layer)) => layer,
            Ok(None) => {
                return Said::failed(exit::UNKNOWN, "aishd: the file has just gone\n".to_owned());
            }
            Err(fault) => return Said::failed(exit::CONFIG, fault::pictures(&[fault])),
        };
        let loaded = self.load();
        let (models, faults) = project::models(&loaded.layers, &layer, self.is_set);
        let mut err = fault::pictures(&faults);
        if models.is_none() {
            err.push_str("\naishd: nothing was trusted: the file is invalid\n");
            return Said::failed(exit::CONFIG, err);
        }
        let digest = Digest::of(layer.source.text());
        let line = format!(
            "trusted {} as it is now (sha256 {})\n",
            layer.source.name(),
            digest.as_str().get(..16).unwrap_or_default()
        );
        let changed = self
            .state()
            .map(|state| trust::change(&state, |it| drop(it.files.insert(file, digest))));
        match changed {
            Ok(Ok(())) => Said {
                err,
                ..Said::done(line)
            },
            Ok(Err(error)) => Said::failed(exit::FAILED, format!("aishd: {}\n", describe(&error))),
            Err(said) => said,
        }
    }

    pub(super) fn untrust(self, directory: &Path) -> Said {
        let directory =
            std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
        let state = match self.state() {
            Ok(state) => state,
            Err(said) => return said,
        };
        let mut removed = None;
        let changed = trust::change(&state, |it| {
            let known = directory.ancestors().map(project::file_of);
            let known = known.into_iter().find(|file| it.files.contains_key(file));
            if let Some(file) = known {
                it.files.remove(&file);
                removed = Some(file);
            }
        });
        match (changed, removed) {
            (Ok(()), Some(file)) => {
                let shown = file.display().to_string();
                Said::done(format!("{} is not trusted any more\n", veil::safe(&shown)))
            }
            (Ok(()), None) => {
                let shown = directory.display().to_string();
                let text = format!(
                    "aishd: nothing is trusted in {} or above it\n",
                    veil::safe(&shown)
                );
                Said::failed(exit::UNKNOWN, text)
            }
            (Err(error), _) => Said::failed(exit::FAILED, format!("aishd: {}\n", describe(&error))),
        }
    }

    pub(super) fn trusted(self) -> Said {
        let state = match self.state() {
            Ok(state) => state,
            Err(said) => return said,
        };
        match Trust::read(&state) {
            Ok(trust) => {
                let line = |file: &PathBuf| {
                    let state = state_of(file, "project", &trust);
                    format!("{}  # {state}\n", veil::safe(&file.display().to_string()))
                };
                Said::done(trust.files.keys().map(line).collect())
            }
            Err(error) => Said::failed(exit::FAILED, format!("aishd: {}\n", describe(&error))),
        }
    }
}
