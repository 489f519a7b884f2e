//! The whole configuration, read from everywhere: what it comes to, and what is wrong with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fault::Fault;
use super::layers::{Layers, Where};
use super::paths::{self, PathError};
use super::project;
use super::settings::{IsSet, Settings};
use super::source::{Access, Origin, Source};
use super::trust::{self, Standing, Trust};
use aishd_model::trusted::Trusted;

/// What reading came to.
#[derive(Debug)]
pub struct Loaded {
    /// Absent when there is an error among the faults.
    pub settings: Option<Settings>,
    pub faults: Vec<Fault>,
    /// Files of trusted projects that are left out, and why.
    pub left_out: BTreeMap<PathBuf, Vec<Fault>>,
    pub trust: Trust,
    pub layers: Layers,
}

/// Reads everything. Trusted projects are looked for in the state directory that the configuration names.
pub fn load(place: &Where, is_set: IsSet<'_>) -> Loaded {
    let layers = Layers::read(place);
    let (settings, mut meaning) = Settings::of(&layers.whole(), is_set);
    let mut faults = layers.faults.clone();
    faults.append(&mut meaning);
    let mut settings = settings.filter(|_| !faults.iter().any(Fault::is_error));
    let mut trust = Trust::default();
    let mut left_out = BTreeMap::new();
    if let Some(settings) = &mut settings {
        let state = match &place.state {
            Some(state) => Some(state.clone()),
            // Without a home nothing starts at all.
            None => state(settings).ok(),
        };
        match state.as_deref().map(Trust::read) {
            Some(Ok(found)) => trust = found,
            Some(Err(error)) => {
                let file = trust::place(state.as_deref().unwrap_or(Path::new("/")));
                let source = Source::new(Origin::File(file), Access::Private, String::new());
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
            if trust.standing(path, layer.source.text()) != Standing::Trusted {
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
    Loaded {
        settings,
        faults,
        left_out,
        trust,
        layers,
    }
}

/// Files of instructions that models may be told.
fn trusted(trust: &Trust) -> Trusted {
    let files = trust.files.iter();
    let files = files.filter(|(path, _)| project::root_of(path).is_none());
    let files = files.map(|(path, digest)| (path.clone(), digest.as_str().to_owned()));
    Trusted::new(files.collect())
}

/// The state directory of these settings.
pub fn state(settings: &Settings) -> Result<PathBuf, PathError> {
    paths::state(settings.state.as_deref())
}

/// What somebody who works in this directory should know about a project's file there.
pub fn notice(
    directory: &Path,
    trust: &Trust,
    left_out: &BTreeMap<PathBuf, Vec<Fault>>,
) -> Option<Notice> {
    let file = project::find(directory)?;
    let source = super::file::read(
        Origin::Project(file.clone()),
        &file,
        super::file::Need::Optional,
    );
    let shown = super::veil::safe(&file.display().to_string()).into_owned();
    let mut can_be_trusted = false;
    let text = match source {
        Ok(None) => return None,
        Err(fault) => format!("{} (it is ignored)", fault.line()),
        Ok(Some(source)) => match trust.standing(&file, source.text()) {
            Standing::Trusted => {
                let faults = left_out.get(&file)?;
                let first = faults.iter().find(|it| it.is_error()).map(Fault::line);
                format!("{} (the file is ignored)", first.unwrap_or(shown))
            }
            Standing::Changed => {
                can_be_trusted = true;
                format!("{shown} has changed since you trusted it, and is ignored")
            }
            Standing::Unknown => {
                can_be_trusted = true;
                format!("{shown} is not trusted, and is ignored")
            }
        },
    };
    let root = project::root_of(&file).filter(|_| can_be_trusted);
    Some(Notice {
        text,
        root: root.map(Path::to_path_buf),
    })
}

/// A project's file that does not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub text: String,
    /// What can be trusted, if that is what is missing.
    pub root: Option<PathBuf>,
}
