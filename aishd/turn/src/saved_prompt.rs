//! Prompts that people keep: text with places for arguments.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

const MOST_NAME_BYTES: usize = 64;

/// What a prompt is kept under: 1 to 64 of `a`–`z`, `0`–`9`, `-` and `_`, a letter or a digit first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PromptName(String);

impl PromptName {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PromptName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a prompt's name is 1 to 64 of a-z, 0-9, - and _, with a letter or a digit first")]
pub struct NotAName;

impl FromStr for PromptName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        let is_plain = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit();
        let bytes = text.as_bytes();
        let begins = bytes.first().is_some_and(|it| is_plain(*it));
        let fits = bytes.iter().all(|it| is_plain(*it) || b"-_".contains(it));
        if begins && fits && bytes.len() <= MOST_NAME_BYTES {
            Ok(Self(text.to_owned()))
        } else {
            Err(NotAName)
        }
    }
}

/// Why a text cannot be filled in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnfilledReason {
    #[error("{} of the prompt has no value", .0.join(", "))]
    Missing(Vec<String>),
    #[error("the prompt has no {}", .0.join(", "))]
    Unknown(Vec<String>),
}

/// What a text asks for, each once, in the order in which they first stand in it: `{{name}}`.
pub fn arguments(text: &str) -> Vec<&str> {
    let mut found = vec![];
    for piece in pieces(text) {
        match piece {
            PromptPiece::Argument(name) if !found.contains(&name) => found.push(name),
            PromptPiece::Argument(_) | PromptPiece::Text(_) => {}
        }
    }
    found
}

/// The text with its arguments in their places. A value is text, whatever it looks like: it is not filled in again.
pub fn fill(text: &str, given: &BTreeMap<String, String>) -> Result<String, UnfilledReason> {
    let wanted = arguments(text);
    let unknown = given.keys().filter(|it| !wanted.contains(&it.as_str()));
    let unknown: Vec<String> = unknown.cloned().collect();
    if !unknown.is_empty() {
        return Err(UnfilledReason::Unknown(unknown));
    }
    let missing = wanted.iter().filter(|it| !given.contains_key(**it));
    let missing: Vec<String> = missing.map(|it| (*it).to_owned()).collect();
    if !missing.is_empty() {
        return Err(UnfilledReason::Missing(missing));
    }
    let piece = |it| match it {
        PromptPiece::Text(text) => text,
        PromptPiece::Argument(name) => given.get(name).map_or("", String::as_str),
    };
    Ok(pieces(text).into_iter().map(piece).collect())
}

enum PromptPiece<'a> {
    Text(&'a str),
    Argument(&'a str),
}

fn pieces(text: &str) -> Vec<PromptPiece<'_>> {
    let mut pieces = vec![];
    let (mut plain, mut at) = (0, 0);
    while let Some(open) = text.get(at..).and_then(|it| it.find("{{")) {
        let open = at + open;
        let inside = text.get(open + 2..).unwrap_or_default();
        let named = inside.split_once("}}").map(|(name, _)| (name, name.trim()));
        if let Some((whole, name)) = named.filter(|(_, name)| is_argument(name)) {
            pieces.push(PromptPiece::Text(text.get(plain..open).unwrap_or_default()));
            pieces.push(PromptPiece::Argument(name));
            at = open + 2 + whole.len() + 2;
            plain = at;
        } else {
            // `{{{name}}` may still begin one further on.
            at = open + 1;
        }
    }
    pieces.push(PromptPiece::Text(text.get(plain..).unwrap_or_default()));
    pieces
}

fn is_argument(name: &str) -> bool {
    let fits = |it: u8| it.is_ascii_alphanumeric() || b"-_".contains(&it);
    !name.is_empty() && name.len() <= MOST_NAME_BYTES && name.bytes().all(fits)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn given(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        pairs.iter().map(own).collect()
    }

    #[test]
    fn arguments_are_what_stands_in_two_braces() {
        let check = |text, expected: &[&str]| assert_eq!(expected, arguments(text), "{text}");
        check("", &[]);
        check("plain", &[]);
        check(
            "{{diff}} in {{ language }}, and {{diff}} again",
            &["diff", "language"],
        );
        check("{{{a}}}", &["a"]);
        check("{{a b}} {{}} {{a", &[]);
        check("{{ {{a}}", &["a"]);
        check("{ {a} } }}{{", &[]);
    }

    #[test]
    fn a_text_is_filled_in_once() {
        let check = |text, pairs: &[(&str, &str)], expected: Result<&str, UnfilledReason>| {
            let expected = expected.map(ToOwned::to_owned);
            assert_eq!(expected, fill(text, &given(pairs)), "{text}");
        };
        check("a {{b}} c", &[("b", "{{d}}")], Ok("a {{d}} c"));
        check("{{b}}{{b}}", &[("b", "ü")], Ok("üü"));
        check("{{{b}}}", &[("b", "x")], Ok("{x}"));
        let missing = UnfilledReason::Missing(vec!["b".to_owned()]);
        check("{{a}} {{b}}", &[("a", "1")], Err(missing));
        let unknown = UnfilledReason::Unknown(vec!["c".to_owned()]);
        check("{{a}}", &[("c", "1")], Err(unknown));
    }

    #[test]
    fn a_name_is_no_path() {
        for name in ["review", "0", "a-b_c"] {
            assert_eq!(name, name.parse::<PromptName>().unwrap().as_str());
        }
        for name in ["", "-a", "_", "A", "a/b", "..", "a.b", "ä", &"a".repeat(65)] {
            assert_eq!(Err(NotAName), name.parse::<PromptName>(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn text_without_arguments_stays_as_it_is(text in "[{} a\n]{0,40}") {
            prop_assume!(arguments(&text).is_empty());
            prop_assert_eq!(Ok(text.clone()), fill(&text, &BTreeMap::new()));
        }

        #[test]
        fn what_is_filled_in_with_itself_is_the_same(text in "[{}a]{0,40}") {
            let itself: BTreeMap<String, String> = arguments(&text)
                .into_iter()
                .map(|it| (it.to_owned(), format!("{{{{{it}}}}}")))
                .collect();
            prop_assert_eq!(Ok(text.clone()), fill(&text, &itself));
        }
    }
}
