//! How a table of settings is read: key by key, so that all that is wrong is found at once, each value with its place;
//! how one layer lies over another; and how the result is listed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use aishd_mcp_messages::confidential;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use toml::Spanned;
use toml::de::DeValue;

use super::address;
use super::fault::Fault;
use super::source::{SourcePlace, SourceText};

/// A value and where it was said.
#[derive(Clone, Debug)]
pub struct LocatedValue<T> {
    pub value: T,
    pub place: SourcePlace,
}

/// A key that may be said or not.
pub type KeyLeaf<T> = Option<LocatedValue<T>>;

/// One kind of value.
pub trait KeyKind: Clone + Sized {
    /// Never shown.
    const SECRET: bool = false;
    /// Reads it, or says what is expected and what is there.
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread>;
    /// As TOML.
    fn show(&self) -> String;
}

/// Why a value is not what its key takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueMisread {
    pub message: String,
    pub label: Option<String>,
}

impl ValueMisread {
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            label: None,
        }
    }

    /// The kind is wrong: `expected a text, found the number 3`.
    pub fn kind(expected: &str, found: &DeValue<'_>) -> Self {
        Self::new(format!("expected {expected}, found {}", describe(found)))
    }
}

/// What a value is, in words; texts are not repeated, since they may be secrets.
fn describe(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(_) => "a text".to_owned(),
        DeValue::Integer(_) => "a number".to_owned(),
        DeValue::Float(_) => "a fraction".to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(_) => "a date".to_owned(),
        DeValue::Array(_) => "a list".to_owned(),
        DeValue::Table(_) => "a table".to_owned(),
    }
}

/// What was found wrong in one source while it was read.
#[derive(Debug)]
pub struct TableReader {
    pub source: Arc<SourceText>,
    pub faults: Vec<Fault>,
    /// Tables in which something could not be read, so that what is missing there may have been meant.
    pub broken: BTreeSet<String>,
    /// Where the names that people chose stand, by path.
    pub names: BTreeMap<String, SourcePlace>,
}

impl TableReader {
    pub fn new(source: Arc<SourceText>) -> Self {
        Self {
            source,
            faults: vec![],
            broken: BTreeSet::new(),
            names: BTreeMap::new(),
        }
    }

    pub fn place(&self, span: Range<usize>) -> SourcePlace {
        SourcePlace {
            source: self.source.clone(),
            span,
        }
    }

    fn fault(&mut self, table: &str, fault: Fault) {
        self.broken.insert(table.to_owned());
        self.faults.push(fault);
    }

    /// No key of this table has this name.
    pub fn unknown(
        &mut self,
        table: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        known: &[&str],
    ) {
        let name = key.get_ref();
        let mut fault = Fault::error(&self.place(key.span()), format!("unknown key `{name}`"));
        fault = match nearest(name, known) {
            Some(known) => fault.label(format!("did you mean `{known}`?")),
            None if table.is_empty() => fault.help(format!("there are: {}", known.join(", "))),
            None => fault.help(format!("[{table}] has: {}", known.join(", "))),
        };
        self.fault(table, fault);
    }
}

/// The known name that was probably meant.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let most = 2.min(name.chars().count().saturating_sub(1));
    known
        .iter()
        .map(|it| (strsim::damerau_levenshtein(name, it), *it))
        .min()
        .filter(|(distance, _)| *distance <= most)
        .map(|(_, it)| it)
}

/// A value that counts, and its key.
#[derive(Clone, Debug)]
pub struct TableEntry {
    /// Dotted.
    pub key: String,
    pub value: TomlText,
    pub place: SourcePlace,
    /// Who else has said a part of it.
    pub also: Vec<SourcePlace>,
}

