//! Writing to one client: whole lines, one writer at a time, and no patience without end.

use std::sync::Arc;
use std::time::Duration;

use interprocess::local_socket::tokio::Stream;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

/// The way out of one connection. There is no queue: who has something to say waits for its turn here.
#[derive(Debug)]
pub(super) struct ClientOutbox {
    stream: Arc<Stream>,
    turn: Mutex<()>,
    stall: Duration,
    over: CancellationToken,
}

/// A text of so many bytes is not copied into the lines of each client.
const LONG_BYTES: usize = 16 << 10;

/// Lines for one client. Long texts in them are shared with all who are sent the same, so that clients that do not read
/// cost what one of them costs.
#[derive(Debug, Default)]
pub(super) struct OutgoingLines {
    text: String,
    /// Where in `text` a long one stands.
    long: Vec<(usize, Arc<String>)>,
    bytes: usize,
}

impl OutgoingLines {
    pub(super) fn push_str(&mut self, text: &str) {
        self.bytes += text.len();
        self.text.push_str(text);
    }

    pub(super) fn push_shared(&mut self, text: Arc<String>) {
        if text.len() < LONG_BYTES {
            return self.push_str(&text);
        }
        self.bytes += text.len();
        self.long.push((self.text.len(), text));
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.long.iter().map(|it| it.0));
        let ends = self.long.iter().map(|it| it.0).chain([self.text.len()]);
        let long = self.long.iter().map(|it| it.1.as_bytes()).chain([&[][..]]);
        let between = starts
            .zip(ends)
            .map(|(from, to)| &self.text.as_bytes()[from..to]);
        between.zip(long).flat_map(|(text, long)| [text, long])
    }
}

/// Why nothing more can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionCut {
    /// The client has gone, or the connection is over.
    Gone,
    /// The client has read nothing for the time of `limits.client_stall`.
    Stalled,
}

impl ClientOutbox {
    pub(super) fn new(stream: Arc<Stream>, stall: Duration, over: CancellationToken) -> Self {
        Self {
            stream,
            turn: Mutex::new(()),
            stall,
            over,
        }
    }

    /// Writes whole lines. Must not be dropped halfway on a connection that goes on.
    pub(super) async fn write(&self, lines: &[u8]) -> Result<(), ConnectionCut> {
        self.write_pieces([lines].into_iter()).await
    }

    /// As [`ClientOutbox::write`].
    pub(super) async fn send(&self, lines: &OutgoingLines) -> Result<(), ConnectionCut> {
        self.write_pieces(lines.pieces()).await
    }

    async fn write_pieces(&self, pieces: impl Iterator<Item = &[u8]>) -> Result<(), ConnectionCut> {
        tokio::select! {
            biased;
            // What can be written without waiting still is.
            written = self.write_in_turn(pieces) => written,
            () = self.over.cancelled() => Err(ConnectionCut::Gone),
        }
    }

    async fn write_in_turn(
        &self,
        pieces: impl Iterator<Item = &[u8]>,
    ) -> Result<(), ConnectionCut> {
        let _turn = self.turn.lock().await;
        let mut stream = &*self.stream;
        for mut rest in pieces {
            while !rest.is_empty() {
                match tokio::time::timeout(self.stall, stream.write(rest)).await {
                    Ok(Ok(0) | Err(_)) => return Err(ConnectionCut::Gone),
                    Ok(Ok(written)) => rest = &rest[written..],
                    Err(_elapsed) => return Err(ConnectionCut::Stalled),
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_stand_where_they_were_put_and_are_not_copied() {
        let long = Arc::new("x".repeat(LONG_BYTES));
        let mut lines = OutgoingLines::default();
        lines.push_str("a");
        lines.push_shared(Arc::clone(&long));
        lines.push_shared(Arc::new("b".to_owned()));
        lines.push_shared(Arc::clone(&long));
        lines.push_str("c");
        let written: Vec<u8> = lines.pieces().flatten().copied().collect();
        assert_eq!(format!("a{long}b{long}c").as_bytes(), written);
        assert_eq!(written.len(), lines.bytes());
        assert_eq!("abc", lines.text);
        assert_eq!(3, Arc::strong_count(&long));
    }
}
