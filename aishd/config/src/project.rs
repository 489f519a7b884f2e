//! The file of a project, `<root>/.aish/config.toml`. It comes with somebody else's files, so it counts only when the
//! user trusts it as it is, and even then it may only choose and add models: it never sends a key or a header that it
//! does not have to a place that it names.

use std::path::{Path, PathBuf};

use aishd_model::model_settings::ModelSettings;

use super::fault::Fault;
use super::file::{self, FileNeed};
use super::layers::{BaseLayers, ConfigLayer};
use super::source::ConfigOrigin;
use super::table_reader::TableEntry;
use super::{keys, settings};
use crate::key_values::IsSet;

const BELOW_ROOT: &str = ".aish/config.toml";
/// No directory is deeper than that on purpose.
const MOST_ANCESTORS: usize = 64;

/// The file of a project with this root.
pub fn file_of(root: &Path) -> PathBuf {
    root.join(BELOW_ROOT)
}

/// The root of a project's file; `None`: it is another file that is trusted.
pub fn root_of(file: &Path) -> Option<&Path> {
    let root = file.parent()?.parent()?;
    (file_of(root) == file).then_some(root)
}

/// The nearest project's file at or above a directory.
pub fn find(directory: &Path) -> Option<PathBuf> {
    let above = directory.ancestors().take(MOST_ANCESTORS);
    above.map(file_of).find(|it| file::is_there(it))
}

/// The project's file, read; absent when none is there.
pub fn read(path: &Path) -> Result<Option<ConfigLayer>, Fault> {
    let source = file::read(
        ConfigOrigin::Project(path.to_path_buf()),
        path,
        FileNeed::Optional,
    )?;
    Ok(source.map(ConfigLayer::read))
}

/// The models that hold in a project, and all that is wrong with its file. What is wrong elsewhere is told elsewhere.
pub fn models(
    layers: &BaseLayers,
    project: &ConfigLayer,
    is_set: IsSet<'_>,
) -> (Option<ModelSettings>, Vec<Fault>) {
    let mut faults = project.faults.clone();
    forbid(layers, project, &mut faults);
    let mut meaning = vec![];
    let models = settings::models(&layers.with_project(project), is_set, &mut meaning);
    let told: Vec<_> = faults.iter().map(|it| it.span.clone()).collect();
    meaning.retain(|it| {
        std::sync::Arc::ptr_eq(&it.source, &project.source) && !told.contains(&it.span)
    });
    faults.append(&mut meaning);
    faults.sort_by_key(|it| it.span.as_ref().map(|it| it.start));
    if faults.iter().any(Fault::is_error) {
        return (None, faults);
    }
    (Some(models), faults)
}

/// What even a trusted file may not say.
fn forbid(layers: &BaseLayers, project: &ConfigLayer, faults: &mut Vec<Fault>) {
    let others = layers.merged();
    let mut entries: Vec<TableEntry> = vec![];
    super::table_reader::KeyPart::list(&project.file, "", &mut entries);
    for entry in &entries {
        let project_may = ["config_version", "default_model"].contains(&entry.key.as_str())
            || entry.key.starts_with("models.");
        if !project_may {
            let message = format!("`{}` is not for a project to say", entry.key);
            let help = "a project may set default_model and models; the rest is in your own file";
            faults.push(Fault::error(&entry.place, message).help(help));
        }
    }
    for (name, model) in &project.file.models {
        let keys = [
            ("key", model.key.as_ref().map(|it| &it.place)),
            ("key_env", model.key_env.as_ref().map(|it| &it.place)),
            ("key_file", model.key_file.as_ref().map(|it| &it.place)),
            ("key_cmd", model.key_cmd.as_ref().map(|it| &it.place)),
        ];
        for (key, place) in keys {
            let Some(place) = place else { continue };
            let message = format!("`{key}` is not for a project to say");
            let help = "it could read any of your keys; say it in your own file";
            faults.push(Fault::error(place, message).help(help));
        }
        let Some(other) = others.file.models.get(name) else {
            continue;
        };
        let keys::Price {
            input,
            output,
            cached_input,
            cache_write,
        } = &model.price;
        for said in [input, output, cached_input, cache_write]
            .into_iter()
            .flatten()
        {
            let message = format!("a project may not say what `{name}` costs");
            let help = "give this preset another name";
            faults.push(Fault::error(&said.place, message).help(help));
        }
        // Headers are often keys by another name.
        if !other.has_key() && other.headers.is_empty() {
            continue;
        }
        let endpoint = model.endpoint.as_ref().map(|it| &it.place);
        let headers = model.headers.values().flatten().map(|it| &it.place);
        for place in endpoint.into_iter().chain(headers) {
            let message = format!("a project may not say where the key of `{name}` goes");
            let help = "give this preset another name";
            faults.push(Fault::error(place, message).help(help));
        }
    }
}
