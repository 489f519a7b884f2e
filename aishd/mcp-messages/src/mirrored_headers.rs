//! Arguments that a tool wants repeated in headers (`x-mcp-header`, revision 2026-07-28).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Value};

const ANNOTATION: &str = "x-mcp-header";
const OPENING: &str = "=?base64?";
const CLOSING: &str = "?=";

/// Keywords whose value is a schema, a list of them or a table of them; an annotation below them names no argument.
const ELSEWHERE: [&str; 22] = [
    "$defs",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "definitions",
    "dependencies",
    "dependentSchemas",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "patternProperties",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
    "extends",
];

/// One argument and the header that repeats it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirroredArgument {
    /// Names of properties, from the outside in.
    pub path: Vec<String>,
    /// What follows `Mcp-Param-`.
    pub name: String,
}

/// The annotated arguments of a schema; a tool with a wrong annotation is to be left out.
pub(super) fn find(schema: &Value) -> Result<Vec<MirroredArgument>, String> {
    let mut found = vec![];
    walk(schema, Some(&mut vec![]), &mut found)?;
    Ok(found)
}

/// `path` is `None` below anything but `properties`.
fn walk(
    schema: &Value,
    path: Option<&mut Vec<String>>,
    found: &mut Vec<MirroredArgument>,
) -> Result<(), String> {
    let Value::Object(keywords) = schema else {
        return Ok(());
    };
    if let Some(name) = keywords.get(ANNOTATION) {
        let path = path.as_deref().filter(|it| !it.is_empty());
        let path = path.ok_or_else(|| format!("{ANNOTATION} stands where no argument is"))?;
        add(name, keywords, path, found)?;
    }
    if let Some(path) = path
        && let Some(Value::Object(properties)) = keywords.get("properties")
    {
        for (name, property) in properties {
            path.push(name.clone());
            walk(property, Some(path), found)?;
            path.pop();
        }
    } else if let Some(properties) = keywords.get("properties") {
        each_below(properties, found)?;
    }
    for keyword in ELSEWHERE {
        if let Some(below) = keywords.get(keyword) {
            walk(below, None, found)?;
            each_below(below, found)?;
        }
    }
    Ok(())
}

fn each_below(value: &Value, found: &mut Vec<MirroredArgument>) -> Result<(), String> {
    crate::tool::children(value)
        .into_iter()
        .try_for_each(|it| walk(it, None, found))
}

fn add(
    name: &Value,
    keywords: &Map<String, Value>,
    path: &[String],
    found: &mut Vec<MirroredArgument>,
) -> Result<(), String> {
    let name = name.as_str().unwrap_or_default();
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("{ANNOTATION} {name:?} is no name of a header"));
    }
    if !is_plain(keywords.get("type")) {
        return Err(format!(
            "{ANNOTATION} {name:?} is on an argument that is no string, integer or boolean"
        ));
    }
    if found.iter().any(|it| it.name.eq_ignore_ascii_case(name)) {
        return Err(format!("{ANNOTATION} {name:?} is given twice"));
    }
    found.push(MirroredArgument {
        path: path.to_vec(),
        name: name.to_owned(),
    });
    Ok(())
}

/// RFC 9110, 5.6.2.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

fn is_plain(kind: Option<&Value>) -> bool {
    let one = |it: &Value| matches!(it.as_str(), Some("string" | "integer" | "boolean"));
    match kind {
        Some(Value::Array(kinds)) => {
            let mut said = kinds.iter().filter(|it| it.as_str() != Some("null"));
            kinds.iter().any(one) && said.all(one)
        }
        Some(kind) => one(kind),
        None => false,
    }
}

