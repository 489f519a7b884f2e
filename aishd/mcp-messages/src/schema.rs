//! JSON schemas of tools: whether they can be used, and whether a value fits. Schemas of servers are hostile: nothing
//! is fetched, expressions take linear time, and a schema that would take long is not used.

use std::collections::HashMap;
use std::fmt;
use std::ops::RangeInclusive;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::bounded_text::one_line;

/// Parts of a schema, each reference counted as what it refers to.
const MAX_PARTS: usize = 20_000;
/// Parts of a schema times parts of a value: what is judged within a moment.
const MAX_STEPS: usize = 20_000_000;
/// Parts within parts, references among them.
const MAX_DEPTH: usize = 100;
/// All expressions of a schema are compiled to so much, shared out evenly.
const MAX_EXPRESSION_BYTES: usize = 4 << 20;
/// One of them has at most so much of it, and at least so much.
const EXPRESSION_BYTES: RangeInclusive<usize> = (16 << 10)..=(1 << 20);
/// So many bytes of a text are judged in the time of one part.
const TEXT_BYTES_A_PART: usize = 64;
/// Of all that does not fit, so much is said.
const MAX_REASONS: usize = 4;
const MAX_REASON_CHARS: usize = 200;

/// Where a value is not as its schema says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaMisfit {
    /// A JSON Pointer (RFC 6901) into the value; empty: all of it.
    pub path: String,
    pub reason: String,
}

/// A schema that can be used.
pub struct Schema {
    validator: Validator,
    parts: usize,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema")
            .field("parts", &self.parts)
            .finish_non_exhaustive()
    }
}

impl Schema {
    /// Compiles it, or says why it cannot be used: it is no schema, refers to something outside of itself or to a part that
    /// holds the reference, or is too large.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let mut all = SchemaParts {
            root: schema,
            known: HashMap::new(),
        };
        let SchemaMeasure {
            parts,
            depth: _,
            expressions,
        } = all.of(schema, 0)?;
        let (least, most) = (*EXPRESSION_BYTES.start(), *EXPRESSION_BYTES.end());
        if expressions > MAX_EXPRESSION_BYTES / least {
            return Err("it has too many expressions".to_owned());
        }
        let share = (MAX_EXPRESSION_BYTES / expressions.max(1)).min(most);
        let expressions = PatternOptions::regex()
            .size_limit(share)
            .dfa_size_limit(share);
        let built = jsonschema::options()
            .with_pattern_options(expressions)
            .should_validate_formats(false)
            .build(schema);
        match built {
            Ok(validator) => Ok(Self { validator, parts }),
            Err(error) => Err(one_line(&error.masked().to_string(), MAX_REASON_CHARS)),
        }
    }

    /// Where a value does not fit, at most `most` places of it; none: it fits. `None`: to judge it would take too long.
    pub fn misfits(&self, value: &Value, most: usize) -> Option<Vec<SchemaMisfit>> {
        if self.parts.saturating_mul(size(value)) > MAX_STEPS {
            return None;
        }
        let wrong = self.validator.iter_errors(value).take(most);
        let misfits = wrong.map(|error| SchemaMisfit {
            path: one_line(error.instance_path().as_str(), MAX_REASON_CHARS),
            reason: one_line(&error.to_string(), MAX_REASON_CHARS),
        });
        Some(misfits.collect())
    }

    /// Why a value does not fit, in a line. A value that would take too long is taken to fit.
    pub fn misfit(&self, value: &Value) -> Option<String> {
        let misfits = self.misfits(value, MAX_REASONS)?;
        let reasons = misfits.iter().map(|SchemaMisfit { path, reason }| {
            let path = if path.is_empty() { "/" } else { path };
            format!("{path}: {reason}")
        });
        let reasons: Vec<String> = reasons.collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }
}

fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
        Value::String(text) => 1 + text.len() / TEXT_BYTES_A_PART,
        Value::Array(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(size).sum::<usize>(),
    }
}