impl TableEntry {
    /// As TOML; of a secret only that it is there, among the arguments of a program too.
    pub fn display(&self) -> String {
        let text = self.value.display();
        if self.key.ends_with(".url") || self.key.ends_with(".endpoint") {
            return address::without_keys(text);
        }
        if !self.key.starts_with("mcp.servers.") || !self.key.ends_with(".args") {
            return text.to_owned();
        }
        let words = format!("words = {text}").parse::<toml::Table>();
        let words = words.ok().and_then(|it| {
            let words = it.get("words")?.as_array()?.iter();
            words
                .map(|it| it.as_str().map(str::to_owned))
                .collect::<Option<Vec<_>>>()
        });
        match words {
            Some(words) => toml::Value::from(confidential::covered(&words)).to_string(),
            None => "(set)".to_owned(),
        }
    }
}

/// A value as TOML.
#[derive(Clone, PartialEq, Eq)]
pub enum TomlText {
    Open(String),
    Secret(String),
}

impl TomlText {
    /// Of a secret only that it is there.
    pub fn display(&self) -> &str {
        match self {
            Self::Open(text) => text,
            Self::Secret(_) => "(set)",
        }
    }
}

/// Written by hand: it may be a key.
impl std::fmt::Debug for TomlText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.display())
    }
}

/// A key, a table, or a table of tables under names that people choose.
pub trait KeyPart: Default + Clone {
    /// Takes in what stands under `path`.
    fn read(&mut self, path: &str, value: &Spanned<DeValue<'_>>, reader: &mut TableReader);
    /// What `above` says replaces what is said here.
    fn lay_over(&mut self, above: Self);
    fn list(&self, path: &str, entries: &mut Vec<TableEntry>);
    /// Whether what stands under these names may be shown.
    fn may_show(names: &[&str]) -> bool;
    /// All names of keys that may be shown.
    fn open_names(name: &'static str, names: &mut Vec<&'static str>);
}

impl<T: KeyKind> KeyPart for KeyLeaf<T> {
    fn read(&mut self, path: &str, value: &Spanned<DeValue<'_>>, reader: &mut TableReader) {
        let place = reader.place(value.span());
        match T::read(value.get_ref()) {
            Ok(value) => *self = Some(LocatedValue { value, place }),
            Err(misread) => {
                let table = path.rsplit_once('.').map_or("", |(table, _)| table);
                let mut fault = Fault::error(&place, format!("`{path}`: {}", misread.message));
                fault.label = misread.label;
                reader.fault(table, fault);
            }
        }
    }

    fn lay_over(&mut self, above: Self) {
        if above.is_some() {
            *self = above;
        }
    }

    fn list(&self, path: &str, entries: &mut Vec<TableEntry>) {
        if let Some(located) = self {
            let text = located.value.show();
            let value = if T::SECRET {
                TomlText::Secret(text)
            } else {
                TomlText::Open(text)
            };
            entries.push(TableEntry {
                key: path.to_owned(),
                value,
                place: located.place.clone(),
                also: vec![],
            });
        }
    }

    fn may_show(names: &[&str]) -> bool {
        names.is_empty() && !T::SECRET
    }

    fn open_names(name: &'static str, names: &mut Vec<&'static str>) {
        if !T::SECRET {
            names.push(name);
        }
    }
}

impl<P: KeyPart> KeyPart for BTreeMap<String, P> {
    fn read(&mut self, path: &str, value: &Spanned<DeValue<'_>>, reader: &mut TableReader) {
        let Some(table) = table(path, value, reader) else {
            return;
        };
        for (name, value) in table {
            let path = join(path, name.get_ref());
            reader.names.insert(path.clone(), reader.place(name.span()));
            let part = self.entry(name.get_ref().to_string()).or_default();
            part.read(&path, value, reader);
        }
    }

    fn lay_over(&mut self, above: Self) {
        for (name, part) in above {
            self.entry(name).or_default().lay_over(part);
        }
    }

    fn list(&self, path: &str, entries: &mut Vec<TableEntry>) {
        for (name, part) in self {
            part.list(&join(path, name), entries);
        }
    }

