//! Our standard output without a thread: a pipe is written to as the socket is, a file at once. Only a terminal
//! and what is neither get tokio's stdout, which hands every write to a thread.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rustix::fs::{FileType, fstat};
use tokio::io::AsyncWrite;
use tokio::net::unix::pipe;

/// Where the answer goes.
#[derive(Debug)]
pub enum AnswerSink {
    /// A description of its own of the same pipe: that of whoever started us must stay blocking for them.
    Pipe(pipe::Sender),
    /// A write to a file waits for nobody.
    File,
    Other(tokio::io::Stdout),
}

impl AnswerSink {
    /// Needs a runtime.
    pub fn ours() -> Self {
        let kind = fstat(rustix::stdio::stdout()).map(|it| FileType::from_raw_mode(it.st_mode));
        match kind {
            Ok(FileType::Fifo) => {
                // It may belong to another user, or /proc may be missing.
                let again = pipe::OpenOptions::new().open_sender("/proc/self/fd/1");
                again.map_or_else(|_| Self::Other(tokio::io::stdout()), Self::Pipe)
            }
            Ok(FileType::RegularFile) => Self::File,
            Ok(_) | Err(_) => Self::Other(tokio::io::stdout()),
        }
    }
}

impl AsyncWrite for AnswerSink {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_write(context, bytes),
            Self::File => Poll::Ready(Ok(rustix::io::write(rustix::stdio::stdout(), bytes)?)),
            Self::Other(stdout) => Pin::new(stdout).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Pipe(pipe) => Pin::new(pipe).poll_flush(context),
            Self::File => Poll::Ready(Ok(())),
            Self::Other(stdout) => Pin::new(stdout).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}
