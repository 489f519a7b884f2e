//! The layers of a configuration: the defaults, the machine's files, the user's file, a trusted
//! project's file, the environment, the command line. Each is read on its own; a higher one lies over a lower one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::DeTable;

use super::fault::Fault;
use super::file::{self, Need};
use super::keys::{DEFAULTS, File};
use super::source::{Access, Origin, Place, Source};
use super::table::{Entry, Part as _, Reader};

/// Where to look.
#[derive(Clone, Debug, Default)]
pub struct Where {
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
pub struct Layer {
    pub source: Arc<Source>,
    pub file: File,
    /// Where the names of tables stand.
    pub names: BTreeMap<String, Place>,
    /// Tables that could not be read whole.
    pub broken: BTreeSet<String>,
    pub faults: Vec<Fault>,
}

/// Layers on top of each other.
#[derive(Clone, Debug, Default)]
pub struct Stack {
    pub file: File,
    pub names: BTreeMap<String, Place>,
    pub broken: BTreeSet<String>,
}

/// All layers but those of projects.
#[derive(Clone, Debug, Default)]
pub struct Layers {
    /// What a project's file lies over.
    pub below: Stack,
    /// What lies over a project's file.
    pub above: Stack,
    pub faults: Vec<Fault>,
}

impl Layers {
    /// Reads them all, and finds all that is wrong in each.
    pub fn read(place: &Where) -> Self {
        Self::read_from(place, None)
    }

    /// As if the user's file were this.
    pub fn read_with(place: &Where, user: Arc<Source>) -> Self {
        Self::read_from(place, Some(user))
    }

    fn read_from(place: &Where, instead: Option<Arc<Source>>) -> Self {
        let mut layers = Self::default();
        let defaults = Source::new(Origin::Default, Access::Readable(0), DEFAULTS.to_owned());
        layers.put_below(Layer::read(defaults));
        for path in &place.machine {
            layers.put_file(path, Need::Optional);
        }
        if let Some(source) = instead {
            layers.put_below(Layer::read(source));
        } else if let Some(path) = &place.user {
            let need = if place.named {
                Need::Required
            } else {
                Need::Optional
            };
            layers.put_file(path, need);
        }
        if let Some(filter) = &place.log {
            layers.put_above(Layer::read(variable("AISH_LOG", "logging.level", filter)));
        }
        for text in &place.assignments {
            layers.put_above(Layer::read(assignment(text)));
        }
        layers
    }

    /// Everything but projects.
    pub fn whole(&self) -> Stack {
        let mut stack = self.below.clone();
        stack.put(self.above.clone());
        stack
    }

    /// With a project's file in its place.
    pub fn with_project(&self, project: &Layer) -> Stack {
        let mut stack = self.below.clone();
        stack.put(project.stack());
        stack.put(self.above.clone());
        stack
    }

    fn put_file(&mut self, path: &Path, need: Need) {
        match file::read(Origin::File(path.to_path_buf()), path, need) {
            Ok(Some(source)) => self.put_below(Layer::read(source)),
            Ok(None) => {}
            Err(fault) => self.faults.push(fault),
        }
    }

    fn put_below(&mut self, layer: Layer) {
        self.below.put(layer.stack());
        self.faults.extend(layer.faults);
    }

    fn put_above(&mut self, layer: Layer) {
        self.above.put(layer.stack());
        self.faults.extend(layer.faults);
    }
}

impl Stack {
    #[cfg(test)]
    pub(super) fn put_layer(&mut self, layer: &Layer) {
        self.put(layer.stack());
    }

    fn put(&mut self, above: Self) {
        self.file.lay_over(above.file);
        self.names.extend(above.names);
        self.broken.extend(above.broken);
    }

    /// Every key that is said, with the value that counts.
    pub fn entries(&self) -> Vec<Entry> {
        let mut entries = vec![];
        self.file.list("", &mut entries);
        entries
    }
}

impl Layer {
    pub fn read(source: Arc<Source>) -> Self {
        let (tree, errors) = DeTable::parse_recoverable(source.text());
        let mut reader = Reader::new(source.clone());
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

    fn stack(&self) -> Stack {
        Stack {
            file: self.file.clone(),
            names: self.names.clone(),
            broken: self.broken.clone(),
        }
    }
}

/// A variable that says what a key would say. Its text is shown without the key.
fn variable(name: &'static str, key: &str, value: &str) -> Arc<Source> {
    let text = format!("{key} = {}", toml::Value::from(value));
    Source::new(Origin::Variable(name), Access::Private, text)
}

/// `key=value` as a source. A value that is no TOML is taken as a text, so that `-c ui.theme=ansi` needs no quotes.
pub fn assignment(text: &str) -> Arc<Source> {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let source = |text: String| Source::new(Origin::CommandLine, Access::Readable(0o444), text);
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
