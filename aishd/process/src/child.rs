//! A child that runs, as the daemon holds it. Dropped, its whole tree is ended: SIGTERM, two seconds, SIGKILL.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::time::timeout;

use super::ChildPipes;
use super::contained::HeldBy;
use super::spec::{ChildExit, ChildStreams, StartFailure, TrampolineReport};

/// How long output is read after the program has ended: something that it left behind may hold the pipe for ever.
const DRAIN: Duration = Duration::from_millis(500);
/// Reports of a trampoline are short, with a path at most; a longer line is none.
const MAX_REPORT_BYTES: usize = 32 << 10;

/// A program that was started, and everything that it starts.
#[derive(Debug)]
pub struct Child {
    /// Taken or dropped, it is closed.
    pub stdin: Option<Sender>,
    pub stdout: Option<Receiver>,
    pub stderr: Option<Receiver>,
    /// What it says besides, where its spec takes that.
    pub note: Option<Receiver>,
    pid: u32,
    held: Option<HeldBy>,
    listener: Option<TcpListener>,
    exit: Option<ChildExit>,
    control: ControlSocket,
}

/// What a program printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildOutput {
    pub bytes: Vec<u8>,
    pub extent: OutputExtent,
    pub exit: ChildExit,
}

/// How much of the output is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputExtent {
    Whole,
    /// There was more than was asked for; the pipe was closed then.
    Cut,
    /// The program has ended, and something that it left behind still holds the pipe.
    Held,
}

impl Child {
    pub(super) fn new(started: StartedChild, pipes: ChildPipes, control: ControlSocket) -> Self {
        let ChildPipes {
            stdin,
            stdout,
            stderr,
            note,
        } = pipes;
        Self {
            stdin,
            stdout,
            stderr,
            note,
            pid: started.pid,
            held: started.held,
            listener: started.listener,
            exit: None,
            control,
        }
    }

    /// The program's process, which is no child of ours. For people: by the time that it is used it may be another's.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// What holds a contained child besides what holds every one; `None` when it is not contained.
    pub fn held(&self) -> Option<HeldBy> {
        self.held
    }

    /// The listener in the child's network that [`ContainedNetwork::Listener`] asks for; its address has the port. It
    /// blocks, and whoever accepts from it answers to what the child says. Dropped, the child's connections are refused.
    ///
    /// [`ContainedNetwork::Listener`]: super::contained::ContainedNetwork::Listener
    pub fn take_listener(&mut self) -> Option<TcpListener> {
        self.listener.take()
    }

    /// Waits for the end of the program itself; what it started may go on until this is dropped. May be dropped and
    /// called again.
    pub async fn wait(&mut self) -> ChildExit {
        loop {
            if let Some(exit) = self.exit {
                return exit;
            }
            self.exit = match self.control.report().await {
                Ok(Some(TrampolineReport::Ended(exit))) => Some(exit),
                Ok(Some(TrampolineReport::Started { .. } | TrampolineReport::Failed(_))) => None,
                Ok(None) | Err(_) => Some(ChildExit::Unknown),
            };
        }
    }

    /// Closes its input and gives it `grace` to end by itself; then the tree gets SIGTERM, and SIGKILL two seconds later.
    /// Returns when nothing of the tree is left.
    pub async fn end(mut self, grace: Duration) -> ChildExit {
        self.stdin = None;
        let ended = timeout(grace, self.wait()).await;
        self.control.close().await;
        let exit = match ended {
            Ok(exit) => exit,
            Err(_elapsed) => self.wait().await,
        };
        // The trampoline holds its end until all are gone.
        while let Ok(Some(_)) = self.control.report().await {}
        exit
    }

    /// Reads standard output, `limit` bytes of it, until the program ends; then for half a second at most. The tree is
    /// ended when this returns.
    pub async fn output(mut self, limit: usize) -> io::Result<ChildOutput> {
        let mut bytes = vec![];
        let (extent, exit) = match self.stdout.take() {
            Some(stdout) => self.read_beside(stdout, limit, &mut bytes).await?,
            None => (OutputExtent::Whole, self.wait().await),
        };
        Ok(ChildOutput {
            bytes,
            extent,
            exit,
        })
    }

