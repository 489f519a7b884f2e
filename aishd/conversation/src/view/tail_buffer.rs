//! The newest part of a text that grows, for readers of any pace.

use aish_proto::limits::LIVE_WINDOW_BYTES;

use crate::view::live_item::{ceil_boundary, floor_boundary};

#[derive(Clone, Debug, Default)]
pub(crate) struct TailBuffer {
    /// Bytes that were dropped from the front.
    start: u64,
    text: String,
}

/// A part that a reader has not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TailPart {
    pub offset: u64,
    pub text: String,
    /// What lies between the reader's position and `offset` is gone.
    pub gap: bool,
}

impl TailBuffer {
    pub(crate) fn of(text: &str) -> Self {
        let mut window = Self::default();
        window.push(text);
        window
    }

    pub(crate) fn push(&mut self, text: &str) {
        self.text.push_str(text);
        // Twice the window, so that the cut is rare and each byte is moved about once.
        if self.text.len() > 2 * LIVE_WINDOW_BYTES {
            let cut = ceil_boundary(&self.text, self.text.len() - LIVE_WINDOW_BYTES);
            self.text.drain(..cut);
            self.start += cut as u64;
        }
    }

    /// What lies past the reader's position, `max_bytes` at most; the position moves along.
    pub(crate) fn unseen(&self, position: &mut u64, max_bytes: usize) -> Option<TailPart> {
        let from = (*position).max(self.start);
        let skip = usize::try_from(from - self.start).unwrap_or(usize::MAX);
        let rest = self.text.get(skip..).unwrap_or_default();
        let rest = &rest[..floor_boundary(rest, max_bytes)];
        if rest.is_empty() {
            return None;
        }
        let gap = from > *position;
        *position = from + rest.len() as u64;
        Some(TailPart {
            offset: from,
            text: rest.to_owned(),
            gap,
        })
    }

    /// The end of it, `max_bytes` at most, and where that begins.
    pub(crate) fn tail(&self, max_bytes: usize) -> (u64, &str) {
        let cut = ceil_boundary(&self.text, self.text.len().saturating_sub(max_bytes));
        (self.start + cut as u64, &self.text[cut..])
    }
}
