//! HTTP+SSE as it was in 2024-11-05: one stream for all answers, which first names the address for questions.

use std::sync::Arc;

use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Url};

use super::client::ServerAddress;
use super::error::WireFailure;
use super::http::{FrameKind, body};
use super::inbox::{Inbox, MessageOrigin};
use super::message;
use super::secrets::ServerSecrets;
use super::sse::{ResumePoint, SseEvents};

/// Where questions go.
#[derive(Debug)]
pub(super) struct EventStream {
    client: Client,
    address: ServerAddress,
    post: Url,
}

/// The other half: where answers come from.
#[derive(Debug)]
pub(super) struct StreamAnswers {
    events: SseEvents,
    place: ResumePoint,
}

/// Opens the stream and waits for the address. The caller has the deadline.
pub(super) async fn open(
    client: Client,
    address: ServerAddress,
) -> Result<(EventStream, StreamAnswers), WireFailure> {
    let request = client
        .get(address.url.clone())
        .headers(address.headers.clone())
        .header(ACCEPT, "text/event-stream");
    let response = address.send(request).await?;
    let status = response.status();
    if !status.is_success() || FrameKind::of(&response) != FrameKind::Events {
        return Err(WireFailure::Http {
            status: status.as_u16(),
            message: "it has no stream of events".to_owned(),
        });
    }
    let mut answers = StreamAnswers {
        events: SseEvents::new(body(response)),
        place: ResumePoint::default(),
    };
    while let Some(event) = answers.events.next(&mut answers.place).await {
        let event = event?;
        if event.kind == "endpoint" {
            let post = endpoint(&address.url, event.data.trim())?;
            let stream = EventStream {
                client,
                address,
                post,
            };
            return Ok((stream, answers));
        }
    }
    let why = "its stream of events ended before it named an address";
    Err(WireFailure::Unreadable(why.to_owned()))
}

/// The token goes to the configured origin only.
fn endpoint(base: &Url, said: &str) -> Result<Url, WireFailure> {
    let post = base.join(said).ok();
    let same = post.filter(|it| it.origin() == base.origin());
    same.ok_or_else(|| WireFailure::Unreadable("it names an address on another server".to_owned()))
}

impl EventStream {
    pub(super) fn secrets(&self) -> &ServerSecrets {
        &self.address.secrets
    }

    pub(super) async fn send(&self, body: String) -> Result<(), WireFailure> {
        let request = self
            .client
            .post(self.post.clone())
            .headers(self.address.headers.clone())
            .header(CONTENT_TYPE, "application/json")
            .body(body);
        let response = self.address.send(request).await?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status if matches!(status.as_u16(), 401 | 403) => Err(WireFailure::Auth {
                status: status.as_u16(),
                token: self.address.token.clone(),
            }),
            status => Err(WireFailure::Http {
                status: status.as_u16(),
                message: String::new(),
            }),
        }
    }
}

impl StreamAnswers {
    /// Feeds the inbox until the stream ends, which ends the session.
    pub(super) async fn pump(mut self, inbox: Arc<Inbox>) {
        let failure = loop {
            match self.events.next(&mut self.place).await {
                None => break WireFailure::Cut("its stream of events ended".to_owned()),
                Some(Err(failure)) => break failure,
                Some(Ok(event)) => {
                    for message in message::read(event.data.as_bytes()).unwrap_or_default() {
                        inbox.take(message, MessageOrigin::Stream).await;
                    }
                }
            }
        };
        inbox.close(failure).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_for_questions_is_on_the_same_server() {
        let base = Url::parse("http://127.0.0.1:8080/sse").unwrap();
        let check = |said: &str, expected: Option<&str>| {
            let found = endpoint(&base, said).ok();
            assert_eq!(expected, found.as_ref().map(Url::as_str), "{said}");
        };
        let expected = Some("http://127.0.0.1:8080/messages?id=1");
        check("/messages?id=1", expected);
        check("http://127.0.0.1:8080/messages?id=1", expected);
        check("http://127.0.0.1:8081/messages", None);
        check("https://127.0.0.1:8080/messages", None);
        check("//evil.test/messages", None);
    }
}
