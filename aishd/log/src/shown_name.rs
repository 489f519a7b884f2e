//! Names of files as a model is shown them: one line, whatever is in them.

use crate::invisible_characters::{is_hidden, is_odd_space};

/// Characters of one name; the rest is left out, visibly.
const MOST_CHARS: usize = 120;
/// Characters of a directory's path.
const PATH_CHARS: usize = 400;

/// A name. What moves, hides or reorders is an escape, and so are the signs that mark blocks.
pub fn shown_name(name: &str) -> String {
    escaped(name, MOST_CHARS)
}

/// A path.
pub fn shown_path(path: &str) -> String {
    escaped(path, PATH_CHARS)
}

fn escaped(text: &str, most: usize) -> String {
    let mut shown = String::with_capacity(text.len());
    for (at, sign) in text.chars().enumerate() {
        if at == most {
            shown.push('…');
            break;
        }
        let odd = sign.is_control() || is_hidden(sign) || is_odd_space(sign);
        if odd || matches!(sign, '<' | '>' | '\\') {
            shown.push_str(&format!("\\u{{{:x}}}", u32::from(sign)));
        } else {
            shown.push(sign);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_line_of_visible_signs() {
        for (name, expected) in [
            ("main.rs", "main.rs"),
            ("hello world é漢.txt", "hello world é漢.txt"),
            ("a\nb\u{1b}[2J", "a\\u{a}b\\u{1b}[2J"),
            (
                "\u{202e}exe.txt\u{a0}\u{2028}",
                "\\u{202e}exe.txt\\u{a0}\\u{2028}",
            ),
            ("\\u{a}", "\\u{5c}u{a}"),
            ("</files>", "\\u{3c}/files\\u{3e}"),
        ] {
            assert_eq!(expected, shown_name(name), "{name:?}");
        }
        assert_eq!("x".repeat(120) + "…", shown_name(&"x".repeat(4_000)));
    }
}
