//! The inner end of a control socket, which is standard input: a job is read from it, and what becomes of it is said on it.
//! The trampoline has one to the daemon, and the first process of a contained child one to the trampoline.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::slice;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::stdio::stdin;

use super::MAX_JOB_BYTES;
use super::spec::{ChildStreams, TrampolineJob, TrampolineReport};

/// The job and the streams; `None` when the socket ends before the job does.
pub(super) fn receive() -> io::Result<Option<(TrampolineJob, ChildStreams)>> {
    let mut line = vec![];
    let mut fds = vec![];
    let mut piece = vec![0; 16 << 10];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ChildStreams::MOST))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut into = [io::IoSliceMut::new(&mut piece)];
        let got = match recvmsg(stdin(), &mut into, &mut beside, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => continue,
            got => got?.bytes,
        };
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                fds.extend(rights);
            }
        }
        line.extend(&piece[..got]);
        if got == 0 {
            return Ok(None);
        }
        if line.ends_with(b"\n") {
            break;
        }
        if line.len() > MAX_JOB_BYTES {
            return Err(Errno::MSGSIZE.into());
        }
    }
    let streams = ChildStreams::of(fds).ok_or(Errno::INVAL)?;
    Ok(Some((serde_json::from_slice(&line)?, streams)))
}

/// The daemon may be gone; then nobody wants to know.
pub(super) fn report(report: &TrampolineReport) {
    report_beside(report, None);
}

/// The same with a descriptor.
pub(super) fn report_beside(report: &TrampolineReport, fd: Option<BorrowedFd<'_>>) {
    let Ok(mut line) = serde_json::to_vec(report) else {
        return;
    };
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if let Some(fd) = &fd {
        beside.push(SendAncillaryMessage::ScmRights(slice::from_ref(fd)));
    }
    // Some bytes; a socket takes them as a whole.
    let whole = [io::IoSlice::new(&line)];
    let _nobody_reads = sendmsg(stdin(), &whole, &mut beside, SendFlags::NOSIGNAL);
}
