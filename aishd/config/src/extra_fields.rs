//! Fields of requests as a table of the configuration has them: what TOML and JSON both can say.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use super::address::names_a_secret;
use super::table_reader::{KeyKind, ValueMisread};

/// Fields by their names.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExtraFields(pub Map<String, Value>);

impl KeyKind for ExtraFields {
    fn read(value: &DeValue<'_>) -> Result<Self, ValueMisread> {
        match value.as_table() {
            Some(table) => fields(table).map(Self),
            None => Err(ValueMisread::kind("a table", value)),
        }
    }

    fn show(&self) -> String {
        shown(&Value::Object(self.0.clone()))
    }
}

impl JsonSchema for ExtraFields {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ExtraFields".into()
    }

    fn json_schema(_generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object" })
    }
}

fn fields(table: &DeTable<'_>) -> Result<Map<String, Value>, ValueMisread> {
    let fields = table.iter();
    fields
        .map(|(name, value)| Ok((name.get_ref().to_string(), json(value.get_ref())?)))
        .collect()
}

fn json(value: &DeValue<'_>) -> Result<Value, ValueMisread> {
    let unlike = || ValueMisread::kind("what JSON can say", value);
    Ok(match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(flag) => Value::from(*flag),
        DeValue::Integer(number) => {
            let (text, radix) = (number.as_str(), number.radix());
            let signed = i64::from_str_radix(text, radix).map(Number::from);
            let number = signed.or_else(|_| u64::from_str_radix(text, radix).map(Number::from));
            Value::Number(number.map_err(|_| unlike())?)
        }
        DeValue::Float(number) => {
            let number: Option<f64> = number.as_str().parse().ok();
            let number = number.and_then(Number::from_f64);
            Value::Number(number.ok_or_else(unlike)?)
        }
        DeValue::Array(items) => {
            let items = items.iter().map(|it| json(it.get_ref()));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        DeValue::Table(table) => Value::Object(fields(table)?),
        DeValue::Datetime(_) => return Err(unlike()),
    })
}

/// As TOML on one line.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| {
                // No place for keys, and somebody may have put one there.
                let value = match value {
                    Value::String(_) if names_a_secret(name) => "\"***\"".to_owned(),
                    value => shown(value),
                };
                format!("{} = {value}", super::table_reader::join("", name))
            });
            let fields: Vec<String> = fields.collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(shown).collect();
            format!("[{}]", items.join(", "))
        }
        Value::String(text) => toml::Value::from(text.as_str()).to_string(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}
