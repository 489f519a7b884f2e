//! Carries bytes between the two terminals until the shell ends, and tells what is kept to those who ask.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitStatus;
use std::time::Duration;

use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout};

use crate::exit::Exit;
use crate::recorder::inner_terminal::{InnerTerminal, OuterTerminal, take_size};
use crate::recorder::kept_output::{KeptOutputServer, LatestOutput, tell};
use crate::recorder::recording::Recording;

const PAGE: usize = 16 << 10;
/// Who asks is one question at a time.
const MOST_ASKERS: usize = 8;
/// How long a shell may take to end once its terminal is gone.
const FAREWELL: Duration = Duration::from_secs(5);
/// What the shell printed last may still be on its way when it has ended.
const LAST_WORDS: Duration = Duration::from_millis(100);
/// After so long nothing more belongs to what came last.
const QUIET: Duration = Duration::from_millis(20);
/// What is sent to us is meant for the shell.
const PASSED_ON: [Signal; 6] = [
    Signal::HUP,
    Signal::INT,
    Signal::QUIT,
    Signal::TERM,
    Signal::USR1,
    Signal::USR2,
];

#[derive(Debug)]
pub(crate) struct Relay {
    /// Puts the modes of the terminal back when it is dropped.
    outer: OuterTerminal,
    terminal: TerminalEnds,
    inner: Option<TerminalEnds>,
    child: Option<Child>,
    server: KeptOutputServer,
    word: String,
    recording: Recording,
    latest: watch::Sender<LatestOutput>,
    askers: JoinSet<io::Result<()>>,
    signals: mpsc::Receiver<Signal>,
    _listening: JoinSet<()>,
    /// Typed, and not yet taken by the inner terminal.
    typed: Vec<u8>,
    /// Printed, and not yet taken by the outer one.
    printed: Vec<u8>,
    /// When it is looked whether what is typed is shown: once nothing more comes, for a shell hides it between two commands.
    look_at: Option<Instant>,
}

/// A terminal that does not block. The runtime has a type for such ends of pipes alone, and does the same with both.
#[derive(Debug)]
struct TerminalEnds {
    from: pipe::Receiver,
    to: pipe::Sender,
}

impl TerminalEnds {
    fn new(terminal: OwnedFd) -> io::Result<Self> {
        Ok(Self {
            from: pipe::Receiver::from_owned_fd_unchecked(terminal.try_clone()?)?,
            to: pipe::Sender::from_owned_fd_unchecked(terminal)?,
        })
    }

    /// So many bytes, and whether what is typed there was shown before they came.
    async fn read(&self, page: &mut [u8]) -> io::Result<(usize, bool)> {
        loop {
            self.from.readable().await?;
            let echoes = InnerTerminal::echoes(self.from.as_fd());
            match self.from.try_read(page) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Ok((done?, echoes)),
            }
        }
    }

    async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.to.writable().await?;
            match self.to.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return done,
            }
        }
    }
}

/// What happened.
enum RelayEvent {
    Ended(io::Result<ExitStatus>),
    Signal(Signal),
    Typed(io::Result<(usize, bool)>),
    TypedGone(io::Result<usize>),
    /// So many bytes, before which what is typed was shown, or was not.
    Printed(io::Result<(usize, bool)>),
    Quiet,
    PrintedGone(io::Result<usize>),
    Asked(io::Result<tokio::net::UnixStream>),
    Told,
}

impl Relay {
    pub(crate) fn new(
        outer: OuterTerminal,
        inner: InnerTerminal,
        child: Option<Child>,
        server: KeptOutputServer,
        word: String,
    ) -> io::Result<Self> {
        let (sender, signals) = mpsc::channel(16);
        let mut listening = JoinSet::new();
        for signal in PASSED_ON.into_iter().chain([Signal::WINCH]) {
            let mut heard = unix::signal(SignalKind::from_raw(signal.as_raw()))?;
            let sender = sender.clone();
            listening.spawn(async move {
                while heard.recv().await.is_some() {
                    if sender.send(signal).await.is_err() {
                        break;
                    }
                }
            });
        }
        if child.is_some() {
            outer.make_raw()?;
        }
        Ok(Self {
            terminal: TerminalEnds::new(outer.terminal.try_clone()?)?,
            outer,
            inner: Some(TerminalEnds::new(inner.into_ours())?),
            child,
            server,
            recording: Recording::new(word.clone()),
            word,
            latest: watch::Sender::new(LatestOutput::default()),
            askers: JoinSet::new(),
            signals,
            _listening: listening,
            typed: vec![],
            printed: vec![],
            look_at: None,
        })
    }

