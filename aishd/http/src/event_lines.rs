//! The guard in front of `eventsource-stream`: that parser panics at a byte order mark, waits for ever behind one bad
//! byte, and scans a long line again with every piece of it. It gets whole, valid lines of bounded length instead, and
//! of those only what means something to who reads the events.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::Stream;

/// The parser copies what it holds at every line, so it is never given much at once.
const PIECE_BYTES: usize = 4096;

/// What an event stream means to who reads it.
pub trait EventDialect: Default + Unpin {
    type Failure: Unpin;

    /// The longest line, and the longest event, in bytes.
    const MAX_BYTES: usize;

    /// The line as the parser may see it; `None`: it means nothing. It is not empty.
    fn passed_line<'a>(&mut self, line: &'a str) -> Option<Cow<'a, str>>;

    /// A line that has to stand at the end of the event.
    fn last_line(&mut self) -> Option<&'static str> {
        None
    }

    /// `part` ("a line", "an event") is longer than [`Self::MAX_BYTES`].
    fn too_large(part: &str) -> Self::Failure;
}

/// Bytes in, pieces of whole lines out, each line ended by one LF.
#[derive(Debug, Default)]
struct EventLines<D> {
    dialect: D,
    line: Vec<u8>,
    after_cr: bool,
    started: bool,
    event_bytes: usize,
    ready: VecDeque<String>,
}

impl<D: EventDialect> EventLines<D> {
    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), D::Failure> {
        if self.after_cr && !bytes.is_empty() {
            self.after_cr = false;
            bytes = bytes.strip_prefix(b"\n").unwrap_or(bytes);
        }
        while let Some(at) = bytes.iter().position(|it| matches!(it, b'\n' | b'\r')) {
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
    fn end(&mut self) -> Result<(), D::Failure> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.end_event();
        Ok(())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), D::Failure> {
        if self.line.len() + bytes.len() > D::MAX_BYTES {
            return Err(D::too_large("a line"));
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    fn end_line(&mut self) -> Result<(), D::Failure> {
        let line = std::mem::take(&mut self.line);
        // The line is whole, so no code point is split here, wherever the network cut.
        let text = String::from_utf8_lossy(&line);
        let text = if std::mem::replace(&mut self.started, true) {
            &*text
        } else {
            text.strip_prefix('\u{feff}').unwrap_or(&text)
        };
        if text.is_empty() {
            self.end_event();
        } else if let Some(shown) = self.dialect.passed_line(text) {
            self.event_bytes += shown.len();
            if self.event_bytes > D::MAX_BYTES {
                return Err(D::too_large("an event"));
            }
            self.put(&shown);
        }
        // The next line is likely to be as long.
        self.line = line;
        self.line.clear();
        Ok(())
    }

    fn end_event(&mut self) {
        if let Some(line) = self.dialect.last_line() {
            self.put(line);
        }
        self.event_bytes = 0;
        self.put("");
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

/// A body as the parser may see it. What stood before an error comes before the error.
#[derive(Debug)]
pub struct GuardedBody<S, D: EventDialect> {
    body: S,
    lines: EventLines<D>,
    over: bool,
    failed: Option<D::Failure>,
}

impl<S, D: EventDialect> GuardedBody<S, D> {
    pub fn new(body: S) -> Self {
        Self {
            body,
            lines: EventLines::default(),
            over: false,
            failed: None,
        }
    }
}

impl<S, D> Stream for GuardedBody<S, D>
where
    S: Stream<Item = Result<Bytes, D::Failure>> + Unpin,
    D: EventDialect,
{
    type Item = Result<String, D::Failure>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(piece) = self.lines.ready.pop_front() {
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

    /// All lines mean something.
    #[derive(Debug, Default)]
    struct All;

    impl EventDialect for All {
        type Failure = String;

        const MAX_BYTES: usize = 1 << 20;

        fn passed_line<'a>(&mut self, line: &'a str) -> Option<Cow<'a, str>> {
            Some(Cow::Borrowed(line))
        }

        fn too_large(part: &str) -> String {
            part.to_owned()
        }
    }

    /// All that comes out for the pieces, and the failure if there is one.
    fn guarded(pieces: &[&[u8]]) -> (String, Option<String>) {
        let mut lines = EventLines::<All>::default();
        let mut failure = None;
        for piece in pieces {
            failure = lines.feed(piece).err();
            if failure.is_some() {
                break;
            }
        }
        if failure.is_none() {
            failure = lines.end().err();
        }
        let mut out = String::new();
        for piece in lines.ready {
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
            "\u{feff}data: a\n\ndata: b\n\n\n",
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
    fn endless_lines_and_events_are_refused() {
        let long = vec![b'x'; 4096];
        let lines: Vec<&[u8]> = std::iter::repeat_n(&long[..], 257).collect();
        let (out, failure) = guarded(&lines);
        assert_eq!(Some("a line"), failure.as_deref());
        assert_eq!("", out);

        let event: Vec<&[u8]> = std::iter::repeat_n(&b"data: 0123456789\n"[..], 65_537).collect();
        assert_eq!(Some("an event"), guarded(&event).1.as_deref());
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
