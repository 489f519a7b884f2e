//! Text from outside without what could drive a terminal or mislead whoever reads it.

use std::borrow::Cow;

use aishd_log::invisible_characters::is_hidden;

/// A text from outside as one may show it on one line.
pub fn safe(text: &str) -> Cow<'_, str> {
    let harmless = |it: char| !is_unsafe(it);
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let escaped = text.chars().map(|it| {
        if harmless(it) {
            it.to_string()
        } else {
            it.escape_unicode().to_string()
        }
    });
    Cow::Owned(escaped.collect())
}

/// What moves a cursor, or what people do not see or see in another order.
pub(super) fn is_unsafe(sign: char) -> bool {
    sign.is_control() || is_hidden(sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_drive_a_terminal_is_spelled_out() {
        assert_eq!("a\\u{1b}b", safe("a\u{1b}b"));
        assert_eq!("\\u{202e}", safe("\u{202e}"));
        assert_eq!("grün ", safe("grün "));
    }
}