    /// Until the shell has ended; what it ended with.
    pub(crate) async fn run(&mut self) -> Exit {
        let Some(mut child) = self.child.take() else {
            return Exit::FAILED;
        };
        let mut keys = vec![0; PAGE];
        let mut page = vec![0; PAGE];
        loop {
            match self.next(&mut child, &mut keys, &mut page).await {
                RelayEvent::Ended(status) => {
                    self.flush().await;
                    return status.map_or(Exit::FAILED, Exit::passed_on);
                }
                RelayEvent::Signal(Signal::WINCH) => self.resize(),
                RelayEvent::Signal(signal) => {
                    if let Some(pid) = child.id().and_then(|it| Pid::from_raw(it.cast_signed())) {
                        // Who has ended just now needs none.
                        let _ended = kill_process(pid, signal);
                    }
                }
                RelayEvent::Typed(Ok((read @ 1.., _))) => {
                    // What is printed next may depend on it.
                    self.look(false);
                    self.typed.extend(keys.iter().take(read));
                }
                // The terminal is closed. So is the shell's, which tells it and its jobs.
                RelayEvent::Typed(_) | RelayEvent::PrintedGone(Err(_)) => {
                    return self.hang_up(child).await;
                }
                RelayEvent::Printed(Ok((read @ 1.., echoes))) => {
                    self.take_in(page.get(..read).unwrap_or_default(), echoes);
                }
                RelayEvent::Quiet => self.look(true),
                RelayEvent::TypedGone(Ok(written)) => drop(self.typed.drain(..written)),
                RelayEvent::PrintedGone(Ok(written)) => drop(self.printed.drain(..written)),
                // Nobody has the inner terminal open: the shell is about to end.
                RelayEvent::Printed(_) | RelayEvent::TypedGone(Err(_)) => {
                    let status = child.wait().await;
                    self.flush().await;
                    return status.map_or(Exit::FAILED, Exit::passed_on);
                }
                RelayEvent::Asked(Ok(stream)) if self.askers.len() < MOST_ASKERS => {
                    let telling = tell(stream, self.word.clone(), self.latest.subscribe());
                    self.askers.spawn(telling);
                }
                RelayEvent::Asked(_) | RelayEvent::Told => {}
            }
        }
    }

    /// The next thing that happens. Bytes that were not taken yet stop what brings more of them.
    async fn next(&mut self, child: &mut Child, keys: &mut [u8], page: &mut [u8]) -> RelayEvent {
        let Some(inner) = &self.inner else {
            return RelayEvent::Ended(child.wait().await);
        };
        let terminal = &self.terminal;
        let (typed, printed) = (&self.typed, &self.printed);
        tokio::select! {
            status = child.wait() => RelayEvent::Ended(status),
            Some(signal) = self.signals.recv() => RelayEvent::Signal(signal),
            done = terminal.read(keys), if typed.is_empty() => RelayEvent::Typed(done),
            done = inner.write(typed), if !typed.is_empty() => RelayEvent::TypedGone(done),
            done = inner.read(page), if printed.is_empty() => RelayEvent::Printed(done),
            done = terminal.write(printed), if !printed.is_empty() => RelayEvent::PrintedGone(done),
            asked = self.server.accept() => RelayEvent::Asked(asked),
            Some(_) = self.askers.join_next() => RelayEvent::Told,
            () = until(self.look_at) => RelayEvent::Quiet,
        }
    }

    /// Whether what is typed now is hidden. A pause is none where something has come that is not read yet: a shell that is at its
    /// prompt again hides what is typed too, and has said before that the command is over.
    fn look(&mut self, after_pause: bool) {
        self.look_at = None;
        let Some(inner) = &self.inner else { return };
        let from = inner.from.as_fd();
        if InnerTerminal::echoes(from) {
            self.recording.unhide();
        } else if !(after_pause && ioctl_fionread(from).is_ok_and(|it| it > 0)) {
            self.recording.hide();
        }
    }

    fn take_in(&mut self, bytes: &[u8], echoes: bool) {
        if echoes {
            self.recording.unhide();
        }
        let read = self.recording.read(bytes);
        // Before its first word a command may not have the terminal yet.
        let looks = self.recording.has_text();
        self.look_at = looks.then(|| Instant::now() + QUIET);
        self.printed.extend(read.shown);
        if let Some(latest) = read.latest {
            self.latest.send_replace(latest);
        }
    }

    /// The kernel tells the programs there.
    fn resize(&self) {
        if let Some(inner) = &self.inner {
            let _gone = take_size(self.outer.terminal.as_fd(), inner.from.as_fd());
        }
    }

    async fn hang_up(&mut self, mut child: Child) -> Exit {
        self.inner = None;
        let ended = timeout(FAREWELL, child.wait()).await;
        ended.map_or(Exit::HUNG_UP, |it| it.map_or(Exit::FAILED, Exit::passed_on))
    }

    /// Shows what the shell said last.
    async fn flush(&mut self) {
        let mut page = vec![0; PAGE];
        while let Some(inner) = &self.inner
            && let Ok(Ok((more @ 1.., echoes))) = timeout(LAST_WORDS, inner.read(&mut page)).await
        {
            self.take_in(page.get(..more).unwrap_or_default(), echoes);
        }
        let rest = self.recording.rest();
        self.printed.extend(rest);
        while !self.printed.is_empty()
            && let Ok(Ok(written @ 1..)) =
                timeout(FAREWELL, self.terminal.write(&self.printed)).await
        {
            self.printed.drain(..written);
        }
    }
}

async fn until(instant: Option<Instant>) {
    match instant {
        Some(instant) => sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
