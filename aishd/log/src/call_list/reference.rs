//! Results of earlier calls among the arguments of later ones: `{"$result": "<id>"}`, which is the result's text, or
//! `{"$result": "<id>", "pointer": "/a/0"}`, which is a part of a result that is JSON (RFC 6901).
//!
//! They are found in what was written and nowhere else: what a tool answers is put in as it is, so that no server can
//! name the results of another one.

use std::fmt;

use serde_json::{Map, Value};

use super::MAX_ARGUMENT_BYTES;

const MARK: &str = "$result";
const POINTER: &str = "pointer";

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultReference {
    place: ArgumentPosition,
    pub id: String,
    pointer: Option<String>,
}

/// Where in the arguments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ArgumentPosition(Vec<ArgumentKey>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ArgumentKey {
    Member(String),
    Index(usize),
}

#[derive(Debug, thiserror::Error)]
#[error("{place}: {what}")]
pub(super) struct BadReference {
    place: ArgumentPosition,
    what: &'static str,
}

impl fmt::Display for ArgumentPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("arguments")?;
        self.0.iter().try_for_each(|it| match it {
            ArgumentKey::Member(name) => write!(f, ".{name}"),
            ArgumentKey::Index(index) => write!(f, "[{index}]"),
        })
    }
}

/// An id as JSON-RPC writes it: a text, or a whole number, which is the text of its digits.
pub(super) fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) if number.is_i64() || number.is_u64() => Some(number.to_string()),
        Value::Number(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            None
        }
    }
}

/// All of them, wherever they stand.
pub(super) fn all(arguments: &Map<String, Value>) -> Result<Vec<ResultReference>, BadReference> {
    let mut found = vec![];
    if arguments.contains_key(MARK) {
        let what = "a result is put into a member of it, and cannot be the whole";
        let place = ArgumentPosition::default();
        return Err(BadReference { place, what });
    }
    members(arguments, &mut ArgumentPosition::default(), &mut found)?;
    Ok(found)
}

fn members(
    object: &Map<String, Value>,
    place: &mut ArgumentPosition,
    found: &mut Vec<ResultReference>,
) -> Result<(), BadReference> {
    for (name, value) in object {
        place.0.push(ArgumentKey::Member(name.clone()));
        look(value, place, found)?;
        place.0.pop();
    }
    Ok(())
}

fn look(
    value: &Value,
    place: &mut ArgumentPosition,
    found: &mut Vec<ResultReference>,
) -> Result<(), BadReference> {
    match value {
        Value::Object(object) if object.contains_key(MARK) => {
            let read = read(object).map_err(|what| BadReference {
                place: place.clone(),
                what,
            });
            let (id, pointer) = read?;
            let place = place.clone();
            found.push(ResultReference { place, id, pointer });
            Ok(())
        }
        Value::Object(object) => members(object, place, found),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                place.0.push(ArgumentKey::Index(index));
                look(item, place, found)?;
                place.0.pop();
            }
            Ok(())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn read(object: &Map<String, Value>) -> Result<(String, Option<String>), &'static str> {
    let id = object.get(MARK).and_then(id);
    let id = id.ok_or("\"$result\" has to be the id of a call")?;
    if object.keys().any(|it| it != MARK && it != POINTER) {
        return Err("beside \"$result\" there can only be \"pointer\"");
    }
    match object.get(POINTER) {
        None => Ok((id, None)),
        Some(Value::String(pointer)) if pointer.is_empty() || pointer.starts_with('/') => {
            Ok((id, Some(pointer.clone())))
        }
        Some(_) => Err("\"pointer\" is \"\" or begins with a slash, like /items/0"),
    }
}

impl ResultReference {
    /// What it stands for, where the call it names gave this.
    pub fn value(&self, result: &str) -> Result<Value, String> {
        let Some(pointer) = &self.pointer else {
            return fitting(result.len()).map(|()| Value::String(result.to_owned()));
        };
        let whole: Value = serde_json::from_str(result)
            .map_err(|error| format!("the result of {:?} is not JSON: {error}", self.id))?;
        let part = whole
            .pointer(pointer)
            .ok_or_else(|| format!("the result of {:?} has nothing at {pointer:?}", self.id))?;
        fitting(part.to_string().len())?;
        Ok(part.clone())
    }

    /// Puts the value in its place.
    pub fn put(&self, value: Value, arguments: &mut Map<String, Value>) {
        let mut keys = self.place.0.iter();
        let Some(ArgumentKey::Member(first)) = keys.next() else {
            return;
        };
        let mut at = arguments.get_mut(first);
        for key in keys {
            at = match (key, at) {
                (ArgumentKey::Member(name), Some(Value::Object(object))) => object.get_mut(name),
                (ArgumentKey::Index(index), Some(Value::Array(items))) => items.get_mut(*index),
                (ArgumentKey::Member(_) | ArgumentKey::Index(_), _) => None,
            };
        }
        if let Some(at) = at {
            *at = value;
        }
    }
}

/// Whether so much fits into the arguments of one call.
pub fn fitting(bytes: usize) -> Result<(), String> {
    if bytes <= MAX_ARGUMENT_BYTES {
        return Ok(());
    }
    Err(format!(
        "its arguments would be {bytes} bytes or more with the results in them; at most {MAX_ARGUMENT_BYTES} are taken"
    ))
}
