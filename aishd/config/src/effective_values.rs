//! Every value in force, and who has said it. Of a secret it says only that it is there.

use std::path::Path;

use serde::Serialize;

use super::load::LoadedConfig;
use super::settings::Settings;
use super::source::SourcePlace;
use super::table_reader::TableEntry;
use super::trust::TrustStatus;
use super::{project, safe_text};

/// Every value that counts, in general or in a directory, where a trusted project may have a word.
pub fn values(
    settings: &Settings,
    loaded: &LoadedConfig,
    directory: Option<&Path>,
) -> Vec<ShownValue> {
    let models = directory.map(|it| settings.models.within(&it.display().to_string()));
    let roots = &settings.models.projects;
    let root = directory.and_then(|it| it.ancestors().find(|it| roots.contains_key(*it)));
    let file = root.map(project::file_of);
    let layer = file
        .as_deref()
        .and_then(|it| project::read(it).ok().flatten());
    let trusted = file.zip(layer).filter(|(file, layer)| {
        loaded.trust.status_of(file, layer.source.text()) == TrustStatus::Trusted
    });
    match (trusted, models) {
        (Some((_, layer)), Some(models)) => {
            let entries = loaded.layers.with_project(&layer).entries();
            effective(&entries, models.default.as_deref())
        }
        (Some(_) | None, _) => effective(&settings.entries, settings.models.default.as_deref()),
    }
}

/// Entries as they may be shown; the preset that answers is among them even if nobody has said so.
fn effective(entries: &[TableEntry], default_model: Option<&str>) -> Vec<ShownValue> {
    let mut values: Vec<ShownValue> = entries.iter().map(ShownValue::of).collect();
    if let Some(name) = default_model.filter(|_| !values.iter().any(|it| it.key == "default_model"))
    {
        values.push(ShownValue {
            key: "default_model".to_owned(),
            value: toml::Value::from(name).to_string(),
            origin: "default".to_owned(),
        });
    }
    values.sort_by(|a, b| a.key.cmp(&b.key));
    values
}

/// Whether a line says who has said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WithOrigin {
    Yes,
    No,
}

/// One value that counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShownValue {
    pub key: String,
    /// As TOML; of a secret only that it is there.
    pub value: String,
    /// `file:line`, or who else has said it.
    pub origin: String,
}

impl ShownValue {
    fn of(entry: &TableEntry) -> Self {
        let origins = entry.also.iter().chain([&entry.place]);
        let origins: Vec<String> = origins.map(SourcePlace::origin).collect();
        Self {
            key: entry.key.clone(),
            value: entry.display(),
            origin: origins.join(", "),
        }
    }

    /// As a line of TOML.
    pub fn line(&self, origin: WithOrigin) -> String {
        let value = safe_text::safe(&self.value);
        match origin {
            WithOrigin::Yes => format!("{} = {value}  # {}\n", self.key, self.origin),
            WithOrigin::No => format!("{} = {value}\n", self.key),
        }
    }
}
