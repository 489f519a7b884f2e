//! What a command prints, as text: a pipe cuts characters wherever it likes. Of more than is kept there are the beginning and the
//! end, and what is between is counted.

/// Bytes that come in pieces, as text.
#[derive(Debug)]
pub(super) struct PieceText {
    head: String,
    /// What came behind it, cut now and then to what is kept.
    tail: String,
    head_room: usize,
    tail_room: usize,
    left_out: u64,
    /// The newest piece.
    piece: String,
    /// The beginning of a character whose rest has not come.
    held: Vec<u8>,
    /// Bytes of text altogether.
    bytes: u64,
}

impl PieceText {
    /// Keeps so many bytes, half of them of the beginning.
    pub(super) fn new(limit: usize) -> Self {
        Self {
            head: String::new(),
            tail: String::new(),
            head_room: limit / 2,
            tail_room: limit - limit / 2,
            left_out: 0,
            piece: String::new(),
            held: vec![],
            bytes: 0,
        }
    }

    /// What was added to the text.
    pub(super) fn push(&mut self, bytes: &[u8]) -> &str {
        self.piece.clear();
        self.held.extend_from_slice(bytes);
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(text) => {
                    self.piece.push_str(text);
                    rest = &[];
                    break;
                }
                Err(error) => {
                    let (good, bad) = rest.split_at(error.valid_up_to());
                    self.piece.push_str(&String::from_utf8_lossy(good));
                    let Some(length) = error.error_len() else {
                        rest = bad;
                        break;
                    };
                    self.piece.push(char::REPLACEMENT_CHARACTER);
                    rest = &bad[length..];
                }
            }
        }
        self.held = rest.to_vec();
        self.keep();
        &self.piece
    }

    fn keep(&mut self) {
        self.bytes += self.piece.len() as u64;
        let room = match self.tail.is_empty() {
            true => self.head_room - self.head.len(),
            false => 0,
        };
        let cut = self.piece.floor_char_boundary(room);
        self.head.push_str(&self.piece[..cut]);
        self.tail.push_str(&self.piece[cut..]);
        // Seldom, so that each byte is moved once or so.
        if self.tail.len() > 2 * self.tail_room {
            self.cut_tail();
        }
    }

    fn cut_tail(&mut self) {
        let much = self.tail.len().saturating_sub(self.tail_room);
        let much = self.tail.ceil_char_boundary(much);
        self.tail.drain(..much);
        self.left_out += much as u64;
    }

    /// Whether something is in what is kept.
    pub(super) fn has(&self, is_in: impl Fn(&str) -> bool) -> bool {
        is_in(&self.head) || is_in(&self.tail)
    }

    /// Whether what comes next begins a line.
    pub(super) fn begins_line(&self) -> bool {
        let last = match self.tail.is_empty() {
            true => &self.head,
            false => &self.tail,
        };
        last.is_empty() || last.ends_with('\n')
    }

    /// All that is kept, with a line of ours where something is left out; and how much text there was.
    pub(super) fn finish(mut self) -> (String, u64) {
        if !self.held.is_empty() {
            self.piece = char::REPLACEMENT_CHARACTER.to_string();
            self.keep();
        }
        if self.left_out > 0 || self.head.len() + self.tail.len() > self.head_room + self.tail_room
        {
            self.cut_tail();
        }
        let mut text = self.head;
        if self.left_out > 0 {
            let line = if text.is_empty() || text.ends_with('\n') {
                ""
            } else {
                "\n"
            };
            let left_out = self.left_out;
            text.push_str(&format!(
                "{line}[aish] {left_out} bytes of the output are not kept; its end follows\n"
            ));
        }
        text.push_str(&self.tail);
        (text, self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pieces: &[&[u8]], expected: &str) {
        let mut text = PieceText::new(1000);
        let mut printed = String::new();
        for piece in pieces {
            printed.push_str(text.push(piece));
        }
        let (whole, bytes) = text.finish();
        assert_eq!(expected, whole);
        assert_eq!(whole.len() as u64, bytes);
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

    #[track_caller]
    fn check_long(limit: usize, pieces: &[&str], expected: &str) {
        let mut text = PieceText::new(limit);
        let mut most = 0;
        for piece in pieces {
            text.push(piece.as_bytes());
            most = most.max(text.head.len() + text.tail.len());
        }
        assert!(most <= 2 * limit, "{most}");
        let (whole, bytes) = text.finish();
        assert_eq!(expected, whole);
        assert_eq!(pieces.iter().map(|it| it.len() as u64).sum::<u64>(), bytes);
    }

    #[test]
    fn of_what_is_long_the_beginning_and_the_end_are_kept() {
        let note = |bytes: u64| {
            format!("[aish] {bytes} bytes of the output are not kept; its end follows\n")
        };
        check_long(10, &["0123456789"], "0123456789");
        check_long(10, &["01234", "56789"], "0123456789");
        check_long(10, &["0123456789a"], &format!("01234\n{}6789a", note(1)));
        check_long(
            10,
            &["0123\n", "5678\n", "abcd\n"],
            &format!("0123\n{}abcd\n", note(5)),
        );
        check_long(
            10,
            &["aaé", "€€", "zzzzzzzz"],
            &format!("aaé\n{}zzzzz", note(9)),
        );
        let many = ["x\n"; 1000];
        check_long(8, &many, &format!("x\nx\n{}x\nx\n", note(1992)));
    }
}
