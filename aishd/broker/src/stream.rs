//! One request from its address to its last byte. Whatever the server does, it ends within the preset's times.

use std::time::Duration;

use aishd_http::event_lines::GuardedBody;
use aishd_model::call_assembly::StreamEnding;
use aishd_model::preset::{ModelEndpoint, Timeouts};
use aishd_model::reply::{BrokenRequest, Delta, Reply, RequestFailure, TimeoutStage};
use bytes::Bytes;
use eventsource_stream::{EventStream, EventStreamError};
use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt as _};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, RequestBuilder, Response};
use tokio::time::{Instant, timeout_at};

use super::answer::{AnswerContext, AnswerReader, FrameProgress, not_a_stream};
use super::answer_events::AnswerEvents;
use super::api_key::ApiKey;
use super::client::{self, HttpClients};
use super::error;

/// What is read of an error's body, and how long that may take.
const ERROR_BODY_BYTES: usize = 64 * 1024;
const ERROR_BODY_LIMIT: Duration = Duration::from_secs(5);
/// An answer that comes whole: the text's cap, and room for its JSON.
const WHOLE_BODY_BYTES: usize = 8 * 1024 * 1024;
/// Once the finish reason is here the answer is complete; only the usage may follow.
const AFTER_FINISH: Duration = Duration::from_secs(5);

/// Sends the body and opens the answer; anything but 2xx is a failure.
pub(super) async fn open(
    clients: &HttpClients,
    endpoint: &ModelEndpoint,
    key: Option<&ApiKey>,
    body: Bytes,
) -> Result<(Response, Instant), RequestFailure> {
    let url = client::address(endpoint, endpoint.api.path())?;
    let client = clients.get(client::reach(&url), endpoint.timeouts.connect)?;
    let request = client
        .post(url)
        .headers(client::headers(endpoint, key)?)
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "text/event-stream")
        .body(body);
    let started = Instant::now();
    let response = send(&client, request, started + endpoint.timeouts.first_byte).await?;
    Ok((response, started))
}

/// Waits for the head of the answer; a status other than 2xx is a failure with the server's own words.
pub(super) async fn send(
    client: &Client,
    request: RequestBuilder,
    deadline: Instant,
) -> Result<Response, RequestFailure> {
    let request = request
        .build()
        .map_err(|error| error::before_head(&error))?;
    let response = timeout_at(deadline, client.execute(request))
        .await
        .map_err(|_elapsed| RequestFailure::TimedOut(TimeoutStage::FirstByte))?
        .map_err(|error| error::before_head(&error))?;
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let headers = response.headers().clone();
    let body = bounded(
        response,
        ERROR_BODY_BYTES,
        Instant::now() + ERROR_BODY_LIMIT,
    )
    .await;
    Err(error::from_status(status, &headers, &body))
}

/// The start of a body: what came until the cap, the deadline or the end.
pub(super) async fn bounded(mut response: Response, cap: usize, deadline: Instant) -> String {
    let mut body = Vec::new();
    while let Ok(Ok(Some(bytes))) = timeout_at(deadline, response.chunk()).await {
        let room = cap - body.len();
        body.extend_from_slice(bytes.get(..room).unwrap_or(&bytes));
        if body.len() >= cap {
            break;
        }
    }
    String::from_utf8_lossy(&body).into_owned()
}

/// The body with its times watched. Every byte counts here, those of comments too.
pub(super) fn timed(
    response: Response,
    started: Instant,
    timeouts: Timeouts,
) -> impl Stream<Item = Result<Bytes, RequestFailure>> + Send {
    let first = Some(started + timeouts.first_byte);
    stream::unfold(Some((response, first)), move |state| async move {
        let (mut response, first) = state?;
        let (deadline, stage) = match first {
            Some(deadline) => (deadline, TimeoutStage::FirstByte),
            None => (Instant::now() + timeouts.idle, TimeoutStage::Idle),
        };
        match timeout_at(deadline, response.chunk()).await {
            Ok(Ok(Some(bytes))) => Some((Ok(bytes), Some((response, None)))),
            Ok(Ok(None)) => None,
            Ok(Err(error)) => Some((Err(error::in_body(&error)), None)),
            Err(_elapsed) => Some((Err(RequestFailure::TimedOut(stage)), None)),
        }
    })
}

/// Until when there must be content.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContentLimit {
    first: Instant,
    next: Duration,
    after_finish: Duration,
}

impl ContentLimit {
    /// A server may send comments from the start while the model still reads the prompt, so the first content may take
    /// as long as the first byte.
    pub(super) fn new(started: Instant, timeouts: Timeouts) -> Self {
        Self {
            first: started + timeouts.first_byte.max(timeouts.content_idle),
            next: timeouts.content_idle,
            after_finish: AFTER_FINISH.min(timeouts.idle),
        }
    }
}

