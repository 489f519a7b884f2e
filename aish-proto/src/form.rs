//! What a server wants a person to tell it, and what fits. Plain values and one judge of them, which both sides
//! ask: what a window takes, the daemon takes too.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// What a server asks while a call runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ElicitationRequest {
    /// The alias of the server that asks.
    pub server: String,
    /// Its own words.
    pub message: String,
    pub wanted: ElicitationContent,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "camelCase")]
pub enum ElicitationContent {
    /// To be filled in; an answer that allows carries `content`.
    Form { fields: Vec<FormField> },
    /// A page to be looked at, by the person and nobody else. An answer that allows says that it is; nothing opens it.
    Url {
        url: String,
        /// Where it leads, with the port if there is one.
        host: String,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FormField {
    /// What its value is called in `content`.
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub required: bool,
    /// What fits and is meant to stand there; it is part of the content only if the answer says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<Value>,
    pub kind: FieldKind,
}

/// What a value has to be.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    tag = "type",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub enum FieldKind {
    Text {
        /// Characters.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_length: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_length: Option<u64>,
        /// `email`, `uri`, `date` and `date-time` are checked, others are shown.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        format: Option<String>,
        /// The server's own rule; it is shown, and the server checks it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pattern: Option<String>,
    },
    Number {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        minimum: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        maximum: Option<f64>,
    },
    /// A whole number.
    Integer {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        minimum: Option<f64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        maximum: Option<f64>,
    },
    Boolean,
    /// One of these.
    Choice {
        options: Vec<FieldChoice>,
    },
    /// Some of these, each once.
    Choices {
        options: Vec<FieldChoice>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        min_items: Option<u64>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_items: Option<u64>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldChoice {
    pub value: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// What a person filled in. Its `Debug` says how much and not what.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct FormContent(pub Map<String, Value>);

impl fmt::Debug for FormContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Content({} fields)", self.0.len())
    }
}

/// Why a value does not fit; it does not repeat the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldMisfit(String);

impl fmt::Display for FieldMisfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether this is what the form wants: every required field, no other than its own, each value of its kind.
pub fn check(fields: &[FormField], content: &FormContent) -> Result<(), FieldMisfit> {
    for field in fields {
        let fits = match content.0.get(&field.name) {
            Some(value) => field.kind.check(value),
            None if field.required => misfit("it has to be filled in"),
            None => Ok(()),
        };
        fits.map_err(|it| FieldMisfit(format!("{}: {it}", field.name)))?;
    }
    let unknown = |it: &&String| !fields.iter().any(|field| field.name == **it);
    match content.0.keys().find(unknown) {
        Some(name) => misfit(format!("{name}: the form has no such field")),
        None => Ok(()),
    }
}

impl FieldKind {
    pub fn check(&self, value: &Value) -> Result<(), FieldMisfit> {
        match self {
            Self::Text {
                min_length,
                max_length,
                format,
                pattern: _,
            } => {
                let Value::String(text) = value else {
                    return misfit("it is a text");
                };
                let chars = text.chars().count() as u64;
                match (min_length, max_length) {
                    (Some(least), _) if chars < *least => {
                        return misfit(format!("at least {least} characters"));
                    }
                    (_, Some(most)) if chars > *most => {
                        return misfit(format!("at most {most} characters"));
                    }
                    (_, _) => {}
                }
                match format {
                    Some(format) => check_format(format, text),
                    None => Ok(()),
                }
            }
            Self::Number { minimum, maximum } => match value.as_f64() {
                Some(number) => within(number, *minimum, *maximum),
                None => misfit("it is a number"),
            },
            Self::Integer { minimum, maximum } => match value.as_f64() {
                Some(number) if is_whole(value) => within(number, *minimum, *maximum),
                Some(_) | None => misfit("it is a whole number"),
            },
            Self::Boolean => match value {
                Value::Bool(_) => Ok(()),
                Value::Null
                | Value::Number(_)
                | Value::String(_)
                | Value::Array(_)
                | Value::Object(_) => misfit("it is true or false"),
            },
            Self::Choice { options } => match value.as_str() {
                Some(chosen) if options.iter().any(|it| it.value == chosen) => Ok(()),
                Some(_) | None => misfit("it is one of the values that are offered"),
            },
            Self::Choices {
                options,
                min_items,
                max_items,
            } => {
                let Value::Array(chosen) = value else {
                    return misfit("it is a list");
                };
                let offered = |it: &Value| {
                    options
                        .iter()
                        .any(|option| Some(&*option.value) == it.as_str())
                };
                if !chosen.iter().all(offered) {
                    return misfit("its members are of the values that are offered");
                }
                let twice = |at: usize| chosen[..at].contains(&chosen[at]);
                if (0..chosen.len()).any(twice) {
                    return misfit("each of them once");
                }
                let count = chosen.len() as u64;
                match (min_items, max_items) {
                    (Some(least), _) if count < *least => {
                        misfit(format!("at least {least} of them"))
                    }
                    (_, Some(most)) if count > *most => misfit(format!("at most {most} of them")),
                    (_, _) => Ok(()),
                }
            }
        }
    }
}

fn misfit<T>(why: impl Into<String>) -> Result<T, FieldMisfit> {
    Err(FieldMisfit(why.into()))
}

fn within(number: f64, minimum: Option<f64>, maximum: Option<f64>) -> Result<(), FieldMisfit> {
    match (minimum, maximum) {
        (Some(least), _) if number < least => misfit(format!("at least {least}")),
        (_, Some(most)) if number > most => misfit(format!("at most {most}")),
        (_, _) => Ok(()),
    }
}

/// 3.0 is a whole number too, as JSON has one kind of number.
fn is_whole(value: &Value) -> bool {
    value.is_i64() || value.is_u64() || value.as_f64().is_some_and(|it| it.fract() == 0.0)
}

fn check_format(format: &str, text: &str) -> Result<(), FieldMisfit> {
    let (fits, what) = match format {
        "email" => (is_email(text), "an address like name@example.org"),
        "uri" => (is_uri(text), "an address like https://example.org/page"),
        "date" => (is_date(text), "a day like 2026-03-31"),
        "date-time" => (is_moment(text), "a moment like 2026-03-31T18:30:00Z"),
        _shown => (true, ""),
    };
    if fits { Ok(()) } else { misfit(what) }
}

fn is_email(text: &str) -> bool {
    let plain = |it: char| !it.is_whitespace() && !it.is_control();
    text.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && !host.is_empty() && !host.contains('@') && text.chars().all(plain)
    })
}

