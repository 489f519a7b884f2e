//! The whole configuration, read from everywhere: what it comes to, and what is wrong with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aishd_model::trusted_instructions::TrustedInstructions;

use super::fault::Fault;
use super::layers::{BaseLayers, LayerPaths};
use super::paths::{self, PathError};
use super::settings::Settings;
use super::source::{ConfigOrigin, FileExposure, SourceText};
use super::trust::{self, TrustStatus, TrustedFiles};
use super::{catalog_file, project, safe_text};
use crate::key_values::IsSet;

/// What reading came to.
#[derive(Debug)]
pub struct LoadedConfig {
    /// Absent when there is an error among the faults.
    pub settings: Option<Settings>,
    pub faults: Vec<Fault>,
    /// Files of trusted projects that are left out, and why.
    pub left_out: BTreeMap<PathBuf, Vec<Fault>>,
    pub trust: TrustedFiles,
    pub layers: BaseLayers,
}

/// Reads everything. Trusted projects are looked for in the state directory that the configuration names.
pub fn load(place: &LayerPaths, is_set: IsSet<'_>) -> LoadedConfig {
    let mut layers = BaseLayers::read(place);
    if let Err(fault) = catalog_file::put_into(&mut layers, place) {
        layers.faults.push(fault);
    }
    let (settings, mut meaning) = Settings::of(&layers.merged(), is_set);
    let mut faults = layers.faults.clone();
    faults.append(&mut meaning);
    let mut settings = settings.filter(|_| !faults.iter().any(Fault::is_error));
    let mut trust = TrustedFiles::default();
    let mut left_out = BTreeMap::new();
    if let Some(settings) = &mut settings {
        let state = match &place.state {
            Some(state) => Some(state.clone()),
            // Without a home nothing starts at all.
            None => state(settings).ok(),
        };
        match state.as_deref().map(TrustedFiles::read) {
            Some(Ok(found)) => trust = found,
            Some(Err(error)) => {
                let file = trust::place(state.as_deref().unwrap_or(Path::new("/")));
                let source = SourceText::new(
                    ConfigOrigin::File(file),
                    FileExposure::Private,
                    String::new(),
                );
                let message = format!("no project is trusted: {}", paths::describe(&error));
                let mut fault = Fault::of(&source, message);
                fault.severity = super::fault::Severity::Warning;
                faults.push(fault);
            }
            None => {}
        }
        let mut models = (*settings.models).clone();
        let trusts = trusted(&trust);
        models.context.project = models.context.project.map(|_| trusts.clone());
        for path in trust.files.keys() {
            let Some(root) = project::root_of(path) else {
                continue;
            };
            // One that is not there or not readable is asked about when somebody works there.
            let Ok(Some(layer)) = project::read(path) else {
                continue;
            };
            if trust.status_of(path, layer.source.text()) != TrustStatus::Trusted {
                continue;
            }
            let (found, wrong) = project::models(&layers, &layer, is_set);
            match found {
                Some(mut found) => {
                    found.context.project = found.context.project.map(|_| trusts.clone());
                    models.projects.insert(root.to_path_buf(), Arc::new(found));
                }
                None => drop(left_out.insert(path.clone(), wrong)),
            }
        }
        settings.models = Arc::new(models);
    }
    LoadedConfig {
        settings,
        faults,
        left_out,
        trust,
        layers,
    }
}

/// Files of instructions that models may be told.
fn trusted(trust: &TrustedFiles) -> TrustedInstructions {
    let files = trust.files.iter();
    let files = files.filter(|(path, _)| project::root_of(path).is_none());
    let files = files.map(|(path, digest)| (path.clone(), digest.as_str().to_owned()));
    TrustedInstructions::new(files.collect())
}

/// The state directory of these settings.
pub fn state(settings: &Settings) -> Result<PathBuf, PathError> {
    paths::state(settings.state.as_deref())
}

/// What somebody who works in this directory should know about a project's file there.
pub fn notice(
    directory: &Path,
    trust: &TrustedFiles,
    left_out: &BTreeMap<PathBuf, Vec<Fault>>,
) -> Option<IgnoredProjectFile> {
    let file = project::find(directory)?;
    let source = super::file::read(
        ConfigOrigin::Project(file.clone()),
        &file,
        super::file::FileNeed::Optional,
    );
    let shown = safe_text::safe(&file.display().to_string()).into_owned();
    let mut can_be_trusted = false;
    let text = match source {
        Ok(None) => return None,
        Err(fault) => format!("{} (it is ignored)", fault.line()),
        Ok(Some(source)) => match trust.status_of(&file, source.text()) {
            TrustStatus::Trusted => {
                let faults = left_out.get(&file)?;
                let first = faults.iter().find(|it| it.is_error()).map(Fault::line);
                format!("{} (the file is ignored)", first.unwrap_or(shown))
            }
            TrustStatus::Changed => {
                can_be_trusted = true;
                format!("{shown} has changed since you trusted it, and is ignored")
            }
            TrustStatus::Unknown => {
                can_be_trusted = true;
                format!("{shown} is not trusted, and is ignored")
            }
        },
    };
    let root = project::root_of(&file).filter(|_| can_be_trusted);
    Some(IgnoredProjectFile {
        text,
        root: root.map(Path::to_path_buf),
    })
}

/// A project's file that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredProjectFile {
    pub text: String,
    /// What can be trusted, if that is what is missing.
    pub root: Option<PathBuf>,
}
