//! The guard in front of `eventsource-stream`, which panics at a byte order mark, waits for ever behind one bad byte, and
//! scans a long line again with every piece: it gets whole, valid lines of bounded length.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use eventsource_stream::{EventStream, EventStreamError};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};

use super::error::Failure;

/// A line of MCP (R13).
pub(super) const MAX_LINE_BYTES: usize = 4 << 20;
/// The parser copies what it holds at every line, so it is never given much at once.
const PIECE_BYTES: usize = 4096;
/// A server that asks for a longer pause than this has in truth gone.
const MAX_RETRY: Duration = Duration::from_secs(60);

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: String,
    /// Empty for an event that only sets a position.
    pub(super) data: String,
}

/// Where a stream can be taken up again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) last_id: Option<String>,
    /// The pause that the server asks for.
    pub(super) retry: Option<Duration>,
}

/// The events of a body.
pub(super) struct Events {
    events: BoxStream<'static, Result<eventsource_stream::Event, Failure>>,
}

impl std::fmt::Debug for Events {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Events").finish_non_exhaustive()
    }
}

impl Events {
    pub(super) fn new(
        body: impl Stream<Item = Result<Bytes, Failure>> + Send + Unpin + 'static,
    ) -> Self {
        let events = EventStream::new(Guarded::new(body));
        let events = events.map(|it| it.map_err(failure));
        Self {
            events: events.boxed(),
        }
    }

    /// The next event; `None` at the end. What it says about the place goes there.
    pub(super) async fn next(&mut self, place: &mut Place) -> Option<Result<Event, Failure>> {
        let event = match self.events.next().await? {
            Ok(event) => event,
            Err(failure) => return Some(Err(failure)),
        };
        if !event.id.is_empty() {
            place.last_id = Some(event.id);
        }
        if let Some(retry) = event.retry {
            place.retry = Some(retry.min(MAX_RETRY));
        }
        Some(Ok(Event {
            kind: event.event,
            data: event.data,
        }))
    }
}

fn failure(error: EventStreamError<Failure>) -> Failure {
    match error {
        EventStreamError::Transport(failure) => failure,
        EventStreamError::Utf8(error) => Failure::Unreadable(error.to_string()),
        EventStreamError::Parser(error) => Failure::Unreadable(error.to_string()),
    }
}

/// Bytes in, pieces of whole lines out, each line ended by one LF.
#[derive(Debug, Default)]
struct Lines {
    line: Vec<u8>,
    after_cr: bool,
    started: bool,
    event_bytes: usize,
    has_data: bool,
    has_place: bool,
    ready: VecDeque<String>,
}

impl Lines {
    fn feed(&mut self, mut bytes: &[u8]) -> Result<(), Failure> {
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
    fn end(&mut self) -> Result<(), Failure> {
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.end_event();
        Ok(())
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.line.extend_from_slice(bytes);
        within_limit(self.line.len())
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        let line = std::mem::take(&mut self.line);
        // The line is whole, so no code point is split here, wherever the network cut.
        let text = String::from_utf8_lossy(&line);
        let text = if std::mem::replace(&mut self.started, true) {
            &*text
        } else {
            text.strip_prefix('\u{feff}').unwrap_or(&text)
        };
        let field = text.split(':').next().unwrap_or_default();
        match field {
            "" if text.is_empty() => self.end_event(),
            "data" | "event" | "id" | "retry" => {
                self.event_bytes += text.len();
                within_limit(self.event_bytes)?;
                self.has_data |= field == "data";
                self.has_place |= matches!(field, "id" | "retry");
                self.put(text);
            }
            // Comments and what nobody knows.
            _ => {}
        }
        Ok(())
    }

    fn end_event(&mut self) {
        if self.has_place && !self.has_data {
            // The parser would drop an event without data, and the place with it.
            self.put("data:");
        }
        self.event_bytes = 0;
        (self.has_data, self.has_place) = (false, false);
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

fn within_limit(bytes: usize) -> Result<(), Failure> {
    if bytes > MAX_LINE_BYTES {
        Err(Failure::TooLarge(MAX_LINE_BYTES >> 20))
    } else {
        Ok(())
    }
}

/// A body as the parser may see it. What stood before an error comes before the error.
#[derive(Debug)]
struct Guarded<S> {
    body: S,
    lines: Lines,
    over: bool,
    failed: Option<Failure>,
}

impl<S> Guarded<S> {
    fn new(body: S) -> Self {
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
    use super::*;

    async fn events(pieces: Vec<Vec<u8>>) -> (Vec<String>, Place) {
        let pieces = pieces.into_iter().map(|it| Ok(Bytes::from(it)));
        let mut events = Events::new(futures_util::stream::iter(pieces));
        let mut place = Place::default();
        let mut seen = vec![];
        while let Some(event) = events.next(&mut place).await {
            seen.push(match event {
                Ok(event) => format!("{}: {}", event.kind, event.data),
                Err(failure) => failure.to_string(),
            });
        }
        (seen, place)
    }

    async fn check(body: &[u8], expected: &[&str], last_id: Option<&str>, retry_ms: Option<u64>) {
        for cut in 0..=body.len() {
            let (head, tail) = body.split_at(cut);
            let (seen, place) = events(vec![head.to_vec(), tail.to_vec()]).await;
            let expected_place = Place {
                last_id: last_id.map(str::to_owned),
                retry: retry_ms.map(Duration::from_millis),
            };
            assert_eq!(expected, &seen[..], "cut at {cut}");
            assert_eq!(expected_place, place, "cut at {cut}");
        }
    }

    #[tokio::test]
    async fn places_are_seen_with_and_without_data() {
        check(
            b"id: 1\nretry: 500\ndata: \n\nevent: endpoint\ndata: /x\n\n",
            &["message: ", "endpoint: /x"],
            Some("1"),
            Some(500),
        )
        .await;
        check(
            b"retry: 70000\n\nid: 2\n\n",
            &["message: ", "message: "],
            Some("2"),
            Some(60_000),
        )
        .await;
        check(
            b": ping\n\ndata: a\ndata: b",
            &["message: a\nb"],
            None,
            None,
        )
        .await;
    }

    #[tokio::test]
    async fn bad_bytes_and_byte_order_marks_do_not_stop_the_stream() {
        check(
            b"\xef\xbb\xbfdata: a\xff\r\n\r\ndata: \xc3\xa9\n\n",
            &["message: a\u{fffd}", "message: é"],
            None,
            None,
        )
        .await;
    }

    /// R13: lines and events of more than 4 MiB are not held.
    #[tokio::test]
    async fn endless_lines_and_events_are_refused() {
        let line = vec![b'x'; 1 << 20];
        let (seen, _) = events(vec![
            b"data: ok\n\ndata: ".to_vec(),
            line.clone(),
            line.clone(),
            line.clone(),
            line,
        ])
        .await;
        assert_eq!(2, seen.len(), "{}", seen.len());
        assert!(seen[1].contains("longer than 4 MiB"), "{}", seen[1]);
        let lines = vec![b"data: 0123456789\n".repeat(1000); 300];
        let (seen, _) = events(lines).await;
        assert!(seen[0].contains("longer than 4 MiB"), "{}", seen[0]);
    }
}
