//! `aishd --child`: the process between the daemon and a program that it runs. It has no runtime and no configuration,
//! and holds nothing but its control socket.
//!
//! The main thread makes the surroundings, starts the program and reaps until nothing is left. The other waits for the end
//! of the control socket and then ends the tree.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use rustix::io::{Errno, read};
use rustix::process::{
    DumpableBehavior, Signal, getpid, set_child_subreaper, set_dumpable_behavior, setsid,
};
use rustix::stdio::stdin;
use rustix::thread::set_name;

use super::control_line::{receive, report};
use super::program_start::{limit_memory, reap, start};
use super::spec::{ChildStreams, StartFailure, StartStage, TrampolineJob, TrampolineReport};
use super::{contained, process_tree};

/// The argument that makes this program a trampoline.
pub(super) const ARGUMENT: &str = "--child";
/// From SIGTERM to SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// Between two walks that kill: the first comes soon, because a tree usually ends at once.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// Whether these arguments ask for a trampoline, or for the first process of a contained child.
pub fn is_asked_for(args: impl Iterator<Item = OsString>) -> bool {
    asked_for(args).is_some()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgramRole {
    Trampoline,
    Init,
}

fn asked_for(mut args: impl Iterator<Item = OsString>) -> Option<ProgramRole> {
    let argument = args.nth(1)?;
    let role = if argument == ARGUMENT {
        ProgramRole::Trampoline
    } else if argument == contained::ARGUMENT {
        ProgramRole::Init
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
        Some(ProgramRole::Init) => contained::main(),
        Some(ProgramRole::Trampoline) | None => keep_child(),
    }
}

fn keep_child() -> ExitCode {
    // Any of these may be refused by a sandbox around us; what cannot be done without shows below.
    let _longer_name_in_ps = set_name(c"aish-child");
    let _readable_by_others = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _leader_already = setsid();
    keep_descriptors();
    let (mut job, streams) = match receive() {
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
    if let Some(contained) = &mut job.contained {
        contained.mask_relative_sockets();
        // While there is one thread.
        if let Err(failed) = contained::own_user() {
            report(&TrampolineReport::Failed(failed));
            return ExitCode::SUCCESS;
        }
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

fn keep(job: TrampolineJob, streams: ChildStreams) {
    let started = if job.wall.is_some() {
        start_behind_wall(&job, streams)
    } else {
        start(&job, streams)
    };
    // It may hold secrets, and we may live long.
    drop(job);
    match started {
        Ok(pid) => {
            report(&TrampolineReport::Started { pid, held: None });
            reap(pid);
        }
        Err(failed) => report(&TrampolineReport::Failed(failed)),
    }
}

fn failed(stage: StartStage) -> impl Fn(io::Error) -> StartFailure {
    move |error| StartFailure::of(stage, &error)
}

/// In a thread of its own, which is behind the wall then and ends. This process stays outside: what is within can neither
/// signal it nor look at it.
fn start_behind_wall(job: &TrampolineJob, streams: ChildStreams) -> Result<u32, StartFailure> {
    thread::scope(|scope| {
        let starter = thread::Builder::new().spawn_scoped(scope, || start(job, streams));
        let started = starter.map_err(failed(StartStage::Limits))?.join();
        let started =
            started.unwrap_or_else(|_| Err(failed(StartStage::Kernel)(Errno::NOSYS.into())));
        // From outside: the wall lets nobody limit another process, the thread that starts the program neither.
        started.inspect(|program| limit_memory(*program, &job.limits))
    })
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
