//! The words of a definition, as a model reads them: without what nobody sees. What a call is compared with is never changed,
//! because the call would fail then; a definition that hides something there is none.

use aishd_log::invisible_characters::{any_hides, hides, without_hidden};
use serde_json::Value;

/// Keywords whose texts a call is compared with, or which name another place.
const COMPARED: [&str; 14] = [
    "$anchor",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$ref",
    "$schema",
    "const",
    "default",
    "dependentRequired",
    "enum",
    "format",
    "pattern",
    "required",
    "type",
];

/// Takes them out of one text; returns how many there were.
pub(super) fn clean(text: &mut String) -> usize {
    let (cleaned, count) = without_hidden(text);
    if count > 0 {
        *text = cleaned;
    }
    count
}

/// The same for all texts of a schema or of annotations that are for whoever reads them. Their depth is bounded.
pub(super) fn clean_all(value: &mut Value) -> Result<usize, String> {
    match value {
        Value::String(text) => Ok(clean(text)),
        Value::Array(items) => items.iter_mut().map(clean_all).sum(),
        Value::Object(fields) => {
            let mut count = 0;
            for (key, value) in fields {
                if key.chars().any(|it| it.is_control() || hides(it)) {
                    return Err(format!("nobody sees all of its argument {key:?}"));
                }
                // `properties` has arguments of all names, and their values are no texts.
                let is_compared = COMPARED.contains(&key.as_str()) && !value.is_object();
                if !is_compared {
                    count += clean_all(value)?;
                } else if any_hides(value) {
                    return Err(format!("nobody sees all of its {key:?}"));
                }
            }
            Ok(count)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(mut value: Value, expected: Result<(usize, Value), &str>) {
        match (clean_all(&mut value), expected) {
            (Ok(count), Ok(expected)) => assert_eq!(expected, (count, value)),
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (got, expected) => panic!("{got:?} instead of {expected:?}"),
        }
    }

    #[test]
    fn every_word_is_cleaned_wherever_it_stands() {
        check(
            json!({
                "type": "object",
                "title": "A\u{200b}b",
                "$comment": "c\u{1b}[8m",
                "x-note": ["say\u{e0041}", {"deep": "er\u{202e}"}],
                "examples": ["a\u{2066}"],
                "properties": {
                    "enum": {"type": "string", "description": "d\u{feff}", "enum": ["❤\u{fe0f}", "\n"]},
                    "description": {"description": "e\u{ad}"},
                },
            }),
            Ok((
                7,
                json!({
                    "type": "object",
                    "title": "Ab",
                    "$comment": "c[8m",
                    "x-note": ["say", {"deep": "er"}],
                    "examples": ["a"],
                    "properties": {
                        "enum": {"type": "string", "description": "d", "enum": ["❤\u{fe0f}", "\n"]},
                        "description": {"description": "e"},
                    },
                }),
            )),
        );
    }

    #[test]
    fn what_calls_are_compared_with_hides_nothing() {
        for (schema, part) in [
            (
                json!({"properties": {"pa\u{e0041}th": {}}}),
                "argument \"pa",
            ),
            (json!({"properties": {"a\u{1b}": {}}}), "argument \"a"),
            (
                json!({"properties": {"a": {"enum": ["x\u{200b}"]}}}),
                "\"enum\"",
            ),
            (
                json!({"properties": {"a": {"const": {"k\u{202e}": 1}}}}),
                "argument",
            ),
            (json!({"required": ["x\u{feff}"]}), "\"required\""),
            (json!({"default": "\u{1b}[8mhidden"}), "\"default\""),
        ] {
            check(schema, Err(part));
        }
        let delimiters = json!({"pattern": "[^\u{0}-\u{1f}]*", "default": "\u{1e}"});
        check(delimiters.clone(), Ok((0, delimiters)));
    }
}
