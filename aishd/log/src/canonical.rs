//! JSON with one spelling for each value, so that a digest over it means the value (RFC 8785).
//!
//! One thing is stricter than there: integers that a double cannot hold keep all their digits, because two
//! calls that differ only in them are two calls.

use std::fmt::Write as _;

use serde_json::{Number, Value};

/// The value without white space, with the members of objects in order.
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            out.push('{');
            for (position, (name, member)) in members.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_text(name, out);
                out.push(':');
                write(member, out);
            }
            out.push('}');
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            c if c < ' ' => {
                let _never_fails = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

fn write_number(number: &Number, out: &mut String) {
    let _never_fails = match (number.as_u64(), number.as_i64(), number.as_f64()) {
        (Some(whole), _, _) => write!(out, "{whole}"),
        (None, Some(whole), _) => write!(out, "{whole}"),
        (None, None, Some(double)) => write!(out, "{}", ecmascript(double)),
        (None, None, None) => write!(out, "{number}"),
    };
}

/// A double as ECMAScript writes it: the fewest digits that read back as the same.
fn ecmascript(double: f64) -> String {
    if double == 0.0 {
        return "0".to_owned();
    }
    let scientific = format!("{double:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let digits = mantissa.replace('.', "");
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    // The decimal point stands after so many digits.
    let point = exponent + 1;
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or_default());
    let text = if count <= point && point <= 21 {
        format!("{digits}{}", zeros(point - count))
    } else if 0 < point && point <= 21 {
        let (whole, part) = digits.split_at(usize::try_from(point).unwrap_or_default());
        format!("{whole}.{part}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", zeros(-point))
    } else {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let plus = if exponent > 0 { "+" } else { "" };
        format!("{first}{dot}{rest}e{plus}{exponent}")
    };
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(json: &str, expected: &str) {
        let value: Value = serde_json::from_str(json).unwrap();
        assert_eq!(expected, canonical(&value));
        let again: Value = serde_json::from_str(expected).unwrap();
        assert_eq!(expected, canonical(&again), "it is its own canonical form");
    }

    #[test]
    fn members_are_in_order_and_nothing_is_between() {
        check(
            r#" { "b" : [1, {} ], "a": null } "#,
            r#"{"a":null,"b":[1,{}]}"#,
        );
        // By UTF-16 units: the surrogates of the emoji come before U+FB33.
        check(
            "{\"\u{fb33}\":1,\"\u{1f600}\":2,\"\u{20ac}\":3,\"\\r\":4}",
            "{\"\\r\":4,\"\u{20ac}\":3,\"\u{1f600}\":2,\"\u{fb33}\":1}",
        );
        check(r#"{"a":1,"a":2}"#, r#"{"a":2}"#);
    }

    #[test]
    fn texts_are_escaped_where_they_must_be_and_nowhere_else() {
        check(
            r#""\u20ac\u0024\u000f\u000aA'\u0042\u0022\u005c\\\"\/\u007f""#,
            "\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\u{7f}\"",
        );
    }

    /// The examples of RFC 8785, appendix B and 3.2.3.
    #[test]
    fn numbers_are_written_as_ecmascript_writes_them() {
        for (number, expected) in [
            ("0.0", "0"),
            ("-0.0", "0"),
            ("1.0", "1"),
            ("5e-324", "5e-324"),
            ("-1.7976931348623157e308", "-1.7976931348623157e+308"),
            ("9007199254740992.0", "9007199254740992"),
            ("295147905179352830000", "295147905179352830000"),
            ("9.999999999999997e22", "9.999999999999997e+22"),
            ("1e23", "1e+23"),
            ("1e21", "1e+21"),
            ("999999999999999900000", "999999999999999900000"),
            ("0.000001", "0.000001"),
            ("9.999999999999997e-7", "9.999999999999997e-7"),
            ("333333333.33333329", "333333333.3333333"),
            ("4.50", "4.5"),
            ("2e-3", "0.002"),
            ("0.000000000000000000000000001", "1e-27"),
            ("-12.5", "-12.5"),
        ] {
            check(number, expected);
        }
    }

    #[test]
    fn whole_numbers_keep_all_their_digits() {
        check("9007199254740993", "9007199254740993");
        check("18446744073709551615", "18446744073709551615");
        check("-9223372036854775808", "-9223372036854775808");
    }

    proptest! {
        #[test]
        fn a_double_reads_back_as_itself(double in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL) {
            prop_assert_eq!(double, ecmascript(double).parse::<f64>().unwrap());
        }
    }
}
