//! What may reach a screen. Every function looks at one character at a time, so
//! that the result does not depend on how a text was cut into pieces.

use std::borrow::Cow;

/// The text without anything that moves the cursor, colours, rings, hides or reorders: C0 and C1 (but
/// `\n` and `\t`), DEL, bidi controls, zero-width and other format characters, tags. The joiners stay: emoji,
/// Persian and Indic text need them. The line separators of Unicode become line feeds.
pub fn screen(text: &str) -> String {
    text.chars()
        .filter_map(|it| match it {
            '\n' | '\t' => Some(it),
            '\u{2028}' | '\u{2029}' => Some('\n'),
            _ if is_joiner(it) => Some(it),
            _ if it.is_control() || is_invisible(it) => None,
            _ => Some(it),
        })
        .collect()
}

/// [`screen`] for a place that is one line, such as a name: line feeds and tabs become spaces. No joiners here,
/// for two names that look alike must be alike.
pub fn one_line(text: &str) -> String {
    screen(text)
        .chars()
        .filter(|it| !is_joiner(*it))
        .map(|it| if it == '\n' || it == '\t' { ' ' } else { it })
        .collect()
}

/// The text for a pipe or file: control characters are gone but `\n`, `\t` and `\r`.
pub fn pipe(text: &str) -> String {
    text.chars()
        .filter(|it| matches!(it, '\n' | '\t' | '\r') || !it.is_control())
        .collect()
}

/// JSON for a screen: what [`screen`] would take out stands as an escape, so the JSON means the same.
pub fn json(line: &str) -> String {
    escaped(line, |it| {
        let separator = matches!(it, '\u{2028}' | '\u{2029}');
        it.is_control() || is_invisible(it) || separator
    })
}

/// JSON for a pipe or file: control characters stand as escapes. JSON itself lets DEL and C1 through.
pub fn json_pipe(line: &str) -> Cow<'_, str> {
    let wild = |it: char| it.is_control() && !matches!(it, '\n' | '\t');
    if line.chars().any(wild) {
        Cow::Owned(escaped(line, wild))
    } else {
        Cow::Borrowed(line)
    }
}

fn escaped(line: &str, wild: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(line.len());
    for it in line.chars() {
        let layout = matches!(it, '\n' | '\t');
        if !layout && wild(it) {
            for unit in it.encode_utf16(&mut [0; 2]) {
                safe.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            safe.push(it);
        }
    }
    safe
}

/// A text that a person is to judge: on one line, and every character that could hide, reorder or look like nothing
/// stands as an escape. What is not known to be visible is escaped too.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for it in text.chars() {
        if is_plainly_visible(it) {
            shown.push(it);
        } else {
            shown.push_str(&format!("\\u{{{:x}}}", u32::from(it)));
        }
    }
    shown
}

/// Printable ASCII, letters and digits of all scripts, and the common signs; none of the letters that show nothing.
fn is_plainly_visible(it: char) -> bool {
    let fillers = [
        '\u{115f}', '\u{1160}', '\u{17b4}', '\u{17b5}', '\u{3164}', '\u{ffa0}',
    ];
    if fillers.contains(&it) || is_invisible(it) {
        return false;
    }
    let signs = [
        0x20..=0x7E,
        0xA1..=0xAC,
        0xAE..=0xFF,
        0x2010..=0x2027,
        0x2030..=0x205E,
        0x20A0..=0x20C0,
        0x2100..=0x23FF,
        0x2500..=0x27BF,
        0x3001..=0x3020,
        0xFF01..=0xFF60,
        0x1F300..=0x1F64F,
        0x1F680..=0x1F6FF,
        0x1F900..=0x1F9FF,
    ];
    it.is_alphanumeric() || signs.iter().any(|signs| signs.contains(&u32::from(it)))
}

/// ZWNJ and ZWJ.
fn is_joiner(it: char) -> bool {
    matches!(it, '\u{200c}' | '\u{200d}')
}

