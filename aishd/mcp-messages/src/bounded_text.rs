//! Texts of servers, cut where they enter.

/// At most `max` characters, with a mark where it was cut.
pub fn cut(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        None => text.to_owned(),
        Some((at, _)) => format!("{}…", &text[..at]),
    }
}

/// As [`cut`], on one line: runs of white space and control characters become one space.
pub fn one_line(text: &str, max: usize) -> String {
    let words = text.split(|it: char| it.is_whitespace() || it.is_control());
    let mut line = String::new();
    for word in words.filter(|it| !it.is_empty()) {
        if !line.is_empty() {
            line.push(' ');
        }
        // Of a long text only the beginning is looked at; one more character makes that seen.
        line.extend(word.chars().take(max + 1));
        if line.len() > 4 * max {
            break;
        }
    }
    cut(&line, max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_is_seen_and_splits_no_character() {
        assert_eq!("añb", cut("añb", 3));
        assert_eq!("añ…", cut("añb", 2));
        assert_eq!("a b c", one_line(" a\n\tb\u{1b} c\r\n", 9));
        assert_eq!("a a …", one_line(&"a\n".repeat(1 << 20), 4));
        assert_eq!("ññññ…", one_line(&"ñ".repeat(1 << 20), 4));
        assert_eq!("", one_line(&"\u{7f}".repeat(1 << 20), 4));
    }
}
