//! Starting a program from the thread that is held to all that the program is to be held to, and reaping it with everything
//! that it leaves.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::fs::Mode;
use rustix::io::{Errno, FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{
    Pid, Resource, Rlimit, WaitOptions, WaitStatus, chdir, getrlimit, prlimit, setrlimit, umask,
    wait,
};
use rustix::thread::set_no_new_privs;

use super::control_line::report;
use super::spec::{
    ChildExit, ChildPrivileges, ChildStreams, KernelLimits, NOTE_FD, StartFailure, StartStage,
    TrampolineJob, TrampolineReport,
};
use super::wall;

/// The trampoline needs some descriptors to look at `/proc`.
const MIN_OPEN_FILES: u64 = 64;

/// Starts the program from this thread, after this thread was held to all that the program is to be held to.
pub(super) fn start(job: &TrampolineJob, streams: ChildStreams) -> Result<u32, StartFailure> {
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
    let [stdin, stdout, stderr] = streams.standard.map(Stdio::from);
    let note = streams.note.as_ref().and_then(note);
    drop(streams.note);
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
    // The program alone holds it from here on.
    drop(note);
    if job.wall.is_none() {
        limit_memory(program, &job.limits);
    }
    // A directory that somebody works in cannot be unmounted.
    let _stays = chdir("/");
    Ok(program)
}

/// The pipe for a note under its number, which the program inherits. Where that cannot be had it has none, and says nothing.
fn note(pipe: &OwnedFd) -> Option<OwnedFd> {
    let numbered = fcntl_dupfd_cloexec(pipe, NOTE_FD).ok()?;
    if numbered.as_raw_fd() != NOTE_FD {
        return None;
    }
    fcntl_setfd(&numbered, FdFlags::empty()).ok()?;
    Some(numbered)
}

fn failed(stage: StartStage) -> impl Fn(io::Error) -> StartFailure {
    move |error| StartFailure::of(stage, &error)
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
pub(super) fn limit_memory(program: u32, limits: &KernelLimits) {
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
