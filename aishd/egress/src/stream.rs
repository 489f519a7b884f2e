//! A connection of which what was read and not yet used is kept, up to a bound.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// What is read at a time while bytes are carried.
pub(crate) const COPY_BYTES: usize = 16 << 10;

#[derive(Debug)]
pub(crate) struct BufferedStream {
    pub(crate) reader: StreamReader,
    pub(crate) writer: OwnedWriteHalf,
}

/// The half that reads.
#[derive(Debug)]
pub(crate) struct StreamReader {
    half: OwnedReadHalf,
    unused: Vec<u8>,
    most_bytes: usize,
}

impl BufferedStream {
    pub(crate) fn new(stream: TcpStream, most_bytes: usize) -> Self {
        // What is small must not wait for what follows. It is only slower where that fails.
        drop(stream.set_nodelay(true));
        let (half, writer) = stream.into_split();
        let reader = StreamReader {
            half,
            unused: vec![],
            most_bytes,
        };
        Self { reader, writer }
    }
}

impl StreamReader {
    pub(crate) fn unused(&self) -> &[u8] {
        &self.unused
    }

    pub(crate) fn use_up(&mut self, bytes: usize) {
        self.unused.drain(..bytes.min(self.unused.len()));
    }

    /// Reads more; `Ok(false)` is the end. What is full fails: nothing that is waited for is that long.
    pub(crate) async fn fill(&mut self) -> io::Result<bool> {
        let room = self.most_bytes.saturating_sub(self.unused.len());
        if room == 0 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let before = self.unused.len();
        self.unused.reserve(room.min(COPY_BYTES));
        let mut limited = (&mut self.half).take(u64::try_from(room).unwrap_or(u64::MAX));
        limited.read_buf(&mut self.unused).await?;
        Ok(self.unused.len() > before)
    }

    /// Reads until there are so many unused bytes.
    pub(crate) async fn fill_to(&mut self, bytes: usize) -> io::Result<()> {
        while self.unused.len() < bytes {
            if !self.fill().await? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }

    /// Comes back when the far side has ended or failed. What it sends meanwhile is kept; when there is no more room for
    /// it, the end is not seen.
    pub(crate) async fn ended(&mut self) {
        loop {
            match self.fill().await {
                Ok(true) => {}
                Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                    std::future::pending::<()>().await;
                }
                Ok(false) | Err(_) => return,
            }
        }
    }

    /// Up to so many bytes, unused ones first; none at the end.
    pub(crate) async fn read_some(&mut self, buffer: &mut Vec<u8>, most: u64) -> io::Result<usize> {
        buffer.clear();
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(COPY_BYTES);
        if !self.unused.is_empty() {
            let bytes = most.min(self.unused.len());
            buffer.extend(self.unused.drain(..bytes));
            return Ok(bytes);
        }
        buffer.reserve(most);
        let mut limited = (&mut self.half).take(u64::try_from(most).unwrap_or(u64::MAX));
        limited.read_buf(buffer).await
    }
}

/// Says a last thing so that it arrives: a connection that is closed while bytes of the far side are unread is reset, and
/// then what was said to it is lost.
pub(crate) async fn say_and_close(mut stream: BufferedStream, last: &[u8]) {
    const MOST_READ: usize = 1 << 20;
    if stream.writer.write_all(last).await.is_err() || stream.writer.shutdown().await.is_err() {
        return;
    }
    let mut buffer = vec![];
    let mut read = 0;
    while read < MOST_READ {
        match stream.reader.read_some(&mut buffer, u64::MAX).await {
            Ok(0) | Err(_) => return,
            Ok(bytes) => read += bytes,
        }
    }
}
