//! Characters that show nothing, or change how others look.

use serde_json::Value;

/// Format characters, selectors of variants, tags, letters and signs that are blank, what is for private use, and what is no
/// character. Control characters are not counted here.
pub fn is_hidden(it: char) -> bool {
    matches!(u32::from(it),
        0x00AD | 0x034F | 0x061C | 0x115F..=0x1160 | 0x17B4..=0x17B5 | 0x180B..=0x180F | 0x200B..=0x200F
        | 0x2028..=0x202E | 0x2060..=0x206F | 0x2800 | 0x3164 | 0xE000..=0xF8FF | 0xFDD0..=0xFDEF
        | 0xFE00..=0xFE0F | 0xFEFF | 0xFFA0 | 0xFFF0..=0xFFFB | 0x13430..=0x1343F | 0x1BCA0..=0x1BCA3
        | 0x1D173..=0x1D17A | 0xE0000..=0x0010_FFFF)
        || u32::from(it) & 0xFFFE == 0xFFFE
}

/// A text of a stranger without what shows nothing and without control characters, and how many of them there were. New
/// lines and tabs stay.
pub fn without_hidden(text: &str) -> (String, usize) {
    let is_out =
        |it: &char| (it.is_control() && !matches!(it, '\n' | '\t' | '\r')) || is_hidden(*it);
    let count = text.chars().filter(is_out).count();
    if count == 0 {
        return (text.to_owned(), 0);
    }
    (text.chars().filter(|it| !is_out(it)).collect(), count)
}

/// The same without what emoji and some scripts are written with, and with what begins a sequence for a terminal: no
/// honest definition has any of it.
pub fn hides(it: char) -> bool {
    let joins = matches!(it, '\u{200c}' | '\u{200d}' | '\u{fe0e}' | '\u{fe0f}');
    (is_hidden(it) && !joins) || matches!(it, '\u{1b}' | '\u{9b}')
}

/// Whether a text in a value, or the name of one, has such characters.
pub fn any_hides(value: &Value) -> bool {
    match value {
        Value::String(text) => text.chars().any(hides),
        Value::Array(items) => items.iter().any(any_hides),
        Value::Object(fields) => fields
            .iter()
            .any(|(key, it)| key.chars().any(hides) || any_hides(it)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// A space that is not the plain one, line separators and all.
pub fn is_odd_space(it: char) -> bool {
    it.is_whitespace() && it != ' '
}

/// What a model may take for the end of a line.
pub fn is_line_end(it: char) -> bool {
    matches!(it, '\n'..='\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The text of an answer without what draws, hides or says nothing; `None`: no word is left.
pub fn cleaned(answer: &str) -> Option<String> {
    let lines = answer.split(is_line_end).map(|line| {
        let plain: String = line
            .chars()
            .filter(|it| !it.is_control() && !is_hidden(*it))
            .map(|it| if is_odd_space(it) { ' ' } else { it })
            .collect();
        plain.trim().to_owned()
    });
    let text = lines
        .filter(|it| !it.is_empty())
        .collect::<Vec<_>>()
        .join("\n");
    text.chars().any(char::is_alphanumeric).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_shows_nothing_is_taken_out_and_counted() {
        for (text, expected, count) in [
            ("a\n\tb é漢", "a\n\tb é漢", 0),
            ("\u{1b}[31mred\u{9b}0m\u{7f}\0", "[31mred0m", 4),
            ("a\u{202e}b\u{2066}\u{e0041}\u{fe0f}\u{200b}c", "abc", 5),
        ] {
            assert_eq!((expected.to_owned(), count), without_hidden(text));
        }
    }

    #[test]
    fn emoji_hide_nothing_and_escapes_do() {
        assert!(
            !"❤\u{fe0f} \u{1f468}\u{200d}\u{1f469} \n\t می\u{200c}خواهم"
                .chars()
                .any(hides)
        );
        for text in [
            "\u{1b}[8m",
            "\u{9b}8m",
            "a\u{200b}",
            "\u{202e}",
            "\u{e0041}",
            "\u{feff}",
        ] {
            assert!(text.chars().any(hides), "{text:?}");
        }
        let value = serde_json::json!({"a": [{"b\u{200b}": 1}]});
        assert!(any_hides(&value) && !any_hides(&value["a"][0]["b\u{200b}"]));
    }

    #[test]
    fn letters_of_all_scripts_are_seen_and_blank_ones_are_not() {
        let seen = "aZ é漢字 हिन्दी ไทย עברית 🙂 — … ½ €";
        assert_eq!(None, seen.chars().find(|it| is_hidden(*it)));
        let hidden = "\u{ad}\u{200d}\u{202e}\u{2066}\u{2800}\u{3164}\u{ffa0}\u{fe0f}\u{feff}\u{e000}\u{e0041}\u{fffe}\u{1fffe}\u{100000}";
        assert_eq!(None, hidden.chars().find(|it| !is_hidden(*it)));
        assert!(is_odd_space('\u{a0}') && is_odd_space('\u{3000}') && !is_odd_space(' '));
    }
}
