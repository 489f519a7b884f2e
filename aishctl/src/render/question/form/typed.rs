//! Values as people type them: a number for an option, y for true.

use aish_proto::form::{FieldChoice, FieldKind};
use serde_json::{Number, Value};

use crate::render::question::form::{option_line, options};
use crate::safe;

/// What somebody typed, as the form wants it; or why it does not fit.
pub fn value(kind: &FieldKind, typed: &str) -> Result<Value, String> {
    let typed = typed.trim();
    let value = match kind {
        FieldKind::Text { .. } => Value::from(typed),
        FieldKind::Number { .. } => number(typed).ok_or("it is a number")?,
        FieldKind::Integer { .. } => number(typed).ok_or("it is a whole number")?,
        FieldKind::Boolean => match typed.to_lowercase().as_str() {
            "y" | "yes" | "true" | "1" => Value::from(true),
            "n" | "no" | "false" | "0" => Value::from(false),
            _other => return Err("y or n".to_owned()),
        },
        FieldKind::Choice { options } => chosen(options, typed)?,
        FieldKind::Choices { options, .. } => {
            let parts = typed.split(',').map(str::trim).filter(|it| !it.is_empty());
            let parts: Result<Vec<Value>, String> = parts.map(|it| chosen(options, it)).collect();
            Value::Array(parts?)
        }
    };
    kind.check(&value).map_err(|misfit| misfit.to_string())?;
    Ok(value)
}

/// A value first, then a title, then a number from 1 as the options are listed.
fn chosen(options: &[FieldChoice], typed: &str) -> Result<Value, String> {
    let by_value = options.iter().find(|it| it.value == typed);
    let titled = |it: &&FieldChoice| {
        let title = it.title.as_ref();
        title.is_some_and(|title| title.eq_ignore_ascii_case(typed))
    };
    let numbered = || {
        let number: usize = typed.parse().ok()?;
        options.get(number.checked_sub(1)?)
    };
    let found = by_value
        .or_else(|| options.iter().find(titled))
        .or_else(numbered);
    found
        .map(|it| Value::from(it.value.clone()))
        .ok_or_else(|| {
            let count = options.len();
            format!("one of the values above, or its number from 1 to {count}")
        })
}

fn number(typed: &str) -> Option<Value> {
    let whole = typed.parse::<i64>().map(Number::from);
    let whole = whole.or_else(|_| typed.parse::<u64>().map(Number::from));
    let number = whole.ok().or_else(|| {
        let is_one = |it: char| it.is_ascii_digit() || "+-.eE".contains(it);
        let plain = typed.chars().all(is_one).then_some(typed)?;
        Number::from_f64(plain.parse().ok()?)
    });
    number.map(Value::Number)
}

/// A value for a screen; of what was offered, with what it is called.
pub fn display(kind: &FieldKind, value: &Value) -> String {
    match value {
        Value::String(text) => match options(kind).iter().find(|it| it.value == *text) {
            Some(option) => option_line(option),
            None => safe::visible(text),
        },
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(|it| display(kind, it)).collect();
            values.join(", ")
        }
        Value::Null | Value::Number(_) | Value::Object(_) => safe::visible(&value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn check(kind: Value, typed: &str, expected: Result<Value, &str>) {
        let kind: FieldKind = serde_json::from_value(kind).unwrap();
        assert_eq!(
            expected.map_err(str::to_owned),
            value(&kind, typed),
            "{typed}"
        );
    }

    #[test]
    fn what_people_type_becomes_what_the_form_wants() {
        let integer = json!({"type": "integer", "minimum": 1.0});
        check(integer.clone(), " 7\n", Ok(json!(7)));
        check(integer.clone(), "18446744073709551615", Ok(json!(u64::MAX)));
        check(integer.clone(), "0", Err("at least 1"));
        for other in ["", "x", "1.5", "1_000", "0x10", "inf", "NaN"] {
            check(integer.clone(), other, Err("it is a whole number"));
        }
        let number = json!({"type": "number"});
        check(number.clone(), "-1.5e3", Ok(json!(-1500.0)));
        check(number.clone(), "1e999", Err("it is a number"));
        check(number, "infinity", Err("it is a number"));
        let boolean = json!({"type": "boolean"});
        check(boolean.clone(), "Y", Ok(json!(true)));
        check(boolean.clone(), "false", Ok(json!(false)));
        check(boolean, "maybe", Err("y or n"));
        let options = json!([{"value": "3"}, {"value": "b", "title": "Bee"}, {"value": "c"}]);
        let choice = json!({"type": "choice", "options": options});
        for (typed, expected) in [("3", "3"), ("b", "b"), ("bee", "b"), ("2", "b"), ("1", "3")] {
            check(choice.clone(), typed, Ok(json!(expected)));
        }
        for other in ["0", "4", "", "C", "-1"] {
            check(
                choice.clone(),
                other,
                Err("one of the values above, or its number from 1 to 3"),
            );
        }
        let choices = json!({"type": "choices", "options": options, "minItems": 1});
        check(choices.clone(), "2, c", Ok(json!(["b", "c"])));
        check(choices.clone(), "b,2", Err("each of them once"));
        check(choices, " , ", Err("at least 1 of them"));
        let mail = json!({"type": "text", "format": "email"});
        check(mail, "x", Err("an address like name@example.org"));
    }

    proptest! {
        /// Whatever is typed, what comes of it fits.
        #[test]
        fn what_is_taken_fits(typed in any::<String>(), short in "[0-9yn,. bce-]{0,6}") {
            let options = json!([{"value": "1"}, {"value": "b", "title": "e"}]);
            for kind in [
                json!({"type": "text", "maxLength": 5}),
                json!({"type": "number", "minimum": 0.0}),
                json!({"type": "integer", "maximum": 9.0}),
                json!({"type": "boolean"}),
                json!({"type": "choice", "options": options}),
                json!({"type": "choices", "options": options, "maxItems": 1}),
            ] {
                let kind: FieldKind = serde_json::from_value(kind).unwrap();
                for typed in [&typed, &short] {
                    if let Ok(value) = value(&kind, typed) {
                        prop_assert!(kind.check(&value).is_ok());
                    }
                }
            }
        }
    }
}
