//! What a program is told by words that begin with a dash, against a list of what is known to be harmless.
//!
//! A list is words: `-a` and `--all` are flags, `-k=` and `--key=` take a value, `-o>` and `--output>` a place that is
//! written, `-j?` a value only if it stands with it, `-#` any number, `+` whatever begins with a plus.

use super::{Danger, Judge, is_one, places};
use crate::command::{Value, Word};

#[derive(Clone, Copy, PartialEq, Eq)]
enum OptionValue {
    Nothing,
    Attached,
    Value,
    Place,
}

/// What a word is among options.
enum OptionPart<'a> {
    Operand,
    Option(&'a str),
    /// It may be either when it runs.
    Either,
}

impl Judge<'_> {
    /// Judges all options among the words. Gives the words that are none.
    pub(super) fn options<'w>(&mut self, list: &str, args: &'w [Word]) -> Vec<&'w Word> {
        let mut operands = vec![];
        let mut rest = args;
        while !rest.is_empty() {
            let end = rest.first().and_then(Word::fixed) == Some("--");
            if end {
                operands.extend(&rest[1..]);
                break;
            }
            rest = self.leading(list, rest);
            let Some((operand, behind)) = rest.split_first() else {
                break;
            };
            if operand.fixed() != Some("--") {
                operands.push(operand);
                rest = behind;
            }
        }
        operands
    }

    /// Judges the options before the first word that is none. Gives what stands from there.
    pub(super) fn leading<'w>(&mut self, list: &str, args: &'w [Word]) -> &'w [Word] {
        let mut rest = args;
        while let Some((word, behind)) = rest.split_first() {
            let text = match part(word) {
                OptionPart::Operand => return rest,
                OptionPart::Option("--") => return rest,
                OptionPart::Either => {
                    self.add(Danger::KnownOnlyWhenRun);
                    return rest;
                }
                OptionPart::Option(text) => text,
            };
            rest = behind;
            let attached_is_certain = word.fixed().is_some();
            let wants = self.option(list, text, attached_is_certain);
            if wants == OptionValue::Nothing || wants == OptionValue::Attached {
                continue;
            }
            let Some((value, behind)) = rest.split_first() else {
                return rest;
            };
            if !is_one(value) {
                self.add(Danger::KnownOnlyWhenRun);
            }
            if wants == OptionValue::Place {
                self.writes(value);
            }
            rest = behind;
        }
        rest
    }

    /// Judges one word of options. Says what it wants of the next word.
    fn option(&mut self, list: &str, text: &str, certain: bool) -> OptionValue {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        // What is behind the part that is certain may make another option of it.
        if let Some(takes) = taken(list, name).filter(|_| certain || value.is_some()) {
            return match (takes, value) {
                (OptionValue::Place, Some(value)) => {
                    if certain {
                        self.writes_to(value);
                    } else {
                        self.add(Danger::KnownOnlyWhenRun);
                    }
                    OptionValue::Nothing
                }
                (_, Some(_)) => OptionValue::Nothing,
                (takes, None) => takes,
            };
        }
        let number = text
            .get(1..)
            .is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()));
        if number && has(list, "-#") {
            return OptionValue::Nothing;
        }
        if text.starts_with("--") {
            self.add(Danger::UnknownOption);
            return OptionValue::Nothing;
        }
        self.cluster(list, text, certain)
    }

    /// `-abc`: flags, of which the last may have its value in the same word.
    fn cluster(&mut self, list: &str, text: &str, certain: bool) -> OptionValue {
        for (at, sign) in text.char_indices().skip(1) {
            let behind = text.get(at + sign.len_utf8()..).unwrap_or_default();
            match taken(list, &format!("-{sign}")) {
                None => {
                    self.add(Danger::UnknownOption);
                    return OptionValue::Nothing;
                }
                Some(OptionValue::Nothing) => {}
                Some(OptionValue::Attached) => return OptionValue::Nothing,
                Some(takes) if behind.is_empty() && certain => return takes,
                Some(OptionValue::Place) if certain => {
                    self.writes_to(behind.strip_prefix('=').unwrap_or(behind));
                    return OptionValue::Nothing;
                }
                Some(OptionValue::Place) => {
                    self.add(Danger::KnownOnlyWhenRun);
                    return OptionValue::Nothing;
                }
                Some(OptionValue::Value) if behind.is_empty() => {
                    self.add(Danger::KnownOnlyWhenRun);
                    return OptionValue::Nothing;
                }
                Some(OptionValue::Value) => return OptionValue::Nothing,
            }
        }
        if !certain {
            self.add(Danger::KnownOnlyWhenRun);
        }
        OptionValue::Nothing
    }
}

fn part(word: &Word) -> OptionPart<'_> {
    match &word.value {
        Value::Fixed(text) if text.len() > 1 && text.starts_with('-') => OptionPart::Option(text),
        Value::Fixed(_) => OptionPart::Operand,
        Value::Pattern(text) if text.starts_with('{') => {
            let paths = places::expanded(text);
            let options =
                |it: &Vec<String>| it.iter().any(|it| it.starts_with(['-', '*', '?', '[']));
            if paths.as_ref().is_none_or(options) {
                OptionPart::Either
            } else {
                OptionPart::Operand
            }
        }
        Value::Pattern(text) if text.starts_with(['-', '*', '?', '[']) => OptionPart::Either,
        Value::Pattern(_) => OptionPart::Operand,
        Value::Open { before, one_word } => {
            let option = before.starts_with('-');
            if *one_word && option {
                OptionPart::Option(before)
            } else if *one_word && !option && !before.is_empty() {
                OptionPart::Operand
            } else {
                OptionPart::Either
            }
        }
    }
}

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|it| it == name)
}

fn taken(list: &str, name: &str) -> Option<OptionValue> {
    list.split_whitespace().find_map(|it| {
        let (said, takes) = match it.strip_suffix(['=', '>', '?']) {
            None => (it, OptionValue::Nothing),
            Some(said) if it.ends_with('=') => (said, OptionValue::Value),
            Some(said) if it.ends_with('>') => (said, OptionValue::Place),
            Some(said) => (said, OptionValue::Attached),
        };
        (said == name).then_some(takes)
    })
}
