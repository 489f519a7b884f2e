//! The JSON schema of a configuration file, made from the keys: editors complete and check with it, and `config explain`
//! prints from it.

use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Value, json};
use toml::de::DeTable;

use super::keys::{DEFAULTS, File};

/// The schema as one document, draft 7, as editors of TOML want it.
pub fn document() -> Value {
    let generator = SchemaSettings::draft07()
        .with(|it| it.inline_subschemas = true)
        .into_generator();
    let mut schema = generator.into_root_schema_for::<File>().to_value();
    strip(&mut schema);
    let defaults: Value = toml::from_str(DEFAULTS).unwrap_or_default();
    set_defaults(&mut schema, &defaults);
    if let Some(top) = schema.as_object_mut() {
        top.insert("title".to_owned(), json!("aish configuration"));
    }
    schema
}

/// There is no null in TOML, and a key that may be left out is not required anyway: with these branches an editor would
/// underline a whole table for one wrong value. Empty defaults say nothing.
fn strip(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.remove("default");
            if let Some(Value::Array(types)) = object.get_mut("type") {
                types.retain(|it| it != "null");
                if let [one] = &types[..] {
                    let one = one.clone();
                    object.insert("type".to_owned(), one);
                }
            }
            if let Some(Value::Array(words)) = object.get_mut("enum") {
                words.retain(|it| !it.is_null());
            }
            if let Some(Value::Array(mut branches)) = object.remove("anyOf") {
                branches.retain(|it| it != &json!({ "type": "null" }));
                match branches.pop() {
                    Some(Value::Object(only)) if branches.is_empty() => {
                        for (key, value) in only {
                            object.entry(key).or_insert(value);
                        }
                    }
                    last => {
                        branches.extend(last);
                        object.insert("anyOf".to_owned(), Value::Array(branches));
                    }
                }
            }
            for (key, value) in object.iter_mut() {
                // Names of keys, of which one may be `default`.
                match value.as_object_mut().filter(|_| key == "properties") {
                    Some(keys) => keys.values_mut().for_each(strip),
                    None => strip(value),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(strip),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn set_defaults(schema: &mut Value, defaults: &Value) {
    match (defaults, schema.pointer_mut("/properties")) {
        (Value::Object(defaults), Some(Value::Object(properties))) => {
            for (key, value) in defaults {
                if let Some(property) = properties.get_mut(key) {
                    set_defaults(property, value);
                }
            }
        }
        (value, _) => {
            if let Some(object) = schema.as_object_mut() {
                object.insert("default".to_owned(), value.clone());
            }
        }
    }
}

/// What is known of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyDescription {
    /// `<NAME>` in the place of a name that people choose.
    pub key: String,
    pub description: String,
    /// What it takes, in words.
    pub takes: String,
    /// As TOML.
    pub default: Option<String>,
    /// The keys of a table.
    pub keys: Vec<String>,
}

/// Explains a key, or lists the nearest that there are.
pub fn explain(key: &str) -> Result<KeyDescription, Option<String>> {
    let schema = document();
    let names = split(key).ok_or(None)?;
    let mut at = &schema;
    let mut path: Vec<String> = vec![];
    for name in &names {
        if let Some(property) = at.get("properties").and_then(|it| it.get(name)) {
            at = property;
            path.push(name.clone());
        } else if let Some(free) = at.get("additionalProperties").filter(|it| it.is_object()) {
            at = free;
            path.push("NAME".to_owned());
        } else {
            let known = keys_of(at);
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let meant = super::table_reader::nearest(name, &known);
            let meant = meant.map(|it| {
                path.iter()
                    .map(String::as_str)
                    .chain([it])
                    .collect::<Vec<_>>()
                    .join(".")
            });
            return Err(meant);
        }
    }
    Ok(describe(path.join("."), at))
}

/// The file as a whole.
pub fn top() -> KeyDescription {
    describe(String::new(), &document())
}

fn describe(key: String, at: &Value) -> KeyDescription {
    let text = |key: &str| at.get(key).and_then(Value::as_str).unwrap_or_default();
    let default = at
        .get("default")
        .and_then(|it| toml::Value::try_from(it).ok());
    KeyDescription {
        key,
        description: text("description").replace('\n', " "),
        takes: value_text(at),
        default: default.map(|it| it.to_string()),
        keys: keys_of(at),
    }
}

/// The names of a dotted key; quoted ones may have dots.
fn split(key: &str) -> Option<Vec<String>> {
    let text = format!("{key} = 0");
    let tree = DeTable::parse(&text).ok()?;
    let mut names = vec![];
    let mut table = tree.get_ref();
    loop {
        let (name, value) = table.iter().next()?;
        names.push(name.get_ref().to_string());
        match value.get_ref().as_table() {
            Some(below) => table = below,
            None => return Some(names),
        }
    }
}

fn keys_of(schema: &Value) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    properties
        .map(|it| it.keys().cloned().collect())
        .unwrap_or_default()
}

/// What a schema allows, in words.
fn value_text(schema: &Value) -> String {
    if let Some(words) = schema.get("enum").and_then(Value::as_array) {
        let words: Vec<String> = words.iter().map(Value::to_string).collect();
        return format!("one of {}", words.join(", "));
    }
    let kind = schema
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let range = match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) if least == most => format!(", only {least}"),
        (Some(least), Some(most)) => format!(" from {least} to {most}"),
        _ => String::new(),
    };
    match kind {
        "string" if schema.get("pattern").is_some() => {
            r#"a time such as "250ms", "5s" or "10m""#.to_owned()
        }
        "string" => "a text".to_owned(),
        "boolean" => "true or false".to_owned(),
        "array" => "a list of texts".to_owned(),
        "integer" => format!("a whole number{range}"),
        "number" => format!("a number{range}"),
        "object" if free(schema) => "a table; its names are yours to choose".to_owned(),
        _ => "a table".to_owned(),
    }
}

fn free(schema: &Value) -> bool {
    schema
        .get("additionalProperties")
        .is_some_and(Value::is_object)
}

/// The schema as it is committed.
pub fn text() -> String {
    let mut text = serde_json::to_string_pretty(&document()).unwrap_or_default();
    text.push('\n');
    text
}
