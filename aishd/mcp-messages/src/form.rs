//! What a server wants of a person, read from its `elicitation/create`. It comes from outside: whatever it is, it
//! becomes a form that can be shown and judged, or is refused with a reason that its author understands.

use aish_proto::form::{ElicitationContent, ElicitationRequest, FieldChoice, FieldKind, FormField};
use aishd_log::canonical::canonical;
use serde_json::{Map, Value};

use crate::bounded_text::{cut, one_line};

/// Of the whole request, in its canonical spelling.
const MAX_BYTES: usize = 64 << 10;
const MAX_FIELDS: usize = 64;
const MAX_OPTIONS: usize = 256;
/// Names and values go back as they came, so they cannot be cut.
const MAX_NAME_CHARS: usize = 128;
const MAX_VALUE_CHARS: usize = 512;
const MAX_URL_BYTES: usize = 4096;
const MAX_MESSAGE_CHARS: usize = 4000;
const MAX_TITLE_CHARS: usize = 200;
const MAX_DESCRIPTION_CHARS: usize = 1000;

/// Why it cannot be shown; the server is told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    #[error("the request has {0} bytes, and {MAX_BYTES} are taken")]
    TooLong(usize),
    #[error("unknown mode {0:?}")]
    UnknownMode(String),
    #[error("requestedSchema is not an object with properties of its own")]
    NoForm,
    #[error("{0} fields are too many for a form")]
    TooManyFields(usize),
    #[error("{field}: {why}")]
    Field { field: String, why: &'static str },
    #[error("url: {0}")]
    Url(&'static str),
}

/// What the server `alias` asks.
pub fn read(alias: &str, params: &Value) -> Result<ElicitationRequest, FormError> {
    let bytes = canonical(params).len();
    if bytes > MAX_BYTES {
        return Err(FormError::TooLong(bytes));
    }
    let text = |name| params.get(name).and_then(Value::as_str);
    let wanted = match text("mode") {
        None | Some("form") => ElicitationContent::Form {
            fields: fields(params.get("requestedSchema"))?,
        },
        Some("url") => {
            let url = text("url").unwrap_or_default();
            ElicitationContent::Url {
                host: host(url)?,
                url: url.to_owned(),
            }
        }
        Some(other) => return Err(FormError::UnknownMode(one_line(other, 40))),
    };
    Ok(ElicitationRequest {
        server: alias.to_owned(),
        message: cut(text("message").unwrap_or_default(), MAX_MESSAGE_CHARS),
        wanted,
    })
}

/// Those that have to be filled in come first, as the server orders them; of the others no order is known.
fn fields(schema: Option<&Value>) -> Result<Vec<FormField>, FormError> {
    let nothing = Map::new();
    let schema = match schema {
        None | Some(Value::Null) => &nothing,
        Some(Value::Object(schema)) => schema,
        Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
            return Err(FormError::NoForm);
        }
    };
    let properties = match schema.get("properties") {
        None => &nothing,
        Some(Value::Object(properties)) => properties,
        Some(_) => return Err(FormError::NoForm),
    };
    if properties.len() > MAX_FIELDS {
        return Err(FormError::TooManyFields(properties.len()));
    }
    let required: Vec<&str> = match schema.get("required") {
        None => vec![],
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        Some(_) => return Err(FormError::NoForm),
    };
    if let Some(missing) = required.iter().find(|it| !properties.contains_key(**it)) {
        return Err(at(missing, "it is required and not described"));
    }
    let mut read = vec![];
    for (name, property) in properties {
        if name.is_empty() || name.chars().count() > MAX_NAME_CHARS {
            return Err(at(name, "it has no usable name"));
        }
        let position = required.iter().position(|it| it == name);
        let field = field(name, property, position.is_some())?;
        read.push((position.unwrap_or(usize::MAX), field));
    }
    read.sort_by_key(|(position, _)| *position);
    Ok(read.into_iter().map(|(_, field)| field).collect())
}

fn field(name: &str, property: &Value, required: bool) -> Result<FormField, FormError> {
    let kind = kind(property).map_err(|why| at(name, why))?;
    let text = |member, max| {
        let text = property.get(member).and_then(Value::as_str);
        text.map(|it| one_line(it, max)).filter(|it| !it.is_empty())
    };
    // What does not fit its own schema is no default.
    let default = property.get("default").filter(|it| kind.check(it).is_ok());
    Ok(FormField {
        name: name.to_owned(),
        title: text("title", MAX_TITLE_CHARS),
        description: text("description", MAX_DESCRIPTION_CHARS),
        required,
        default: default.cloned(),
        kind,
    })
}

