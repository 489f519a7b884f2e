//! The class of a text. The first rule that fits is the one that counts.

use aishd_log::routed::{ClassRule, QuestionClass};

use super::Classified;
use super::path::{has_path, has_source_file};

/// How far the beginning of a text goes, in characters.
const NEAR_START_CHARS: usize = 200;
/// A paste has more lines than this.
const PASTE_LINES: usize = 4;
/// A long question has more characters than this.
const LONG_CHARS: usize = 100;
/// What ends a question, in the scripts that people write.
const QUESTION_MARKS: [char; 4] = ['?', '？', '؟', '\u{37e}'];

/// What a question looks like. Pure, and done in one go over the text for each rule.
pub fn classify(text: &str) -> Classified {
    let text = text.trim_matches(['\n', '\r']);
    let lower = text.to_lowercase();
    if let Some(rule) = code(text, &lower) {
        let class = QuestionClass::Code;
        return Classified { class, rule };
    }
    if let Some(rule) = reasoning(text, &lower) {
        let class = QuestionClass::Reasoning;
        return Classified { class, rule };
    }
    Classified {
        class: QuestionClass::Default,
        rule: ClassRule::None,
    }
}

fn code(text: &str, lower: &str) -> Option<ClassRule> {
    if text.contains("```") {
        return Some(ClassRule::Fence);
    }
    if lower.contains("traceback") {
        return Some(ClassRule::Traceback);
    }
    if lower.contains("stacktrace") || lower.contains("stack trace") {
        return Some(ClassRule::StackTrace);
    }
    if said_near_start(text, "error:") {
        return Some(ClassRule::Error);
    }
    if said_near_start(text, "exception:") {
        return Some(ClassRule::Exception);
    }
    if has_path(text) {
        return Some(ClassRule::Path);
    }
    if has_source_file(text) {
        return Some(ClassRule::SourceFile);
    }
    is_paste(text).then_some(ClassRule::Paste)
}

fn reasoning(text: &str, lower: &str) -> Option<ClassRule> {
    if has_word(lower, "explain") {
        return Some(ClassRule::Explain);
    }
    if has_word(lower, "why") {
        return Some(ClassRule::Why);
    }
    if has_how_does(lower) {
        return Some(ClassRule::HowDoes);
    }
    if has_word(lower, "compare") {
        return Some(ClassRule::Compare);
    }
    let asks = text.contains(QUESTION_MARKS);
    let is_long = text.trim().chars().nth(LONG_CHARS).is_some();
    (asks && is_long).then_some(ClassRule::LongQuestion)
}

/// Whether a word that ends in a colon begins within the first characters, by itself or as the last part of a longer
/// name: `error:`, `TypeError:`, `E_ERROR:`, but not `terror:`.
fn said_near_start(text: &str, word: &str) -> bool {
    let near_end = text.char_indices().nth(NEAR_START_CHARS);
    let near_end = near_end.map_or(text.len(), |(at, _)| at);
    let mut before: Option<char> = None;
    for (at, sign) in text.char_indices().take_while(|(at, _)| *at < near_end) {
        let begins = sign.is_uppercase() || before.is_none_or(|it| !is_cased(it));
        let found = text.get(at..at + word.len());
        if begins && found.is_some_and(|it| it.eq_ignore_ascii_case(word)) {
            return true;
        }
        before = Some(sign);
    }
    false
}

/// Whether it has more than four lines, one of them indented.
fn is_paste(text: &str) -> bool {
    let indented = |it: &str| it.starts_with([' ', '\t']) && !it.trim().is_empty();
    text.trim_end().lines().count() > PASTE_LINES && text.lines().any(indented)
}

fn has_word(lower: &str, word: &str) -> bool {
    lower.match_indices(word).any(|(at, _)| {
        let (before, after) = (&lower[..at], &lower[at + word.len()..]);
        !before.ends_with(is_letter) && !after.starts_with(is_letter)
    })
}

/// `how does`, whatever white space is between the two.
fn has_how_does(lower: &str) -> bool {
    lower.match_indices("how").any(|(at, _)| {
        let (before, after) = (&lower[..at], &lower[at + 3..]);
        let next = after.trim_start();
        let rest = next.strip_prefix("does");
        !before.ends_with(is_letter)
            && next.len() < after.len()
            && rest.is_some_and(|it| !it.starts_with(is_letter))
    })
}

/// A sign that a word goes on with. Scripts without spaces have no capitals: what stands between such is a word.
fn is_letter(sign: char) -> bool {
    is_cased(sign) || sign.is_ascii_digit() || sign == '_'
}

fn is_cased(sign: char) -> bool {
    sign.is_lowercase() || sign.is_uppercase()
}
