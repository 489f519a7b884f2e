//! The trampoline's part in a containment: it starts the first process of the namespace and passes on what that says. It
//! is in the user namespace and in no other, so nothing inside can see it.

use std::io::{self, IoSlice, IoSliceMut, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{Pid, Signal};

use super::{ContainmentPart, init, namespaces};
use crate::spec::{ChildExit, ChildStreams, StartFailure, TrampolineJob, TrampolineReport};
use crate::{OURSELVES, control_line, process_tree};

/// Starts the program, and returns when nothing is left of it.
pub(crate) fn run(job: TrampolineJob, streams: ChildStreams) {
    let begun = begin(&job, &streams);
    // They may hold secrets, or somebody's pipe open.
    drop((job, streams));
    match begun {
        Ok((init, socket)) => relay(init, &socket),
        Err(failed) => control_line::report(&TrampolineReport::Failed(failed)),
    }
}

fn begin(job: &TrampolineJob, streams: &ChildStreams) -> Result<(Child, UnixStream), StartFailure> {
    let failed = |part: ContainmentPart| move |error: io::Error| StartFailure::of(part, &error);
    let (ours, theirs) = UnixStream::pair().map_err(failed(ContainmentPart::FirstProcess))?;
    namespaces::before_init().map_err(failed(ContainmentPart::Namespaces))?;
    let mut init = Command::new(OURSELVES)
        .arg0("aish-init")
        .arg(init::ARGUMENT)
        .env_clear()
        .current_dir("/")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed(ContainmentPart::FirstProcess))?;
    let handed = namespaces::drop_capabilities().and_then(|()| hand_over(&ours, job, streams));
    if let Err(error) = handed {
        let _ended_already = init.kill();
        let _reaped = init.wait();
        return Err(failed(ContainmentPart::FirstProcess)(error));
    }
    Ok((init, ours))
}

fn hand_over(
    mut socket: &UnixStream,
    job: &TrampolineJob,
    streams: &ChildStreams,
) -> io::Result<()> {
    let mut line = serde_json::to_vec(job)?;
    line.push(b'\n');
    let streams = streams.as_sent();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ChildStreams::MOST))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    beside.push(SendAncillaryMessage::ScmRights(&streams));
    let first = [IoSlice::new(&line)];
    let sent = sendmsg(socket, &first, &mut beside, SendFlags::NOSIGNAL)?;
    socket.write_all(&line[sent..])
}

fn relay(mut init: Child, socket: &UnixStream) {
    let mut is_started = false;
    let mut is_told = false;
    let mut lines = ReportLines::default();
    while let Some(report) = lines.next(socket) {
        let report = match report {
            TrampolineReport::Started { pid, held } => {
                is_started = true;
                let pid = seen_from_here(&init, pid);
                TrampolineReport::Started { pid, held }
            }
            other => {
                is_told = true;
                other
            }
        };
        let beside = lines.beside.pop();
        control_line::report_beside(&report, beside.as_ref().map(|it| it.as_fd()));
    }
    // It comes back when the kernel has ended everything in the namespace.
    let status = init.wait();
    if is_told {
        return;
    }
    let killed = status.ok().and_then(|it| it.signal());
    control_line::report(&match (is_started, killed) {
        (true, Some(_)) => TrampolineReport::Ended(ChildExit::Signal(Signal::KILL.as_raw())),
        (true, None) => TrampolineReport::Ended(ChildExit::Unknown),
        (false, _) => {
            let error = io::Error::from(Errno::CHILD);
            TrampolineReport::Failed(StartFailure::of(ContainmentPart::FirstProcess, &error))
        }
    });
}

/// The number outside of a process that has this number within. By the time that it is looked for it may have ended.
fn seen_from_here(init: &Child, within: u32) -> u32 {
    let below = process_tree::children(Pid::from_child(init));
    let mut numbers = below.iter().map(|it| it.pid.as_raw_nonzero().get());
    let is_it = |it: &i32| {
        let status = std::fs::read_to_string(format!("/proc/{it}/status")).unwrap_or_default();
        let mut lines = status.lines();
        let line = lines.find_map(|it| it.strip_prefix("NSpid:"));
        line.and_then(|it| it.split_whitespace().last()?.parse().ok()) == Some(within)
    };
    let found = numbers.find(is_it).and_then(|it| u32::try_from(it).ok());
    found.unwrap_or_else(|| init.id())
}

#[derive(Default)]
struct ReportLines {
    read: Vec<u8>,
    beside: Vec<OwnedFd>,
}

impl ReportLines {
    /// The next report; `None` when the other end is gone, or says what is none.
    fn next(&mut self, socket: &UnixStream) -> Option<TrampolineReport> {
        loop {
            if let Some(end) = self.read.iter().position(|it| *it == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                return serde_json::from_slice(&line).ok();
            }
            let mut piece = [0; 4 << 10];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut beside = RecvAncillaryBuffer::new(&mut space);
            let mut into = [IoSliceMut::new(&mut piece)];
            let got = match recvmsg(socket, &mut into, &mut beside, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => continue,
                Err(_gone) => return None,
                Ok(message) => message.bytes,
            };
            for message in beside.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = message {
                    self.beside.extend(rights);
                }
            }
            if got == 0 {
                return None;
            }
            self.read.extend(&piece[..got]);
        }
    }
}
