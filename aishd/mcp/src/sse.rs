//! Event streams of MCP servers, and where they can be taken up again.

use std::borrow::Cow;
use std::time::Duration;

use aishd_http::event_lines::{self, GuardedBody};
use bytes::Bytes;
use eventsource_stream::{EventStream, EventStreamError};
use futures_util::stream::BoxStream;
use futures_util::{Stream, StreamExt as _};

use super::error::WireFailure;

/// A line of MCP.
pub(super) const MAX_LINE_BYTES: usize = 4 << 20;
/// A server that asks for a longer pause than this has in truth gone.
const MAX_RETRY: Duration = Duration::from_secs(60);

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SseEvent {
    pub(super) kind: String,
    /// Empty for an event that only sets a position.
    pub(super) data: String,
}

/// Where a stream can be taken up again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ResumePoint {
    pub(super) last_id: Option<String>,
    /// The pause that the server asks for.
    pub(super) retry: Option<Duration>,
}

/// The events of a body.
pub(super) struct SseEvents {
    events: BoxStream<'static, Result<eventsource_stream::Event, WireFailure>>,
}

impl std::fmt::Debug for SseEvents {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SseEvents").finish_non_exhaustive()
    }
}

impl SseEvents {
    pub(super) fn new(
        body: impl Stream<Item = Result<Bytes, WireFailure>> + Send + Unpin + 'static,
    ) -> Self {
        let events = EventStream::new(GuardedBody::<_, SseDialect>::new(body));
        let events = events.map(|it| it.map_err(failure));
        Self {
            events: events.boxed(),
        }
    }

    /// The next event; `None` at the end. What it says about the place goes there.
    pub(super) async fn next(
        &mut self,
        place: &mut ResumePoint,
    ) -> Option<Result<SseEvent, WireFailure>> {
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
        Some(Ok(SseEvent {
            kind: event.event,
            data: event.data,
        }))
    }
}

fn failure(error: EventStreamError<WireFailure>) -> WireFailure {
    match error {
        EventStreamError::Transport(failure) => failure,
        EventStreamError::Utf8(error) => WireFailure::Unreadable(error.to_string()),
        EventStreamError::Parser(error) => WireFailure::Unreadable(error.to_string()),
    }
}

/// The lines of a stream that mean something: events, and where it can be taken up again.
#[derive(Debug, Default)]
struct SseDialect {
    has_data: bool,
    has_place: bool,
}

impl event_lines::EventDialect for SseDialect {
    type Failure = WireFailure;

    const MAX_BYTES: usize = MAX_LINE_BYTES;

    fn passed_line<'a>(&mut self, line: &'a str) -> Option<Cow<'a, str>> {
        let field = line.split(':').next().unwrap_or_default();
        self.has_data |= field == "data";
        self.has_place |= matches!(field, "id" | "retry");
        // The rest are comments, and what nobody knows.
        matches!(field, "data" | "event" | "id" | "retry").then_some(Cow::Borrowed(line))
    }

    /// The parser would drop an event without data, and the place with it.
    fn last_line(&mut self) -> Option<&'static str> {
        let Self {
            has_data,
            has_place,
        } = std::mem::take(self);
        (has_place && !has_data).then_some("data:")
    }

    fn too_large(_part: &str) -> WireFailure {
        WireFailure::TooLarge(MAX_LINE_BYTES >> 20)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn events(pieces: Vec<Vec<u8>>) -> (Vec<String>, ResumePoint) {
        let pieces = pieces.into_iter().map(|it| Ok(Bytes::from(it)));
        let mut events = SseEvents::new(futures_util::stream::iter(pieces));
        let mut place = ResumePoint::default();
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
            let expected_place = ResumePoint {
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

    /// Lines and events of more than 4 MiB are not held.
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
