//! JSON with placeholders, as `docs/PROTOCOL.md` shows exchanges: `"<time>"` stands for any time, and
//! `"<turn>"` for one turn, the same wherever the document says it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value};
use ulid::Ulid;

/// Placeholders that stand for any value of their form, another one each time.
const FORMS: [(&str, Form); 7] = [
    ("<ulid>", |it| it.as_str().is_some_and(is_ulid)),
    ("<time>", |it| it.as_str().is_some_and(is_time)),
    ("<day>", |it| it.as_str().is_some_and(is_day)),
    ("<n>", Value::is_number),
    ("<text>", Value::is_string),
    ("<path>", |it| {
        it.as_str().is_some_and(|it| it.starts_with('/'))
    }),
    ("<any>", |_any| true),
];

type Form = fn(&Value) -> bool;

/// Numbers that are different in each run, by the name of their field.
const CHANGING_NUMBERS: [&str; 7] = [
    "pid",
    "uid",
    "ms",
    "timeMs",
    "waitedMs",
    "connectMs",
    "journalBytes",
];

/// Texts that are different in each build or on each machine, by the name of their field.
const CHANGING_TEXTS: [(&str, &str); 10] = [
    ("day", "<day>"),
    ("since", "<day>"),
    ("digest", "<text>"),
    ("hash", "<text>"),
    ("head", "<text>"),
    ("sealed", "<text>"),
    ("detail", "<text>"),
    ("version", "<text>"),
    ("hint", "<text>"),
    ("endpoint", "<text>"),
];

/// What the placeholders that are names stand for.
#[derive(Clone, Debug, Default)]
pub struct Names {
    values: BTreeMap<String, Value>,
}

impl Names {
    /// Gives a name to a value, so that the document can say it.
    pub fn bind(&mut self, name: &str, value: Value) {
        self.values.insert(format!("<{name}>"), value);
    }

    /// Puts the values in for the names of a line that is to be sent. Text around a name stays.
    #[track_caller]
    pub fn fill(&self, line: &str) -> String {
        let mut filled = line.to_owned();
        for (name, value) in &self.values {
            let plain = value.as_str().map(str::to_owned);
            if plain.is_none() {
                filled = filled.replace(&format!("\"{name}\""), &value.to_string());
            }
            filled = filled.replace(name, &plain.unwrap_or_else(|| value.to_string()));
        }
        if let Some(at) = filled.find("\"<") {
            let name = filled[at + 1..].split('>').next().unwrap_or_default();
            panic!("nothing before this line gave a value to {name}>: {line}");
        }
        filled
    }

    /// Whether the value is what the pattern says. New names take the values that stand in their place, also
    /// when the whole does not match. The error says where they part.
    pub fn matches(&mut self, pattern: &Value, value: &Value) -> Result<(), String> {
        self.at("", pattern, value)
    }

    fn at(&mut self, place: &str, pattern: &Value, value: &Value) -> Result<(), String> {
        match (pattern, value) {
            (Value::String(name), _) if name.starts_with('<') && name.ends_with('>') => {
                self.placeholder(place, name, value)
            }
            (Value::Object(fields), Value::Object(real)) => {
                for (name, pattern) in fields {
                    let Some(value) = real.get(name) else {
                        return Err(format!("{place}.{name} is missing"));
                    };
                    self.at(&format!("{place}.{name}"), pattern, value)?;
                }
                match real.keys().find(|it| !fields.contains_key(*it)) {
                    Some(name) => Err(format!("{place}.{name} is not in the document")),
                    None => Ok(()),
                }
            }
            (Value::Array(items), Value::Array(real)) if items.len() == real.len() => {
                for (at, (pattern, value)) in items.iter().zip(real).enumerate() {
                    self.at(&format!("{place}[{at}]"), pattern, value)?;
                }
                Ok(())
            }
            (_, _) if pattern == value => Ok(()),
            (Value::String(pattern), Value::String(value)) if pattern.contains(" <") => {
                self.words(place, pattern, value)
            }
            (_, _) => Err(format!("{place} should be {pattern} and is {value}")),
        }
    }

    /// A text with names in it, each a word of its own.
    fn words(&mut self, place: &str, pattern: &str, value: &str) -> Result<(), String> {
        let count = |it: &str| it.split_whitespace().count();
        if count(pattern) != count(value) {
            return Err(format!("{place} should be {pattern} and is {value}"));
        }
        for (pattern, value) in pattern.split_whitespace().zip(value.split_whitespace()) {
            self.at(place, &pattern.into(), &value.into())?;
        }
        Ok(())
    }

