//! YAML as JSON, built event by event: a file can nest no deeper than this allows, and repeats nothing by reference, so that
//! a small file stays small.

use serde_json::{Map, Value};
use yaml_rust2::Yaml;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::TScalarStyle;

const MOST_NESTED: usize = 32;

/// Why it is not read. Nothing of the text is quoted, because what is there may be a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum YamlError {
    #[error("it is no YAML in line {0}")]
    Syntax(usize),
    #[error("it repeats something by a reference (*name) in line {0}, which is not read")]
    Reference(usize),
    #[error("it nests more than {MOST_NESTED} deep in line {0}")]
    Nested(usize),
}

/// What has begun and not ended.
enum OpenNode {
    List(Vec<Value>),
    /// With the name that waits for its value.
    Table(Map<String, Value>, Option<String>),
}

/// The first document of it.
pub(super) fn read(text: &str) -> Result<Value, YamlError> {
    let mut parser = Parser::new_from_str(text);
    let mut open: Vec<OpenNode> = vec![];
    loop {
        let token = parser.next_token();
        let (event, mark) = token.map_err(|error| YamlError::Syntax(error.marker().line()))?;
        let done = match event {
            Event::StreamEnd | Event::DocumentEnd => return Ok(Value::Null),
            Event::Nothing | Event::StreamStart | Event::DocumentStart => continue,
            Event::Alias(_) => return Err(YamlError::Reference(mark.line())),
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() == MOST_NESTED => {
                return Err(YamlError::Nested(mark.line()));
            }
            Event::SequenceStart(..) => {
                open.push(OpenNode::List(vec![]));
                continue;
            }
            Event::MappingStart(..) => {
                open.push(OpenNode::Table(Map::new(), None));
                continue;
            }
            Event::Scalar(text, style, ..) => scalar(text, style),
            Event::SequenceEnd | Event::MappingEnd => match open.pop() {
                Some(OpenNode::List(items)) => Value::Array(items),
                Some(OpenNode::Table(fields, _)) => Value::Object(fields),
                None => return Err(YamlError::Syntax(mark.line())),
            },
        };
        match open.last_mut() {
            None => return Ok(done),
            Some(OpenNode::List(items)) => items.push(done),
            Some(OpenNode::Table(fields, name)) => match name.take() {
                Some(name) => {
                    fields.insert(name, done);
                }
                None => *name = Some(word(done)),
            },
        }
    }
}

fn scalar(text: String, style: TScalarStyle) -> Value {
    if style != TScalarStyle::Plain {
        return Value::String(text);
    }
    match Yaml::from_str(&text) {
        Yaml::Integer(number) => number.into(),
        Yaml::Boolean(truth) => truth.into(),
        Yaml::Null => Value::Null,
        // A number with a point is a version as often.
        _another => Value::String(text),
    }
}

fn word(name: Value) -> String {
    match name {
        Value::String(name) => name,
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_)) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_lists_and_words_are_read() {
        let text =
            "a:\n- 1\n- 'x'\n- ~\nb: {c: true, 5: 1.10}\nd: |\n  two\n  lines\n---\nother: 1\n";
        assert_eq!(
            json!({"a": [1, "x", null], "b": {"c": true, "5": "1.10"}, "d": "two\nlines\n"}),
            read(text).unwrap()
        );
        assert_eq!(Value::Null, read("").unwrap());
        assert_eq!(json!("word"), read("word").unwrap());
    }

    #[test]
    fn what_could_grow_is_refused_without_a_word_of_it() {
        let bomb = "a: &a [s3cret]\nb: &b [*a, *a]\n";
        assert_eq!(Err(YamlError::Reference(2)), read(bomb));
        for deep in ["[".repeat(200), "- ".repeat(100_000)] {
            assert_eq!(Err(YamlError::Nested(1)), read(&deep));
        }
        assert!(read(&"[".repeat(100_000)).is_err());
        let wrong = read("a: [\n  s3cret: }").unwrap_err();
        assert_eq!("it is no YAML in line 2", wrong.to_string());
    }
}
