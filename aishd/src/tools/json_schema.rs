//! Whether a value is as a JSON Schema says that a stranger wrote.
//!
//! Nothing outside the schema is read: no reference leaves it, and no file or network is there to be asked. Patterns run
//! in time linear in their text. A small schema can still ask for endless work, so that is done in a thread which is left
//! behind when its time is over, and there are never more than a few of those.

use std::time::Duration;

use jsonschema::PatternOptions;
use serde_json::Value;
use tokio::sync::{Semaphore, oneshot};

/// Of a schema as JSON (R13).
const MAX_BYTES: usize = 64 << 10;
/// So deep may it be (R13).
const MAX_DEPTH: usize = 32;
/// What one check may take, and wait for its turn.
const WITHIN: Duration = Duration::from_secs(5);
/// Checks that run, or that nobody waits for any more.
const AT_ONCE: usize = 2;
/// So much is told of what does not fit.
const MOST_MISMATCHES: usize = 20;
const MAX_MESSAGE_CHARS: usize = 400;

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// Where a value is not as its schema says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// A JSON Pointer (RFC 6901) into the value; empty: all of it.
    pub path: String,
    pub message: String,
}

/// Why nothing was checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("the schema has {0} bytes, which is more than {MAX_BYTES}")]
    TooLarge(usize),
    #[error("the schema is more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("the schema cannot be used: {0}")]
    Bad(String),
    #[error("checking against this schema takes more than {} s", WITHIN.as_secs())]
    TooSlow,
}

/// What of `value` is not as `schema` says, at most twenty places of it; none: it fits.
pub async fn mismatches(schema: Value, value: Value) -> Result<Vec<Mismatch>, SchemaError> {
    let bytes = schema.to_string().len();
    if bytes > MAX_BYTES {
        return Err(SchemaError::TooLarge(bytes));
    }
    if depth(&schema) > MAX_DEPTH {
        return Err(SchemaError::TooDeep);
    }
    let turn = tokio::time::timeout(WITHIN, TURNS.acquire()).await;
    let Ok(Ok(turn)) = turn else {
        return Err(SchemaError::TooSlow);
    };
    let (tell, told) = oneshot::channel();
    let work = move || {
        let _turn = turn;
        let _nobody_waits = tell.send(check(&schema, &value));
    };
    let thread = std::thread::Builder::new().name("json-schema".to_owned());
    thread
        .spawn(work)
        .map_err(|error| SchemaError::Bad(error.to_string()))?;
    match tokio::time::timeout(WITHIN, told).await {
        Ok(Ok(checked)) => checked,
        Ok(Err(_panic)) => Err(SchemaError::Bad("it breaks the check".to_owned())),
        Err(_elapsed) => Err(SchemaError::TooSlow),
    }
}

fn check(schema: &Value, value: &Value) -> Result<Vec<Mismatch>, SchemaError> {
    let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
    let validator = options
        .build(schema)
        .map_err(|error| SchemaError::Bad(short(&error.to_string())))?;
    let errors = validator.iter_errors(value).take(MOST_MISMATCHES);
    let mismatches = errors.map(|error| Mismatch {
        path: short(error.instance_path().as_str()),
        message: short(&error.to_string()),
    });
    Ok(mismatches.collect())
}

fn short(text: &str) -> String {
    let mut chars = text.chars();
    let mut short: String = chars.by_ref().take(MAX_MESSAGE_CHARS).collect();
    if chars.next().is_some() {
        short.push('…');
    }
    short
}

fn depth(value: &Value) -> usize {
    let inner = match value {
        Value::Array(items) => items.iter().map(depth).max(),
        Value::Object(members) => members.values().map(depth).max(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return 0,
    };
    1 + inner.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: Value, value: Value, expected: &[&str]) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let came = match runtime.block_on(mismatches(schema, value)) {
            Ok(mismatches) => mismatches
                .into_iter()
                .map(|it| format!("{}: {}", it.path, it.message))
                .collect(),
            Err(error) => vec![format!("! {error}")],
        };
        assert_eq!(expected, came);
    }

    #[test]
    fn a_value_fits_or_is_told_where_it_does_not() {
        let schema = json!({
            "type": "object",
            "properties": {"n": {"type": "integer"}, "t": {"pattern": "^a+$"}},
            "required": ["n"],
        });
        check(schema.clone(), json!({"n": 1, "t": "aaa"}), &[]);
        check(
            schema.clone(),
            json!({"n": "x", "t": "b"}),
            &[
                "/n: \"x\" is not of type \"integer\"",
                "/t: \"b\" does not match \"^a+$\"",
            ],
        );
        check(schema, json!({}), &[": \"n\" is a required property"]);
        check(json!(false), json!(1), &[": False schema does not allow 1"]);
    }

    #[test]
    fn what_is_no_schema_or_a_hostile_one_is_an_error() {
        let long = json!({"description": "x".repeat(MAX_BYTES)});
        check(
            long,
            json!(1),
            &["! the schema has 65554 bytes, which is more than 65536"],
        );
        let deep = (0..40).fold(json!(true), |inner, _| json!({"not": inner}));
        check(
            deep,
            json!(1),
            &["! the schema is more than 32 levels deep"],
        );
        for schema in [
            json!({"type": 7}),
            json!({"$ref": "https://example.org/schema.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"pattern": "(a)\\1"}),
        ] {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()
                .unwrap();
            let checked = runtime.block_on(mismatches(schema.clone(), json!("a")));
            assert!(
                matches!(checked, Err(SchemaError::Bad(_))),
                "{schema}: {checked:?}"
            );
        }
    }

    #[test]
    fn a_pattern_that_others_choke_on_is_matched_at_once() {
        let text = format!("{}b", "a".repeat(50_000));
        let message = format!(": \"{}…", "a".repeat(MAX_MESSAGE_CHARS - 1));
        check(json!({"pattern": "^(a+)+$"}), json!(text), &[&message]);
    }
}
