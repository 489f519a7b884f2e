//! What the bytes of a text mean: by a mark at its beginning, by what its server or the page itself says, and else by looking.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// A page says within so many bytes what it is written in.
const PRESCANNED_BYTES: usize = 1024;

/// The text. What means nothing in its encoding is `U+FFFD`.
pub(crate) fn decoded(bytes: &[u8], said: Option<&str>, is_html: bool) -> String {
    let said = said.and_then(|it| Encoding::for_label(it.trim().as_bytes()));
    let within = || if is_html { of_page(bytes) } else { None };
    let encoding = said.or_else(within).unwrap_or_else(|| guessed(bytes));
    // A mark of the byte order goes before all of it.
    encoding.decode(bytes).0.into_owned()
}

fn guessed(bytes: &[u8]) -> &'static Encoding {
    // A text that was cut may end within a character.
    let whole = match std::str::from_utf8(bytes) {
        Ok(_) => true,
        Err(error) => error.error_len().is_none(),
    };
    if whole { UTF_8 } else { WINDOWS_1252 }
}

/// `<meta charset="…">`, or the older form.
fn of_page(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(PRESCANNED_BYTES)];
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let metas = head.split("<meta").skip(1);
    let mut labels = metas.filter_map(|it| {
        let within = it.split('>').next()?;
        let after = within.split_once("charset")?.1.trim_start();
        let after = after.strip_prefix('=')?.trim_start();
        let after = after.trim_start_matches(['"', '\'']);
        let end = after.find(|it: char| matches!(it, '"' | '\'' | ';' | '/') || it.is_whitespace());
        Some(after[..end.unwrap_or(after.len())].to_owned())
    });
    let found = labels.find_map(|it| Encoding::for_label(it.as_bytes()))?;
    // A page whose ASCII could be read is not of these.
    let is_wide = found == encoding_rs::UTF_16LE || found == encoding_rs::UTF_16BE;
    Some(if is_wide { UTF_8 } else { found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: &[u8], said: Option<&str>, expected: &str) {
        assert_eq!(expected, decoded(bytes, said, true));
    }

    #[test]
    fn a_text_is_read_as_what_it_is_written_in() {
        check("Grüße".as_bytes(), None, "Grüße");
        check(b"Gr\xfc\xdfe", None, "Grüße");
        check(b"Gr\xfc\xdfe", Some("iso-8859-1"), "Grüße");
        check(b"\xef\xbb\xbfGr\xc3\xbc", Some("iso-8859-1"), "Grü");
        check(b"\xff\xfeG\0r\0", None, "Gr");
        check(b"\x83J", Some("Shift_JIS"), "カ");
        check(
            b"<meta charset=shift_jis>\x83J",
            None,
            "<meta charset=shift_jis>カ",
        );
        let older =
            b"<META http-equiv='Content-Type' content=\"text/html; charset=koi8-r\"><p>\xd0";
        assert!(decoded(older, None, true).ends_with('п'));
        check(b"<meta charset=utf-16>G", None, "<meta charset=utf-16>G");
        check(b"a\xff", Some("utf-8"), "a\u{fffd}");
        check(b"x", Some("no-such"), "x");
        assert_eq!(
            "<meta charset=koi8-r>Ð.",
            decoded(b"<meta charset=koi8-r>\xd0.", None, false)
        );
    }
}