/// Format characters (general category Cf) and other invisible ones. Arabic and Kaithi number signs
/// are Cf too, but visible, and stay; so do the two selectors that choose between text and emoji.
fn is_invisible(it: char) -> bool {
    matches!(u32::from(it),
        0x00AD | 0x034F | 0x061C | 0x180B..=0x180F | 0x200B..=0x200F | 0x202A..=0x202E
        | 0x2060..=0x206F | 0xFE00..=0xFE0D | 0xFEFF | 0xFFF0..=0xFFFB
        | 0x13430..=0x1343F | 0x1BCA0..=0x1BCA3 | 0x1D173..=0x1D17A | 0xE0000..=0xE0FFF)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, on_screen: &str, in_pipe: &str) {
        assert_eq!(on_screen, screen(text));
        assert_eq!(in_pipe, pipe(text));
    }

    #[test]
    fn nothing_reaches_the_terminal_but_text() {
        check("plain\ttext\n", "plain\ttext\n", "plain\ttext\n");
        check("\u{1b}[31mred\u{1b}[0m", "[31mred[0m", "[31mred[0m");
        check("\u{1b}]0;title\u{7}x", "]0;titlex", "]0;titlex");
        check("a\u{9b}31mb\u{7f}", "a31mb", "a31mb");
        check("over\rwritten", "overwritten", "over\rwritten");
        check(
            "\u{202e}txt.exe\u{2066}",
            "txt.exe",
            "\u{202e}txt.exe\u{2066}",
        );
        check(
            "a\u{200b}b\u{feff}c\u{e0041}",
            "abc",
            "a\u{200b}b\u{feff}c\u{e0041}",
        );
        check("one\u{2028}two", "one\ntwo", "one\u{2028}two");
        check(
            "日本 émoji 🙂 ❤\u{fe0f}",
            "日本 émoji 🙂 ❤\u{fe0f}",
            "日本 émoji 🙂 ❤\u{fe0f}",
        );
        let joined = "👩\u{200d}💻 می\u{200c}خواهم ❤\u{fe0f}";
        check(joined, joined, joined);
        assert_eq!("a b c", one_line("a\nb\tc"));
        assert_eq!("ab", one_line("a\u{200d}b\u{200c}"));
    }

    #[test]
    fn json_on_a_screen_means_the_same() {
        let value =
            serde_json::json!({"text": "a\u{1b}[2J\u{9b}b\u{202e}c\u{7f}\u{e0041}\u{2028}"});
        let line = json(&value.to_string());
        assert_eq!(screen(&line), line);
        let piped = value.to_string();
        let piped = json_pipe(&piped);
        assert!(!piped.chars().any(char::is_control) && piped.contains('\u{202e}'));
        assert_eq!(
            value,
            serde_json::from_str::<serde_json::Value>(&piped).unwrap()
        );
        assert!(matches!(json_pipe("{\"a\": \"ü\"}\n"), Cow::Borrowed(_)));
        assert_eq!(
            value,
            serde_json::from_str::<serde_json::Value>(&line).unwrap()
        );
    }

    #[test]
    fn a_text_to_be_judged_hides_nothing() {
        for (text, expected) in [
            ("rm -rf ~", "rm -rf ~"),
            ("é漢字ß €5 – “x” 🙂", "é漢字ß €5 – “x” 🙂"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{200d}\u{200b}b", "a\\u{200d}\\u{200b}b"),
            ("\u{1b}[2J\n\t", "\\u{1b}[2J\\u{a}\\u{9}"),
            ("\u{a0}\u{2003}\u{3000}", "\\u{a0}\\u{2003}\\u{3000}"),
            ("x\u{fe0f}\u{e0041}\u{ad}", "x\\u{fe0f}\\u{e0041}\\u{ad}"),
            (
                "\u{3164}\u{2800}\u{e000}\u{378}",
                "\\u{3164}\\u{2800}\\u{e000}\\u{378}",
            ),
            ("a\u{301}", "a\\u{301}"),
        ] {
            assert_eq!(expected, visible(text));
        }
    }

    proptest! {
        #[test]
        fn no_control_survives_and_visible_text_does(text in any::<String>(), wild in "[\\x00-\\x1f\\x7f-\\x9f\u{200b}-\u{202e}a-zé日]*") {
            for text in [text, wild] {
                let shown = screen(&text);
                prop_assert!(shown.chars().all(|it| it == '\n' || it == '\t' || !it.is_control()));
                let hidden = ['\u{202e}', '\u{2066}', '\u{200b}', '\u{feff}'];
                prop_assert!(!shown.contains(hidden));
                let visible = |it: &char| it.is_alphanumeric() || it.is_ascii_graphic();
                let before: String = text.chars().filter(visible).collect();
                let after: String = shown.chars().filter(visible).collect();
                prop_assert_eq!(before, after);
                prop_assert_eq!(screen(&shown), shown);
            }
        }

        #[test]
        fn pieces_give_what_the_whole_gives(pieces in proptest::collection::vec(any::<String>(), 0..6)) {
            let apart: String = pieces.iter().map(|it| screen(it)).collect();
            prop_assert_eq!(apart, screen(&pieces.concat()));
            let apart: String = pieces.iter().map(|it| pipe(it)).collect();
            prop_assert_eq!(apart, pipe(&pieces.concat()));
        }
    }
}