    fn placeholder(&mut self, place: &str, name: &str, value: &Value) -> Result<(), String> {
        if let Some((_, fits)) = FORMS.iter().find(|(it, _)| *it == name) {
            return if fits(value) {
                Ok(())
            } else {
                Err(format!("{place} should be {name} and is {value}"))
            };
        }
        match self.values.get(name) {
            Some(known) if known == value => Ok(()),
            Some(known) => Err(format!("{place} should be {name}, {known}, and is {value}")),
            None => {
                self.values.insert(name.to_owned(), value.clone());
                Ok(())
            }
        }
    }

    /// Takes the values of the names in a pattern as far as the shapes agree.
    pub fn harvest(&mut self, pattern: &Value, value: &Value) {
        match (pattern, value) {
            (Value::String(name), _) if name.starts_with('<') && name.ends_with('>') => {
                drop(self.placeholder("", name, value));
            }
            (Value::Object(fields), Value::Object(_)) => {
                for (name, pattern) in fields {
                    self.harvest(pattern, &value[name]);
                }
            }
            (Value::Array(items), Value::Array(real)) => {
                for (pattern, value) in items.iter().zip(real) {
                    self.harvest(pattern, value);
                }
            }
            (_, _) => {}
        }
    }

    /// The value as the document should show it: names for what has one, new names for new identities, forms
    /// for what differs from run to run.
    pub fn normalise(&mut self, value: &Value) -> Value {
        self.shown("", value)
    }