fn kind(property: &Value) -> Result<FieldKind, &'static str> {
    let number = |name| property.get(name).and_then(Value::as_f64);
    let count = |name| property.get(name).and_then(Value::as_u64);
    let text = |name, max| {
        let text = property.get(name).and_then(Value::as_str);
        text.map(|it| one_line(it, max))
    };
    let (minimum, maximum) = (number("minimum"), number("maximum"));
    let no_type = "it has no type that can be filled in";
    let named = match property.get("type") {
        None => None,
        Some(name) => Some(name.as_str().ok_or(no_type)?),
    };
    match named {
        Some("string") | None => match options(property)? {
            Some(options) => Ok(FieldKind::Choice { options }),
            None if named.is_none() => Err(no_type),
            None => Ok(FieldKind::Text {
                min_length: count("minLength"),
                max_length: count("maxLength"),
                format: text("format", 40),
                pattern: text("pattern", MAX_TITLE_CHARS),
            }),
        },
        Some("number") => Ok(FieldKind::Number { minimum, maximum }),
        Some("integer") => Ok(FieldKind::Integer { minimum, maximum }),
        Some("boolean") => Ok(FieldKind::Boolean),
        Some("array") => match property.get("items").map(options).transpose()?.flatten() {
            Some(options) => Ok(FieldKind::Choices {
                options,
                min_items: count("minItems"),
                max_items: count("maxItems"),
            }),
            None => Err("a list is of values that are offered"),
        },
        Some(_other) => Err(no_type),
    }
}

/// The values that are offered, in each spelling that there is: `enum`, with `enumNames` beside it, `oneOf` and `anyOf`.
fn options(property: &Value) -> Result<Option<Vec<FieldChoice>>, &'static str> {
    let list = |name| property.get(name).and_then(Value::as_array);
    let (values, titles): (Vec<&Value>, Vec<Option<&Value>>) =
        match (list("enum"), list("oneOf").or_else(|| list("anyOf"))) {
            (Some(values), _) => {
                let names = list("enumNames").filter(|it| it.len() == values.len());
                let titles = (0..values.len()).map(|at| names.and_then(|it| it.get(at)));
                (values.iter().collect(), titles.collect())
            }
            (None, Some(all)) => all
                .iter()
                .map(|it| (it.get("const").unwrap_or(&Value::Null), it.get("title")))
                .unzip(),
            (None, None) => return Ok(None),
        };
    if values.is_empty() || values.len() > MAX_OPTIONS {
        return Err("it offers no values, or too many");
    }
    let each = values.into_iter().zip(titles).map(|(value, title)| {
        let value = value.as_str().ok_or("a value that is offered is a text")?;
        if value.chars().count() > MAX_VALUE_CHARS {
            return Err("a value that is offered is too long");
        }
        let title = title.and_then(Value::as_str);
        let title = title.map(|it| one_line(it, MAX_TITLE_CHARS));
        Ok(FieldChoice {
            value: value.to_owned(),
            title: title.filter(|it| !it.is_empty() && it != value),
        })
    });
    each.collect::<Result<_, _>>().map(Some)
}

