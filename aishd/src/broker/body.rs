//! The guard in front of `eventsource-stream`: that parser panics at a byte order mark, waits for ever behind one bad
//! byte, and scans a long line again with every piece of it. It gets whole, valid lines of bounded length instead.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;

use crate::core::reply::Failure;

/// Caps of R13.
pub(super) const MAX_LINE_BYTES: usize = 1024 * 1024;
pub(super) const MAX_EVENT_BYTES: usize = 1024 * 1024;
/// The parser copies what it holds at every line, so it is never given much at once.
const PIECE_BYTES: usize = 4096;
/// A name of an event is short; what is longer means nothing to us, and the parser would keep it.
const MAX_NAME_LINE_BYTES: usize = 64;

/// Bytes in, pieces of whole lines out, each line ended by one LF.
#[derive(Debug, Default)]
pub(super) struct Lines {
    line: Vec<u8>,
    after_cr: bool,
    started: bool,
    event_bytes: usize,
    ready: VecDeque<String>,
}

impl Lines {
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(at) = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, rest) = bytes.split_at(at);
            self.extend(line)?;
            self.end_line()?;
            bytes = match rest {
                [b'\r', b'\n', rest @ ..] => rest,
                [b'\r'] => {
                    self.after_cr = true;
                    &[]
                }
                [_, rest @ ..] => rest,
                [] => &[],
            };
        }
        self.extend(bytes)
    }

    /// The end of the body ends the line and the event, so that a last event without an empty line is seen.
    pub(super) fn end(&mut self) -> Result<(), Failure> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.put("");
        Ok(())
    }

    pub(super) fn next(&mut self) -> Option<String> {
        self.ready.pop_front()
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        if self.line.len() + bytes.len() > MAX_LINE_BYTES {
            return Err(too_large("a line", MAX_LINE_BYTES));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// Comments, ids and unknown fields end here: nothing is done with them, and the parser would copy some about.
    fn end_line(&mut self) -> Result<(), Failure> {
        let line = std::mem::take(&mut self.line);
        // The line is whole, so no code point is split here, wherever the network cut.
        let mut text = String::from_utf8_lossy(&line);
        if !self.started {
            self.started = true;
            if let Some(rest) = text.strip_prefix('\u{feff}') {
                text = Cow::Owned(rest.to_owned());
            }
        }
        if text.is_empty() {
            self.event_bytes = 0;
            self.put("");
        } else if text.starts_with("data")
            || (text.starts_with("event") && text.len() <= MAX_NAME_LINE_BYTES)
        {
            self.event_bytes += text.len();
            if self.event_bytes > MAX_EVENT_BYTES {
                return Err(too_large("an event", MAX_EVENT_BYTES));
            }
            self.put(&text);
        } else if let Some(error) = text.strip_prefix("error:") {
            // llama.cpp until the end of 2025 wrote errors into a field of its own making.
            let data = format!("data: {{\"error\":{error}}}");
            self.put(&data);
        } else if text.starts_with("{\"error\"") {
            // Gateways that pass the error of the server behind them on as it is, without a field.
            let data = format!("data: {text}");
            self.put(&data);
        }
        // The next line is likely to be as long.
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn put(&mut self, line: &str) {
        match self.ready.back_mut() {
            Some(piece) if piece.len() + line.len() < PIECE_BYTES => {
                piece.push_str(line);
                piece.push('\n');
            }
            _ => self.ready.push_back(format!("{line}\n")),
        }
    }
}

fn too_large(what: &str, cap: usize) -> Failure {
    Failure::TooLarge(format!(
        "{what} of the answer is longer than {} KiB",
        cap / 1024
    ))
}

/// A body as the parser may see it. What stood before an error comes before the error.
#[derive(Debug)]
pub(super) struct Guarded<S> {
    body: S,
    lines: Lines,
    over: bool,
    failed: Option<Failure>,
}

impl<S> Guarded<S> {
    pub(super) fn new(body: S) -> Self {
        Self {
            body,
            lines: Lines::default(),
            over: false,
            failed: None,
        }
    }
}

impl<S: Stream<Item = Result<Bytes, Failure>> + Unpin> Stream for Guarded<S> {
    type Item = Result<String, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(piece) = self.lines.next() {
                return Poll::Ready(Some(Ok(piece)));
            }
            if self.over {
                return Poll::Ready(self.failed.take().map(Err));
            }
            let step = match ready!(Pin::new(&mut self.body).poll_next(context)) {
                Some(Ok(bytes)) => self.lines.feed(&bytes),
                Some(Err(failure)) => {
                    self.over = true;
                    self.failed = Some(failure);
                    self.lines.end()
                }
                None => {
                    self.over = true;
                    self.lines.end()
                }
            };
            if let Err(failure) = step {
                self.over = true;
                self.failed.get_or_insert(failure);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All that comes out for the pieces, and the failure if there is one.
    fn guarded(pieces: &[&[u8]]) -> (String, Option<Failure>) {
        let mut lines = Lines::default();
        let mut failure = None;
        for piece in pieces {
            failure = failure.or(lines.feed(piece).err());
        }
        failure = failure.or(lines.end().err());
        let mut out = String::new();
        while let Some(piece) = lines.next() {
            assert!(piece.len() <= PIECE_BYTES || !piece.trim_end().contains('\n'));
            out.push_str(&piece);
        }
        (out, failure)
    }

    #[track_caller]
    fn check(body: &[u8], expected: &str) {
        for cut in 0..=body.len() {
            let (head, tail) = body.split_at(cut);
            let (out, failure) = guarded(&[head, tail]);
            assert_eq!((expected, None), (out.as_str(), failure), "cut at {cut}");
        }
    }

    #[test]
    fn every_line_ending_becomes_one() {
        check(
            b"data: a\n\ndata: b\r\rdata: c\r\n\r\n",
            "data: a\n\ndata: b\n\ndata: c\n\n\n",
        );
    }

    #[test]
    fn one_byte_order_mark_is_dropped_and_a_second_harms_nobody() {
        check(b"\xef\xbb\xbfdata: a\n\n", "data: a\n\n\n");
        check(
            b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\ndata: b\n\n",
            "\ndata: b\n\n\n",
        );
    }

    #[test]
    fn bad_bytes_become_replacement_characters_and_split_ones_survive() {
        check(
            b"data: h\xc3\xa9\xf0\x9f\x98\x80\xff!\n\n",
            "data: hé😀\u{fffd}!\n\n\n",
        );
        check(b"data: \xf0\x9f", "data: \u{fffd}\n\n");
    }

    #[test]
    fn what_the_parser_need_not_see_is_left_out() {
        check(
            b": ping\nid: 1\nretry: 5\nevent: x\ndata: a\n\n",
            "event: x\ndata: a\n\n\n",
        );
    }

    #[test]
    fn errors_outside_of_a_field_are_seen() {
        check(
            b"error: {\"code\":400}\n\n",
            "data: {\"error\": {\"code\":400}}\n\n\n",
        );
        check(
            b"{\"error\":{\"code\":400}}",
            "data: {\"error\":{\"code\":400}}\n\n",
        );
    }

    #[test]
    fn endless_lines_and_events_are_refused() {
        let long = vec![b'x'; 4096];
        let lines: Vec<&[u8]> = std::iter::repeat_n(&long[..], 257).collect();
        let (out, failure) = guarded(&lines);
        assert!(matches!(failure, Some(Failure::TooLarge(_))), "{failure:?}");
        assert!(out.len() <= 1, "{}", out.len());

        let event: Vec<&[u8]> = std::iter::repeat_n(&b"data: 0123456789\n"[..], 65_537).collect();
        let (_, failure) = guarded(&event);
        assert!(matches!(failure, Some(Failure::TooLarge(_))), "{failure:?}");

        let comments: Vec<&[u8]> = std::iter::repeat_n(&b": ping\n"[..], 200_000).collect();
        assert_eq!(None, guarded(&comments).1);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_give_the_same_lines(
            body in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b'd'), any::<u8>()], 0..300),
            size in 1usize..9,
        ) {
            let pieces: Vec<&[u8]> = body.chunks(size).collect();
            prop_assert_eq!(guarded(&[&body]), guarded(&pieces));
        }
    }
}
