//! `aishd --child`: the process between the daemon and a program that it runs. It has no runtime and no configuration,
//! and holds nothing but its control socket.
//!
//! The main thread makes the surroundings, starts the program and reaps until nothing is left. The other waits for the end
//! of the control socket and then ends the tree.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::slice;
use std::thread;
use std::time::Duration;

use rustix::fs::Mode;
use rustix::io::{Errno, read};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus, chdir, getpid,
    getrlimit, prlimit, set_child_subreaper, set_dumpable_behavior, setrlimit, setsid, umask, wait,
};
use rustix::stdio::stdin;
use rustix::thread::{set_name, set_no_new_privs};

use super::contained::{self, HeldBy};
use super::spec::{
    ChildExit, ChildPrivileges, KernelLimits, StartFailure, StartStage, TrampolineJob,
    TrampolineReport,
};
use super::{MAX_JOB_BYTES, process_tree, wall};

/// The argument that makes this program a trampoline.
pub(super) const ARGUMENT: &str = "--child";
/// From SIGTERM to SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// Between two walks that kill: the first comes soon, because a tree usually ends at once.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);
/// The trampoline needs some descriptors to look at `/proc`.
const MIN_OPEN_FILES: u64 = 64;

/// Whether these arguments ask for a trampoline, or for the first process of a contained child.
pub fn is_asked_for(args: impl Iterator<Item = OsString>) -> bool {
    asked_for(args).is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Trampoline,
    Init,
}

fn asked_for(mut args: impl Iterator<Item = OsString>) -> Option<Role> {
    let argument = args.nth(1)?;
    let role = if argument == ARGUMENT {
        Role::Trampoline
    } else if argument == contained::ARGUMENT {
        Role::Init
    } else {
        return None;
    };
    args.next().is_none().then_some(role)
}

/// Whoever started us may have left descriptors open without a mark; no child of ours gets them.
pub fn keep_descriptors() {
    close_fds::set_fds_cloexec(3, &[]);
}

/// Runs what [`is_asked_for`] found to its end, which comes when nothing of what it started is left.
pub fn main() -> ExitCode {
    match asked_for(std::env::args_os()) {
        Some(Role::Init) => contained::main(),
        Some(Role::Trampoline) | None => keep_child(),
    }
}

fn keep_child() -> ExitCode {
    // Any of these may be refused by a sandbox around us; what cannot be done without shows below.
    let _longer_name_in_ps = set_name(c"aish-child");
    let _readable_by_others = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _leader_already = setsid();
    keep_descriptors();
    let (job, streams) = match receive() {
        Ok(Some(received)) => received,
        // The daemon has gone, or wants it no more.
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            let _nobody_reads = writeln!(
                io::stderr(),
                "aishd: {ARGUMENT} is for aishd itself: {error}"
            );
            return ExitCode::FAILURE;
        }
    };
    if job.contained.is_some()
        // While there is one thread.
        && let Err(failed) = contained::own_user()
    {
        report(&TrampolineReport::Failed(failed));
        return ExitCode::SUCCESS;
    }
    // Before there are limits that could forbid a thread.
    let kind = ChildKind::of(&job);
    let guard = thread::Builder::new().spawn(move || end_with_the_daemon(kind));
    let ready = match (set_child_subreaper(Some(getpid())), guard) {
        (Err(error), _) => Err(failed(StartStage::Limits)(error.into())),
        (Ok(()), Err(error)) => Err(failed(StartStage::Limits)(error)),
        (Ok(()), Ok(_guard)) => Ok(()),
    };
    match (ready, kind) {
        (Err(failed), _) => report(&TrampolineReport::Failed(failed)),
        (Ok(()), ChildKind::Contained) => contained::run(job, streams),
        (Ok(()), ChildKind::Free | ChildKind::BehindWall) => keep(job, streams),
    }
    // Nothing is left, which is all that this says.
    ExitCode::SUCCESS
}

/// Who starts the program, and what its end takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChildKind {
    Free,
    BehindWall,
    /// The kernel ends all of it with the first process of its namespace.
    Contained,
}

impl ChildKind {
    fn of(job: &TrampolineJob) -> Self {
        match (&job.contained, &job.wall) {
            (Some(_), _) => Self::Contained,
            (None, Some(_)) => Self::BehindWall,
            (None, None) => Self::Free,
        }
    }
}

fn keep(job: TrampolineJob, streams: [OwnedFd; 3]) {
    let started = if job.wall.is_some() {
        start_behind_wall(&job, streams)
    } else {
        start(&job, streams)
    };
    // It may hold secrets, and we may live long.
    drop(job);
    match started {
        Ok((pid, held)) => {
            report(&TrampolineReport::Started { pid, held });
            reap(pid);
        }
        Err(failed) => report(&TrampolineReport::Failed(failed)),
    }
}

