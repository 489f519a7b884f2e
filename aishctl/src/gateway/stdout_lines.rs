//! Our stdout: lines of JSON and nothing else, in the order in which they were said. Who says something waits where the
//! client does not read.

use std::io;

use serde_json::Value;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;

/// Lines that wait for the client to read; few, because one may have megabytes.
const LINES: usize = 16;

#[derive(Clone, Debug)]
pub(super) struct GatewayOutlet(mpsc::Sender<OutletMessage>);

#[derive(Clone, Debug)]
pub(super) enum OutletMessage {
    Line(String),
    /// The last word.
    End,
}

impl GatewayOutlet {
    pub(super) fn new() -> (Self, mpsc::Receiver<OutletMessage>) {
        let (sender, receiver) = mpsc::channel(LINES);
        (Self(sender), receiver)
    }

    pub(super) async fn write(&self, line: &Value) {
        // Nobody reads any more: the gateway is about to leave.
        let _nobody = self.0.send(OutletMessage::Line(line.to_string())).await;
    }

    /// Nothing is said after this.
    pub(super) async fn end(&self) {
        let _nobody = self.0.send(OutletMessage::End).await;
    }
}

/// Writes the lines until nobody says anything any more, or nobody reads.
pub(super) async fn write(
    mut lines: mpsc::Receiver<OutletMessage>,
    mut to: impl AsyncWrite + Unpin,
) -> io::Result<()> {
    while let Some(OutletMessage::Line(mut line)) = lines.recv().await {
        line.push('\n');
        to.write_all(line.as_bytes()).await?;
        to.flush().await?;
    }
    Ok(())
}