/// Measures a schema, each reference as what it refers to.
struct SchemaParts<'a> {
    root: &'a Value,
    /// By reference; nothing while it is being measured.
    known: HashMap<&'a str, Option<SchemaMeasure>>,
}

#[derive(Clone, Copy)]
struct SchemaMeasure {
    parts: usize,
    /// Who compiles it and who judges by it goes down so far, on a stack.
    depth: usize,
    expressions: usize,
}

impl SchemaMeasure {
    const ONE: Self = Self {
        parts: 1,
        depth: 1,
        expressions: 0,
    };

    /// With a part of it.
    fn with(self, inner: Self) -> Result<Self, String> {
        let sum = Self {
            parts: self.parts.saturating_add(inner.parts),
            depth: self.depth.max(inner.depth + 1),
            expressions: self.expressions.saturating_add(inner.expressions),
        };
        if sum.parts > MAX_PARTS {
            return Err("it is too large".to_owned());
        }
        if sum.depth > MAX_DEPTH {
            return Err("it is too deep".to_owned());
        }
        Ok(sum)
    }
}

impl<'a> SchemaParts<'a> {
    /// `above` is how far down it is.
    fn of(&mut self, value: &'a Value, above: usize) -> Result<SchemaMeasure, String> {
        // Before it goes further down: what refers on and on has no other end.
        if above > MAX_DEPTH {
            return Err("it is too deep".to_owned());
        }
        let mut measure = SchemaMeasure::ONE;
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            Value::Array(items) => {
                for item in items {
                    measure = measure.with(self.of(item, above + 1)?)?;
                }
            }
            Value::Object(fields) => {
                for (name, part) in fields {
                    let inner = match (name.as_str(), part) {
                        ("$ref", Value::String(reference)) => {
                            self.referred(reference, above + 1)?
                        }
                        ("$dynamicRef" | "$recursiveRef", _) => {
                            return Err(format!("{name} is not supported"));
                        }
                        _ => self.of(part, above + 1)?,
                    };
                    measure = measure.with(inner)?;
                    measure.expressions += match (name.as_str(), part) {
                        ("pattern", Value::String(_)) => 1,
                        ("patternProperties", Value::Object(patterns)) => patterns.len(),
                        _ => 0,
                    };
                }
            }
        }
        Ok(measure)
    }

    fn referred(&mut self, reference: &'a str, above: usize) -> Result<SchemaMeasure, String> {
        let shown = || one_line(reference, MAX_REASON_CHARS);
        match self.known.get(reference) {
            Some(Some(measure)) => return Ok(*measure),
            Some(None) => return Err(format!("{} refers to itself", shown())),
            None => {}
        }
        let pointer = reference.strip_prefix('#');
        let pointer = pointer.filter(|it| it.is_empty() || it.starts_with('/'));
        let pointer = pointer.ok_or_else(|| format!("{} is not within the schema", shown()))?;
        let part = self.root.pointer(pointer);
        let part = part.ok_or_else(|| format!("there is nothing at {}", shown()))?;
        self.known.insert(reference, None);
        let measure = self.of(part, above)?;
        self.known.insert(reference, Some(measure));
        Ok(measure)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(schema: &Value, value: &Value, expected: &str) {
        let seen = match Schema::new(schema) {
            Ok(schema) => schema.misfit(value).unwrap_or_default(),
            Err(why) => format!("unusable: {why}"),
        };
        assert_eq!(expected, seen, "{schema} {value}");
    }

    #[test]
    fn what_does_not_fit_is_told_with_its_path() {
        let schema = json!({
            "type": "object",
            "properties": {"text": {"type": "string"}, "times": {"type": "integer", "minimum": 1}},
            "required": ["text"],
            "additionalProperties": false,
        });
        check(&schema, &json!({"text": "a", "times": 2}), "");
        check(&schema, &json!({}), "/: \"text\" is a required property");
        check(
            &schema,
            &json!({"text": 7, "times": 0}),
            "/text: 7 is not of type \"string\"; /times: 0 is less than the minimum of 1",
        );
        check(
            &schema,
            &json!({"text": "a", "name": "b"}),
            "/: Additional properties are not allowed ('name' was unexpected)",
        );
    }

    #[test]
    fn references_within_are_followed_and_others_are_not() {
        let shared = json!({"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}});
        check(
            &shared,
            &json!({"a": "x"}),
            "/a: \"x\" is not of type \"integer\"",
        );
        for (reference, why) in [
            (
                "http://127.0.0.1:1/s.json",
                "unusable: http://127.0.0.1:1/s.json is not within the schema",
            ),
            (
                "file:///etc/passwd",
                "unusable: file:///etc/passwd is not within the schema",
            ),
            ("#", "unusable: # refers to itself"),
            ("#/gone", "unusable: there is nothing at #/gone"),
        ] {
            check(&json!({"$ref": reference}), &json!({}), why);
        }
        let dynamic = json!({"$dynamicRef": "#x"});
        check(
            &dynamic,
            &json!({}),
            "unusable: $dynamicRef is not supported",
        );
    }

    #[test]
    fn what_would_take_for_ever_is_not_begun() {
        let mut definitions = serde_json::Map::new();
        for at in 0..20 {
            let next = format!("#/$defs/d{}", at + 1);
            let twice = json!({"allOf": [{"$ref": next}, {"$ref": next}]});
            definitions.insert(format!("d{at}"), twice);
        }
        definitions.insert("d20".to_owned(), json!({"type": "object"}));
        let doubling = json!({"$defs": definitions, "$ref": "#/$defs/d0"});
        check(&doubling, &json!({}), "unusable: it is too large");
        let slow = json!({"properties": {"a": {"pattern": "^(a+)+$"}}});
        check(&slow, &json!({"a": "a".repeat(100_000)}), "");
        let many = json!({"allOf": vec![json!({"pattern": "a"}); 300]});
        check(&many, &json!("a"), "unusable: it has too many expressions");
        let backwards = json!({"properties": {"a": {"pattern": "(a)\\1"}}});
        assert!(Schema::new(&backwards).is_err());
        let huge = json!({"properties": {"a": {"pattern": "((a{1000}){1000}){1000}"}}});
        assert!(Schema::new(&huge).is_err());
    }

    /// What goes down on a stack has an end, however it is spelled and wherever one begins.
    #[test]
    fn what_is_too_deep_is_not_used() {
        for length in [MAX_DEPTH + 1, 20_000] {
            let mut chain = serde_json::Map::new();
            for at in 0..length {
                let next = json!({"$ref": format!("#/{}", at + 1)});
                chain.insert(at.to_string(), next);
            }
            chain.insert(length.to_string(), json!({"type": "object"}));
            check(&json!(chain), &json!({}), "unusable: it is too deep");
            let mut backwards = serde_json::Map::new();
            for at in 0..length {
                let next = json!({"$ref": format!("#/{:05}", at)});
                backwards.insert(format!("{:05}", at + 1), next);
            }
            backwards.insert("00000".to_owned(), json!({"type": "object"}));
            check(&json!(backwards), &json!({}), "unusable: it is too deep");
        }
        let nested = (0..MAX_DEPTH).fold(json!({}), |inner, _| json!({"not": inner}));
        check(&nested, &json!({}), "unusable: it is too deep");
        let fits = (0..MAX_DEPTH - 2).fold(
            json!({"type": "integer"}),
            |inner, _| json!({"items": inner}),
        );
        check(&fits, &json!(7), "");
    }

    #[test]
    fn a_long_text_is_not_judged_by_many_expressions() {
        let patterns = vec![json!({"pattern": "a.*b"}); 250];
        let schema = Schema::new(&json!({"allOf": patterns})).unwrap();
        assert!(schema.misfits(&json!("a".repeat(4 << 20)), 1).is_none());
        assert!(schema.misfits(&json!("ab"), 1).is_some());
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        let seen = Schema::new(&json!({"type": "strnig"})).unwrap_err();
        assert!(seen.contains("not valid"), "{seen}");
    }
}