    fn may_show(names: &[&str]) -> bool {
        names
            .split_first()
            .is_some_and(|(_, rest)| P::may_show(rest))
    }

    fn open_names(_name: &'static str, names: &mut Vec<&'static str>) {
        P::open_names("", names);
    }
}

/// The value as a table, or a fault.
pub fn table<'a, 'i>(
    path: &str,
    value: &'a Spanned<DeValue<'i>>,
    reader: &mut TableReader,
) -> Option<&'a toml::de::DeTable<'i>> {
    match value.get_ref() {
        DeValue::Table(table) => Some(table),
        other @ (DeValue::String(_)
        | DeValue::Integer(_)
        | DeValue::Float(_)
        | DeValue::Boolean(_)
        | DeValue::Datetime(_)
        | DeValue::Array(_)) => {
            let message = format!("`{path}`: {}", ValueMisread::kind("a table", other).message);
            let fault = Fault::error(&reader.place(value.span()), message);
            reader.fault(path, fault);
            None
        }
    }
}

/// `path.name`, quoted where TOML needs it.
pub fn join(path: &str, name: &str) -> String {
    let bare = !name.is_empty()
        && name
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || it == '_' || it == '-');
    let name = if bare {
        name.to_owned()
    } else {
        toml::Value::from(name).to_string()
    };
    if path.is_empty() {
        name
    } else {
        format!("{path}.{name}")
    }
}

/// Declares tables. The comment of a key is its description in the schema and in `config explain`.
macro_rules! tables {
    ($($(#[$doc:meta])* $name:ident { $($(#[$key_doc:meta])* $key:ident: $part:ty,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Default, schemars::JsonSchema)]
            #[schemars(deny_unknown_fields)]
            pub struct $name {
                $($(#[$key_doc])* #[schemars(default)] pub $key: $part,)*
            }

            impl $name {
                pub const KEYS: &[&str] = &[$(stringify!($key)),*];

                pub fn read_table(
                    &mut self,
                    path: &str,
                    table: &toml::de::DeTable<'_>,
                    reader: &mut $crate::table_reader::TableReader,
                ) {
                    for (key, value) in table {
                        match key.get_ref().as_ref() {
                            $(stringify!($key) => {
                                let path = $crate::table_reader::join(path, stringify!($key));
                                self.$key.read(&path, value, reader);
                            })*
                            _ => reader.unknown(path, key, Self::KEYS),
                        }
                    }
                }
            }

            impl $crate::table_reader::KeyPart for $name {
                fn read(
                    &mut self,
                    path: &str,
                    value: &toml::Spanned<toml::de::DeValue<'_>>,
                    reader: &mut $crate::table_reader::TableReader,
                ) {
                    if let Some(table) = $crate::table_reader::table(path, value, reader) {
                        self.read_table(path, table, reader);
                    }
                }

                fn lay_over(&mut self, above: Self) {
                    $(self.$key.lay_over(above.$key);)*
                }

                fn list(&self, path: &str, entries: &mut Vec<$crate::table_reader::TableEntry>) {
                    $(self.$key.list(&$crate::table_reader::join(path, stringify!($key)), entries);)*
                }

                fn may_show(names: &[&str]) -> bool {
                    match names.split_first() {
                        $(Some((&stringify!($key), rest)) => <$part as $crate::table_reader::KeyPart>::may_show(rest),)*
                        Some((name, rest)) => match $crate::table_reader::nearest(name, Self::KEYS) {
                            // A mistyped name hides what the meant one hides.
                            Some(meant) => Self::may_show(&[&[meant], rest].concat()),
                            None => false,
                        },
                        None => false,
                    }
                }

                fn open_names(_name: &'static str, names: &mut Vec<&'static str>) {
                    $(<$part as $crate::table_reader::KeyPart>::open_names(stringify!($key), names);)*
                }
            }
        )*
    };
}
pub(crate) use tables;

/// In the schema a key is its value.
impl<T: JsonSchema> JsonSchema for LocatedValue<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}