    async fn read_beside(
        &mut self,
        stdout: Receiver,
        limit: usize,
        into: &mut Vec<u8>,
    ) -> io::Result<(OutputExtent, ChildExit)> {
        let reading = read_up_to(stdout, limit, into);
        tokio::pin!(reading);
        let mut extent = None;
        let exit = loop {
            tokio::select! {
                read = &mut reading, if extent.is_none() => extent = Some(read?),
                exit = self.wait() => break exit,
            }
        };
        let extent = match extent {
            Some(extent) => extent,
            None => timeout(DRAIN, reading)
                .await
                .unwrap_or(Ok(OutputExtent::Held))?,
        };
        Ok((extent, exit))
    }
}

/// Drops the pipe at the limit, so that the program is not left to write into a full one.
async fn read_up_to(
    mut from: impl AsyncRead + Unpin,
    limit: usize,
    into: &mut Vec<u8>,
) -> io::Result<OutputExtent> {
    let mut piece = [0; 4 << 10];
    loop {
        let got = from.read(&mut piece).await?;
        let room = limit - into.len();
        into.extend(&piece[..got.min(room)]);
        if got == 0 {
            return Ok(OutputExtent::Whole);
        }
        if got > room {
            return Ok(OutputExtent::Cut);
        }
    }
}

/// Our end of a trampoline's socket. Its end means that nobody wants the child any more.
#[derive(Debug)]
pub(super) struct ControlSocket {
    socket: UnixStream,
    read: Vec<u8>,
    /// What came beside what was read.
    beside: Vec<OwnedFd>,
}

/// What the trampoline says first.
#[derive(Debug)]
pub(super) struct StartedChild {
    pid: u32,
    held: Option<HeldBy>,
    listener: Option<TcpListener>,
}

impl ControlSocket {
    pub(super) fn new(ours: std::os::unix::net::UnixStream) -> io::Result<Self> {
        ours.set_nonblocking(true)?;
        Ok(Self {
            socket: UnixStream::from_std(ours)?,
            read: vec![],
            beside: vec![],
        })
    }

    /// Sends the job, and the streams beside its first bytes.
    pub(super) async fn hand_over(&mut self, job: &[u8], streams: &ChildStreams) -> io::Result<()> {
        let streams = streams.as_sent();
        let send = || {
            let mut space =
                [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ChildStreams::MOST))];
            let mut beside = SendAncillaryBuffer::new(&mut space);
            beside.push(SendAncillaryMessage::ScmRights(&streams));
            let first = [IoSlice::new(job)];
            let sent = sendmsg(&self.socket, &first, &mut beside, SendFlags::NOSIGNAL)?;
            Ok(sent)
        };
        let sent = self.socket.async_io(Interest::WRITABLE, send).await?;
        self.socket.write_all(&job[sent..]).await
    }

    /// The first report.
    pub(super) async fn started(&mut self) -> io::Result<Result<StartedChild, StartFailure>> {
        match self.report().await? {
            Some(TrampolineReport::Started { pid, held }) => Ok(Ok(StartedChild {
                pid,
                held,
                listener: self.beside.pop().map(TcpListener::from),
            })),
            Some(TrampolineReport::Failed(failed)) => Ok(Err(failed)),
            Some(TrampolineReport::Ended(_)) => Err(io::ErrorKind::InvalidData.into()),
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// The next report; `None` when there are no more. Loses nothing when it is dropped.
    async fn report(&mut self) -> io::Result<Option<TrampolineReport>> {
        loop {
            if let Some(end) = self.read.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return Ok(Some(serde_json::from_slice(&line)?));
            }
            if self.read.len() > MAX_REPORT_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let mut piece = [0; 256];
            let receive = || receive(&self.socket, &mut piece);
            let (got, beside) = self.socket.async_io(Interest::READABLE, receive).await?;
            self.beside.extend(beside);
            if got == 0 {
                return Ok(None);
            }
            self.read.extend(&piece[..got]);
        }
    }

    /// Says that nobody wants the child any more; reports are still read.
    async fn close(&mut self) {
        let _closed_already = self.socket.shutdown().await;
    }
}

fn receive(socket: &UnixStream, piece: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(piece)];
    let got = recvmsg(socket, &mut into, &mut beside, RecvFlags::CMSG_CLOEXEC)?.bytes;
    let mut fds = vec![];
    for message in beside.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    Ok((got, fds))
}
