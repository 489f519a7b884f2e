//! What a command prints, as text: a pipe cuts characters wherever it likes.

/// Bytes that come in pieces, as text.
#[derive(Debug, Default)]
pub(super) struct PieceText {
    pub(super) whole: String,
    /// The beginning of a character whose rest has not come.
    held: Vec<u8>,
    pub(super) read: usize,
}

impl PieceText {
    /// What was added to the text.
    pub(super) fn push(&mut self, bytes: &[u8]) -> &str {
        let before = self.whole.len();
        self.read += bytes.len();
        self.held.extend_from_slice(bytes);
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.whole.push_str(text);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.whole.push_str(&String::from_utf8_lossy(good));
                    let Some(length) = error.error_len() else {
                        rest = bad;
                        break;
                    };
                    self.whole.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[length..];
                }
            }
        }
        self.held = rest.to_vec();
        &self.whole[before..]
    }

    pub(super) fn finish(mut self) -> String {
        if !self.held.is_empty() {
            self.whole.push(char::REPLACEMENT_CHARACTER);
        }
        self.whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&[u8]], expected: &str) {
        let mut text = PieceText::default();
        let mut printed = String::new();
        for piece in pieces {
            printed.push_str(text.push(piece));
        }
        let whole = text.finish();
        assert_eq!(expected, whole);
        assert!(whole.starts_with(&printed));
    }

    #[test]
    fn characters_are_whole_however_the_pipe_cuts_them() {
        check(&[b"a\xc3", b"\xa9b"], "aéb");
        check(&[b"\xe2\x82", b"\xac"], "€");
        check(&[b"a\xff\xfeb"], "a\u{fffd}\u{fffd}b");
        check(&[b"a\xf0\x9f"], "a\u{fffd}");
        check(&[b"\xc3", b"(", b"\0x"], "\u{fffd}(\0x");
        check(&[], "");
    }
}
