//! The layers of a configuration: the defaults, the machine's files, the user's file, a trusted
//! project's file, the environment, the command line. Each is read on its own; a higher one lies over a lower one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aishd_model::catalog::CatalogTables;
use toml::de::DeTable;

use super::fault::Fault;
use super::file::{self, FileNeed};
use super::keys::{DEFAULTS, File};
use super::source::{ConfigOrigin, FileExposure, SourcePlace, SourceText};
use super::table_reader::{KeyPart as _, TableEntry, TableReader};

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct LayerPaths {
    /// The machine's files, the least important first.
    pub machine: Vec<PathBuf>,
    pub user: Option<PathBuf>,
    /// The user's file was named by hand, so that it has to be there.
    pub named: bool,
    /// `AISH_LOG`.
    pub log: Option<String>,
    /// `key=value` from the command line, in their order.
    pub assignments: Vec<String>,
    /// The state directory in use, whatever the configuration says now.
    pub state: Option<PathBuf>,
}

/// One source, read.
#[derive(Clone, Debug)]
pub struct ConfigLayer {
    pub source: Arc<SourceText>,
    pub file: File,
    /// Where the names of tables stand.
    pub names: BTreeMap<String, SourcePlace>,
    /// Tables that could not be read whole.
    pub broken: BTreeSet<String>,
    pub faults: Vec<Fault>,
}

/// Layers on top of each other.
#[derive(Clone, Debug, Default)]
pub struct LayerStack {
    pub file: File,
    pub names: BTreeMap<String, SourcePlace>,
    pub broken: BTreeSet<String>,
    /// What is known of models, whatever the layers say.
    pub catalog: CatalogTables,
}

/// All layers but those of projects.
#[derive(Clone, Debug, Default)]
pub struct BaseLayers {
    /// What a project's file lies over.
    pub below: LayerStack,
    /// What lies over a project's file.
    pub above: LayerStack,
    pub faults: Vec<Fault>,
}

impl BaseLayers {
    /// Reads them all, and finds all that is wrong in each.
    pub fn read(place: &LayerPaths) -> Self {
        Self::read_from(place, None)
    }

    /// As if the user's file were this.
    pub fn read_with(place: &LayerPaths, user: Arc<SourceText>) -> Self {
        Self::read_from(place, Some(user))
    }

    fn read_from(place: &LayerPaths, instead: Option<Arc<SourceText>>) -> Self {
        let mut layers = Self::default();
        let defaults = SourceText::new(
            ConfigOrigin::Default,
            FileExposure::Readable(0),
            DEFAULTS.to_owned(),
        );
        layers.put_below(ConfigLayer::read(defaults));
        for path in &place.machine {
            layers.put_file(path, FileNeed::Optional);
        }
        if let Some(source) = instead {
            layers.put_below(ConfigLayer::read(source));
        } else if let Some(path) = &place.user {
            let need = if place.named {
                FileNeed::Required
            } else {
                FileNeed::Optional
            };
            layers.put_file(path, need);
        }
        if let Some(filter) = &place.log {
            layers.put_above(ConfigLayer::read(variable(
                "AISH_LOG",
                "logging.level",
                filter,
            )));
        }
        for text in &place.assignments {
            layers.put_above(ConfigLayer::read(assignment(text)));
        }
        layers
    }

    /// Everything but projects.
    pub fn merged(&self) -> LayerStack {
        let mut stack = self.below.clone();
        stack.put(self.above.clone());
        stack
    }

    /// With a project's file in its place.
    pub fn with_project(&self, project: &ConfigLayer) -> LayerStack {
        let mut stack = self.below.clone();
        stack.put(project.stack());
        stack.put(self.above.clone());
        stack
    }

    fn put_file(&mut self, path: &Path, need: FileNeed) {
        match file::read(ConfigOrigin::File(path.to_path_buf()), path, need) {
            Ok(Some(source)) => self.put_below(ConfigLayer::read(source)),
            Ok(None) => {}
            Err(fault) => self.faults.push(fault),
        }
    }

    fn put_below(&mut self, layer: ConfigLayer) {
        self.below.put(layer.stack());
        self.faults.extend(layer.faults);
    }

    fn put_above(&mut self, layer: ConfigLayer) {
        self.above.put(layer.stack());
        self.faults.extend(layer.faults);
    }
}

impl LayerStack {
    #[cfg(test)]
    pub(super) fn put_layer(&mut self, layer: &ConfigLayer) {
        self.put(layer.stack());
    }

    fn put(&mut self, above: Self) {
        self.file.lay_over(above.file);
        self.names.extend(above.names);
        self.broken.extend(above.broken);
    }

    /// Every key that is said, with the value that counts.
    pub fn entries(&self) -> Vec<TableEntry> {
        let mut entries = vec![];
        self.file.list("", &mut entries);
        entries
    }
}

impl ConfigLayer {
    pub fn read(source: Arc<SourceText>) -> Self {
        let (tree, errors) = DeTable::parse_recoverable(source.text());
        let mut reader = TableReader::new(source.clone());
        for error in &errors {
            let span = error.span().unwrap_or(0..0);
            let message = error.message().replace('\n', ", ");
            reader
                .faults
                .push(Fault::error(&reader.place(span), message));
        }
        let mut file = File::default();
        file.read_table("", tree.get_ref(), &mut reader);
        if !errors.is_empty() {
            // What is missing may be what could not be read.
            reader.broken.insert(String::new());
        }
        let mut faults = reader.faults;
        // What is not there is not of the wrong kind as well.
        let unread: BTreeSet<usize> = errors
            .iter()
            .filter_map(|it| Some(it.span()?.start))
            .collect();
        let mut seen = 0;
        faults.retain(|it| {
            seen += 1;
            let start = it.span.as_ref().map(|it| it.start);
            seen <= errors.len() || start.is_none_or(|it| !unread.contains(&it))
        });
        faults.sort_by_key(|it| it.span.as_ref().map(|it| it.start));
        Self {
            source,
            file,
            names: reader.names,
            broken: reader.broken,
            faults,
        }
    }

    fn stack(&self) -> LayerStack {
        LayerStack {
            file: self.file.clone(),
            names: self.names.clone(),
            broken: self.broken.clone(),
            catalog: CatalogTables::default(),
        }
    }
}

/// A variable that says what a key would say. Its text is shown without the key.
fn variable(name: &'static str, key: &str, value: &str) -> Arc<SourceText> {
    let text = format!("{key} = {}", toml::Value::from(value));
    SourceText::new(ConfigOrigin::Variable(name), FileExposure::Private, text)
}

/// `key=value` as a source. A value that is no TOML is taken as a text, so that `-c ui.theme=ansi` needs no quotes.
pub fn assignment(text: &str) -> Arc<SourceText> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let source = |text: String| {
        SourceText::new(
            ConfigOrigin::CommandLine,
            FileExposure::Readable(0o444),
            text,
        )
    };
    source(assigned(key.trim(), value.trim()))
}

/// The line that gives a key its value.
pub fn assigned(key: &str, value: &str) -> String {
    let plain = format!("{key} = {value}");
    if DeTable::parse(&plain).is_ok() {
        plain
    } else {
        format!("{key} = {}", toml::Value::from(value))
    }
}

/// The path that a flag gives, as an assignment.
pub fn assign_path(key: &str, path: &Path) -> String {
    let value = path.display().to_string();
    format!("{key} = {}", toml::Value::from(value))
}
