//! A program with what it is told: which of its words are options, which are values of options, and which rows of the table
//! are about it.

use super::Input;
use super::table::{Given, NameList, TableRow, WordTable, is_like};
use crate::command::{Value, Word};

/// A program with what it is told.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) name: &'a str,
    pub(super) args: &'a [Word],
    pub(super) input: &'a Input,
}

/// An option with its value, if it has one.
#[derive(Debug)]
pub(super) struct GivenOption<'a> {
    pub(super) text: &'a str,
    pub(super) value: Option<Word>,
    /// Where it stands among the words.
    pub(super) at: usize,
}

/// The words of a call by what they are.
#[derive(Debug, Default)]
pub(super) struct CallWords<'a> {
    pub(super) options: Vec<GivenOption<'a>>,
    /// Where those stand that are neither options nor their values.
    pub(super) operands: Vec<usize>,
    values: Option<&'a NameList>,
    has_end: bool,
}

impl<'a> Call<'a> {
    pub(super) fn words(&self, table: &'a WordTable) -> CallWords<'a> {
        let mut words = CallWords {
            values: table.takes_value(self.name),
            ..CallWords::default()
        };
        let mut at = 0;
        while let Some(word) = self.args.get(at) {
            let text = certain_part(word);
            if text == "--" && word.fixed().is_some() && !words.has_end {
                words.has_end = true;
            } else if words.has_end || !text.starts_with('-') || text.len() < 2 {
                words.operands.push(at);
            } else {
                let (attached, takes_next) = words.value_of(text, word);
                let value = attached.or_else(|| {
                    let next = self.args.get(at + 1).filter(|_| takes_next);
                    next.cloned()
                });
                words.options.push(GivenOption { text, value, at });
                at += usize::from(takes_next);
            }
            at += 1;
        }
        words
    }

    pub(super) fn operand(&self, words: &CallWords<'_>, number: usize) -> Option<&'a Word> {
        words.operands.get(number).and_then(|it| self.args.get(*it))
    }

    /// Whether a row is about the subcommand, which is one word or two.
    fn is_sub(&self, row: &TableRow, words: &CallWords<'_>) -> bool {
        if row.sub.is_empty() {
            return true;
        }
        let text = |number| self.operand(words, number).map_or("", certain_part);
        let (first, second) = (text(0), text(1));
        row.sub.has(first) || row.sub.has(&format!("{first}:{second}"))
    }

    /// Whether a row is about this call, but for the options that it wants.
    pub(super) fn is_about(&self, row: &TableRow, words: &CallWords<'_>) -> bool {
        self.is_sub(row, words)
            && self.is_told_none(row, words)
            && (row.says.is_empty() || self.says(&row.says, words))
            && row.given.is_none_or(|it| self.is_given(it, words))
    }

    pub(super) fn is_told_none(&self, row: &TableRow, words: &CallWords<'_>) -> bool {
        !row.none.0.iter().any(|it| self.is_told(it, words))
    }

    pub(super) fn is_told_any(&self, row: &TableRow, words: &CallWords<'_>) -> bool {
        row.any.is_empty() || row.any.0.iter().any(|it| self.is_told(it, words))
    }

    fn is_told(&self, wanted: &str, words: &CallWords<'_>) -> bool {
        if wanted == "--" {
            return words.has_end;
        }
        let operands = words.operands.iter().filter_map(|it| self.args.get(*it));
        if wanted.starts_with('-') {
            let mut options = words.options.iter();
            // Behind `--` stands what is for the program that this one runs.
            let mut handed_on = operands.map(certain_part).filter(|it| it.starts_with('-'));
            return options.any(|it| words.is_option(wanted, it.text))
                || handed_on.any(|it| words.is_option(wanted, it));
        }
        let values = words.options.iter().filter_map(|it| it.value.as_ref());
        values
            .chain(operands)
            .any(|it| is_like(wanted, certain_part(it)))
    }

    /// Whether one of these words stands in what it is told or given to read.
    fn says(&self, wanted: &NameList, words: &CallWords<'_>) -> bool {
        let given = match self.input {
            Input::Text(text) => Some(text.as_str()),
            Input::Inherited | Input::Stream => None,
        };
        let values = words.options.iter().filter_map(|it| it.value.as_ref());
        let mut texts = self
            .args
            .iter()
            .chain(values)
            .map(certain_part)
            .chain(given);
        texts.any(|it| {
            let text = it.to_lowercase();
            wanted.0.iter().any(|wanted| has_word(&text, wanted))
        })
    }

    fn is_given(&self, given: Given, words: &CallWords<'_>) -> bool {
        let first = self.operand(words, 0).map(certain_part);
        let reads_code = matches!(first, None | Some("-" | "/dev/stdin"))
            || words
                .options
                .iter()
                .any(|it| words.is_option("-s", it.text));
        match given {
            Given::Nothing => first.is_none(),
            Given::Something => first.is_some(),
            Given::Terminal => self.args.is_empty() && *self.input == Input::Inherited,
            Given::Code => *self.input == Input::Stream && reads_code,
            Given::Fed => *self.input == Input::Stream,
            Given::Unknown => self.args.iter().any(|it| it.fixed().is_none()),
        }
    }
}

impl CallWords<'_> {
    /// The value that stands with an option, and whether it takes the next word.
    fn value_of(&self, text: &str, word: &Word) -> (Option<Word>, bool) {
        let made = |value: &str| {
            let mut made = word.clone();
            let (Value::Fixed(text) | Value::Pattern(text) | Value::Open { before: text, .. }) =
                &mut made.value;
            value.clone_into(text);
            value.clone_into(&mut made.written);
            made
        };
        let takes = |name: &str| self.values.is_some_and(|it| it.has(name));
        if let Some((_, value)) = text.split_once('=') {
            return (Some(made(value)), false);
        }
        if text.starts_with("--") || takes(text) {
            return (None, takes(text));
        }
        let sign = text.char_indices().skip(1);
        let mut taking = sign.filter(|(_, it)| takes(&format!("-{it}")));
        match taking.next() {
            None => (None, false),
            Some((at, sign)) => match text.get(at + sign.len_utf8()..) {
                None | Some("") => (None, word.fixed().is_some()),
                Some(value) => (Some(made(value)), false),
            },
        }
    }

    /// Whether an option is the one that is wanted: short ones may stand together, long ones be cut off.
    pub(super) fn is_option(&self, wanted: &str, text: &str) -> bool {
        let name = text.split('=').next().unwrap_or(text);
        if is_like(wanted, name) || is_like(wanted, text) {
            return true;
        }
        if wanted.starts_with("--") {
            return name.len() > 3 && name.starts_with("--") && wanted.starts_with(name);
        }
        if wanted.len() != 2 || text.starts_with("--") {
            return false;
        }
        let takes = |sign: char| self.values.is_some_and(|it| it.has(&format!("-{sign}")));
        for sign in text.chars().skip(1) {
            if wanted.ends_with(sign) {
                return true;
            }
            if takes(sign) || !sign.is_ascii_alphanumeric() {
                return false;
            }
        }
        false
    }
}

/// What a word certainly begins with.
pub(super) fn certain_part(word: &Word) -> &str {
    match &word.value {
        Value::Fixed(text) | Value::Pattern(text) => text,
        Value::Open { before, .. } => before,
    }
}

/// Whether a word stays one, whatever it is.
pub(super) fn is_one(word: &Word) -> bool {
    match &word.value {
        Value::Fixed(_) => true,
        Value::Pattern(_) => false,
        Value::Open { one_word, .. } => *one_word,
    }
}

/// Whether a text has this, and not as a part of another word.
fn has_word(text: &str, wanted: &str) -> bool {
    let part = |it: char| it.is_alphanumeric() || it == '_';
    let mut found = text.match_indices(wanted);
    found.any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let behind = text[at + wanted.len()..].chars().next();
        let begins = !wanted.starts_with(part) || !before.is_some_and(part);
        begins && (!wanted.ends_with(part) || !behind.is_some_and(part))
    })
}