/// The header's value for a call with these arguments; none when the argument is absent or null.
pub fn value(mirrored: &MirroredArgument, arguments: &Map<String, Value>) -> Option<String> {
    let (first, rest) = mirrored.path.split_first()?;
    let found = rest
        .iter()
        .try_fold(arguments.get(first)?, |at, name| at.get(name))?;
    match found {
        Value::String(text) => Some(encoded(text)),
        Value::Bool(said) => Some(said.to_string()),
        Value::Number(number) => Some(number.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A text as it may stand in a header: as it is, or in base64 where it would not arrive as it is.
pub fn encoded(text: &str) -> String {
    let plain = text.bytes().all(|it| (b' '..=b'~').contains(&it))
        && text.trim_matches(' ') == text
        && !(text.starts_with(OPENING) && text.ends_with(CLOSING));
    if plain {
        text.to_owned()
    } else {
        format!("{OPENING}{}{CLOSING}", BASE64_STANDARD.encode(text))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    #[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
    fn check(schema: Value, expected: Result<&[&str], &str>) {
        let found = find(&schema);
        match (found, expected) {
            (Ok(found), Ok(expected)) => {
                let seen: Vec<String> = found
                    .iter()
                    .map(|it| format!("{}={}", it.name, it.path.join(".")))
                    .collect();
                assert_eq!(expected, seen);
            }
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (found, expected) => panic!("{found:?} instead of {expected:?}"),
        }
    }

    #[expect(clippy::needless_pass_by_value, reason = "cases are written as values")]
    fn one(property: Value) -> Value {
        json!({"type": "object", "properties": {"a": property}})
    }

    #[test]
    fn annotations_are_found_along_properties_only() {
        check(
            one(json!({"type": "string", "x-mcp-header": "Region"})),
            Ok(&["Region=a"]),
        );
        check(
            one(json!({"properties": {"b": {"type": ["integer", "null"], "x-mcp-header": "B"}}})),
            Ok(&["B=a.b"]),
        );
        check(
            json!({"properties": {"x-mcp-header": {"type": "string"}}}),
            Ok(&[]),
        );
        check(one(json!({"default": {"x-mcp-header": "No"}})), Ok(&[]));
        for name in ["", "My Region", "A:B", "é", "a\r\nb"] {
            check(
                one(json!({"type": "string", "x-mcp-header": name})),
                Err("no name of a header"),
            );
        }
        for kind in [
            json!("number"),
            json!("object"),
            json!("null"),
            json!(["string", "number"]),
        ] {
            check(
                one(json!({"type": kind, "x-mcp-header": "A"})),
                Err("is on an argument"),
            );
        }
        check(one(json!({"x-mcp-header": "A"})), Err("is on an argument"));
        check(
            json!({"properties": {
                "a": {"type": "string", "x-mcp-header": "MyField"},
                "b": {"type": "string", "x-mcp-header": "myfield"},
            }}),
            Err("twice"),
        );
        let annotated = json!({"type": "string", "x-mcp-header": "A"});
        check(annotated.clone(), Err("no argument is"));
        check(one(json!({"items": annotated})), Err("no argument is"));
        check(one(json!({"anyOf": [annotated]})), Err("no argument is"));
        check(json!({"$defs": {"d": annotated}}), Err("no argument is"));
        let below = json!({"properties": {"b": annotated}});
        check(one(json!({"items": below})), Err("no argument is"));
    }

    #[test]
    fn values_arrive_as_they_were() {
        let arguments = json!({"s": "us west 1", "n": 42, "b": false, "z": null, "o": {"p": " x"}});
        let arguments = arguments.as_object().unwrap();
        let check = |path: &[&str], expected: Option<&str>| {
            let path = path.iter().map(|it| (*it).to_owned()).collect();
            let name = "N".to_owned();
            let seen = value(&MirroredArgument { path, name }, arguments);
            assert_eq!(expected, seen.as_deref());
        };
        check(&["s"], Some("us west 1"));
        check(&["n"], Some("42"));
        check(&["b"], Some("false"));
        check(&["z"], None);
        check(&["gone"], None);
        check(&["o", "p"], Some("=?base64?IHg=?="));
        assert_eq!("", encoded(""));
        for text in ["é", "a\nb", "\tx", "x ", "=?base64?QQ==?="] {
            assert!(encoded(text).starts_with(OPENING), "{text:?}");
        }
    }
}