/// Where a page is. An address that could look like another one is none: no user name before the host, no sign that is
/// not plain ASCII, no backslash, which some programs read as a slash.
fn host(url: &str) -> Result<String, FormError> {
    let plain = |it: char| it.is_ascii_graphic() && it != '\\';
    if url.is_empty() || url.len() > MAX_URL_BYTES || !url.chars().all(plain) {
        return Err(FormError::Url("it is not one address in plain ASCII"));
    }
    let rest = match url.split_once("://") {
        Some((scheme, rest)) if is_web(scheme) => rest,
        Some(_) | None => {
            return Err(FormError::Url("it does not begin with https:// or http://"));
        }
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = &rest[..end];
    let is_name = |it: char| it.is_ascii_alphanumeric() || ".-_:[]".contains(it);
    if host.contains('@') {
        return Err(FormError::Url("a user name hides where it leads"));
    }
    if host.is_empty() || host.starts_with(':') || !host.chars().all(is_name) {
        return Err(FormError::Url("it has no host"));
    }
    Ok(host.to_ascii_lowercase())
}

fn is_web(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("https") || scheme.eq_ignore_ascii_case("http")
}

fn at(field: &str, why: &'static str) -> FormError {
    FormError::Field {
        field: one_line(field, MAX_NAME_CHARS),
        why,
    }
}

#[cfg(test)]
mod tests {
    use aish_proto::form::{FormContent, check as check_content};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// A form in one line: `*` for what is required, `=` for a default that fits.
    fn line(asked: &Result<ElicitationRequest, FormError>) -> String {
        match asked {
            Err(error) => format!("no: {error}"),
            Ok(ElicitationRequest {
                wanted: ElicitationContent::Url { url, host },
                ..
            }) => format!("{host} <{url}>"),
            Ok(ElicitationRequest {
                wanted: ElicitationContent::Form { fields },
                ..
            }) => {
                let each = fields.iter().map(|it| {
                    let star = if it.required { "*" } else { "" };
                    let default = it
                        .default
                        .as_ref()
                        .map_or(String::new(), |it| format!("={it}"));
                    let kind = serde_json::to_value(&it.kind).unwrap();
                    let options = kind["options"].as_array().into_iter().flatten();
                    let options: Vec<&str> =
                        options.filter_map(|it| it["value"].as_str()).collect();
                    let options = options.join("|");
                    format!(
                        "{star}{}:{}{options}{default}",
                        it.name,
                        kind["type"].as_str().unwrap()
                    )
                });
                each.collect::<Vec<_>>().join(" ")
            }
        }
    }

    #[track_caller]
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the script is easier to read without references"
    )]
    fn check(properties: Value, required: Value, expected: &str) {
        let params = json!({
            "message": "m",
            "requestedSchema": {"type": "object", "properties": properties, "required": required},
        });
        assert_eq!(expected, line(&read("a", &params)));
    }

    #[test]
    fn every_spelling_of_the_protocol_becomes_a_field() {
        check(
            json!({
                "name": {"type": "string", "minLength": 1},
                "age": {"type": "integer", "default": 42},
                "size": {"type": "number", "default": 3.5},
                "agree": {"type": "boolean", "default": true},
                "plain": {"type": "string", "enum": ["a", "b"], "default": "b"},
                "named": {"type": "string", "enum": ["a"], "enumNames": ["A"]},
                "titled": {"type": "string", "oneOf": [{"const": "x", "title": "X"}]},
                "untyped": {"enum": ["u"]},
                "many": {"type": "array", "items": {"type": "string", "enum": ["p", "q"]}, "default": ["p"]},
                "titled_many": {"type": "array", "items": {"anyOf": [{"const": "z", "title": "Z"}]}},
            }),
            json!(["size", "name"]),
            "*size:number=3.5 *name:text age:integer=42 agree:boolean=true many:choicesp|q=[\"p\"] named:choicea plain:choicea|b=\"b\" titled:choicex titled_many:choicesz untyped:choiceu",
        );
        check(json!({}), json!([]), "");
        assert_eq!("", line(&read("a", &json!({}))));
    }

    #[test]
    fn a_default_that_does_not_fit_is_none() {
        check(
            json!({
                "age": {"type": "integer", "minimum": 50, "default": 42},
                "mail": {"type": "string", "format": "email", "default": "x"},
                "one": {"type": "string", "enum": ["a"], "default": "b"},
            }),
            json!([]),
            "age:integer mail:text one:choicea",
        );
    }

    #[test]
    fn what_cannot_be_filled_in_is_refused_with_a_reason() {
        let no_type = "no: x: it has no type that can be filled in";
        check(
            json!({"x": {"type": "object", "properties": {}}}),
            json!([]),
            no_type,
        );
        check(
            json!({"x": {"type": ["string", "null"]}}),
            json!([]),
            no_type,
        );
        check(json!({"x": {"$ref": "http://evil/"}}), json!([]), no_type);
        check(json!({"x": 7}), json!([]), no_type);
        let list = "no: x: a list is of values that are offered";
        check(
            json!({"x": {"type": "array", "items": {"type": "string"}}}),
            json!([]),
            list,
        );
        check(json!({"x": {"type": "array"}}), json!([]), list);
        let text = "no: x: a value that is offered is a text";
        check(
            json!({"x": {"type": "string", "enum": [1]}}),
            json!([]),
            text,
        );
        check(
            json!({"x": {"oneOf": [{"title": "no value"}]}}),
            json!([]),
            text,
        );
        check(
            json!({"x": {"enum": []}}),
            json!([]),
            "no: x: it offers no values, or too many",
        );
        check(
            json!({"": {"type": "string"}}),
            json!([]),
            "no: : it has no usable name",
        );
        check(
            json!({}),
            json!(["x"]),
            "no: x: it is required and not described",
        );
        check(
            json!([]),
            json!([]),
            "no: requestedSchema is not an object with properties of its own",
        );
        let many: Map<String, Value> = (0..65)
            .map(|it| (format!("f{it}"), json!({"type": "string"})))
            .collect();
        check(
            Value::Object(many),
            json!([]),
            "no: 65 fields are too many for a form",
        );
        let long = json!({"message": "x".repeat(70_000)});
        assert_eq!(
            "no: the request has 70014 bytes, and 65536 are taken",
            line(&read("a", &long))
        );
        assert_eq!(
            "no: unknown mode \"video\"",
            line(&read("a", &json!({"mode": "video"})))
        );
    }

    /// Where a page leads has to be plain to see.
    #[test]
    fn an_address_that_could_look_like_another_is_refused() {
        for (url, expected) in [
            (
                "https://Example.org:8443/a?b#c",
                "example.org:8443 <https://Example.org:8443/a?b#c>",
            ),
            ("http://[::1]/x", "[::1] <http://[::1]/x>"),
            (
                "https://xn--bcher-kva.example",
                "xn--bcher-kva.example <https://xn--bcher-kva.example>",
            ),
            (
                "https://bank.org@evil.org/",
                "no: url: a user name hides where it leads",
            ),
            (
                "https://bank.org\\@evil.org/",
                "no: url: it is not one address in plain ASCII",
            ),
            (
                "https://b\u{430}nk.org/",
                "no: url: it is not one address in plain ASCII",
            ),
            (
                "https://bank.org/\u{202e}x",
                "no: url: it is not one address in plain ASCII",
            ),
            (
                "https://a b.org/",
                "no: url: it is not one address in plain ASCII",
            ),
            ("https:///x", "no: url: it has no host"),
            ("https://%62ank.org/", "no: url: it has no host"),
            (
                "javascript:alert(1)",
                "no: url: it does not begin with https:// or http://",
            ),
            (
                "file:///etc/passwd",
                "no: url: it does not begin with https:// or http://",
            ),
            ("", "no: url: it is not one address in plain ASCII"),
        ] {
            let params = json!({"mode": "url", "url": url, "message": "look"});
            assert_eq!(expected, line(&read("a", &params)), "{url}");
        }
    }

    #[test]
    fn long_words_are_cut_where_people_see_it() {
        let params = json!({
            "message": "m".repeat(5000),
            "requestedSchema": {"properties": {"x": {"type": "string", "title": "t\n".repeat(300), "description": "d".repeat(2000)}}},
        });
        let asked = read("a", &params).unwrap();
        assert!(asked.message.ends_with('…') && asked.message.chars().count() == 4001);
        let ElicitationContent::Form { fields } = asked.wanted else {
            panic!("a form");
        };
        let title = fields[0].title.as_deref().unwrap();
        assert!(title.ends_with('…') && !title.contains('\n'));
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let words = prop::sample::select(vec![
            "string", "number", "integer", "boolean", "array", "object", "a", "b", "", "email",
        ]);
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            words.prop_map(Value::from),
            any::<String>().prop_map(Value::from),
        ];
        let names = prop::sample::select(vec![
            "type",
            "properties",
            "required",
            "enum",
            "enumNames",
            "oneOf",
            "anyOf",
            "items",
            "const",
            "title",
            "description",
            "default",
            "minimum",
            "maximum",
            "minLength",
            "maxItems",
            "format",
            "x",
            "y",
            "mode",
            "url",
            "message",
            "requestedSchema",
        ]);
        leaf.prop_recursive(5, 60, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                    .prop_map(|it| Value::Object(it.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// Whatever a server sends, it can be shown, and a person who leaves everything as it is gets what the judge says.
        #[test]
        fn no_schema_breaks_a_form(schema in any_value(), params in any_value()) {
            let _refused_or_not = read("a", &params);
            let asked = read("a", &json!({"message": "m", "requestedSchema": schema}));
            if let Ok(ElicitationRequest { wanted: ElicitationContent::Form { fields }, .. }) = asked {
                let defaults = fields.iter().filter_map(|it| Some((it.name.clone(), it.default.clone()?)));
                let content = FormContent(defaults.collect());
                let owes = fields.iter().any(|it| it.required && it.default.is_none());
                prop_assert_eq!(owes, check_content(&fields, &content).is_err());
            }
        }
    }
}
