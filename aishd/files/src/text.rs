//! The text of a file: its encoding, its line ends, and what of it is no text.

use std::borrow::Cow;

const UTF8_MARK: &str = "\u{feff}";

/// How a file writes its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextEncoding {
    Utf8,
    /// With a byte order mark before it.
    Utf8Marked,
    Utf16Le,
    Utf16Be,
}

/// How lines end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineEnds {
    /// None ends, or all with a newline.
    Plain,
    /// All with a carriage return and a newline.
    Windows,
    Mixed {
        plain: usize,
        windows: usize,
    },
}

/// The text of a file, without its mark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DecodedText<'a> {
    pub(crate) encoding: TextEncoding,
    /// What is no text stands there as `\xNN`.
    pub(crate) text: Cow<'a, str>,
    /// How many bytes are no text.
    pub(crate) invalid: usize,
}

impl<'a> DecodedText<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        match bytes {
            [0xff, 0xfe, rest @ ..] => utf16(rest, TextEncoding::Utf16Le, u16::from_le_bytes),
            [0xfe, 0xff, rest @ ..] => utf16(rest, TextEncoding::Utf16Be, u16::from_be_bytes),
            _ => match bytes.strip_prefix(UTF8_MARK.as_bytes()) {
                Some(rest) => utf8(rest, TextEncoding::Utf8Marked),
                None => utf8(bytes, TextEncoding::Utf8),
            },
        }
    }

    pub(crate) fn line_ends(&self) -> LineEnds {
        LineEnds::of(&self.text)
    }
}

impl TextEncoding {
    /// The bytes of a file with this text; none where we do not write it.
    pub(crate) fn bytes(self, text: &str) -> Option<Vec<u8>> {
        match self {
            Self::Utf8 => Some(text.as_bytes().to_vec()),
            Self::Utf8Marked => Some([UTF8_MARK.as_bytes(), text.as_bytes()].concat()),
            Self::Utf16Le | Self::Utf16Be => None,
        }
    }

    pub(crate) fn is_utf16(self) -> bool {
        matches!(self, Self::Utf16Le | Self::Utf16Be)
    }
}

impl LineEnds {
    pub(crate) fn of(text: &str) -> Self {
        let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        let windows = memchr::memmem::find_iter(text.as_bytes(), b"\r\n").count();
        match (all - windows, windows) {
            (_, 0) => Self::Plain,
            (0, _) => Self::Windows,
            (plain, windows) => Self::Mixed { plain, windows },
        }
    }
}

/// Text with a carriage return before each newline.
pub(crate) fn with_windows_ends(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\n', "\r\n")
}

/// What can be shown of bytes: what is no text is `\xNN`. Returns how many of them are none.
pub(crate) fn shown_bytes(bytes: &[u8]) -> (Cow<'_, str>, usize) {
    if let Ok(text) = str::from_utf8(bytes) {
        return (Cow::Borrowed(text), 0);
    }
    let mut text = String::with_capacity(bytes.len());
    let mut invalid = 0;
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
            invalid += 1;
        }
    }
    (Cow::Owned(text), invalid)
}

fn utf8(bytes: &[u8], encoding: TextEncoding) -> DecodedText<'_> {
    let (text, invalid) = shown_bytes(bytes);
    DecodedText {
        encoding,
        text,
        invalid,
    }
}

fn utf16<'a>(
    bytes: &[u8],
    encoding: TextEncoding,
    unit: impl Fn([u8; 2]) -> u16,
) -> DecodedText<'a> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    let mut text = String::with_capacity(bytes.len());
    let mut invalid = rest.len();
    for decoded in char::decode_utf16(pairs.iter().map(|it| unit(*it))) {
        match decoded {
            Ok(sign) => text.push(sign),
            Err(alone) => {
                text.push_str(&format!("\\u{{{:x}}}", alone.unpaired_surrogate()));
                invalid += 2;
            }
        }
    }
    DecodedText {
        encoding,
        text: Cow::Owned(text),
        invalid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_in_the_encoding_that_it_has() {
        let check = |bytes: &[u8], encoding: TextEncoding, text: &str, invalid: usize| {
            let expected = DecodedText {
                encoding,
                text: Cow::Borrowed(text),
                invalid,
            };
            assert_eq!(expected, DecodedText::of(bytes));
        };
        check(b"", TextEncoding::Utf8, "", 0);
        check(
            "gr\u{f6}\u{df}er".as_bytes(),
            TextEncoding::Utf8,
            "größer",
            0,
        );
        check(b"\xef\xbb\xbfa", TextEncoding::Utf8Marked, "a", 0);
        check(b"caf\xe9!", TextEncoding::Utf8, "caf\\xe9!", 1);
        check(b"\xff\xfea\0\xe9\0", TextEncoding::Utf16Le, "aé", 0);
        check(
            b"\xfe\xff\0a\xd8\x3e\xdd\x80",
            TextEncoding::Utf16Be,
            "a🦀",
            0,
        );
        check(b"\xff\xfe\0\xd8a", TextEncoding::Utf16Le, "\\u{d800}", 3);
    }

    #[test]
    fn what_was_read_is_written_as_it_was() {
        for bytes in [&b"a\r\nb"[..], b"\xef\xbb\xbfa\n", b""] {
            let read = DecodedText::of(bytes);
            assert_eq!(Some(bytes), read.encoding.bytes(&read.text).as_deref());
        }
        assert_eq!(None, TextEncoding::Utf16Le.bytes("a"));
    }

    #[test]
    fn line_ends_are_of_one_kind_or_mixed() {
        assert_eq!(LineEnds::Plain, LineEnds::of("a"));
        assert_eq!(LineEnds::Plain, LineEnds::of("a\n\rb\n"));
        assert_eq!(LineEnds::Windows, LineEnds::of("a\r\nb"));
        let mixed = LineEnds::Mixed {
            plain: 1,
            windows: 2,
        };
        assert_eq!(mixed, LineEnds::of("a\r\nb\nc\r\n"));
        assert_eq!("a\r\nb\r\n", with_windows_ends("a\nb\r\n"));
    }
}
