//! The short form of a schema: fields with words for their kinds. `text = "string"`, `tags = "string[]"`, `note = "string?"`,
//! `times = { type = "integer", default = 1 }`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::keys::JsonTree;
use crate::fault::Fault;
use crate::table_reader::{KeyLeaf, nearest};

const KINDS: [&str; 7] = [
    "string", "integer", "number", "boolean", "object", "array", ANY,
];
const ANY: &str = "any";
/// Lists of lists of lists are schemas that say more in the long form.
const MOST_LISTS: usize = 8;

/// More fields than anybody writes.
const MOST_PLAIN: usize = 1000;

/// Whether nothing is said of the fields that could make of it what is no schema: kinds, and of tables what they say in words.
/// Then it need not be compiled before it is used, which is most of what reading a manifest takes.
pub(super) fn is_plain(fields: &BTreeMap<String, KeyLeaf<JsonTree>>) -> bool {
    let is_plain = |said: &Value| match said {
        Value::String(_) => true,
        Value::Object(said) => said.iter().all(|(key, value)| match key.as_str() {
            "type" | "description" | "title" => value.is_string(),
            "optional" => value.is_boolean(),
            "default" => !value.is_array() && !value.is_object(),
            _ => false,
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => false,
    };
    fields.len() <= MOST_PLAIN && fields.values().flatten().all(|it| is_plain(&it.value.0))
}

/// An object that has these fields and no others. A field may be left out when its kind ends in `?`, when it has a
/// default, or when it says `optional = true`.
pub(super) fn schema(
    fields: &BTreeMap<String, KeyLeaf<JsonTree>>,
    path: &str,
    faults: &mut Vec<Fault>,
) -> Value {
    let mut properties = Map::new();
    let mut required: Vec<&str> = vec![];
    for (name, leaf) in fields {
        let Some(said) = leaf else { continue };
        match field(&said.value.0) {
            Ok(ShortField { schema, optional }) => {
                properties.insert(name.clone(), schema);
                if !optional {
                    required.push(name);
                }
            }
            Err(ShortFieldError { message, label }) => {
                let mut fault = Fault::error(&said.place, format!("`{path}.{name}`: {message}"));
                fault.label = label;
                faults.push(fault);
            }
        }
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

struct ShortField {
    schema: Value,
    optional: bool,
}

struct ShortFieldError {
    message: String,
    label: Option<String>,
}

fn wrong(message: impl Into<String>) -> ShortFieldError {
    ShortFieldError {
        message: message.into(),
        label: None,
    }
}

fn field(said: &Value) -> Result<ShortField, ShortFieldError> {
    match said {
        Value::String(word) => {
            let (word, optional) = match word.strip_suffix('?') {
                Some(word) => (word, true),
                None => (word.as_str(), false),
            };
            let schema = Value::Object(kind(word)?);
            Ok(ShortField { schema, optional })
        }
        Value::Object(said) => {
            let mut optional = said.contains_key("default");
            let mut schema = Map::new();
            for (key, value) in said {
                match (key.as_str(), value) {
                    ("optional", Value::Bool(said)) => optional |= said,
                    ("optional", _) => return Err(wrong("`optional`: expected true or false")),
                    ("type", Value::String(word)) => {
                        let word = word.strip_suffix('?').inspect(|_| optional = true);
                        let word = word.unwrap_or(said["type"].as_str().unwrap_or_default());
                        schema.extend(kind(word)?);
                    }
                    (_, other) => drop(schema.insert(key.clone(), other.clone())),
                }
            }
            Ok(ShortField {
                schema: Value::Object(schema),
                optional,
            })
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            Err(wrong("expected a kind such as \"string\", or a table"))
        }
    }
}

fn kind(word: &str) -> Result<Map<String, Value>, ShortFieldError> {
    let (mut word, mut lists) = (word, 0);
    while let Some(inner) = word.strip_suffix("[]") {
        (word, lists) = (inner, lists + 1);
        if lists > MOST_LISTS {
            return Err(wrong(format!("at most {MOST_LISTS} times []")));
        }
    }
    let mut schema = Map::new();
    if KINDS.contains(&word) {
        if word != ANY {
            schema.insert("type".to_owned(), word.into());
        }
    } else {
        return Err(ShortFieldError {
            message: format!("expected one of {}", KINDS.join(", ")),
            label: nearest(word, &KINDS).map(|it| format!("did you mean `{it}`?")),
        });
    }
    for _ in 0..lists {
        let items = Value::Object(schema);
        schema = Map::from_iter([
            ("type".to_owned(), "array".into()),
            ("items".to_owned(), items),
        ]);
    }
    Ok(schema)
}