    fn shown(&mut self, field: &str, value: &Value) -> Value {
        match value {
            Value::Object(fields) => {
                let shown: Map<String, Value> = fields
                    .iter()
                    .map(|(name, value)| (name.clone(), self.shown(name, value)))
                    .collect();
                Value::Object(shown)
            }
            Value::Array(items) => items.iter().map(|it| self.shown(field, it)).collect(),
            Value::Number(_) if CHANGING_NUMBERS.contains(&field) => "<n>".into(),
            Value::String(text) => Value::String(self.shown_text(field, text)),
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }

    fn shown_text(&mut self, field: &str, text: &str) -> String {
        let known = |(name, known): (&String, &Value)| (known == text).then(|| name.clone());
        if let Some(name) = self.values.iter().find_map(known) {
            return name;
        }
        if is_time(text) {
            return "<time>".to_owned();
        }
        if let Some((_, form)) = CHANGING_TEXTS.iter().find(|(it, _)| *it == field)
            && (*form != "<day>" || is_day(text))
        {
            return (*form).to_owned();
        }
        if text.starts_with("/tmp/") {
            return "<path>".to_owned();
        }
        if is_server_here(text) {
            return "<text>".to_owned();
        }
        if !is_ulid(text) {
            let mut shown = text.to_owned();
            for (name, value) in &self.values {
                if let Some(value) = value.as_str().filter(|it| is_ulid(it)) {
                    shown = shown.replace(value, name);
                }
            }
            return shown;
        }
        let stem = match field {
            "" | "id" => "conversation",
            "clientId" => "client",
            other => other,
        };
        let mut name = format!("<{stem}>");
        let mut nth = 2;
        while self.values.contains_key(&name) {
            name.clear();
            write!(name, "<{stem}{nth}>").expect("a string takes it");
            nth += 1;
        }
        self.values.insert(name.clone(), text.into());
        name
    }
}

/// The address of a server of the test, which has another port each time; a setting says it as JSON.
fn is_server_here(text: &str) -> bool {
    let said = text.strip_prefix('"').unwrap_or(text);
    said.starts_with("http://127.0.0.1:")
}

fn is_ulid(text: &str) -> bool {
    text.len() == 26 && Ulid::from_string(text).is_ok()
}

/// RFC 3339 in UTC, as the wire writes it.
fn is_time(text: &str) -> bool {
    has_form(text, "dddd-dd-ddTdd:dd:dd.dddZ")
}

fn is_day(text: &str) -> bool {
    has_form(text, "dddd-dd-dd")
}

/// Whether it has digits where the form has `d`, and the form's own signs elsewhere.
fn has_form(text: &str, form: &str) -> bool {
    text.len() == form.len()
        && text.chars().zip(form.chars()).all(|(it, form)| match form {
            'd' => it.is_ascii_digit(),
            sign => it == sign,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ULID: &str = "01K9Z0000000000000000000AB";
    const OTHER: &str = "01K9Z0000000000000000000CD";
    const TIME: &str = "2026-11-21T10:00:00.250Z";

    #[track_caller]
    fn check(pattern: &Value, value: &Value, expected: Result<(), &str>) {
        let mut names = Names::default();
        let result = names.matches(pattern, value);
        assert_eq!(expected.map_err(str::to_owned), result);
    }

    #[test]
    fn a_form_stands_for_any_value_of_it() {
        let value = json!({ "id": ULID, "at": TIME, "pid": 7, "text": "x", "socket": "/run/x" });
        let pattern = json!({ "id": "<ulid>", "at": "<time>", "pid": "<n>", "text": "<text>", "socket": "<path>" });
        check(&pattern, &value, Ok(()));
        check(
            &json!("<time>"),
            &json!("yesterday"),
            Err(" should be <time> and is \"yesterday\""),
        );
        check(&json!("<day>"), &json!("2028-02-29"), Ok(()));
        check(
            &json!("<day>"),
            &json!(TIME),
            Err(&format!(" should be <day> and is \"{TIME}\"")),
        );
        check(
            &json!("<n>"),
            &json!("7"),
            Err(" should be <n> and is \"7\""),
        );
    }

    #[test]
    fn a_name_is_the_same_value_everywhere() {
        check(&json!(["<turn>", "<turn>"]), &json!([ULID, ULID]), Ok(()));
        check(
            &json!(["<turn>", "<turn>"]),
            &json!([1, 2]),
            Err("[1] should be <turn>, 1, and is 2"),
        );
    }

    #[test]
    fn shape_and_literal_values_must_agree() {
        let real = json!({ "a": 1, "b": null });
        check(&json!({ "a": 1, "b": null }), &real, Ok(()));
        check(&json!({ "a": 1 }), &real, Err(".b is not in the document"));
        check(
            &json!({ "a": 1, "b": null, "c": 1 }),
            &real,
            Err(".c is missing"),
        );
        check(
            &json!({ "a": 2, "b": null }),
            &real,
            Err(".a should be 2 and is 1"),
        );
        check(
            &json!([1]),
            &json!([1, 2]),
            Err(" should be [1] and is [1,2]"),
        );
    }

    #[test]
    fn what_is_normalised_matches_what_it_came_from() {
        let real = json!({
            "clientId": ULID, "epoch": OTHER, "turn": ULID, "startedAt": TIME, "pid": 12, "seq": 3,
            "socket": "/tmp/a-x/run/aish/aishd.sock", "turns": [OTHER], "text": "hi",
            "value": "\"http://127.0.0.1:38201/v1\"", "url": "http://127.0.0.1:38201/mcp",
        });
        let shown = Names::default().normalise(&real);
        assert_eq!("<time>", shown["startedAt"]);
        assert_eq!("<n>", shown["pid"]);
        assert_eq!(3, shown["seq"]);
        assert_eq!(
            ("<text>", "<text>"),
            (
                shown["value"].as_str().unwrap(),
                shown["url"].as_str().unwrap()
            )
        );
        assert_eq!("<client>", shown["clientId"]);
        assert_eq!("<client>", shown["turn"], "the same value has one name");
        assert_eq!(Ok(()), Names::default().matches(&shown, &real));
        let mut names = Names::default();
        assert_eq!(json!("<turn>"), names.shown("turn", &json!(ULID)));
        assert_eq!(json!("<turn2>"), names.shown("turn", &json!(OTHER)));
    }

    #[test]
    fn names_are_filled_into_what_is_sent() {
        let mut names = Names::default();
        names.bind("turn", json!(ULID));
        names.bind("seq", json!(4));
        let line = r#"{"turn":"<turn>","seq":"<seq>"}"#;
        assert_eq!(
            format!("{{\"turn\":\"{ULID}\",\"seq\":4}}"),
            names.fill(line)
        );
    }

    #[test]
    #[should_panic(expected = "gave a value to <turn>")]
    fn a_name_that_nobody_gave_cannot_be_sent() {
        drop(Names::default().fill(r#"{"turn":"<turn>"}"#));
    }
}
