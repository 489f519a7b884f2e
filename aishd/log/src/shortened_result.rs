//! Results that are too long for the model's context: the middle is left out, with a mark that says so.

/// Characters of a result that the model is shown.
pub const MAX_RESULT_CHARS: usize = 16_000;
/// Whatever a character weighs, so much and no more comes into the context.
pub const MAX_RESULT_BYTES: usize = 256 << 10;
/// So much of a result is kept to be read later; the rest is lost, and the result says so.
pub const MAX_KEPT_BYTES: usize = 16 << 20;

/// The beginning and the end of a text with `mark` between them, which learns how many bytes were left out and
/// where; `None` when the text is short enough as it is.
pub fn without_middle(
    text: &str,
    max_chars: usize,
    max_bytes: usize,
    mark: impl FnOnce(LeftOut) -> String,
) -> Option<String> {
    let chars = text.chars().count();
    if chars <= max_chars && text.len() <= max_bytes {
        return None;
    }
    let half_bytes = max_bytes / 2;
    let head_chars = text.char_indices().nth(max_chars / 2);
    let head = head_chars.map_or(text.len(), |(at, _)| at).min(half_bytes);
    let head = text.floor_char_boundary(head);
    let tail_chars = text
        .char_indices()
        .nth_back((max_chars / 2).saturating_sub(1));
    let tail = tail_chars.map_or(0, |(at, _)| at);
    let tail = tail.max(text.len().saturating_sub(half_bytes)).max(head);
    let tail = text.ceil_char_boundary(tail);
    let left_out = LeftOut {
        from: head,
        to: tail,
        whole: text.len(),
    };
    Some(format!(
        "{}\n{}\n{}",
        &text[..head],
        mark(left_out),
        &text[tail..]
    ))
}

/// Bytes `from..to` of `whole`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeftOut {
    pub from: usize,
    pub to: usize,
    pub whole: usize,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, max_chars: usize, max_bytes: usize, expected: Option<&str>) {
        let cut = without_middle(text, max_chars, max_bytes, |it| {
            format!("[{}..{} of {}]", it.from, it.to, it.whole)
        });
        assert_eq!(expected, cut.as_deref());
    }

    #[test]
    fn the_middle_goes() {
        check("0123456789", 10, 100, None);
        check("0123456789", 4, 100, Some("01\n[2..8 of 10]\n89"));
        check("0123456789", 100, 4, Some("01\n[2..8 of 10]\n89"));
        check("ééééé", 2, 100, Some("é\n[2..8 of 10]\né"));
        check("ééééé", 100, 6, Some("é\n[2..8 of 10]\né"));
    }

    proptest! {
        #[test]
        fn it_is_never_longer_than_allowed_and_keeps_both_ends(text in "[aé🙂\n]{0,200}", chars in 2usize..50, bytes in 16usize..100) {
            if let Some(cut) = without_middle(&text, chars, bytes, |_| "#".to_owned()) {
                let (head, tail) = cut.split_once("\n#\n").unwrap();
                prop_assert!(head.len() + tail.len() <= bytes);
                prop_assert!(head.chars().count() + tail.chars().count() <= chars);
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
            } else {
                prop_assert!(text.chars().count() <= chars && text.len() <= bytes);
            }
        }
    }
}
