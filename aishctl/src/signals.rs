//! What the terminal and the service manager may say while an answer comes.

use std::io;

use tokio::signal::unix::{self, SignalKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
}

/// The two signals; until [`Signals::listen`] they end the process by themselves.
#[derive(Debug, Default)]
pub struct Signals {
    heard: Option<(unix::Signal, unix::Signal)>,
    #[cfg(test)]
    scripted: Option<tokio::sync::mpsc::Receiver<Signal>>,
}

impl Signals {
    /// From here on the signals are ours to obey.
    pub fn listen(&mut self) -> io::Result<()> {
        if self.heard.is_none() {
            let interrupt = unix::signal(SignalKind::interrupt())?;
            self.heard = Some((interrupt, unix::signal(SignalKind::terminate())?));
        }
        Ok(())
    }

    /// Signals that a test sends.
    #[cfg(test)]
    pub(crate) fn scripted() -> (tokio::sync::mpsc::Sender<Signal>, Self) {
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        (sender, Self { heard: None, scripted: Some(receiver) })
    }

    /// The next signal; nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> Signal {
        #[cfg(test)]
        if let Some(scripted) = &mut self.scripted {
            return match scripted.recv().await {
                Some(signal) => signal,
                None => std::future::pending().await,
            };
        }
        let Some((interrupt, terminate)) = &mut self.heard else {
            return std::future::pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => Signal::Interrupt,
            _ = terminate.recv() => Signal::Terminate,
        }
    }
}
