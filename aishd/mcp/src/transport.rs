//! The three ways to carry a message to a server; a closed set, so an enum.

use super::error::{ExchangeError, WireFailure};
use super::event_stream::EventStream;
use super::http::{HttpTransport, RequestFrame};
use super::secrets::ServerSecrets;
use super::stdio::StdioTransport;

#[derive(Debug)]
pub(super) enum ServerTransport {
    Http(HttpTransport),
    EventStream(EventStream),
    Stdio(StdioTransport),
}

impl ServerTransport {
    /// Sends a request. Its answer goes to the inbox; this returns when nothing more has to be done for it.
    pub(super) async fn carry(&self, id: u64, frame: RequestFrame) -> Result<(), ExchangeError> {
        match self {
            Self::Http(http) => http.carry(id, frame).await,
            Self::EventStream(stream) => Ok(stream.send(frame.body).await?),
            Self::Stdio(stdio) => Ok(stdio.send(frame.body).await?),
        }
    }

    /// Sends what has no answer.
    pub(super) async fn send_notification(&self, body: String) -> Result<(), WireFailure> {
        match self {
            Self::Http(http) => http.post_notification(body).await,
            Self::EventStream(stream) => stream.send(body).await,
            Self::Stdio(stdio) => stdio.send(body).await,
        }
    }

    /// What the server was told in confidence.
    pub(super) fn secrets(&self) -> &ServerSecrets {
        match self {
            Self::Http(http) => http.secrets(),
            Self::EventStream(stream) => stream.secrets(),
            Self::Stdio(stdio) => stdio.secrets(),
        }
    }

    /// Leaves in good order.
    pub(super) async fn leave(&self) {
        match self {
            Self::Http(http) => http.leave().await,
            // They see our end of the stream close.
            Self::EventStream(_) | Self::Stdio(_) => {}
        }
    }
}