/// The job and the three streams; `None` when the socket ends before the job does.
pub(super) fn receive() -> io::Result<Option<(TrampolineJob, [OwnedFd; 3])>> {
    let mut line = vec![];
    let mut fds = vec![];
    let mut piece = vec![0; 16 << 10];
    loop {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
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
    let streams = fds
        .try_into()
        .map_err(|_other_number| io::Error::from(Errno::INVAL))?;
    Ok(Some((serde_json::from_slice(&line)?, streams)))
}

fn failed(stage: StartStage) -> impl Fn(io::Error) -> StartFailure {
    move |error| StartFailure::of(stage, &error)
}

/// In a thread of its own, which is behind the wall then and ends. This process stays outside: what is within can neither
/// signal it nor look at it.
fn start_behind_wall(job: &TrampolineJob, streams: [OwnedFd; 3]) -> Result<Started, StartFailure> {
    thread::scope(|scope| {
        let starter = thread::Builder::new().spawn_scoped(scope, || start(job, streams));
        let started = starter.map_err(failed(StartStage::Limits))?.join();
        started.unwrap_or_else(|_| Err(failed(StartStage::Kernel)(Errno::NOSYS.into())))
    })
}

/// The program's process, and by what it is held.
type Started = (u32, Option<HeldBy>);

/// Starts the program from this thread, after this thread was held to all that the program is to be held to.
pub(super) fn start(job: &TrampolineJob, streams: [OwnedFd; 3]) -> Result<Started, StartFailure> {
    let held = match &job.contained {
        Some(_) => Some(contained::hold()?),
        None => None,
    };
    chdir(&job.cwd).map_err(|error| failed(StartStage::Directory)(error.into()))?;
    umask(Mode::from_raw_mode(job.umask & 0o777));
    limit(&job.limits).map_err(|error| failed(StartStage::Limits)(error.into()))?;
    match job.privileges {
        ChildPrivileges::AsUsual => {}
        ChildPrivileges::NoNew => {
            set_no_new_privs(true).map_err(|error| failed(StartStage::Limits)(error.into()))?;
        }
    }
    if let Some(wall) = &job.wall {
        wall::put_up(wall)?;
    }
    let [stdin, stdout, stderr] = streams.map(Stdio::from);
    let mut command = Command::new(&job.program);
    command
        .args(&job.args)
        .env_clear()
        .envs(&job.env)
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        // So that `kill 0` in a script does not reach us.
        .process_group(0);
    let program = command.spawn().map_err(failed(StartStage::Program))?.id();
    limit_memory(program, &job.limits);
    // A directory that somebody works in cannot be unmounted.
    let _stays = chdir("/");
    Ok((program, held))
}

fn limit(limits: &KernelLimits) -> Result<(), Errno> {
    let open_files = limits.open_files.map(|it| it.max(MIN_OPEN_FILES));
    let all = [
        (Resource::Core, Some(0)),
        (Resource::Nofile, open_files),
        (Resource::Fsize, limits.file_bytes),
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Nproc, limits.processes),
    ];
    for (resource, wanted) in all {
        let Some(wanted) = wanted else { continue };
        let allowed = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let new = Some(wanted.min(allowed));
        setrlimit(
            resource,
            Rlimit {
                current: new,
                maximum: new,
            },
        )?;
    }
    Ok(())
}

/// Of the program only, and of what it starts from now on: what we could not have ourselves, we could not end it with.
fn limit_memory(program: u32, limits: &KernelLimits) {
    let (Some(wanted), Some(pid)) = (limits.memory_bytes, pid(program)) else {
        return;
    };
    let wanted = Some(wanted.min(getrlimit(Resource::As).maximum.unwrap_or(u64::MAX)));
    let limit = Rlimit {
        current: wanted,
        maximum: wanted,
    };
    // It may have ended already.
    let _before = prlimit(Some(pid), Resource::As, limit);
}

fn pid(process: u32) -> Option<Pid> {
    i32::try_from(process).ok().and_then(Pid::from_raw)
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

/// Reaps the program and everything that comes to us when its parent dies. Whoever has no child has no descendants: an
/// orphan among them would have become our child.
pub(super) fn reap(program: u32) {
    let program = pid(program);
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == program => {
                report(&TrampolineReport::Ended(exit(status)));
            }
            Ok(_other) => {}
            Err(Errno::INTR) => {}
            Err(_no_child) => return,
        }
    }
}

fn exit(status: WaitStatus) -> ChildExit {
    match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => ChildExit::Code(code),
        (None, Some(signal)) => ChildExit::Signal(signal),
        (None, None) => ChildExit::Unknown,
    }
}

/// Waits for the end of the control socket; then asks all to end, and then forces them, until the main thread finds that
/// nobody is left and ends the process.
fn end_with_the_daemon(kind: ChildKind) {
    let mut nothing_more_is_said = [0; 64];
    while let Ok(1..) | Err(Errno::INTR) = read(stdin(), &mut nothing_more_is_said) {}
    let me = getpid();
    for one in process_tree::below(me) {
        process_tree::send(&one, Signal::TERM);
        // One that was stopped would not hear it.
        process_tree::send(&one, Signal::CONT);
    }
    thread::sleep(TERM_GRACE);
    let mut pause = FIRST_PAUSE;
    loop {
        let killed = match kind {
            ChildKind::Free | ChildKind::BehindWall => {
                process_tree::kill(|| process_tree::below(me))
            }
            ChildKind::Contained => process_tree::kill(|| process_tree::children(me)),
        };
        if killed.ours == 0 && killed.not_ours > 0 {
            return leave();
        }
        thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// All that is left runs as another user, where we can do nothing.
#[expect(
    clippy::disallowed_methods,
    clippy::exit,
    reason = "the main thread waits for those that do not end"
)]
fn leave() {
    std::process::exit(1);
}
