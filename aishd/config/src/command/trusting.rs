//! `config trust` and `config untrust`: the user's word on the files of a project.

use std::path::{Path, PathBuf};

use aishd_project::instructions;
use aishd_turn::project::instructions::NAMES;

use super::{ActionContext, ActionOutput, exit, state_of};
use crate::layers::BaseLayers;
use crate::paths::{self, describe};
use crate::trust::{self, FileDigest, TrustedFiles};
use crate::{fault_picture, project, safe_text};

impl ActionContext<'_> {
    /// The state directory: also of a configuration with errors, as far as it says one.
    fn state(self) -> Result<PathBuf, ActionOutput> {
        let stack = BaseLayers::read(self.place).merged();
        let said = stack
            .file
            .daemon
            .state
            .map(|it| crate::key_values::home(&it.value));
        paths::state(said.as_deref())
            .map_err(|error| ActionOutput::failed(exit::FAILED, format!("aishd: {error}\n")))
    }

    /// The configuration of the project that a directory is in, and its instructions to models.
    pub(super) fn trust(self, directory: &Path) -> ActionOutput {
        let directory = match std::fs::canonicalize(directory) {
            Ok(directory) => directory,
            Err(error) => {
                let text = format!("aishd: find {}: {error}\n", directory.display());
                return ActionOutput::failed(exit::UNKNOWN, text);
            }
        };
        let mut files = vec![];
        let mut err = String::new();
        if let Some(file) = project::find(&directory) {
            match self.configuration(&file) {
                Ok(Some((text, warnings))) => {
                    files.push((file, FileDigest::of(&text)));
                    err = warnings;
                }
                Ok(None) => {}
                Err(said) => return said,
            }
        }
        for (file, text) in instructions::find(&directory) {
            match text {
                Ok(text) => files.push((file, FileDigest::of(&text))),
                Err(error) => {
                    let shown = file.display().to_string();
                    let line = format!(
                        "aishd: {} is not trusted: {error}\n",
                        safe_text::safe(&shown)
                    );
                    err.push_str(&line);
                }
            }
        }
        if files.is_empty() {
            err.push_str(&format!(
                "aishd: there is no .aish/config.toml in {0} or above it, and no AGENTS.md or AISH.md in its project\n",
                safe_text::safe(&directory.display().to_string())
            ));
            return ActionOutput::failed(exit::UNKNOWN, err);
        }
        let lines = files
            .iter()
            .map(|(file, digest)| trusted_line(file, digest));
        let lines = lines.collect();
        let changed = self
            .state()
            .map(|state| trust::change(&state, |it| it.files.extend(files)));
        match changed {
            Ok(Ok(())) => ActionOutput {
                err,
                ..ActionOutput::done(lines)
            },
            Ok(Err(error)) => {
                ActionOutput::failed(exit::FAILED, format!("aishd: {}\n", describe(&error)))
            }
            Err(said) => said,
        }
    }

    /// The text of a project's configuration and what is to be said of it, unless it is invalid: then nothing is trusted.
    fn configuration(self, file: &Path) -> Result<Option<(String, String)>, ActionOutput> {
        let layer = match project::read(file) {
            Ok(Some(layer)) => layer,
            Ok(None) => return Ok(None),
            Err(fault) => {
                return Err(ActionOutput::failed(
                    exit::CONFIG,
                    fault_picture::pictures(&[fault]),
                ));
            }
        };
        let loaded = self.load();
        let (models, faults) = project::models(&loaded.layers, &layer, self.is_set);
        let mut err = fault_picture::pictures(&faults);
        if models.is_none() {
            err.push_str("\naishd: nothing was trusted: the file is invalid\n");
            return Err(ActionOutput::failed(exit::CONFIG, err));
        }
        Ok(Some((layer.source.text().to_owned(), err)))
    }

    pub(super) fn untrust(self, directory: &Path) -> ActionOutput {
        let directory =
            std::fs::canonicalize(directory).unwrap_or_else(|_| directory.to_path_buf());
        let state = match self.state() {
            Ok(state) => state,
            Err(said) => return said,
        };
        let mut removed = vec![];
        let changed = trust::change(&state, |it| {
            let known = |root: &Path| -> Vec<PathBuf> {
                let names = NAMES.map(|it| root.join(it)).into_iter();
                let all = std::iter::once(project::file_of(root)).chain(names);
                all.filter(|file| it.files.contains_key(file)).collect()
            };
            let nearest = directory.ancestors().map(known).find(|it| !it.is_empty());
            removed = nearest.unwrap_or_default();
            removed.iter().for_each(|file| drop(it.files.remove(file)));
        });
        match changed {
            Ok(()) if removed.is_empty() => {
                let shown = directory.display().to_string();
                let text = format!(
                    "aishd: nothing is trusted in {} or above it\n",
                    safe_text::safe(&shown)
                );
                ActionOutput::failed(exit::UNKNOWN, text)
            }
            Ok(()) => {
                let line = |it: &PathBuf| {
                    let shown = it.display().to_string();
                    format!("{} is not trusted any more\n", safe_text::safe(&shown))
                };
                ActionOutput::done(removed.iter().map(line).collect())
            }
            Err(error) => {
                ActionOutput::failed(exit::FAILED, format!("aishd: {}\n", describe(&error)))
            }
        }
    }

    pub(super) fn trusted(self) -> ActionOutput {
        let state = match self.state() {
            Ok(state) => state,
            Err(said) => return said,
        };
        match TrustedFiles::read(&state) {
            Ok(trust) => {
                let line = |file: &PathBuf| {
                    let state = state_of(file, "project", &trust);
                    format!(
                        "{}  # {state}\n",
                        safe_text::safe(&file.display().to_string())
                    )
                };
                ActionOutput::done(trust.files.keys().map(line).collect())
            }
            Err(error) => {
                ActionOutput::failed(exit::FAILED, format!("aishd: {}\n", describe(&error)))
            }
        }
    }
}

fn trusted_line(file: &Path, digest: &FileDigest) -> String {
    let shown = file.display().to_string();
    let what = match project::root_of(file) {
        Some(_) => "",
        None => ": models that are told of the project (context.project) are to follow it",
    };
    format!(
        "trusted {} as it is now (sha256 {}){what}\n",
        safe_text::safe(&shown),
        digest.as_str().get(..16).unwrap_or_default()
    )
}
