//! A list to which every layer adds: what one layer says is taken back by no other.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use toml::Spanned;
use toml::de::DeValue;

use super::source::SourcePlace;
use super::table_reader::{
    KeyKind as _, KeyLeaf, KeyPart, LocatedValue, TableEntry, TableReader, TomlText,
};

/// What each layer said, the lowest first.
#[derive(Clone, Debug, Default)]
pub struct MergedList(Vec<LocatedValue<Vec<String>>>);

impl MergedList {
    /// Every item, with the list that it stands in.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &SourcePlace)> {
        self.0.iter().flat_map(|layer| {
            let items = layer.value.iter();
            items.map(|it| (it.as_str(), &layer.place))
        })
    }
}

impl KeyPart for MergedList {
    fn read(&mut self, path: &str, value: &Spanned<DeValue<'_>>, reader: &mut TableReader) {
        let mut leaf: KeyLeaf<Vec<String>> = None;
        leaf.read(path, value, reader);
        self.0.extend(leaf);
    }

    fn lay_over(&mut self, above: Self) {
        self.0.extend(above.0);
    }

    fn list(&self, path: &str, entries: &mut Vec<TableEntry>) {
        let mut items: Vec<String> = vec![];
        for (item, _) in self.iter() {
            if !items.iter().any(|it| it == item) {
                items.push(item.to_owned());
            }
        }
        let mut places = self.0.iter().filter(|it| !it.value.is_empty());
        let Some(place) = places.next_back().or(self.0.last()) else {
            return;
        };
        entries.push(TableEntry {
            key: path.to_owned(),
            value: TomlText::Open(items.show()),
            place: place.place.clone(),
            also: places.map(|it| it.place.clone()).collect(),
        });
    }

    fn may_show(names: &[&str]) -> bool {
        names.is_empty()
    }

    fn open_names(name: &'static str, names: &mut Vec<&'static str>) {
        names.push(name);
    }
}

/// In the schema it is one layer's list.
impl JsonSchema for MergedList {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Joined".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Vec::<String>::json_schema(generator)
    }
}