/// Reads the answer to its end. What arrived before a failure is in [`BrokenRequest::partial`].
pub(super) async fn read(
    body: impl Stream<Item = Result<Bytes, RequestFailure>> + Send,
    limit: ContentLimit,
    asked: AnswerContext,
    arrived: &mut Reply,
    mut sink: impl FnMut(Delta<'_>) + Send,
) -> Result<Reply, Box<BrokenRequest>> {
    let mut answer = AnswerReader::new(asked, arrived);
    match read_into(&mut answer, body.boxed(), limit, &mut sink).await {
        Ok(()) => Ok(answer.finish(StreamEnding::Complete, &mut sink)),
        Err(failure) => Err(Box::new(BrokenRequest {
            failure,
            partial: answer.finish(StreamEnding::Broken, &mut sink),
            hint: None,
        })),
    }
}

async fn read_into(
    answer: &mut AnswerReader<'_>,
    body: BoxStream<'_, Result<Bytes, RequestFailure>>,
    limit: ContentLimit,
    sink: &mut (impl FnMut(Delta<'_>) + Send),
) -> Result<(), RequestFailure> {
    // A body that has ended is asked again by whoever reads on behind its first bytes.
    let mut body = body.fuse().boxed();
    let (shape, start) = recognise(&mut body).await?;
    let start = stream::iter([Ok(start)]);
    match shape {
        BodyShape::Events => read_events(answer, start.chain(body).boxed(), limit, sink).await,
        BodyShape::Object => {
            let (text, over) = collect(start.chain(body).boxed(), WHOLE_BODY_BYTES).await?;
            if over {
                return Err(RequestFailure::TooLarge(
                    "the answer is too large".to_owned(),
                ));
            }
            answer.read_unstreamed(&text, sink)
        }
        BodyShape::Page => {
            let (text, _) = collect(start.chain(body).boxed(), ERROR_BODY_BYTES).await?;
            Err(not_a_stream(&error::start(&text)))
        }
    }
}

async fn read_events(
    answer: &mut AnswerReader<'_>,
    body: BoxStream<'_, Result<Bytes, RequestFailure>>,
    limit: ContentLimit,
    sink: &mut (impl FnMut(Delta<'_>) + Send),
) -> Result<(), RequestFailure> {
    let mut events = EventStream::new(GuardedBody::<_, AnswerEvents>::new(body));
    let mut deadline = limit.first;
    loop {
        let failure = match timeout_at(deadline, events.next()).await {
            Ok(Some(Ok(event))) => {
                match answer.event(&event.event, &event.data, sink)? {
                    FrameProgress::None => {}
                    FrameProgress::Content if answer.finished() => {
                        deadline = Instant::now() + limit.after_finish;
                    }
                    FrameProgress::Content => deadline = Instant::now() + limit.next,
                    FrameProgress::Done => return Ok(()),
                }
                continue;
            }
            Ok(None) => RequestFailure::Cut,
            Ok(Some(Err(EventStreamError::Transport(failure)))) => failure,
            Ok(Some(Err(EventStreamError::Utf8(_) | EventStreamError::Parser(_)))) => {
                RequestFailure::Transport("the stream cannot be parsed".to_owned())
            }
            Err(_elapsed) => RequestFailure::TimedOut(TimeoutStage::ContentIdle),
        };
        // The reason was given, so the answer is whole however the connection ends.
        let ended = matches!(failure, RequestFailure::Cut | RequestFailure::TimedOut(_));
        return if ended && answer.finished() {
            Ok(())
        } else {
            Err(failure)
        };
    }
}

/// What the first bytes look like. The content type is not asked: servers send streams and errors under any.
enum BodyShape {
    Events,
    Object,
    /// A web page or any other text.
    Page,
}

async fn recognise(
    body: &mut BoxStream<'_, Result<Bytes, RequestFailure>>,
) -> Result<(BodyShape, Bytes), RequestFailure> {
    let mut start = Vec::new();
    loop {
        let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&start[..]);
        let first = text.iter().find(|byte| !byte.is_ascii_whitespace());
        // Half a byte order mark is no first byte yet.
        let undecided = start.len() < 3 && b"\xef\xbb\xbf".starts_with(&start);
        match first {
            Some(b'{' | b'[') => return Ok((BodyShape::Object, start.into())),
            // A comment, or the first letter of `data`, `event`, `error`, `id`, `retry`.
            Some(b':' | b'd' | b'e' | b'i' | b'r') => return Ok((BodyShape::Events, start.into())),
            Some(_) if !undecided => return Ok((BodyShape::Page, start.into())),
            // White space without end is no answer.
            None if start.len() > ERROR_BODY_BYTES => return Ok((BodyShape::Events, start.into())),
            Some(_) | None => {}
        }
        match body.next().await {
            Some(bytes) => start.extend_from_slice(&bytes?),
            None if first.is_none() => return Err(RequestFailure::Empty),
            None => return Ok((BodyShape::Events, start.into())),
        }
    }
}

/// The text up to the cap, and whether there was more.
async fn collect(
    mut body: BoxStream<'_, Result<Bytes, RequestFailure>>,
    cap: usize,
) -> Result<(String, bool), RequestFailure> {
    let mut all = Vec::new();
    while let Some(bytes) = body.next().await {
        all.extend_from_slice(&bytes?);
        if all.len() > cap {
            all.truncate(cap);
            return Ok((String::from_utf8_lossy(&all).into_owned(), true));
        }
    }
    let text = String::from_utf8_lossy(&all);
    Ok((text.trim_start_matches('\u{feff}').to_owned(), false))
}
