//! What a program is told by words that begin with a dash, against a list of what is known to be harmless.
//!
//! A list is words: `-a` and `--all` are flags, `-k=` and `--key=` take a value, `-o>` and `--output>` a place that is
//! written, `-j?` a value only if it stands with it, `-#` any number, `+` whatever begins with a plus.

use super::{Danger, Judge, is_one, places};
use crate::command::{Value, Word};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Nothing,
    Attached,
    Value,
    Place,
}

/// What a word is among options.
enum Part<'a> {
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
                Part::Operand => return rest,
                Part::Option("--") => return rest,
                Part::Either => {
                    self.add(Danger::KnownOnlyWhenRun);
                    return rest;
                }
                Part::Option(text) => text,
            };
            rest = behind;
            let attached_is_certain = word.fixed().is_some();
            let wants = self.option(list, text, attached_is_certain);
            if wants == Takes::Nothing || wants == Takes::Attached {
                continue;
            }
            let Some((value, behind)) = rest.split_first() else {
                return rest;
            };
            if !is_one(value) {
                self.add(Danger::KnownOnlyWhenRun);
            }
            if wants == Takes::Place {
                self.writes(value);
            }
            rest = behind;
        }
        rest
    }

    /// Judges one word of options. Says what it wants of the next word.
    fn option(&mut self, list: &str, text: &str, certain: bool) -> Takes {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (text, None),
        };
        // What is behind the part that is certain may make another option of it.
        if let Some(takes) = taken(list, name).filter(|_| certain || value.is_some()) {
            return match (takes, value) {
                (Takes::Place, Some(value)) => {
                    if certain {
                        self.writes_to(value);
                    } else {
                        self.add(Danger::KnownOnlyWhenRun);
                    }
                    Takes::Nothing
                }
                (_, Some(_)) => Takes::Nothing,
                (takes, None) => takes,
            };
        }
        let number = text
            .get(1..)
            .is_some_and(|it| it.bytes().all(|it| it.is_ascii_digit()));
        if number && has(list, "-#") {
            return Takes::Nothing;
        }
        if text.starts_with("--") {
            self.add(Danger::UnknownOption);
            return Takes::Nothing;
        }
        self.cluster(list, text, certain)
    }

    /// `-abc`: flags, of which the last may have its value in the same word.
    fn cluster(&mut self, list: &str, text: &str, certain: bool) -> Takes {
        for (at, sign) in text.char_indices().skip(1) {
            let behind = text.get(at + sign.len_utf8()..).unwrap_or_default();
            match taken(list, &format!("-{sign}")) {
                None => {
                    self.add(Danger::UnknownOption);
                    return Takes::Nothing;
                }
                Some(Takes::Nothing) => {}
                Some(Takes::Attached) => return Takes::Nothing,
                Some(takes) if behind.is_empty() && certain => return takes,
                Some(Takes::Place) if certain => {
                    self.writes_to(behind.strip_prefix('=').unwrap_or(behind));
                    return Takes::Nothing;
                }
                Some(Takes::Place) => {
                    self.add(Danger::KnownOnlyWhenRun);
                    return Takes::Nothing;
                }
                Some(Takes::Value) if behind.is_empty() => {
                    self.add(Danger::KnownOnlyWhenRun);
                    return Takes::Nothing;
                }
                Some(Takes::Value) => return Takes::Nothing,
            }
        }
        if !certain {
            self.add(Danger::KnownOnlyWhenRun);
        }
        Takes::Nothing
    }
}

fn part(word: &Word) -> Part<'_> {
    match &word.value {
        Value::Fixed(text) if text.len() > 1 && text.starts_with('-') => Part::Option(text),
        Value::Fixed(_) => Part::Operand,
        Value::Pattern(text) if text.starts_with('{') => {
            let paths = places::expanded(text);
            let options =
                |it: &Vec<String>| it.iter().any(|it| it.starts_with(['-', '*', '?', '[']));
            if paths.as_ref().is_none_or(options) {
                Part::Either
            } else {
                Part::Operand
            }
        }
        Value::Pattern(text) if text.starts_with(['-', '*', '?', '[']) => Part::Either,
        Value::Pattern(_) => Part::Operand,
        Value::Open { before, one_word } => {
            let option = before.starts_with('-');
            if *one_word && option {
                Part::Option(before)
            } else if *one_word && !option && !before.is_empty() {
                Part::Operand
            } else {
                Part::Either
            }
        }
    }
}

fn has(list: &str, name: &str) -> bool {
    list.split_whitespace().any(|it| it == name)
}

fn taken(list: &str, name: &str) -> Option<Takes> {
    list.split_whitespace().find_map(|it| {
        let (said, takes) = match it.strip_suffix(['=', '>', '?']) {
            None => (it, Takes::Nothing),
            Some(said) if it.ends_with('=') => (said, Takes::Value),
            Some(said) if it.ends_with('>') => (said, Takes::Place),
            Some(said) => (said, Takes::Attached),
        };
        (said == name).then_some(takes)
    })
}
