//! Finds the chunks of an answer again in whatever stands around them.

use std::time::Instant;

/// The markers `w000000`, `w000001`, … in order in a stream of bytes.
#[derive(Debug, Default)]
pub(crate) struct Markers {
    /// When each was there.
    pub(crate) times: Vec<Instant>,
    /// The end of what came before, which may hold the beginning of a marker.
    tail: Vec<u8>,
}

impl Markers {
    pub(crate) fn feed(&mut self, data: &[u8], now: Instant) {
        self.tail.extend_from_slice(data);
        let mut from = 0;
        while let Some(at) = find(&self.tail[from..], &marker(self.times.len())) {
            self.times.push(now);
            from += at + 7;
        }
        let keep = self.tail.len().saturating_sub(6).max(from);
        self.tail.drain(..keep);
    }
}

fn marker(at: usize) -> [u8; 7] {
    let mut text = *b"w000000";
    let mut rest = at;
    for digit in text.iter_mut().skip(1).rev() {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
        rest /= 10;
    }
    text
}

fn find(text: &[u8], wanted: &[u8; 7]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text[from..].iter().position(|it| *it == b'w') {
        if text[from + at..].starts_with(wanted) {
            return Some(from + at);
        }
        from += at + 1;
    }
    None
}
