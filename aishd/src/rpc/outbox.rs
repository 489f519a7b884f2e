//! Writing to one client: whole lines, one writer at a time, and no patience without end.

use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The way out of one connection. There is no queue: who has something to say waits for its turn here.
#[derive(Debug)]
pub(super) struct Outbox {
    stream: std::sync::Arc<Stream>,
    turn: Mutex<()>,
    stall: Duration,
    over: CancellationToken,
}

/// Why nothing more can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// The client has gone, or the connection is over.
    Gone,
    /// The client has read nothing for the time of `limits.clientStall`.
    Stalled,
}

impl Outbox {
    pub(super) fn new(
        stream: std::sync::Arc<Stream>,
        stall: Duration,
        over: CancellationToken,
    ) -> Self {
        Self {
            stream,
            turn: Mutex::new(()),
            stall,
            over,
        }
    }

    /// Writes whole lines. Must not be dropped halfway on a connection that goes on.
    pub(super) async fn write(&self, lines: &[u8]) -> Result<(), Cut> {
        tokio::select! {
            biased;
            // What can be written without waiting still is.
            written = self.write_in_turn(lines) => written,
            () = self.over.cancelled() => Err(Cut::Gone),
        }
    }

    async fn write_in_turn(&self, lines: &[u8]) -> Result<(), Cut> {
        let _turn = self.turn.lock().await;
        let mut stream = &*self.stream;
        let mut rest = lines;
        while !rest.is_empty() {
            match tokio::time::timeout(self.stall, stream.write(rest)).await {
                Ok(Ok(0) | Err(_)) => return Err(Cut::Gone),
                Ok(Ok(written)) => rest = &rest[written..],
                Err(_elapsed) => return Err(Cut::Stalled),
            }
        }
        Ok(())
    }
}
