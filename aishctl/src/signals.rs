//! What the terminal and the service manager may say while an answer comes.

use std::io;

use tokio::signal::unix::{self, SignalKind};

use crate::exit::Exit;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TerminalSignal {
    /// SIGINT: Ctrl-C.
    Interrupt,
    /// SIGTERM.
    Terminate,
    /// SIGHUP: the terminal is gone.
    Hangup,
    /// SIGCONT: the shell had the terminal for a while.
    Continued,
}

impl TerminalSignal {
    /// How the program ends by it.
    pub fn exit(self) -> Exit {
        match self {
            Self::Interrupt => Exit::INTERRUPTED,
            Self::Terminate => Exit::TERMINATED,
            Self::Hangup => Exit::HUNG_UP,
            Self::Continued => Exit::DONE,
        }
    }
}

/// SIGINT and SIGTERM, and those of a terminal; until one listens they end the process by themselves.
#[derive(Debug, Default)]
pub struct ClientSignals {
    heard: Option<(unix::Signal, unix::Signal)>,
    of_terminal: Option<(unix::Signal, unix::Signal)>,
    #[cfg(test)]
    scripted: Option<tokio::sync::mpsc::Receiver<TerminalSignal>>,
}

impl ClientSignals {
    /// From here on the signals are ours to obey.
    pub fn listen(&mut self) -> io::Result<()> {
        if self.heard.is_none() {
            let interrupt = unix::signal(SignalKind::interrupt())?;
            self.heard = Some((interrupt, unix::signal(SignalKind::terminate())?));
        }
        Ok(())
    }

    /// The same for SIGHUP and SIGCONT.
    pub fn listen_to_terminal(&mut self) -> io::Result<()> {
        let continued = SignalKind::from_raw(rustix::process::Signal::CONT.as_raw());
        let hangup = unix::signal(SignalKind::hangup())?;
        self.of_terminal = Some((hangup, unix::signal(continued)?));
        Ok(())
    }

    /// Signals that a test sends.
    #[cfg(test)]
    pub(crate) fn scripted() -> (tokio::sync::mpsc::Sender<TerminalSignal>, Self) {
        let (sender, receiver) = tokio::sync::mpsc::channel(4);
        (
            sender,
            Self {
                heard: None,
                of_terminal: None,
                scripted: Some(receiver),
            },
        )
    }

    /// The next signal; nothing is lost when the wait is given up.
    pub async fn next(&mut self) -> TerminalSignal {
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
        let of_terminal = async {
            match &mut self.of_terminal {
                None => std::future::pending().await,
                Some((hangup, continued)) => tokio::select! {
                    _ = hangup.recv() => TerminalSignal::Hangup,
                    _ = continued.recv() => TerminalSignal::Continued,
                },
            }
        };
        tokio::select! {
            _ = interrupt.recv() => TerminalSignal::Interrupt,
            _ = terminate.recv() => TerminalSignal::Terminate,
            signal = of_terminal => signal,
        }
    }
}