fn is_uri(text: &str) -> bool {
    let plain = |it: char| !it.is_whitespace() && !it.is_control();
    text.split_once(':').is_some_and(|(scheme, rest)| {
        let mut signs = scheme.chars();
        signs.next().is_some_and(|it| it.is_ascii_alphabetic())
            && signs.all(|it| it.is_ascii_alphanumeric() || "+-.".contains(it))
            && !rest.is_empty()
            && rest.chars().all(plain)
    })
}

fn is_date(text: &str) -> bool {
    let [year, month, day] = text.split('-').collect::<Vec<_>>()[..] else {
        return false;
    };
    let (Some(year), Some(month), Some(day)) = (digits(year, 4), digits(month, 2), digits(day, 2))
    else {
        return false;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        0 | 13.. => return false,
    };
    (1..=days).contains(&day)
}

/// RFC 3339.
fn is_moment(text: &str) -> bool {
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else {
        return false;
    };
    let (time, offset) = match time.find(['Z', 'z', '+', '-']) {
        Some(at) => time.split_at(at),
        None => return false,
    };
    let clock = |text: &str, parts: usize| {
        let limits = [23, 59, 60];
        let parts_of: Vec<&str> = text.split(':').collect();
        let fits = |(part, limit): (&&str, &u32)| digits(part, 2).is_some_and(|it| it <= *limit);
        parts_of.len() == parts && parts_of.iter().zip(&limits).all(fits)
    };
    let (whole, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let fraction_fits = !fraction.is_empty() && fraction.chars().all(|it| it.is_ascii_digit());
    let offset_fits = match offset.get(1..) {
        Some("") => offset.eq_ignore_ascii_case("z"),
        Some(rest) => !offset.starts_with(['Z', 'z']) && clock(rest, 2),
        None => false,
    };
    is_date(date) && clock(whole, 3) && fraction_fits && offset_fits
}

fn digits(text: &str, count: usize) -> Option<u32> {
    let fits = text.len() == count && text.chars().all(|it| it.is_ascii_digit());
    text.parse().ok().filter(|_| fits)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is said of a value where a form has one field of this kind.
    #[track_caller]
    fn check_value(kind: &Value, value: &Value, expected: Result<(), &str>) {
        let field = json!({"name": "it", "required": true, "kind": kind});
        let field: FormField = serde_json::from_value(field).unwrap();
        let content = FormContent(Map::from_iter([("it".to_owned(), value.clone())]));
        let said = check(std::slice::from_ref(&field), &content).map_err(|it| it.to_string());
        let expected = expected.map_err(|it| format!("it: {it}"));
        assert_eq!(expected, said, "{value} for {kind}");
    }

    #[test]
    fn a_value_has_to_be_of_its_kind() {
        let text = json!({"type": "text", "minLength": 2, "maxLength": 3});
        check_value(&text, &json!("añb"), Ok(()));
        check_value(&text, &json!("a"), Err("at least 2 characters"));
        check_value(&text, &json!("añbc"), Err("at most 3 characters"));
        check_value(&text, &json!(12), Err("it is a text"));
        let number = json!({"type": "number", "minimum": -1.5, "maximum": 2.0});
        for fits in [json!(-1.5), json!(2), json!(0)] {
            check_value(&number, &fits, Ok(()));
        }
        check_value(&number, &json!(2.01), Err("at most 2"));
        check_value(&number, &json!(-2), Err("at least -1.5"));
        check_value(&number, &json!("1"), Err("it is a number"));
        let integer = json!({"type": "integer", "minimum": 1});
        check_value(&integer, &json!(3.0), Ok(()));
        check_value(&integer, &json!(0), Err("at least 1"));
        check_value(&integer, &json!(1.5), Err("it is a whole number"));
        check_value(&integer, &json!(true), Err("it is a whole number"));
        let boolean = json!({"type": "boolean"});
        check_value(&boolean, &json!(false), Ok(()));
        check_value(&boolean, &json!("yes"), Err("it is true or false"));
        let options = json!([{"value": "r", "title": "Red"}, {"value": "g"}]);
        let choice = json!({"type": "choice", "options": options});
        check_value(&choice, &json!("g"), Ok(()));
        for other in [json!("Red"), json!(1), json!(["r"])] {
            check_value(
                &choice,
                &other,
                Err("it is one of the values that are offered"),
            );
        }
        let choices = json!({"type": "choices", "options": options, "minItems": 1, "maxItems": 1});
        check_value(&choices, &json!(["r"]), Ok(()));
        check_value(&choices, &json!([]), Err("at least 1 of them"));
        check_value(&choices, &json!(["r", "g"]), Err("at most 1 of them"));
        check_value(&choices, &json!(["r", "r"]), Err("each of them once"));
        check_value(&choices, &json!("r"), Err("it is a list"));
        check_value(
            &choices,
            &json!(["b"]),
            Err("its members are of the values that are offered"),
        );
    }

    #[test]
    fn formats_are_checked_as_far_as_they_can_be_told() {
        for (format, fits, others) in [
            (
                "email",
                &["a@b.org", "ü@x"][..],
                &["a", "@b", "a@", "a b@c", "a@b@c"][..],
            ),
            (
                "uri",
                &["https://a.org/x", "urn:x"],
                &["a.org", ":x", "1a:b", "a:", "a:b c"],
            ),
            (
                "date",
                &["2024-02-29", "2026-12-31"],
                &[
                    "2026-02-29",
                    "2100-02-29",
                    "2026-13-01",
                    "2026-1-1",
                    "26-01-01",
                    "2026-04-31",
                    "+026-01-01",
                ],
            ),
            (
                "date-time",
                &["2026-03-31T18:30:00Z", "2026-03-31t18:30:60.25+02:00"],
                &[
                    "2026-03-31",
                    "2026-03-31T18:30Z",
                    "2026-03-31T24:00:00Z",
                    "2026-03-31T18:30:00",
                    "2026-03-31T18:30:00.Z",
                    "2026-03-31T18:30:00Zx",
                ],
            ),
            ("of their own", &["anything"], &[]),
        ] {
            let kind = FieldKind::Text {
                min_length: None,
                max_length: None,
                format: Some(format.to_owned()),
                pattern: None,
            };
            for text in fits {
                assert_eq!(Ok(()), kind.check(&json!(text)), "{format} {text}");
            }
            for text in others {
                assert!(kind.check(&json!(text)).is_err(), "{format} {text}");
            }
        }
    }

    #[test]
    fn what_is_required_is_there_and_nothing_else_is() {
        let field = |name: &str, required| FormField {
            name: name.to_owned(),
            title: None,
            description: None,
            required,
            default: None,
            kind: FieldKind::Boolean,
        };
        let fields = [field("must", true), field("may", false)];
        let content = |json: Value| FormContent(json.as_object().unwrap().clone());
        let said = |it| check(&fields, &content(it)).map_err(|it| it.to_string());
        assert_eq!(Ok(()), said(json!({"must": true})));
        assert_eq!(
            Err("must: it has to be filled in".to_owned()),
            said(json!({"may": true}))
        );
        assert_eq!(
            Err("other: the form has no such field".to_owned()),
            said(json!({"must": true, "other": 1}))
        );
        assert_eq!(
            "Content(1 fields)",
            format!("{:?}", content(json!({"a": "b"})))
        );
    }
}
