//! Templates of URIs while one is being typed by them: which literal comes next, or which variable is being filled in. Only
//! `{name}` and `{+name}` of RFC 6570 are known, which is what servers have; with others nothing is completed.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TemplatePart<'a> {
    Literal(&'a str),
    Variable {
        name: &'a str,
        /// It takes signs that mean something in a URI as they are, such as `/`.
        reserved: bool,
    },
}

/// Where what was typed ends in a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TemplateEnd<'a> {
    /// In a literal; this is the URI up to its end.
    Literal(String),
    Variable(TypedVariable<'a>),
}

/// A variable that is being filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TypedVariable<'a> {
    pub(super) name: &'a str,
    /// What is there of it.
    pub(super) value: String,
    /// The ones before it.
    pub(super) others: BTreeMap<String, String>,
    before: &'a str,
    behind: &'a str,
    reserved: bool,
}

impl TypedVariable<'_> {
    /// The URI with a value in the variable's place, and the literal behind it.
    pub(super) fn filled(&self, value: &str) -> String {
        format!(
            "{}{}{}",
            self.before,
            encoded(value, self.reserved),
            self.behind
        )
    }
}

/// `None`: it is by no such template, or there is nothing more to type.
pub(super) fn end_in<'a>(template: &'a str, typed: &'a str) -> Option<TemplateEnd<'a>> {
    let parts = parts(template)?;
    let mut others = BTreeMap::new();
    let mut rest = typed;
    for (at, part) in parts.iter().enumerate() {
        let before = typed.get(..typed.len() - rest.len())?;
        match *part {
            TemplatePart::Literal(text) => match rest.strip_prefix(text) {
                Some(behind) => rest = behind,
                None if text.starts_with(rest) => {
                    return Some(TemplateEnd::Literal(format!("{before}{text}")));
                }
                None => return None,
            },
            TemplatePart::Variable { name, reserved } => {
                let behind = match parts.get(at + 1) {
                    Some(TemplatePart::Literal(text)) => text,
                    Some(TemplatePart::Variable { .. }) | None => "",
                };
                let end = if reserved {
                    Some(behind)
                        .filter(|it| !it.is_empty())
                        .and_then(|it| rest.find(it))
                } else {
                    rest.find(is_reserved)
                };
                let Some(end) = end else {
                    return Some(TemplateEnd::Variable(TypedVariable {
                        name,
                        value: decoded(rest),
                        others,
                        before,
                        behind,
                        reserved,
                    }));
                };
                others.insert(name.to_owned(), decoded(rest.get(..end)?));
                rest = rest.get(end..)?;
            }
        }
    }
    None
}

/// `None`: it has something that we do not know, or variables of which nobody could tell where one ends.
fn parts(template: &str) -> Option<Vec<TemplatePart<'_>>> {
    let mut parts = vec![];
    let mut rest = template;
    while !rest.is_empty() {
        let Some((literal, behind)) = rest.split_once('{') else {
            parts.push(TemplatePart::Literal(rest));
            break;
        };
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(literal));
        } else if !parts.is_empty() {
            return None;
        }
        let (name, behind) = behind.split_once('}')?;
        let (name, reserved) = match name.strip_prefix('+') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let is_plain = |it: char| it.is_ascii_alphanumeric() || matches!(it, '_' | '.' | '-');
        if name.is_empty() || !name.chars().all(is_plain) {
            return None;
        }
        parts.push(TemplatePart::Variable { name, reserved });
        rest = behind;
    }
    Some(parts)
}

fn is_reserved(it: char) -> bool {
    ":/?#[]@!$&'()*+,;=".contains(it)
}

fn encoded(value: &str, reserved: bool) -> String {
    let mut text = String::new();
    for it in value.chars() {
        let is_plain = it.is_ascii_alphanumeric() || "-._~".contains(it);
        if is_plain || (reserved && is_reserved(it)) {
            text.push(it);
        } else {
            for byte in it.encode_utf8(&mut [0; 4]).bytes() {
                text.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    text
}

fn decoded(text: &str) -> String {
    let mut bytes = vec![];
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let code = rest.get(1..3).filter(|_| first == b'%');
        let code = code.and_then(|it| u8::from_str_radix(it, 16).ok());
        let taken = if code.is_some() { 3 } else { 1 };
        bytes.push(code.unwrap_or(first));
        rest = match rest.get(taken..) {
            Some(behind) => behind,
            // In the middle of a letter: its other bytes follow as they are.
            None => {
                let letter = rest.chars().next().map_or(1, char::len_utf8);
                bytes.extend(rest.bytes().take(letter).skip(1));
                rest.get(letter..).unwrap_or_default()
            }
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(template: &str, typed: &str, expected: &str) {
        let said = match end_in(template, typed) {
            None => "nothing".to_owned(),
            Some(TemplateEnd::Literal(text)) => format!("literal {text}"),
            Some(TemplateEnd::Variable(it)) => {
                format!(
                    "{} {:?} {:?} {}",
                    it.name,
                    it.value,
                    it.others,
                    it.filled("a b/é")
                )
            }
        };
        assert_eq!(expected, said, "{template} {typed}");
    }

    #[test]
    fn what_is_typed_ends_in_a_literal_or_in_a_variable() {
        check("note://{number}", "no", "literal note://");
        check(
            "note://{number}",
            "note://",
            "number \"\" {} note://a%20b%2F%C3%A9",
        );
        check(
            "note://{number}",
            "note://1%32é",
            "number \"12é\" {} note://a%20b%2F%C3%A9",
        );
        check("note://{number}", "note://1/", "nothing");
        check("note://{number}", "file://1", "nothing");
        check("f:{a}/of/{b}", "f:1", "a \"1\" {} f:a%20b%2F%C3%A9/of/");
        check("f:{a}/of/{b}", "f:1/o", "literal f:1/of/");
        check(
            "f:{a}/of/{b}",
            "f:1/of/2",
            "b \"2\" {\"a\": \"1\"} f:1/of/a%20b%2F%C3%A9",
        );
        check(
            "f:///{+path}",
            "f:///x/y",
            "path \"x/y\" {} f:///a%20b/%C3%A9",
        );
        check(
            "{+a}!{b}",
            "x/y!z",
            "b \"z\" {\"a\": \"x/y\"} x/y!a%20b%2F%C3%A9",
        );
        for odd in ["f:{a}{b}", "f:{?a,b}", "f:{a*}", "f:{", "f:{}"] {
            check(odd, "f:", "nothing");
        }
    }
}
